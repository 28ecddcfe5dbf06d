"""Rows: walk the trie of the vocabulary and an automaton or a network in lock-step."""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.kernel_table import (
    AFTER,
    BOUNDARY,
    BYTE,
    BYTES,
    CALL,
    COUNTED,
    DEPTH,
    END,
    ENTER,
    EPSILON_LIMIT,
    FINAL,
    FORK,
    HI,
    LO,
    NEED_COUNTED_REST,
    NEED_FRAMES,
    NEED_NODE,
    NEED_REST,
    NEED_ROOM,
    NEED_ROW,
    RANGE_HI,
    RANGE_LO,
    REST,
    REST_HI,
    REST_LO,
    TOO_DEEP,
    UNKNOWN,
    UNLIMITED,
    child,
    push_frame,
    request,
    set_tokens,
    unpack,
)


@njit(cache=True, nogil=True)
def walk_automaton(trie, tokens, children, step, states, ranges, g, row, exits, counts, follow):
    """Tokens that stay inside an automaton from state g, and where it may be left within a token.

    Sets the bits of row; writes to counts[t] (uint8, capped at 254) the characters that token t takes, begun
    ones included, unless it ends where the automaton accepts; if follow, writes (trie node, characters) to exits[n]
    for each node where the automaton accepts. Returns the number of exits, which may exceed the room in exits:
    call again with more.
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
                        exits[n, 0], exits[n, 1] = i, depth_count[d - 1]
                    n += 1
                i += 1
    return n


@njit(cache=True, nogil=True)
def from_root(table, g, back, parent, least, most, row, work, top):
    """Tokens that begin in state g of an automaton whose frame is (back, parent, least, most).

    They are looked up: the row of those that stay inside, and the tries of what may follow, which are put on
    work[top:] as (trie node, back, parent). Returns the new top, or a request.
    """
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    longest = counted_row_of.shape[1] - 1
    bottom = back == 0 and parent == 0
    if least <= 0 and (most < 0 or most >= longest):
        r, rest = row_of[g], states[g, REST]
        if r < 0:
            return request(NEED_ROW, g * 256 + UNLIMITED)
        if rest == UNKNOWN and not bottom:
            return request(NEED_REST, g)
        if rest >= 0 and not bottom:
            set_tokens(trie, tokens, rest, row)
            work[top, 0], work[top, 1], work[top, 2] = rest, back, parent
            top += 1
    else:
        allowed = longest if most < 0 or most > longest else most
        r = np.int32(-1) if states[g, COUNTED] < 0 else counted_row_of[states[g, COUNTED], allowed]
        if r < 0:
            return request(NEED_ROW, g * 256 + allowed)
        if states[g, REST_LO] < 0:
            return request(NEED_COUNTED_REST, g)
        if states[g, REST_HI] - states[g, REST_LO] > work.shape[0] - 600 - top:
            return request(NEED_ROOM, 0)
        for j in range(states[g, REST_LO], states[g, REST_HI]):
            c = rests[j, 0]
            if c >= least and (most < 0 or c <= most):
                set_tokens(trie, tokens, rests[j, 1], row)
                work[top, 0], work[top, 1], work[top, 2] = rests[j, 1], back, parent
                top += 1
    for w in range(row.shape[0]):
        row[w] |= inside[r, w]
    return np.int64(top)


@njit(cache=True, nogil=True)
def below(table, v, g, back, parent, least, most, row, work, top):
    """The same for tokens below trie node v, where the automaton is in state g: they are walked."""
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    depth_state = np.empty(512, np.int32)
    depth_count = np.empty(512, np.int32)
    room = work.shape[0] - 600
    bottom = back == 0 and parent == 0
    counted = least > 0 or most >= 0
    depth_state[trie[v, DEPTH]], depth_count[trie[v, DEPTH]] = g, 0
    i, end = np.int64(v) + 1, trie[v, AFTER]
    while i < end:
        d = trie[i, DEPTH]
        p = depth_state[d - 1]
        q = step[p, trie[i, BYTE]]
        if q >= 0 and counted:
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
    return np.int64(top)


@njit(cache=True, nogil=True)
def fill(table, start, symbol, stack, row, work):
    """Set the bits of all tokens below trie node start allowed from a configuration there.

    Returns 1 if the text may end there, 0 if not, or a request.
    """
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    room = work.shape[0] - 600
    work[0, 0], work[0, 1], work[0, 2] = start, symbol, stack
    top = np.int64(1)
    steps = 0
    may_end = np.int64(0)
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
            if states[g, FINAL] == 1 and not bottom:
                work[top, 0], work[top, 1], work[top, 2] = v, back, parent
                top += 1
            elif states[g, FINAL] == 1 and v == start:
                may_end = np.int64(1)
            if v == 0:
                top = from_root(table, g, back, parent, least, most, row, work, top)
            else:
                top = below(table, v, g, back, parent, least, most, row, work, top)
            if top < 0:
                return top
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
            elif v == start:
                may_end = np.int64(1)
        else:
            return request(NEED_NODE, s)
    return may_end


@njit(cache=True, nogil=True)
def patch(table, symbol, stack, row, work):
    """Turn the row of a key's base (any other key) into the row of a node that also leads to declared names.

    Where the node's own bytes lead to a node with a base of its own the row is right already; elsewhere the
    subtree is cleared and walked again. Returns 0 or a request.
    """
    (trie, tokens, children, step, states, ranges, row_of, inside, counted_row_of, rests,
     nodes, edges, frames, buckets, sizes) = unpack(table)  # fmt: skip
    pending = np.empty((8192, 2), np.int32)  # at most 256 for each byte of a name
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
                if n >= 8190:
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
