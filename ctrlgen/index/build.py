"""From items to the arrays of an index: sort unless sorted, shared prefixes, edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError
from ctrlgen.index import build_kernels
from ctrlgen.index.compiled import compiled
from ctrlgen.index.items import Items
from ctrlgen.index.layout import Layout, depth_dtype, place_dtype
from ctrlgen.index.sorting import sorted_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Allocate = Callable[[str, int, Any], NDArray[Any]]


def build(items: Items, ids: NDArray[Any], weights: NDArray[np.float64]) -> Layout:
    """The index of items in any order.

    Args:
        items: as read.
        ids: integer[N] or empty, for the positions.
        weights: float64[N] or empty, for none.
    """
    items = _packed(items)
    shared = _shared(items)
    if shared is None:
        order = sorted_order(items)
        ids = (ids[order] if len(ids) else order).astype(place_dtype(int((ids if len(ids) else order).max())))
        weights = weights[order] if len(weights) else weights
        items = _reordered(items, order)
        shared = _shared(items)
    if shared is None:
        raise RuntimeError("items are out of order after they were sorted")
    return edges_of(items.flat, _offsets(items), items.length, shared, ids, weights)


def edges_of(
    tokens: NDArray[Any],
    offsets: NDArray[Any],
    length: int,
    shared: NDArray[Any],
    ids: NDArray[Any],
    weights: NDArray[np.float64],
    allocate: Allocate = lambda name, size, dtype: np.empty(size, dtype),
) -> Layout:
    """The trie over sorted items.

    Args:
        tokens, offsets, length, ids, weights: as in Layout.
        shared: u8 or u16[N], how many tokens each item shares with the one before; see ``shared_prefixes``.
        allocate: makes an array, given a name, a size and a dtype.
    """
    count, depths = len(shared), shared.dtype.type
    equal = int(np.iinfo(depths).max)
    edges = compiled(build_kernels.count_edges)(shared, equal, np.zeros(equal + 1, np.int64))
    places = place_dtype(max(edges + 1, count))
    symbol, lo = allocate("symbol", edges, tokens.dtype), allocate("lo", edges, places)
    child, branch = allocate("child", edges + 1, places), allocate("branch", edges, depths)
    hi = allocate("hi", edges, places)
    compiled(build_kernels.fill_edges)(tokens, offsets, length, shared, equal, symbol, lo, hi, child, branch)
    longest = length or int(np.diff(offsets.astype(np.int64)).max())
    shortest = np.zeros(0, depths)
    if not length:
        shortest = allocate("shortest", edges, depths)
        compiled(build_kernels.fill_shortest)(offsets, lo, child, shortest)
    return Layout(
        tokens=tokens, offsets=offsets, length=length, count=count, longest=longest, symbol=symbol, lo=lo, child=child,
        branch=branch, shortest=shortest, ids=ids, weights=weights,
    )  # fmt: skip


def _packed(items: Items) -> Items:
    """The same items without padding between them."""
    whole = items.starts[0] == 0 and items.ends[-1] == len(items.flat)
    if whole and (items.starts[1:] == items.ends[:-1]).all():
        return items
    return _gathered(items, np.arange(len(items)))


def _reordered(items: Items, order: NDArray[np.int64]) -> Items:
    """The same items, which lie without padding between them, in another order."""
    if items.length:
        rows = items.flat.reshape(-1, items.length)
        return Items(rows[order].reshape(-1), items.starts, items.ends, items.length)
    return _gathered(items, order)


def _gathered(items: Items, order: NDArray[np.int64]) -> Items:
    bounds = np.zeros(len(items) + 1, np.int64)
    np.cumsum((items.ends - items.starts)[order], out=bounds[1:])
    tokens = np.empty(int(bounds[-1]), items.flat.dtype)
    compiled(build_kernels.gather_items)(items.flat, items.starts, items.ends, order, tokens)
    return Items(tokens, bounds[:-1], bounds[1:], items.length)


def _offsets(items: Items) -> NDArray[Any]:
    """Where each item begins and the last one ends; empty if all have the same length."""
    if items.length:
        return np.zeros(0, np.uint32)
    return np.append(items.starts, items.ends[-1]).astype(place_dtype(int(items.ends[-1])))


def _shared(items: Items) -> NDArray[Any] | None:
    """u8 or u16[N], how many tokens each item shares with the one before; None if they are not sorted."""
    dtype = depth_dtype(int((items.ends - items.starts).max()))
    shared, equal = np.zeros(len(items), dtype), int(np.iinfo(dtype).max)
    wrong = compiled(build_kernels.shared_prefixes)(
        items.flat, _offsets(items), items.length, 0, len(items), equal, shared
    )
    return shared if wrong < 0 else None


def read_ids(ids: Any, count: int) -> NDArray[Any]:
    """Ids as given, in the narrowest dtype; empty for None.

    Raises:
        InputError: they are not ``count`` integers that are not negative.
    """
    if ids is None:
        return np.zeros(0, np.uint32)
    found = np.asarray(ids)
    if found.dtype.kind not in "iu" or found.shape != (count,):
        raise InputError(f"ids must be {count} integers, one for each item, not {found.dtype} of shape {found.shape}")
    if int(found.min()) < 0 or int(found.max()) > np.iinfo(np.int64).max:
        raise InputError(f"ids must lie in 0..2**63 - 1, not {found.min()}..{found.max()}; -1 stands for no item")
    return found.astype(place_dtype(int(found.max())))


def read_weights(weights: Any, count: int) -> NDArray[np.float64]:
    """Weights as given, as float64; empty for None.

    Raises:
        InputError: they are not ``count`` finite numbers, none negative, some positive.
    """
    if weights is None:
        return np.zeros(0, np.float64)
    found = np.array(weights, np.float64)
    if found.shape != (count,):
        raise InputError(f"weights must be {count} numbers, one for each item, not of shape {found.shape}")
    if not np.isfinite(found).all() or (found < 0).any() or not found.any():
        raise InputError("weights must be finite and not negative, and not all zero")
    return found
