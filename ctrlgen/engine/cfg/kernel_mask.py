"""Walks of the trie by lexer state, masks and steps.

A node is a set of places in the trie together with a lexer state: the tokens below that end inside one terminal, by
what this terminal can become, and, for each terminal that ends inside a token, the places where the next one begins.
Nodes know nothing of the parser; a mask goes down from node to node with the stacks that live.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.engine.cfg.kernel_live import begin, checked
from ctrlgen.engine.cfg.kernel_parser import acceptable, joined, shifted
from ctrlgen.engine.cfg.kernel_store import (
    ACCEPT,
    BOUNDS,
    CLASS,
    CLASSES,
    COUNTS,
    END_HIGH,
    END_LOW,
    ENDS,
    ENTRIES,
    EXITS,
    FRAMES,
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
    NEED_VERDICTS,
    NODE_HEADS,
    NODES,
    PARALLEL,
    PENDING,
    ROOTS,
    SCRATCH,
    SHIFT,
    SLOTS,
    STACKS,
    STATES,
    STRICT,
    TOKENS,
    TOO_MANY,
    TRIE,
    grid,
    ints,
    longs,
    mix,
    room,
    rows,
    words,
)

WIDE = 1024  # a group of more tokens is kept as a row of bits


@njit(cache=True, nogil=True)
def walk(trie, tokens, moves, states, ends, entries, low, high, s, path, slots, found, places):
    """Walk the subtrees of the trie nodes entries[low:high] from lexer state s.

    Writes (token, class) to found and (trie node, boundary) to places, and counts both in slots.
    Returns their numbers, each -1 if its array is too short.
    """
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
            if move < 2:
                i = np.int64(trie[i, 1])
                continue
            after = (move >> 1) - 1
            path[depth] = after
            if trie[i, 3] > trie[i, 2]:
                c = states[after, CLASS]
                count = trie[i, 3] - trie[i, 2]
                if n_found + count > found.shape[0]:
                    return np.int64(-1), n_places
                for j in range(trie[i, 2], trie[i, 3]):
                    found[n_found, 0], found[n_found, 1] = tokens[j], c
                    n_found += 1
                slots[c, 0] += count
            i += 1
    return n_found, n_places


@njit(cache=True, nogil=True)
def build_node(table, exit_, s):
    """The node of the places of an exit (-1: of the whole trie) from lexer state s; a request if negative."""
    counts, nodes, exits = longs(table, COUNTS), grid(table, NODES), grid(table, EXITS)
    groups, group_tokens, group_rows = grid(table, GROUPS), ints(table, GROUP_TOKENS), rows(table, GROUP_ROWS)
    entries, slots, scratch = ints(table, ENTRIES), grid(table, SLOTS), ints(table, SCRATCH)
    trie, states, bounds = grid(table, TRIE), grid(table, STATES), grid(table, BOUNDS)
    low, high = (
        (np.int64(0), counts[N_ROOT_ENTRIES]) if exit_ < 0 else (np.int64(exits[exit_, 2]), np.int64(exits[exit_, 3]))
    )
    node = counts[N_NODES]
    if node >= nodes.shape[0]:
        return room(NODES)
    half = scratch.shape[0] // 4
    path = np.empty(512, np.int32)
    found = scratch[: 2 * half].reshape(half, 2)
    places = scratch[2 * half : 4 * half].reshape(half, 2)
    n_found, n_places = walk(
        trie,
        ints(table, TOKENS),
        grid(table, MOVES),
        states,
        ints(table, ENDS),
        entries,
        low,
        high,
        s,
        path,
        slots,
        found,
        places,
    )
    if n_found < 0 or n_places < 0:
        slots[:, :2] = 0
        return room(SCRATCH)
    g, t, r, x, e = counts[N_GROUPS], counts[N_GROUP_TOKENS], counts[N_GROUP_ROWS], counts[N_EXITS], counts[N_ENTRIES]
    short = np.int64(0)
    if t + n_found > group_tokens.shape[0]:
        short = room(GROUP_TOKENS)
    elif e + n_places > entries.shape[0]:
        short = room(ENTRIES)
    first_group, first_exit = g, x
    for i in range(n_found):
        c = found[i, 1]
        count = slots[c, 0]
        if count == 0 or short < 0:
            continue
        if count > 0:  # the first of its class: open the group; from here on slots holds ~its place
            if g >= groups.shape[0]:
                short = room(GROUPS)
                continue
            groups[g, 0], groups[g, 1], groups[g, 2], groups[g, 3] = c, t, t, -1
            if count > WIDE:
                if r >= group_rows.shape[0]:
                    short = room(GROUP_ROWS)
                    continue
                group_rows[r, :] = 0
                groups[g, 3] = r
                r += 1
            else:
                t += count
            slots[c, 0] = -1 - (g - first_group)
            g += 1
        one = first_group - 1 - slots[c, 0]
        token = found[i, 0]
        if groups[one, 3] >= 0:
            group_rows[groups[one, 3], token >> 5] |= np.uint32(1) << np.uint32(token & 31)
        else:
            group_tokens[groups[one, 2]] = token
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
        slots[found[i, 1], 0] = 0
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


@njit(cache=True, nogil=True)
def mask(table, s, k, row, work):
    """Set the bits of the tokens that may follow configuration (s, k); 1 if there are any, 0 if not, or a request.

    work: int32[n, 2], scratch for (node, stack).
    """
    nodes, groups, tokens, wide = (
        grid(table, NODES),
        grid(table, GROUPS),
        ints(table, GROUP_TOKENS),
        rows(table, GROUP_ROWS),
    )
    exits, classes, accept, shift = grid(table, EXITS), words(table, CLASSES), words(table, ACCEPT), grid(table, SHIFT)
    width = accept.shape[1]
    ignored = np.int64(shift.shape[1]) + 1
    ignored_word, ignored_bit = ignored >> 6, np.uint64(1) << np.uint64(ignored & 63)
    out, pending = ints(table, STACKS), ints(table, PENDING)
    node = node_of(table, -1, s)
    if node < 0:
        return node
    strict, wanted, some = longs(table, COUNTS)[STRICT] == 1, False, np.int64(0)
    work[0, 0], work[0, 1] = node, k
    top = np.int64(1)
    while top > 0:
        top -= 1
        node, k = np.int64(work[top, 0]), np.int64(work[top, 1])
        code = acceptable(table, k)
        if code < 0:
            return code
        for g in range(nodes[node, 0], nodes[node, 1]):
            c = groups[g, 0]
            live = classes[c, ignored_word] & ignored_bit
            for w in range(width):
                live |= classes[c, w] & accept[k, w]
            if strict or not live:
                code = checked(table, c, k)
                if code < 0:
                    return code
                wanted = wanted or code == 2
                if code != 1:
                    continue
            some = np.int64(1)
            if groups[g, 3] >= 0:
                r = groups[g, 3]
                for w in range(row.shape[0]):
                    row[w] |= wide[r, w]
            else:
                for i in range(groups[g, 1], groups[g, 2]):
                    t = tokens[i]
                    row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
        for x in range(nodes[node, 2], nodes[node, 3]):
            label = np.int64(exits[x, 0])
            if label == ignored:
                out[0] = k
                n = np.int64(1)
            elif accept[k, label >> 6] >> np.uint64(label & 63) & np.uint64(1):
                n = shifted(table, k, label, out, 0, pending)
                if n < 0:
                    return n
            else:
                continue
            if top + n > work.shape[0]:
                return room(TOO_MANY)
            for j in range(n):
                after = begin(table, out[j], exits[x, 1])
                if after < 0:
                    return after
                below = node_of(table, x, after)
                if below < 0:
                    return below
                if nodes[below, 1] > nodes[below, 0] or nodes[below, 3] > nodes[below, 2]:
                    work[top, 0], work[top, 1] = below, out[j]
                    top += 1
    return room(NEED_VERDICTS) if wanted else some


@njit(cache=True, nogil=True)
def add(table, pairs, n, s, k):
    """Append (s, k) unless it is there; the new number, or a request.

    Where ways to read the text are followed side by side, one stack joins another of the same state.
    """
    frames = grid(table, FRAMES)
    parallel, pair = longs(table, COUNTS)[PARALLEL] == 1, np.empty(2, np.int32)
    for j in range(n):
        if pairs[j, 0] == s:
            other = np.int64(pairs[j, 1])
            if other == k:
                return n
            if parallel and other > 0 and k > 0 and frames[other, 0] == frames[k, 0]:
                pair[0], pair[1] = other, k
                joint = joined(table, pair, 2)
                if joint < 0:
                    return joint
                pairs[j, 1] = joint
                return n
    if n >= pairs.shape[0]:
        return room(TOO_MANY)
    pairs[n, 0], pairs[n, 1] = s, k
    return np.int64(n + 1)


@njit(cache=True, nogil=True)
def advance(table, current, count, text, after):
    """Configurations after the bytes of ``text``: written to ``after``; their number, or a request.

    current, after: int32[n, 2] (lexer state, stack); both are overwritten.
    """
    moves, states, bounds, ends = grid(table, MOVES), grid(table, STATES), grid(table, BOUNDS), ints(table, ENDS)
    classes, accept, shift = words(table, CLASSES), words(table, ACCEPT), grid(table, SHIFT)
    width, ignored = accept.shape[1], np.int64(shift.shape[1]) + 1
    out, pending = ints(table, STACKS), ints(table, PENDING)
    strict, wanted = longs(table, COUNTS)[STRICT] == 1, False
    for place in range(text.shape[0]):
        byte, n = text[place], np.int64(0)
        for j in range(count):
            s, k = np.int64(current[j, 0]), np.int64(current[j, 1])
            move = moves[s, byte]
            if move & 1:
                for e in range(states[s, END_LOW], states[s, END_HIGH]):
                    label, duties = np.int64(bounds[ends[e], 0]), bounds[ends[e], 1]
                    out[0] = k
                    m = np.int64(1)
                    if label != ignored:
                        m = shifted(table, k, label, out, 0, pending)
                        if m < 0:
                            return m
                    for i in range(m):
                        fresh = begin(table, out[i], duties)
                        if fresh < 0:
                            return fresh
                        if moves[fresh, byte] > 1:
                            n = add(table, after, n, (moves[fresh, byte] >> 1) - 1, out[i])
                            if n < 0:
                                return n
            if move > 1:
                n = add(table, after, n, (move >> 1) - 1, k)
                if n < 0:
                    return n
        current, after = after, current
        count = n
        if n == 0:
            return np.int64(0)
    n = np.int64(0)
    for j in range(count):
        s, k = np.int64(current[j, 0]), np.int64(current[j, 1])
        code = acceptable(table, k)
        if code < 0:
            return code
        c = states[s, CLASS]
        live = classes[c, ignored >> 6] & (np.uint64(1) << np.uint64(ignored & 63))
        for w in range(width):
            live |= classes[c, w] & accept[k, w]
        code = np.int64(1 if live else 0)
        if strict or not live:
            code = checked(table, c, k)
            if code < 0:
                return code
            wanted = wanted or code == 2
        if code == 1:
            after[n, 0], after[n, 1] = s, k
            n += 1
    return room(NEED_VERDICTS) if wanted else n
