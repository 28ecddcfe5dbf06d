"""Parts of a given sequence of token ids, as a specification.

Of the tokens of a text only those parts can be said that begin and end where its tokens do, cut as they were cut.
``Copy`` allows every part of the text, however the tokenizer cuts it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.constraints.combined import Combinable
from ctrlgen.constraints.copy_units import MAX_COUNT, check_counts
from ctrlgen.errors import InputError, UnsatisfiableError, VocabularyError
from ctrlgen.recent import Recent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

MAX_TOKENS = 1 << 22
_KEPT_BYTES = 16 << 20


@dataclass(frozen=True, init=False)
class CopyTokens(Combinable):
    """The text is a contiguous part of a sequence of tokens, token by token; cannot be combined.

    >>> CopyTokens([5, 6, 7, 6], least=2)
    CopyTokens(4 tokens, least=2)

    Args:
        ids: token ids, as ``tokenizer(text, add_special_tokens=False)["input_ids"]`` gives them, or several such
            sequences, of which a part stands in one.
        least: fewest tokens; 0 lets the part be empty.
        most: most tokens, None for no limit.

    Raises:
        InputError: an argument makes no sense.
        UnsatisfiableError: the longest sequence has fewer tokens.
    """

    ids: tuple[tuple[int, ...], ...]
    least: int
    most: int | None

    def __init__(self, ids: Iterable[Any], *, least: int = 1, most: int | None = None) -> None:
        check_counts(least, most, "tokens")
        sequences = _sequences(ids)
        longest = max(map(len, sequences), default=0)
        if not longest:
            raise UnsatisfiableError("there is nothing to copy: ids has no token")
        if longest < least:
            raise UnsatisfiableError(f"the longest part has {longest} tokens, not {least}: ask for at most {longest}")
        for name, value in (("ids", sequences), ("least", least), ("most", most)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        most = "" if self.most is None else f", most={self.most}"
        return f"CopyTokens({sum(map(len, self.ids))} tokens, least={self.least}{most})"

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``.

        Raises:
            VocabularyError: an id is no text token of the vocabulary; says which, and where.
        """
        from ctrlgen.engine.compiled import kept

        return kept(self, vocabulary, lambda: TokenParts(self, vocabulary))

    def parse(self, text: str) -> str:
        """The text itself."""
        return text


class TokenParts:
    """The constraint of ``CopyTokens``: a state is one of the suffix automaton and a number of tokens.

    The automaton of n tokens is built in time proportional to n; a new state costs its edges and a row.
    """

    def __init__(self, specification: CopyTokens, vocabulary: Vocabulary) -> None:
        from ctrlgen.span_kernel import reached, suffix_automaton

        self.vocabulary = vocabulary
        _check(specification.ids, vocabulary)
        joined: list[int] = []
        for number, ids in enumerate(specification.ids):
            joined += [*ids, -1 - number]  # a symbol of its own, so that no part goes on behind it
        length, sources, symbols, targets = suffix_automaton(np.array(joined[:-1], np.int32))
        order = np.lexsort((symbols, sources))
        sources, symbols, targets = sources[order], symbols[order], targets[order]
        starts = np.searchsorted(sources, np.arange(len(length) + 1)).astype(np.int32)
        # how many tokens can follow each state
        _, self._longest = reached(length, starts, symbols, targets, 0, False)
        within = symbols >= 0
        self._symbols, self._targets = symbols[within], targets[within]
        self._starts = np.searchsorted(sources[within], np.arange(len(length) + 1))
        self._least, self._most = specification.least, specification.most
        self._counts = (self._least if self._most is None else self._most) + 1
        self._eos = frozenset(vocabulary.eos)
        self.start, self._finished = 0, len(length) * self._counts
        self._rows: Recent[int, NDArray[np.uint32]] = Recent(max(_KEPT_BYTES // (4 * vocabulary.words), 64))

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        if state < 0:
            return DEAD
        if token in self._eos:
            return self._finished if self.accepts(state) else DEAD
        if state == self._finished:
            return DEAD
        place, count = divmod(state, self._counts)
        if self._most is not None and count >= self._most:
            return DEAD
        low, high = int(self._starts[place]), int(self._starts[place + 1])
        at = bisect_left(self._symbols, token, low, high)
        if at == high or self._symbols[at] != token:
            return DEAD
        after, count = int(self._targets[at]), min(count + 1, self._counts - 1)
        return DEAD if count + int(self._longest[after]) < self._least else after * self._counts + count

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        if state == self._finished:
            return self.vocabulary.end_row
        row = self._rows.get(state)
        if row is None:
            row = self._row(state)
            row.setflags(write=False)
            self._rows[state] = row
        return row

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return state == self._finished or state % self._counts >= self._least

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here: no fewer do."""
        return 1 if self.accepts(state) else self._least - state % self._counts + 1

    def _row(self, state: int) -> NDArray[np.uint32]:
        place, count = divmod(state, self._counts)
        ids = self._symbols[:0]
        if self._most is None or count < self._most:
            span = slice(self._starts[place], self._starts[place + 1])
            ids = self._symbols[span]
            if count + 1 < self._least:
                ids = ids[count + 1 + self._longest[self._targets[span]] >= self._least]
        ends = self.vocabulary.eos if self.accepts(state) else ()
        if len(ids) <= 32:
            return self.vocabulary.row([*ids.tolist(), *ends])
        bits = np.zeros(32 * self.vocabulary.words, np.bool_)
        bits[ids] = bits[list(ends)] = True
        return np.packbits(bits, bitorder="little").view(np.uint32)


def _sequences(ids: Any) -> tuple[tuple[int, ...], ...]:
    """One or several sequences of ids, from anything that lists them."""
    if isinstance(ids, str | bytes | bytearray):
        raise InputError(
            "ids are token ids, not a text: give tokenizer(text, add_special_tokens=False)['input_ids'], "
            "or copy parts of the text with Copy"
        )
    listed = ids.tolist() if hasattr(ids, "tolist") else ids
    if isinstance(listed, Mapping | Set) or not isinstance(listed, Iterable):
        # neither one number nor what has no order
        raise InputError(f"ids must be a sequence of token ids, or several, not {type(ids).__name__}")
    parts: list[Any] = []
    count = 0
    for one in listed:  # which may never end
        part = one.tolist() if hasattr(one, "tolist") else one
        parts.append(part)
        count += max(len(part), 1) if isinstance(part, list | tuple) else 1
        if count > MAX_TOKENS:
            break
    several = parts if parts and all(isinstance(part, list | tuple) for part in parts) else [parts]
    for place, token in enumerate(token for part in several for token in part):
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < MAX_COUNT:
            raise InputError(f"ids[{place}] is {token!r}, no token id")
    if count > MAX_TOKENS:
        raise InputError(f"more than {MAX_TOKENS} tokens (a fixed limit); copy from fewer")
    return tuple([tuple(part) for part in several])


def _check(sequences: tuple[tuple[int, ...], ...], vocabulary: Vocabulary) -> None:
    """Raise if an id is no text token."""
    tokens, width = vocabulary.tokens, vocabulary.width
    for token in dict.fromkeys(token for ids in sequences for token in ids):
        if token >= width or token >= len(tokens) or tokens[token] is None:
            what = "an end token" if token in vocabulary.eos else "no text token of this vocabulary"
            place = next(i for i, other in enumerate(t for ids in sequences for t in ids) if other == token)
            raise VocabularyError(f"id {token}, at place {place}, is {what}; leave it out (add_special_tokens=False)")
