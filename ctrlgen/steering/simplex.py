"""Distributions that are the optimum of a problem over the simplex: Best-of-K coverage and Bregman top-k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import InputError
from ctrlgen.steering.rewards import spread
from ctrlgen.steering.sourced import number, whole
from ctrlgen.steering.steps import log_ratio

if TYPE_CHECKING:
    from ctrlgen.steering.protocol import Moment, Prompts

_HALVINGS, _NEWTON = 60, 6


class _Stateless:
    """Needs nothing but the distribution."""

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """Nothing."""
        return ()

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """Nothing."""
        return ()


def best_of_k(
    log_p: torch.Tensor, score: torch.Tensor, closeness: float, coverage: torch.Tensor, count: int
) -> torch.Tensor:
    """argmax over the simplex of <q, s> - lam KL(q || p) + sum_v c_v (1 - (1 - q_v)^K)  (arXiv 2602.18292).

    At the optimum every token has the same s - lam (log(q / p) + 1) + c K (1 - q)^(K - 1), which falls with q; so for
    each such value there is one q_v, found by Newton's method within a bracket, and their sum decides on the value.

    Args:
        log_p: float[B, n], normalised; -inf has no part.
        score: float[B, n], s.
        closeness: lam, above 0.
        coverage: float[B, n], c, at least 0.
        count: K.

    Returns:
        float64[B, n]: log q, normalised.
    """
    out = log_p == -torch.inf
    logs, score = (one.double().masked_fill(out, 0.0) for one in (log_p, score))
    bonus = coverage.double() * count
    base = score + closeness * (logs - 1)
    low = base.masked_fill(out, -torch.inf).amax(1, keepdim=True)
    most = (base + bonus).masked_fill(out, -torch.inf).amax(1, keepdim=True)
    high = most + closeness * torch.log(torch.tensor(float(log_p.shape[1]), dtype=torch.float64)).to(logs)
    found = logs
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = _at(middle, base, bonus, closeness, count, found)
        above = found.masked_fill(out, -torch.inf).logsumexp(1, keepdim=True) > 0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return found.masked_fill(out, -torch.inf).log_softmax(1)


def _at(
    level: torch.Tensor, base: torch.Tensor, bonus: torch.Tensor, closeness: float, count: int, start: torch.Tensor
) -> torch.Tensor:
    """float64[B, n]: z = log q with base - closeness * z + bonus * (1 - e^z)^(K - 1) = level, at most 0."""
    low = ((base - level) / closeness).clamp(max=0.0)
    high = ((base + bonus - level) / closeness).clamp(max=0.0)
    z = torch.minimum(torch.maximum(start, low), high)
    for _ in range(_NEWTON):
        q = z.exp()
        left = (1 - q).clamp(min=0.0)
        value = base - closeness * z + bonus * left ** (count - 1) - level
        low, high = torch.where(value > 0, z, low), torch.where(value > 0, high, z)
        slope = closeness + bonus * (count - 1) * left ** max(count - 2, 0) * q
        step = z + value / slope
        z = torch.where((step >= low) & (step <= high), step, (low + high) / 2)
    return z


class BestOfK(_Stateless):
    """A distribution of which K draws cover the good tokens: see ``best_of_k``.

    With s = weight * log p and c = lam * beta for the ``covered`` likeliest tokens. ``weight=0, beta=0,
    support=None`` is the model itself; with beta = 0 alone it is p^(1 + weight / lam), normalised.

    Args:
        draws: K.
        closeness: lam; the paper has 0.1 to 0.5.
        beta: strength of coverage; 0.01 to 0.05.
        weight: of log p in the score.
        support: tokens that stay possible; None for all.
        covered: tokens whose coverage counts.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(
        self,
        *,
        draws: int = 16,
        closeness: float = 0.1,
        beta: float = 0.01,
        weight: float = 1.0,
        support: int | None = 200,
        covered: int | None = None,
    ) -> None:
        self.draws, self.closeness = whole("draws", draws), number("closeness", closeness, least=1e-6)
        self.beta, self.weight = number("beta", beta, least=0), number("weight", weight, least=0)
        self.support = None if support is None else whole("support", support)
        self.covered = None if covered is None else whole("covered", covered)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """log q - log p, -inf outside the support."""
        width = moment.log_p.shape[1]
        log_p, tokens = moment.log_p.topk(width if self.support is None else min(self.support, width), 1)
        log_p = log_p.log_softmax(1)
        coverage = torch.full_like(log_p, self.closeness * self.beta)
        if self.covered is not None:
            coverage[:, self.covered :] = 0.0
        score = self.weight * log_p.masked_fill(log_p == -torch.inf, 0.0)
        log_q = best_of_k(log_p, score, self.closeness, coverage, self.draws).to(log_p)
        return spread(tokens, log_ratio(log_q, log_p), width)


