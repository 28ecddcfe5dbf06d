"""Weighted sums of log-probabilities: what contrast, guidance and mixtures of models are made of.

    s = own * log p + sum_i w_i * log p_i

over the tokens to which every distribution that counts gives a probability; all others are forbidden, whichever sign
their weight has: a token that an amateur excludes would otherwise be worth +inf. Adding a constant to the logits of
any of the models changes s by a constant at most, so nothing of the result.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


def combined(log_p: torch.Tensor, parts: Sequence[tuple[float, torch.Tensor]], *, own: float = 1.0) -> torch.Tensor:
    """What to add to ``log_p`` to make it s, up to a constant.

    Args:
        log_p: float32[B, V], -inf where a token is forbidden.
        parts: weights and float32[B, V]; with a weight of 0 a distribution does not count at all.
        own: weight of ``log_p``.

    Returns:
        float32[B, V]: finite, or -inf where a distribution that counts is 0; 0 where ``log_p`` is -inf.
    """
    forbidden = log_p == -torch.inf
    delta = (own - 1.0) * log_p.masked_fill(forbidden, 0.0)
    excluded = torch.zeros_like(forbidden)
    for weight, one in parts:
        if weight:
            none = one == -torch.inf
            excluded |= none
            delta = delta + weight * one.masked_fill(none, 0.0)
    return delta.masked_fill(excluded, -torch.inf).masked_fill(forbidden, 0.0)


def plausible(log_p: torch.Tensor, share: float) -> torch.Tensor:
    """bool[B, V]: p(v) >= share * max p, the plausibility constraint of arXiv 2210.15097.

    The likeliest token is always plausible; with a share of 0 every token is that has a probability.
    """
    if share == 0:
        return log_p != -torch.inf
    return log_p >= log_p.amax(1, keepdim=True) + math.log(share)


def nucleus(log_p: torch.Tensor, mass: float) -> torch.Tensor:
    """bool[B, V]: the fewest tokens, from the likeliest on, that have ``mass`` together; 1 keeps all."""
    if mass >= 1:
        return log_p != -torch.inf
    ordered, index = log_p.sort(dim=1, descending=True, stable=True)
    before = ordered.softmax(1)
    before = before.cumsum(1) - before
    return torch.zeros_like(log_p, dtype=torch.bool).scatter(1, index, before < mass)


def only(delta: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """``delta`` with -inf for all that is not ``kept``."""
    return delta.masked_fill(~kept, -torch.inf)


def entropy(log_p: torch.Tensor) -> torch.Tensor:
    """float32[B]: entropy in nats of normalised rows."""
    return -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(1)
