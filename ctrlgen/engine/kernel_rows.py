"""Kernels over whole rows: their fingerprint and whether two are equal."""

from __future__ import annotations

import numpy as np
from numba import njit

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def fingerprint(row):
    """int64 of uint32[W]: four interleaved multiplicative hashes, so that the multiplications overlap."""
    a, b, c, d = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    whole = len(row) // 4 * 4
    for i in range(0, whole, 4):
        a = (a ^ np.uint64(row[i])) * _PRIME
        b = (b ^ np.uint64(row[i + 1])) * _PRIME
        c = (c ^ np.uint64(row[i + 2])) * _PRIME
        d = (d ^ np.uint64(row[i + 3])) * _PRIME
    for i in range(whole, len(row)):
        a = (a ^ np.uint64(row[i])) * _PRIME
    for one in (b, c, d):
        a = ((a ^ (a >> np.uint64(29))) + one) * _PRIME
    return np.int64(a ^ (a >> np.uint64(32)))


@njit(cache=True, nogil=True)
def equal(a, b):
    """Whether two rows uint32[W] are the same."""
    different = np.uint32(0)
    for i in range(len(a)):
        different |= a[i] ^ b[i]
    return different == 0
