"""Loops that walk states without choosing: masks, moves, and states as single numbers.

See ``ctrlgen.index.step_kernels`` for the arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.index.layout import DEPTH, DONE, HI, LEAF, LO, LOST, NODE
from ctrlgen.index.step_kernels import ones_below

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def fill_masks(
    tokens: Array,
    offsets: Array,
    length: int,
    symbol: Array,
    lo: Array,
    child: Array,
    branch: Array,
    ends: Array,
    words: Array,
    counts: Array,
    which: Array,
    states: Array,
    rows: Array,
) -> None:
    """Set the bits of the tokens each state allows in its row of rows, uint32[R, W], given as zeros."""
    for r in range(states.shape[0]):
        e, depth, start, stop = states[r, NODE], states[r, DEPTH], states[r, LO], states[r, HI]
        f = which[r]
        if e == LOST:
            continue
        rank = np.int64(0)
        if f >= 0:
            rank = counts[f, start >> 6] + ones_below(words[f, start >> 6], start & 63)
            if counts[f, stop >> 6] + ones_below(words[f, stop >> 6], stop & 63) == rank:
                continue
        ended = e == DONE
        if e >= 0 and depth == branch[e]:
            after = np.int64(child[e + 1])
            for j in range(np.int64(child[e]), after):
                if f >= 0:
                    before = rank
                    end = np.int64(lo[j + 1]) if j + 1 < after else stop
                    rank = counts[f, end >> 6] + ones_below(words[f, end >> 6], end & 63)
                    if rank == before:
                        continue
                t = np.int64(symbol[j]) - 1
                if t < 0:
                    ended = True
                else:
                    rows[r, t >> 5] |= np.uint32(1) << np.uint32(t & 31)
        elif not ended:
            at = start * length if length > 0 else np.int64(offsets[start])
            full = length if length > 0 else np.int64(offsets[start + 1]) - at
            if e == LEAF and depth == full:
                ended = True
            else:
                t = np.int64(tokens[at + depth])
                rows[r, t >> 5] |= np.uint32(1) << np.uint32(t & 31)
        if ended:
            for i in range(ends.shape[0]):
                rows[r, ends[i] >> 5] |= np.uint32(1) << np.uint32(ends[i] & 31)


def is_end(ends: Array, token: int) -> bool:
    """Whether a token is one of the end ids."""
    found = False
    for i in range(ends.shape[0]):
        found = found or ends[i] == token
    return found


def find_symbol(symbol: Array, first: Any, after: Any, wanted: Any) -> Any:
    """The edge in first .. after with the symbol, or -1."""
    while first < after:
        middle = (first + after) >> 1
        if symbol[middle] < wanted:
            first = middle + 1
        elif symbol[middle] > wanted:
            after = middle
        else:
            return middle
    return -1


def move(
    tokens: Array,
    offsets: Array,
    length: int,
    symbol: Array,
    lo: Array,
    child: Array,
    branch: Array,
    ends: Array,
    words: Array,
    counts: Array,
    which: Array,
    states: Array,
    taken: Array,
    after: Array,
) -> None:
    """Write to after[R, 4] the state that follows each state over its token; LOST if the token is refused."""
    for r in range(states.shape[0]):
        e, depth, start, stop = states[r, NODE], states[r, DEPTH], states[r, LO], states[r, HI]
        token, f = taken[r], which[r]
        node = np.int64(LOST)
        ending = is_end(ends, token)
        if e == DONE:
            # steps give an ended row the token -1; without end ids, it is padded with whatever the caller likes
            node = np.int64(DONE) if ending or token < 0 or ends.shape[0] == 0 else node
        elif token < 0:
            node = np.int64(LOST)
        elif e >= 0 and depth == branch[e]:
            last = np.int64(child[e + 1])
            j = find_symbol(symbol, np.int64(child[e]), last, 0 if ending else token + 1)
            if j >= 0:
                stop = np.int64(lo[j + 1]) if j + 1 < last else stop
                start = np.int64(lo[j])
                node = np.int64(DONE) if ending else (j if child[j + 1] > child[j] else np.int64(LEAF))
        elif e != LOST:
            at = start * length if length > 0 else np.int64(offsets[start])
            full = length if length > 0 else np.int64(offsets[start + 1]) - at
            if e == LEAF and depth == full:
                node = np.int64(DONE) if ending else node
            elif tokens[at + depth] == token:
                node = e
        if node != DONE and node != LOST:
            depth += 1
            if node == LEAF and ends.shape[0] == 0:
                full = length if length > 0 else np.int64(offsets[start + 1]) - np.int64(offsets[start])
                node = np.int64(DONE) if depth == full else node
        if f >= 0 and node != LOST:
            low = counts[f, start >> 6] + ones_below(words[f, start >> 6], start & 63)
            if counts[f, stop >> 6] + ones_below(words[f, stop >> 6], stop & 63) == low:
                node = np.int64(LOST)
        if node == LOST:
            start, stop, depth = np.int64(0), np.int64(0), np.int64(0)
        after[r, LO], after[r, HI], after[r, DEPTH], after[r, NODE] = start, stop, depth, node


def end_of_edge(lo: Array, child: Array, count: int, e: Any) -> Any:
    """One past the last item below edge e: where the next sibling begins, its own or that of an edge above."""
    while e > 0:
        first, last = np.int64(0), np.int64(e)  # the parent is the last edge whose children begin at or before e
        while first < last:
            middle = (first + last + 1) >> 1
            if np.int64(child[middle]) <= e:
                first = middle
            else:
                last = middle - 1
        if e + 1 < np.int64(child[first + 1]):
            return np.int64(lo[e + 1])
        e = first
    return count


def end_of_equals(tokens: Array, offsets: Array, length: int, count: int, i: int) -> Any:
    """One past the last item with the same tokens as item i."""
    at = i * length if length > 0 else np.int64(offsets[i])
    full = length if length > 0 else np.int64(offsets[i + 1]) - at
    j: Any = i + 1
    while j < count:
        other = j * length if length > 0 else np.int64(offsets[j])
        if length == 0 and np.int64(offsets[j + 1]) - other != full:
            return j
        for d in range(full):
            if tokens[at + d] != tokens[other + d]:
                return j
        j += 1
    return j


PARTS = (is_end, find_symbol)
