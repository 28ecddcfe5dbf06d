"""The guard as a Constraint: free text in which only listed packages are installed."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.engine.distinct import rows_of
from ctrlgen.engine.levels import levels_of
from ctrlgen.errors import VocabularyError
from ctrlgen.recent import Numbered, Recent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ctrlgen.engine.levels import Levels
    from ctrlgen.guard.scanner import Scanner
    from ctrlgen.index.name_index import NameIndex
    from ctrlgen.vocabulary import Vocabulary

Position = tuple[int, ...]
"""State of the scanner, edge and depth among the names, bits: see ``ctrlgen.guard.guard_kernel``."""

FINISHED = 0
_MOST_ROWS = 4096
_MOST_MOVES = 1 << 18
_MOST_CONTEXT = 4096  # bytes, of which the last line is what matters


class GuardConstraint:
    """All text is allowed but names after commands that are not on the list; made by ``PackageGuard.compile``.

    Control tokens are allowed everywhere and change nothing, since a decoder may drop them. A text may end wherever no
    name is unfinished.

    Raises:
        VocabularyError: bytes that names use are no tokens, so that a name could be begun and not be finished.
    """

    may_be_cut = True
    origin: Position = (0, 0, 0, 0)
    """The position at the start of a text."""

    def __init__(self, scanner: Scanner, index: NameIndex, vocabulary: Vocabulary) -> None:
        self.scanner, self.index, self.vocabulary = scanner, index, vocabulary
        self._require(index.alphabet)
        self._tables, self._names = scanner.tables, index.layout.walk
        self._eos = frozenset(vocabulary.eos)
        self._controls = frozenset(t for t in vocabulary.special.values() if t < vocabulary.width) - self._eos
        self._control_row = vocabulary.row(self._controls)
        self._positions: Numbered[Position] = Numbered((-1, *self.origin[1:]))
        self._moves: dict[tuple[int, int], int] = {}
        self._farthest: dict[int, int] = {}
        self._rows: Recent[int, NDArray[np.uint32]] = Recent(_MOST_ROWS)
        self._distinct = rows_of(vocabulary)
        self._distinct.held_by(self)
        self.start = self._positions.number(self.origin)

    def after(self, context: str) -> GuardConstraint:
        """The same constraint, for a text that follows ``context``; shares all that this one has found out.

        What the guard would refuse in the context is taken for free text.
        """
        position = self.origin
        for byte in context.encode(errors="replace")[-_MOST_CONTEXT:]:
            position = self._step(position, bytes([byte])) or self.origin
        other = copy(self)
        other.start = self._positions.number(position)
        self._distinct.held_by(other)
        return other

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        move = self._moves.get((state, token))
        return self._advance(state, token) if move is None else move

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        row = self._rows.get(state)
        return self._mask(state) if row is None else row

    def accepts(self, state: int) -> bool:
        """Whether the text may end here: no name is unfinished."""
        return state == FINISHED or self._finished(state)

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that suffice to end: of the rest of a short name, longest token first."""
        if self.accepts(state):
            return 1
        return 1 + len(self.vocabulary.encode_greedy(self.rest(state)))

    def farthest(self, state: int) -> int:
        """A distance that no token allowed in a state exceeds, control tokens included, which change nothing."""
        if state not in self._farthest:
            self._mask(state)
        return self._farthest[state]

    def levels(self, state: int) -> Levels:
        """How many tokens suffice after each text token that a state allows: of names, one for each byte of the rest.

        The first token of the short way to the end counts exactly, so that one is always nearer.
        """
        left = np.zeros(0, np.int32) if state == FINISHED else self._lengths(state)
        distances, group = np.unique(np.append(np.int32(0), left), return_inverse=True)
        rest = self.rest(state)
        first = self.vocabulary.encode_greedy(rest)[:1] if rest else []
        alone = {token: self.distance(self.advance(state, token)) for token in first}
        return levels_of([(group[1:].astype(np.uint16), distances.astype(np.int64))], alone)

    def rest(self, state: int) -> bytes:
        """The bytes that finish the name that is being written; empty outside of names."""
        if self.accepts(state):
            return b""
        s, e, d, *_ = self._positions[state]
        if e < 0:
            return self.scanner.others[s]  # what is no name may only become something else
        return self.index.rest_below(e, d)

    def in_name(self, state: int) -> bool:
        """Whether the text so far ends within a name, whole or not."""
        return state != FINISHED and bool(self.scanner.in_name[self._positions[state][0]])

    def name_before(self, text: bytes, state: int) -> bytes:
        """The bytes of the name at the end of ``text``, which led to ``state``; empty outside of names."""
        if not self.in_name(state):
            return b""
        begin = len(text)
        while begin and (self.scanner.fold[text[begin - 1]] >= 0 or text[begin - 1] >= 0x80):
            begin -= 1
        return text[begin:]

    def forget_rows(self) -> None:
        """Let go of all rows; they are computed again when needed."""
        self._rows = Recent(_MOST_ROWS)

    def _require(self, alphabet: Iterable[int]) -> None:
        missing = [byte for byte in sorted(alphabet) if not self.vocabulary.has_byte[byte]]
        if missing:
            raise VocabularyError(
                f"the vocabulary has no token of the single byte 0x{missing[0]:02x}, which occurs in names, so a name "
                "could be begun that no token finishes; use a tokenizer with all bytes"
            )

    def _finished(self, state: int) -> bool:
        s, e, d, bits, *_ = self._positions[state]
        return not self.scanner.in_name[s] or self._complete(self.index, e, d, bits)

    @staticmethod
    def _complete(index: NameIndex, e: int, d: int, bits: int) -> bool:
        from ctrlgen.guard.guard_kernel import complete

        return bool(complete(index.layout.walk, e, d, bits))

    def _advance(self, state: int, token: int) -> int:
        if state < 0 or not 0 <= token < self.vocabulary.width:
            return DEAD
        if token in self._eos:
            return FINISHED if self.accepts(state) else DEAD
        if state == FINISHED:
            return DEAD
        if token in self._controls:
            return state
        text = self.vocabulary.tokens[token] if token < len(self.vocabulary.tokens) else None
        if not text:
            return DEAD
        found = self._step(self._positions[state], text)
        after = DEAD if found is None else self._positions.number(found)
        if len(self._moves) >= _MOST_MOVES:
            self._moves = {}
        self._moves[state, token] = after
        return after

    def _mask(self, state: int) -> NDArray[np.uint32]:
        if state == FINISHED:
            self._farthest[state] = 0
            return self.vocabulary.end_row
        left = self._lengths(state)
        self._farthest[state] = max(int(left.max(initial=0)), self.distance(state))
        row = self._control_row | np.packbits(left > 0, bitorder="little").view(np.uint32)
        if self.accepts(state):
            row |= self.vocabulary.end_row
        row = self._rows[state] = self._distinct.share(row)
        return row

    def _lengths(self, state: int) -> NDArray[np.int32]:
        """int32[32 * words]: of each text token that is allowed what ``guard_kernel.lengths`` says; 0 of all others."""
        left = np.zeros(32 * self.vocabulary.words, np.int32)
        self._measure(self._positions[state], left)
        return left

    def _step(self, position: Position, text: bytes) -> Position | None:
        """The position after some bytes, None if one is refused."""
        from ctrlgen.guard.guard_kernel import take_text

        found = take_text(self._tables, self._names, self.scanner.joins, *position, np.frombuffer(text, np.uint8))
        return None if found[0] < 0 else tuple(map(int, found))

    def _measure(self, position: Position, left: NDArray[np.int32]) -> None:
        from ctrlgen.guard.guard_kernel import lengths

        trie = self.vocabulary.trie
        lengths(
            self._tables, self._names, self.scanner.joins, self.index.layout.shortest, trie.nodes, trie.tokens,
            trie.longest, *position, left,
        )  # fmt: skip
