"""What all kernels share: constants, the table of addresses, interned frames and pairs, the children of a trie node.

A configuration is (symbol, stack). A symbol >= 0 is a node of the network, ~symbol >= 0 a state of an automaton of
the lexicon. A stack is the index of a hash-consed frame, 0 the empty one, so equal stacks are equal ints:

    frame of            return   first    second   third   fourth
    a call              node     0        -1       0       0
    a counted string    node     least    most     0       0        characters it still needs and may still have
    an object           AFTER    record   0        0       0        the members it has had (kernel_records)
    an array            AFTER    count    0        0       0        the items it has had
    a name              NAME     text     low      high    state    bytes read; declared names that begin so

What is below objects and arrays returns to AFTER_MEMBER or AFTER_ITEM, which keep their frame. Texts and sets of
texts are hash-consed pairs: (text, byte) and (set, 256 + text).

The kernels read the arrays of ``Lexicon.arrays`` and ``Network.arrays``. Passing twenty arrays costs more than a step
takes, so ``table_of`` writes their addresses and lengths into one table, from which ``nodes_of`` and its like make
them again; who calls must keep the arrays alive and make a new table when one of them has moved.

Kernels never allocate shared memory. What is missing (an unbuilt node, a row, room) makes them return a negative
request; the caller provides it and calls again, which is safe since they only ever set bits and intern.
"""

from __future__ import annotations

from ctypes import addressof, c_char

import numpy as np
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ctrlgen.engine.columns import AFTER, BYTE, DENSE
from ctrlgen.engine.growing import LASTING

# what a kernel may ask for: it returns -(1 + REQUESTS * value + kind)
REQUESTS = 16
NEED_NODE, NEED_ROW, NEED_REST, NEED_COUNTED_REST, NEED_FRAMES, NEED_ROOM, TOO_DEEP, NEED_ROWS, NEED_BASE = range(9)
EPSILON_LIMIT = 1 << 20
# sizes: used frames, pairs, record cells; whether a row may have taken tokens that hold a name twice
FRAMES_USED, PAIRS_USED, RECORDS_USED, DOUBTS = 0, 1, 2, 3
PLAIN_TEXT = -1  # text of a name that no declared or used name begins with

# one specialisation each: literals would make one for every value
ZERO, ONE, NONE = np.int64(0), np.int64(1), np.int64(-1)

