"""Rows within the names of members: tokens that read declared names on, or others."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import (
    AFTER,
    BYTE,
    DEPTH,
    FINAL,
    LABEL,
    REST_HI,
    REST_LO,
    UNLIMITED,
)
from ctrlgen.engine.kernel_moves import class_ways, slot_ways
from ctrlgen.engine.kernel_names import left_beyond, narrow
from ctrlgen.engine.kernel_objects import fitting, slot_fits
from ctrlgen.engine.kernel_pushes import push_ways
from ctrlgen.engine.kernel_recipes import WITHIN, WITHOUT, note, note_walk, take, walk_below
from ctrlgen.engine.kernel_records import ANONYMOUS, FLAGS, OTHERS
from ctrlgen.engine.kernel_table import (
    CHILDREN,
    DOUBTS,
    FRAMES,
    NAME_TABLE,
    NEED_COUNTED_REST,
    NEED_ROW,
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
