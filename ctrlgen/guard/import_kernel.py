"""The kernels of two scanners at once: of commands, and of import statements.

A place is the places of both one after the other, each as in ``ctrlgen.guard.guard_kernel``. A byte is refused if
either refuses it, and if both would be within names then: what finishes one might not finish the other. Where at most
one is within a name the text can go on to an end: the bytes of a name are refused by no scanner outside of names.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ctrlgen.guard.guard_kernel import ONE, take, unfinished


@njit(cache=True, nogil=True)
def take_both(commands, packages, imports, modules, place, byte, found):
    """Writes the int64[8] place after a byte to ``found``; returns whether it is allowed."""
    s, e, d, bits = take(commands, packages, True, place[0], place[1], place[2], place[3], byte)
    if s < 0:
        return False
    t, f, g, more = take(imports, modules, True, place[4], place[5], place[6], place[7], byte)
    if t < 0 or (commands[2][s] and imports[2][t]):
        return False
    found[0], found[1], found[2], found[3] = s, e, d, bits
    found[4], found[5], found[6], found[7] = t, f, g, more
    return True


@njit(cache=True, nogil=True)
def take_text_both(commands, packages, imports, modules, place, text):
    """Moves an int64[8] place over some bytes; returns whether all are allowed."""
    for byte in text:
        if not take_both(commands, packages, imports, modules, place, np.int64(byte), place):
            return False
    return True


@njit(cache=True, nogil=True)
def lengths_both(commands, packages, shortest, imports, modules, nearest, nodes, tokens, longest, place, left):
    """As ``guard_kernel.lengths``, for both."""
    path = np.empty((longest + 1, 8), np.int64)
    path[0] = place
    i = np.int64(1)
    while i < nodes.shape[0]:
        depth = np.int64(nodes[i, 5])
        p = path[depth]
        if not take_both(commands, packages, imports, modules, path[depth - 1], np.int64(nodes[i, 0]), p):
            i = np.int64(nodes[i, 1])
            continue
        if nodes[i, 2] < nodes[i, 3]:
            far = ONE + unfinished(commands, packages, shortest, p[0], p[1], p[2], p[3])
            far += unfinished(imports, modules, nearest, p[4], p[5], p[6], p[7])
            for k in range(nodes[i, 2], nodes[i, 3]):
                left[tokens[k]] = far
        i += 1
