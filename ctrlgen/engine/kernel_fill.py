"""Rows: walk the trie of the vocabulary and a network in lock-step, along the bytes that are possible."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import (
    AFTER,
    BOUNDARY,
    BYTE,
    BYTES,
    COUNTED,
    DEPTH,
    END,
    FINAL,
    FORK,
    LETTERS,
    NAME,
    REST,
    REST_HI,
    REST_LO,
    SPAN,
    UNBUILT,
    UNKNOWN,
    UNLIMITED,
)
from ctrlgen.engine.kernel_fill_names import fill_name
from ctrlgen.engine.kernel_moves import left_by, limits, settle
from ctrlgen.engine.kernel_pushes import push, push_settled
from ctrlgen.engine.kernel_recipes import BELOW, CONTROL, WITHIN, note, take, walk_below
from ctrlgen.engine.kernel_spans import fill_span, may_leave
from ctrlgen.engine.kernel_table import (
    CHILDREN,
    COUNTED_ROW_OF,
    EDGES,
    EPSILON_LIMIT,
    FRAMES,
    INSIDE,
    NEED_COUNTED_REST,
    NEED_NODE,
    NEED_REST,
    NEED_ROOM,
    NEED_ROW,
    NODES,
    NONE,
    ONE,
    RESTS,
    ROW_OF,
    STATES,
    STEP,
    TOO_DEEP,
    TRIE,
    WALK_ITEMS,
    WALK_SLOTS,
    ZERO,
    child,
    flat32,
    grid32,
    grid64,
    inner,
    request,
)


@inner
def reads_bytes(table, s):
    """Whether bytes can follow at a settled configuration: not where the text is over or only control tokens may come.

    A string that may end anywhere has too many places to look at for nothing.
    """
    if s < 0:
        return True
    nodes = grid64(table, NODES)
    if nodes[s, 0] == BYTES:
        return grid64(table, EDGES)[nodes[s, 1], 0] < LETTERS
    return nodes[s, 0] != END


@inner
def from_root(table, g, k, recipe, work, top):
    """Tokens that begin in state g of an automaton whose frame is k; the new top or a request.

    They are looked up: the row of those that stay inside, and the tries of what may follow, which are put on work.
    """
    states = grid32(table, STATES)
    longest = table[COUNTED_ROW_OF, 2] - 1
    least, most = limits(table, k)
    if least <= 0 and (most < 0 or most >= longest):
        r, rest = np.int64(flat32(table, ROW_OF)[g]), np.int64(states[g, REST])
        if r < 0:
            return request(NEED_ROW, g * 256 + UNLIMITED)
        goes_on, s, parent = False, ZERO, ZERO
        if k != 0:
            s, parent = left_by(grid64(table, NODES), grid64(table, FRAMES), k)
            s, parent, code = settle(table, s, parent)
            if code < 0:
                return code
            goes_on = reads_bytes(table, s)
        if rest == UNKNOWN and goes_on:
            return request(NEED_REST, g)
        if rest >= 0 and goes_on:
            top = push(work, top, rest, s, parent)
    else:
        allowed = longest if most < 0 or most > longest else most
        counted = np.int64(states[g, COUNTED])
        r = NONE if counted < 0 else np.int64(grid32(table, COUNTED_ROW_OF)[counted, allowed])
        if r < 0:
            return request(NEED_ROW, g * 256 + allowed)
        if states[g, REST_LO] < 0:
            return request(NEED_COUNTED_REST, g)
        if states[g, REST_HI] - states[g, REST_LO] > work.shape[0] - 600 - top:
            return request(NEED_ROOM, ZERO)
        rests = grid32(table, RESTS)
        s, parent = left_by(grid64(table, NODES), grid64(table, FRAMES), k)
        s, parent, code = settle(table, s, parent)
        if code < 0:
            return code
        trie = grid32(table, TRIE)
        for j in range(states[g, REST_LO], states[g, REST_HI]):
            c = rests[j, 0]
            if c >= least and (most < 0 or c <= most):
                take(table, trie, recipe, rests[j, 1])
                top = push(work, top, np.int64(rests[j, 1]), s, parent)
    note(table, recipe, WITHIN, r)
    return top


@inner
def below(table, v, g, k, recipe, work, top):
    """The same for tokens below trie node v, where the automaton is in state g: they are walked."""
    trie = grid32(table, TRIE)
    step, states = grid32(table, STEP), grid32(table, STATES)
    depth_state, depth_count = np.empty(512, np.int32), np.empty(512, np.int32)
    room = work.shape[0] - 600
    least, most = limits(table, k)
    counted = least > 0 or most >= 0
    back, parent = left_by(grid64(table, NODES), grid64(table, FRAMES), k)
    goes_on = False
    if k != 0:
        back, parent, code = settle(table, back, parent)
        if code < 0:
            return code
        goes_on = reads_bytes(table, back)
    if not counted:
        walk = walk_below(table, recipe, v, g)
        if walk >= 0:
            note(table, recipe, BELOW, walk)
            if goes_on:
                walks, items = grid64(table, WALK_SLOTS), flat32(table, WALK_ITEMS)
                if (walks[walk, 3] - walks[walk, 2]) // 2 > room - top:
                    return request(NEED_ROOM, ZERO)
                for at in range(walks[walk, 2], walks[walk, 3], 2):
                    top = push(work, top, np.int64(items[at]), back, parent)
            return top
    depth_state[trie[v, DEPTH]], depth_count[trie[v, DEPTH]] = g, 0
    i, end = v + 1, np.int64(trie[v, AFTER])
    while i < end:
        d = trie[i, DEPTH]
        p = depth_state[d - 1]
        q = step[p, trie[i, BYTE]]
        if q >= 0 and counted:
            if states[q, FINAL] == 1:
                if depth_count[d - 1] < least:
                    q = np.int32(-1)
            elif states[p, BOUNDARY] == 1 and most >= 0 and depth_count[d - 1] >= most:
                q = np.int32(-1)
        if q < 0:
            i = np.int64(trie[i, AFTER])
            continue
        depth_state[d] = q
        depth_count[d] = depth_count[d - 1] + states[q, BOUNDARY]
        take(table, trie, recipe, i)
        if states[q, FINAL] == 1 and goes_on and trie[i, AFTER] > i + 1:
            if top > room:
                return request(NEED_ROOM, ZERO)
            top = push(work, top, i, back, parent)
        i += 1
    return top


@inner
def fill(table, symbol, stack, recipe, patching, work):
    """Note how to write the row of the tokens allowed from a configuration.

    patching: the configuration is a name with declared or used names in its way; the recipe begins with the row of any
    other name.

    Returns 1 if the text may end there, 0 if not, or a request.
    """
    trie, children = grid32(table, TRIE), grid32(table, CHILDREN)
    nodes, edges = grid64(table, NODES), grid64(table, EDGES)
    frames, states = grid64(table, FRAMES), grid32(table, STATES)
    room = work.shape[0] - 600
    symbol, stack, code = settle(table, symbol, stack)
    if code < 0:
        return code
    top = push(work, ZERO, ZERO, symbol, stack)
    steps, may_end = ZERO, ZERO
    while top > 0:
        top -= 1
        v, s, k = work[top, 0], work[top, 1], work[top, 2]
        steps += 1
        if top > room:
            return request(NEED_ROOM, ZERO)
        if steps > EPSILON_LIMIT:
            return request(TOO_DEEP, ZERO)
        if s < 0 and ~s >= SPAN:
            if may_leave(table, ~s, k):
                if k != 0:
                    back, parent = left_by(nodes, frames, k)
                    top = push_settled(table, work, top, v, back, parent)
                    if top < 0:
                        return top
                elif v == 0:
                    may_end = ONE
            top = fill_span(table, v, ~s, k, recipe, work, top)
        elif s < 0:
            g = ~s
            if states[g, FINAL] == 1:
                if k != 0:
                    back, parent = left_by(nodes, frames, k)
                    least, most = limits(table, k)
                    if least <= 0:
                        top = push_settled(table, work, top, v, back, parent)
                        if top < 0:
                            return top
                elif v == 0:
                    may_end = ONE
            if v == 0:
                top = from_root(table, g, k, recipe, work, top)
            else:
                top = below(table, v, g, k, recipe, work, top)
        elif nodes[s, 0] == BYTES:
            for e in range(nodes[s, 1], nodes[s, 2]):
                if edges[e, 0] >= LETTERS:
                    if v == 0 and edges[e, 0] - LETTERS < 32 * table[INSIDE, 2]:
                        note(table, recipe, CONTROL, edges[e, 0] - LETTERS)
                    continue
                for byte in range(edges[e, 0], edges[e, 1] + 1):
                    c = child(trie, children, v, byte)
                    if c >= 0:
                        take(table, trie, recipe, c)
                        if trie[c, AFTER] > c + 1:
                            top = push_settled(table, work, top, c, edges[e, 2], k)
                            if top < 0:
                                return top
        elif nodes[s, 0] == FORK:
            if nodes[s, 2] - nodes[s, 1] > room - top:
                return request(NEED_ROOM, ZERO)
            for e in range(nodes[s, 1], nodes[s, 2]):
                top = push_settled(table, work, top, v, edges[e, 2], k)
                if top < 0:
                    return top
        elif nodes[s, 0] == NAME:
            top = fill_name(table, v, k, recipe, work, top, patching)
            patching = False
        elif nodes[s, 0] == END:
            if v == 0:
                may_end = ONE
        elif nodes[s, 0] == UNBUILT:
            return request(NEED_NODE, s)
        if top < 0:
            return top
    return may_end
