"""Where EM begins: it only finds what the start tells apart, so states must differ from the outset.

``from_hidden``: states are clusters of a language model's last hidden states (latent variable distillation, Liu,
Zhang and Van den Broeck 2023). ``from_classes``: states are random classes of tokens, without a language model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ctrlgen.hmm.em import Counts, maximised, no_counts
from ctrlgen.hmm.emission import Dense
from ctrlgen.hmm.model import HMM

if TYPE_CHECKING:
    from collections.abc import Iterable


def from_paths(
    paths: Iterable[tuple[torch.Tensor, torch.Tensor]],
    states: int,
    width: int,
    eos: tuple[int, ...] = (),
    *,
    smoothing: float = 0.1,
    pseudocount: float = 1.0,
) -> HMM:
    """The model of sequences with known states.

    Args:
        paths: pairs of ids int64[N, L] and states int64[N, L]; -1 marks what is past an end, in both.
        states: H.
        width: V.
        eos: ids that end a text.
        smoothing: share of the distribution of all tokens in the emission of each state.
        pseudocount: as in ``em.maximised``.
    """
    flat = torch.full((states,), 1 / states)
    blank = HMM(flat, flat.expand(states, -1), Dense(torch.full((width, states), 1 / width)), eos)
    counts = no_counts(blank)
    for ids, path in paths:
        _tally(counts, ids, path)
    total = counts.emission.sum(1, keepdim=True)
    own = counts.emission.sum(0)
    # every state can emit every token that was met, or a later pass could not correct the clusters
    mixed = (1 - smoothing) * counts.emission + smoothing * (total / total.sum().clamp(min=1)) * own.clamp(min=1)
    return maximised(blank, counts._replace(emission=mixed), pseudocount)


def clusters(points: torch.Tensor, count: int, *, passes: int = 15, seed: int = 0) -> torch.Tensor:
    """float32[count, D]: centres of ``points`` float[N, D] by k-means, on directions rather than lengths.

    A centre that loses all its points takes the place of a point drawn at random.
    """
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randperm(len(points), generator=generator)[:count]
    if len(draw) < count:
        draw = torch.randint(len(points), (count,), generator=generator)
    centres = directions(points[draw])
    for _ in range(passes):
        sums, sizes = torch.zeros_like(centres), torch.zeros(count)
        for part in torch.split(points, 16_384):
            unit = directions(part)
            nearest = _nearest(unit, centres)
            sums.index_add_(0, nearest, unit)
            sizes += torch.bincount(nearest, minlength=count)
        again = points[torch.randint(len(points), (count,), generator=generator)]
        centres = torch.where(sizes[:, None] > 0, directions(sums), directions(again))
    return centres


def assign(points: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    """int64[N]: the nearest centre of each of float[N, D]."""
    return torch.cat([_nearest(directions(part), centres) for part in torch.split(points, 16_384)])


def random_classes(frequency: torch.Tensor, states: int, seed: int = 0) -> torch.Tensor:
    """int64[V]: a class for each token, so that classes are about as frequent as each other.

    Args:
        frequency: float[V].
        states: number of classes.
        seed: of the order among tokens of equal frequency.
    """
    generator = torch.Generator().manual_seed(seed)
    order = (frequency + torch.rand(len(frequency), generator=generator) * 1e-6).argsort(descending=True)
    # the frequent ones have classes to themselves, all others are dealt out at random
    alone = min(states // 2, len(order))
    classes = torch.empty(len(order), dtype=torch.long)
    classes[order[:alone]] = torch.arange(alone)
    rest = torch.randint(alone, states, (len(order) - alone,), generator=generator)
    classes[order[alone:]] = rest
    return classes


def directions(points: torch.Tensor) -> torch.Tensor:
    """float32[N, D] of length 1."""
    return torch.nn.functional.normalize(points.float(), dim=1)


def _nearest(unit: torch.Tensor, centres: torch.Tensor) -> torch.Tensor:
    return (unit.bfloat16() @ centres.bfloat16().T).float().argmax(1)


def _tally(counts: Counts, ids: torch.Tensor, path: torch.Tensor) -> None:
    states = counts.start.shape[0]
    inside = path >= 0
    flat = ids[inside] * states + path[inside]
    counts.emission.view(-1).index_add_(0, flat, torch.ones(len(flat)))
    both = inside[:, :-1] & inside[:, 1:]
    flat = path[:, :-1][both] * states + path[:, 1:][both]
    counts.transition.view(-1).index_add_(0, flat, torch.ones(len(flat)))
    counts.start.index_add_(0, path[:, 0].clamp(min=0), inside[:, 0].float())
