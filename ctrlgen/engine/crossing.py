"""Tokens that lead from a network into what is filled in, or back: their bytes are followed through both.

Only tokens that nothing takes whole are looked for, and of these only those that hold, behind their first byte, a byte
with which what comes next may begin. The trie of the vocabulary is walked level by level, as far as such tokens go.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.trie import BYTE, DEPTH, END, TOKEN_HI, TOKEN_LO

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

    Way = tuple[int, int, int]
    Ways = frozenset[Way]

NONE = -1
_UNKNOWN, _NOWHERE = -2, -1
_MOST_PLACES = 1 << 13


class Crossed(NamedTuple):
    """Tokens that cross, and where they lead."""

    tokens: NDArray[np.int64]
    """int64[n], their ids."""
    number: NDArray[np.int64]
    """int64[n]: of the ways that each leads to."""
    ways: tuple[Ways, ...]
    """The ways, with states of the network's machine."""


class Breadth(NamedTuple):
    """The trie of a vocabulary by levels: the children of a node stand side by side."""

    byte: NDArray[np.int64]
    first: NDArray[np.int64]
    """Where the children of each node begin."""
    children: NDArray[np.int64]
    """How many there are."""
    low: NDArray[np.int64]
    """Where the node's own tokens begin among those of the trie."""
    own: NDArray[np.int64]
    """Where they end."""
    high: NDArray[np.int64]
    """Where those of its subtree end."""
    holds: NDArray[np.bool_]
    """bool[256, M]: whether each token of the trie has a byte behind its first one."""


@lru_cache(8)
def breadth_of(vocabulary: Vocabulary) -> Breadth:
    """The trie of a vocabulary by levels."""
    trie = vocabulary.trie
    nodes = trie.nodes.astype(np.int64)
    depth = nodes[:, DEPTH]
    order = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[order], np.arange(int(depth.max()) + 3))
    children = np.zeros(len(order), np.int64)
    for level in range(1, len(bounds) - 2):
        above, below = order[bounds[level - 1] : bounds[level]], order[bounds[level] : bounds[level + 1]]
        parents = np.searchsorted(above, below, side="right") - 1
        children[bounds[level - 1] : bounds[level]] = np.bincount(parents, minlength=len(above))
    first = np.cumsum(children) - children + 1
    high = nodes[nodes[:, END] - 1, TOKEN_HI]
    holds = np.zeros((256, len(trie.tokens)), bool)
    texts = [(vocabulary.tokens[token] or b"")[1:] for token in trie.tokens.tolist()]
    number = np.repeat(np.arange(len(texts)), list(map(len, texts)))
    holds[np.frombuffer(b"".join(texts), np.uint8), number] = True
    columns = (nodes[order, BYTE], first, children, nodes[order, TOKEN_LO], nodes[order, TOKEN_HI], high[order])
    return Breadth(*columns, holds)


