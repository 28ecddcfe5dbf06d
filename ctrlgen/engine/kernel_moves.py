"""Moves that read no byte and leave no choice, and the members that a finished name leads to."""

from __future__ import annotations

from ctrlgen.engine.columns import (
    AFTER_ITEM,
    AFTER_MEMBER,
    AFTER_NODE,
    ARRAY_AFTER,
    ARRAY_LEAST,
    ARRAY_MOST,
    BEGIN_ARRAY,
    BEGIN_NAME,
    BEGIN_OBJECT,
    CALL,
    CLASSES,
    END,
    ENTER,
    ENTER_SPAN,
    FORK,
    ITEM,
    ITEMS,
    LEAF,
    PLACES,
    RETURN,
    SLOTS,
    SPAN,
    WAYS,
    WAYS_END,
)
from ctrlgen.engine.kernel_objects import (
    begin_name,
    may_close,
    may_go_on,
    owed_after,
    way_fits,
    with_other,
    with_slot,
)
from ctrlgen.engine.kernel_records import FLAGS, MISSING, first_record
from ctrlgen.engine.kernel_table import (
    ARRAYS,
    CLASS_TABLE,
    EDGES,
    FRAMES,
    ITEM_TABLE,
    NODES,
    NONE,
    OBJECTS,
    RECORDS,
    SLOT_TABLE,
    SPANS,
    STATES,
    TOO_DEEP,
    WAY_TABLE,
    ZERO,
    flat64,
    grid32,
    grid64,
    inner,
    push_call,
    push_frame,
    request,
)


@inner
def settle(table, s, k):
    """Follow the moves without a byte that leave no choice, so that equal configurations look equal.

    Returns (symbol, stack, 0) or (_, _, a request). What it stops at: a state of an automaton, BYTES, FORK, NAME, an
    unbuilt node, or (END, 0), the end of the text.
    """
    nodes, frames, states = grid64(table, NODES), grid64(table, FRAMES), grid32(table, STATES)
    for _ in range(100_000):
        if s < 0:
            if ~s >= SPAN:
                line = grid32(table, SPANS)[~s - SPAN]
                if line[0] < line[1] or line[2] == 0:
                    return s, k, ZERO
            elif states[~s, LEAF] == 0:
                return s, k, ZERO
            s, k = left_by(nodes, frames, k)
            continue
        kind = nodes[s, 0]
        if kind == CALL:
            k = push_call(table, nodes[s, 2], k)
            s = nodes[s, 1]
        elif kind == ENTER:
            if nodes[s, 2] != 0 or nodes[s, 3] > 0 or nodes[s, 4] >= 0:
                k = push_frame(table, nodes[s, 2], k, nodes[s, 3], nodes[s, 4], ZERO, ZERO)
            s = ~nodes[s, 1]
        elif kind == FORK and nodes[s, 2] - nodes[s, 1] == 1:
            s = grid64(table, EDGES)[nodes[s, 1], 2]
        elif kind == END:
            if k == 0:
                return s, k, ZERO
            s, k = left_by(nodes, frames, k)
        elif kind == RETURN:
            s, k = left_by(nodes, frames, frames[k, 1])
        elif kind == BEGIN_NAME:
            k = begin_name(table, k)
            if k >= 0:
                s = frames[k, 0]
        elif kind == ITEM:
            s, k = item(table, k)
        elif kind == BEGIN_OBJECT:
            r = first_record(table, nodes[s, 1])
            if r < 0:
                return s, k, r
            k = push_frame(table, grid64(table, OBJECTS)[nodes[s, 1], AFTER_NODE], k, r, ZERO, ZERO, ZERO)
            if k >= 0:
                s = gate(nodes, s, may_close(table, r), may_go_on(table, r))
        elif kind == AFTER_MEMBER:
            s = gate(nodes, s, may_close(table, frames[k, 2]), may_go_on(table, frames[k, 2]))
        elif kind == BEGIN_ARRAY:
            arrays = grid64(table, ARRAYS)
            a = nodes[s, 1]
            k = push_frame(table, arrays[a, ARRAY_AFTER], k, ZERO, ZERO, ZERO, ZERO)
            s = gate(nodes, s, arrays[a, ARRAY_LEAST] <= 0, arrays[a, ARRAY_MOST] != 0)
        elif kind == AFTER_ITEM:
            arrays = grid64(table, ARRAYS)
            a, count = nodes[s, 1], frames[k, 2]
            most = arrays[a, ARRAY_MOST]
            s = gate(nodes, s, count >= arrays[a, ARRAY_LEAST], most < 0 or count < most)
        elif kind == ENTER_SPAN:
            k = push_frame(table, nodes[s, 2], k, nodes[s, 3], nodes[s, 4], ZERO, ZERO)
            s = ~(SPAN + nodes[s, 1])
        else:
            return s, k, ZERO
        if k < 0:
            return s, k, k
    return s, k, request(TOO_DEEP, ZERO)


