"""Stacks of parser states: what they accept, and what a terminal makes of them.

A stack is the index of an interned frame (state, stacks below); frame 0 is the bottom, which holds the start state.
Nothing here knows whether conflicts were resolved. With all of them kept a terminal leads to several stacks; those that
come to the same state become one frame over the union of what they stand on, so that n ways to read a text take about n
frames, not one stack for each way (Tomita's graph-structured stack, made of frames that never change).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_store import (
    ACCEPT,
    COUNTS,
    FOLLOWERS,
    FRAMES,
    GOTO,
    N_STAMPS,
    PATHS,
    PENDING,
    REDUCTIONS,
    RESULTS,
    RULES,
    SCRATCH,
    SHAPE,
    SHIFT,
    SHIFTABLE,
    STACKS,
    TOO_MANY,
    UNION_MEMBERS,
    UNIONS,
    WORK,
    grid,
    intern_frame,
    intern_union,
    ints,
    longs,
    room,
    words,
)

MAX_PATHS = 1 << 22
"""Ways along which one terminal may be taken."""


@njit(cache=True, nogil=True)
def fresh_stamp(table):
    """A number that no frame is marked with."""
    counts = longs(table, COUNTS)
    counts[N_STAMPS] += 1
    return np.int32(counts[N_STAMPS] & 0x7FFFFFFF)


@njit(cache=True, nogil=True)
def reduced(table, k, count, column, out, n, stamp):
    """Append to out[n:] the stacks after the top ``count`` states of k gave way to a nonterminal; their new number.

    Those that are marked with the stamp are left out, the others are marked. A request if negative.
    """
    frames, goto, paths = grid(table, FRAMES), grid(table, GOTO), grid(table, PATHS)
    unions, members = grid(table, UNIONS), ints(table, UNION_MEMBERS)
    paths[0, 0], paths[0, 1] = k, count
    top, seen = np.int64(1), np.int64(0)
    while top > 0:
        top -= 1
        at, left = np.int64(paths[top, 0]), paths[top, 1]
        while left > 0 and at >= 0:
            left -= 1
            at = np.int64(frames[at, 1])
            if at < -1:
                low, high = np.int64(unions[-2 - at, 0]), np.int64(unions[-2 - at, 1])
                if top + high - low > paths.shape[0]:
                    return room(PATHS)
                for i in range(low + 1, high):
                    paths[top, 0], paths[top, 1] = members[i], left
                    top += 1
                at = np.int64(members[low])
        seen += 1
        if seen > MAX_PATHS:
            return room(TOO_MANY)
        if at < 0:
            continue
        target = goto[frames[at, 0], column]
        if target < 0:
            continue
        after = intern_frame(table, target, at)
        if after < 0:
            return after
        if frames[after, 4] != stamp:
            if n >= out.shape[0]:
                return room(RESULTS)
            frames[after, 4] = stamp
            out[n] = after
            n += 1
    return n


@njit(cache=True, nogil=True)
def replaced(table, k, count, column):
    """Write the stacks after the top ``count`` states gave way to a nonterminal to RESULTS; their number."""
    return reduced(table, k, count, column, ints(table, RESULTS), 0, fresh_stamp(table))


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
    work, shape, results = grid(table, WORK), grid(table, SHAPE), ints(table, RESULTS)
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
            if frames[k, 3] != 0:  # met in the meantime
                top -= 1
                continue
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
        count = reduced(table, k, shape[rules[i], 1], shape[rules[i], 0], results, 0, fresh_stamp(table))
        code, missing = min(count, 0), False
        work[top, 1] = i
        here = top
        for j in range(count):
            if frames[results[j], 3] == 0:
                missing = True
                top += 1
                if top >= work.shape[0]:
                    code = room(WORK)
                    break
                work[top, 0], work[top, 1] = results[j], -1
        if code < 0 or met > scratch.shape[0]:
            for j in range(min(met, scratch.shape[0])):
                frames[scratch[j], 3] = 0
            return code if code < 0 else room(SCRATCH)
        if missing:
            continue
        for j in range(count):
            after = np.int64(results[j])
            circular = circular or frames[after, 3] == 2
            for w in range(width):
                accept[k, w] |= followers[i, w] & accept[after, w]
        work[here, 1] = i + 1
    while circular:  # renaming in a circle: repeat until nothing changes
        circular = False
        for m in range(met):
            k = np.int64(scratch[m])
            for i in range(reductions[frames[k, 0], 0], reductions[frames[k, 0], 1]):
                count = reduced(table, k, shape[rules[i], 1], shape[rules[i], 0], results, 0, fresh_stamp(table))
                for j in range(count):
                    for w in range(width):
                        more = followers[i, w] & accept[results[j], w]
                        if more & ~accept[k, w]:
                            accept[k, w] |= more
                            circular = True
    return np.int64(0)


@njit(cache=True, nogil=True)
def shifted(table, start, terminal, out, n, pending):
    """Append to out[n:] the stacks after ``terminal``; their new number, or a request. pending: int32 scratch."""
    frames, shift, shape = grid(table, FRAMES), grid(table, SHIFT), grid(table, SHAPE)
    reductions, rules, followers = grid(table, REDUCTIONS), ints(table, RULES), words(table, FOLLOWERS)
    w, bit, stamp = terminal >> 6, np.uint64(1) << np.uint64(terminal & 63), fresh_stamp(table)
    pending[0], frames[start, 4] = start, stamp
    count, at, first = np.int64(1), np.int64(0), n
    while at < count:
        k = np.int64(pending[at])
        at += 1
        state = frames[k, 0]
        if shift[state, terminal] >= 0:
            if n >= out.shape[0]:
                return room(STACKS)
            out[n] = k
            n += 1
        for i in range(reductions[state, 0], reductions[state, 1]):
            if followers[i, w] & bit:
                count = reduced(table, k, shape[rules[i], 1], shape[rules[i], 0], pending, count, stamp)
                if count < 0:
                    return room(PENDING) if count == room(RESULTS) else count
    if n == first + 1:
        after = intern_frame(table, shift[frames[out[first], 0], terminal], np.int64(out[first]))
        if after < 0:
            return after
        out[first] = after
        return np.int64(n)
    return merged(table, terminal, out, first, n)


@njit(cache=True, nogil=True)
def joined(table, stacks, n):
    """The stack that stands on all that n stacks of one state stand on, or a request."""
    frames, unions, members = grid(table, FRAMES), grid(table, UNIONS), ints(table, UNION_MEMBERS)
    if n == 1:
        return np.int64(stacks[0])
    buffer, count = ints(table, RESULTS), np.int64(0)
    for i in range(n):
        below = np.int64(frames[stacks[i], 1])
        low, high = np.int64(0), np.int64(1)
        if below < -1:
            low, high = np.int64(unions[-2 - below, 0]), np.int64(unions[-2 - below, 1])
        if count + high - low > buffer.shape[0]:
            return room(RESULTS)
        for j in range(low, high):
            buffer[count] = members[j] if below < -1 else below
            count += 1
    ascending = np.unique(buffer[:count])
    u = intern_union(table, ascending, ascending.shape[0])
    return u if u < 0 else intern_frame(table, frames[stacks[0], 0], -2 - u)


@njit(cache=True, nogil=True)
def merged(table, terminal, out, first, n):
    """Replace the stacks out[first:n] by those after ``terminal``, one for each state; their new number."""
    frames, shift = grid(table, FRAMES), grid(table, SHIFT)
    keys = np.empty(n - first, np.int64)
    for i in range(first, n):
        keys[i - first] = np.int64(frames[out[i], 0]) << 32 | out[i]
    keys = np.sort(keys)
    sources, count, low = np.empty(n - first, np.int32), np.int64(0), np.int64(0)
    for high in range(1, keys.shape[0] + 1):
        if high < keys.shape[0] and keys[high] >> 32 == keys[low] >> 32:
            continue
        k = joined(table, (keys[low:high] & 0xFFFFFFFF).astype(np.int32), high - low)
        if k < 0:
            return k
        sources[count] = k
        count, low = count + 1, np.int64(high)
    last, group = first, np.empty(count, np.int32)
    for i in range(count):
        if sources[i] < 0:
            continue
        target, size = shift[frames[sources[i], 0], terminal], np.int64(0)
        for j in range(i, count):
            if sources[j] >= 0 and shift[frames[sources[j], 0], terminal] == target:
                group[size] = sources[j]
                sources[j] = -1
                size += 1
        below = np.int64(group[0])
        if size > 1:
            group[:size] = np.sort(group[:size])
            below = intern_union(table, group, size)
            if below < 0:
                return below
            below = -2 - below
        after = intern_frame(table, target, below)
        if after < 0:
            return after
        out[last] = after
        last += 1
    return last
