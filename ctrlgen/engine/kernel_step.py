"""Steps: configurations after the bytes of a token, and whether a text may end."""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.kernel_table import (
    BOUNDARY,
    BYTES,
    CALL,
    END,
    ENTER,
    EPSILON_LIMIT,
    FINAL,
    FORK,
    LEAF,
    NEED_FRAMES,
    NEED_NODE,
    NEED_ROOM,
    TOO_DEEP,
    UNBUILT,
    push_frame,
    request,
    unpack,
)


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
                    elif kind in (CALL, ENTER):
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
