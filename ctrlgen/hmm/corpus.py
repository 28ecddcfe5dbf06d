"""Shards as what a fit reads: batches of tensors, and a part of the shards held out.

A shard is a batch. Nothing but one batch is in memory, so that memory does not depend on the number of tokens.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm.shards import Shard, read_shard, read_width, shard_paths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Batch(NamedTuple):
    """N sequences, prompts first."""

    ids: torch.Tensor
    """int64[N, L]"""
    begin: torch.Tensor
    """int64[N]: length of the prompt."""
    length: torch.Tensor
    """int64[N]"""

    @property
    def inside(self) -> torch.Tensor:
        """bool[N, L]: not padding."""
        return self._places < self.length[:, None]

    @property
    def sampled(self) -> torch.Tensor:
        """bool[N, L]: said by the model, not by a prompt."""
        return self.inside & (self._places >= self.begin[:, None])

    @property
    def _places(self) -> torch.Tensor:
        return torch.arange(self.ids.shape[1], device=self.ids.device)

    def to(self, device: torch.device) -> Batch:
        """The same on another device."""
        return Batch(*(one.to(device) for one in self))


class Corpus(NamedTuple):
    """A data set, divided."""

    training: tuple[Path, ...]
    held_out: tuple[Path, ...]
    width: int
    """V"""

    @property
    def names(self) -> dict[str, list[str]]:
        """What it consists of, for a card."""
        return {"training": [path.name for path in self.training], "held_out": [path.name for path in self.held_out]}


def divided(folders: str | Path | Sequence[str | Path], every: int = 25) -> Corpus:
    """The shards in folders, of which every so manieth is held out.

    Raises:
        InputError: fewer shards than that, shards of different models, or two of one name.
    """
    paths = shard_paths(folders)
    if every < 2 or len(paths) < every:
        raise InputError(f"every {every}th of {len(paths)} shards should be held out: sample more, or lower every=")
    widths = {read_width(path) for path in paths}
    if len(widths) > 1:
        raise InputError(f"the shards are of models with {sorted(widths)} tokens; expected those of one model")
    if len({path.name for path in paths}) < len(paths):
        raise InputError("two shards in these folders have one name: sample with different seeds")
    held_out = tuple(paths[every - 1 :: every])
    training = tuple(path for path in paths if path not in set(held_out))
    return Corpus(training, held_out, widths.pop())


def batch_of(shard: Shard, width: int) -> Batch:
    """The sequences of a shard.

    Raises:
        InputError: it holds an id that the model does not have, or lengths that do not fit.
    """
    ids, begin, end = (torch.from_numpy(one.astype(np.int64)) for one in shard[:3])
    count, length = ids.shape
    right = begin.shape == end.shape == (count,) and bool(((begin >= 0) & (begin <= end) & (end <= length)).all())
    if not count or not right or bool((end < 1).any()) or int(ids.max()) >= width or int(ids.min()) < 0:
        raise InputError(f"a shard holds ids past {width - 1} or lengths that do not fit: delete it and sample again")
    return Batch(ids, begin, end)


def batches(paths: Sequence[Path], width: int) -> Iterator[Batch]:
    """One after another."""
    return (batch_of(read_shard(path), width) for path in paths)


def with_hidden(paths: Sequence[Path], width: int) -> Iterator[tuple[Batch, torch.Tensor]]:
    """Sequences with the hidden states float16[R, n, D] that their sampled tokens were chosen from, R of each shard."""
    for path in paths:
        shard = read_shard(path)
        count = len(shard.hidden)
        if count:
            batch = batch_of(Shard(shard.ids[:count], shard.begin[:count], shard.end[:count], shard.hidden), width)
            yield batch, torch.from_numpy(shard.hidden)


def at_samples(batch: Batch, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """int64[N, n] ids of the n = ``count`` places after the prompts, and bool[N, n] which of them were sampled."""
    places = batch.begin[:, None] + torch.arange(count)
    inside = places < batch.length[:, None]
    return batch.ids.gather(1, places.clamp(max=batch.ids.shape[1] - 1)), inside
