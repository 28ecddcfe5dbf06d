"""Numba kernels: walk the byte trie of a vocabulary and a transition network in lock-step.

A configuration is (symbol, stack). A symbol >= 0 is a node of the network, ~symbol >= 0 a state of an automaton
of the lexicon. A stack is the index of a hash-consed frame (return node, parent, least, most), 0 the empty
stack, so equal stacks are equal ints. least and most count the characters that a string still needs and may
still have (most -1: no limit).

The kernels read the arrays of ``Lexicon.arrays`` and ``Network.arrays``. Passing fifteen arrays costs more than
a step takes, so ``table_of`` writes their addresses and lengths into one table, from which ``unpack`` makes them
again; who calls must keep the arrays alive and make a new table when one of them has moved.

They never allocate shared memory. What is missing (an unbuilt node, a row, room) makes them return a negative
request; the caller provides it and calls again, which is safe since they only ever set bits and intern frames.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# node kinds, nodes[:, 0]
UNBUILT, BYTES, CALL, FORK, END, ENTER = 0, 1, 2, 3, 4, 5
# columns of trie nodes
BYTE, AFTER, LO, HI, DENSE, DEPTH = 0, 1, 2, 3, 4, 5
# columns of lexicon states
FINAL, BOUNDARY, LEAF, RANGE_LO, RANGE_HI, REST, REST_LO, REST_HI, COUNTED = 0, 1, 2, 3, 4, 5, 6, 7, 8
# what a kernel may ask for: it returns -(1 + REQUESTS * value + kind)
REQUESTS = 8
NEED_NODE, NEED_ROW, NEED_REST, NEED_COUNTED_REST, NEED_FRAMES, NEED_ROOM, TOO_DEEP = 0, 1, 2, 3, 4, 5, 6
UNLIMITED = 255  # row of a string without limit
UNKNOWN = -2  # REST: not computed yet; -1: nothing can follow inside a token
EPSILON_LIMIT = 1 << 20




@intrinsic
def pointer(typing_context, address):
    """An int64 as a pointer."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


# every array that the kernels read: name, number of columns (0: one-dimensional), dtype; in the order of the table
COLUMNS = (
    ("trie", 6, np.int32),
    ("tokens", 0, np.int32),
    ("children", 256, np.int32),
    ("step", 256, np.int32),
    ("states", 9, np.int32),
    ("ranges", 3, np.int32),
    ("row_of", 0, np.int32),
    ("inside", -1, np.uint32),
    ("counted_row_of", -1, np.int32),
    ("rests", 2, np.int32),
    ("nodes", 5, np.int32),
    ("edges", 3, np.int32),
    ("frames", 5, np.int32),
    ("buckets", 0, np.int32),
    ("sizes", 0, np.int64),
)


def table_of(lexicon, network):
    """int64[15, 3]: address, rows and columns of each array of ``Lexicon.arrays`` and ``Network.arrays``."""
    table = np.zeros((len(COLUMNS), 3), np.int64)
    for line, (name, columns, dtype), array in zip(table, COLUMNS, (*lexicon, *network), strict=True):
        if array.dtype != dtype or not array.flags.c_contiguous or array.ndim != (1 if columns == 0 else 2):
            raise TypeError(f"kernel array {name}: {array.dtype}{array.shape} is not what the kernels read")
        if columns > 0 and array.shape[1] != columns:
            raise TypeError(f"kernel array {name} has {array.shape[1]} columns, not {columns}")
        line[:] = array.ctypes.data, array.shape[0], array.shape[-1]
    return table


