"""Loops that turn sorted items into a trie; see ``ctrlgen.index.compiled``.

``offsets`` is empty where all items have the same length; ``length`` is 0 where they have not. The greatest value
of a depth's dtype, ``equal``, stands for a shared prefix that is the whole of both items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def shared_prefixes(tokens: Array, offsets: Array, length: int, begin: int, end: int, equal: int, shared: Array) -> int:
    """Write to shared[i], begin <= i < end, how many tokens item i shares with the one before.

    Returns:
        The first item that sorts before its predecessor, or -1.
    """
    a: Any
    b: Any
    for i in range(max(begin, 1), end):
        if length > 0:
            a, b = (i - 1) * length, i * length
            left, right = length, length
        else:
            a, b = np.int64(offsets[i - 1]), np.int64(offsets[i])
            left, right = b - a, np.int64(offsets[i + 1]) - b
        most = min(left, right)
        d = 0
        while d < most and tokens[a + d] == tokens[b + d]:
            d += 1
        if d == left and d == right:
            shared[i] = equal
        elif d == right or (d < most and tokens[a + d] > tokens[b + d]):
            return i
        else:
            shared[i] = d
    return -1


def count_edges(shared: Array, equal: int, stack: Array) -> int:
    """The number of edges of the trie: one to each distinct item and one to each branching.

    stack: room for as many entries as there are depths.
    """
    edges, top = 1, -1
    for i in range(1, shared.shape[0]):
        v = shared[i]
        if v == equal:
            continue
        edges += 1
        while top >= 0 and stack[top] > v:
            top -= 1
        if top < 0 or stack[top] < v:
            top += 1
            stack[top] = v
            edges += 1
    return edges


def fill_edges(
    tokens: Array,
    offsets: Array,
    length: int,
    shared: Array,
    equal: int,
    symbol: Array,
    lo: Array,
    hi: Array,
    child: Array,
    branch: Array,
) -> int:
    """Write all edges, breadth first; returns their number. hi is needed only while building."""
    least: Any = equal
    for i in range(1, shared.shape[0]):
        least = min(least, np.int64(shared[i]))
    symbol[0], lo[0], hi[0], branch[0] = 0, 0, shared.shape[0], least
    n, e = 1, 0
    while e < n:
        child[e] = n
        d = np.int64(branch[e])
        if d != equal:
            start, last = np.int64(lo[e]), np.int64(hi[e])
            least = equal
            for i in range(start + 1, last + 1):
                v = np.int64(shared[i]) if i < last else d
                if v == d:
                    if length > 0:
                        symbol[n] = tokens[start * length + d] + 1
                    elif np.int64(offsets[start + 1]) - np.int64(offsets[start]) > d:
                        symbol[n] = tokens[np.int64(offsets[start]) + d] + 1
                    else:
                        symbol[n] = 0
                    lo[n], hi[n], branch[n] = start, i, least
                    n += 1
                    start, least = np.int64(i), equal
                else:
                    least = min(least, v)
        e += 1
    child[e] = n
    return n


def fill_shortest(offsets: Array, lo: Array, child: Array, shortest: Array) -> None:
    """Write the length of the shortest item below each edge; the edges below come later, so from the back."""
    for e in range(lo.shape[0] - 1, -1, -1):
        first, after = np.int64(child[e]), np.int64(child[e + 1])
        if first == after:
            shortest[e] = offsets[np.int64(lo[e]) + 1] - offsets[np.int64(lo[e])]
        else:
            least: Any = np.int64(shortest[first])
            for j in range(first + 1, after):
                least = min(least, np.int64(shortest[j]))
            shortest[e] = least


def gather_items(flat: Array, starts: Array, ends: Array, order: Array, tokens: Array) -> None:
    """Write the items one after the other in the given order."""
    at = 0
    for i in range(order.shape[0]):
        for j in range(starts[order[i]], ends[order[i]]):
            tokens[at] = flat[j]
            at += 1


def merge_two(flat: Array, starts: Array, ends: Array, middle: int, count: int, order: Array) -> None:
    """Write to order[count] the stable order of two sorted runs of items, 0 .. middle and middle .. count."""
    left, right = 0, middle
    for n in range(count):
        if left < middle and right < count:
            a, b = starts[left], starts[right]
            while a < ends[left] and b < ends[right] and flat[a] == flat[b]:
                a += 1
                b += 1
            first = a == ends[left] or (b < ends[right] and flat[a] < flat[b])
        else:
            first = left < middle
        if first:
            order[n] = left
            left += 1
        else:
            order[n] = right
            right += 1


def merge_runs(
    tokens: Array,
    starts: Array,
    ids: Array,
    heads: Array,
    ends: Array,
    heap: Array,
    size: int,
    most: int,
    out_tokens: Array,
    out_lengths: Array,
    out_ids: Array,
) -> tuple[int, int, int]:
    """Move up to ``most`` items, least first, from sorted runs to the output.

    heap[:size] holds runs, the one with the least head first; ties go to the earlier run, so the merge is stable.
    starts[i] .. starts[i + 1] are the tokens of item i; heads and ends say where each run stands and stops.

    Returns:
        (size of the heap, items moved, tokens moved).
    """
    moved, at = 0, 0
    while size > 0 and moved < most:
        run = heap[0]
        i = heads[run]
        first, last = starts[i], starts[i + 1]
        for j in range(first, last):
            out_tokens[at] = tokens[j]
            at += 1
        out_lengths[moved], out_ids[moved] = last - first, ids[i]
        moved += 1
        heads[run] = i + 1
        if heads[run] == ends[run]:
            size -= 1
            heap[0] = heap[size]
        hole, sinking = 0, heap[0]
        while size > 0:
            below = 2 * hole + 1
            if below >= size:
                break
            if below + 1 < size and head_before(tokens, starts, heads, heap[below + 1], heap[below]):
                below += 1
            if head_before(tokens, starts, heads, sinking, heap[below]):
                break
            heap[hole] = heap[below]
            hole = below
        if size > 0:
            heap[hole] = sinking
    return size, moved, at


def head_before(tokens: Array, starts: Array, heads: Array, left: int, right: int) -> bool:
    """Whether the next item of run ``left`` goes before the next one of run ``right``."""
    a, b = starts[heads[left]], starts[heads[right]]
    last, end = starts[heads[left] + 1], starts[heads[right] + 1]
    while a < last and b < end and tokens[a] == tokens[b]:
        a += 1
        b += 1
    if a == last or b == end:
        return left < right if (a == last and b == end) else bool(a == last)
    return bool(tokens[a] < tokens[b])


def item_length(offsets: Array, length: int, i: Any) -> Any:
    """How many tokens item i has."""
    return np.int64(length) if length > 0 else np.int64(offsets[i + 1]) - np.int64(offsets[i])


def misplaced_edge(
    tokens: Array, offsets: Array, length: int, count: int, symbol: Array, lo: Array, child: Array, branch: Array,
    shortest: Array, equal: int,
) -> int:  # fmt: skip
    """The first edge that is not that of a trie over ``count`` sorted items, or -1.

    Not every mistake is found, but all are that would lead a loop out of the arrays, or around for ever.
    """
    edges = lo.shape[0]
    if np.int64(lo[0]) != 0 or np.int64(child[0]) != 1 or np.int64(child[edges]) != edges:
        return 0
    for e in range(edges):
        j, last, i = np.int64(child[e]), np.int64(child[e + 1]), np.int64(lo[e])
        if j <= e or last < j or last > edges or i < 0 or i >= count:
            return e
        full, depth = item_length(offsets, length, i), np.int64(branch[e])
        if j == last:
            if depth != equal or (shortest.shape[0] > 0 and shortest[e] != full):
                return e
            continue
        if depth > full or np.int64(lo[j]) != i:
            return e
        least = np.int64(equal)
        for c in range(j, last):
            below = np.int64(lo[c])
            if below < i or below >= count or (c > j and (below <= np.int64(lo[c - 1]) or symbol[c] <= symbol[c - 1])):
                return c
            if branch[c] <= depth:
                return c
            rest = item_length(offsets, length, below) - depth
            if symbol[c] == 0:
                if rest != 0 or np.int64(branch[c]) != equal:
                    return c
            elif rest < 1:
                return c
            else:
                at = below * length if length > 0 else np.int64(offsets[below])
                if np.int64(symbol[c]) - 1 != np.int64(tokens[at + depth]):
                    return c
            if shortest.shape[0] > 0:
                least = min(least, np.int64(shortest[c]))
        if shortest.shape[0] > 0 and np.int64(shortest[e]) != least:
            return e
    return -1


PARTS = (head_before, item_length)
