"""The nearest distribution to a risky one that stays within a given KL of a safe one.

    q = argmin KL(q || p_r)  such that  KL(q || p_s) <= k

On the common support S of both, q is proportional to p_s^(1 - t) p_r^t with the largest t in [0, 1] that the budget
allows; KL(q_t || p_s) grows with t (its slope is t times the variance of log p_r / p_s under q_t). Where p_r is 0 and
p_s is not, leaving S out costs -log p_s(S) by itself: with less than that, only p_s is left.
Anchored Decoding, arXiv 2602.07120; the case of unequal supports is ours.
"""

from __future__ import annotations

import torch

_STEPS = 60
"""Bisections of [0, 1] until float64 has nothing between the ends."""


def fuse(log_safe: torch.Tensor, log_risky: torch.Tensor, budget: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of q.

    Args:
        log_safe: float[B, V], normalised; -inf is 0.
        log_risky: float[B, V], normalised; -inf is 0.
        budget: float[B], at least 0, in nats.

    Returns:
        float64[B, V], normalised, with KL(q || p_s) at most ``budget``; never positive where p_s is 0.
    """
    # float32 is normalised to 1e-7 only, and a budget of 0 must buy nothing
    safe, risky = log_safe.double().log_softmax(1), log_risky.double().log_softmax(1)
    common = (safe != -torch.inf) & (risky != -torch.inf)
    inside = safe.masked_fill(~common, -torch.inf)
    dropped = ((safe != -torch.inf) & ~common).any(1)
    # what remains once the safe model is restricted to S
    left = budget.double() + torch.where(dropped, inside.logsumexp(1), 0.0)
    possible = left >= 0
    inside = (inside - inside.logsumexp(1, keepdim=True)).masked_fill(~common, -torch.inf)
    ratio = torch.where(common, risky - inside, 0.0)
    ratio = ratio - ratio.amax(1, keepdim=True)
    weight = _largest_weight(inside, ratio, torch.where(possible, left, 0.0))
    fused = (inside + weight[:, None] * ratio).log_softmax(1)
    return torch.where(possible[:, None], fused, safe)


def tilted_divergence(log_p: torch.Tensor, ratio: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """float64[B]: KL(q_t || p) of q_t proportional to p * exp(t * ratio), with t = ``weight`` [B]."""
    tilt = weight[:, None] * ratio
    log_q = log_p + tilt
    total = log_q.logsumexp(1, keepdim=True)
    q = (log_q - total).exp()
    return (q * (tilt - total)).nan_to_num(nan=0.0).sum(1)


def _largest_weight(log_p: torch.Tensor, ratio: torch.Tensor, budget: torch.Tensor) -> torch.Tensor:
    """float64[B]: the largest t in [0, 1] with KL(q_t || p) <= budget; the end that keeps to it."""
    low = torch.zeros_like(budget)
    high = torch.ones_like(budget)
    all_of_it = tilted_divergence(log_p, ratio, high) <= budget
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = tilted_divergence(log_p, ratio, middle) <= budget
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
        if bool((all_of_it | (high - low < 1e-12)).all()):
            break
    return torch.where(all_of_it, 1.0, low)
