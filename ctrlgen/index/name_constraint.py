"""Names as a Constraint: a text is one of them, however a tokenizer cuts it.

A state is an edge of the trie of names and a depth, packed into one number, so no table of states is kept: memory is
that of rows, which is bounded. A mask is a walk along the trie and the tokens together. Near the root such a walk
touches thousands of nodes; those rows are kept, apart from the many short walks further down, which do not push them
out.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import InputError, UnsatisfiableError, VocabularyError
from ctrlgen.index import name_kernels
from ctrlgen.index.around import NAMED, OVER, TO_NAMES, Around
from ctrlgen.index.compiled import compiled
from ctrlgen.index.name_kernels import AROUND, LOST
from ctrlgen.index.name_tokens import NameTokens

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from ctrlgen.index.name_index import NameIndex
    from ctrlgen.vocabulary import Vocabulary

KEPT = 8
"""Number of compiled constraints kept; the one unused for longest goes first."""

_MANY = 4000  # names
_LONG = 500  # nodes of a walk whose row is worth keeping
_LONG_BYTES, _SHORT_BYTES = 40 << 20, 24 << 20
_MOST_MOVES = 1 << 16

_One = TypeVar("_One")

_kept: OrderedDict[Hashable, Any] = OrderedDict()
_lock = threading.Lock()


class NameConstraint:
    """The constraint of a NameIndex over a vocabulary; made by ``NameIndex.compile``.

    The allowed tokens are exactly those whose bytes some text goes on with; EOS ids exactly where one may end. If the
    vocabulary lacks tokens of single bytes that occur in names, a token is allowed only if tokens can finish
    a name after it; names that no tokens spell cannot come out.
    """

    def __init__(self, index: NameIndex, vocabulary: Vocabulary, around: Around = Around()) -> None:  # noqa: B008
        self.index, self.vocabulary, self.around = index, vocabulary, around
        layout, table = index.layout, around.table()
        _check_following(index, around)
        self._tokens = NameTokens.of(vocabulary, index.alphabet | around.alphabet)
        self._names = layout.walk
        self._table, self._around = table, (table.labels, table.targets)
        self._shift = max(layout.longest, 1).bit_length()
        self._first_around = layout.edges << self._shift
        self._left = self._tokens_left()
        self._work: list[NDArray[np.int32]] = []
        self._eos = frozenset(vocabulary.eos)
        self._rows: dict[int, NDArray[np.uint32]] = {}
        self._long, self._short = 0, deque[int]()
        self._most_long, self._most_short = (
            max(4, most // (4 * vocabulary.words)) for most in (_LONG_BYTES, _SHORT_BYTES)
        )
        self._moves: dict[tuple[int, int], int] = {}
        self._distances: dict[int, int] = {}
        self.start = 0 if table.start == TO_NAMES else self._first_around + table.start
        for state in (self.start, *self._near_the_root()):
            self.mask(state)

    def __repr__(self) -> str:
        return f"NameConstraint({self.index!r}, {self.around!r})" if self.around else f"NameConstraint({self.index!r})"

    # the constraint

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        move = self._moves.get((state, token))
        return self._advance(state, token) if move is None else move

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        row = self._rows.get(state)
        return self._mask(state) if row is None else row

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        edge, depth = self._place(state)
        if edge == AROUND:
            return depth == OVER or (depth == NAMED and self._table.may_end)
        return self._table.may_end and self._ended(edge, depth)

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that suffice to end from here.

        It is that of the tokens of a shortest text in bytes, longest token first; where single bytes are missing in
        the vocabulary, the least there is.
        """
        known = self._distances.get(state)
        if known is None:
            if len(self._distances) >= _MOST_MOVES:
                self._distances.clear()
            known = self._distances[state] = 1 + self._to_the_end(state)
        return known

    def farthest(self, state: int) -> int:
        """A distance that no token allowed in a state exceeds: that of the longest name, byte by byte."""
        del state
        around = max((len(rest) for rest, _ in self._table.rests), default=0)
        return 1 + around + self.index.layout.longest + len(self.around.after)

    @property
    def state_count(self) -> int:
        """States are smaller than this."""
        return self._first_around + len(self._table.rests)

    # inside

    def _place(self, state: int) -> tuple[int, int]:
        """Edge and depth that a state stands for."""
        if not 0 <= state < self.state_count:
            raise InputError(f"{state} is not a state of this constraint")
        if state >= self._first_around:
            return AROUND, state - self._first_around
        return state >> self._shift, state & ((1 << self._shift) - 1)

    def _advance(self, state: int, token: int) -> int:
        if state == DEAD or not 0 <= token < self.vocabulary.width:
            return DEAD
        if token in self._eos:
            return self._first_around + OVER if self.accepts(state) else DEAD
        text = self.vocabulary.tokens[token] if token < len(self.vocabulary.tokens) else None
        if not text:
            return DEAD
        edge, depth = compiled(name_kernels.take_bytes)(
            *self._names, *self._around, *self._place(state), np.frombuffer(text, np.uint8)
        )
        after = DEAD
        if edge == AROUND:
            after = self._first_around + depth
        elif edge != LOST and self._can_finish(edge, depth):
            after = edge << self._shift | depth
        if len(self._moves) >= _MOST_MOVES:
            self._moves.clear()
        self._moves[state, token] = after
        return after

    def _mask(self, state: int) -> NDArray[np.uint32]:
        row = np.zeros(self.vocabulary.words, np.uint32)
        try:
            work = self._work.pop()
        except IndexError:  # another thread has it
            work = np.empty((len(self._tokens.label), 3), np.int32)
        seen = compiled(name_kernels.fill_names)(
            *self._tokens.arrays, *self._names, *self._around, self._left, *self._place(state), row, work
        )
        self._work.append(work)
        if self.accepts(state):
            row |= self.vocabulary.end_row
        row.flags.writeable = False
        with _lock:
            if seen > _LONG and self._long < self._most_long:
                self._long += state not in self._rows
            else:
                self._short.append(state)
                if len(self._short) > self._most_short:
                    self._rows.pop(self._short.popleft(), None)
            self._rows[state] = row
        return row

    def _near_the_root(self) -> list[int]:
        """States below which so many names lie that their rows, too, are better made before they are needed."""
        layout = self.index.layout
        states: list[int] = []
        waiting = [(0, layout.count)]
        while waiting and len(states) < self._most_long // 2:
            edge, stop = waiting.pop()
            if stop - int(layout.lo[edge]) <= _MANY:
                continue
            first, last = int(layout.child[edge]), int(layout.child[edge + 1])
            states += [edge << self._shift | int(layout.branch[edge])] if last > first else []
            bounds = [*layout.lo[first:last].tolist(), stop]
            waiting += [(first + i, bounds[i + 1]) for i in range(last - first)]
        return states

    def _ended(self, edge: int, depth: int) -> bool:
        _, offsets, symbol, lo, child, branch = self._names
        return bool(compiled(name_kernels.ended)(offsets, symbol, lo, child, branch, edge, depth))

    def _can_finish(self, edge: int, depth: int) -> bool:
        _, offsets, _, lo, *_ = self._names
        return not len(self._left) or bool(compiled(name_kernels.can_finish)(offsets, lo, self._left, edge, depth))

    def _tokens_left(self) -> NDArray[np.uint16]:
        """What ``name_kernels.tokens_left`` finds; empty where single bytes can finish any name."""
        alphabet = sorted(self.index.alphabet | self.around.alphabet)
        missing = [byte for byte in alphabet if not self.vocabulary.has_byte[byte]]
        if not missing:
            return np.zeros(0, np.uint16)
        if self.around:
            raise VocabularyError(
                f"the vocabulary has no token of the single byte 0x{missing[0]:02x}, so nothing can stand "
                "around names: leave out before, after and separator, or use another tokenizer"
            )
        layout = self.index.layout
        left = np.empty(len(layout.tokens), np.uint16)
        compiled(name_kernels.tokens_left)(*self._tokens.arrays[:3], layout.tokens, layout.offsets, left)
        at = int(layout.offsets[0])
        if not self._begins_with_an_end() and left[at] == name_kernels.NEVER:
            raise UnsatisfiableError(
                "none of the names can be spelled with the tokens of this vocabulary: "
                f"it has none of the single byte 0x{missing[0]:02x}"
            )
        return left

    def _begins_with_an_end(self) -> bool:
        """Whether a name is empty; it is the first one then."""
        return bool(self.index.layout.offsets[0] == self.index.layout.offsets[1])

    def _to_the_end(self, state: int) -> int:
        """Tokens from a state to the end of a text, EOS not included."""
        edge, depth = self._place(state)
        around, name_follows = (b"", True) if edge != AROUND else self._table.rests[depth]
        if edge == AROUND and not name_follows:
            return self._spelled(around)
        edge, depth = (0, 0) if edge == AROUND else (edge, depth)
        layout = self.index.layout
        if len(self._left):
            at = int(layout.offsets[int(layout.lo[edge])]) + depth
            return 0 if self._ended(edge, depth) else int(self._left[at])
        return self._spelled(around + self.index.rest_below(edge, depth) + self.around.after)

    def _spelled(self, text: bytes) -> int:
        return len(self.vocabulary.encode_greedy(text))


def constraint_of(index: NameIndex, vocabulary: Vocabulary, around: Around = Around()) -> NameConstraint:  # noqa: B008
    """The constraint of names over a vocabulary, made at its first use and kept while it is used."""
    return kept((index.fingerprint, around, vocabulary), lambda: NameConstraint(index, vocabulary, around))


def kept(key: Hashable, make: Callable[[], _One]) -> _One:
    """What ``make`` returned when it was last called for ``key``."""
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            known: _One = _kept[key]
            return known
    made = make()  # outside the lock: another thread may do the same meanwhile, which costs time only
    with _lock:
        found: _One = _kept.setdefault(key, made)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return found


def _check_following(index: NameIndex, around: Around) -> None:
    """Raise if a name goes on with what may follow a name, so that a text could be read in two ways."""
    layout = index.layout
    for byte in sorted(around.following):
        edge = int(compiled(name_kernels.one_that_goes_on)(layout.symbol, layout.child, byte))
        if edge >= 0:
            name = index[int(layout.lo[edge])]
            raise InputError(
                f"the name {name!r} goes on with {chr(byte)!r} where another name ends, and {chr(byte)!r} begins what "
                "follows a name, so that a text could be read in two ways; choose other separators"
            )
