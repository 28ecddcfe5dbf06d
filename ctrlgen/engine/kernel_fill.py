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
    LABEL,
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
from ctrlgen.engine.kernel_moves import class_ways, left_by, limits, settle, slot_ways, valued
from ctrlgen.engine.kernel_names import left_beyond, narrow
from ctrlgen.engine.kernel_objects import fitting, slot_fits
from ctrlgen.engine.kernel_recipes import BELOW, CONTROL, WITHIN, WITHOUT, note, note_walk, take, walk_below
from ctrlgen.engine.kernel_records import ANONYMOUS, FLAGS, OTHERS
from ctrlgen.engine.kernel_spans import fill_span, may_leave
from ctrlgen.engine.kernel_table import (
    CHILDREN,
    COUNTED_ROW_OF,
    DOUBTS,
    EDGES,
    EPSILON_LIMIT,
    FRAMES,
    INSIDE,
    NAME_TABLE,
    NEED_COUNTED_REST,
    NEED_NODE,
    NEED_REST,
    NEED_ROOM,
    NEED_ROW,
    NODES,
    NONE,
    ONE,
    PAIRS,
    RECORDS,
    RESTS,
    ROW_OF,
    SIZES,
    STATES,
    STEP,
    TOO_DEEP,
    TRIE,
    WALK_ITEMS,
    WALK_SLOTS,
    ZERO,
    child,
    flat32,
    flat64,
    grid32,
    grid64,
    inner,
    letters_of,
    request,
)


@inner
def push(work, top, v, s, k):
    """Put (trie node, symbol, stack) on the work stack; the new top."""
    work[top, 0], work[top, 1], work[top, 2] = v, s, k
    return top + 1


@inner
def push_settled(table, work, top, v, s, k):
    """The same for what a configuration settles to; the new top or a request."""
    s, k, code = settle(table, s, k)
    return code if code < 0 else push(work, top, v, s, k)


@inner
def push_ways(table, work, top, v, k, slot, first, end):
    """Put what follows a name of the object of frame k on the work stack; the new top or a request."""
    if end - first > work.shape[0] - 600 - top:
        return request(NEED_ROOM, ZERO)
    for w in range(first, end):
        s, following, code = valued(table, k, slot, NONE, w)
        if code < 0:
            return code
        if code == 0:
            top = push(work, top, v, s, following)
    return top


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


# names of members


@inner
def block(table, c, recipe, marks, clear):
    """No other name may go through trie node c: leave out its tokens and those below, or mark it. 0 or a request."""
    if clear:
        note(table, recipe, WITHOUT, c)
    elif marks[0] + 2 < marks.shape[0]:
        marks[0] += 1
        marks[marks[0]] = c
    else:
        return request(TOO_DEEP, ZERO)
    return ZERO


@inner
def declared(table, v, n, recipe, work, top, marks, clear):
    """Tokens below trie node v that read declared names on from frame n; the new top or a request.

    Where a declared name ends, or where no other name is left, trie nodes are blocked for other names (see ``block``).
    """
    trie, children = grid32(table, TRIE), grid32(table, CHILDREN)
    names, letters, frames = grid64(table, NAME_TABLE), letters_of(table), grid64(table, FRAMES)
    step = grid32(table, STEP)
    k = frames[n, 1]
    r = frames[k, 2]
    begun = grid64(table, PAIRS)[frames[n, 2], 2]
    pending = np.empty((1024, 5), np.int64)
    pending[0, 0], pending[0, 1], pending[0, 2] = v, frames[n, 3], frames[n, 4]
    pending[0, 3], pending[0, 4] = begun, frames[n, 5]
    open_ = ONE
    while open_ > 0:
        open_ -= 1
        u, low, high, depth = pending[open_, 0], pending[open_, 1], pending[open_, 2], pending[open_, 3]
        q = pending[open_, 4]
        while low < high:
            byte = letters[names[low, 0] + depth]
            following, after = narrow(table, low, high, depth, byte)
            low = after
            c = child(trie, children, u, byte)
            if c < 0:
                continue
            if after - following == 1 and names[following, 1] - names[following, 0] == depth + 1:
                code = block(table, c, recipe, marks, clear)
                if code < 0:
                    return code
                if slot_fits(table, r, names[following, 2]):
                    take(table, trie, recipe, c)
                    first, end = slot_ways(table, k, names[following, 2])
                    top = push_ways(table, work, top, c, k, names[following, 2], first, end)
                    if top < 0:
                        return top
                continue
            p = np.int64(step[q, byte]) if q >= 0 else NONE
            if p >= 0:
                at = names[following, 0]
                rest = letters[at + begun : at + depth + 1]
                if left_beyond(table, n, rest, depth + 1 - begun, following, after, p) <= 0:
                    code = block(table, c, recipe, marks, clear)
                    if code < 0:
                        return code
                    p = NONE
            if fitting(table, r, following, after):
                take(table, trie, recipe, c)
            if trie[c, AFTER] > c + 1:
                if open_ >= pending.shape[0] - 1:
                    more = np.empty((2 * pending.shape[0], 5), np.int64)
                    more[: pending.shape[0]] = pending
                    pending = more
                pending[open_, 0], pending[open_, 1], pending[open_, 2] = c, following, after
                pending[open_, 3], pending[open_, 4] = depth + 1, p
                open_ += 1
    return top


