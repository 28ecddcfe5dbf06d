"""Two sorted catalogues as one, without sorting anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.index import build_kernels
from ctrlgen.index.build import build
from ctrlgen.index.compiled import compiled
from ctrlgen.index.items import Items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.index.layout import Layout
    from ctrlgen.index.token_index import TokenIndex


class Named(NamedTuple):
    """Items with what goes with each: ids, and weights or none at all."""

    items: Items
    ids: NDArray[Any]
    weights: NDArray[np.float64]


def named_items(index: TokenIndex) -> Named:
    """The items of an index that pass its filter, in order."""
    layout = index.layout
    if layout.length:
        starts = np.arange(layout.count, dtype=np.int64) * layout.length
        ends = starts + layout.length
    else:
        bounds = layout.offsets.astype(np.int64)
        starts, ends = bounds[:-1], bounds[1:]
    places = np.arange(layout.count) if index.passing is None else index.passing.places()
    weights = layout.weights[places] if len(layout.weights) else layout.weights
    return Named(Items(layout.tokens, starts[places], ends[places], layout.length), index.item_ids.at(places), weights)


def concatenated(several: Sequence[Named]) -> Named:
    """All items, one catalogue after the other."""
    flat = np.concatenate([one.items.flat for one in several])
    shifts = np.cumsum([0] + [len(one.items.flat) for one in several])
    starts = np.concatenate([one.items.starts + shift for one, shift in zip(several, shifts, strict=False)])
    ends = np.concatenate([one.items.ends + shift for one, shift in zip(several, shifts, strict=False)])
    lengths = {one.items.length for one in several}
    items = Items(flat, starts, ends, lengths.pop() if len(lengths) == 1 else 0)
    ids = np.concatenate([one.ids for one in several])
    return Named(items, ids, np.concatenate([one.weights for one in several]))


def merged(left: Named, right: Named) -> Layout:
    """The index of two sorted catalogues; of equal items those on the left come first."""
    all_items, ids, weights = concatenated([left, right])
    order = np.empty(len(ids), np.int64)
    compiled(build_kernels.merge_two)(all_items.flat, all_items.starts, all_items.ends, len(left.ids), len(ids), order)
    items = Items(all_items.flat, all_items.starts[order], all_items.ends[order], all_items.length)
    return build(items, ids[order], weights[order] if len(weights) else weights)