@njit(cache=True, nogil=True, inline="always")
def unpack(table):
    """The arrays behind a table, in the order of COLUMNS."""
    return (
        carray(pointer(table[0, 0]), (table[0, 1], 6), np.int32),
        carray(pointer(table[1, 0]), (table[1, 1],), np.int32),
        carray(pointer(table[2, 0]), (table[2, 1], 256), np.int32),
        carray(pointer(table[3, 0]), (table[3, 1], 256), np.int32),
        carray(pointer(table[4, 0]), (table[4, 1], 9), np.int32),
        carray(pointer(table[5, 0]), (table[5, 1], 3), np.int32),
        carray(pointer(table[6, 0]), (table[6, 1],), np.int32),
        carray(pointer(table[7, 0]), (table[7, 1], table[7, 2]), np.uint32),
        carray(pointer(table[8, 0]), (table[8, 1], table[8, 2]), np.int32),
        carray(pointer(table[9, 0]), (table[9, 1], 2), np.int32),
        carray(pointer(table[10, 0]), (table[10, 1], 5), np.int32),
        carray(pointer(table[11, 0]), (table[11, 1], 3), np.int32),
        carray(pointer(table[12, 0]), (table[12, 1], 5), np.int32),
        carray(pointer(table[13, 0]), (table[13, 1],), np.int32),
        carray(pointer(table[14, 0]), (table[14, 1],), np.int64),
    )


@njit(cache=True, nogil=True)
def request(kind, value):
    return -(1 + REQUESTS * np.int64(value) + kind)


@njit(cache=True, nogil=True)
def push_frame(frames, buckets, sizes, back, parent, least, most):
    """Index of the frame, interned; -1 where there is no room."""
    key = np.uint64(back) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(parent) * np.uint64(0xC2B2AE3D27D4EB4F)
    key ^= np.uint64(least + 1) * np.uint64(0x165667B19E3779F9) ^ np.uint64(most + 2) * np.uint64(0x27D4EB2F165667C5)
    key ^= key >> np.uint64(29)
    slot = np.int64(key % np.uint64(buckets.shape[0]))
    k = buckets[slot]
    while k > 0:
        if frames[k, 0] == back and frames[k, 1] == parent and frames[k, 2] == least and frames[k, 3] == most:
            return k
        k = frames[k, 4]
    k = sizes[0]
    if k >= frames.shape[0]:
        return -1
    sizes[0] = k + 1
    frames[k, 0], frames[k, 1], frames[k, 2], frames[k, 3], frames[k, 4] = back, parent, least, most, buckets[slot]
    buckets[slot] = k
    return k


@njit(cache=True, nogil=True)
def child(trie, children, v, byte):
    """The child of trie node v by byte, or -1."""
    dense = trie[v, DENSE]
    if dense >= 0:
        return np.int64(children[dense, byte])
    c, end = np.int64(v) + 1, trie[v, AFTER]
    while c < end:
        b = trie[c, BYTE]
        if b >= byte:
            return c if b == byte else np.int64(-1)
        c = np.int64(trie[c, AFTER])
    return np.int64(-1)


@njit(cache=True, nogil=True)
def set_tokens(trie, tokens, v, row):
    for i in range(trie[v, LO], trie[v, HI]):
        t = tokens[i]
        row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)


@njit(cache=True, nogil=True)
def walk_automaton(trie, tokens, children, step, states, ranges, g, row, exits, counts, follow):
    """Tokens that stay inside an automaton from state g, and where it may be left within a token.

    Sets the bits of row; writes to counts[t] (uint8, capped at 254) the characters that token t takes, begun
    ones included, unless it ends where the automaton accepts; writes (trie node, characters) to exits[n] for each node where the automaton accepts, if
    follow. Returns the number of exits (which may exceed the room in exits: call again with more).
    """
    n = 0
    depth_state = np.empty(512, np.int32)
    depth_count = np.empty(512, np.int32)
    if ranges.shape[0] and states[g, RANGE_HI] - states[g, RANGE_LO] >= 0:
        live = 0
        for e in range(states[g, RANGE_LO], states[g, RANGE_HI]):
            live += ranges[e, 1] - ranges[e, 0] + 1
    else:
        live = 256
    top = np.int64(0)
    end_all = np.int64(trie[0, AFTER])
    depth_state[0], depth_count[0] = g, 0
    if live > 24:
        firsts, last = np.int64(0), np.int64(1)
    else:
        firsts, last = np.int64(states[g, RANGE_LO]), np.int64(states[g, RANGE_HI])
    for e in range(firsts, last):
        # a narrow state walks only the subtrees of its own bytes, a wide one everything
        low, high = (0, 0) if live > 24 else (ranges[e, 0], ranges[e, 1])
        for byte in range(low, high + 1):
            if live > 24:
                i, end = top + 1, end_all
            else:
                i = child(trie, children, 0, byte)
                if i < 0:
                    continue
                end = np.int64(trie[i, AFTER])
            while i < end:
                d = trie[i, DEPTH]
                p = depth_state[d - 1]
                q = step[p, trie[i, BYTE]]
                if q < 0:
                    i = np.int64(trie[i, AFTER])
                    continue
                c = depth_count[d - 1] + states[q, BOUNDARY]
                depth_state[d], depth_count[d] = q, c
                shown = c if states[q, BOUNDARY] == 1 else c + 1
                for j in range(trie[i, LO], trie[i, HI]):
                    t = tokens[j]
                    row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
                    if states[q, FINAL] == 0:
                        counts[t] = min(shown, 254)
                if follow and states[q, FINAL] == 1:
                    if n < exits.shape[0]:
                        exits[n, 0], exits[n, 1] = i, c
                    n += 1
                i += 1
    return n