@inner
def repeated(table, v, n, recipe, marks, clear):
    """Block, for other names, the trie nodes below v where a name ends that the object has had. 0 or a request."""
    trie, children, step = grid32(table, TRIE), grid32(table, CHILDREN), grid32(table, STEP)
    frames, pairs, records = grid64(table, FRAMES), grid64(table, PAIRS), flat64(table, RECORDS)
    text = frames[n, 2]
    names = records[frames[frames[n, 1], 2] + OTHERS]
    rest = np.empty(512, np.uint8)
    while names > 0:
        name = pairs[names, 1] - 256
        names = pairs[names, 0]
        size = pairs[name, 2] - pairs[text, 2]
        if size <= 0 or size >= rest.shape[0]:  # no token is as long
            continue
        for i in range(size - 1, -1, -1):
            rest[i] = pairs[name, 1]
            name = pairs[name, 0]
        if name != text:
            continue
        c, q, low, high = v, frames[n, 5], frames[n, 3], frames[n, 4]
        for i in range(size):
            c = child(trie, children, c, rest[i])
            if c < 0:
                break
            q = np.int64(step[q, rest[i]])
            if low < high:
                low, high = narrow(table, low, high, pairs[text, 2] + i, rest[i])
            if i == size - 1 or left_beyond(table, n, rest, i + 1, low, high, q) <= 0:
                code = block(table, c, recipe, marks, clear)
                if code < 0:
                    return code
                break
    return ZERO


@inner
def others_from_root(table, n, recipe, work, top):
    """Tokens that read a name on that is neither declared nor used, from the root; the new top or a request."""
    frames, states, rests = grid64(table, FRAMES), grid32(table, STATES), grid32(table, RESTS)
    g, k = frames[n, 5], frames[n, 1]
    r = np.int64(flat32(table, ROW_OF)[g])
    if r < 0:
        return request(NEED_ROW, g * 256 + UNLIMITED)
    if states[g, REST_LO] < 0:
        return request(NEED_COUNTED_REST, g)
    for j in range(states[g, REST_LO], states[g, REST_HI]):  # one for each class of names
        first, end = class_ways(table, k, np.int64(rests[j, 0]))
        top = push_ways(table, work, top, np.int64(rests[j, 1]), k, NONE, first, end)
        if top < 0:
            return top
    note(table, recipe, WITHIN, r)
    return top


@inner
def others_below(table, v, n, recipe, work, top, marks):
    """The same below trie node v, without the nodes marked: they are walked."""
    trie = grid32(table, TRIE)
    step, states, frames = grid32(table, STEP), grid32(table, STATES), grid64(table, FRAMES)
    k = frames[n, 1]
    marked = marks[1 : marks[0] + 1]
    marked.sort()
    m = ZERO
    walk = walk_below(table, recipe, v, frames[n, 5])
    if walk >= 0:
        note_walk(table, recipe, walk, marked)
        walks, items, without = grid64(table, WALK_SLOTS), flat32(table, WALK_ITEMS), ZERO
        for at in range(walks[walk, 2], walks[walk, 3], 2):
            i = np.int64(items[at])
            while m < marked.shape[0] and marked[m] <= i:
                without = max(without, np.int64(trie[marked[m], AFTER]))
                m += 1
            if i >= without:
                first, last = class_ways(table, k, np.int64(items[at + 1]))
                top = push_ways(table, work, top, i, k, NONE, first, last)
                if top < 0:
                    return top
        return top
    depth_state = np.empty(512, np.int32)
    depth_state[trie[v, DEPTH]] = frames[n, 5]
    i, end = v + 1, np.int64(trie[v, AFTER])
    while i < end:
        while m < marked.shape[0] and marked[m] < i:
            m += 1
        d = trie[i, DEPTH]
        q = step[depth_state[d - 1], trie[i, BYTE]]
        if q < 0 or (m < marked.shape[0] and marked[m] == i):
            i = np.int64(trie[i, AFTER])
            continue
        depth_state[d] = q
        take(table, trie, recipe, i)
        if states[q, FINAL] == 1 and trie[i, AFTER] > i + 1:
            first, last = class_ways(table, k, np.int64(states[q, LABEL]))
            top = push_ways(table, work, top, i, k, NONE, first, last)
            if top < 0:
                return top
        i += 1
    return top


@inner
def doubt(table, n):
    """Note if a token may hold two names, of which the first is not followed byte by byte: they may be the same."""
    frames = grid64(table, FRAMES)
    if flat64(table, RECORDS)[frames[frames[n, 1], 2] + FLAGS] >= ANONYMOUS:
        flat64(table, SIZES)[DOUBTS] = 1


@inner
def fill_name(table, v, n, recipe, work, top, patching):
    """Tokens below trie node v that read the name of frame n on; the new top or a request.

    patching: the recipe begins with the row of any other name from the root, which is mended.
    """
    frames = grid64(table, FRAMES)
    doubt(table, n)
    marks = np.zeros(1 if patching else 2048, np.int64)
    if frames[n, 2] >= 0:
        if frames[n, 5] >= 0:
            code = repeated(table, v, n, recipe, marks, patching)
            if code < 0:
                return code
        top = declared(table, v, n, recipe, work, top, marks, patching)
        if top < 0:
            return top
    if frames[n, 5] < 0 or patching:
        return top
    if v == 0:
        # nothing is marked: who asks for other rows from the root has them patched
        return others_from_root(table, n, recipe, work, top)
    return others_below(table, v, n, recipe, work, top, marks)


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
