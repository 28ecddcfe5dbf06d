"""Parts of texts: states of suffix automata, which are lists of edges (``ctrlgen.spans``).

Their frames count units as those of strings count characters. A state is told from those of the lexicon by its number,
which is SPAN or more.
"""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import AFTER, BYTES, END, HI, LETTERS, LO, SPAN
from ctrlgen.engine.kernel_moves import left_by, limits, settle
from ctrlgen.engine.kernel_recipes import take
from ctrlgen.engine.kernel_table import (
    CHILDREN,
    EDGES,
    FRAMES,
    NEED_ROOM,
    NODES,
    NONE,
    ONE,
    SPAN_EDGES,
    SPANS,
    TRIE,
    ZERO,
    child,
    grid32,
    grid64,
    inner,
    kernel,
    push_frame,
    request,
)
from ctrlgen.span_kernel import ending
from ctrlgen.spans import COUNTED, FINAL, HIGH, LONGEST, LOW, OWED

MOST_LEFT = 60_000


@inner
def may_leave(table, g, k):
    """Whether a part may end in state g of frame k."""
    return grid32(table, SPANS)[g - SPAN, FINAL] == 1 and limits(table, k)[0] <= 0


@inner
def counted(spans, label, target, least, most):
    """The units still needed and possible after an edge: (least, most, whether it can be taken)."""
    if label >= COUNTED:
        if most == 0:
            return least, most, False
        least, most = max(least - 1, ZERO), max(most - 1, NONE)
    return least, most, least <= spans[target, LONGEST] and (most < 0 or spans[target, OWED] <= most)


@inner
def span_step(table, g, k, byte):
    """The configuration after one byte in state g of frame k: (symbol, stack, 0), (_, _, 1: refused or a request)."""
    spans, edges, frames = grid32(table, SPANS), grid32(table, SPAN_EDGES), grid64(table, FRAMES)
    for e in range(spans[g - SPAN, LOW], spans[g - SPAN, HIGH]):
        if edges[e, 0] & 255 == byte:
            least, most = limits(table, k)
            after_least, after_most, fits = counted(spans, edges[e, 0], edges[e, 1], least, most)
            if not fits:
                break
            if after_least != least or after_most != most:
                k = push_frame(table, frames[k, 0], frames[k, 1], after_least, after_most, ZERO, ZERO)
                if k < 0:
                    return ZERO, ZERO, k
            return ~(SPAN + edges[e, 1]), k, ZERO
    return ZERO, ZERO, ONE


@inner
def can_follow(table, v, s):
    """Whether a token that goes on below trie node v may go on with node s; True if that is not known at once."""
    if s < 0:
        return True
    nodes, edges = grid64(table, NODES), grid64(table, EDGES)
    if nodes[s, 0] != BYTES:
        return nodes[s, 0] != END
    trie, children = grid32(table, TRIE), grid32(table, CHILDREN)
    for e in range(nodes[s, 1], nodes[s, 2]):
        if edges[e, 0] >= LETTERS:  # a control token, which no token goes on with
            continue
        for byte in range(edges[e, 0], edges[e, 1] + 1):
            if child(trie, children, v, byte) >= 0:
                return True
    return False


@inner
def with_room(open_, n):
    """The n lines of ``open_`` with room for all edges of another state."""
    if n + 512 <= open_.shape[0]:
        return open_
    more = np.empty((2 * open_.shape[0], open_.shape[1]), np.int64)
    more[:n] = open_[:n]
    return more


@inner
def fill_span(table, v, g, k, recipe, work, top):
    """Note the tokens below trie node v that go on from state g of frame k; the new top or a request.

    What follows the part within a token is put on work.
    """
    trie, children = grid32(table, TRIE), grid32(table, CHILDREN)
    spans, edges = grid32(table, SPANS), grid32(table, SPAN_EDGES)
    room = work.shape[0] - 600
    back, parent = left_by(grid64(table, NODES), grid64(table, FRAMES), k)
    if k != 0:
        back, parent, code = settle(table, back, parent)
        if code < 0:
            return code
    open_ = np.empty((1024, 4), np.int64)
    open_[0, 0], open_[0, 1] = v, g - SPAN
    open_[0, 2], open_[0, 3] = limits(table, k)
    n = ONE
    while n > 0:
        n -= 1
        u, q, least, most = open_[n, 0], open_[n, 1], open_[n, 2], open_[n, 3]
        open_ = with_room(open_, n)
        for e in range(spans[q, LOW], spans[q, HIGH]):
            label, target = edges[e, 0], np.int64(edges[e, 1])
            after_least, after_most, fits = counted(spans, label, target, least, most)
            if not fits:
                continue
            c = child(trie, children, u, label & 255)
            if c < 0:
                continue
            take(table, trie, recipe, c)
            if trie[c, AFTER] == c + 1:
                continue
            open_[n, 0], open_[n, 1], open_[n, 2], open_[n, 3] = c, target, after_least, after_most
            n += 1
            if k != 0 and after_least <= 0 and spans[target, FINAL] == 1 and can_follow(table, c, back):
                if top > room:
                    return request(NEED_ROOM, ZERO)
                work[top, 0], work[top, 1], work[top, 2] = c, back, parent
                top += 1
    return top


@kernel
def land_span(trie, tokens, children, spans, edges, left, q, least, most, group):
    """Group the tokens that stay inside a part from one of its states by the bytes that are left to an end after them.

    Args:
        spans, edges: of the ``Spans``, without those of others; q: the state.
        left: int32[n, S], see ``Spans.bytes_left``.
        least, most: units still needed and possible.
        group: uint16[ids] of zeros; becomes 1 + the number of bytes, or MOST_LEFT if that is less.

    Returns:
        The largest number of bytes.
    """
    nothing = np.empty(0, np.uint8)
    open_ = np.empty((1024, 4), np.int64)
    open_[0, 0], open_[0, 1], open_[0, 2], open_[0, 3] = ZERO, q, least, most
    n, most_left = ONE, ZERO
    while n > 0:
        n -= 1
        u, q, least, most = open_[n, 0], open_[n, 1], open_[n, 2], open_[n, 3]
        open_ = with_room(open_, n)
        for e in range(spans[q, LOW], spans[q, HIGH]):
            label, target = edges[e, 0], np.int64(edges[e, 1])
            after_least, after_most, fits = counted(spans, label, target, least, most)
            c = child(trie, children, u, label & 255) if fits else NONE
            if c < 0:
                continue
            if trie[c, HI] > trie[c, LO]:
                bytes_left = np.int64(ending(spans, edges, left, target, max(after_least, ZERO), nothing))
                most_left = max(most_left, bytes_left)
                for i in range(trie[c, LO], trie[c, HI]):
                    group[tokens[i]] = min(1 + bytes_left, MOST_LEFT)
            if trie[c, AFTER] > c + 1:
                open_[n, 0], open_[n, 1], open_[n, 2], open_[n, 3] = c, target, after_least, after_most
                n += 1
    return most_left