@njit(cache=True, nogil=True)
def fill(table, start, symbol, stack, row, work):
    """Set the bits of all tokens below trie node start allowed from a configuration there; 0, or a request."""
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    longest = counted_row_of.shape[1] - 1
    depth_state = np.empty(512, np.int32)
    depth_count = np.empty(512, np.int32)
    room = work.shape[0] - 600
    work[0, 0], work[0, 1], work[0, 2] = start, symbol, stack
    top = 1
    steps = 0
    while top > 0:
        top -= 1
        v, s, k = work[top, 0], work[top, 1], work[top, 2]
        steps += 1
        if top > room:
            return request(NEED_ROOM, 0)
        if steps > EPSILON_LIMIT:
            return request(TOO_DEEP, 0)
        if s < 0:
            g = ~s
            back, parent, least, most = frames[k, 0], frames[k, 1], frames[k, 2], frames[k, 3]
            bottom = back == 0 and parent == 0
            free = least <= 0 and (most < 0 or most >= longest)
            if states[g, FINAL] == 1 and not bottom:
                work[top, 0], work[top, 1], work[top, 2] = v, back, parent
                top += 1
            if v == 0:
                if free:
                    r = row_of[g]
                    if r < 0:
                        return request(NEED_ROW, g * 256 + UNLIMITED)
                else:
                    allowed = longest if most < 0 or most > longest else most
                    if states[g, COUNTED] < 0:
                        return request(NEED_ROW, g * 256 + allowed)
                    r = counted_row_of[states[g, COUNTED], allowed]
                    if r < 0:
                        return request(NEED_ROW, g * 256 + allowed)
                for w in range(row.shape[0]):
                    row[w] |= inside[r, w]
                if bottom:
                    continue
                if free:
                    rest = states[g, REST]
                    if rest == UNKNOWN:
                        return request(NEED_REST, g)
                    if rest >= 0:
                        set_tokens(trie, tokens, rest, row)
                        work[top, 0], work[top, 1], work[top, 2] = rest, back, parent
                        top += 1
                else:
                    if states[g, REST_LO] < 0:
                        return request(NEED_COUNTED_REST, g)
                    for j in range(states[g, REST_LO], states[g, REST_HI]):
                        c = rests[j, 0]
                        if c >= least and (most < 0 or c <= most):
                            if top > room:
                                return request(NEED_ROOM, 0)
                            set_tokens(trie, tokens, rests[j, 1], row)
                            work[top, 0], work[top, 1], work[top, 2] = rests[j, 1], back, parent
                            top += 1
                continue
            d0 = trie[v, DEPTH]
            depth_state[d0], depth_count[d0] = g, 0
            i, end = np.int64(v) + 1, trie[v, AFTER]
            while i < end:
                d = trie[i, DEPTH]
                p = depth_state[d - 1]
                q = step[p, trie[i, BYTE]]
                if q >= 0 and not free:
                    if states[q, FINAL] == 1:
                        if depth_count[d - 1] < least:
                            q = -1
                    elif states[p, BOUNDARY] == 1 and most >= 0 and depth_count[d - 1] >= most:
                        q = -1
                if q < 0:
                    i = np.int64(trie[i, AFTER])
                    continue
                depth_state[d] = q
                depth_count[d] = depth_count[d - 1] + states[q, BOUNDARY]
                for j in range(trie[i, LO], trie[i, HI]):
                    t = tokens[j]
                    row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
                if states[q, FINAL] == 1 and not bottom:
                    if top > room:
                        return request(NEED_ROOM, 0)
                    work[top, 0], work[top, 1], work[top, 2] = i, back, parent
                    top += 1
                i += 1
            continue
        kind = nodes[s, 0]
        if kind == BYTES:
            base = nodes[s, 3]
            if base < 0:
                for e in range(nodes[s, 1], nodes[s, 2]):
                    target = edges[e, 2]
                    for byte in range(edges[e, 0], edges[e, 1] + 1):
                        c = child(trie, children, v, byte)
                        if c >= 0:
                            for i in range(trie[c, LO], trie[c, HI]):
                                t = tokens[i]
                                row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
                            if trie[c, AFTER] > c + 1:
                                work[top, 0], work[top, 1], work[top, 2] = c, target, k
                                top += 1
            else:
                other = push_frame(frames, buckets, sizes, nodes[s, 4], k, 0, -1)
                if other < 0:
                    return request(NEED_FRAMES, 0)
                c, end = np.int64(v) + 1, trie[v, AFTER]
                while c < end:
                    byte = trie[c, BYTE]
                    target, found = -1, False
                    for e in range(nodes[s, 1], nodes[s, 2]):
                        if edges[e, 0] <= byte <= edges[e, 1]:
                            target, found = edges[e, 2], True
                            break
                    if found:
                        if target >= 0:
                            set_tokens(trie, tokens, c, row)
                            work[top, 0], work[top, 1], work[top, 2] = c, target, k
                            top += 1
                    else:
                        q = step[base, byte]
                        if q >= 0:
                            set_tokens(trie, tokens, c, row)
                            work[top, 0], work[top, 1], work[top, 2] = c, ~q, other
                            top += 1
                    c = np.int64(trie[c, AFTER])
        elif kind == CALL:
            if nodes[s, 2] == 0:
                inner = k
            else:
                inner = push_frame(frames, buckets, sizes, nodes[s, 2], k, 0, -1)
                if inner < 0:
                    return request(NEED_FRAMES, 0)
            work[top, 0], work[top, 1], work[top, 2] = v, nodes[s, 1], inner
            top += 1
        elif kind == ENTER:
            inner = push_frame(frames, buckets, sizes, nodes[s, 2], k, nodes[s, 3], nodes[s, 4])
            if inner < 0:
                return request(NEED_FRAMES, 0)
            work[top, 0], work[top, 1], work[top, 2] = v, ~nodes[s, 1], inner
            top += 1
        elif kind == FORK:
            if nodes[s, 2] - nodes[s, 1] > room - top:
                return request(NEED_ROOM, 0)
            for e in range(nodes[s, 1], nodes[s, 2]):
                work[top, 0], work[top, 1], work[top, 2] = v, edges[e, 2], k
                top += 1
        elif kind == END:
            if k > 0:
                work[top, 0], work[top, 1], work[top, 2] = v, frames[k, 0], frames[k, 1]
                top += 1
        else:
            return request(NEED_NODE, s)
    return np.int64(0)


