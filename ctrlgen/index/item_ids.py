"""What the items are called: from the place of a sorted item to its id and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ItemIds:
    """The ids of N sorted items.

    Attributes:
        ids: u32 or i64[N], or empty if an item's id is its place.
        count: N.
    """

    ids: NDArray[Any]
    count: int

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[M], the ids of the items at ``places``."""
        ids: NDArray[np.int64] = self.ids[places].astype(np.int64) if len(self.ids) else places
        return ids

    def places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64, the places of all items that have one of the ids int64[M].

        Raises:
            InputError: an id that no item has.
        """
        places, unknown = self.known_places(ids)
        if len(unknown):
            raise InputError(f"no item has the id {unknown[0]}")
        return places

    def known_places(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """As ``places``, and the ids that no item has."""
        if not len(self.ids):
            if not len(ids) or (int(ids.min()) >= 0 and int(ids.max()) < self.count):
                return ids, ids[:0]
            known = (ids >= 0) & (ids < self.count)
            return ids[known], ids[~known]
        order, sorted_ids = self._by_id
        wanted = np.unique(ids)
        first, last = np.searchsorted(sorted_ids, wanted), np.searchsorted(sorted_ids, wanted, side="right")
        several = last - first
        base = np.repeat(first - (np.cumsum(several) - several), several)
        return order[base + np.arange(len(base))], wanted[several == 0]

    def flags_at(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """bool[N], the flag at each item's id.

        Raises:
            InputError: there are fewer flags than ids.
        """
        largest = int(self.ids.max()) if len(self.ids) else self.count - 1
        if flags.ndim != 1 or len(flags) <= largest:
            raise InputError(f"booleans of shape {list(flags.shape)} do not reach the largest id, {largest}")
        return np.take(flags, self.ids) if len(self.ids) else flags[: self.count]

    @cached_property
    def _by_id(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The places in the order of their ids, and the ids in that order."""
        order = np.argsort(self.ids, kind="stable")
        return order, self.ids[order].astype(np.int64)
