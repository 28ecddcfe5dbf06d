"""Stacks of parser states: what they accept, and what a terminal makes of them.

A stack is the index of an interned frame (state, stack below); frame 0 is the bottom, which holds the start state.
Nothing here knows whether conflicts were resolved: with all of them kept, a terminal leads to several stacks.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_store import (
    ACCEPT,
    FOLLOWERS,
    FRAMES,
    GOTO,
    PENDING,
    REDUCTIONS,
    RULES,
    SCRATCH,
    SHAPE,
    SHIFT,
    SHIFTABLE,
    STACKS,
    TOO_MANY,
    WORK,
    grid,
    intern_frame,
    ints,
    room,
    words,
)

MAX_REDUCTIONS = 1 << 22


@njit(cache=True, nogil=True)
def reduce(table, k, rule):
    """The stack after a rule has ended on stack k; -1 if the state below has no use for it, or a request - 1."""
    frames, shape, goto = grid(table, FRAMES), grid(table, SHAPE), grid(table, GOTO)
    for _ in range(shape[rule, 1]):
        k = np.int64(frames[k, 1])
        if k < 0:
            return np.int64(-1)
    target = goto[frames[k, 0], shape[rule, 0]]
    if target < 0:
        return np.int64(-1)
    after = intern_frame(table, target, k)
    return after if after >= 0 else after - 1


@njit(cache=True, nogil=True)
def replaced(table, k, count, column):
    """The stack after the top ``count`` states gave way to a nonterminal; a request if negative."""
    frames, goto = grid(table, FRAMES), grid(table, GOTO)
    for _ in range(count):
        k = np.int64(frames[k, 1])
    return intern_frame(table, goto[frames[k, 0], column], k)


@njit(cache=True, nogil=True)
def shifted_into(table, k, terminal, out):
    """Write the stacks after ``terminal`` to out; their number, or a request."""
    return shifted(table, k, terminal, out, 0, ints(table, PENDING))


@njit(cache=True, nogil=True)
def acceptable(table, start):
    """Fill ACCEPT[start] with the bits of the terminals that stack ``start`` takes; 0 or a request."""
    frames, accept, shiftable = grid(table, FRAMES), words(table, ACCEPT), words(table, SHIFTABLE)
    if frames[start, 3] == 1:
        return np.int64(0)
    reductions, rules, followers = grid(table, REDUCTIONS), ints(table, RULES), words(table, FOLLOWERS)
    work = grid(table, WORK)
    if frames.shape[0] > accept.shape[0]:
        return room(ACCEPT)
    width = shiftable.shape[1]
    scratch, met, circular = ints(table, SCRATCH), np.int64(0), False
    top = np.int64(0)
    work[0, 0], work[0, 1] = start, -1
    while top >= 0:
        k, i = np.int64(work[top, 0]), np.int64(work[top, 1])
        state = frames[k, 0]
        if i < 0:
            for w in range(width):
                accept[k, w] = shiftable[state, w]
            i = np.int64(reductions[state, 0])
            frames[k, 3] = 2  # under way
            if met < scratch.shape[0]:
                scratch[met] = k
            met += 1
        if i >= reductions[state, 1]:
            frames[k, 3] = 1
            top -= 1
            continue
        after = reduce(table, k, rules[i])
        code = after + 1 if after < -1 else np.int64(0)
        if after >= 0 and frames[after, 3] == 0:
            work[top, 1] = i
            top += 1
            if top < work.shape[0]:
                work[top, 0], work[top, 1] = after, -1
                continue
            code = room(WORK)
        if code < 0 or met > scratch.shape[0]:
            for j in range(min(met, scratch.shape[0])):
                frames[scratch[j], 3] = 0
            return code if code < 0 else room(SCRATCH)
        if after >= 0:
            circular = circular or frames[after, 3] == 2
            for w in range(width):
                accept[k, w] |= followers[i, w] & accept[after, w]
        work[top, 1] = i + 1
    while circular:  # renaming in a circle: repeat until nothing changes
        circular = False
        for j in range(met):
            k = np.int64(scratch[j])
            for i in range(reductions[frames[k, 0], 0], reductions[frames[k, 0], 1]):
                after = reduce(table, k, rules[i])
                for w in range(width):
                    more = followers[i, w] & accept[after, w] if after >= 0 else np.uint64(0)
                    if more & ~accept[k, w]:
                        accept[k, w] |= more
                        circular = True
    return np.int64(0)


@njit(cache=True, nogil=True)
def shifted(table, start, terminal, out, n, pending):
    """Append to out[n:] the stacks after ``terminal``; their new number, or a request. pending: int32 scratch."""
    frames, shift = grid(table, FRAMES), grid(table, SHIFT)
    reductions, rules, followers = grid(table, REDUCTIONS), ints(table, RULES), words(table, FOLLOWERS)
    w, bit = terminal >> 6, np.uint64(1) << np.uint64(terminal & 63)
    first = n
    pending[0] = start
    top, steps = np.int64(1), np.int64(0)
    while top > 0:
        top -= 1
        k = np.int64(pending[top])
        steps += 1
        if steps > MAX_REDUCTIONS:
            return room(TOO_MANY)
        state = frames[k, 0]
        if shift[state, terminal] >= 0:
            after = intern_frame(table, shift[state, terminal], k)
            if after < 0:
                return after
            known = False
            for j in range(first, n):
                known = known or out[j] == after
            if not known:
                if n >= out.shape[0]:
                    return room(STACKS)
                out[n] = after
                n += 1
        for i in range(reductions[state, 0], reductions[state, 1]):
            if followers[i, w] & bit:
                after = reduce(table, k, rules[i])
                if after < -1:
                    return after + 1
                if after >= 0:
                    if top >= pending.shape[0]:
                        return room(PENDING)
                    pending[top] = after
                    top += 1
    return np.int64(n)