kernel = njit(cache=True, nogil=True, error_model="numpy")
inner = njit(cache=True, nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


@intrinsic
def pointer(typing_context, address):
    """An int64 as a pointer."""

    def code(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


# every array that the kernels read: name, number of columns (0: one-dimensional, -1: any), dtype; in table order,
# those of the lexicon first
COLUMNS = (
    ("trie", 6, np.int32),
    ("tokens", 0, np.int32),
    ("children", 256, np.int32),
    ("step", 256, np.int32),
    ("states", 11, np.int32),
    ("ranges", 3, np.int32),
    ("row_of", 0, np.int32),
    ("inside", -1, np.uint32),
    ("counted_row_of", -1, np.int32),
    ("rests", 2, np.int32),
    ("spelled", 0, np.uint8),
    ("spelled_at", 0, np.int64),
    ("recipe", 0, np.int64),
    ("recipe_slots", 4, np.int64),
    ("recipe_steps", 0, np.int64),
    ("walk_slots", 4, np.int64),
    ("walk_items", 0, np.int32),
    ("nodes", 5, np.int64),
    ("edges", 3, np.int64),
    ("frames", 7, np.int64),
    ("buckets", 0, np.int64),
    ("sizes", 0, np.int64),
    ("pairs", 4, np.int64),
    ("pair_buckets", 0, np.int64),
    ("records", 0, np.int64),
    ("record_buckets", 0, np.int64),
    ("objects", 17, np.int64),
    ("slots", 5, np.int64),
    ("ways", 2, np.int64),
    ("names", 4, np.int64),
    ("classes", 2, np.int64),
    ("arrays", 5, np.int64),
    ("items", 0, np.int64),
    ("letters", 0, np.uint8),
    ("spans", 6, np.int32),
    ("span_edges", 2, np.int32),
)


(TRIE, TOKENS, CHILDREN, STEP, STATES, RANGES, ROW_OF, INSIDE, COUNTED_ROW_OF, RESTS, SPELLED, SPELLED_AT,
 RECIPE, RECIPE_SLOTS, RECIPE_STEPS, WALK_SLOTS, WALK_ITEMS,
 NODES, EDGES, FRAMES, BUCKETS, SIZES, PAIRS, PAIR_BUCKETS, RECORDS, RECORD_BUCKETS, OBJECTS, SLOT_TABLE, WAY_TABLE,
 NAME_TABLE, CLASS_TABLE, ARRAYS, ITEM_TABLE, LETTER_TABLE, SPANS, SPAN_EDGES) = range(len(COLUMNS))  # fmt: skip
LEXICON_COLUMNS, NETWORK_COLUMNS = COLUMNS[:NODES], COLUMNS[NODES:]


def table_of(columns, arrays):
    """int64[n, 3]: address, rows and columns of each array; columns: what they must be like."""
    return np.array([line_of(column, array) for column, array in zip(columns, arrays, strict=True)], np.int64)


def line_of(column, array):
    """Address, rows and columns of an array; column: what it must be like."""
    address, shape = LASTING.get(id(array)), array.shape
    if address is None:
        name, width, dtype = column
        fits = len(shape) == (1 if width == 0 else 2) and (width <= 0 or shape[-1] == width)
        if array.dtype.type is not dtype or not array.data.c_contiguous or not fits:
            raise TypeError(f"kernel array {name}: {array.dtype}{shape} is not what the kernels read")
        quick = array.flags.writeable and array.size  # five times as fast
        address = addressof(c_char.from_buffer(array)) if quick else array.ctypes.data
    return address, shape[0], shape[-1]


@inner
def flat32(table, i):
    """Array i of the table, int32[n]."""
    return carray(pointer(table[i, 0]), (table[i, 1],), np.int32)


@inner
def flat64(table, i):
    """Array i of the table, int64[n]."""
    return carray(pointer(table[i, 0]), (table[i, 1],), np.int64)


@inner
def grid32(table, i):
    """Array i of the table, int32[n, m]."""
    return carray(pointer(table[i, 0]), (table[i, 1], table[i, 2]), np.int32)


@inner
def grid64(table, i):
    """Array i of the table, int64[n, m]."""
    return carray(pointer(table[i, 0]), (table[i, 1], table[i, 2]), np.int64)


@inner
def inside_of(table):
    """The rows of tokens inside automata, uint32[n, words]."""
    return carray(pointer(table[INSIDE, 0]), (table[INSIDE, 1], table[INSIDE, 2]), np.uint32)


@inner
def letters_of(table):
    """The bytes of all declared names, one after the other."""
    return carray(pointer(table[LETTER_TABLE, 0]), (table[LETTER_TABLE, 1],), np.uint8)


@inner
def spelled(table):
    """The bytes of all tokens, one after the other."""
    return carray(pointer(table[SPELLED, 0]), (table[SPELLED, 1],), np.uint8)


@inner
def request(kind, value):
    """The negative number that asks for something."""
    return -(ONE + REQUESTS * np.int64(value) + np.int64(kind))


@inner
def mixed(key, value):
    """A hash and one more value."""
    key = (key ^ np.uint64(value)) * np.uint64(0x9E3779B97F4A7C15)
    return key ^ (key >> np.uint64(29))


@kernel
def push_frame(table, back, parent, first, second, third, fourth):
    """Index of the frame, interned; a request where there is no room."""
    frames, buckets, sizes = grid64(table, FRAMES), flat64(table, BUCKETS), flat64(table, SIZES)
    key = mixed(mixed(mixed(np.uint64(1), back), parent), first)
    key = mixed(mixed(mixed(key, second), third), fourth)
    slot = np.int64(key & np.uint64(buckets.shape[0] - 1))
    k = buckets[slot]
    while k > 0:
        if (
            frames[k, 0] == back
            and frames[k, 1] == parent
            and frames[k, 2] == first
            and frames[k, 3] == second
            and frames[k, 4] == third
            and frames[k, 5] == fourth
        ):
            return k
        k = frames[k, 6]
    k = sizes[FRAMES_USED]
    if k >= frames.shape[0]:
        return request(NEED_FRAMES, ZERO)
    sizes[FRAMES_USED] = k + 1
    frames[k, 0], frames[k, 1], frames[k, 2], frames[k, 3] = back, parent, first, second
    frames[k, 4], frames[k, 5], frames[k, 6] = third, fourth, buckets[slot]
    buckets[slot] = k
    return k


@inner
def push_call(table, back, parent):
    """The frame of a call."""
    return push_frame(table, back, parent, ZERO, NONE, ZERO, ZERO)


@kernel
def push_pair(table, a, b):
    """Index of the pair (a, b), interned; its length is that of a and one more. A request where there is no room."""
    pairs, buckets, sizes = grid64(table, PAIRS), flat64(table, PAIR_BUCKETS), flat64(table, SIZES)
    slot = np.int64(mixed(mixed(np.uint64(1), a), b) & np.uint64(buckets.shape[0] - 1))
    k = buckets[slot]
    while k > 0:
        if pairs[k, 0] == a and pairs[k, 1] == b:
            return k
        k = pairs[k, 3]
    k = sizes[PAIRS_USED]
    if k >= pairs.shape[0]:
        return request(NEED_FRAMES, ZERO)
    sizes[PAIRS_USED] = k + 1
    pairs[k, 0], pairs[k, 1], pairs[k, 2], pairs[k, 3] = a, b, pairs[a, 2] + 1, buckets[slot]
    buckets[slot] = k
    return k


@kernel
def intern_again(table, old_frames, old_pairs, old_records, used_frames, used_pairs, used_records):
    """Intern what the old arrays hold in new, empty ones; the indices stay."""
    from_frames, from_pairs = old_frames, old_pairs
    for k in range(1, used_frames):
        f = from_frames[k]
        push_frame(table, f[0], f[1], f[2], f[3], f[4], f[5])
    for k in range(1, used_pairs):
        push_pair(table, from_pairs[k, 0], from_pairs[k, 1])
    records, buckets, sizes = flat64(table, RECORDS), flat64(table, RECORD_BUCKETS), flat64(table, SIZES)
    r = ONE
    while r < used_records:
        size = old_records[r + 1]
        key = np.uint64(1)
        for i in range(1, size):
            records[r + i] = old_records[r + i]
            key = mixed(key, records[r + i])
        slot = np.int64(key & np.uint64(buckets.shape[0] - 1))
        records[r] = buckets[slot]
        buckets[slot] = r
        r += size
    sizes[RECORDS_USED] = used_records


@inner
def child(trie, children, v, byte):
    """The child of trie node v by byte, or -1."""
    dense = trie[v, DENSE]
    if dense >= 0:
        return np.int64(children[dense, byte])
    c, end = np.int64(v) + 1, np.int64(trie[v, AFTER])
    while c < end:
        b = trie[c, BYTE]
        if b >= byte:
            return c if b == byte else NONE
        c = np.int64(trie[c, AFTER])
    return NONE
