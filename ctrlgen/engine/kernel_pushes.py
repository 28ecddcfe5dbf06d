"""The work of a walk: places in the trie of the vocabulary with configurations, to be looked at."""

from __future__ import annotations

from ctrlgen.engine.kernel_moves import settle, valued
from ctrlgen.engine.kernel_table import (
    NEED_ROOM,
    NONE,
    ZERO,
    inner,
    request,
)


@inner
def push(work, top, v, s, k):
    """Put (trie node, symbol, stack) on the work stack; the new top."""
    work[top, 0], work[top, 1], work[top, 2] = v, s, k
    return top + 1


@inner
def push_settled(table, work, top, v, s, k):
    """The same for what a configuration settles to; the new top or a request."""
    s, k, code = settle(table, s, k)
    return code if code < 0 else push(work, top, v, s, k)


@inner
def push_ways(table, work, top, v, k, slot, first, end):
    """Put what follows a name of the object of frame k on the work stack; the new top or a request."""
    if end - first > work.shape[0] - 600 - top:
        return request(NEED_ROOM, ZERO)
    for w in range(first, end):
        s, following, code = valued(table, k, slot, NONE, w)
        if code < 0:
            return code
        if code == 0:
            top = push(work, top, v, s, following)
    return top
