"""Loops over the states of a batch; see ``ctrlgen.index.compiled`` and, for states, ``ctrlgen.index.layout``.

All take the trie as the same arrays in the same order. ``words`` and ``counts`` are filters, one a line, of which
row r obeys the one numbered which[r], or none where that is -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.index.layout import DEPTH, DONE, HI, LEAF, LO, LOST, NODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# in place of an edge: an ended row, a token without choice, the end of a lone item, an empty slot
_STAY, _FORCED, _END, _NOTHING = -1, -2, -3, -4

_AHEAD = 128  # scores of children computed at a time


def ones_below(word: Any, bit: Any) -> Any:
    """How many of the lowest ``bit`` < 64 bits of a uint64 are set."""
    x = word & ((np.uint64(1) << np.uint64(bit)) - np.uint64(1))
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


def rank(words: Array, counts: Array, f: int, place: Any) -> Any:
    """How many items pass filter f before ``place``."""
    return counts[f, place >> 6] + ones_below(words[f, place >> 6], place & 63)


def sort_key(score: Any, order: int) -> Any:
    """A number that grows with the score and, among equal scores, falls with the order."""
    bits = np.int64(np.float32(score + np.float32(0.0)).view(np.int32))  # + 0.0 makes one zero of two
    return ((bits if bits >= 0 else bits ^ np.int64(0x7FFFFFFF)) << 32) - order


def offer(heap: Array, slots: Array, size: int, key: Any) -> int:
    """Put a candidate into the heap of the best, the worst of them on top, in place of that once it is full.

    Returns:
        Its slot: the new one, or that of the candidate that had to go.
    """
    if size < heap.shape[0]:
        slot, hole = size, size
        while hole > 0:
            above = (hole - 1) >> 1
            if heap[above] < key:
                break
            heap[hole], slots[hole] = heap[above], slots[above]
            hole = above
        heap[hole], slots[hole] = key, slot
        return slot
    slot = slots[0]
    sink(heap, slots, size, key, slot)
    return int(slot)


def sink(heap: Array, slots: Array, size: int, key: Any, slot: Any) -> None:
    """Put a candidate in place of the worst one, then below those that are worse than itself."""
    hole, below = 0, 1
    while below < size:
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if key < heap[below]:
            break
        heap[hole], slots[hole] = heap[below], slots[below]
        hole, below = below, 2 * below + 1
    heap[hole], slots[hole] = key, slot


def sort_heap(heap: Array, slots: Array, size: int) -> None:
    """Order the heap, the best first."""
    while size > 1:
        size -= 1
        key, slot, worst, its = heap[size], slots[size], heap[0], slots[0]
        sink(heap, slots, size, key, slot)
        heap[size], slots[size] = worst, its


def best_end(logs: Array, r: int, ends: Array) -> int:
    """The end id with the highest score in row r; of equals the first, and NaN only if there is nothing else."""
    best = ends[0]
    for i in range(1, ends.shape[0]):
        if logs[r, ends[i]] > logs[r, best] or np.isnan(logs[r, best]):
            best = ends[i]
    return int(best)


def prepare(
    tokens: Array,
    offsets: Array,
    length: int,
    child: Array,
    branch: Array,
    ends: Array,
    states: Array,
    logs: Array,
    spans: Array,
    codes: Array,
    single: Array,
) -> None:
    """Look up what each row goes on with: spans[R, 2] of edges, or codes[R] and what single[R] adds to the score.

    Short loops without branches to guess let the processor wait for many rows' memory at once.
    """
    taken = np.empty(states.shape[0], np.int64)
    for r in range(states.shape[0]):
        e, depth, start = states[r, NODE], states[r, DEPTH], states[r, LO]
        first, last, code, token = np.int64(0), np.int64(0), np.int64(_STAY), np.int64(-1)
        if e >= 0 and depth == branch[e]:
            first, last = np.int64(child[e]), np.int64(child[e + 1])
        elif e >= LEAF:
            item = start * length if length > 0 else np.int64(offsets[start])
            full = length if length > 0 else np.int64(offsets[start + 1]) - item
            code = np.int64(_END if e == LEAF and depth == full else _FORCED)
            if code == _FORCED:
                token = np.int64(tokens[item + depth])
        spans[r, 0], spans[r, 1], codes[r], taken[r] = first, last, code, token
    for r in range(states.shape[0]):
        single[r] = logs[r, taken[r]] if taken[r] >= 0 else np.float32(0.0)
    for r in range(states.shape[0]):
        if codes[r] == _END:
            single[r] = logs[r, best_end(logs, r, ends)]


def select(
    symbol: Array,
    lo: Array,
    ends: Array,
    words: Array,
    counts: Array,
    which: Array,
    states: Array,
    scores: Array,
    logs: Array,
    spans: Array,
    codes: Array,
    single: Array,
    first: int,
    last: int,
    heap: Array,
    slots: Array,
    found: Array,
    values: Array,
) -> int:
    """Collect the best continuations of rows first .. last; returns how many there are.

    The slots say where, in order, found[K, 2] (row and code) and values[K] (score) hold them.
    Candidates whose score is -inf or NaN are none.
    """
    size, seen, room = 0, 0, heap.shape[0]
    ahead = np.empty(_AHEAD, np.float32)
    floor = np.float32(-np.inf)
    for r in range(first, last):
        base, f = scores[r], which[r]
        if states[r, NODE] == LOST or not base > np.float32(-np.inf):
            continue
        start, stop, at, after, code = states[r, LO], states[r, HI], spans[r, 0], spans[r, 1], codes[r]
        if f >= 0 and rank(words, counts, f, start) == rank(words, counts, f, stop):
            continue
        score = base + single[r]
        if after > 0 and symbol[at] == 0:
            if f < 0 or rank(words, counts, f, np.int64(lo[at + 1])) > rank(words, counts, f, start):
                code, score = at, base + logs[r, best_end(logs, r, ends)]
            at += 1
        if (after == 0 or code >= 0) and score > floor:
            slot = offer(heap, slots, size, sort_key(score, seen))
            found[slot, 0], found[slot, 1], values[slot] = r, code, score
            size, seen = min(size + 1, room), seen + 1
            floor = values[slots[0]] if size == room else floor
        if f >= 0:
            before = rank(words, counts, f, np.int64(lo[at])) if after > 0 else np.int64(0)
            for j in range(at, after):
                end = np.int64(lo[j + 1]) if j + 1 < after else stop
                behind = counts[f, end >> 6] + ones_below(words[f, end >> 6], end & 63)
                if behind == before:
                    continue
                before = behind
                # an unsigned place spares the check for a negative one
                score = base + logs[r, np.uint64(symbol[j]) - np.uint64(1)]
                if score > floor:
                    slot = offer(heap, slots, size, sort_key(score, seen))
                    found[slot, 0], found[slot, 1], values[slot] = r, j, score
                    size, seen = min(size + 1, room), seen + 1
                    floor = values[slots[0]] if size == room else floor
            continue
        while at < after:
            # first all scores, then the few that count: without branches the memory of many is waited for at once
            many = min(after - at, ahead.shape[0])
            for i in range(many):
                ahead[i] = base + logs[r, np.uint64(symbol[at + i]) - np.uint64(1)]
            for i in range(many):
                if ahead[i] > floor:
                    score = ahead[i]
                    slot = offer(heap, slots, size, sort_key(score, seen))
                    found[slot, 0], found[slot, 1], values[slot] = r, at + i, score
                    size, seen = min(size + 1, room), seen + 1
                    floor = values[slots[0]] if size == room else floor
            at += many
    sort_heap(heap, slots, size)
    return size


def follow(
    tokens: Array,
    offsets: Array,
    length: int,
    symbol: Array,
    lo: Array,
    child: Array,
    ends: Array,
    states: Array,
    logs: Array,
    parents: Array,
    codes: Array,
    out_tokens: Array,
    after: Array,
) -> None:
    """Write the token of each chosen candidate, -1 for an ended row, and the state after it."""
    groups, room = parents.shape
    for i in range(groups * room):
        b, k = i // room, i % room
        r, code = parents[b, k], codes[i]
        start, stop, depth, node, token = states[r, LO], states[r, HI], states[r, DEPTH], states[r, NODE], np.int64(-1)
        if code == _NOTHING:
            start, stop, depth, node = np.int64(0), np.int64(0), np.int64(0), np.int64(LOST)
        elif code >= 0:
            stop = np.int64(lo[code + 1]) if code + 1 < np.int64(child[node + 1]) else stop
            start, token = np.int64(lo[code]), np.int64(symbol[code]) - 1
            node = code if child[code + 1] > child[code] else np.int64(LEAF)
        elif code == _FORCED:
            token = np.int64(tokens[(start * length if length > 0 else np.int64(offsets[start])) + depth])
        if token >= 0:
            depth += 1
            if ends.shape[0] == 0 and node == LEAF:
                full = length if length > 0 else np.int64(offsets[start + 1]) - np.int64(offsets[start])
                node = np.int64(DONE) if depth == full else node
        elif code >= 0 or code == _END:
            node, token = np.int64(DONE), np.int64(best_end(logs, r, ends))
        out_tokens[b, k] = token
        after[b, k, LO], after[b, k, HI], after[b, k, DEPTH], after[b, k, NODE] = start, stop, depth, node


def beam_step(
    tokens: Array,
    offsets: Array,
    length: int,
    symbol: Array,
    lo: Array,
    child: Array,
    branch: Array,
    ends: Array,
    words: Array,
    counts: Array,
    which: Array,
    states: Array,
    scores: Array,
    logs: Array,
    parents: Array,
    out_tokens: Array,
    out_scores: Array,
    after: Array,
) -> None:
    """The best continuations of each group of rows; the output is [B, K], and [B, K, 4] for the states after."""
    groups, room = parents.shape
    beams = states.shape[0] // groups
    heap, slots = np.empty(room, np.int64), np.empty(room, np.int64)
    found, values = np.empty((room, 2), np.int64), np.empty(room, np.float32)
    codes = np.empty(groups * room, np.int64)
    spans, lone = np.empty((states.shape[0], 2), np.int64), np.empty(states.shape[0], np.int64)
    single = np.empty(states.shape[0], np.float32)
    prepare(tokens, offsets, length, child, branch, ends, states, logs, spans, lone, single)
    for b in range(groups):
        size = select(
            symbol, lo, ends, words, counts, which, states, scores, logs, spans, lone, single,
            b * beams, (b + 1) * beams, heap, slots, found, values,
        )  # fmt: skip
        for i in range(room):
            slot = slots[i]
            if i < size:
                parents[b, i], codes[b * room + i], out_scores[b, i] = found[slot, 0], found[slot, 1], values[slot]
            else:
                parents[b, i], codes[b * room + i], out_scores[b, i] = b * beams, _NOTHING, -np.inf
    follow(tokens, offsets, length, symbol, lo, child, ends, states, logs, parents, codes, out_tokens, after)


PARTS = (ones_below, rank, sort_key, offer, sink, sort_heap, best_end, prepare, select, follow)
