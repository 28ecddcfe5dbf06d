"""Which members may come now, given the record of an object, and the record after them."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import (
    CLASSES,
    COVER,
    ENDLESS,
    FINAL,
    FINITE,
    IMPLIED,
    IMPLIED_END,
    IMPLYING,
    LABEL,
    LEAST,
    MOST,
    NAME_NODE,
    NAMES,
    NAMES_END,
    ORDERED,
    SLOTS,
    SLOTS_END,
    START,
    WANTED,
    WAYS,
    WAYS_END,
    WORDS,
)
from ctrlgen.engine.kernel_names import narrow, others_left, used, used_beginning
from ctrlgen.engine.kernel_records import (
    ANONYMOUS,
    BITS,
    COUNT,
    FIRST_OWED,
    FLAGS,
    MISSING,
    OBJECT,
    OTHERS,
    POSITION,
    SIZE,
    clear_bit,
    draft,
    has_bit,
    keep,
    set_bit,
)
from ctrlgen.engine.kernel_table import (
    CLASS_TABLE,
    FRAMES,
    ITEM_TABLE,
    NAME_TABLE,
    NODES,
    NONE,
    OBJECTS,
    ONE,
    PAIRS,
    RECORDS,
    SLOT_TABLE,
    STATES,
    STEP,
    WAY_TABLE,
    ZERO,
    flat64,
    grid32,
    grid64,
    inner,
    kernel,
    push_frame,
    push_pair,
)


@inner
def counted(objects, o, count):
    """The number of members, as far as it matters."""
    return count + 1 if objects[o, MOST] >= 0 else min(count + 1, objects[o, LEAST])


@inner
def cover(table, o, flags):
    """Fewest members that fulfil what these flags lack of what object o wants; only known where it has a limit."""
    objects = grid64(table, OBJECTS)
    if objects[o, WANTED] == 0 or objects[o, MOST] < 0:
        return ZERO
    return flat64(table, ITEM_TABLE)[objects[o, COVER] + (objects[o, WANTED] & ~flags)]


@inner
def allows(table, r, s, i):
    """Whether what slot s implies has come, is slot i, or may still come after slot i."""
    records, objects, slots = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, SLOT_TABLE)
    items = flat64(table, ITEM_TABLE)
    o = records[r + OBJECT]
    first = objects[o, SLOTS]
    for j in range(slots[first + s, IMPLIED], slots[first + s, IMPLIED_END]):
        t = items[j]
        if t != i and not has_bit(records, r + BITS, t):
            if (objects[o, ORDERED] == 1 and t < i) or slots[first + t, WAYS] == slots[first + t, WAYS_END]:
                return False
    return True


@inner
def owed_after(table, r, i):
    """How many slots must still come after slot i."""
    records, objects, slots = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, SLOT_TABLE)
    items = flat64(table, ITEM_TABLE)
    o = records[r + OBJECT]
    owed = r + BITS + objects[o, WORDS]
    more = records[r + MISSING] - has_bit(records, owed, i)
    s = objects[o, SLOTS] + i
    for j in range(slots[s, IMPLIED], slots[s, IMPLIED_END]):
        t = items[j]
        if t != i and not has_bit(records, r + BITS, t) and not has_bit(records, owed, t):
            more += 1
    return more


@inner
def slot_fits(table, r, i):
    """Whether slot i (of its object's) may come now, whatever its value."""
    records, objects, slots = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, SLOT_TABLE)
    o = records[r + OBJECT]
    at = objects[o, SLOTS] + i
    if slots[at, WAYS] == slots[at, WAYS_END] or has_bit(records, r + BITS, i):
        return False
    ordered = objects[o, ORDERED] == 1
    if ordered and (i < records[r + POSITION] or i > records[r + FIRST_OWED]):
        return False
    if not allows(table, r, i, i):
        return False
    more = ZERO
    if objects[o, IMPLYING] or objects[o, MOST] >= 0:
        more = owed_after(table, r, i)
    if objects[o, MOST] >= 0:
        least_cover = NONE
        ways = grid64(table, WAY_TABLE)
        for w in range(slots[at, WAYS], slots[at, WAYS_END]):
            c = cover(table, o, records[r + FLAGS] | ways[w, 1])
            if least_cover < 0 or c < least_cover:
                least_cover = c
        if records[r + COUNT] + 1 + more + least_cover > objects[o, MOST]:
            return False
    needed = objects[o, LEAST] - records[r + COUNT] - 1
    if needed <= more:
        return True
    more = others_in_reserve(table, r)
    return more >= needed or more + left(table, r, i, needed) >= needed


