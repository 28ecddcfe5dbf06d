"""Walks of the trie of the vocabulary in one automaton: what the lexicon keeps for each state that a text has met."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.kernel_table import (
    AFTER,
    BOUNDARY,
    BYTE,
    DENSE,
    DEPTH,
    FINAL,
    HI,
    LABEL,
    LO,
    ONE,
    RANGE_HI,
    RANGE_LO,
    ZERO,
    child,
    kernel,
)

WIDE = 24
"""A state with more live bytes than this walks the whole trie, another one only the subtrees of its own bytes."""


@kernel
def walk_automaton(trie, tokens, children, step, states, ranges, g, row, exits, counts, follow):
    """Tokens that stay inside an automaton from state g, and where it may be left within a token.

    Sets the bits of row; writes to counts[t] (uint8, capped at 254) the characters that token t takes, begun
    ones included, unless it ends where the automaton accepts; if follow, writes (trie node, characters, label of the
    accepting state) to exits[n] for each node where the automaton accepts. Returns the number of exits, which may exceed
    the room in exits: call again with more.
    """
    n = ZERO
    depth_state, depth_count = np.empty(512, np.int32), np.empty(512, np.int32)
    live = ZERO
    for e in range(states[g, RANGE_LO], states[g, RANGE_HI]):
        live += ranges[e, 1] - ranges[e, 0] + 1
    end_all = np.int64(trie[0, AFTER])
    depth_state[0], depth_count[0] = g, 0
    wide = live > WIDE
    firsts, last = (ZERO, ONE) if wide else (np.int64(states[g, RANGE_LO]), np.int64(states[g, RANGE_HI]))
    for e in range(firsts, last):
        low, high = (ZERO, ZERO) if wide else (np.int64(ranges[e, 0]), np.int64(ranges[e, 1]))
        for byte in range(low, high + 1):
            i, end = ONE, end_all
            if not wide:
                i = child(trie, children, ZERO, byte)
                if i < 0:
                    continue
                end = np.int64(trie[i, AFTER])
            while i < end:
                d = trie[i, DEPTH]
                q = step[depth_state[d - 1], trie[i, BYTE]]
                if q < 0:
                    i = np.int64(trie[i, AFTER])
                    continue
                c = depth_count[d - 1] + states[q, BOUNDARY]
                depth_state[d], depth_count[d] = q, c
                shown = c if states[q, BOUNDARY] == 1 else c + 1
                for j in range(trie[i, LO], trie[i, HI]):
                    t = tokens[j]
                    row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
                    if states[q, FINAL] == 0:
                        counts[t] = min(shown, 254)
                if follow and states[q, FINAL] == 1:
                    if n < exits.shape[0]:
                        exits[n, 0], exits[n, 1], exits[n, 2] = i, depth_count[d - 1], states[q, LABEL]
                    n += 1
                i += 1
    return n


@kernel
def merge_below(trie, tokens, exits, n, first_node, first_token, nodes, flat):
    """Merge the subtrees of exits[0:n] (trie nodes) into one trie, written to nodes and flat.

    nodes: int32[room, 6], columns as in the vocabulary's trie, numbered from ``first_node``; flat: int32[room], tokens
    from ``first_token``. Returns the number of nodes and of tokens, which may exceed the room: call again with more.
    """
    # of each level: the nodes to be merged, as (child to come next, end of its children), one level after the other
    work = np.empty((max(n, 64) * 4, 2), np.int32)
    path = np.empty((512, 3), np.int64)  # low and high in work, merged node
    size, used, depth = ONE, ZERO, ZERO
    for i in range(n):
        v = exits[i]
        work[i, 0], work[i, 1] = v + 1, trie[v, AFTER]
        for j in range(trie[v, LO], trie[v, HI]):
            if used < flat.shape[0]:
                flat[used] = tokens[j]
            used += 1
    path[0, 0], path[0, 1], path[0, 2] = ZERO, n, ZERO
    if nodes.shape[0]:
        nodes[0, BYTE], nodes[0, LO], nodes[0, HI] = 0, first_token, first_token + used
        nodes[0, DENSE], nodes[0, DEPTH] = -1, 0
    while depth >= 0:
        low, high = path[depth, 0], path[depth, 1]
        byte = np.int32(256)
        for i in range(low, high):
            if work[i, 0] < work[i, 1]:
                byte = min(byte, trie[work[i, 0], BYTE])
        if byte == 256:
            if path[depth, 2] < nodes.shape[0]:
                nodes[path[depth, 2], AFTER] = first_node + size
            depth -= 1
            continue
        begun, at = used, high
        for i in range(low, high):
            c = work[i, 0]
            if c < work[i, 1] and trie[c, BYTE] == byte:
                work[i, 0] = trie[c, AFTER]
                for j in range(trie[c, LO], trie[c, HI]):
                    if used < flat.shape[0]:
                        flat[used] = tokens[j]
                    used += 1
                if trie[c, AFTER] > c + 1:
                    if at >= work.shape[0]:
                        more = np.empty((2 * work.shape[0], 2), np.int32)
                        more[: work.shape[0]] = work
                        work = more
                    work[at, 0], work[at, 1] = c + 1, trie[c, AFTER]
                    at += 1
        if size < nodes.shape[0]:
            nodes[size, BYTE], nodes[size, LO], nodes[size, HI] = byte, first_token + begun, first_token + used
            nodes[size, DENSE], nodes[size, DEPTH] = -1, depth + 1
        depth += 1
        path[depth, 0], path[depth, 1], path[depth, 2] = high, at, size
        size += 1
    return size, used
