"""Rows of automata that wait for strings in any text: they are nearly those of the state in which nothing has begun."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import AFTER, BYTE, DEPTH, FINAL, HI, LO
from ctrlgen.engine.kernel_table import ONE, ZERO, child, kernel


@kernel
def walk_beside(trie, tokens, step, states, g, base, row, exits, changed):
    """Turn the row of the tokens that stay inside an automaton from state ``base`` into that from state ``g``.

    The trie is walked only where the two go through different states. Writes the exits there to exits[:n], as
    ``walk_automaton`` does, and to changed[:m] the ranges [first, end) of trie nodes whose exits from ``base`` are no
    longer right, in order. Every state is at the end of a character. Returns (n, m), which may exceed the room.
    """
    here, there = np.empty(512, np.int32), np.empty(512, np.int32)
    here[0], there[0] = g, base
    n, m = ZERO, ZERO
    i, end = ONE, np.int64(trie[0, AFTER])
    while i < end:
        d = trie[i, DEPTH]
        byte = trie[i, BYTE]
        p = step[here[d - 1], byte] if here[d - 1] >= 0 else np.int32(-1)
        q = step[there[d - 1], byte] if there[d - 1] >= 0 else np.int32(-1)
        after = np.int64(trie[i, AFTER])
        if p == q:
            i = after
            continue
        here[d], there[d] = p, q
        last = i + 1 if p >= 0 else after
        for j in range(trie[i, LO], trie[last - 1, HI]):
            t = tokens[j]
            if p >= 0:
                row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
            else:
                row[t >> 5] &= ~(np.uint32(1) << np.uint32(t & 31))
        if m < changed.shape[0]:
            changed[m, 0], changed[m, 1] = i, last
        m += 1
        if p >= 0 and states[p, FINAL] == 1:
            if n < exits.shape[0]:
                exits[n, 0], exits[n, 1], exits[n, 2] = i, d - 1, -1
            n += 1
        i = last
    return n, m


@kernel
def along(trie, children, text):
    """The node of the trie at the end of ``text``, which some token begins with."""
    v = ZERO
    for i in range(text.shape[0]):
        v = child(trie, children, v, np.int64(text[i]))
    return v