@inner
def others_in_reserve(table, r):
    """How many names that are no slot have not come yet; ENDLESS for so many or more."""
    records, objects = flat64(table, RECORDS), grid64(table, OBJECTS)
    o = records[r + OBJECT]
    if objects[o, START] < 0:
        return ZERO
    if not objects[o, FINITE]:
        return ZERO + ENDLESS
    known = others_left(table, r, ZERO, objects[o, NAMES], objects[o, NAMES_END], objects[o, START])
    return known if known == ENDLESS else known - records[r + FLAGS] // ANONYMOUS


@inner
def left(table, r, i, enough):
    """Slots that may still come after slot i (-1: in any order, after none), counted up to ``enough``."""
    records, objects, slots = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, SLOT_TABLE)
    o = records[r + OBJECT]
    first, n = objects[o, SLOTS], objects[o, SLOTS_END] - objects[o, SLOTS]
    ordered = objects[o, ORDERED] == 1
    found = ZERO
    for s in range(i + 1 if ordered else ZERO, n):
        if found >= enough:
            break
        at = first + s
        if s == i or has_bit(records, r + BITS, s) or slots[at, WAYS] == slots[at, WAYS_END]:
            continue
        if allows(table, r, s, i):
            found += 1
    return found


@inner
def others_fit(table, r):
    """Whether a member that is no slot may come now."""
    records, objects, ways = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, WAY_TABLE)
    o = records[r + OBJECT]
    if objects[o, START] < 0:
        return False
    if objects[o, ORDERED] == 1 and records[r + MISSING] > 0:
        return False
    if objects[o, FINITE]:
        reserve = others_in_reserve(table, r)
        needed = objects[o, LEAST] - records[r + COUNT]
        if objects[o, ORDERED] == 0:  # else no slot comes after an other
            needed -= left(table, r, NONE, needed)
        if reserve <= 0 or reserve < needed:
            return False
    if objects[o, MOST] < 0:
        return True
    classes = grid64(table, CLASS_TABLE)
    c = objects[o, CLASSES]
    for w in range(classes[c, 0], classes[c, 1]):
        needed = records[r + MISSING] + cover(table, o, records[r + FLAGS] | ways[w, 1])
        if records[r + COUNT] + 1 + needed <= objects[o, MOST]:
            return True
    return False


@inner
def may_close(table, r):
    """Whether the object may end."""
    records, objects = flat64(table, RECORDS), grid64(table, OBJECTS)
    o = records[r + OBJECT]
    wanted = objects[o, WANTED]
    return (
        records[r + MISSING] == 0 and records[r + COUNT] >= objects[o, LEAST] and records[r + FLAGS] & wanted == wanted
    )


@inner
def may_go_on(table, r):
    """Whether a further member may come."""
    records, objects = flat64(table, RECORDS), grid64(table, OBJECTS)
    o = records[r + OBJECT]
    if others_fit(table, r):
        return True
    for i in range(records[r + POSITION], objects[o, SLOTS_END] - objects[o, SLOTS]):
        if slot_fits(table, r, i):
            return True
    return False


@inner
def with_slot(table, r, i, flags):
    """The record with slot i, or a request."""
    records, objects, slots = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, SLOT_TABLE)
    o = records[r + OBJECT]
    at = draft(table, r, records[r + SIZE])
    if at < 0:
        return at
    had = at + BITS
    owed = had + objects[o, WORDS]
    set_bit(records, had, i)
    clear_bit(records, owed, i)
    if objects[o, ORDERED] == 1:
        if not objects[o, IMPLYING]:
            for j in range(records[r + POSITION], i):
                set_bit(records, had, j)
        records[at + POSITION] = i + 1
    items = flat64(table, ITEM_TABLE)
    s = objects[o, SLOTS] + i
    for j in range(slots[s, IMPLIED], slots[s, IMPLIED_END]):
        if not has_bit(records, had, items[j]):
            set_bit(records, owed, items[j])
    records[at + COUNT] = counted(objects, o, records[r + COUNT])
    records[at + FLAGS] |= flags
    return keep(table, at)


@inner
def with_other(table, r, text, flags):
    """The record with a member that is no slot, or a request; text -1: one whose name is not known."""
    records, objects = flat64(table, RECORDS), grid64(table, OBJECTS)
    o = records[r + OBJECT]
    names = records[r + OTHERS]
    if text >= 0:
        names = push_pair(table, names, 256 + text)
        if names < 0:
            return names
    at = draft(table, r, records[r + SIZE])
    if at < 0:
        return at
    if objects[o, ORDERED] == 1:
        n = objects[o, SLOTS_END] - objects[o, SLOTS]
        if not objects[o, IMPLYING]:
            for j in range(records[r + POSITION], n):
                set_bit(records, at + BITS, j)
        records[at + POSITION] = n
    records[at + OTHERS] = names
    records[at + COUNT] = counted(objects, o, records[r + COUNT])
    records[at + FLAGS] |= flags
    if text < 0:
        records[at + FLAGS] += ANONYMOUS
    return keep(table, at)


