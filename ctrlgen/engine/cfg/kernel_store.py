"""The arrays of a grammar behind one table of addresses, and the interning that all kernels share.

A kernel takes one int64[.., 3] table of addresses, rows and columns (``engine.kernel_table`` says why) and views the
arrays it needs. Whatever lacks room makes a kernel return ``-(1 + line)``: the caller doubles that array and calls
again, which is safe, since kernels only ever set bits, intern values, and count an entry after it is complete.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from ctrlgen.engine.kernel_table import pointer

# lines of the table: name, dtype, columns (0: one-dimensional)
(TRIE, TOKENS, COUNTS, TERMINAL, TERMINAL_INFO, MEMBERS, LISTS, LIST_HEADS, LIST_ROWS, DUTIES, DUTY_SETS, DUTY_HEADS,
 STATES, STATE_HEADS, MOVES, REACH, CLASSES, CLASS_HEADS, BOUNDS, BOUND_HEADS, SHIFT, GOTO, SHIFTABLE, REDUCTIONS,
 RULES, FOLLOWERS, SHAPE, SCANNER, SCANNER_LIST, FRAMES, FRAME_HEADS, ACCEPT, NODES, NODE_HEADS, GROUPS, GROUP_TOKENS,
 GROUP_ROWS, EXITS, ENTRIES, SCRATCH, SLOTS, WORK, ROOTS, VERDICTS, VERDICT_HEADS,
 OUTCOMES, STACKS, PENDING, ENDS, UNIONS, UNION_MEMBERS, UNION_HEADS, RESULTS, PATHS,
 AVAILABLE, BEGINS, TAME, BELOW, BYTE_CLASSES, UTF8) = range(60)  # fmt: skip

# entries of COUNTS
(N_MEMBERS, N_LISTS, N_DUTIES, N_DUTY_SETS, N_STATES, N_CLOSED, N_CLASSES, N_BOUNDS, N_FRAMES, N_NODES, N_GROUPS,
 N_GROUP_TOKENS, N_GROUP_ROWS, N_EXITS, N_ENTRIES, N_ROOT_ENTRIES, N_VERDICTS, STRICT,
 N_OUTCOMES, PARALLEL, N_ENDS, N_UNIONS, N_UNION_MEMBERS, N_STAMPS,
 N_JUDGED) = range(25)  # fmt: skip

# what else a kernel may answer
NEED_SCANNER, TOO_MANY, NEED_VERDICTS, NEED_BOUNDS = 64, 65, 67, 69

# columns of LISTS: range in MEMBERS, what has matched (-1: nothing), whether nothing has been read, row, next in bucket
LOW, HIGH, LABEL, FRESH, ROW, NEXT = 0, 1, 2, 3, 4, 5
# columns of STATES: list, duties, class, next in bucket, range in ENDS (boundaries after what has matched here),
# range in OUTCOMES (those of all that may still match)
LIST, DUTY, CLASS, S_NEXT, END_LOW, END_HIGH, OUT_LOW, OUT_HIGH = 0, 1, 2, 3, 4, 5, 6, 7


@njit(inline="always")
def ints(table, line):
    """int32[n]."""
    return carray(pointer(table[line, 0]), (table[line, 1],), np.int32)


@njit(inline="always")
def grid(table, line):
    """int32[n, columns]."""
    return carray(pointer(table[line, 0]), (table[line, 1], table[line, 2]), np.int32)


@njit(inline="always")
def longs(table, line):
    """int64[n]."""
    return carray(pointer(table[line, 0]), (table[line, 1],), np.int64)


@njit(inline="always")
def words(table, line):
    """uint64[n, columns]."""
    return carray(pointer(table[line, 0]), (table[line, 1], table[line, 2]), np.uint64)


@njit(inline="always")
def rows(table, line):
    """uint32[n, columns]."""
    return carray(pointer(table[line, 0]), (table[line, 1], table[line, 2]), np.uint32)


@njit(cache=True, nogil=True)
def room(line):
    """The answer that asks for a larger array."""
    return np.int64(-(1 + line))


@njit(inline="always")
def mix(a, b):
    """A hash of two numbers."""
    h = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) ^ (np.uint64(b) + np.uint64(1)) * np.uint64(0xC2B2AE3D27D4EB4F)
    return (h ^ (h >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)


@njit(cache=True, nogil=True)
def intern_list(table, buffer, n, label, fresh):
    """Index of a list of terminal states, or a request."""
    heads, lists, members, counts = (
        ints(table, LIST_HEADS),
        grid(table, LISTS),
        ints(table, MEMBERS),
        longs(table, COUNTS),
    )
    h = np.uint64(n * 2 + fresh)
    for i in range(n):
        h = mix(h, buffer[i])
    slot = np.int64((h >> np.uint64(7)) % np.uint64(heads.shape[0]))
    q = np.int64(heads[slot])
    while q >= 0:
        low = np.int64(lists[q, LOW])
        if lists[q, HIGH] - low == n and lists[q, FRESH] == fresh:
            same = True
            for i in range(n):
                if members[low + i] != buffer[i]:
                    same = False
                    break
            if same:
                return q
        q = np.int64(lists[q, NEXT])
    low, q = counts[N_MEMBERS], counts[N_LISTS]
    if low + n > members.shape[0]:
        return room(MEMBERS)
    if q >= lists.shape[0]:
        return room(LISTS)
    for i in range(n):
        members[low + i] = buffer[i]
    lists[q, LOW], lists[q, HIGH], lists[q, LABEL], lists[q, FRESH], lists[q, ROW] = low, low + n, label, fresh, -1
    lists[q, NEXT] = heads[slot]
    heads[slot] = q
    counts[N_MEMBERS] = low + n
    counts[N_LISTS] = q + 1
    return q


@njit(cache=True, nogil=True)
def intern_set(table, lines, counters, buffer, n):
    """Index of the ascending set buffer[0:n], or a request.

    lines: (buckets, sets, members) of the table, a set being (low, high, next in the bucket); counters: the entries of
    COUNTS that say how many (members, sets) there are.
    """
    heads, sets, members = ints(table, lines[0]), grid(table, lines[1]), ints(table, lines[2])
    counts, h = longs(table, COUNTS), np.uint64(n)
    for i in range(n):
        h = mix(h, buffer[i])
    slot = np.int64((h >> np.uint64(7)) % np.uint64(heads.shape[0]))
    o = np.int64(heads[slot])
    while o >= 0:
        low = np.int64(sets[o, 0])
        if sets[o, 1] - low == n:
            same = True
            for i in range(n):
                if members[low + i] != buffer[i]:
                    same = False
                    break
            if same:
                return o
        o = np.int64(sets[o, 2])
    low, o = counts[counters[0]], counts[counters[1]]
    if low + n > members.shape[0]:
        return room(lines[2])
    if o >= sets.shape[0]:
        return room(lines[1])
    for i in range(n):
        members[low + i] = buffer[i]
    sets[o, 0], sets[o, 1], sets[o, 2] = low, low + n, heads[slot]
    heads[slot] = o
    counts[counters[0]], counts[counters[1]] = low + n, o + 1
    return o


@njit(cache=True, nogil=True)
def intern_duties(table, buffer, n):
    """Index of an ascending set of lists that must not match any more, or a request; 0 is the empty set."""
    return intern_set(table, (DUTY_HEADS, DUTY_SETS, DUTIES), (N_DUTIES, N_DUTY_SETS), buffer, n)


@njit(cache=True, nogil=True)
def intern_union(table, buffer, n):
    """Index of an ascending set of frames, or a request."""
    return intern_set(table, (UNION_HEADS, UNIONS, UNION_MEMBERS), (N_UNION_MEMBERS, N_UNIONS), buffer, n)


@njit(cache=True, nogil=True)
def intern_state(table, q, o):
    """Index of the lexer state (list, duties), or a request."""
    heads, states, counts = ints(table, STATE_HEADS), grid(table, STATES), longs(table, COUNTS)
    slot = np.int64((mix(q, o) >> np.uint64(7)) % np.uint64(heads.shape[0]))
    s = np.int64(heads[slot])
    while s >= 0:
        if states[s, LIST] == q and states[s, DUTY] == o:
            return s
        s = np.int64(states[s, S_NEXT])
    s = counts[N_STATES]
    if s >= states.shape[0]:
        return room(STATES)
    states[s, LIST], states[s, DUTY], states[s, CLASS], states[s, S_NEXT] = q, o, -1, heads[slot]
    states[s, END_LOW], states[s, END_HIGH], states[s, OUT_LOW] = 0, 0, -1
    heads[slot] = s
    counts[N_STATES] = s + 1
    return s


@njit(cache=True, nogil=True)
def intern_bound(table, label, o):
    """Index of the boundary (terminal that ended, duties after it), or a request.

    Its last column says whether it is free (see ``adjacency``): 1 if so, 2 if not, 0 as long as that is not known.
    """
    heads, bounds, counts = ints(table, BOUND_HEADS), grid(table, BOUNDS), longs(table, COUNTS)
    slot = np.int64((mix(label, o) >> np.uint64(7)) % np.uint64(heads.shape[0]))
    b = np.int64(heads[slot])
    while b >= 0:
        if bounds[b, 0] == label and bounds[b, 1] == o:
            return b
        b = np.int64(bounds[b, 2])
    b = counts[N_BOUNDS]
    if b >= bounds.shape[0]:
        return room(BOUNDS)
    bounds[b, 0], bounds[b, 1], bounds[b, 2], bounds[b, 3] = label, o, heads[slot], 0
    heads[slot] = b
    counts[N_BOUNDS] = b + 1
    return b


@njit(cache=True, nogil=True)
def intern_frame(table, state, parent):
    """Index of the stack ``parent`` with a parser state on top, or a request.

    A frame is: the state, the frame below (-2 - u: those of union u), the next in the bucket, whether ACCEPT is known
    (2: under way), and a mark.
    """
    heads, frames, counts = ints(table, FRAME_HEADS), grid(table, FRAMES), longs(table, COUNTS)
    slot = np.int64((mix(state, parent) >> np.uint64(7)) % np.uint64(heads.shape[0]))
    k = np.int64(heads[slot])
    while k >= 0:
        if frames[k, 0] == state and frames[k, 1] == parent:
            return k
        k = np.int64(frames[k, 2])
    k = counts[N_FRAMES]
    if k >= frames.shape[0]:
        return room(FRAMES)
    frames[k, 0], frames[k, 1], frames[k, 2], frames[k, 3], frames[k, 4] = state, parent, heads[slot], 0, 0
    heads[slot] = k
    counts[N_FRAMES] = k + 1
    return k


@njit(cache=True, nogil=True)
def verdict(table, s, k):
    """1 if configuration (s, k) can come to an end, 0 if not, 2 if that is not known yet."""
    heads, verdicts = ints(table, VERDICT_HEADS), grid(table, VERDICTS)
    i = np.int64(heads[np.int64((mix(s, k) >> np.uint64(7)) % np.uint64(heads.shape[0]))])
    while i >= 0:
        if verdicts[i, 0] == s and verdicts[i, 1] == k:
            return np.int64(verdicts[i, 2])
        i = np.int64(verdicts[i, 3])
    return np.int64(2)


@njit(cache=True, nogil=True)
def ask(table, s, k):
    """Note that the verdict on (s, k) is wanted, once; 0 or a request."""
    heads, verdicts, counts = ints(table, VERDICT_HEADS), grid(table, VERDICTS), longs(table, COUNTS)
    slot = np.int64((mix(s, k) >> np.uint64(7)) % np.uint64(heads.shape[0]))
    i = np.int64(heads[slot])
    while i >= 0:
        if verdicts[i, 0] == s and verdicts[i, 1] == k:
            return np.int64(0)
        i = np.int64(verdicts[i, 3])
    i = counts[N_VERDICTS]
    if i >= verdicts.shape[0]:
        return room(VERDICTS)
    verdicts[i, 0], verdicts[i, 1], verdicts[i, 2], verdicts[i, 3] = s, k, 2, heads[slot]
    heads[slot] = i
    counts[N_VERDICTS] = i + 1
    return np.int64(0)


@njit(cache=True, nogil=True)
def chain_frames(frames, used, heads):
    """Put all frames into new, empty buckets."""
    for k in range(1, used):
        slot = np.int64((mix(frames[k, 0], frames[k, 1]) >> np.uint64(7)) % np.uint64(heads.shape[0]))
        frames[k, 2] = heads[slot]
        heads[slot] = k
