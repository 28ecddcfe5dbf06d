"""The numba kernel that applies one packed row to one row of logits on the host."""

from __future__ import annotations

import numpy as np
from numba import njit

_BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


@njit(cache=True, nogil=True)
def forbid(scores, row, pattern):
    """Write ``pattern`` (the bits of -inf) to scores[t] for each t whose bit in row is not set.

    scores: int16/32/64[V], a view of the logits' bits; row: uint32[W]; ids at or past 32 * W are forbidden.
    """
    width = scores.shape[0]
    whole = min(width // 32, row.shape[0])
    for w in range(whole):
        word = row[w]
        first = 32 * w
        if word == np.uint32(0):
            for i in range(first, first + 32):
                scores[i] = pattern
        elif word != np.uint32(0xFFFFFFFF):
            part = scores[first : first + 32]
            for i in range(32):  # no branch, so that it becomes vector code
                part[i] = part[i] if word & _BITS[i] else pattern
    for i in range(32 * whole, width):
        w = i >> 5
        if w >= row.shape[0] or (row[w] >> np.uint32(i & 31)) & np.uint32(1) == np.uint32(0):
            scores[i] = pattern
