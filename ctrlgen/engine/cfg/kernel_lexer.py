"""Lexer states: rows over bytes, and what each can still become.

A *list* holds the terminals that are still alive, each in a state of its own automaton, in order of preference; once
one matches, those after it are cut (as a backtracking matcher would never come to them), and LABEL says what has
matched. The match is the last label before the list dies, so what follows a label may show that it was none: a lexer
state is a list with *duties*, lists that must not reach a label any more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_store import (
    AVAILABLE,
    BEGINS,
    BOUNDS,
    CLASS,
    CLASS_HEADS,
    CLASSES,
    COUNTS,
    DUTIES,
    DUTY,
    DUTY_SETS,
    END_HIGH,
    END_LOW,
    ENDS,
    HIGH,
    LABEL,
    LIST,
    LIST_ROWS,
    LISTS,
    LOW,
    MEMBERS,
    MOVES,
    N_BOUNDS,
    N_CLASSES,
    N_CLOSED,
    N_ENDS,
    N_JUDGED,
    N_OUTCOMES,
    N_STATES,
    NEED_BOUNDS,
    OUT_HIGH,
    OUT_LOW,
    OUTCOMES,
    PARALLEL,
    REACH,
    ROOTS,
    ROW,
    SCRATCH,
    STATES,
    STRICT,
    TAME,
    TERMINAL,
    TERMINAL_INFO,
    grid,
    intern_bound,
    intern_duties,
    intern_list,
    intern_state,
    ints,
    longs,
    mix,
    room,
    words,
)


@njit(cache=True, nogil=True)
def list_row(table, q):
    """Fill the row of a list; 0 or a request."""
    lists, members, result = grid(table, LISTS), ints(table, MEMBERS), grid(table, LIST_ROWS)
    terminal, info, buffer = grid(table, TERMINAL), grid(table, TERMINAL_INFO), ints(table, SCRATCH)
    low, high = np.int64(lists[q, LOW]), np.int64(lists[q, HIGH])
    if q >= result.shape[0]:
        return room(LIST_ROWS)
    if high - low > buffer.shape[0]:
        return room(SCRATCH)
    before, parallel = np.int64(-1), longs(table, COUNTS)[PARALLEL] == 1
    for byte in range(256):
        if byte > 0:
            same = True
            for i in range(low, high):
                if terminal[members[i], byte] != terminal[members[i], byte - 1]:
                    same = False
                    break
            if same:
                result[q, byte] = before
                continue
        n, label = np.int64(0), np.int64(-1)
        shadow, shadow_from, shadow_label = np.int64(-1), np.int64(0), np.int64(-1)
        for i in range(low, high):
            after = terminal[members[i], byte]
            if parallel:
                if after >= 0:
                    buffer[n] = after
                    n += 1
                    if label < 0:
                        label = np.int64(info[after, 0])
                continue
            track = info[members[i], 1]
            if info[members[i], 2] == 1:  # a literal that only renames what its track matches
                if shadow != track:
                    if shadow >= 0:
                        n = shadow_from  # its track has died
                    shadow, shadow_from, shadow_label = track, n, -1
                if after >= 0:
                    if shadow_label < 0:
                        shadow_label = info[after, 0]
                    buffer[n] = after
                    n += 1
                continue
            if shadow >= 0 and shadow != track:
                n, shadow, shadow_label = shadow_from, -1, -1
            if after >= 0:
                buffer[n] = after
                n += 1
                if info[after, 0] >= 0:
                    label = shadow_label if shadow == track and shadow_label >= 0 else np.int64(info[after, 0])
                    break
            elif shadow == track:
                n = shadow_from
            shadow, shadow_label = -1, -1
        if label < 0 and shadow >= 0:
            n = shadow_from
        before = np.int64(-1)
        if n > 0:
            before = intern_list(table, buffer, n, label, 0)
            if before < 0:
                return before
        result[q, byte] = before
    lists[q, ROW] = q
    return np.int64(0)


@njit(cache=True, nogil=True)
def boundary(table, q, o, label):
    """The boundary after ``label`` has matched in list q with duties o, or a request."""
    result, sets, duties = grid(table, LIST_ROWS), grid(table, DUTY_SETS), ints(table, DUTIES)
    buffer = ints(table, SCRATCH)
    goes_on = False
    for byte in range(256):
        goes_on = goes_on or result[q, byte] >= 0
    if goes_on:
        n, placed = np.int64(0), False
        if sets[o, 1] - sets[o, 0] + 1 > buffer.shape[0]:
            return room(SCRATCH)
        for i in range(sets[o, 0], sets[o, 1]):
            if not placed and duties[i] >= q:
                placed = True
                if duties[i] > q:
                    buffer[n] = q
                    n += 1
            buffer[n] = duties[i]
            n += 1
        if not placed:
            buffer[n] = q
            n += 1
        o = intern_duties(table, buffer, n)
        if o < 0:
            return o
    return intern_bound(table, label, o)


@njit(cache=True, nogil=True)
def boundaries(table, s):
    """Write the boundaries after what state s has matched to ENDS; 0 or a request."""
    lists, states, members = grid(table, LISTS), grid(table, STATES), ints(table, MEMBERS)
    counts, ends, info = longs(table, COUNTS), ints(table, ENDS), grid(table, TERMINAL_INFO)
    q, o, low = np.int64(states[s, LIST]), np.int64(states[s, DUTY]), counts[N_ENDS]
    high = low
    if low + lists[q, HIGH] - lists[q, LOW] + 1 > ends.shape[0]:
        return room(ENDS)
    if counts[PARALLEL] == 0:
        b = boundary(table, q, o, np.int64(lists[q, LABEL]))
        if b < 0:
            return b
        ends[high] = b
        high += 1
    else:  # each terminal ends by itself
        one = np.empty(1, np.int32)
        for i in range(lists[q, LOW], lists[q, HIGH]):
            label = np.int64(info[members[i], 0])
            if label < 0:
                continue
            one[0] = members[i]
            alone = intern_list(table, one, 1, label, 0)
            if alone < 0:
                return alone
            if lists[alone, ROW] < 0:
                code = list_row(table, alone)
                if code < 0:
                    return code
            b = boundary(table, alone, o, label)
            if b < 0:
                return b
            ends[high] = b
            high += 1
    states[s, END_LOW], states[s, END_HIGH] = low, high
    counts[N_ENDS] = high
    return np.int64(0)


@njit(cache=True, nogil=True)
def state_row(table, s):
    """Fill MOVES[s]: 2 * (state after the byte + 1), plus 1 where what has matched ends before it; 0 or a request.

    No end is noted before a byte with which no terminal begins: many would be, within characters beyond ASCII.
    """
    lists, states, result, moves = grid(table, LISTS), grid(table, STATES), grid(table, LIST_ROWS), grid(table, MOVES)
    sets, duties, buffer = grid(table, DUTY_SETS), ints(table, DUTIES), ints(table, SCRATCH)
    q, o = np.int64(states[s, LIST]), np.int64(states[s, DUTY])
    if s >= moves.shape[0]:
        return room(MOVES)
    low, high = np.int64(sets[o, 0]), np.int64(sets[o, 1])
    for i in range(low - 1, high):
        one = q if i < low else np.int64(duties[i])
        if lists[one, ROW] < 0:
            code = list_row(table, one)
            if code < 0:
                return code
    matched, parallel = lists[q, LABEL] >= 0, longs(table, COUNTS)[PARALLEL] == 1
    begins = ints(table, BEGINS)
    if matched:
        code = boundaries(table, s)
        if code < 0:
            return code
    for byte in range(256):
        n, broken = np.int64(0), False
        for i in range(low, high):
            after = result[duties[i], byte]
            if after >= 0:
                if lists[after, LABEL] >= 0:
                    broken = True
                    break
                at = n  # keep them ascending and different
                while at > 0 and buffer[at - 1] > after:
                    at -= 1
                if at == 0 or buffer[at - 1] != after:
                    for j in range(n, at, -1):
                        buffer[j] = buffer[j - 1]
                    buffer[at] = after
                    n += 1
        if broken:
            moves[s, byte] = 0
            continue
        after = np.int64(result[q, byte])
        target = np.int64(-1)
        if after >= 0:
            duty = np.int64(0)
            if n > 0:
                duty = intern_duties(table, buffer, n)
                if duty < 0:
                    return duty
            target = intern_state(table, after, duty)
            if target < 0:
                return target
        ends = matched and begins[byte] == 1 and (parallel or after < 0 or lists[after, LABEL] < 0)
        moves[s, byte] = 2 * (target + 1) + (1 if ends else 0)
    return np.int64(0)


@njit(cache=True, nogil=True)
def outcomes(table, s):
    """Write the boundaries that lexer state s can come to, ascending, to OUTCOMES; 0 or a request."""
    states, moves, ends = grid(table, STATES), grid(table, MOVES), ints(table, ENDS)
    counts, result, order = longs(table, COUNTS), ints(table, OUTCOMES), ints(table, SCRATCH)
    n_bounds, n_states, available = counts[N_BOUNDS], counts[N_STATES], ints(table, AVAILABLE)
    low = counts[N_OUTCOMES]
    if low + n_bounds > result.shape[0]:
        return room(OUTCOMES)
    if n_states > order.shape[0]:
        return room(SCRATCH)
    seen, met = np.zeros(n_states, np.bool_), np.zeros(n_bounds, np.bool_)
    order[0], seen[s] = s, True
    n, high = np.int64(1), low
    at = np.int64(0)
    while at < n:
        one = order[at]
        at += 1
        for i in range(states[one, END_LOW], states[one, END_HIGH]):
            b = ends[i]
            if not met[b]:
                met[b] = True
                result[high] = b
                high += 1
        before = np.int32(-1)
        for byte in range(256):
            if moves[one, byte] == before or available[byte] == 0:
                continue
            before = moves[one, byte]
            after = (before >> 1) - 1
            if after >= 0 and not seen[after]:
                seen[after] = True
                order[n] = after
                n += 1
    result[low:high] = np.sort(result[low:high])
    states[s, OUT_LOW], states[s, OUT_HIGH] = low, high
    counts[N_OUTCOMES] = high
    return np.int64(0)


@njit(cache=True, nogil=True)
def intern_class(table, s):
    """Index of what lexer state s can still become, or a request.

    A class is: the bits of the terminals after which anything may come, those of all terminals, one of its states
    (from 1; 0 where the first set decides), the next class in the bucket. Where some terminal is only in the second
    set, or all is searched, states share a class if they come to the same boundaries.
    """
    heads, classes, reach = ints(table, CLASS_HEADS), words(table, CLASSES), words(table, REACH)
    counts, width, states = longs(table, COUNTS), reach.shape[1], grid(table, STATES)
    result = ints(table, OUTCOMES)
    searched = counts[STRICT] == 1
    for w in range(width // 2):
        searched = searched or reach[s, w] != reach[s, w + width // 2]
    h = np.uint64(0)
    for w in range(width):
        h = mix(h, reach[s, w])
    if searched:
        if states[s, OUT_LOW] < 0:
            code = outcomes(table, s)
            if code < 0:
                return code
        for i in range(states[s, OUT_LOW], states[s, OUT_HIGH]):
            h = mix(h, result[i])
    slot = np.int64((h >> np.uint64(7)) % np.uint64(heads.shape[0]))
    c = np.int64(heads[slot])
    while c >= 0:
        same = (classes[c, width] > 0) == searched
        for w in range(width):
            if classes[c, w] != reach[s, w]:
                same = False
                break
        if same and searched:
            other = np.int64(classes[c, width]) - 1
            size = states[s, OUT_HIGH] - states[s, OUT_LOW]
            same = states[other, OUT_HIGH] - states[other, OUT_LOW] == size
            for i in range(size if same else 0):
                if result[states[other, OUT_LOW] + i] != result[states[s, OUT_LOW] + i]:
                    same = False
                    break
        if same:
            return c
        c = np.int64(classes[c, width + 1]) - 1
    c = counts[N_CLASSES]
    if c >= classes.shape[0]:
        return room(CLASSES)
    for w in range(width):
        classes[c, w] = reach[s, w]
    classes[c, width] = np.uint64(s + 1 if searched else 0)
    classes[c, width + 1] = np.uint64(heads[slot] + 1)
    heads[slot] = c
    counts[N_CLASSES] = c + 1
    return c


@njit(cache=True, nogil=True)
def close(table):
    """Give every lexer state its row, the set of terminals it can become, and its class; 0 or a request."""
    counts = longs(table, COUNTS)
    first = counts[N_CLOSED]
    s = first
    while s < counts[N_STATES]:
        code = state_row(table, s)
        if code < 0:
            return code
        s += 1
    if counts[N_JUDGED] < counts[N_BOUNDS] and counts[N_JUDGED] >= 0:
        return room(NEED_BOUNDS)
    states, moves, reach, roots = grid(table, STATES), grid(table, MOVES), words(table, REACH), ints(table, ROOTS)
    last = counts[N_STATES]
    if last > reach.shape[0]:
        return room(REACH)
    if last > roots.shape[0]:
        return room(ROOTS)
    tame = words(table, TAME)
    if last > tame.shape[0]:
        return room(TAME)
    available = ints(table, AVAILABLE)
    width, bounds, ends = reach.shape[1], grid(table, BOUNDS), ints(table, ENDS)
    for s in range(first, last):
        roots[s] = -1
        tame[s, 1] = 0
        for w in range(width):
            reach[s, w] = 0
        for i in range(states[s, END_LOW], states[s, END_HIGH]):
            label = np.int64(bounds[ends[i], 0])
            bit = np.uint64(1) << np.uint64(label & 63)
            reach[s, (label >> 6) + width // 2] |= bit
            if bounds[ends[i], 3] != 2:
                reach[s, label >> 6] |= bit
    changed = True
    while changed:
        changed = False
        for s in range(last - 1, first - 1, -1):
            before = np.int64(-1)
            for byte in range(256):
                after = np.int64(moves[s, byte] >> 1) - 1
                if available[byte] == 0 or after < 0 or after in (before, s):
                    continue
                before = after
                for w in range(width):
                    bits = reach[s, w] | reach[after, w]
                    if bits != reach[s, w]:
                        reach[s, w] = bits
                        changed = True
    for s in range(first, last):
        code = intern_class(table, s)
        if code < 0:
            return code
        states[s, CLASS] = code
    counts[N_CLOSED] = last
    return np.int64(0)
