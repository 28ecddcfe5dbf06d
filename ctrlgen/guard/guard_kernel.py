"""The kernels of the guard: a byte, a token, and all tokens, along the scanner and the list of names at once.

A place is (state of the scanner, edge and depth among names, bits): JOINED after ``-``, ``_`` or ``.``, TWICE after two
of them (a third is refused, so that no name is joined for ever); STOPPED after full stops behind a complete name.
Outside a name edge, depth and these bits are 0; the edge is LOST where no name goes on. The bits from LINES on are the
state of ``ctrlgen.guard.lines``, which tells where blocks of requirements begin.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.guard.scanner import BLOCK, CLOSED, TEXT
from ctrlgen.index import name_kernels, walk_kernels

JOINED, STOPPED, TWICE, LINES = 1, 2, 4, 8
LOST = -2
ONE = np.int64(1)

_find = njit(cache=True, nogil=True)(walk_kernels.find_symbol)
_ended = njit(cache=True, nogil=True)(name_kernels.ended)
_shortest_below = njit(cache=True, nogil=True)(name_kernels.shortest_below)


@njit(cache=True, nogil=True)
def walk_on(names, e, d, byte):
    """Edge and depth after a byte of a name; the edge is LOST if no name goes on with it."""
    tokens, offsets, symbol, lo, child, branch = names
    if e < 0:
        return np.int64(LOST), np.int64(0)
    j, last, i = np.int64(child[e]), np.int64(child[e + 1]), np.int64(lo[e])
    at = np.int64(offsets[i])
    if j < last and d == branch[e]:
        j = np.int64(_find(symbol, j, last, np.int64(byte) + 1))
        if j >= 0:
            return j, d + 1
    elif at + d < np.int64(offsets[i + 1]) and tokens[at + d] == byte:
        return e, d + 1
    return np.int64(LOST), np.int64(0)


@njit(cache=True, nogil=True)
def complete(names, e, d, bits):
    """Whether a place in a name is behind a whole one."""
    if e >= 0 and _ended(names[1], names[2], names[3], names[4], names[5], e, d):
        return True
    return bits & STOPPED != 0


@njit(cache=True, nogil=True)
def take(scanner, names, joins, s, e, d, bits, byte):
    """(state, edge, depth, bits) after a byte; the state is -1 where it is refused."""
    kind, blocks, lines, commanded, behind = scanner[6], scanner[7], scanner[8], scanner[9], scanner[10]
    line = np.int64(bits) // LINES
    if kind[s] == TEXT:
        line = np.int64(lines[line, byte])
        if line < 0:
            return np.int64(blocks[-1 - line]), np.int64(0), np.int64(0), np.int64(LINES * behind)
        t, e, d, now = _take(scanner, names, joins, s, e, d, np.int64(bits) % LINES, byte)
        return t, e, d, now + LINES * line
    t, e, d, now = _take(scanner, names, joins, s, e, d, np.int64(bits) % LINES, byte)
    if t >= 0 and kind[t] == TEXT:
        if kind[s] == BLOCK:
            line = np.int64(behind)
        elif kind[s] == CLOSED:
            line = np.int64(0)
        elif byte == 0x0A:
            line = np.int64(commanded[line])
    return t, e, d, now + LINES * line


@njit(cache=True, nogil=True)
def _take(scanner, names, joins, s, e, d, bits, byte):
    """The same without lines."""
    after, within, in_name, url, full_stop, fold = scanner[:6]
    refused = np.int64(-1), np.int64(0), np.int64(0), np.int64(0)
    if not in_name[s]:
        t = np.int64(after[s, byte])
        if t < 0 or not in_name[t]:
            return t, np.int64(0), np.int64(0), np.int64(0)
        e, d = walk_on(names, np.int64(0), np.int64(0), np.int64(fold[byte]))
        if e < 0 and url[t] == 0:
            return refused
        return t, e, d, np.int64(JOINED if joins and fold[byte] == 0x2D else 0)
    f, t = np.int64(fold[byte]), np.int64(within[s, byte])
    whole = e >= 0 and _ended(names[1], names[2], names[3], names[4], names[5], e, d)
    if t >= 0 and not in_name[t]:
        return t, np.int64(0), np.int64(0), np.int64(0)
    if t >= 0 and f >= 0:
        to, depth, now = e, d, np.int64(0)
        if byte == 0x2E and (whole or bits & STOPPED):
            now = np.int64(STOPPED)
        if not (joins and f == 0x2D and bits & JOINED):
            to, depth = walk_on(names, e, d, f)
        if joins and f == 0x2D:
            if bits & TWICE and not now & STOPPED:
                return refused
            now |= JOINED | (TWICE if bits & JOINED else 0)
        if to >= 0 or url[t] > 0 or now & STOPPED:
            return t, to, depth, now
    if whole:
        return np.int64(after[s, byte]), np.int64(0), np.int64(0), np.int64(0)
    if bits & STOPPED and full_stop[s] >= 0:
        return np.int64(after[full_stop[s], byte]), np.int64(0), np.int64(0), np.int64(0)
    return refused


@njit(cache=True, nogil=True)
def take_text(scanner, names, joins, s, e, d, bits, text):
    """The place after some bytes; the state is -1 if one is refused."""
    for byte in text:
        s, e, d, bits = take(scanner, names, joins, s, e, d, bits, np.int64(byte))
        if s < 0:
            break
    return s, e, d, bits


@njit(cache=True, nogil=True)
def unfinished(scanner, names, shortest, s, e, d, bits):
    """Bytes of the rest of a shortest name where one is unfinished; 0 where a text may end."""
    if not scanner[2][s] or complete(names, e, d, bits):
        return np.int64(0)
    if e < 0:
        return np.int64(scanner[3][s])  # what is no name may only become something else
    _, offsets, symbol, lo, child, _ = names
    name = _shortest_below(symbol, lo, child, shortest, e)
    return np.int64(offsets[name + 1]) - np.int64(offsets[name]) - d


@njit(cache=True, nogil=True)
def lengths(scanner, names, joins, shortest, nodes, tokens, longest, s, e, d, bits, left):
    """For each text token that may follow a place: 1 + the bytes after it to where a text may end.

    nodes, tokens: of a ``ctrlgen.trie.Trie``, in preorder; left: int32[ids] of zeros, which others keep.
    """
    path = np.empty((longest + 1, 4), np.int64)
    path[0, 0], path[0, 1], path[0, 2], path[0, 3] = s, e, d, bits
    i = np.int64(1)
    while i < nodes.shape[0]:
        depth = np.int64(nodes[i, 5])
        p = path[depth - 1]
        s, e, d, bits = take(scanner, names, joins, p[0], p[1], p[2], p[3], np.int64(nodes[i, 0]))
        if s < 0:
            i = np.int64(nodes[i, 1])
            continue
        path[depth, 0], path[depth, 1], path[depth, 2], path[depth, 3] = s, e, d, bits
        if nodes[i, 2] < nodes[i, 3]:
            far = ONE + unfinished(scanner, names, shortest, s, e, d, bits)
            for k in range(nodes[i, 2], nodes[i, 3]):
                left[tokens[k]] = far
        i += 1


@njit(cache=True, nogil=True)
def run(scanner, names, joins, s, bits, text, at):
    """Follow text from ``at`` on in state s of the scanner, outside a name.

    Returns (index of the first byte that is refused, or the length; the state before it; where its name begins, or -1;
    whether that name is complete; the bits).
    """
    e, d, bits, begin = np.int64(0), np.int64(0), np.int64(bits), np.int64(-1)
    in_name = scanner[2]
    while at < len(text):
        t, e2, d2, b2 = take(scanner, names, joins, s, e, d, bits, np.int64(text[at]))
        if t < 0:
            break
        if not in_name[t]:
            begin = np.int64(-1)
        elif begin < 0 or not in_name[s]:
            begin = at
        s, e, d, bits = t, e2, d2, b2
        at += 1
    return at, s, begin, begin >= 0 and complete(names, e, d, bits), bits
