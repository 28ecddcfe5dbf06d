"""Automata of one vocabulary, kept once for all networks, with the rows of tokens that stay inside them.

A long free string is never walked twice: for each state of an automaton that a text has met, the lexicon keeps
the row of tokens that stay inside it, and a small trie (the *rest* trie) of what may follow it within a token.
"""

from __future__ import annotations

import threading
import weakref
from bisect import bisect_right
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.engine.columns import (
    BOUNDARY,
    COUNTED,
    ENDINGS,
    ENDLESS,
    FINAL,
    LABEL,
    RANGE_HI,
    RANGE_LO,
    REST,
    REST_HI,
    REST_LO,
    UNLIMITED,
    WIDE,
)
from ctrlgen.engine.growing import Growing
from ctrlgen.engine.watching import Watching
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

_BYTES = np.arange(256)
_NO_COUNTS = np.zeros(0, np.uint8)
_RECIPE, _RECIPES, _STEPS, _WALKS, _ITEMS = 4112, 1 << 15, 1 << 19, 1 << 12, 1 << 20  # as ``kernel_recipes`` says
_REACHES = 32, 12, 6  # bytes of tokens that a walk may leave out
_FREE_BYTES = 128  # no state with fewer live bytes reads any text
_ROOM = 1 << 17  # states before the arrays move
_ROOM_FOR_ROWS = 128 << 20  # bytes
LEXICON_ARRAYS = 17
"""Number of ``Lexicon.arrays``."""
MAX_BYTES = 256 << 20  # a lexicon larger than this takes no new constraints: they start a fresh one

_current: weakref.WeakKeyDictionary[Vocabulary, Lexicon] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def lexicon_of(vocabulary: Vocabulary) -> Lexicon:
    """The lexicon that new constraints over this vocabulary share."""
    with _lock:
        lexicon = _current.get(vocabulary)
        if lexicon is None or lexicon.full:
            lexicon = Lexicon(vocabulary)
            lexicon.prepare()
            _current[vocabulary] = lexicon
        return lexicon


