"""The model that a fit begins with, from the texts themselves.

"classes"   the H / 2 most frequent tokens have a state each; the others share states with tokens that a language model
            says in like places: clusters of the mean hidden state that they were chosen from. At first a state emits
            its own tokens and a tenth of anything.
"hidden"    states are clusters of the hidden states themselves: latent variable distillation.
"random"    as "classes", the tokens that share a state being drawn at random: for texts without hidden states.

From clusters alone an HMM gets less far, for EM must then find out what the last token was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm.corpus import at_samples, batches, with_hidden
from ctrlgen.hmm.initial import assign, clusters, directions, from_paths, random_classes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ctrlgen.hmm.model import HMM

BEGINNINGS = ("classes", "hidden", "random")

_POINTS = 200_000  # hidden states that centres are computed from


def begun(
    paths: Sequence[Path], width: int, frequency: torch.Tensor, states: int, eos: tuple[int, ...], kind: str, seed: int
) -> HMM:
    """The first model.

    Args:
        paths: of the shards.
        width: V.
        frequency: float[V]: of each token.
        states: H.
        eos: ids that end a text.
        kind: one of BEGINNINGS.
        seed: of what is random.

    Raises:
        InputError: no such kind, or one that needs hidden states where none were kept.
    """
    if kind not in BEGINNINGS:
        raise InputError(f"a fit cannot begin with {kind!r}; expected one of {', '.join(BEGINNINGS)}")
    if kind != "random" and next(with_hidden(paths, width), None) is None:
        raise InputError(
            f"begin={kind!r} needs hidden states, and none were kept: sample with hidden_rows=, or 'random'"
        )
    if kind == "hidden":
        return from_paths(_clustered(paths, width, states, seed), states, width, eos)
    classes = random_classes(frequency, states, seed)
    if kind == "classes":
        classes = _alike(paths, width, classes, states, seed)
    return from_paths(_classed(paths, width, classes), states, width, eos)


def _classed(paths: Sequence[Path], width: int, classes: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for batch in batches(paths, width):
        yield batch.ids, torch.where(batch.inside, classes[batch.ids], -1)


def _alike(paths: Sequence[Path], width: int, classes: torch.Tensor, states: int, seed: int) -> torch.Tensor:
    """``classes``, the tokens without a class of their own being grouped by where they come."""
    sums, times = None, torch.zeros(width)
    for batch, hidden in with_hidden(paths, width):
        ids, inside = at_samples(batch, hidden.shape[1])
        if sums is None:
            sums = torch.zeros(width, hidden.shape[2])
        sums.index_add_(0, ids[inside], directions(hidden[inside]))
        times += torch.bincount(ids[inside], minlength=width)
    alone = min(states // 2, width)
    met = ((classes >= alone) & (times > 0)).nonzero()[:, 0]
    if sums is None or states == alone or not len(met):
        return classes
    points = sums[met]
    out = classes.clone()
    out[met] = alone + assign(points, clusters(points, states - alone, seed=seed))
    return out


def _clustered(
    paths: Sequence[Path], width: int, states: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    share = max(1, _POINTS // len(paths))
    generator = torch.Generator().manual_seed(seed)
    points = []
    for batch, hidden in with_hidden(paths, width):
        every = hidden[at_samples(batch, hidden.shape[1])[1]]
        points.append(every[torch.randperm(len(every), generator=generator)[:share]])
    centres = clusters(torch.cat(points), states, seed=seed)
    for batch, hidden in with_hidden(paths, width):
        ids, inside = at_samples(batch, hidden.shape[1])
        path = assign(hidden.flatten(0, 1), centres).view(inside.shape)
        yield ids, torch.where(inside, path, -1)
