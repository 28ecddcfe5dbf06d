"""Loops that walk the tokens of a vocabulary and a trie of names together; see ``ctrlgen.index.compiled``.

A place among names is an edge and a depth (see ``ctrlgen.index.layout``), or the edge AROUND and a node of what stands
around names (see ``ctrlgen.index.around``). Both tries lie breadth first, so a walk that is breadth first too reads all
its arrays from front to back, and the children of two nodes are merged like sorted lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.index.walk_kernels import find_symbol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

AROUND = -1
"""In place of an edge: the depth is a node of what stands around names."""

LOST = -2
"""In place of an edge: no name goes on like this."""

NEVER = 0xFFFF
"""No tokens spell the rest."""

_AHEAD = 64  # entries looked up at a time

_END, _TOKEN_LO, _TOKEN_HI, _DEPTH = 1, 2, 3, 5  # columns of the nodes of ctrlgen.trie.Trie


def narrow(
    nodes: Array, tokens: Array, wanted: Array, longest: int, label: Array, first: Array, held: Array, kept: Array
) -> tuple[int, int]:
    """Write the part of a vocabulary's trie that only bytes of an alphabet lead to, breadth first.

    Args:
        nodes, tokens: of a ``ctrlgen.trie.Trie``.
        wanted: bool[256], the alphabet.
        longest: depth of the trie.
        label: u8[N], the byte that leads to each node.
        first: u32[N + 1], its first child; the children of node v are first[v] .. first[v + 1].
        held: u32[N + 1], where the tokens of each node begin in ``kept``.
        kept: int32[M], token ids.

    Returns:
        (nodes written, tokens written).
    """
    path, below = np.zeros(longest + 1, np.int64), np.zeros(longest + 2, np.int64)
    parent, chosen, count = np.zeros(nodes.shape[0], np.int64), np.zeros(nodes.shape[0], np.int64), 0
    i = np.int64(0)
    while i < nodes.shape[0]:
        depth = nodes[i, _DEPTH]
        if depth > 0 and not wanted[nodes[i, 0]]:
            i = np.int64(nodes[i, _END])
            continue
        path[depth] = count  # the nodes above are the latest ones of their depths
        parent[count] = path[depth - 1] if depth > 0 else -1
        chosen[count] = i
        below[depth + 1] += 1
        count += 1
        i += 1
    for depth in range(1, longest + 2):
        below[depth] += below[depth - 1]
    order, place = np.empty(count, np.int64), np.empty(count, np.int64)
    for n in range(count):  # within a depth preorder is the order breadth first
        depth = nodes[chosen[n], _DEPTH]
        order[below[depth]], place[n] = n, below[depth]
        below[depth] += 1
    degree = np.zeros(count, np.int64)
    for n in range(1, count):
        degree[place[parent[n]]] += 1
    children, taken = np.int64(1), np.int64(0)
    for v in range(count):
        node = chosen[order[v]]
        label[v], first[v], held[v] = nodes[node, 0], children, taken
        children += degree[v]
        for k in range(nodes[node, _TOKEN_LO], nodes[node, _TOKEN_HI]):
            kept[taken] = tokens[k]
            taken += 1
    first[count], held[count] = children, taken
    return count, int(taken)


def ended(offsets: Array, symbol: Array, lo: Array, child: Array, branch: Array, e: Any, d: Any) -> bool:
    """Whether a name ends at depth d of edge e."""
    below = np.int64(child[e])
    if below < np.int64(child[e + 1]):
        return bool(d == branch[e] and symbol[below] == 0)
    i = np.int64(lo[e])
    return bool(np.int64(offsets[i]) + d == np.int64(offsets[i + 1]))


def can_finish(offsets: Array, lo: Array, left: Array, e: Any, d: Any) -> bool:
    """Whether tokens spell the rest of some name; ``left`` is empty where they always do."""
    if left.shape[0] == 0 or e < 0:
        return True
    i = np.int64(lo[e])
    at = np.int64(offsets[i]) + d
    return bool(at == np.int64(offsets[i + 1]) or left[at] < NEVER)


def fill_names(
    label: Array, first: Array, held: Array, kept: Array,
    tokens: Array, offsets: Array, symbol: Array, lo: Array, child: Array, branch: Array,
    bytes_around: Array, after_around: Array, left: Array, e: Any, d: Any, row: Array, work: Array,
) -> int:  # fmt: skip
    """Set the bits of the text tokens that go on from a place, in row, uint32[W], given as zeros.

    All is in one function, and short loops look up what several entries need before they are dealt with: so the
    processor waits for the memory of many of them at once.

    Args:
        work: int32[V, 3], room for an entry a node of the vocabulary's trie: it is reached along one way only.

    Returns:
        Nodes of the vocabulary's trie that were reached.
    """
    ahead = np.empty((_AHEAD, 5), np.int64)
    n: Any = np.int64(1)
    done = np.int64(0)
    work[0, 0], work[0, 1], work[0, 2] = 0, e, d
    while done < n:
        stop, many = min(n, done + _AHEAD), 0
        for q in range(done, stop):
            v = np.int64(work[q, 0])
            allowed = held[v] < held[v + 1]
            if allowed and left.shape[0] > 0:
                allowed = can_finish(offsets, lo, left, np.int64(work[q, 1]), np.int64(work[q, 2]))
            if allowed:
                for k in range(np.int64(held[v]), np.int64(held[v + 1])):
                    t = np.int64(kept[k])
                    row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
            if first[v] < first[v + 1]:
                ahead[many, 0] = q
                many += 1
        done = stop
        for a in range(many):
            e = max(np.int64(work[ahead[a, 0], 1]), 0)
            i = np.int64(lo[e])
            ahead[a, 1], ahead[a, 2] = child[e], child[e + 1]
            ahead[a, 3], ahead[a, 4] = offsets[i], offsets[i + 1]
        for a in range(many):
            q, j, last, at = ahead[a, 0], ahead[a, 1], ahead[a, 2], ahead[a, 3]
            v, e, d = np.int64(work[q, 0]), np.int64(work[q, 1]), np.int64(work[q, 2])
            c, end = np.int64(first[v]), np.int64(first[v + 1])
            node = d if e < 0 else np.int64(-1)
            if e >= 0 and j < last and d == branch[e]:
                if symbol[j] == 0:
                    node, j = np.int64(1), j + 1
                while c < end and j < last:
                    found, wanted = np.int64(label[c]), np.int64(symbol[j]) - 1
                    if found == wanted:
                        work[n, 0], work[n, 1], work[n, 2] = c, j, d + 1
                        n, c, j = n + 1, c + 1, j + 1
                    elif found < wanted:
                        c += 1
                    else:
                        j += 1
            elif e >= 0 and j == last and at + d == ahead[a, 4]:
                node = np.int64(1)
            elif e >= 0:
                wanted = np.int64(tokens[at + d])
                while c < end and np.int64(label[c]) < wanted:
                    c += 1
                if c < end and np.int64(label[c]) == wanted:
                    work[n, 0], work[n, 1], work[n, 2] = c, e, d + 1
                    n += 1
            if node >= 0:
                for k in range(bytes_around.shape[1]):
                    for below in range(np.int64(first[v]), end):
                        if label[below] == bytes_around[node, k]:
                            to = np.int64(after_around[node, k])
                            work[n, 0] = below
                            work[n, 1], work[n, 2] = (AROUND, to) if to >= 0 else (0, 0)
                            n += 1
    return int(n)


def take_bytes(
    tokens: Array, offsets: Array, symbol: Array, lo: Array, child: Array, branch: Array,
    bytes_around: Array, after_around: Array, e: Any, d: Any, text: Array,
) -> tuple[Any, Any]:  # fmt: skip
    """The place (edge, depth) after some bytes; the edge is LOST if no name goes on with them."""
    for byte in text:
        node = d if e == AROUND else np.int64(-1)
        if e >= 0:
            j, last, i = np.int64(child[e]), np.int64(child[e + 1]), np.int64(lo[e])
            at = np.int64(offsets[i])
            if j < last and d == branch[e]:
                node = np.int64(1 if symbol[j] == 0 else -1)
                j = find_symbol(symbol, j, last, np.int64(byte) + 1)
                if j >= 0:
                    e, d = j, d + 1
                    continue
            elif j == last and at + d == np.int64(offsets[i + 1]):
                node = np.int64(1)
            elif tokens[at + d] == byte:
                d += 1
                continue
        to = np.int64(LOST)
        if node >= 0:
            for k in range(bytes_around.shape[1]):
                if bytes_around[node, k] == byte:
                    to = np.int64(after_around[node, k])
        if to == LOST:
            return np.int64(LOST), np.int64(0)
        e, d = (np.int64(AROUND), to) if to >= 0 else (np.int64(0), np.int64(0))
    return e, d


def shortest_below(symbol: Array, lo: Array, child: Array, shortest: Array, e: Any) -> Any:
    """A shortest name below edge e, the same one from all places on the way to it."""
    j, last = np.int64(child[e]), np.int64(child[e + 1])
    while j < last:
        while shortest[j] != shortest[e]:
            j += 1
        e = j
        j, last = np.int64(child[e]), np.int64(child[e + 1])
    return np.int64(lo[e])


def one_that_goes_on(symbol: Array, child: Array, byte: int) -> Any:
    """An edge to names that go on with ``byte`` where another name ends, or -1."""
    for e in range(symbol.shape[0]):
        j, last = np.int64(child[e]), np.int64(child[e + 1])
        if j < last and symbol[j] == 0:
            found = find_symbol(symbol, j + 1, last, byte + 1)
            if found >= 0:
                return found
    return np.int64(-1)


def tokens_left(label: Array, first: Array, held: Array, tokens: Array, offsets: Array, left: Array) -> None:
    """Write the fewest tokens from each byte on to the end of a name that begins with those before it; NEVER if none.

    ``left``, u16[T], holds them where that name has its bytes; of names with a common beginning, the first name does.
    """
    for i in range(offsets.shape[0] - 2, -1, -1):
        at, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        for start in range(stop - 1, at - 1, -1):
            best, v, here = np.int64(NEVER), np.int64(0), np.int64(start)
            while here < stop:
                c, last = np.int64(first[v]), np.int64(first[v + 1])
                while c < last and label[c] < tokens[here]:
                    c += 1
                if c == last or label[c] != tokens[here]:
                    break
                v, here = c, here + 1
                if held[v] < held[v + 1]:
                    rest = np.int64(0) if here == stop else np.int64(left[here])
                    best = min(best, rest + 1)
            left[start] = best
    for i in range(offsets.shape[0] - 2, 0, -1):
        at, before = np.int64(offsets[i]), np.int64(offsets[i - 1])
        d, most = np.int64(0), min(at - before, np.int64(offsets[i + 1]) - at)
        while d < most:
            left[before + d] = min(left[before + d], left[at + d])
            if tokens[before + d] != tokens[at + d]:
                break
            d += 1


def names_below(offsets: Array, tokens: Array, prefix: Array) -> tuple[int, int]:
    """The sorted names lo .. hi that begin with ``prefix``."""
    bounds = np.zeros(2, np.int64)
    for side in range(2):
        first, last = np.int64(0), np.int64(offsets.shape[0] - 1)
        while first < last:
            middle = (first + last) >> 1
            at = np.int64(offsets[middle])
            length = np.int64(offsets[middle + 1]) - at
            d = np.int64(0)
            while d < length and d < prefix.shape[0] and tokens[at + d] == prefix[d]:
                d += 1
            if d == prefix.shape[0]:
                before = side == 1
            else:
                before = d == length or tokens[at + d] < prefix[d]
            if before:
                first = middle + 1
            else:
                last = middle
        bounds[side] = first
    return bounds[0], bounds[1]


PARTS = (ended, can_finish)