@njit(cache=True, nogil=True)
def patch(table, symbol, stack, row, work):
    """Turn the row of a key's base (any other key) into the row of a node that also leads to declared names.

    Where the node's own bytes lead to a node with a base of its own the row is right already; elsewhere the
    subtree is cleared and walked again. Returns 0 or a request.
    """
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    pending = np.empty((512, 2), np.int32)
    pending[0, 0], pending[0, 1] = 0, symbol
    n = 1
    while n > 0:
        n -= 1
        v, s = pending[n, 0], pending[n, 1]
        for e in range(nodes[s, 1], nodes[s, 2]):
            c = child(trie, children, v, edges[e, 0])
            if c < 0:
                continue
            target = edges[e, 2]
            if target >= 0 and nodes[target, 0] == BYTES and nodes[target, 3] >= 0:
                if n >= 510:
                    return request(TOO_DEEP, 0)
                pending[n, 0], pending[n, 1] = c, target
                n += 1
                continue
            for i in range(trie[c, LO], trie[trie[c, AFTER] - 1, HI]):
                t = tokens[i]
                row[t >> 5] &= ~(np.uint32(1) << np.uint32(t & 31))
            if target >= 0:
                set_tokens(trie, tokens, c, row)
                code = fill(table, c, target, stack, row, work)
                if code < 0:
                    return code
    return np.int64(0)



