"""The lexicographic order of items, a shorter one before those it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.index.items import Items

_KEY_BITS = 63


def sorted_order(items: Items) -> NDArray[np.int64]:
    """int64[N], the stable order of the items.

    As many tokens as fit into an int64 are compared at a time, each time only those items that are still tied.
    """
    bits = (int(items.flat.max()) + 1).bit_length()  # of symbols, which are tokens + 1
    columns = max(1, _KEY_BITS // bits)
    order = np.arange(len(items))
    tied, group = order.copy(), np.zeros(len(items), np.int64)  # places in ``order``, those of a group side by side
    depth = 0
    while len(tied):
        rows = order[tied]
        key = _packed(items, rows, depth, columns, bits)
        within = np.lexsort((key, group)) if depth else np.argsort(key, kind="stable")
        order[tied] = rows[within]
        rows, key, group = rows[within], key[within], group[within]
        new = np.ones(len(tied), bool)
        new[1:] = (key[1:] != key[:-1]) | (group[1:] != group[:-1])
        group = np.cumsum(new)
        depth += columns
        # an item that ends right here stays: it goes before those it begins
        going_on = (items.ends[rows] - items.starts[rows] >= depth) & (np.bincount(group)[group] > 1)
        tied, group = tied[going_on], group[going_on]
    return order


def _packed(items: Items, rows: NDArray[np.int64], depth: int, columns: int, bits: int) -> NDArray[np.int64]:
    """int64[M], the symbols of ``columns`` tokens from ``depth`` on as one number; 0 after an item's end."""
    key = np.zeros(len(rows), np.int64)
    ends = items.ends[rows]
    at = items.starts[rows] + depth
    for _ in range(columns):
        inside = at < ends
        symbol = items.flat[np.where(inside, at, 0)].astype(np.int64) + 1
        key = (key << bits) | np.where(inside, symbol, 0)
        at += 1
    return key
