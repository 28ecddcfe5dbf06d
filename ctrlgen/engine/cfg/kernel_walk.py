"""Nodes of ``kernel_mask``: what the tokens of a vocabulary make of a lexer state, whatever the parser wants."""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_store import (
    BELOW,
    BOUNDS,
    BYTE_CLASSES,
    CLASS,
    COUNTS,
    END_HIGH,
    END_LOW,
    ENDS,
    ENTRIES,
    EXITS,
    GROUP_ROWS,
    GROUP_TOKENS,
    GROUPS,
    MOVES,
    N_ENTRIES,
    N_EXITS,
    N_GROUP_ROWS,
    N_GROUP_TOKENS,
    N_GROUPS,
    N_NODES,
    N_ROOT_ENTRIES,
    NODE_HEADS,
    NODES,
    ROOTS,
    SCRATCH,
    SLOTS,
    STATES,
    TAME,
    TOKENS,
    TRIE,
    UTF8,
    grid,
    ints,
    longs,
    mix,
    room,
    rows,
    words,
)
from ctrlgen.engine.kernel_tame import BEYOND

WIDE = 1024  # a group of more tokens is kept as a row of bits
_MOST_PAIRS = 64


@njit(cache=True, nogil=True)
def tame(table, s):
    """Bits of the classes of bytes (see ``kernel_tame``) of which any text leaves lexer state s as it is.

    Bytes beyond ASCII count as whole characters, within which s must not differ in what it can become.
    """
    moves, states = grid(table, MOVES), grid(table, STATES)
    class_of, utf8 = longs(table, BYTE_CLASSES), grid(table, UTF8)
    good, stay = (np.uint64(1) << np.uint64(BEYOND)) - np.uint64(1), 2 * (s + 1)
    for byte in range(128):
        if moves[s, byte] != stay:
            good &= ~(np.uint64(1) << np.uint64(class_of[byte]))
    pairs = np.empty((_MOST_PAIRS, 2), np.int64)
    pairs[0, 0], pairs[0, 1] = s, 0
    low, high = np.int64(0), np.int64(1)
    while low < high:
        p, r = pairs[low, 0], pairs[low, 1]
        low += 1
        for byte in range(128, 256):
            q = np.int64(utf8[r, byte])
            if q < 0:
                continue
            move = np.int64(moves[p, byte])
            after = (move >> 1) - 1
            if move & 1 or after < 0 or states[after, CLASS] != states[s, CLASS] or (q == 0 and after != s):
                return good
            known = q == 0
            for i in range(high):
                known = known or (pairs[i, 0] == after and pairs[i, 1] == q)
            if not known:
                if high >= _MOST_PAIRS:
                    return good
                pairs[high, 0], pairs[high, 1] = after, q
                high += 1
    return good | np.uint64(1) << np.uint64(BEYOND)


@njit(cache=True, nogil=True)
def walk(table, entries, low, high, s, found, places):
    """Walk the subtrees of the trie nodes entries[low:high] from lexer state s.

    Writes (first, last of a slice of the trie's tokens, class) to found and (trie node, boundary) to places, and counts
    tokens and places in SLOTS. Returns their numbers, each -1 if its array is too short.
    """
    trie, moves, states, ends = grid(table, TRIE), grid(table, MOVES), grid(table, STATES), ints(table, ENDS)
    slots, below, known = grid(table, SLOTS), longs(table, BELOW), words(table, TAME)
    path = np.empty(512, np.int32)
    n_found, n_places = np.int64(0), np.int64(0)
    for e in range(low, high):
        i = np.int64(entries[e])
        end = np.int64(trie[i, 1])
        path[trie[i, 5] - 1] = s
        while i < end:
            depth = trie[i, 5]
            before = path[depth - 1]
            move = moves[before, trie[i, 0]]
            if move & 1:
                first, last = states[before, END_LOW], states[before, END_HIGH]
                if n_places + last - first > places.shape[0]:
                    return n_found, np.int64(-1)
                for j in range(first, last):
                    b = ends[j]
                    places[n_places, 0], places[n_places, 1] = i, b
                    slots[b, 1] += 1
                    n_places += 1
            stop = np.int64(trie[i, 1])
            if move < 2:
                i = stop
                continue
            after = np.int64(move >> 1) - 1
            path[depth] = after
            at, last_token = i + 1, trie[i, 3]
            if stop > at:
                if known[after, 1] == 0:
                    known[after, 0], known[after, 1] = tame(table, after), 1
                if np.uint64(below[i]) & ~known[after, 0] == 0:  # all tokens below end in the same state
                    at, last_token = stop, trie[stop - 1, 3]
            if last_token > trie[i, 2]:
                c = states[after, CLASS]
                if n_found >= found.shape[0]:
                    return np.int64(-1), n_places
                found[n_found, 0], found[n_found, 1], found[n_found, 2] = trie[i, 2], last_token, c
                n_found += 1
                slots[c, 0] += last_token - trie[i, 2]
            i = at
    return n_found, n_places


