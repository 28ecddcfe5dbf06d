"""Suffix automata, and their spelling in bytes.

The suffix automaton of n symbols has at most 2n states and 3n edges, reads exactly the contiguous parts of them, and is
built in time proportional to n.

Reference: A. Blumer, J. Blumer, D. Haussler, A. Ehrenfeucht, M. T. Chen, J. Seiferas, The smallest automaton
recognizing the subwords of a text, Theoretical Computer Science 40 (1985).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.spans import COUNTED

kernel = njit(cache=True, nogil=True, error_model="numpy")

BEGIN, CLOSE = -1, -2
"""Symbols before the first and after the last character of a unit. Those below stand between texts."""

FACTOR = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _place(source, symbol, sources, symbols, table):
    """Where the edge of a state by a symbol stands in the hash table, or where it would stand."""
    key = (np.uint64(source) << np.uint64(32)) ^ np.uint64(symbol + 16)
    key = key * FACTOR
    at = np.int64((key ^ (key >> np.uint64(31))) & np.uint64(table.shape[0] - 1))
    while table[at] >= 0 and (sources[table[at]] != source or symbols[table[at]] != symbol):
        at = (at + 1) & (table.shape[0] - 1)
    return at


@kernel
def suffix_automaton(text):
    """The automaton of the contiguous parts of int32[n].

    Returns:
        int32[S], the length of the longest part that leads to each state, of which 0 is the start; int32[E], the
        source of each edge, its symbol and its target.
    """
    n = text.shape[0]
    room = 4 * n + 16
    length, link = np.zeros(2 * n + 2, np.int32), np.full(2 * n + 2, -1, np.int32)
    head = np.full(2 * n + 2, -1, np.int32)
    sources, symbols = np.empty(room, np.int32), np.empty(room, np.int32)
    targets, following = np.empty(room, np.int32), np.empty(room, np.int32)
    size = 16
    while size < 2 * room:
        size *= 2
    table = np.full(size, -1, np.int32)
    states, edges, last = 1, 0, 0
    for i in range(n):
        c = text[i]
        here = states
        states += 1
        length[here] = length[last] + 1
        p = last
        last = here
        while p >= 0:
            at = _place(p, c, sources, symbols, table)
            if table[at] >= 0:
                break
            sources[edges], symbols[edges], targets[edges], following[edges] = p, c, here, head[p]
            table[at] = head[p] = edges
            edges += 1
            p = link[p]
        if p < 0:
            link[here] = 0
            continue
        q = targets[table[at]]
        if length[q] == length[p] + 1:
            link[here] = q
            continue
        clone = states
        states += 1
        length[clone], link[clone] = length[p] + 1, link[q]
        e = head[q]
        while e >= 0:
            at = _place(clone, symbols[e], sources, symbols, table)
            sources[edges], symbols[edges], targets[edges] = clone, symbols[e], targets[e]
            following[edges] = head[clone]
            table[at] = head[clone] = edges
            edges += 1
            e = following[e]
        while p >= 0:
            at = _place(p, c, sources, symbols, table)
            if table[at] < 0 or targets[table[at]] != q:
                break
            targets[table[at]] = clone
            p = link[p]
        link[q] = link[here] = clone
    return length[:states], sources[:edges], symbols[:edges], targets[:edges]


@kernel
def _target(starts, symbols, targets, state, symbol):
    """Where a state goes by a symbol; -1: nowhere. Marks are below all characters, so they come first."""
    for e in range(starts[state], starts[state + 1]):
        if symbols[e] >= symbol:
            return targets[e] if symbols[e] == symbol else -1
    return -1


@kernel
def _after_marks(starts, symbols, targets, state):
    """(state after the mark that closes a unit, -1: none closes here; state after the mark that begins one, or -1)."""
    closed = _target(starts, symbols, targets, state, CLOSE)
    begun = _target(starts, symbols, targets, state if closed < 0 else closed, BEGIN)
    return closed, begun


@kernel
def _continuations(starts, symbols, targets, state, marked, found):
    """Characters that go on from a state: (symbol, target, whether a unit is over before) in found; how many.

    Whether a unit closes or begins between two characters depends on what stands before and on the next one alone, so
    no character is found twice.
    """
    n = 0
    closed, begun = _after_marks(starts, symbols, targets, state) if marked else (-1, -1)
    for part in range(3 if marked else 1):
        at = state if part == 0 else closed if part == 1 else begun
        if at < 0:
            continue
        over = not marked or (part > 0 and closed >= 0)
        for e in range(starts[at], starts[at + 1]):
            if symbols[e] >= 0:
                found[n, 0], found[n, 1], found[n, 2] = symbols[e], targets[e], over
                n += 1
    return n


@kernel
def reached(length, starts, symbols, targets, start, marked):
    """States that texts can reach and end from, and how many units more each can have at most.

    Args:
        length, starts, symbols, targets: the suffix automaton.
        start: the state in which a text begins.
        marked: whether units are marked; else each character is one.

    Returns:
        int32[N], the states, longest part first, so that each comes after those it leads to; int32[S], units, -1 for
        states that are not among them.
    """
    states = length.shape[0]
    found = np.empty((np.max(np.diff(starts)) * 3 + 1, 3), np.int32)
    seen, longest = np.zeros(states, np.bool_), np.full(states, -1, np.int32)
    todo = np.empty(states, np.int32)
    todo[0], seen[start], top = start, True, 1
    count = 0
    kept = np.empty(states, np.int32)
    while top > 0:
        top -= 1
        here = todo[top]
        kept[count] = here
        count += 1
        for i in range(_continuations(starts, symbols, targets, here, marked, found)):
            if not seen[found[i, 1]]:
                seen[found[i, 1]] = True
                todo[top] = found[i, 1]
                top += 1
    order = np.argsort(-length[kept[:count]].astype(np.int64), kind="mergesort")
    kept = kept[:count][order]
    live = 0
    for j in range(count):
        here = kept[j]
        final = _target(starts, symbols, targets, here, CLOSE) >= 0 if marked else True
        best = 0 if final else -1
        for i in range(_continuations(starts, symbols, targets, here, marked, found)):
            if longest[found[i, 1]] >= 0:
                best = max(best, longest[found[i, 1]] + found[i, 2])
        longest[here] = best
        if best >= 0:
            kept[live] = here
            live += 1
    return kept[:live], longest


# spelling

UTF8, JSON, ASCII_JSON = 0, 1, 2
SHORT_NAMES = np.zeros(128, np.uint8)
for _code, _name in zip(b'"\\/\b\f\n\r\t', b'"\\/bfnrt', strict=True):
    SHORT_NAMES[_code] = _name
DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
MOST_SPELLINGS, LONGEST = 3, 12
FAR = 1 << 29


@kernel
def _utf8(c, out):
    """Write a character in UTF-8; how many bytes."""
    if c < 0x80:
        out[0] = c
        return 1
    n = 2 if c < 0x800 else 3 if c < 0x10000 else 4
    for i in range(n - 1, 0, -1):
        out[i] = 0x80 | (c & 0x3F)
        c >>= 6
    out[0] = c | (0xC0 if n == 2 else 0xE0 if n == 3 else 0xF0)
    return n


@kernel
def _escaped(unit, out):
    """Write a UTF-16 unit as backslash, u and four digits."""
    out[0], out[1] = 0x5C, 0x75
    for i in range(4):
        out[2 + i] = DIGITS[(unit >> (12 - 4 * i)) & 15]


@kernel
def _spellings(c, coding, out, sizes):
    """Write the spellings of a character to out[j, : sizes[j]]; how many."""
    if coding == UTF8:
        sizes[0] = _utf8(c, out[0])
        return 1
    n = 0
    if c >= 0x20 and c != 0x22 and c != 0x5C and (c < 0x80 or coding == JSON):
        sizes[0] = _utf8(c, out[0])
        n = 1
    if c < 0x80 and SHORT_NAMES[c] > 0:
        out[n, 0], out[n, 1], sizes[n] = 0x5C, SHORT_NAMES[c], 2
        n += 1
    if c < 0x20 or c >= 0x80:
        sizes[n] = 6
        if c < 0x10000:
            _escaped(c, out[n])
        else:
            _escaped(0xD800 + ((c - 0x10000) >> 10), out[n])
            _escaped(0xDC00 + ((c - 0x10000) & 0x3FF), out[n, 6:])
            sizes[n] = 12
        n += 1
    return n


@kernel
def _sorted_by_text(texts, sizes, order, n):
    """Sort order[:n] by the texts: by their first eight bytes, then, since little is left to do, by insertion."""
    if n > 16:
        keys = np.zeros(n, np.uint64)
        for i in range(n):
            for d in range(min(sizes[order[i]], 8)):
                keys[i] |= np.uint64(texts[order[i], d]) << np.uint64(56 - 8 * d)
        order[:n] = order[:n][np.argsort(keys, kind="mergesort")]
    for i in range(1, n):
        one, j = order[i], i - 1
        while j >= 0 and _less(texts[one], sizes[one], texts[order[j]], sizes[order[j]]):
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = one


@kernel
def _less(a, size_a, b, size_b):
    for i in range(min(size_a, size_b)):
        if a[i] != b[i]:
            return a[i] < b[i]
    return size_a < size_b


@kernel
def _grown(array):
    more = np.zeros((2 * array.shape[0], array.shape[1]), array.dtype)
    more[: array.shape[0]] = array
    return more


@kernel
def spelled(kept, longest, starts, symbols, targets, marked, coding):
    """The automaton over bytes of the states that ``reached`` found.

    Returns:
        int32[N, 6], int32[E, 2]: the states and edges of ``Spans``, of which state j is kept[j] for the first ones, and
        the others are inside characters; int32[N], the states, each after those it leads to.
    """
    count = kept.shape[0]
    number = np.full(longest.shape[0], -1, np.int32)
    for j in range(count):
        number[kept[j]] = j
    widest = np.max(np.diff(starts)) * 3 + 1
    found = np.empty((widest, 3), np.int32)
    texts, sizes = np.empty((widest * MOST_SPELLINGS, LONGEST), np.uint8), np.empty(widest * MOST_SPELLINGS, np.int64)
    owner, order = np.empty(widest * MOST_SPELLINGS, np.int64), np.empty(widest * MOST_SPELLINGS, np.int64)
    path = np.empty(LONGEST + 1, np.int64)
    states = np.zeros((count + 16 + count // 4, 6), np.int32)
    raw = np.empty((max(2 * symbols.shape[0], 64), 3), np.int32)  # source, byte, target
    size, edges = count, 0
    for j in range(count):
        here = kept[j]
        first_inside, n = size, 0
        for i in range(_continuations(starts, symbols, targets, here, marked, found)):
            if longest[found[i, 1]] >= 0:
                several = _spellings(found[i, 0], coding, texts[n:], sizes[n:])
                for m in range(n, n + several):
                    owner[m], order[m] = i, m
                n += several
        _sorted_by_text(texts, sizes, order, n)
        path[0] = j
        for m in range(n):
            one = order[m]
            shared = 0
            if m > 0:
                before = order[m - 1]
                while shared + 1 < sizes[one] and texts[one, shared] == texts[before, shared]:
                    shared += 1
            while size + LONGEST > states.shape[0]:
                states = _grown(states)
            while edges + 2 * LONGEST > raw.shape[0]:
                raw = _grown(raw)
            for d in range(shared, sizes[one]):
                byte, end = np.int32(texts[one, d]), d + 1 == sizes[one]
                target = number[found[owner[one], 1]] if end else size
                if not end:
                    path[d + 1] = size
                    size += 1
                mark = COUNTED if end and found[owner[one], 2] else 0
                raw[edges, 0], raw[edges, 1], raw[edges, 2] = path[d], byte | mark, target
                edges += 1
                if sizes[one] >= 6 and d % 6 >= 2 and byte >= 0x61:  # a digit in either case
                    raw[edges, 0], raw[edges, 1], raw[edges, 2] = path[d], (byte - 0x20) | mark, target
                    edges += 1
        states[j, 2] = _target(starts, symbols, targets, here, CLOSE) >= 0 if marked else 1
        # states inside characters are measured from the last to the first: they lead to later ones
        states[j, 0], states[j, 1] = first_inside, size
    return _packed(states[:size], raw[:edges], count)


@kernel
def _packed(states, raw, count):
    """Edges side by side by source; what is left to the end, from states that come first to those they come from."""
    size = states.shape[0]
    inside = states[:count, :2].copy()
    states[:, 0] = 0
    for e in range(raw.shape[0]):
        states[raw[e, 0], 0] += 1
    at = 0
    for s in range(size):
        at, states[s, 0] = at + states[s, 0], at
        states[s, 1] = states[s, 0]
    edges = np.empty((raw.shape[0], 2), np.int32)
    for e in range(raw.shape[0]):
        s = raw[e, 0]
        edges[states[s, 1], 0], edges[states[s, 1], 1] = raw[e, 1], raw[e, 2]
        states[s, 1] += 1
    order, n = np.empty(size, np.int32), 0
    for j in range(count):
        for s in range(inside[j, 1] - 1, inside[j, 0] - 1, -1):
            order[n], n = s, n + 1
        order[n], n = j, n + 1
    for s in order:
        _measure(states, edges, s, s >= count)
    return states, edges, order


@kernel
def _measure(states, edges, s, inside):
    """Write what is left to the end from state s, of which all targets are measured.

    Inside a character it depends on how that goes on whether it uses up a unit; what needs fewer counts. Elsewhere a
    unit that has begun can be finished without another one.
    """
    longest, short, owed = -1, 1 << 30, 0
    for e in range(states[s, 0], states[s, 1]):
        target, counts = edges[e, 1], edges[e, 0] >= COUNTED
        longest = max(longest, states[target, 3] + counts)
        needs = states[target, 5] + counts if inside else 0
        if needs < owed or short == 1 << 30:
            owed, short = needs, states[target, 4] + 1
        elif needs == owed:
            short = min(short, states[target, 4] + 1)
    if states[s, 2]:
        longest, short = max(longest, 0), 0
    states[s, 3], states[s, 4], states[s, 5] = longest, short, owed


@kernel
def with_units(states, edges, order, fewer):
    """int32[N], the bytes to a near place where a part may end, with one unit more than in ``fewer``."""
    bytes_left = np.full(states.shape[0], FAR, np.int32)
    for s in order:
        for e in range(states[s, 0], states[s, 1]):
            target = edges[e, 1]
            after = fewer[target] if edges[e, 0] >= COUNTED else bytes_left[target]
            bytes_left[s] = min(bytes_left[s], after + 1)
    return bytes_left


@kernel
def _nearer(states, edges, left, s, least):
    """The edge to take from state s on a short way to an end with ``least`` units more."""
    best, found = np.int64(1 << 40), -1
    for e in range(states[s, 0], states[s, 1]):
        target, after = edges[e, 1], least - (edges[e, 0] >= COUNTED)
        if least >= left.shape[0]:
            if states[target, 3] >= after:
                return e
            continue
        if least <= 0 and states[target, 5] - after > states[s, 5]:
            continue
        size = np.int64(left[max(after, 0), target])
        if size < best:
            best, found = size, e
    return found


@kernel
def ending(states, edges, left, s, least, out):
    """Write a short way from state s to an end with ``least`` units more to out, as far as there is room; its length.

    left: int32[n, N], what ``with_units`` says for up to n - 1 units; beyond, any way is taken that has as many.
    """
    size = 0
    while least > 0 or states[s, 2] == 0:
        e = _nearer(states, edges, left, s, least)
        if size < out.shape[0]:
            out[size] = edges[e, 0] & 255
        size += 1
        if edges[e, 0] >= COUNTED:
            least = max(least - 1, 0)
        s = edges[e, 1]
    return size
