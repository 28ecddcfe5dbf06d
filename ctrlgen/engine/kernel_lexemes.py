"""Walks of the trie of the vocabulary in one automaton: what the lexicon keeps for each state that a text has met."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import (
    AFTER,
    BOUNDARY,
    BYTE,
    DENSE,
    DEPTH,
    FINAL,
    HI,
    LABEL,
    LEAF,
    LO,
    RANGE_HI,
    RANGE_LO,
    REST,
    UNKNOWN,
    WIDE,
)
from ctrlgen.engine.kernel_table import ONE, ZERO, child, kernel


@kernel
def walk_automaton(trie, tokens, children, step, states, ranges, root, g, row, exits, counts):
    """Tokens below trie node ``root`` that stay inside an automaton from state g, and where it may be left within one.

    Sets the bits of row. Writes (trie node, characters, label of the accepting state) to exits[n] for each node where
    the automaton accepts. Writes to counts[t] (uint8, capped at 254; length 0: not wanted) the characters that token t
    takes, begun ones included, unless it ends where the automaton accepts. Returns the number of exits, which may
    exceed the room in exits: call again with more.
    """
    n = ZERO
    depth_state, depth_count = np.empty(512, np.int32), np.empty(512, np.int32)
    counting = counts.shape[0] > 0
    live = ZERO
    for e in range(states[g, RANGE_LO], states[g, RANGE_HI]):
        live += ranges[e, 1] - ranges[e, 0] + 1
    depth_state[0], depth_count[0] = g, 0
    wide = live > WIDE or root != 0
    firsts, last = (ZERO, ONE) if wide else (np.int64(states[g, RANGE_LO]), np.int64(states[g, RANGE_HI]))
    for e in range(firsts, last):
        low, high = (ZERO, ZERO) if wide else (np.int64(ranges[e, 0]), np.int64(ranges[e, 1]))
        for byte in range(low, high + 1):
            i, end = root + 1, np.int64(trie[root, AFTER])
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
                for j in range(trie[i, LO], trie[i, HI]):
                    t = tokens[j]
                    row[t >> 5] |= np.uint32(1) << np.uint32(t & 31)
                    if counting and states[q, FINAL] == 0:
                        counts[t] = min(c if states[q, BOUNDARY] == 1 else c + 1, 254)
                if states[q, FINAL] == 1:
                    if n < exits.shape[0]:
                        exits[n, 0], exits[n, 1], exits[n, 2] = i, depth_count[d - 1], states[q, LABEL]
                    n += 1
                i += 1
    return n


@kernel
def endures(step, first, states, g, reference, longest):
    """Whether state g of an automaton reads any text of a reference automaton of up to ``longest`` bytes.

    step: int32[.., 256], of which [first, first + states) are those of the automaton. reference: int32[R, 256], from
    its state 0, all of whose states accept.
    """
    width = reference.shape[0]
    seen = np.zeros((states, width), np.bool_)
    pairs = np.empty((states * width, 2), np.int32)
    pairs[0, 0], pairs[0, 1] = g, 0
    seen[g - first, 0] = True
    low, high = ZERO, ONE
    for _ in range(longest):
        end = high
        for at in range(low, end):
            for byte in range(256):
                q = reference[pairs[at, 1], byte]
                if q < 0:
                    continue
                p = step[pairs[at, 0], byte]
                if p < 0:
                    return False
                if not seen[p - first, q]:
                    seen[p - first, q] = True
                    pairs[high, 0], pairs[high, 1] = p, q
                    high += 1
        if high == end:
            break
        low = end
    return True


@kernel
def without(trie, tokens, row, first_node, first_token, nodes, flat):
    """The trie of the tokens whose bits in row are not set, written to nodes and flat as by ``merge_below``."""
    size = np.int64(trie[0, AFTER])
    kept = np.zeros(tokens.shape[0] + 1, np.int64)  # tokens kept before each place
    for j in range(trie[size - 1, HI]):
        t = tokens[j]
        kept[j + 1] = kept[j] + (ONE - ((row[t >> 5] >> np.uint32(t & 31)) & np.uint32(1)))
    place = np.zeros(size + 1, np.int64)  # nodes kept before each node
    i = ZERO
    while i < size:
        last = np.int64(trie[i, AFTER]) - 1
        place[i + 1] = place[i]
        if i == 0 or kept[trie[last, HI]] > kept[trie[i, LO]]:
            place[i + 1] += 1
        i += 1
    for i in range(size):
        n = place[i]
        if place[i + 1] > n:
            nodes[n, BYTE], nodes[n, AFTER] = trie[i, BYTE], first_node + place[trie[i, AFTER]]
            nodes[n, LO], nodes[n, HI] = first_token + kept[trie[i, LO]], first_token + kept[trie[i, HI]]
            nodes[n, DENSE], nodes[n, DEPTH] = -1, trie[i, DEPTH]
    for j in range(trie[size - 1, HI]):
        if kept[j + 1] > kept[j]:
            flat[kept[j]] = tokens[j]
    return place[size], kept[trie[size - 1, HI]]


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


@kernel
def count_ranges(columns, classes, runs):
    """Number of runs of bytes with the same target; runs: where those of one class begin, and 256."""
    n = ZERO
    for s in range(columns.shape[0]):
        before = np.int32(-1)
        for i in range(runs.shape[0] - 1):
            target = columns[s, classes[runs[i]]]
            n += target >= 0 and target != before
            before = target
    return n


@kernel
def take_in(columns, classes, runs, accepting, boundary, first, first_range, step, states, ranges, row_of):
    """Write an automaton to the arrays of a lexicon, from state ``first`` and range ``first_range`` on.

    runs: where the bytes of one class begin, and 256.
    """
    r = first_range
    for s in range(columns.shape[0]):
        at = first + s
        low, before = r, np.int32(-1)
        for i in range(runs.shape[0] - 1):
            target = columns[s, classes[runs[i]]]
            if target >= 0:
                target += first
                if target == before:
                    ranges[r - 1, 1] = runs[i + 1] - 1
                else:
                    ranges[r, 0], ranges[r, 1], ranges[r, 2] = runs[i], runs[i + 1] - 1, target
                    r += 1
            step[at, runs[i] : runs[i + 1]] = before = target
        states[at, :] = -1
        states[at, FINAL], states[at, BOUNDARY] = accepting[s], boundary[s]
        states[at, LEAF] = accepting[s] and r == low
        states[at, RANGE_LO], states[at, RANGE_HI] = low, r
        states[at, REST] = UNKNOWN
        row_of[at] = -1


@kernel
def distances(columns, accepting, out):
    """Fewest bytes from each state to acceptance, -1 where there is no way; out: int32[S]. Breadth first, backwards."""
    n = columns.shape[0]
    starts = np.zeros(n + 1, np.int64)
    for s in range(n):
        before = np.int32(-1)
        for k in range(columns.shape[1]):
            t = columns[s, k]
            if t >= 0 and t != before:
                starts[t + 1] += 1
            before = t
    for t in range(n):
        starts[t + 1] += starts[t]
    sources, at = np.empty(starts[n], np.int32), starts.copy()
    for s in range(n):
        before = np.int32(-1)
        for k in range(columns.shape[1]):
            t = columns[s, k]
            if t >= 0 and t != before:
                sources[at[t]] = s
                at[t] += 1
            before = t
    queue, low, high = np.empty(n, np.int32), ZERO, ZERO
    for s in range(n):
        out[s] = -1
        if accepting[s]:
            out[s] = 0
            queue[high] = s
            high += 1
    while low < high:
        t = queue[low]
        low += 1
        for i in range(starts[t], starts[t + 1]):
            s = sources[i]
            if out[s] < 0:
                out[s] = out[t] + 1
                queue[high] = s
                high += 1