@njit(cache=True, nogil=True)
def build_node(table, exit_, s):
    """The node of the places of an exit (-1: of the whole trie) from lexer state s; a request if negative."""
    counts, nodes, exits = longs(table, COUNTS), grid(table, NODES), grid(table, EXITS)
    groups, group_tokens, group_rows = grid(table, GROUPS), ints(table, GROUP_TOKENS), rows(table, GROUP_ROWS)
    entries, slots, scratch = ints(table, ENTRIES), grid(table, SLOTS), ints(table, SCRATCH)
    bounds, tokens = grid(table, BOUNDS), ints(table, TOKENS)
    low, high = (
        (np.int64(0), counts[N_ROOT_ENTRIES]) if exit_ < 0 else (np.int64(exits[exit_, 2]), np.int64(exits[exit_, 3]))
    )
    node = counts[N_NODES]
    if node >= nodes.shape[0]:
        return room(NODES)
    fifth = scratch.shape[0] // 5
    found = scratch[: 3 * fifth].reshape(fifth, 3)
    places = scratch[3 * fifth : 5 * fifth].reshape(fifth, 2)
    n_found, n_places = walk(table, entries, low, high, s, found, places)
    if n_found < 0 or n_places < 0:
        slots[:, :2] = 0
        return room(SCRATCH)
    g, t, r, x, e = counts[N_GROUPS], counts[N_GROUP_TOKENS], counts[N_GROUP_ROWS], counts[N_EXITS], counts[N_ENTRIES]
    short = np.int64(0)
    if e + n_places > entries.shape[0]:
        short = room(ENTRIES)
    first_group, first_exit = g, x
    for i in range(n_found):
        c = found[i, 2]
        count = slots[c, 0]
        if count == 0 or short < 0:
            continue
        if count > 0:  # the first of its class: open the group; from here on slots holds ~its place
            if g >= groups.shape[0]:
                short = room(GROUPS)
                continue
            if count > WIDE and r >= group_rows.shape[0]:
                short = room(GROUP_ROWS)
                continue
            if count <= WIDE and t + count > group_tokens.shape[0]:
                short = room(GROUP_TOKENS)
                continue
            groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3] = c, t, t, -1
            if count > WIDE:
                group_rows[r, :] = 0
                groups[g, 3] = r
                r += 1
            else:
                t += count
            slots[c, 0] = -1 - (g - first_group)
            g += 1
        one = first_group - 1 - slots[c, 0]
        row = np.int64(groups[one, 3])
        for j in range(found[i, 0], found[i, 1]):
            if row >= 0:
                group_rows[row, tokens[j] >> 5] |= np.uint32(1) << np.uint32(tokens[j] & 31)
            else:
                group_tokens[groups[one, 2]] = tokens[j]
                groups[one, 2] += 1
    for i in range(n_places):
        b = places[i, 1]
        count = slots[b, 1]
        if count == 0 or short < 0:
            continue
        if count > 0:
            if x >= exits.shape[0]:
                short = room(EXITS)
                continue
            exits[x, 0], exits[x, 1], exits[x, 2], exits[x, 3] = bounds[b, 0], bounds[b, 1], e, e
            e += count
            slots[b, 1] = -1 - (x - first_exit)
            x += 1
        one = first_exit - 1 - slots[b, 1]
        entries[exits[one, 3]] = places[i, 0]
        exits[one, 3] += 1
    for i in range(n_found):
        slots[found[i, 2], 0] = 0
    for i in range(n_places):
        slots[places[i, 1], 1] = 0
    if short < 0:
        return short
    nodes[node, 0], nodes[node, 1], nodes[node, 2], nodes[node, 3] = first_group, g, first_exit, x
    nodes[node, 4], nodes[node, 5] = exit_, s
    counts[N_GROUPS], counts[N_GROUP_TOKENS], counts[N_GROUP_ROWS], counts[N_EXITS], counts[N_ENTRIES] = g, t, r, x, e
    counts[N_NODES] = node + 1
    return node


@njit(cache=True, nogil=True)
def node_of(table, exit_, s):
    """The node, built at its first use; a request if negative."""
    nodes, roots, heads = grid(table, NODES), ints(table, ROOTS), ints(table, NODE_HEADS)
    slots, counts = grid(table, SLOTS), longs(table, COUNTS)
    if exit_ < 0 and roots[s] >= 0:
        return np.int64(roots[s])
    slot = np.int64((mix(exit_, s) >> np.uint64(7)) % np.uint64(heads.shape[0]))
    if exit_ >= 0:
        node = np.int64(heads[slot])
        while node >= 0:
            if nodes[node, 4] == exit_ and nodes[node, 5] == s:
                return node
            node = np.int64(nodes[node, 6])
    if slots.shape[0] < counts[6] or slots.shape[0] < counts[7]:
        return room(SLOTS)
    node = build_node(table, exit_, s)
    if node >= 0:
        if exit_ < 0:
            roots[s] = node
        else:
            nodes[node, 6] = heads[slot]
            heads[slot] = node
    return node
