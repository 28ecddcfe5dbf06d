"""Whether a text can still come to its end: where it may end, what may follow, what is known of dead ends."""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_lexer import close, outcomes
from ctrlgen.engine.cfg.kernel_parser import acceptable, shifted
from ctrlgen.engine.cfg.kernel_store import (
    ACCEPT,
    BOUNDS,
    CLASS,
    CLASSES,
    COUNTS,
    END_HIGH,
    END_LOW,
    ENDS,
    FRAMES,
    FRESH,
    LIST,
    LISTS,
    N_CLOSED,
    NEED_SCANNER,
    OUT_HIGH,
    OUT_LOW,
    OUTCOMES,
    PENDING,
    SCANNER,
    SCANNER_LIST,
    SHIFT,
    STACKS,
    STATES,
    STRICT,
    ask,
    grid,
    intern_state,
    ints,
    longs,
    room,
    verdict,
    words,
)


@njit(cache=True, nogil=True)
def begin(table, k, duties):
    """The lexer state that begins a terminal on stack k; a request if negative."""
    frames, scanner, lists, counts = (
        grid(table, FRAMES),
        ints(table, SCANNER),
        ints(table, SCANNER_LIST),
        longs(table, COUNTS),
    )
    q = np.int64(lists[scanner[frames[k, 0]]])
    if q < 0:
        return room(NEED_SCANNER + 2 * scanner[frames[k, 0]])
    s = intern_state(table, q, duties)
    if s >= counts[N_CLOSED]:
        code = close(table)
        if code < 0:
            return code
    return s


@njit(cache=True, nogil=True)
def may_end(table, s, k):
    """1 if the text may end in this configuration, 0 if not, or a request."""
    states, lists, accept, shift = grid(table, STATES), grid(table, LISTS), words(table, ACCEPT), grid(table, SHIFT)
    bounds, ends, end = grid(table, BOUNDS), ints(table, ENDS), np.int64(shift.shape[1])
    code = acceptable(table, k)
    if code < 0:
        return code
    if lists[states[s, LIST], FRESH] == 1:
        return np.int64(accept[k, end >> 6] >> np.uint64(end & 63) & np.uint64(1))
    out, pending = ints(table, STACKS), ints(table, PENDING)
    for i in range(states[s, END_LOW], states[s, END_HIGH]):
        label, n = np.int64(bounds[ends[i], 0]), np.int64(0)
        if label > end:
            out[0] = k
            n = np.int64(1)
        elif accept[k, label >> 6] >> np.uint64(label & 63) & np.uint64(1):
            n = shifted(table, k, label, out, 0, pending)
            if n < 0:
                return n
        for j in range(n):
            code = acceptable(table, np.int64(out[j]))
            if code < 0:
                return code
            if accept[out[j], end >> 6] >> np.uint64(end & 63) & np.uint64(1):
                return np.int64(1)
    return np.int64(0)


@njit(cache=True, nogil=True)
def follows(table, s, k):
    """1 if some terminal of lexer state s leads to an end, 0 if none does, 2 if that must be found out; or a request.

    Where parsers need no search it is enough that a terminal may follow after which anything may come.
    """
    states, bounds, accept = grid(table, STATES), grid(table, BOUNDS), words(table, ACCEPT)
    classes, free = words(table, CLASSES), longs(table, COUNTS)[STRICT] == 0
    end, width = np.int64(grid(table, SHIFT).shape[1]), accept.shape[1]
    ignored = end + 1
    if states[s, OUT_LOW] < 0:
        code = outcomes(table, s)
        if code < 0:
            return code
    result, out, pending = ints(table, OUTCOMES), ints(table, STACKS), ints(table, PENDING)
    asked_s, asked_k = np.int64(-1), np.int64(-1)
    for i in range(states[s, OUT_LOW], states[s, OUT_HIGH]):
        label = np.int64(bounds[result[i], 0])
        n = np.int64(1)
        out[0] = k
        if label != ignored:
            if not accept[k, label >> 6] >> np.uint64(label & 63) & np.uint64(1):
                continue
            n = shifted(table, k, label, out, 0, pending)
            if n < 0:
                return n
        for j in range(n):
            after = np.int64(out[j])
            code = acceptable(table, after)
            if code < 0:
                return code
            if accept[after, end >> 6] & (np.uint64(1) << np.uint64(end & 63)):
                return np.int64(1)
            fresh = begin(table, after, bounds[result[i], 1])
            if fresh < 0:
                return fresh
            c = states[fresh, CLASS]
            live = classes[c, ignored >> 6] & (np.uint64(1) << np.uint64(ignored & 63))
            for w in range(width):
                live |= classes[c, w] & accept[after, w]
            if live and free:
                return np.int64(1)
            known = verdict(table, fresh, after)
            if known == 1:
                return np.int64(1)
            if known == 2 and asked_s < 0:
                asked_s, asked_k = fresh, after
    if asked_s < 0:
        return np.int64(0)
    code = ask(table, asked_s, asked_k)
    return code if code < 0 else np.int64(2)


@njit(cache=True, nogil=True)
def checked(table, c, k):
    """The same for the lexer state that is alone in class c; 0 where states share the class."""
    classes, accept = words(table, CLASSES), words(table, ACCEPT)
    width, ignored = accept.shape[1], np.int64(grid(table, SHIFT).shape[1]) + 1
    s = np.int64(classes[c, 2 * width]) - 1
    if s < 0:
        return np.int64(0)
    live = classes[c, (ignored >> 6) + width] & (np.uint64(1) << np.uint64(ignored & 63))
    for w in range(width):
        live |= classes[c, w + width] & accept[k, w]
    return follows(table, s, k) if live else np.int64(0)
