"""The states of steerers, found from the ids of the rows alone; the counterpart of ``ctrlgen.rows``.

Rows that grew by one id are updated, after a gather if they changed places. Rows that went back (drafts that were
rejected) go on from a state that was kept or that the steerer finds by itself; else everything is replayed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ctrlgen.errors import InputError
from ctrlgen.steering.protocol import PerPrompt, Prompts, Recording, Rewinding, Steerer, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.steering.protocol import State

KEPT = 32
"""Earlier states kept of a steerer that cannot go back by itself: more than a draft has tokens."""


class Point(NamedTuple):
    """A state at some number of tokens: before and after ``record``, which are the same for most steerers."""

    ready: State
    done: State


class Track(NamedTuple):
    """The states of one steerer along the rows."""

    points: tuple[Point, ...]
    """The last ones, the newest at the end."""


class Followed(NamedTuple):
    """B rows with the states of all steerers at their ends."""

    prompts: Prompts
    groups: tuple[tuple[object, ...], ...]
    """Rows of one group and of equal ids are equal in every respect."""
    ids: NDArray[np.int64]
    """int64[B, n]: what was generated."""
    tracks: tuple[Track, ...]


def begin(steerers: Sequence[Steerer], prompts: Prompts) -> Followed:
    """Rows in which nothing is generated yet.

    Raises:
        InputError: the number of rows does not fit a steerer with parameters for each prompt.
    """
    tracks = tuple(Track((_point(steerer.init(prompts)),)) for steerer in steerers)
    ids = np.empty((len(prompts.rows), 0), np.int64)
    return Followed(prompts, _groups(steerers, prompts), ids, tracks)


def follow(steerers: Sequence[Steerer], before: Followed, ids: NDArray[np.int64], ends: Sequence[int]) -> Followed:
    """The rows ``ids``, with the states at their ends.

    Args:
        steerers: those of ``begin``.
        before: the rows at an earlier call; stays as it is.
        ids: int64[B, n], in any relation to those; must not change afterwards.
        ends: ids after which a row is over.

    Raises:
        InputError: a steerer that records its steps would have to make up for some that it did not see.
    """
    if before.ids.shape == ids.shape and np.array_equal(before.ids, ids):
        return before
    tracks = before.tracks
    # over[:, j]: the row has ended with or before id j
    over = np.logical_or.accumulate(np.isin(ids, list(ends)), axis=1)
    parents = _parents(before, ids)
    shared = before.ids.shape[1] if parents is not None else _shared(before.ids, ids)
    if parents is not None and parents != list(range(len(parents))):
        index = torch.tensor(parents, device=before.prompts.device)
        tracks = tuple(Track((_gathered(track.points[-1], index),)) for track in tracks)
    columns = _columns(ids, over, ends, before.prompts.device)
    lost = before.ids.shape[1] - shared
    moved = [
        _moved(steerer, before.prompts, track, columns, lost, shared)
        for steerer, track in zip(steerers, tracks, strict=True)
    ]
    return before._replace(ids=ids, tracks=tuple(moved))


def recorded(track: Track, state: State) -> Track:
    """The track with ``state`` as what ``record`` made of its last point."""
    return Track((*track.points[:-1], Point(track.points[-1].ready, state)))


def _point(state: State) -> Point:
    return Point(state, state)


def _groups(steerers: Sequence[Steerer], prompts: Prompts) -> tuple[tuple[object, ...], ...]:
    count = len(prompts.rows)
    several = [(steerer, steerer.per_prompt) for steerer in steerers if isinstance(steerer, PerPrompt)]
    for steerer, each in several:
        if each and count % each:
            raise InputError(f"{name_of(steerer)} is for {each} prompts, and there are {count} rows")
    numbers = [each for _, each in several if each]
    return tuple((row, *(i * each // count for each in numbers)) for i, row in enumerate(prompts.rows))


def _parents(before: Followed, ids: NDArray[np.int64]) -> list[int] | None:
    """For each row the earlier one that it extends by one id; None if there is a row without."""
    if ids.shape[1] != before.ids.shape[1] + 1:
        return None
    if np.array_equal(ids[:, :-1], before.ids):
        return list(range(len(ids)))
    keys = zip(before.groups, before.ids, strict=True)
    row_of = {(group, row.tobytes()): i for i, (group, row) in enumerate(keys)}
    found = [row_of.get((group, row[:-1].tobytes()), -1) for group, row in zip(before.groups, ids, strict=True)]
    return None if -1 in found else found


def _shared(before: NDArray[np.int64], now: NDArray[np.int64]) -> int:
    """Number of ids from the start that are the same in every row."""
    length = min(before.shape[1], now.shape[1])
    different = (before[:, :length] != now[:, :length]).any(axis=0)
    return int(different.argmax()) if different.any() else length


def _columns(
    ids: NDArray[np.int64], over: NDArray[np.bool_], ends: Sequence[int], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """int64[n, B] ids, end tokens where rows are over; bool[n, B] whether they are alive."""
    tokens = np.where(over, next(iter(ends), 0), ids).T
    return torch.from_numpy(np.ascontiguousarray(tokens)).to(device), torch.from_numpy(~over.T).to(device)


def _moved(
    steerer: Steerer, prompts: Prompts, track: Track, columns: tuple[torch.Tensor, torch.Tensor], lost: int, shared: int
) -> Track:
    """The track after its last ``lost`` tokens were taken back, and with what follows the first ``shared``."""
    tokens, alive = columns
    total = tokens.shape[0]
    if not total:
        return Track((_point(steerer.init(prompts)),))
    if not lost and shared < total:
        kept, state = track.points, track.points[-1].done
    else:
        # delta needs a state that update returned: without a new token the last one comes again
        first = min(shared, total - 1)
        kept, state, shared = _back(steerer, prompts, track, lost + shared - first, first)
    for i in range(shared, total):
        if i > shared and isinstance(steerer, Recording):
            raise InputError(
                f"{name_of(steerer)} keeps account of its steps and cannot take up a text in the middle: "
                f"token {i - 1} was chosen without it; begin with the prompt"
            )
        kept = (*kept, _point(steerer.update(state, tokens[i], alive[i])))
        state = kept[-1].done
    return Track(kept[-(1 if isinstance(steerer, Rewinding) else KEPT) :])


def _back(
    steerer: Steerer, prompts: Prompts, track: Track, count: int, length: int
) -> tuple[tuple[Point, ...], State, int]:
    """Points up to the state of ``count`` tokens before, that state, and its number of tokens (0 if it is lost)."""
    if count < len(track.points):
        kept = track.points[: len(track.points) - count]
        return kept, kept[-1].done, length
    if isinstance(steerer, Rewinding) and (state := steerer.rewind(track.points[-1].ready, count)) is not None:
        return (), state, length
    first = _point(steerer.init(prompts))
    return (first,), first.done, 0


def _gathered(point: Point, index: torch.Tensor) -> Point:
    ready = selected(point.ready, index)
    return _point(ready) if point.done is point.ready else Point(ready, selected(point.done, index))


def selected(state: State, index: torch.Tensor) -> State:
    """Rows of every tensor, those in tuples within included."""
    return tuple(
        selected(part, index) if isinstance(part, tuple) else part.index_select(0, index.to(part.device))
        for part in state
    )