@njit(cache=True, nogil=True)
def settle(nodes, edges, states, frames, buckets, sizes, s, k):
    """Follow the moves without a byte that leave no choice, so that equal configurations look equal.

    Returns (symbol, stack, 0) or (_, _, -1) where there is no room for a frame.
    """
    for _ in range(10_000):
        if s < 0:
            if states[~s, LEAF] == 0 or (frames[k, 0] == 0 and frames[k, 1] == 0):
                break
            s, k = frames[k, 0], frames[k, 1]
            continue
        kind = nodes[s, 0]
        if kind == CALL:
            if nodes[s, 2] != 0:
                k = push_frame(frames, buckets, sizes, nodes[s, 2], k, 0, -1)
            s = nodes[s, 1]
        elif kind == ENTER:
            k = push_frame(frames, buckets, sizes, nodes[s, 2], k, nodes[s, 3], nodes[s, 4])
            s = ~nodes[s, 1]
        elif kind == END and k > 0:
            s, k = frames[k, 0], frames[k, 1]
        else:
            break
        if k < 0:
            return s, k, -1
    return s, k, 0


@njit(cache=True, nogil=True)
def add(seen, n, s, k):
    """Append configuration (s, k) to seen[0:n] unless it is there; the new n."""
    for i in range(n):
        if seen[i, 0] == s and seen[i, 1] == k:
            return n
    seen[n, 0], seen[n, 1] = s, k
    return n + 1


@njit(cache=True, nogil=True)
def advance(table, current, n, text, after, work):
    """Configurations after the bytes of text, from current[0:n]: how many are in after, or a request.

    current, after and work are int32[room, 2 or 3]; current is overwritten. The result is sorted and settled.
    """
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    room = min(after.shape[0], work.shape[0]) - 8
    for position in range(text.shape[0]):
        byte = np.int64(text[position])
        m = 0
        for at in range(n):
            work[0, 0], work[0, 1] = current[at, 0], current[at, 1]
            top = 1
            steps = 0
            while top > 0:
                top -= 1
                s, k = np.int64(work[top, 0]), np.int64(work[top, 1])
                steps += 1
                if steps > EPSILON_LIMIT:
                    return request(TOO_DEEP, 0)
                if top > room or m > room:
                    return request(NEED_ROOM, 0)
                target, stack = np.int64(0), k
                moved = False
                if s < 0:
                    g = ~s
                    back, parent, least, most = frames[k, 0], frames[k, 1], frames[k, 2], frames[k, 3]
                    if states[g, FINAL] == 1 and not (back == 0 and parent == 0):
                        work[top, 0], work[top, 1] = back, parent
                        top += 1
                    q = step[g, byte]
                    if q >= 0 and (least > 0 or most >= 0):
                        if states[q, FINAL] == 1:
                            if least > 0:
                                q = -1
                        else:
                            if states[g, BOUNDARY] == 1 and most == 0:
                                q = -1
                            elif states[q, BOUNDARY] == 1:
                                stack = push_frame(
                                    frames, buckets, sizes, back, parent, max(least - 1, 0), max(most - 1, -1)
                                )
                                if stack < 0:
                                    return request(NEED_FRAMES, 0)
                    if q >= 0:
                        target, moved = np.int64(~q), True
                else:
                    kind = nodes[s, 0]
                    if kind == BYTES:
                        found = False
                        for e in range(nodes[s, 1], nodes[s, 2]):
                            if edges[e, 0] <= byte <= edges[e, 1]:
                                found = True
                                target, moved = np.int64(edges[e, 2]), edges[e, 2] >= 0
                                break
                        base = nodes[s, 3]
                        if not found and base >= 0 and step[base, byte] >= 0:
                            stack = push_frame(frames, buckets, sizes, nodes[s, 4], k, 0, -1)
                            if stack < 0:
                                return request(NEED_FRAMES, 0)
                            target, moved = np.int64(~step[base, byte]), True
                    elif kind == CALL or kind == ENTER:
                        inner = k
                        if kind == ENTER:
                            inner = push_frame(frames, buckets, sizes, nodes[s, 2], k, nodes[s, 3], nodes[s, 4])
                        elif nodes[s, 2] != 0:
                            inner = push_frame(frames, buckets, sizes, nodes[s, 2], k, 0, -1)
                        if inner < 0:
                            return request(NEED_FRAMES, 0)
                        work[top, 0] = nodes[s, 1] if kind == CALL else ~nodes[s, 1]
                        work[top, 1] = inner
                        top += 1
                    elif kind == FORK:
                        if nodes[s, 2] - nodes[s, 1] > room - top:
                            return request(NEED_ROOM, 0)
                        for e in range(nodes[s, 1], nodes[s, 2]):
                            work[top, 0], work[top, 1] = edges[e, 2], k
                            top += 1
                    elif kind == END:
                        if k > 0:
                            work[top, 0], work[top, 1] = frames[k, 0], frames[k, 1]
                            top += 1
                    else:
                        return request(NEED_NODE, s)
                if moved:
                    target, stack, code = settle(nodes, edges, states, frames, buckets, sizes, target, stack)
                    if code < 0:
                        return request(NEED_FRAMES, 0)
                    m = add(after, m, target, stack)
        if m == 0:
            return np.int64(0)
        if position + 1 < text.shape[0]:
            if m > current.shape[0]:
                return request(NEED_ROOM, 0)
            for i in range(m):
                current[i, 0], current[i, 1] = after[i, 0], after[i, 1]
        n = m
    for i in range(1, n):  # few: insertion sort
        s, k, j = after[i, 0], after[i, 1], i - 1
        while j >= 0 and (after[j, 0] > s or (after[j, 0] == s and after[j, 1] > k)):
            after[j + 1, 0], after[j + 1, 1] = after[j, 0], after[j, 1]
            j -= 1
        after[j + 1, 0], after[j + 1, 1] = s, k
    return np.int64(n)