class Lexicon:
    """Automata over one vocabulary.

    Attributes:
        lock: held while anything here grows or a kernel runs on it.
        scratch: int64[4096, 3] and twice int64[1024, 2], for kernels; whoever runs one holds ``lock``.
        one: int64[64, 2], the same for what is read at once, mostly one configuration.
        shortest: list of int, for each state the bytes of the shortest way to acceptance.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = vocabulary.trie
        self.special, self.eos, self.width = vocabulary.special, vocabulary.eos, vocabulary.width
        self.tokens, self.longest, self.words = vocabulary.tokens, max(trie.longest, 1), vocabulary.words
        if self.longest > 500:
            raise ComplexityError(f"the longest token has {self.longest} bytes; the mask engine takes at most 500")
        self.has_byte = np.asarray(vocabulary.has_byte, bool)
        self.all_bytes = bool(self.has_byte.all())
        self.lock = threading.RLock()
        self._starts: dict[tuple[str, bool], int] = {}
        self._finite: dict[int, bool] = {}
        self.beginnings: dict[Any, Any] = {}  # what networks begin with, by the kind of network
        quotes = [token.count(b'"') if token else 0 for token in vocabulary.tokens]
        self.many_quotes = np.flatnonzero(np.asarray(quotes, np.int64) >= 3)
        self._trie = Growing(self._moved, 6, np.int32, 2 * len(trie.nodes))
        self._trie.extend(trie.nodes)
        self._trie_tokens = Growing(self._moved, 1, np.int32, max(4 * len(trie.tokens), 64))
        self._trie_tokens.extend(trie.tokens.reshape(-1, 1))
        self._children = trie.children
        ends = np.cumsum([0, *[len(token or b"") for token in vocabulary.tokens]])
        spelled = np.frombuffer(b"".join([token or b"" for token in vocabulary.tokens]) or b"\0", np.uint8)
        self._spelled = spelled, ends.astype(np.int64)
        self._recipes = (
            np.zeros(_RECIPE, np.int64),
            np.full((_RECIPES, 4), -1, np.int64),
            np.empty(_STEPS, np.int64),
            np.full((_WALKS, 4), -1, np.int64),
            np.empty(_ITEMS, np.int32),
        )
        self._step = Growing(self._moved, 256, np.int32, _ROOM)
        self._states = Growing(self._moved, 11, np.int32, _ROOM)
        self._ranges = Growing(self._moved, 3, np.int32, 4 * _ROOM)
        self._row_of = Growing(self._moved, 1, np.int32, _ROOM)
        self._inside = Growing(self._moved, self.words, np.uint32, max(8, _ROOM_FOR_ROWS // (4 * self.words)))
        self._counted = Growing(self._moved, self.longest + 1, np.int32, 16)
        self._rests = Growing(self._moved, 2, np.int32)
        self._counts: dict[int, NDArray[np.uint8]] = {}
        self._exits: dict[int, NDArray[np.int32]] = {}
        self._arrays: tuple[NDArray[Any], ...] | None = None
        self._table: NDArray[np.int64] | None = None
        self.table_bytes = b""  # of the table as it was asked for last
        self._spans: list[int] = []  # the first state of each automaton
        self._below = tuple(np.empty(len(trie.nodes), kind) for kind in (np.uint64, np.int8, np.int16))
        self._look_below()
        self._room_for_exits = np.empty((4096, 3), np.int32)
        self._free: tuple[NDArray[np.uint32], int] | None = None
        self.scratch = np.empty((4096, 3), np.int64), np.empty((1024, 2), np.int64), np.empty((1024, 2), np.int64)
        self.one = np.empty((64, 2), np.int64)
        self.shortest: list[int] = []
        self._whole: list[bool] = []
        self._watching = Watching(self)
        self._ways: dict[int, list[tuple[int, int]]] = {}

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels read: ``kernel_table.LEXICON_COLUMNS``."""
        if self._arrays is None:
            self._arrays = (
                self._trie.array,
                self._trie_tokens.array[:, 0],
                self._children,
                self._step.array,
                self._states.array,
                self._ranges.array,
                self._row_of.array[:, 0],
                self._inside.array,
                self._counted.array,
                self._rests.array,
                *self._spelled,
                *self._recipes,
            )
        return self._arrays

    def _moved(self, _: int) -> None:
        self._arrays = self._table = None

    @property
    def table(self) -> NDArray[np.int64]:
        """Addresses and shapes of ``arrays``; a new one whenever one of them has moved."""
        if self._table is None:
            from ctrlgen.engine.kernel_table import LEXICON_COLUMNS, table_of

            self._table = table_of(LEXICON_COLUMNS, self.arrays)
            self.table_bytes = self._table.tobytes()
        return self._table

    @property
    def nbytes(self) -> int:
        """Bytes held, the vocabulary's own trie included."""
        growing = self._trie, self._trie_tokens, self._step, self._states, self._ranges, self._row_of, self._inside
        used = sum(array.used for array in (*growing, self._counted, self._rests)) + self._children.nbytes
        return used + sum(counts.nbytes for counts in self._counts.values())

    @property
    def full(self) -> bool:
        """Whether new constraints had better start afresh; by what grows most."""
        states, counts = self._step.n * (4 * 256 + 64), len(self._counts) * 32 * self.words
        return states + self._inside.used + counts > MAX_BYTES

    @property
    def automata_bytes(self) -> int:
        """Bytes held for the states of automata, without rows."""
        return sum(array.used for array in (self._step, self._states, self._ranges, self._row_of))

    def enter(self, automaton: Automaton) -> int:
        """The start state of an automaton, which is taken in at its first use."""
        with self.lock:
            key = automaton.signature, False
            if key not in self._starts:
                self._starts[key] = self._take_in(automaton)
                automaton.fold()  # it is here now
            return self._starts[key]

    def enter_names(self, automaton: Automaton) -> int:
        """The same for names with their closing quote, after which comes a byte that says of which class a name is.

        That byte, below 32, is never read: the state before it accepts, and its label is the class.
        """
        with self.lock:
            key = automaton.signature, True
            if key not in self._starts:
                table, accepting = automaton.next.copy(), automaton.accepting.copy()
                ends = (table[:, :32] >= 0).any(1)
                labels = np.where(ends, (table[:, :32] >= 0).argmax(1), -1).astype(np.int32)
                table[ends], accepting[:] = -1, ends
                start = self._take_in(Automaton.from_columns(table, _BYTES, accepting, automaton.boundary))
                span = self._states.array[start : start + len(table)]
                endings = automaton.endings(ENDLESS)
                span[:, LABEL], span[:, ENDINGS] = labels, np.where(endings < 0, ENDLESS, endings)
                self._starts[key] = start
                automaton.fold()
            return self._starts[key]

    def finite(self, start: int, states: int) -> bool:
        """Whether after some beginnings only a few of the names of ``enter_names`` are left."""
        if start not in self._finite:
            span = self._states.array[start : start + states]
            few = (span[:, ENDINGS] < ENDLESS) & (span[:, RANGE_HI] > span[:, RANGE_LO])
            self._finite[start] = bool(few.any())
        return self._finite[start]

    def span(self, state: int) -> tuple[int, int]:
        """The first state of the automaton that a state is of, and the number of its states."""
        number = bisect_right(self._spans, state)
        end = self._spans[number] if number < len(self._spans) else self._step.n
        return self._spans[number - 1], end - self._spans[number - 1]

    def takes(self, state: int, text: bytes) -> bool:
        """Whether the automaton accepts after ``text``."""
        for byte in text:
            state = int(self._step.array[state, byte])
            if state < 0:
                return False
        return self.final(state)

    def label(self, state: int) -> int:
        """The class of a name that ends in this state."""
        return int(self._states.array[state, LABEL])

    def complete(self, start: int) -> bool:
        """Whether each state can be finished with tokens of one byte, so that no token leads to a dead end."""
        return self._whole[start]

    def step(self, state: int, byte: int) -> int:
        """The state after one byte, or -1."""
        return int(self._step.array[state, byte])

    def final(self, state: int) -> bool:
        """Whether the automaton accepts in this state."""
        return bool(self._states.array[state, FINAL])

    def shortest_byte(self, state: int) -> int:
        """The byte (least of several) on the shortest way to acceptance."""
        want = self.shortest[state] - 1
        ways = [byte for byte, target in self.ways(state) if self.shortest[target] == want]
        return next((byte for byte in ways if self.has_byte[byte]), ways[0])

    def ways(self, state: int) -> list[tuple[int, int]]:
        """(byte, state after it) for each possible byte; kept, since names ask again and again."""
        if state not in self._ways:
            row = self._step.array[state]
            self._ways[state] = [(byte, int(row[byte])) for byte in np.flatnonzero(row >= 0).tolist()]
        return self._ways[state]

    def boundary(self, state: int) -> bool:
        """Whether the bytes so far end on a whole character."""
        return bool(self._states.array[state, BOUNDARY])

    def _take_in(self, automaton: Automaton) -> int:
        from ctrlgen.engine.kernel_lexemes import count_ranges, take_in

        # all that can take long or fail comes first, so that an interrupt leaves the lexicon as it was
        columns, classes, accepting, size = automaton.columns, automaton.classes, automaton.accepting, len(automaton)
        runs = np.append(np.flatnonzero(np.diff(classes, prepend=-1)), 256)  # of bytes of one class
        first, ranges = self._step.n, int(count_ranges(columns, classes, runs))
        shortest = _distances(columns, accepting)
        whole = self.all_bytes
        if not whole:
            with_bytes_there_are = _distances(columns[:, np.unique(classes[self.has_byte])], accepting)
            # of names the state after the byte that says their class is never reached: it leads nowhere in any case
            whole = all(some >= 0 or every < 0 for some, every in zip(with_bytes_there_are, shortest, strict=True))
            shortest = with_bytes_there_are if whole else shortest
        # should one be interrupted all the same, those before it have grown by rows that nothing refers to
        del self.shortest[first:], self._whole[first:]
        for growing in (self._step, self._states, self._row_of):
            growing.n = first
        self.shortest += shortest
        self._whole += [whole] * size
        first_range = self._ranges.grow(ranges)
        for growing in (self._states, self._row_of, self._step):
            growing.grow(size)
        step, states, all_ranges, row_of = self._step, self._states, self._ranges, self._row_of
        take_in(
            columns, classes, runs, accepting, automaton.boundary, first, first_range,
            step.array, states.array, all_ranges.array, row_of.array[:, 0],
        )  # fmt: skip
        while self._spans and self._spans[-1] >= first:
            self._spans.pop()
        self._spans.append(first)
        return first

    def provide_row(self, state: int, most: int) -> None:
        """Compute the row of tokens inside the automaton from state, of at most ``most`` characters."""
        if most == UNLIMITED:
            self._walk(state)
            return
        if state not in self._counts:
            self._counts[state] = np.full(self.words * 32, 255, np.uint8)
            self.walk(0, state, np.zeros(self.words, np.uint32), self._counts[state])
        bits = self._counts[state] <= most
        row = np.packbits(bits, bitorder="little").view(np.uint32)
        counted = int(self._states.array[state, COUNTED])
        if counted < 0:
            counted = self._counted.extend(np.full((1, self.longest + 1), -1, np.int32))
            self._states.array[state, COUNTED] = counted
        self._counted.array[counted, most] = self._inside.extend(row.reshape(1, -1))

    def provide_rest(self, state: int) -> None:
        """Compute the trie of what may follow the automaton within a token."""
        exits = self._exits_of(state)
        self._states.array[state, REST] = self._rest_trie(exits[:, 0]) if len(exits) else -1

    def provide_counted_rest(self, state: int) -> None:
        """The same, one trie for each number of characters before the end; of names, for each class."""
        exits = self._exits_of(state)
        kinds = exits[:, 2] if (exits[:, 2] >= 0).any() else exits[:, 1]
        tries = [(kind, self._rest_trie(exits[kinds == kind, 0])) for kind in np.unique(kinds).tolist()]
        low = self._rests.extend(np.asarray(tries, np.int32).reshape(-1, 2))
        self._states.array[state, REST_LO], self._states.array[state, REST_HI] = low, self._rests.n

    def _exits_of(self, state: int) -> NDArray[np.int32]:
        if state not in self._exits:
            if self._watching.fits(state) and self._watching.ends_anywhere(state):
                self._exits[state] = self.walk(0, state, np.zeros(self.words, np.uint32))
            else:
                self._walk(state)
        return self._exits[state]

    def _walk(self, state: int) -> None:
        """Note the row of tokens that stay inside the automaton from ``state``, and its exits.

        A state that reads any text without quotes and backslashes has the row of those tokens, and only the others are
        walked: a tenth of a vocabulary or less.
        """
        exits = None
        if self._reads_free_text(state):
            tokens, others = self._free_tokens()
            row = tokens.copy()
            exits = self.walk(others, state, row)
        elif self._watching.fits(state):
            row, exits = self._watching.walked(state)
            if self._watching.ends_anywhere(state):
                exits = None
        else:
            row = np.zeros(self.words, np.uint32)
            exits = self._walk_tame(state, row) if self._live(state) > WIDE else self.walk(0, state, row)
        if exits is not None:
            self._exits[state] = exits
        self._row_of.array[state, 0] = self._inside.extend(row.reshape(1, -1))

    def _walk_tame(self, state: int, row: NDArray[np.uint32]) -> NDArray[np.int32]:
        """``walk`` from the root, without what is below nodes where all tokens stay inside."""
        from ctrlgen.engine.kernel_tame import LETTERS, tame, walk_tame

        trie, tokens, _, step, states = self.arrays[:5]
        first, count = self.span(state)
        levels = np.empty((count, len(utf8())), np.int32)
        for reach in _REACHES:
            good = tame(step, states, first, count, state, utf8(), byte_classes(), reach, levels)
            if good >> LETTERS & 1:
                break
        else:  # no other class of bytes makes up enough tokens
            return self.walk(0, state, row)
        known, found = (np.uint64(good), reach, levels), self._room_for_exits
        while True:
            n = walk_tame(trie, tokens, step, states, first, state, *self._below, *known, row, found)
            if n <= len(found):
                return found[:n].copy()
            found = np.empty((n, 3), np.int32)

    def _live(self, state: int) -> int:
        """Number of bytes that a state reads."""
        low, high = self._states.array[state, RANGE_LO], self._states.array[state, RANGE_HI]
        ranges = self._ranges.array[low:high]
        return int((ranges[:, 1] - ranges[:, 0]).sum()) + len(ranges)

    def _reads_free_text(self, state: int) -> bool:
        from ctrlgen.engine.kernel_lexemes import endures

        first, count = self.span(state)
        enough = self._live(state) >= _FREE_BYTES
        return enough and bool(endures(self._step.array, first, count, state, _free_text(), self.longest))

    def prepare(self) -> None:
        """Walk the whole vocabulary once, for what most constraints need, before a step does."""
        with self.lock:
            self._free_tokens()

    def _free_tokens(self) -> tuple[NDArray[np.uint32], int]:
        """Row of the tokens without quotes, backslashes and control characters; root of the trie of all others."""
        if self._free is None:
            table = _free_text()
            everywhere = np.ones(len(table), bool)
            start = self._take_in(Automaton.from_columns(table, _BYTES, everywhere, everywhere))
            row = np.zeros(self.words, np.uint32)
            self.walk(0, start, row)
            self._free = row, self.trie_without(row)
        return self._free

    def _look_below(self) -> None:
        from ctrlgen.engine.kernel_tame import classes_below

        classes_below(self._trie.array, utf8(), byte_classes(), *self._below)

    def trie_without(self, row: NDArray[np.uint32]) -> int:
        """The root of the trie of all tokens that are not in a row; whoever calls holds the lock."""
        from ctrlgen.engine.kernel_lexemes import without

        trie, tokens = self._trie.array, self._trie_tokens.array[:, 0]
        nodes, flat = np.empty((int(trie[0, 1]), 6), np.int32), np.empty(len(tokens), np.int32)
        size, used = without(trie, tokens, row, self._trie.n, self._trie_tokens.n, nodes, flat)
        root = self._trie.extend(nodes[:size])
        self._trie_tokens.extend(flat[:used].reshape(-1, 1))
        return root

    def walk(
        self,
        root: int,
        state: int,
        row: NDArray[np.uint32],
        counts: NDArray[np.uint8] = _NO_COUNTS,
        *,
        exits: bool = True,
    ) -> NDArray[np.int32]:
        """Set the bits of row for tokens below trie node ``root``; the exits, if they are wanted."""
        from ctrlgen.engine.kernel_lexemes import walk_automaton

        trie, tokens, children, step, states, ranges = self.arrays[:6]
        found = self._room_for_exits if exits else self._room_for_exits[:0]
        while True:
            n = walk_automaton(trie, tokens, children, step, states, ranges, root, state, row, found, counts)
            if n <= len(found) or not exits:
                return found[:n].copy()
            found = np.empty((n, 3), np.int32)

    def _rest_trie(self, exits: NDArray[np.int32]) -> int:
        """Merge what follows the given trie nodes within tokens into one trie; its root."""
        from ctrlgen.engine.kernel_lexemes import merge_below

        trie, tokens = self._trie.array, self._trie_tokens.array[:, 0]
        first, at = self._trie.n, self._trie_tokens.n
        exits = np.ascontiguousarray(exits)
        rooms = int((trie[exits, 1] - exits).sum()) + 1, int((trie[trie[exits, 1] - 1, 3] - trie[exits, 2]).sum())
        nodes, flat = np.empty((rooms[0], 6), np.int32), np.empty(rooms[1], np.int32)
        size, used = merge_below(trie, tokens, exits, len(exits), first, at, nodes, flat)
        self._trie.extend(nodes[:size])
        self._trie_tokens.extend(flat[:used].reshape(-1, 1))
        return first


