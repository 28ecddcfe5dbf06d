"""Automata of one vocabulary, kept once for all networks, with the rows of tokens that stay inside them.

A long free string is never walked twice: for each state of an automaton that a text has met, the lexicon keeps
the row of tokens that stay inside it, and a small trie (the *rest* trie) of what may follow it within a token.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from ctrlgen.automaton import Automaton
    from ctrlgen.vocabulary import Vocabulary

FINAL, BOUNDARY, LEAF, RANGE_LO, RANGE_HI, REST, REST_LO, REST_HI, COUNTED = range(9)
UNLIMITED = 255
MAX_BYTES = 256 << 20  # a lexicon larger than this takes no new constraints: they start a fresh one

_current: weakref.WeakKeyDictionary[Vocabulary, Lexicon] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def lexicon_of(vocabulary: Vocabulary) -> Lexicon:
    """The lexicon that new constraints over this vocabulary share."""
    with _lock:
        lexicon = _current.get(vocabulary)
        if lexicon is None or lexicon.nbytes > MAX_BYTES:
            lexicon = _current[vocabulary] = Lexicon(vocabulary)
        return lexicon


class Growing:
    """An array that grows by doubling; ``array`` is its full allocation, ``n`` the rows in use.

    ``moved`` is called whenever ``array`` becomes another object.
    """

    def __init__(self, moved: Callable[[], None], columns: int, dtype: Any, rows: int = 64, fill: int = 0) -> None:
        self.n = 0
        self._moved, self._fill = moved, fill
        self.array: NDArray[Any] = np.full((rows, columns), fill, dtype)

    def extend(self, rows: NDArray[Any]) -> int:
        """Append rows; the index of the first."""
        first, self.n = self.n, self.n + len(rows)
        if self.n > len(self.array):
            more = np.full((max(self.n, 2 * len(self.array)), self.array.shape[1]), self._fill, self.array.dtype)
            more[:first] = self.array[:first]
            self.array = more
            self._moved()
        self.array[first : self.n] = rows
        return first


class Lexicon:
    """Automata over one vocabulary.

    Attributes:
        lock: held while anything here grows or a kernel runs on it.
        shortest: list of int, for each state the bytes of the shortest way to acceptance.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        trie = vocabulary.trie
        self.tokens, self.longest, self.words = vocabulary.tokens, max(trie.longest, 1), vocabulary.words
        if self.longest > 500:
            raise ComplexityError(f"the longest token has {self.longest} bytes; the mask engine takes at most 500")
        self.has_byte = np.asarray(vocabulary.has_byte, bool)
        self.lock = threading.RLock()
        self._starts: dict[str, int] = {}
        self._trie = Growing(self._moved, 6, np.int32, len(trie.nodes))
        self._trie.extend(trie.nodes)
        self._trie_tokens = Growing(self._moved, 1, np.int32, max(len(trie.tokens), 1))
        self._trie_tokens.extend(trie.tokens.reshape(-1, 1))
        self._children = trie.children
        self._step = Growing(self._moved, 256, np.int32, fill=-1)
        self._states = Growing(self._moved, 9, np.int32)
        self._ranges = Growing(self._moved, 3, np.int32)
        self._row_of = Growing(self._moved, 1, np.int32, fill=-1)
        self._inside = Growing(self._moved, self.words, np.uint32, 8)
        self._counted = Growing(self._moved, self.longest + 1, np.int32, 1, fill=-1)
        self._rests = Growing(self._moved, 2, np.int32)
        self._counts: dict[int, NDArray[np.uint8]] = {}
        self._exits: dict[int, NDArray[np.int32]] = {}
        self._arrays: tuple[NDArray[Any], ...] | None = None
        self.shortest: list[int] = []
        self._whole: list[bool] = []
        self._ways: dict[int, list[tuple[int, int]]] = {}

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels read: the first ten of ``kernel_table.COLUMNS``."""
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
            )
        return self._arrays

    def _moved(self) -> None:
        self._arrays = None

    @property
    def nbytes(self) -> int:
        """Bytes held, the vocabulary's own trie included."""
        return sum(a.nbytes for a in self.arrays) + sum(a.nbytes for a in self._counts.values())

    def enter(self, automaton: Automaton) -> int:
        """The start state of an automaton, which is taken in at its first use."""
        with self.lock:
            start = self._starts.get(automaton.signature)
            if start is None:
                start = self._starts[automaton.signature] = self._take_in(automaton)
            return start

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
        return next(byte for byte, target in self.ways(state) if self.shortest[target] == want)

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
        # all that can take long or fail comes first, so that an interrupt leaves the lexicon as it was
        step, accepting = automaton.next, automaton.accepting
        first, alive = self._step.n, step >= 0
        source, low, high = _ranges(step)
        ranges = np.stack([low, high, step[source, low] + first], 1).astype(np.int32)
        at = self._ranges.n + np.searchsorted(source, np.arange(len(step) + 1))
        states = np.full((len(step), 9), -1, np.int32)
        states[:, FINAL], states[:, BOUNDARY] = accepting, automaton.boundary
        states[:, LEAF] = accepting & ~alive.any(1)
        states[:, RANGE_LO], states[:, RANGE_HI] = at[:-1], at[1:]
        states[:, REST] = -2
        moved = np.where(alive, step + first, -1).astype(np.int32)
        shortest = _distances(step, accepting)
        whole = bool(self.has_byte.all()) or -1 not in _distances(step[:, self.has_byte], accepting)
        # should one be interrupted all the same, those before it have grown by rows that nothing refers to
        del self.shortest[first:], self._whole[first:]
        for growing in (self._step, self._states, self._row_of):
            growing.n = first
        self.shortest += shortest
        self._whole += [whole] * len(step)
        self._ranges.extend(ranges)
        self._states.extend(states)
        self._row_of.extend(np.full((len(step), 1), -1, np.int32))
        self._step.extend(moved)
        return first

    def provide_row(self, state: int, most: int) -> None:
        """Compute the row of tokens inside the automaton from state, of at most ``most`` characters."""
        if most == UNLIMITED:
            row = self._walk(state)
            self._row_of.array[state, 0] = self._inside.extend(row.reshape(1, -1))
            return
        if state not in self._counts:
            self._walk(state, keep=True)
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
        self._states.array[state, REST] = self._rest_trie(exits[:, 0].tolist()) if len(exits) else -1

    def provide_counted_rest(self, state: int) -> None:
        """The same, one trie for each number of characters before the end."""
        exits = self._exits_of(state)
        tries = [
            (count, self._rest_trie(exits[exits[:, 1] == count, 0].tolist()))
            for count in np.unique(exits[:, 1]).tolist()
        ]
        low = self._rests.extend(np.asarray(tries, np.int32).reshape(-1, 2))
        self._states.array[state, REST_LO], self._states.array[state, REST_HI] = low, self._rests.n

    def _exits_of(self, state: int) -> NDArray[np.int32]:
        if state not in self._exits:
            self._walk(state, follow=True)
        return self._exits[state]

    def _walk(self, state: int, *, follow: bool = False, keep: bool = False) -> NDArray[np.uint32]:
        from ctrlgen.engine.kernel_fill import walk_automaton

        trie, tokens, children, step, states, ranges = self.arrays[:6]
        row = np.zeros(self.words, np.uint32)
        counts = np.full(self.words * 32, 255, np.uint8)
        exits = np.empty((4096 if follow else 0, 2), np.int32)
        n = walk_automaton(trie, tokens, children, step, states, ranges, state, row, exits, counts, follow)
        if n > len(exits):
            exits = np.empty((n, 2), np.int32)
            walk_automaton(trie, tokens, children, step, states, ranges, state, row, exits, counts, follow)
        if follow:
            self._exits[state] = exits[:n].copy()
        if keep:
            self._counts[state] = counts
        return row

    def _rest_trie(self, exits: Iterable[int]) -> int:
        """Merge what follows the given trie nodes within tokens into one trie; its root."""
        trie, tokens = self._trie.array, self._trie_tokens.array[:, 0]
        suffixes: dict[bytes, list[int]] = {}
        for node in exits:
            depth = int(trie[node, 5])
            last = int(trie[int(trie[node, 1]) - 1, 3])
            for token in tokens[int(trie[node, 2]) : last].tolist():
                text = self.tokens[token]
                if text is not None:
                    suffixes.setdefault(text[depth:], []).append(token)
        nodes, flat = preorder(sorted(suffixes.items()))
        first, at = self._trie.n, self._trie_tokens.n
        nodes[:, 1] += first
        nodes[:, 2:4] += at
        self._trie.extend(nodes)
        self._trie_tokens.extend(np.asarray(flat, np.int32).reshape(-1, 1))
        return first