@njit(cache=True, nogil=True)
def accepts(table, symbol, stack, work):
    """1 if the text may end at this configuration, 0 if not, or a request."""
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    work[0, 0], work[0, 1] = symbol, stack
    top, steps = 1, 0
    room = work.shape[0] - 8
    while top > 0:
        top -= 1
        steps += 1
        if steps > EPSILON_LIMIT:
            return request(TOO_DEEP, 0)
        s, k = np.int64(work[top, 0]), np.int64(work[top, 1])
        if s < 0:
            if states[~s, FINAL] == 0:
                continue
            if frames[k, 0] == 0 and frames[k, 1] == 0:
                return np.int64(1)
            work[top, 0], work[top, 1] = frames[k, 0], frames[k, 1]
            top += 1
            continue
        kind = nodes[s, 0]
        if kind == CALL:
            inner = k
            if nodes[s, 2] != 0:
                inner = push_frame(frames, buckets, sizes, nodes[s, 2], k, 0, -1)
            if inner < 0:
                return request(NEED_FRAMES, 0)
            work[top, 0], work[top, 1] = nodes[s, 1], inner
            top += 1
        elif kind == ENTER:
            inner = push_frame(frames, buckets, sizes, nodes[s, 2], k, nodes[s, 3], nodes[s, 4])
            if inner < 0:
                return request(NEED_FRAMES, 0)
            work[top, 0], work[top, 1] = ~nodes[s, 1], inner
            top += 1
        elif kind == FORK:
            if nodes[s, 2] - nodes[s, 1] > room - top:
                return request(NEED_ROOM, 0)
            for e in range(nodes[s, 1], nodes[s, 2]):
                work[top, 0], work[top, 1] = edges[e, 2], k
                top += 1
        elif kind == END:
            if k == 0:
                return np.int64(1)
            work[top, 0], work[top, 1] = frames[k, 0], frames[k, 1]
            top += 1
        elif kind == UNBUILT:
            return request(NEED_NODE, s)
    return np.int64(0)