def _distances(columns: NDArray[np.int32], accepting: NDArray[np.bool_]) -> list[int]:
    """Fewest bytes from each state to acceptance, -1 where there is no way."""
    from ctrlgen.engine.kernel_lexemes import distances

    out = np.empty(len(columns), np.int32)
    columns = np.ascontiguousarray(columns)
    columns.setflags(write=False)  # as those of automata
    distances(columns, accepting, out)
    ways: list[int] = out.tolist()
    return ways


@cache
def _free_text() -> NDArray[np.int32]:
    """UTF-8 text without control characters, quotes and backslashes; int32[S, 256], state 0 between characters."""
    table = Automaton.anything().next.copy()
    table[0, :32] = table[0, [0x22, 0x5C]] = -1
    return table


@cache
def utf8() -> NDArray[np.int32]:
    """UTF-8; int32[S, 256], state 0 between characters."""
    return np.ascontiguousarray(Automaton.anything().next)


@cache
def byte_classes() -> NDArray[np.int64]:
    """The class of each byte, as ``kernel_tame`` tells them apart; int64[256]."""
    from ctrlgen.engine.kernel_tame import BEYOND

    classes = np.full(256, BEYOND, np.int64)
    classes[:128] = 3
    ranges = ("a", "z"), ("A", "Z"), ("0", "9")
    for number, (low, high) in enumerate(ranges):
        classes[ord(low) : ord(high) + 1] = number
    others = [byte for byte in range(0x20, 0x7F) if classes[byte] == 3]
    classes[others] = np.arange(len(others)) + 4
    return classes
