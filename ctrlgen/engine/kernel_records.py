"""Records: what an object has had so far.

A record is interned in one flat array, at r:

    r      link of its bucket
    r + 1  its size in cells
    r + 2  object
    r + 3  members counted, as far as they matter
    r + 4  set of the undeclared names had
    r + 5  flags: what has been fulfilled of what the object wants; ANONYMOUS for each name had that is not known
    r + 6  first slot that may still come (declared order)
    r + 7  slots that must still come
    r + 8  the first of them, or the number of slots
    r + 9  bits of the slots had (or passed over), then bits of the slots owed

In declared order a slot that was passed over counts as had, so that equal remainders are equal records; not where
slots imply others, since then it matters what was really there.
"""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import FIRST_RECORD, IMPLIED, IMPLIED_END, REQUIRED, SLOTS, SLOTS_END, WORDS
from ctrlgen.engine.kernel_table import (
    ITEM_TABLE,
    NEED_FRAMES,
    OBJECTS,
    ONE,
    RECORD_BUCKETS,
    RECORDS,
    RECORDS_USED,
    SIZES,
    SLOT_TABLE,
    ZERO,
    flat64,
    grid64,
    inner,
    kernel,
    mixed,
    request,
)

SIZE, OBJECT, COUNT, OTHERS, FLAGS, POSITION, MISSING, FIRST_OWED, BITS = 1, 2, 3, 4, 5, 6, 7, 8, 9
ANONYMOUS = 1 << 40


@inner
def has_bit(records, at, i):
    """Bit i of the bits at ``at``."""
    return (records[at + (i >> 6)] >> (i & 63)) & 1


@inner
def set_bit(records, at, i):
    """Set bit i of the bits at ``at``."""
    records[at + (i >> 6)] |= ONE << (i & 63)


@inner
def clear_bit(records, at, i):
    """Clear bit i of the bits at ``at``."""
    records[at + (i >> 6)] &= ~(ONE << (i & 63))


@inner
def draft(table, r, size):
    """Copy record r behind all others, to be changed and kept; where, or a request."""
    records, sizes = flat64(table, RECORDS), flat64(table, SIZES)
    at = sizes[RECORDS_USED]
    if at + size > records.shape[0]:
        return request(NEED_FRAMES, ZERO)
    for i in range(1, size):
        records[at + i] = records[r + i]
    return at


@inner
def keep(table, at):
    """Intern the draft at ``at``: its index, or that of an equal record."""
    records, buckets, sizes = flat64(table, RECORDS), flat64(table, RECORD_BUCKETS), flat64(table, SIZES)
    objects = grid64(table, OBJECTS)
    o, size = records[at + OBJECT], records[at + SIZE]
    n = objects[o, SLOTS_END] - objects[o, SLOTS]
    owed = at + BITS + objects[o, WORDS]
    missing, first = ZERO, n
    for w in range(objects[o, WORDS]):
        word = np.uint64(records[owed + w])
        i = 64 * w
        while word:
            if word & np.uint64(1):
                missing += 1
                first = min(first, i)
            word >>= np.uint64(1)
            i += 1
    records[at + MISSING], records[at + FIRST_OWED] = missing, first
    key = np.uint64(1)
    for i in range(1, size):
        key = mixed(key, records[at + i])
    slot = np.int64(key & np.uint64(buckets.shape[0] - 1))
    r = buckets[slot]
    while r > 0:
        same = True
        for i in range(1, size):
            if records[r + i] != records[at + i]:
                same = False
                break
        if same:
            return r
        r = records[r]
    records[at] = buckets[slot]
    buckets[slot] = at
    sizes[RECORDS_USED] = at + size
    return at


@kernel
def first_record(table, o):
    """The record of an object without members, or a request."""
    records, objects, slots = flat64(table, RECORDS), grid64(table, OBJECTS), grid64(table, SLOT_TABLE)
    if objects[o, FIRST_RECORD] > 0:
        return objects[o, FIRST_RECORD]
    size = BITS + 2 * objects[o, WORDS]
    at = draft(table, ZERO, size)
    if at < 0:
        return at
    for i in range(1, size):
        records[at + i] = 0
    records[at + SIZE], records[at + OBJECT] = size, o
    owed, items = at + BITS + objects[o, WORDS], flat64(table, ITEM_TABLE)
    for i in range(objects[o, SLOTS], objects[o, SLOTS_END]):
        if slots[i, REQUIRED]:
            set_bit(records, owed, i - objects[o, SLOTS])
            for j in range(slots[i, IMPLIED], slots[i, IMPLIED_END]):  # what it implies is sure to be needed too
                set_bit(records, owed, items[j])
    r = keep(table, at)
    objects[o, FIRST_RECORD] = r
    return r
