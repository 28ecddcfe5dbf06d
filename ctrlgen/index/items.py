"""Reading a catalogue: whatever shape it comes in, as one flat array of tokens and the bounds of its items."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.layout import token_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

LONGEST = 65_000
"""Tokens an item may have."""


@dataclass(frozen=True, eq=False)
class Items:
    """Items one after the other.

    Attributes:
        flat: integer[T], the tokens of all items.
        starts, ends: int64[N], item i is flat[starts[i] : ends[i]].
        length: the length all items have, or 0 if they differ.
    """

    flat: NDArray[Any]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    length: int

    def __len__(self) -> int:
        return len(self.starts)


def read_items(items: Any, *, offsets: Any = None, pad: int | None = None, width: int | None = None) -> Items:
    """The items of a catalogue, checked, their tokens in the narrowest dtype.

    Args:
        items: integer[N, L]; or a list of N sequences of ints; or integer[T], all tokens, with ``offsets``.
        offsets: integer[N + 1], where each item begins in ``items``, and where the last one ends.
        pad: with integer[N, L], the value that fills up short rows on the right.
        width: what tokens must lie below.

    Raises:
        UnsatisfiableError: there are no items.
        InputError: anything that is not a catalogue of token ids; the message names the item.
    """
    if offsets is not None:
        read = _from_offsets(_integers(items, 1, "items"), _integers(offsets, 1, "offsets"))
    elif isinstance(items, Sequence) and not isinstance(items, (str, bytes)):
        read = _from_sequences(items)
    else:
        read = _from_table(_integers(items, 2, "items"), pad)
    if not len(read):
        raise UnsatisfiableError("the catalogue is empty: there is nothing that could be generated")
    return _checked(read, width)


def _integers(array: Any, dimensions: int, name: str) -> NDArray[Any]:
    """``array`` as a numpy array of integers of so many dimensions."""
    found = np.asarray(array)
    if found.dtype.kind not in "iu" or found.ndim != dimensions:
        raise InputError(
            f"{name} must be integers in {dimensions} dimension(s), not {found.dtype} of shape {found.shape}; pass "
            "items as integers [N, L], as a list of sequences, or as one flat array with offsets="
        )
    return found


def _from_offsets(flat: NDArray[Any], offsets: NDArray[Any]) -> Items:
    bounds = offsets.astype(np.int64)
    if not len(bounds) or bounds[0] != 0 or bounds[-1] != len(flat) or (np.diff(bounds) < 0).any():
        raise InputError(f"offsets must rise from 0 to the number of tokens, {len(flat)}")
    return _bounded(flat, bounds[:-1], bounds[1:])


def _from_sequences(items: Sequence[Any]) -> Items:
    for i, item in enumerate(items):
        if isinstance(item, (str, bytes)) or not hasattr(item, "__len__"):
            raise InputError(f"item {i} is {item!r}; expected a sequence of token ids")
    bounds = np.zeros(len(items) + 1, np.int64)
    np.cumsum([len(item) for item in items], out=bounds[1:])
    try:
        flat = np.concatenate([np.asarray(item) for item in items if len(item)] or [np.zeros(0, np.int64)])
    except ValueError as error:
        raise InputError(f"the items cannot be read as sequences of token ids: {error}") from error
    return _from_offsets(_integers(flat, 1, "the tokens of the items"), bounds)


def _from_table(table: NDArray[Any], pad: int | None) -> Items:
    count, length = table.shape
    starts = np.arange(count, dtype=np.int64) * length
    if pad is None:
        return _bounded(table.reshape(-1), starts, starts + length)
    filled = table == pad
    lengths = np.where(filled.any(1), filled.argmax(1), length)
    after = np.arange(length) >= lengths[:, None]
    if wrong := np.flatnonzero((after & ~filled).any(1))[:1].tolist():
        raise InputError(f"item {wrong[0]} goes on after its first padding ({pad}): {table[wrong[0]].tolist()[:20]}")
    return _bounded(table.reshape(-1), starts, starts + lengths)


def _bounded(flat: NDArray[Any], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> Items:
    lengths = ends - starts
    same = len(lengths) > 0 and bool((lengths == lengths[0]).all())
    return Items(flat, starts, ends, int(lengths[0]) if same else 0)


def _checked(items: Items, width: int | None) -> Items:
    lengths = items.ends - items.starts
    if not lengths.min():
        raise InputError(f"item {int(lengths.argmin())} has no tokens")
    if lengths.max() > LONGEST:
        raise InputError(f"item {int(lengths.argmax())} has {lengths.max()} tokens; at most {LONGEST} are supported")
    flat = items.flat
    limit = 0xFFFFFFFF if width is None else width
    # padding may be negative, so that only what lies inside of items counts
    if int(flat.min()) < 0 or int(flat.max()) >= limit:
        outside = (flat < 0) | (flat >= limit)
        places = np.flatnonzero(outside)
        owner = np.searchsorted(items.starts, places, side="right") - 1
        inside = places < items.ends[owner]
        if inside.any():
            item, token = owner[inside][0], flat[places[inside][0]]
            raise InputError(f"item {item} holds the token {token}, which lies outside of 0..{limit - 1}")
        flat = np.where(outside, 0, flat)
    return Items(flat.astype(token_dtype(int(flat.max())), copy=True), items.starts, items.ends, items.length)


def refuse_tokens(items: Items, tokens: Sequence[int], what: str) -> None:
    """Raise if an item holds one of ``tokens``.

    Raises:
        InputError: names the item, the token and ``what`` it is.
    """
    largest = int(items.flat.max())
    refused = np.zeros(largest + 1, bool)
    refused[[token for token in tokens if token <= largest]] = True
    if not refused.any():
        return
    places = np.flatnonzero(refused[items.flat])
    owner = np.searchsorted(items.starts, places, side="right") - 1
    inside = places < items.ends[owner]
    if inside.any():
        item, token = owner[inside][0], items.flat[places[inside][0]]
        raise InputError(f"item {item} holds the token {token}, which is {what}")


def end_ids(vocabulary: Vocabulary | None, eos: int | Iterable[int] | None) -> tuple[int, ...]:
    """The ids that end an item, ascending.

    Raises:
        InputError: ``eos`` holds something else than ids, or other ids than those of the vocabulary.
    """
    if eos is None:
        return () if vocabulary is None else vocabulary.eos
    ends = tuple(sorted({int(end) for end in ([eos] if isinstance(eos, (int, np.integer)) else eos)}))
    if ends and ends[0] < 0:
        raise InputError(f"{ends[0]} in eos is not a token id")
    if vocabulary is not None and ends != vocabulary.eos:
        raise InputError(f"eos={list(ends)} differs from the end ids of the vocabulary, {list(vocabulary.eos)}")
    return ends


def meaningless_ids(vocabulary: Vocabulary) -> list[int]:
    """Ids below the width that are neither text nor control."""
    named = set(vocabulary.special.values())
    return [
        token
        for token in range(vocabulary.width)
        if token not in named and (token >= len(vocabulary) or vocabulary.tokens[token] is None)
    ]