def preorder(items: list[tuple[bytes, list[int]]]) -> tuple[NDArray[np.int32], list[int]]:
    """A byte trie in preorder (columns as in Vocabulary.trie, none dense) of sorted (text, tokens)."""
    nodes: list[list[int]] = [[0, 0, 0, 0, -1, 0]]
    path, previous = [0], b""
    flat: list[int] = []
    for text, tokens in items:
        shared = 0
        while shared < len(previous) and shared < len(text) and previous[shared] == text[shared]:
            shared += 1
        for node in path[shared + 1 :]:
            nodes[node][1] = len(nodes)
        del path[shared + 1 :]
        for depth in range(shared, len(text)):
            path.append(len(nodes))
            nodes.append([text[depth], 0, len(flat), len(flat), -1, depth + 1])
        flat += tokens
        nodes[path[-1]][3] = len(flat)
        previous = text
    for node in path:
        nodes[node][1] = len(nodes)
    return np.asarray(nodes, np.int32), flat


def _ranges(step: NDArray[np.int32]) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Runs of bytes with the same target: source, first and last byte of each, by source."""
    changes = np.ones((len(step), 257), bool)
    changes[:, 1:256] = step[:, 1:] != step[:, :-1]
    source, column = np.nonzero(changes)
    low, high = column[:-1], column[1:] - 1
    same = source[:-1] == source[1:]  # the last mark of each state only closes its last range
    source, low, high = source[:-1][same], low[same], high[same]
    kept = step[source, low] >= 0
    return source[kept], low[kept], high[kept]


def _distances(step: NDArray[np.int32], accepting: NDArray[np.bool_]) -> list[int]:
    """Fewest bytes from each state to acceptance, -1 where there is no way; breadth first, backwards."""
    source, column = np.nonzero(step >= 0)
    edges = np.unique(np.stack([step[source, column], source], 1), axis=0)
    starts = np.searchsorted(edges[:, 0], np.arange(len(step) + 1)).tolist()
    sources = edges[:, 1].tolist()
    distance = np.where(accepting, 0, -1).tolist()
    front = np.flatnonzero(accepting).tolist()
    while front:
        following = []
        for target in front:
            for state in sources[starts[target] : starts[target + 1]]:
                if distance[state] < 0:
                    distance[state] = distance[target] + 1
                    following.append(state)
        front = following
    return [int(d) for d in distance]
