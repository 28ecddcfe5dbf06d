"""Steps: configurations after the bytes of a token, and whether a text may end."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import BOUNDARY, BYTES, END, FINAL, FORK, LETTERS, NAME, SPAN, UNBUILT
from ctrlgen.engine.kernel_moves import class_ways, left_by, limits, settle, slot_ways, valued
from ctrlgen.engine.kernel_objects import A_SLOT, AN_OTHER, GOES_ON, name_step
from ctrlgen.engine.kernel_spans import may_leave, span_step
from ctrlgen.engine.kernel_table import (
    EDGES,
    EPSILON_LIMIT,
    FRAMES,
    NEED_NODE,
    NEED_ROOM,
    NODES,
    NONE,
    ONE,
    SPELLED_AT,
    STATES,
    STEP,
    TOO_DEEP,
    ZERO,
    flat64,
    grid32,
    grid64,
    inner,
    kernel,
    push_frame,
    request,
    spelled,
)


@inner
def add(seen, n, s, k):
    """Append configuration (s, k) to seen[0:n] unless it is there; the new n."""
    for i in range(n):
        if seen[i, 0] == s and seen[i, 1] == k:
            return n
    seen[n, 0], seen[n, 1] = s, k
    return n + 1


@inner
def counted_step(table, g, q, k):
    """The frame after a step from state g to q of a string that counts its characters; -1: refused; or a request."""
    states, frames = grid32(table, STATES), grid64(table, FRAMES)
    least, most = frames[k, 2], frames[k, 3]
    if states[q, FINAL] == 1:
        return NONE if least > 0 else k
    if states[g, BOUNDARY] == 1 and most == 0:
        return NONE
    if states[q, BOUNDARY] == 0:
        return k
    return push_frame(table, frames[k, 0], frames[k, 1], max(least - 1, ZERO), max(most - 1, NONE), ZERO, ZERO)


@inner
def add_settled(table, after, m, s, k):
    """Append a configuration, settled; the new number or a request."""
    s, k, code = settle(table, s, k)
    return code if code < 0 else add(after, m, s, k)


@inner
def add_ways(table, after, m, k, slot, text, first, end):
    """Append what follows a finished name; the new number or a request."""
    for w in range(first, end):
        s, following, code = valued(table, k, slot, text, w)
        if code < 0:
            return code
        if code == 0:
            m = add(after, m, s, following)
    return m


@inner
def read(table, s, k, byte, after, m, work):
    """Append to after[0:m] the configurations after one byte from (s, k); the new number or a request."""
    nodes, edges, frames = grid64(table, NODES), grid64(table, EDGES), grid64(table, FRAMES)
    states, step = grid32(table, STATES), grid32(table, STEP)
    room = min(after.shape[0], work.shape[0]) - 8
    work[0, 0], work[0, 1] = s, k
    top, steps = ONE, ZERO
    while top > 0:
        top -= 1
        s, k = work[top, 0], work[top, 1]
        steps += 1
        if steps > EPSILON_LIMIT:
            return request(TOO_DEEP, ZERO)
        if top > room or m > room:
            return request(NEED_ROOM, ZERO)
        if s < 0:
            g = ~s
            if g >= SPAN:
                if k != 0 and may_leave(table, g, k):
                    back, parent = left_by(nodes, frames, k)
                    back, parent, code = settle(table, back, parent)
                    if code < 0:
                        return code
                    work[top, 0], work[top, 1] = back, parent
                    top += 1
                s, k, code = span_step(table, g, k, byte)
                if code < 0:
                    return code
                if code == 0:
                    m = add_settled(table, after, m, s, k)
                if m < 0:
                    return m
                continue
            if states[g, FINAL] == 1 and k != 0:
                back, parent = left_by(nodes, frames, k)
                back, parent, code = settle(table, back, parent)
                if code < 0:
                    return code
                work[top, 0], work[top, 1] = back, parent
                top += 1
            q = step[g, byte] if byte < LETTERS else np.int32(-1)
            if q < 0:
                continue
            least, most = limits(table, k)
            if least > 0 or most >= 0:
                k = counted_step(table, g, q, k)
                if k == -1:
                    continue
                if k < 0:
                    return k
            m = add_settled(table, after, m, ~np.int64(q), k)
        elif nodes[s, 0] == BYTES:
            for e in range(nodes[s, 1], nodes[s, 2]):
                if edges[e, 0] <= byte <= edges[e, 1]:
                    m = add_settled(table, after, m, edges[e, 2], k)
                    break
        elif nodes[s, 0] == FORK:
            if nodes[s, 2] - nodes[s, 1] > room - top:
                return request(NEED_ROOM, ZERO)
            for e in range(nodes[s, 1], nodes[s, 2]):
                inner_s, inner_k, code = settle(table, edges[e, 2], k)
                if code < 0:
                    return code
                work[top, 0], work[top, 1] = inner_s, inner_k
                top += 1
        elif nodes[s, 0] == NAME:
            if byte >= LETTERS:
                continue
            outcome, value, text = name_step(table, k, byte)
            if value < 0:
                return value
            if outcome == GOES_ON:
                m = add(after, m, s, value)
            elif outcome == A_SLOT:
                first, end = slot_ways(table, frames[k, 1], value)
                m = add_ways(table, after, m, frames[k, 1], value, text, first, end)
            elif outcome == AN_OTHER:
                first, end = class_ways(table, frames[k, 1], value)
                m = add_ways(table, after, m, frames[k, 1], NONE, text, first, end)
        elif nodes[s, 0] == UNBUILT:
            return request(NEED_NODE, s)
        if m < 0:
            return m
    return m


@inner
def sort(after, n):
    """Sort after[0:n]; they are few, so by insertion."""
    for i in range(1, n):
        s, k, j = after[i, 0], after[i, 1], i - 1
        while j >= 0 and (after[j, 0] > s or (after[j, 0] == s and after[j, 1] > k)):
            after[j + 1, 0], after[j + 1, 1] = after[j, 0], after[j, 1]
            j -= 1
        after[j + 1, 0], after[j + 1, 1] = s, k


@kernel
def advance(table, current, n, text, after, work):
    """Configurations after the bytes of text, from current[0:n]: how many are in after, or a request.

    current, after and work are int64[room, 2 or 3]; current is overwritten. The result is sorted and settled.
    """
    for position in range(text.shape[0]):
        byte = ZERO + text[position]
        m = ZERO
        for at in range(n):
            m = read(table, current[at, 0], current[at, 1], byte, after, m, work)
            if m < 0:
                return m
        if m == 0:
            return ZERO
        if position + 1 < text.shape[0]:
            if m > current.shape[0]:
                return request(NEED_ROOM, ZERO)
            for i in range(m):
                current[i, 0], current[i, 1] = after[i, 0], after[i, 1]
        n = m
    sort(after, n)
    return n


@kernel
def advance_token(table, s, k, token, current, after, work):
    """The same from one configuration, after the bytes of a token that has some."""
    text, at = spelled(table), flat64(table, SPELLED_AT)
    current[0, 0], current[0, 1] = s, k
    return advance(table, current, ONE, text[at[token] : at[token + 1]], after, work)


@kernel
def advance_letter(table, current, n, letter, after, work):
    """The same after one letter that is no byte (see ``columns``); current is left as it is."""
    m = ZERO
    for at in range(n):
        m = read(table, current[at, 0], current[at, 1], letter, after, m, work)
        if m < 0:
            return m
    sort(after, m)
    return m


@kernel
def settled(table, s, k, after):
    """Write the configuration that (s, k) settles to into after[0]; 1 or a request."""
    return add_settled(table, after, ZERO, s, k)


@kernel
def accepts(table, symbol, stack, work):
    """1 if the text may end at this configuration, 0 if not, or a request."""
    nodes, edges = grid64(table, NODES), grid64(table, EDGES)
    frames, states = grid64(table, FRAMES), grid32(table, STATES)
    work[0, 0], work[0, 1] = symbol, stack
    top, steps = ONE, ZERO
    room = work.shape[0] - 8
    while top > 0:
        top -= 1
        steps += 1
        if steps > EPSILON_LIMIT:
            return request(TOO_DEEP, ZERO)
        s, k, code = settle(table, work[top, 0], work[top, 1])
        if code < 0:
            return code
        if s < 0:
            ends = may_leave(table, ~s, k) if ~s >= SPAN else states[~s, FINAL] == 1
            if not ends:
                continue
            if k == 0:
                return ONE
            work[top, 0], work[top, 1] = left_by(nodes, frames, k)
            top += 1
        elif nodes[s, 0] == FORK:
            if nodes[s, 2] - nodes[s, 1] > room - top:
                return request(NEED_ROOM, ZERO)
            for e in range(nodes[s, 1], nodes[s, 2]):
                work[top, 0], work[top, 1] = edges[e, 2], k
                top += 1
        elif nodes[s, 0] == END:
            return ONE
        elif nodes[s, 0] == UNBUILT:
            return request(NEED_NODE, s)
    return ZERO


@kernel
def enter_member(table, k, slot, text, w, after):
    """Write the configuration before the value of a member (see ``valued``) into after[0].

    Returns 1, 0 where there is no room for this member, or a request.
    """
    s, following, code = valued(table, k, slot, text, w)
    if code < 0:
        return code
    after[0, 0], after[0, 1] = s, following
    return ONE - code
