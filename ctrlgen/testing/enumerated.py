"""A plain constraint by enumeration, and a vocabulary to read at a glance."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import UnsatisfiableError
from ctrlgen.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

TOY_TOKENS = (None, b"a", b"b", b"c", b"ab", b"bc", b"abc", b" ", b"\xc3", b"\xa9", None, b"\xc3\xa9")
"""Id 0 ends a text, id 10 is the control token ``<ctl>``; a letter of two bytes comes whole and in halves."""


def toy_vocabulary(
    tokens: Sequence[bytes | None] = TOY_TOKENS, eos: int | Iterable[int] = 0, width: int | None = None
) -> Vocabulary:
    """A vocabulary that can be read at a glance: 12 tokens unless given others.

    Args:
        tokens: bytes of each id; None for control tokens.
        eos: the ids that end a text.
        width: number of columns of the logits; ``len(tokens)`` by default.
    """
    special = {"<ctl>": 10} if tokens is TOY_TOKENS else {}
    return Vocabulary(tokens, eos=eos, special=special, width=width)


class Enumerated:
    """The constraint "one of these texts", by plain enumeration: slow, and right by inspection.

    A state stands for the bytes so far. A token is allowed if the bytes with it begin a text that tokens can finish.

    Args:
        vocabulary: whose tokens.
        texts: the texts; str is encoded as UTF-8.

    Raises:
        UnsatisfiableError: no text can be spelled with the tokens there are.
    """

    def __init__(self, vocabulary: Vocabulary, texts: Iterable[bytes | str]) -> None:
        self.vocabulary = vocabulary
        self.texts = frozenset(text.encode() if isinstance(text, str) else text for text in texts)
        self._prefixes = {text[:n] for text in self.texts for n in range(len(text) + 1)}
        self._known: list[bytes | None] = [None, b""]  # state 0: after the end
        self._state_of = {text: state for state, text in enumerate(self._known)}
        self._tokens_left = cache(self._shortest)
        self.start = 1
        if self._tokens_left(b"") is None:
            raise UnsatisfiableError("none of the texts can be spelled with the tokens of this vocabulary")

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD."""
        text = self._known[state]
        if token in self.vocabulary.eos:
            return 0 if self.accepts(state) else DEAD
        added = self._bytes(token)
        if text is None or not added or self._tokens_left(text + added) is None:
            return DEAD
        if text + added not in self._state_of:
            self._state_of[text + added] = len(self._known)
            self._known.append(text + added)
        return self._state_of[text + added]

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[words], one bit for each token that ``advance`` takes."""
        row = np.zeros(self.vocabulary.words, np.uint32)
        for token in range(self.vocabulary.width):
            if self.advance(state, token) != DEAD:
                row[token // 32] |= np.uint32(1 << token % 32)
        row.flags.writeable = False
        return row

    def accepts(self, state: int) -> bool:
        """Whether the bytes so far are one of the texts."""
        return state == 0 or self._known[state] in self.texts

    def distance(self, state: int) -> int:
        """The fewest tokens to an end, the end token included."""
        text = self._known[state]
        left = 0 if text is None else self._tokens_left(text)
        return 1 + (left or 0)

    def _bytes(self, token: int) -> bytes | None:
        return self.vocabulary.tokens[token] if token < min(len(self.vocabulary), self.vocabulary.width) else None

    def _shortest(self, text: bytes) -> int | None:
        """Fewest text tokens that make ``text`` one of the texts; None if none do."""
        if text not in self._prefixes:
            return None
        if text in self.texts:
            return 0
        after = (text + added for token in range(self.vocabulary.width) if (added := self._bytes(token)))
        lengths = [left for longer in after if (left := self._tokens_left(longer)) is not None]
        return 1 + min(lengths) if lengths else None