class Crossing:
    """What tokens lead from one into another, of a network's machine and what is filled in."""

    def __init__(self, machine: Any, fillings: tuple[Constraint, ...], vocabulary: Vocabulary) -> None:
        self._machine, self._fillings, self._vocabulary = machine, fillings, vocabulary
        self._byte = [vocabulary.encode_greedy(bytes([byte]))[0] for byte in range(256)]
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._places: list[tuple[Ways, Ways]] = []
        self._numbers: dict[tuple[Ways, Ways], int] = {}
        self._over = np.zeros(64, bool)
        self._table = np.full((64, 256), _UNKNOWN, np.int32)

    def closed(self, ways: Iterable[Way]) -> Ways:
        """The ways, and those that begin where they are: what is filled in, and the network behind it."""
        found: set[Way] = set()
        todo = list(ways)
        while todo:
            way = todo.pop()
            if way in found:
                continue
            found.add(way)
            o, k, i = way
            if k != NONE:
                if self._fillings[k].accepts(i):
                    todo.append((o, NONE, 0))
                continue
            for number, filling in enumerate(self._fillings):
                after = self._machine.fill(o, number)
                if after != DEAD:
                    todo.append((after, number, filling.start))
        return frozenset(found)

    def over(self, ways: Ways, text: bytes) -> Ways:
        """Where a text leads by those ways on which it crosses within."""
        whole: Ways = ways
        over: Ways = frozenset()
        for byte in text:
            whole, over = self._follow(whole, over, byte)
            if not whole and not over:
                break
        return over

    def _follow(self, whole: Ways, over: Ways, byte: int) -> tuple[Ways, Ways]:
        """Ways that have not crossed and those that have, after a byte before which they may cross."""
        crossed = self.closed(over | (self.closed(whole) - whole))
        return self._step(whole, byte), self._step(crossed, byte)

    def _step(self, ways: Ways, byte: int) -> Ways:
        token, found = self._byte[byte], []
        for o, k, i in ways:
            after = self._machine.advance(o, token) if k == NONE else self._fillings[k].advance(i, token)
            if after != DEAD:
                found.append((after, NONE, 0) if k == NONE else (o, k, after))
        return frozenset(found)

    def tokens(self, ways: Ways, plain: NDArray[np.uint32]) -> Crossed:
        """The tokens that cross, and are not in the row ``plain``."""
        with self._lock:
            if len(self._places) > _MOST_PLACES:
                self._forget()
            return self._walk(ways, self._wanted(ways, plain))

    def _wanted(self, ways: Ways, plain: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """bool[M]: the tokens of the trie to be looked at."""
        tokens = self._vocabulary.trie.tokens
        wanted: NDArray[np.bool_] = plain[tokens >> 5] >> (tokens & 31).astype(np.uint32) & 1 == 0
        begin = self._first_bytes(ways)
        if 0 < begin.sum() < 128:
            wanted &= breadth_of(self._vocabulary).holds[begin].any(0)
        return wanted if begin.any() else np.zeros(len(tokens), bool)

    def _first_bytes(self, ways: Ways) -> NDArray[np.bool_]:
        """bool[256]: with which bytes may begin what comes after a way: what is filled in, or the network behind it."""
        found = np.zeros(256, bool)
        bytes_ = np.array(self._byte)
        starts = {(-1, k, filling.start) for k, filling in enumerate(self._fillings)}
        nexts = starts | {(o, NONE, 0) for o, k, _ in ways if k != NONE}
        empty = any(filling.accepts(filling.start) for filling in self._fillings)
        if empty and any(k == NONE for _, k, _ in ways):
            return np.ones(256, bool)
        for o, k, i in self.closed(one for one in nexts if one[1] == NONE) | starts:
            row = self._machine.mask(o) if k == NONE else self._fillings[k].mask(i)
            found |= row[bytes_ >> 5] >> (bytes_ & 31).astype(np.uint32) & 1 == 1
        return found

    def _walk(self, ways: Ways, wanted: NDArray[np.bool_]) -> Crossed:
        trie = breadth_of(self._vocabulary)
        before = np.concatenate([[0], np.cumsum(wanted)])
        wished = before[trie.high] > before[trie.low]
        node, place = np.zeros(1, np.int64), np.array([self._number((ways, frozenset()))])
        found, at = [], []
        while len(node):
            count = trie.children[node]
            behind = np.cumsum(count) - count
            child = np.arange(int(count.sum())) + np.repeat(trie.first[node] - behind, count)
            place = np.repeat(place, count)
            place, child = place[wished[child]], child[wished[child]]
            place = self._after(place, trie.byte[child])
            node, place = child[place >= 0], place[place >= 0]
            ends = (trie.own[node] > trie.low[node]) & self._over[place]
            for low, high, where in zip(
                trie.low[node[ends]].tolist(), trie.own[node[ends]].tolist(), place[ends].tolist(), strict=True
            ):
                for one in range(low, high):
                    if wanted[one]:
                        found.append(one)
                        at.append(where)
        tokens = self._vocabulary.trie.tokens[np.array(found, np.int64)].astype(np.int64)
        places, number = np.unique(np.array(at, np.int64), return_inverse=True)
        return Crossed(tokens, number, tuple(self._places[one][1] for one in places.tolist()))

    def _after(self, place: NDArray[np.int64], byte: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[n]: the places after bytes, _NOWHERE where there are none."""
        after = self._table[place, byte]
        unknown = np.flatnonzero(after == _UNKNOWN)
        if len(unknown):
            for key in np.unique(place[unknown] << 8 | byte[unknown]).tolist():
                whole, over = self._places[key >> 8]
                ways = self._follow(whole, over, key & 255)
                self._table[key >> 8, key & 255] = self._number(ways) if any(ways) else _NOWHERE
            after = self._table[place, byte]
        return after.astype(np.int64)

    def _number(self, ways: tuple[Ways, Ways]) -> int:
        number = self._numbers.get(ways)
        if number is None:
            number = self._numbers[ways] = len(self._places)
            self._places.append(ways)
            if number == len(self._over):
                self._over = np.concatenate([self._over, np.zeros_like(self._over)])
                self._table = np.concatenate([self._table, np.full_like(self._table, _UNKNOWN)])
            self._over[number] = bool(ways[1])
        return number
