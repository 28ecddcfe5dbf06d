"""Which terminals may come next where what comes is made of some bytes only; see ``adjacency``."""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_lexer import list_row
from ctrlgen.engine.cfg.kernel_store import (
    AVAILABLE,
    BOUNDS,
    DUTIES,
    DUTY_SETS,
    END_HIGH,
    END_LOW,
    ENDS,
    LABEL,
    LIST_ROWS,
    LISTS,
    MOVES,
    ROW,
    STATES,
    grid,
    ints,
)


@njit(cache=True, nogil=True)
def reach_within(table, within, reach, first, last):
    """Write to reach[first:last] the bits of the terminals that each lexer state can become with the bytes ``within``.

    within: bool[256]. reach: uint64[n, words], of the states before ``first`` known already. Returns 0.
    """
    moves, bounds, ends, states = grid(table, MOVES), grid(table, BOUNDS), ints(table, ENDS), grid(table, STATES)
    for s in range(first, last):
        reach[s, :] = 0
        for e in range(states[s, END_LOW], states[s, END_HIGH]):
            label = np.int64(bounds[ends[e], 0])
            reach[s, label >> 6] |= np.uint64(1) << np.uint64(label & 63)
    changed = True
    while changed:
        changed = False
        for s in range(last - 1, first - 1, -1):
            before = np.int64(-1)
            for byte in range(256):
                after = np.int64(moves[s, byte] >> 1) - 1
                if after < 0 or after == before or not within[byte]:
                    continue
                before = after
                for w in range(reach.shape[1]):
                    bits = reach[s, w] | reach[after, w]
                    changed = changed or bits != reach[s, w]
                    reach[s, w] = bits
    return np.int64(0)


@njit(cache=True, nogil=True)
def possible(table, fresh, first, within, ignored, reach, bits):
    """Set the bits of the terminals that may come from lexer state ``fresh``; 0.

    Their first byte is one of bool[256] ``first``, the others are of bool[256] ``within``, for which ``reach`` was
    written. An ``ignored`` piece of one byte may stand before them.
    """
    moves, states, bounds, ends = grid(table, MOVES), grid(table, STATES), grid(table, BOUNDS), ints(table, ENDS)
    rows, sets, duties = grid(table, LIST_ROWS), grid(table, DUTY_SETS), ints(table, DUTIES)
    for byte in range(256):
        begun = np.int64(moves[fresh, byte] >> 1) - 1
        if begun < 0 or not first[byte]:
            continue
        bits |= reach[begun]
        for e in range(states[begun, END_LOW], states[begun, END_HIGH]):
            if bounds[ends[e], 0] != ignored:
                continue
            o = bounds[ends[e], 1]
            for then in range(256):
                dead = within[then] and moves[fresh, then] > 1
                for d in range(sets[o, 0], sets[o, 1]):
                    dead = dead and rows[duties[d], then] < 0
                if dead:
                    bits |= reach[(moves[fresh, then] >> 1) - 1]
    return np.int64(0)


@njit(cache=True, nogil=True)
def outlived(table, one, found, within):
    """1 if a list stays alive with some bytes and never matches: those bytes are in bool[256] ``within``; else 0.

    found: int32[n], scratch; lists that lead to n others are given up. A request if negative.
    """
    rows, lists, available = grid(table, LIST_ROWS), grid(table, LISTS), ints(table, AVAILABLE)
    for byte in range(256):
        within[byte] = available[byte] != 0
    found[0] = one
    n, changed = np.int64(1), True
    while changed:
        changed, at = False, np.int64(0)
        while at < n:
            each = np.int64(found[at])
            at += 1
            if lists[each, ROW] < 0:
                code = list_row(table, each)
                if code < 0:
                    return code
            before = np.int64(-1)
            for byte in range(256):
                after = np.int64(rows[each, byte])
                if after < 0 or not within[byte]:
                    continue
                if lists[after, LABEL] >= 0:
                    within[byte], changed = False, True
                    continue
                if after == before:
                    continue
                before, known = after, False
                for i in range(n):
                    known = known or found[i] == after
                if not known:
                    if n + 1 >= found.shape[0]:
                        return np.int64(0)
                    found[n] = after
                    n += 1
    for byte in range(256):
        if within[byte] and rows[one, byte] >= 0:
            return np.int64(1)
    return np.int64(0)
