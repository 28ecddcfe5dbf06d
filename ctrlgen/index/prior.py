"""Weights of items as a distribution: exact samples, and how much of it is left below a state.

Prefix sums of the weights make the mass of any interval of items one subtraction, and a draw one binary search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.layout import HI, LO, LOST, NODE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.index.token_index import TokenIndex


class Prior:
    """The distribution over the items of an index that is proportional to their weights; immutable.

    Args:
        index: with weights, or without for equal ones; what it filters out has no mass.

    Raises:
        UnsatisfiableError: the items that pass have no weight.
    """

    def __init__(self, index: TokenIndex) -> None:
        self.index = index
        weights = index.layout.weights if len(index.layout.weights) else np.ones(index.layout.count)
        if index.passing is not None:
            weights = np.where(index.passing.flags(), weights, 0.0)
        self._sums = np.zeros(len(weights) + 1)
        np.cumsum(weights, out=self._sums[1:])
        if not self._sums[-1] > 0:
            raise UnsatisfiableError("the items that pass the filter have no weight")

    def mass(self, states: Any) -> NDArray[np.float64]:
        """float64[...], the share of all weight that lies below each state int64[..., 4]; 0 for a dead one."""
        states = np.asarray(states)
        below = self._sums[states[..., HI]] - self._sums[states[..., LO]]
        shares: NDArray[np.float64] = np.where(states[..., NODE] == LOST, 0.0, below / self._sums[-1])
        return shares

    def sample(self, states: Any, rng: np.random.Generator) -> NDArray[np.int64]:
        """int64[R], for each state int64[R, 4] one of the sorted items below it, drawn in proportion to the weights.

        ``index.item_ids.at`` gives the ids of the result, ``index.tokens_at`` the tokens.

        Raises:
            InputError: a state is dead, or there is no weight below it.
        """
        states = np.asarray(states)
        low, high = self._sums[states[:, LO]], self._sums[states[:, HI]]
        empty = np.flatnonzero((states[:, NODE] == LOST) | ~(high > low))
        if len(empty):
            raise InputError(f"no item with a weight lies below the state of row {empty[0]}: nothing can be drawn")
        drawn = low + rng.random(len(states)) * (high - low)
        # rounding may reach the upper bound, which belongs to the next item
        drawn = np.minimum(drawn, np.nextafter(high, low))
        places: NDArray[np.int64] = np.searchsorted(self._sums, drawn, side="right") - 1
        return places
