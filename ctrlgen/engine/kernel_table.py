"""What all kernels share: constants, the table of addresses, interned stacks, the children of a trie node.

A configuration is (symbol, stack). A symbol >= 0 is a node of the network, ~symbol >= 0 a state of an automaton
of the lexicon. A stack is the index of a hash-consed frame (return node, parent, least, most), 0 the empty
stack, so equal stacks are equal ints. least and most count the characters that a string still needs and may
still have (most -1: no limit).

The kernels read the arrays of ``Lexicon.arrays`` and ``Network.arrays``. Passing fifteen arrays costs more than
a step takes, so ``table_of`` writes their addresses and lengths into one table, from which ``unpack`` makes them
again; who calls must keep the arrays alive and make a new table when one of them has moved.

Kernels never allocate shared memory. What is missing (an unbuilt node, a row, room) makes them return a negative
request; the caller provides it and calls again, which is safe since they only ever set bits and intern frames.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# node kinds, nodes[:, 0]
UNBUILT, BYTES, CALL, FORK, END, ENTER = 0, 1, 2, 3, 4, 5
# columns of trie nodes
BYTE, AFTER, LO, HI, DENSE, DEPTH = 0, 1, 2, 3, 4, 5
# columns of lexicon states
FINAL, BOUNDARY, LEAF, RANGE_LO, RANGE_HI, REST, REST_LO, REST_HI, COUNTED = 0, 1, 2, 3, 4, 5, 6, 7, 8
# what a kernel may ask for: it returns -(1 + REQUESTS * value + kind)
REQUESTS = 8
NEED_NODE, NEED_ROW, NEED_REST, NEED_COUNTED_REST, NEED_FRAMES, NEED_ROOM, TOO_DEEP = 0, 1, 2, 3, 4, 5, 6
UNLIMITED = 255  # row of a string without limit
UNKNOWN = -2  # REST: not computed yet; -1: nothing can follow inside a token
EPSILON_LIMIT = 1 << 20


@intrinsic
def pointer(typing_context, address):
    """An int64 as a pointer."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


# every array that the kernels read: name, number of columns (0: one-dimensional), dtype; in the order of the table
COLUMNS = (
    ("trie", 6, np.int32),
    ("tokens", 0, np.int32),
    ("children", 256, np.int32),
    ("step", 256, np.int32),
    ("states", 9, np.int32),
    ("ranges", 3, np.int32),
    ("row_of", 0, np.int32),
    ("inside", -1, np.uint32),
    ("counted_row_of", -1, np.int32),
    ("rests", 2, np.int32),
    ("nodes", 5, np.int32),
    ("edges", 3, np.int32),
    ("frames", 5, np.int32),
    ("buckets", 0, np.int32),
    ("sizes", 0, np.int64),
)


def table_of(lexicon, network):
    """int64[15, 3]: address, rows and columns of each array of ``Lexicon.arrays`` and ``Network.arrays``."""
    table = np.zeros((len(COLUMNS), 3), np.int64)
    for line, (name, columns, dtype), array in zip(table, COLUMNS, (*lexicon, *network), strict=True):
        if array.dtype != dtype or not array.flags.c_contiguous or array.ndim != (1 if columns == 0 else 2):
            raise TypeError(f"kernel array {name}: {array.dtype}{array.shape} is not what the kernels read")
        if columns > 0 and array.shape[1] != columns:
            raise TypeError(f"kernel array {name} has {array.shape[1]} columns, not {columns}")
        line[:] = array.ctypes.data, array.shape[0], array.shape[-1]
    return table


@njit(cache=True, nogil=True, inline="always")
def unpack(table):
    """The arrays behind a table, in the order of COLUMNS."""
    return (
        carray(pointer(table[0, 0]), (table[0, 1], 6), np.int32),
        carray(pointer(table[1, 0]), (table[1, 1],), np.int32),
        carray(pointer(table[2, 0]), (table[2, 1], 256), np.int32),
        carray(pointer(table[3, 0]), (table[3, 1], 256), np.int32),
        carray(pointer(table[4, 0]), (table[4, 1], 9), np.int32),
        carray(pointer(table[5, 0]), (table[5, 1], 3), np.int32),
        carray(pointer(table[6, 0]), (table[6, 1],), np.int32),
        carray(pointer(table[7, 0]), (table[7, 1], table[7, 2]), np.uint32),
        carray(pointer(table[8, 0]), (table[8, 1], table[8, 2]), np.int32),
        carray(pointer(table[9, 0]), (table[9, 1], 2), np.int32),
        carray(pointer(table[10, 0]), (table[10, 1], 5), np.int32),
        carray(pointer(table[11, 0]), (table[11, 1], 3), np.int32),
        carray(pointer(table[12, 0]), (table[12, 1], 5), np.int32),
        carray(pointer(table[13, 0]), (table[13, 1],), np.int32),
        carray(pointer(table[14, 0]), (table[14, 1],), np.int64),
    )


@njit(cache=True, nogil=True)
def request(kind, value):
    """The negative number that asks for something."""
    return -(1 + REQUESTS * np.int64(value) + kind)


@njit(cache=True, nogil=True)
def push_frame(frames, buckets, sizes, back, parent, least, most):
    """Index of the frame, interned; -1 where there is no room."""
    key = np.uint64(back) * np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(parent) * np.uint64(0xC2B2AE3D27D4EB4F)
    key ^= np.uint64(least + 1) * np.uint64(0x165667B19E3779F9) ^ np.uint64(most + 2) * np.uint64(0x27D4EB2F165667C5)
    key ^= key >> np.uint64(29)
    slot = np.int64(key % np.uint64(buckets.shape[0]))
    k = buckets[slot]
    while k > 0:
        if frames[k, 0] == back and frames[k, 1] == parent and frames[k, 2] == least and frames[k, 3] == most:
            return k
        k = frames[k, 4]
    k = sizes[0]
    if k >= frames.shape[0]:
        return -1
    sizes[0] = k + 1
    frames[k, 0], frames[k, 1], frames[k, 2], frames[k, 3], frames[k, 4] = back, parent, least, most, buckets[slot]
    buckets[slot] = k
    return k


@njit(cache=True, nogil=True)
def intern_again(old, used, frames, buckets, sizes):
    """Intern old[1:used] in new, empty tables; the indices stay."""
    for k in range(1, used):
        push_frame(frames, buckets, sizes, old[k, 0], old[k, 1], old[k, 2], old[k, 3])


@njit(cache=True, nogil=True)
def child(trie, children, v, byte):
    """The child of trie node v by byte, or -1."""
    dense = trie[v, DENSE]
    if dense >= 0:
        return np.int64(children[dense, byte])
    c, end = np.int64(v) + 1, trie[v, AFTER]
    while c < end:
        b = trie[c, BYTE]
        if b >= byte:
            return c if b == byte else np.int64(-1)
        c = np.int64(trie[c, AFTER])
    return np.int64(-1)


@njit(cache=True, nogil=True)
def set_tokens(trie, tokens, v, row):
    """Set the bits of the tokens that end at trie node v."""
    for i in range(trie[v, LO], trie[v, HI]):
        t = tokens[i]
        row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
