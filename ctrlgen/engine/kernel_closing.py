"""Kernels for ending in time: the fewest tokens of a text, and where the tokens within an automaton lead."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import AFTER, BOUNDARY, BYTE, DEPTH, FINAL, HI, LO
from ctrlgen.engine.kernel_step import advance
from ctrlgen.engine.kernel_table import NONE, ONE, ZERO, child, kernel

UNSPELLED = 1 << 30
"""Number of tokens of a text that no tokens spell."""


@kernel
def fewest(trie, children, text, counts):
    """Write to counts[i] the fewest tokens that spell text from byte i on, for i below those that are known.

    text: uint8[n]; counts: int32[n + 1], at least 0 where it is known: at the end, and from some place on.
    """
    for i in range(text.shape[0] - 1, -1, -1):
        if counts[i] >= 0:
            continue
        best = np.int64(UNSPELLED)
        v, at = ZERO, ZERO + i
        while at < text.shape[0]:
            v = child(trie, children, v, np.int64(text[at]))
            if v < 0:
                break
            at += 1
            if trie[v, HI] > trie[v, LO]:
                best = min(best, np.int64(counts[at]) + 1)
        counts[i] = best


@kernel
def first_of_fewest(trie, tokens, children, text, counts):
    """The lowest id of a first token of the fewest that spell text, of which ``fewest`` gave counts; -1 for none."""
    v = ZERO
    for at in range(text.shape[0]):
        v = child(trie, children, v, np.int64(text[at]))
        if v < 0:
            break
        if trie[v, HI] > trie[v, LO] and counts[at + 1] + 1 == counts[0]:
            return np.int64(tokens[trie[v, LO]])
    return NONE


@kernel
def land(trie, tokens, step, states, g, first, most, number, group, reached):
    """Group the tokens that stay inside an automaton from state g by where they lead, and after how many characters.

    Args:
        first: the first state of the automaton.
        most: larger numbers of characters count as this one.
        number: int32[states of the automaton, most + 1] of zeros, overwritten.
        group: uint16[ids] of zeros; becomes the group of each token, from 1 on.
        reached: int32[room, 2]; becomes (state, characters) of each group.

    Returns:
        Number of groups and one; more than the room in reached if there was not enough.
    """
    depth_state, depth_count = np.empty(512, np.int32), np.empty(512, np.int32)
    depth_state[0], depth_count[0] = g, 0
    n = ONE
    i, end = ONE, np.int64(trie[0, AFTER])
    while i < end:
        d = trie[i, DEPTH]
        q = step[depth_state[d - 1], trie[i, BYTE]]
        if q < 0:
            i = np.int64(trie[i, AFTER])
            continue
        c = min(depth_count[d - 1] + states[q, BOUNDARY], most)
        if states[q, FINAL] == 1:
            c = depth_count[d - 1]  # the closing quote is none of the characters
        depth_state[d], depth_count[d] = q, c
        if trie[i, HI] > trie[i, LO]:
            at = number[q - first, c]
            if at == 0:
                if n >= reached.shape[0]:
                    return n + 1
                at = np.int32(n)
                number[q - first, c] = at
                reached[n, 0], reached[n, 1] = q, c
                n += 1
            for j in range(trie[i, LO], trie[i, HI]):
                group[tokens[j]] = at
        i += 1
    return n


@kernel
def clear_along(trie, tokens, children, text, group):
    """Set the group of all tokens that text begins with to 0."""
    v = ZERO
    for at in range(text.shape[0]):
        v = child(trie, children, v, np.int64(text[at]))
        if v < 0:
            return
        for j in range(trie[v, LO], trie[v, HI]):
            group[tokens[j]] = 0


@kernel
def advance_each(table, symbol, stack, texts, ends, first, found, current, after, work):
    """Where each of several texts leads from a configuration, from text ``first`` on.

    Args:
        texts: uint8[..], the texts one after the other; ends: int64[n], where each ends.
        found: int64[n, 3]; becomes (number of configurations, the only symbol, its stack) of each.

    Returns:
        (n, 0), or the number of the text at which a request was made, and the request.
    """
    for i in range(first, ends.shape[0]):
        begin = ends[i - 1] if i > 0 else ZERO
        current[0, 0], current[0, 1] = symbol, stack
        code = advance(table, current, ONE, texts[begin : ends[i]], after, work)
        if code < 0:
            return i, code
        found[i, 0], found[i, 1], found[i, 2] = code, after[0, 0], after[0, 1]
    return ends.shape[0], ZERO
