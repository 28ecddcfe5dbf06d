"""Away from what the text has said before: FSD and momentum decoding, which compare suffixes of the text.

Both choose the token with the highest score, a probability less a penalty. Here scores are turned into logits that
keep their order: log(score) where it is positive, and far below, still in order, where it is not. So greedy decoding
chooses as the papers do, sampling draws in proportion to the scores, and without penalty nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import InputError
from ctrlgen.steering.rewards import spread
from ctrlgen.steering.sourced import number, whole

if TYPE_CHECKING:
    from ctrlgen.steering.protocol import Moment, Prompts

_LEAST = 1e-30
"""Scores below are shifted down linearly."""


def log_scores(log_p: torch.Tensor, share: float, penalty: torch.Tensor) -> torch.Tensor:
    """float32[...]: finite, in the order of share * p - penalty; log(share) + log p where the penalty is 0."""
    score = share * log_p.exp() - penalty
    below = math.log(_LEAST) + (score - _LEAST) / _LEAST
    shown = torch.where(score > _LEAST, score.clamp(min=_LEAST).log(), below)
    return torch.where(penalty == 0, log_p + math.log(share), shown)


class _Reading:
    """Keeps the ids of each row, prompt included."""

    k: int | None

    def init(self, prompts: Prompts) -> tuple[torch.Tensor, ...]:
        """int64[B, T], -1 before the shorter rows."""
        longest = max(map(len, prompts.rows))
        ids = [[-1] * (longest - len(row)) + list(row) for row in prompts.rows]
        return (torch.tensor(ids, device=prompts.device),)

    def update(
        self, state: tuple[torch.Tensor, ...], tokens: torch.Tensor, alive: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """One id more."""
        return (torch.cat([state[0], tokens[:, None].to(state[0])], 1),)

    def rewind(self, state: tuple[torch.Tensor, ...], count: int) -> tuple[torch.Tensor, ...]:
        """``count`` ids fewer."""
        return (state[0][:, : state[0].shape[1] - count],)

    def penalty(self, state: tuple[Any, ...], width: int) -> torch.Tensor:
        """float32[B, V]."""
        raise NotImplementedError

    def scored(self, state: tuple[Any, ...], moment: Moment, share: float, factor: float) -> torch.Tensor:
        """The delta for scores share * p - factor * penalty of the k likeliest tokens."""
        width = moment.log_p.shape[1]
        log_p, tokens = moment.log_p.topk(width if self.k is None else min(self.k, width), 1)
        penalty = factor * self.penalty(state, width).gather(1, tokens)
        forbidden = log_p == -torch.inf
        log_p = log_p.masked_fill(forbidden, 0.0)
        return spread(tokens, log_scores(log_p, share, penalty) - log_p, width)


def continuations(ids: torch.Tensor, order: int, width: int) -> torch.Tensor:
    """float32[B, V]: how often each token came after the last ``order`` ids of its row, earlier in the row.

    Args:
        ids: int64[B, T], -1 for padding.
        order: 0 counts all ids.
        width: V.
    """
    rows, length = ids.shape
    if length <= order:
        return torch.zeros(rows, width, device=ids.device)
    after = ids[:, order:]
    same = after >= 0
    for i in range(order):
        same = same & (ids[:, i : length - order + i] == ids[:, length - order + i, None])
        same = same & (ids[:, i : length - order + i] >= 0)
    return torch.zeros(rows, width, device=ids.device).scatter_add(1, after.clamp(min=0), same.float())


class FSD(_Reading):
    """Frustratingly simple decoding: (1 - alpha) p(v) - alpha * pen(v) for the k likeliest (arXiv 2305.12675).

    pen is an interpolated n-gram model of the text so far: with R = 1, for each order i from n - 1 down to 1 in which
    v has followed the last i ids, R * beta * count / (total + 1) is added and R multiplied by 1 - beta; at last R *
    count / total of v alone. ``alpha=0, k=None`` is the model itself.

    Args:
        alpha: from 0 to below 1; 0.65 in the authors' code for English.
        beta: weight of the longest context, 0.9.
        n: length of the n-grams, 3.
        k: tokens that stay possible, 3 in the authors' code; None for all.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, *, alpha: float = 0.65, beta: float = 0.9, n: int = 3, k: int | None = 3) -> None:
        self.alpha = number("alpha", alpha, least=0, most=0.999999)
        self.beta = number("beta", beta, least=0, most=1)
        self.n, self.k = whole("n", n), None if k is None else whole("k", k)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """Log of the scores, less log p."""
        return self.scored(state, moment, 1 - self.alpha, self.alpha)

    def penalty(self, state: tuple[Any, ...], width: int) -> torch.Tensor:
        """float32[B, V]."""
        (ids,) = state
        penalty = torch.zeros(len(ids), width, device=ids.device)
        rest = torch.ones_like(penalty)
        for order in range(self.n - 1, 0, -1):
            counts = continuations(ids, order, width)
            penalty += rest * self.beta * counts / (counts.sum(1, keepdim=True) + 1)
            rest = torch.where(counts > 0, rest * (1 - self.beta), rest)
        counts = continuations(ids, 0, width)
        return penalty + rest * counts / counts.sum(1, keepdim=True).clamp(min=1)


class Momentum(_Reading):
    """Momentum decoding: p(v) - alpha * f(length of the longest suffix, v included, that was there before).

    arXiv 2212.02175. ``alpha=0, k=None`` is the model itself.

    Args:
        alpha: 0.2 in the authors' code.
        resistance: f(0), f(1) ...; the last one holds for all longer suffixes.
        k: tokens that stay possible, 5 in the authors' code; None for all.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(
        self, *, alpha: float = 0.2, resistance: Sequence[float] = (0, 1, 2, 3, 4, 5), k: int | None = 5
    ) -> None:
        self.alpha = number("alpha", alpha, least=0)
        if not resistance:
            raise InputError("resistance is empty; give f(0), f(1) ...")
        self.resistance = tuple(number("a resistance", one, least=0) for one in resistance)
        self.k = None if k is None else whole("k", k)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """Log of the scores, less log p."""
        return self.scored(state, moment, 1.0, self.alpha)

    def penalty(self, state: tuple[Any, ...], width: int) -> torch.Tensor:
        """float32[B, V]."""
        (ids,) = state
        penalty = torch.full((len(ids), width), self.resistance[0], device=ids.device)
        for order, resistance in enumerate(self.resistance[1:]):
            penalty = torch.where(continuations(ids, order, width) > 0, resistance, penalty)
        return penalty
