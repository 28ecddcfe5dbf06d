"""Masks and steps.

A node is a set of places in the trie together with a lexer state: the tokens below that end inside one terminal, by
what this terminal can become, and, for each terminal that ends inside a token, the places where the next one begins.
Nodes know nothing of the parser; a mask goes down from node to node with the stacks that live.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit

from ctrlgen.engine.cfg.kernel_live import begin, checked, may_end
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
    EXITS,
    FRAMES,
    GROUP_ROWS,
    GROUP_TOKENS,
    GROUPS,
    MOVES,
    NEED_VERDICTS,
    NODES,
    PARALLEL,
    PENDING,
    SHIFT,
    STACKS,
    STATES,
    STRICT,
    TOO_MANY,
    grid,
    ints,
    longs,
    room,
    rows,
    words,
)
from ctrlgen.engine.cfg.kernel_walk import node_of
from ctrlgen.engine.kernel_rows import ENDS as ENDS_ROW
from ctrlgen.engine.kernel_rows import STRIDE, free_row, keep, row_at
from ctrlgen.engine.kernel_table import pointer


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
                for w in range(wide.shape[1]):
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
def kept_row(table, place, current, count, work):
    """Keep the row of the configurations current[:count] among those of ``kernel_rows``, which has room for it.

    Returns 1 + 2 * the row's number, plus 1 if the text may end here; 0 if it may not and no token follows; or a
    request. work: as for ``mask``.
    """
    address = free_row(place)
    whole = row_at(address, place[STRIDE])
    whole[:] = 0
    row = carray(pointer(address), (2 * place[STRIDE],), np.uint32)
    some = ended = np.int64(0)
    for j in range(count):
        s, k = np.int64(current[j, 0]), np.int64(current[j, 1])
        code = mask(table, s, k, row, work)
        if code < 0:
            return code
        some |= code
        if ended == 0:
            ended = may_end(table, s, k)
            if ended < 0:
                return ended
    if ended == 1:
        whole |= row_at(place[ENDS_ROW], place[STRIDE])
    elif some == 0:
        return np.int64(0)
    return 1 + 2 * keep(place) + ended


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
