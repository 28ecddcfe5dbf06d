"""Rows of a vocabulary, each kept once: kernels that write a row into free room, and keep it if it is a new one.

``place`` is int64[9], what the kernels know of ``distinct.DistinctRows``:

    ROOM      address of the block of rows that is being filled
    FREE      number of its rows in use
    ROWS      rows of a block
    STRIDE    64-bit words from a row to the next; what is beyond a row's own words is zero
    COUNT     number of rows kept
    SLOTS     address of int64[slots, 3]: fingerprint, address and number of a row; number -1 where there is none
    MASK      number of slots, a power of two, less one
    ENDS      address of the row of end ids
    ERA       changes whenever the rows are let go; no two tables of rows ever have the same
"""

from __future__ import annotations

import numpy as np
from numba import carray

from ctrlgen.engine.kernel_table import ONE, inner, kernel, pointer

ROOM, FREE, ROWS, STRIDE, COUNT, SLOTS, MASK, ENDS, ERA = range(9)
_PRIME = np.uint64(0x9E3779B97F4A7C15)


@inner
def row_at(address, words):
    """The row at an address as uint64[words]."""
    return carray(pointer(address), (words,), np.uint64)


@inner
def free_row(place):
    """The address of the row that is to be written next."""
    return place[ROOM] + 8 * place[STRIDE] * place[FREE]


@inner
def fingerprint(row):
    """int64 of uint64[n], n a multiple of 4: four interleaved polynomials, so that the multiplications overlap."""
    a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    half = np.uint64(31)  # upper bits must reach lower ones, since multiplication only carries upwards
    for i in range(0, len(row), 4):
        a = a * _PRIME + (row[i] ^ (row[i] >> half))
        b = b * _PRIME + (row[i + 1] ^ (row[i + 1] >> half))
        c = c * _PRIME + (row[i + 2] ^ (row[i + 2] >> half))
        d = d * _PRIME + (row[i + 3] ^ (row[i + 3] >> half))
    for one in (b, c, d):
        a = ((a ^ (a >> np.uint64(29))) + one) * _PRIME
    return np.int64(a ^ (a >> np.uint64(32)))


@inner
def slot_of(place, key, row):
    """The slot of a row with this fingerprint, or the free one where it belongs."""
    slots = carray(pointer(place[SLOTS]), (place[MASK] + 1, 3), np.int64)
    at = key & place[MASK]
    while slots[at, 2] >= 0:
        if slots[at, 0] == key:
            other, different = row_at(slots[at, 1], len(row)), np.uint64(0)
            for i in range(len(row)):
                different |= other[i] ^ row[i]
            if different == 0:
                break
        at = (at + 1) & place[MASK]
    return at


@inner
def keep(place):
    """Keep the row that has been written to the free room, unless it is there already; its number."""
    address = free_row(place)
    row = row_at(address, place[STRIDE])
    key = fingerprint(row)
    at = slot_of(place, key, row)
    slots = carray(pointer(place[SLOTS]), (place[MASK] + 1, 3), np.int64)
    if slots[at, 2] < 0:
        slots[at, 0], slots[at, 1], slots[at, 2] = key, address, place[COUNT]
        place[COUNT] += 1
        place[FREE] += 1
    return slots[at, 2]


@kernel
def keep_copy(place, row):
    """Keep a copy of row uint32[words], unless it is there already; its number. There must be room."""
    copy = carray(pointer(free_row(place)), (2 * place[STRIDE],), np.uint32)
    copy[: len(row)] = row
    copy[len(row) :] = 0
    return keep(place)


@kernel
def move_slots(old, slots):
    """Enter what old slots hold into new ones, which are empty."""
    mask = slots.shape[0] - ONE
    for i in range(old.shape[0]):
        if old[i, 2] >= 0:
            at = old[i, 0] & mask
            while slots[at, 2] >= 0:
                at = (at + 1) & mask
            slots[at] = old[i]