def bregman_top_k(log_p: torch.Tensor, alpha: float, sparsity: float) -> torch.Tensor:
    """argmin over the simplex of D(q, p) + lam * (number of tokens with q > 0), D of x^a / (a (a - 1))  (2505.19371).

    The support are the k likeliest tokens; on it q_v = (p_v^(a - 1) + nu)^(1 / (a - 1)), for a = 1 (KL) the
    normalised p_v, for a = 2 p_v + (1 - P_k) / k. The cost is convex in k, so k is found by bisection.

    Args:
        log_p: float[B, n], falling, normalised; -inf has no part.
        alpha: a, at least 1.
        sparsity: lam, at least 0.

    Returns:
        float64[B, n]: log q.
    """
    log_p = log_p.double().log_softmax(1)
    least = log_p.new_ones(len(log_p), 1)
    most = (log_p != -torch.inf).sum(1, keepdim=True).double()
    while bool((least < most).any()):
        middle = ((least + most) / 2).floor()
        more = _cost(log_p, middle + 1, alpha, sparsity) < _cost(log_p, middle, alpha, sparsity)
        least, most = torch.where(more, middle + 1, least), torch.where(more, most, middle)
    return _on_support(log_p, least, alpha).log()


def _on_support(log_p: torch.Tensor, k: torch.Tensor, alpha: float) -> torch.Tensor:
    """float64[B, n]: q for supports of k tokens, [B, 1]."""
    inside = torch.arange(log_p.shape[1], device=log_p.device) < k
    p = log_p.masked_fill(~inside, -torch.inf).exp()
    if alpha == 1:
        return p / p.sum(1, keepdim=True)
    power = torch.where(inside, p, 0.0) ** (alpha - 1)
    # with nu at its upper end the likeliest token alone has all the mass
    low, high = torch.zeros_like(k), torch.ones_like(k)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        total = torch.where(inside, (power + middle) ** (1 / (alpha - 1)), 0.0).sum(1, keepdim=True)
        low, high = torch.where(total > 1, low, middle), torch.where(total > 1, middle, high)
    q = torch.where(inside, (power + low) ** (1 / (alpha - 1)), 0.0)
    return q / q.sum(1, keepdim=True)


def _cost(log_p: torch.Tensor, k: torch.Tensor, alpha: float, sparsity: float) -> torch.Tensor:
    """float64[B, 1]: what a support of k tokens costs."""
    q, p = _on_support(log_p, k, alpha), log_p.exp()
    if alpha == 1:
        apart = torch.where(q > 0, q * (q.clamp(min=1e-300).log() - log_p.clamp(min=-700.0)), 0.0)
    else:
        apart = (q**alpha - p**alpha) / (alpha * (alpha - 1)) - p ** (alpha - 1) / (alpha - 1) * (q - p)
    return apart.sum(1, keepdim=True) + sparsity * k


class Bregman(_Stateless):
    """Top-k with the k that is worth it: see ``bregman_top_k``.

    Args:
        sparsity: what each token of the support costs, lam; 0 is the model itself.
        alpha: of the divergence, at least 1 (KL).

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, *, sparsity: float = 0.01, alpha: float = 1.0) -> None:
        self.sparsity = number("sparsity", sparsity, least=0)
        self.alpha = number("alpha", alpha, least=1, most=10)
        if 1 < self.alpha < 1.01:
            raise InputError(f"alpha is {alpha!r}; expected 1, or a number of at least 1.01")

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """log q - log p, -inf outside the support."""
        if self.sparsity == 0:
            return torch.zeros_like(moment.log_p)
        log_p, tokens = moment.log_p.sort(1, descending=True)
        log_q = bregman_top_k(log_p, self.alpha, self.sparsity).to(log_p)
        return torch.empty_like(log_p).scatter(1, tokens, log_ratio(log_q, log_p))
