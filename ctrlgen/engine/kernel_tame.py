"""Walks that leave out whole subtrees of the trie: where all tokens below consist of bytes that an automaton takes.

A state of ``[a-z0-9]+"`` takes any text of letters and digits, from it and from wherever such text leads. So below a
trie node at which it stands, tokens of these alone need no walk. Bytes are told apart by *class*: lower case letters,
capitals, digits, each other ASCII byte from the blank on, control characters, well-formed UTF-8 beyond ASCII, and
what is not well-formed. ``below`` says for each trie node which classes occur below it. Since a number of characters
may be limited, states are looked at only so far, and longer tokens walked.
"""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import AFTER, BOUNDARY, BYTE, DEPTH, FINAL, HI, LABEL, LO
from ctrlgen.engine.kernel_table import ONE, ZERO, kernel

MOST_STATES = 512
LETTERS, BEYOND, MALFORMED = 0, 50, 51
"""Classes: lower case letters, bytes beyond ASCII, those that are not well-formed."""


@kernel
def classes_below(trie, utf8, class_of, below, at, deepest):
    """Write, for each trie node, the classes of bytes below it, its state of UTF-8 and the longest token's bytes.

    below: uint64[nodes]. at: int8[nodes], -1 where what leads to the node is not well-formed. deepest: int16[nodes].
    utf8: int32[R, 256], from state 0.
    """
    n = np.int64(trie[0, AFTER])
    parents, path = np.zeros(n, np.int64), np.zeros(512, np.int64)
    at[0] = deepest[0] = 0
    for i in range(1, n):
        d = trie[i, DEPTH]
        parent = path[d - 1]
        at[i] = utf8[at[parent], trie[i, BYTE]] if at[parent] >= 0 else -1
        path[d], parents[i], deepest[i] = i, parent, d
    below[:] = 0
    for i in range(n - 1, 0, -1):
        p = parents[i]
        one = class_of[trie[i, BYTE]] if at[i] >= 0 else MALFORMED
        below[p] |= below[i] | (np.uint64(1) << np.uint64(one))
        deepest[p] = max(deepest[p], deepest[i])


@kernel
def tame(step, states, first, count, g, utf8, class_of, reach, levels):
    """The classes of bytes of which any text of up to ``reach`` bytes stays inside the automaton from state g.

    Writes to levels: int32[count, R] after how many bytes such a text may first be in a state, by that of UTF-8, -1 for
    never. Returns the classes as bits; 0 if there are none or too many states, or g is within a character.
    """
    if states[g, BOUNDARY] == 0 or states[g, FINAL] == 1:
        return np.uint64(0)
    good = np.uint64(0)
    for byte in range(128):
        good |= np.uint64(1) << np.uint64(class_of[byte])
    beyond = np.uint64(1) << np.uint64(BEYOND)
    good |= beyond
    for byte in range(128):  # most classes are not taken by g itself
        p = step[g, byte]
        if p < 0 or states[p, FINAL] == 1:
            good &= ~(np.uint64(1) << np.uint64(class_of[byte]))
    pairs = np.empty((MOST_STATES, 3), np.int64)
    while good != 0:
        before = good
        levels[:] = -1
        levels[g - first, 0] = 0
        pairs[0, 0], pairs[0, 1], pairs[0, 2] = g, 0, 0
        low, high = ZERO, ONE
        while low < high:
            s, r, depth = pairs[low, 0], pairs[low, 1], pairs[low, 2]
            low += 1
            if depth >= reach:
                break
            for byte in range(256):
                q = utf8[r, byte]
                one = np.uint64(1) << np.uint64(class_of[byte])
                if q < 0 or good & one == 0:
                    continue
                p = step[s, byte]
                if p < 0 or states[p, FINAL] == 1 or (states[p, BOUNDARY] == 1) != (q == 0):
                    good &= ~one
                    continue
                if levels[p - first, q] < 0:
                    if high >= MOST_STATES:
                        return np.uint64(0)
                    levels[p - first, q] = depth + 1
                    pairs[high, 0], pairs[high, 1], pairs[high, 2] = p, q, depth + 1
                    high += 1
        if good == before:
            break
    return good


@kernel
def walk_tame(trie, tokens, step, states, first, g, below, at, deepest, good, reach, levels, row, exits):
    """The same as ``walk_automaton`` from the root; ``good``, ``reach`` and ``levels`` are those of ``tame`` for g."""
    n = ZERO
    depth_state, depth_count = np.empty(512, np.int32), np.empty(512, np.int32)
    depth_state[0], depth_count[0] = g, 0
    bad = ~good
    i, end = ONE, np.int64(trie[0, AFTER])
    while i < end:
        d = trie[i, DEPTH]
        q = step[depth_state[d - 1], trie[i, BYTE]]
        after = np.int64(trie[i, AFTER])
        if q < 0:
            i = after
            continue
        c = depth_count[d - 1] + states[q, BOUNDARY]
        depth_state[d], depth_count[d] = q, c
        known = below[i] & bad == 0 and deepest[i] <= reach and at[i] >= 0 and 0 <= levels[q - first, at[i]] <= d
        for j in range(trie[i, LO], trie[(after if known else i + 1) - 1, HI]):
            t = tokens[j]
            row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
        if states[q, FINAL] == 1:
            if n < exits.shape[0]:
                exits[n, 0], exits[n, 1], exits[n, 2] = i, depth_count[d - 1], states[q, LABEL]
            n += 1
        i = after if known else i + 1
    return n
