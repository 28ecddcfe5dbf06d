"""States of a batch as single numbers, which the Constraint protocol wants, and back.

An edge and a depth name a state, and so do an item and a depth below the last branching; no table is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import InputError
from ctrlgen.index import walk_kernels
from ctrlgen.index.compiled import compiled
from ctrlgen.index.layout import DEPTH, DONE, LEAF, LO, LOST, NODE, Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray


def state_count(layout: Layout) -> int:
    """Numbers of states are smaller than this."""
    return (layout.edges + 2 * layout.count) * (layout.longest + 1)


def number_of(layout: Layout, state: NDArray[np.int64]) -> int:
    """The number of a state int64[4]; DEAD for a dead one."""
    lo, node = int(state[LO]), int(state[NODE])
    if node == LOST:
        return DEAD
    place = node if node >= 0 else layout.edges + lo + (layout.count if node == DONE else 0)
    return place * (layout.longest + 1) + int(state[DEPTH])


def state_of(layout: Layout, number: int) -> NDArray[np.int64]:
    """int64[4], the inverse of ``number_of``.

    Raises:
        InputError: no state has this number.
    """
    if not 0 <= number < state_count(layout):
        raise InputError(f"{number} is not a state of this index")
    place, depth = divmod(number, layout.longest + 1)
    if place < layout.edges:
        hi = compiled(walk_kernels.end_of_edge)(layout.lo, layout.child, layout.count, place)
        return np.array([layout.lo[place], hi, depth, place], np.int64)
    node = LEAF if place < layout.edges + layout.count else DONE
    lo = place - layout.edges - (layout.count if node == DONE else 0)
    hi = compiled(walk_kernels.end_of_equals)(layout.tokens, layout.offsets, layout.length, layout.count, lo)
    return np.array([lo, hi, depth, node], np.int64)