@inner
def left_by(nodes, frames, k):
    """Where to go on when what frame k called is over: (symbol, stack)."""
    back = frames[k, 0]
    return back, (k if nodes[back, 0] >= AFTER_MEMBER else frames[k, 1])


@inner
def gate(nodes, s, closes, goes_on):
    """The node after a bracket, a member or an item: what may close, what may go on, what may do either."""
    if closes:
        return nodes[s, 4] if goes_on else nodes[s, 2]
    return nodes[s, 3]


@inner
def item(table, k):
    """The configuration before the next item of the array of frame k; the stack may be a request."""
    nodes, frames, arrays = grid64(table, NODES), grid64(table, FRAMES), grid64(table, ARRAYS)
    a, count = nodes[frames[k, 0], 1], frames[k, 2]
    places = arrays[a, PLACES]
    following = count + 1
    if arrays[a, ARRAY_MOST] < 0:
        following = min(following, max(places, arrays[a, ARRAY_LEAST]))
    after = push_frame(table, frames[k, 0], frames[k, 1], following, ZERO, ZERO, ZERO)
    return flat64(table, ITEM_TABLE)[arrays[a, ITEMS] + min(count, places)], after


@inner
def slot_ways(table, k, slot):
    """The ways of a slot of the object of frame k: (first, end)."""
    nodes, frames, slots = grid64(table, NODES), grid64(table, FRAMES), grid64(table, SLOT_TABLE)
    s = grid64(table, OBJECTS)[nodes[frames[k, 0], 1], SLOTS] + slot
    return slots[s, WAYS], slots[s, WAYS_END]


@inner
def class_ways(table, k, label):
    """The ways of a class of other names: (first, end)."""
    nodes, frames, classes = grid64(table, NODES), grid64(table, FRAMES), grid64(table, CLASS_TABLE)
    c = grid64(table, OBJECTS)[nodes[frames[k, 0], 1], CLASSES] + label
    return classes[c, 0], classes[c, 1]


@inner
def valued(table, k, slot, text, w):
    """The configuration before the value of a member that takes way w: (symbol, stack, 0 or a request or 1: no room).

    The member is ``slot`` of the object of frame k, or has the name ``text`` where slot is -1.
    """
    frames, records, ways = grid64(table, FRAMES), flat64(table, RECORDS), grid64(table, WAY_TABLE)
    r, flags = frames[k, 2], ways[w, 1]
    if not way_fits(table, r, w, owed_after(table, r, slot) if slot >= 0 else records[r + MISSING]):
        return ZERO, ZERO, ZERO + 1
    flags = flags & ~records[r + FLAGS]
    following = with_slot(table, r, slot, flags) if slot >= 0 else with_other(table, r, text, flags)
    if following < 0:
        return ZERO, ZERO, following
    after = push_frame(table, frames[k, 0], frames[k, 1], following, ZERO, ZERO, ZERO)
    if after < 0:
        return ZERO, ZERO, after
    return settle(table, ways[w, 0], after)


@inner
def limits(table, k):
    """The characters that a string whose frame is k still needs and may still have: (least, most)."""
    nodes, frames = grid64(table, NODES), grid64(table, FRAMES)
    if k == 0 or nodes[frames[k, 0], 0] >= AFTER_MEMBER:
        return ZERO, NONE
    return frames[k, 2], frames[k, 3]