@inner
def way_fits(table, r, w, needed):
    """Whether way w of a member leaves room for what must still come; needed: members owed after it."""
    objects, records = grid64(table, OBJECTS), flat64(table, RECORDS)
    o = records[r + OBJECT]
    if objects[o, MOST] < 0 or objects[o, WANTED] == 0:
        return True
    flags = records[r + FLAGS] | grid64(table, WAY_TABLE)[w, 1]
    return records[r + COUNT] + 1 + needed + cover(table, o, flags) <= objects[o, MOST]


# names


@inner
def fitting(table, r, low, high):
    """Whether a slot of one of the names [low, high) may come now."""
    names = grid64(table, NAME_TABLE)
    for j in range(low, high):
        if slot_fits(table, r, names[j, 2]):
            return True
    return False


@inner
def begin_name(table, k):
    """The frame of a name that begins in the object of frame k, or a request."""
    nodes, frames, objects = grid64(table, NODES), grid64(table, FRAMES), grid64(table, OBJECTS)
    o, r = nodes[frames[k, 0], 1], frames[k, 2]
    state = objects[o, START] if others_fit(table, r) else NONE
    return push_frame(table, objects[o, NAME_NODE], k, ZERO, objects[o, NAMES], objects[o, NAMES_END], state)


REFUSED, GOES_ON, A_SLOT, AN_OTHER = 0, 1, 2, 3


@inner
def name_step(table, n, byte):
    """What a byte does to the name of frame n: (outcome, frame of the longer name | slot | class, text).

    The second is negative for a request.
    """
    frames, names = grid64(table, FRAMES), grid64(table, NAME_TABLE)
    k, text, q = frames[n, 1], frames[n, 2], frames[n, 5]
    r = frames[k, 2]
    depth = grid64(table, PAIRS)[text, 2]
    low, high = ZERO, ZERO
    if frames[n, 3] < frames[n, 4]:
        low, high = narrow(table, frames[n, 3], frames[n, 4], depth, byte)
        if low >= high:
            low, high = ZERO, ZERO
    if high - low == 1 and names[low, 1] - names[low, 0] == depth + 1:
        slot = names[low, 2]
        return (A_SLOT if slot_fits(table, r, slot) else REFUSED), slot, text
    if q >= 0:
        q = np.int64(grid32(table, STEP)[q, byte])
    if q < 0 and not fitting(table, r, low, high):
        return REFUSED, ZERO, text
    longer = push_pair(table, text, np.int64(byte))
    if longer < 0:
        return REFUSED, longer, text
    if q >= 0:
        states = grid32(table, STATES)
        if states[q, FINAL]:
            if used(table, flat64(table, RECORDS)[r + OTHERS], longer):
                return REFUSED, ZERO, text
            return AN_OTHER, np.int64(states[q, LABEL]), longer
        if others_left(table, r, longer, low, high, q) <= 0:
            q = NONE
            if not fitting(table, r, low, high):
                return REFUSED, ZERO, text
    frame = push_frame(table, frames[n, 0], k, longer, low, high, q)
    return (GOES_ON if frame >= 0 else REFUSED), frame, longer


@kernel
def in_the_way(table, n):
    """1 if a declared or a used name begins with the name of frame n, so that its row is not that of any other name."""
    frames = grid64(table, FRAMES)
    if frames[n, 3] < frames[n, 4]:
        return ONE
    return min(ONE, used_beginning(table, flat64(table, RECORDS)[frames[frames[n, 1], 2] + OTHERS], frames[n, 2]))


@inner
def any_other(table, n):
    """The frame of a name like that of n which no declared or used name begins with, twice, plus ``in_the_way``."""
    frames = grid64(table, FRAMES)
    plain = push_frame(table, frames[n, 0], frames[n, 1], NONE, ZERO, ZERO, frames[n, 5])
    return plain if plain < 0 else 2 * plain + in_the_way(table, n)


@kernel
def owed_name(table, n):
    """One more than the first slot that must come and whose name may still become that of frame n; 0 for none."""
    frames, names, records = grid64(table, FRAMES), grid64(table, NAME_TABLE), flat64(table, RECORDS)
    r = frames[frames[n, 1], 2]
    o = records[r + OBJECT]
    owed = r + BITS + grid64(table, OBJECTS)[o, WORDS]
    best = ZERO
    for j in range(frames[n, 3], frames[n, 4]):
        i = names[j, 2]
        if has_bit(records, owed, i) and (best == 0 or i + 1 < best) and slot_fits(table, r, i):
            best = i + 1
    return best


@kernel
def possible(table, n, found):
    """Write the slots whose names may still become that of frame n to found; their number."""
    frames, names = grid64(table, FRAMES), grid64(table, NAME_TABLE)
    r = frames[frames[n, 1], 2]
    m = ZERO
    for j in range(frames[n, 3], frames[n, 4]):
        if slot_fits(table, r, names[j, 2]):
            found[m] = names[j, 2]
            m += 1
    return m
