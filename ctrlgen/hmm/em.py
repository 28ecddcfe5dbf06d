"""One pass of expectation maximisation: expected counts from sequences, and a model from counts.

Probabilities are scaled, not logarithms: alpha_t = f_t * b(x_t) / c_t with c_t = p(x_t | x_<t), so that each step is a
product of matrices. With u_t = b(x_{t+1}) * beta_{t+1} / c_{t+1} the counts are
N_A = A * sum_t alpha_t^T u_t,  N_b(x_t) += alpha_t * beta_t,  beta_t = A u_t  (Baum-Welch with scaling: Rabiner 1989).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ctrlgen.hmm.emission import Dense, product
from ctrlgen.hmm.model import HMM, advance


class Counts(NamedTuple):
    """Expected counts, of which there may be fractions."""

    start: torch.Tensor
    """float32[H]"""
    transition: torch.Tensor
    """float32[H, H]"""
    emission: torch.Tensor
    """float32[V, H]"""
    log_likelihood: torch.Tensor
    """float64[]: of the tokens that were seen, in nats."""
    tokens: torch.Tensor
    """float64[]: number of tokens that were seen."""

    def mixed(self, other: Counts, share: float) -> Counts:
        """(1 - share) of these and ``share`` of the others: a step of stepwise EM (Liang and Klein 2009)."""
        return Counts(*(mine.lerp(its, share) for mine, its in zip(self, other, strict=True)))


class Prior(NamedTuple):
    """What each row is thought to have been counted before anything was."""

    transition: float
    """Spread evenly over the states."""
    emission: float
    """Spread over the tokens as ``background`` is."""
    background: torch.Tensor
    """float[V]: a distribution, such as that of single tokens."""


def no_counts(hmm: HMM) -> Counts:
    """Counts of nothing, shaped for ``hmm``."""
    exact, states = hmm.start.dtype, hmm.states
    shapes = ((states,), (states, states), (hmm.width, states))
    zeros = (torch.zeros(shape, dtype=exact, device=hmm.device) for shape in shapes)
    totals = (torch.zeros((), dtype=torch.float64, device=hmm.device) for _ in range(2))
    return Counts(*zeros, *totals)


def count(hmm: HMM, ids: torch.Tensor, seen: torch.Tensor, length: torch.Tensor, into: Counts) -> None:
    """Add the expected counts of sequences to ``into``, in place: counts are as large as the model.

    Args:
        hmm: with a dense emission.
        ids: int64[N, L], from 0 to V - 1.
        seen: bool[N, L]; what is not seen is summed over (token dropout), and counts for no emission.
        length: int64[N], at least 1.
        into: on the same device.
    """
    inside = torch.arange(ids.shape[1], device=ids.device) < length[:, None]
    seen = seen & inside
    alphas, scales = _forward(hmm, ids, seen)
    _backward(hmm, ids, seen, inside, alphas, scales, into)
    into.log_likelihood.add_(torch.where(seen, scales, 1.0).double().log().sum())
    into.tokens.add_(seen.sum())


def maximised(hmm: HMM, counts: Counts, prior: Prior | float) -> HMM:
    """The model under which ``counts``, with those of ``prior``, are likeliest.

    Args:
        hmm: gives what counts do not: dtype, eos and card.
        counts: of sequences.
        prior: or a number that is spread evenly over the entries of each row.
    """
    width = len(counts.emission)
    if not isinstance(prior, Prior):
        even = counts.emission.new_full((width,), 1 / width)
        prior = Prior(prior, prior, even)
    each = prior.transition / len(counts.start)
    start = _normalised(counts.start[None], each, 1)[0]
    transition = _normalised(counts.transition, each, 1)
    table = _normalised(counts.emission, prior.emission * prior.background.to(counts.emission)[:, None], 0)
    return HMM(start, transition.to(hmm.dtype), Dense(table.to(hmm.dtype)), hmm.eos, hmm.card)


def _forward(hmm: HMM, ids: torch.Tensor, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """alpha, float[L, N, H], and the scales c, float[N, L]; 1 where nothing was seen."""
    prior = hmm.start.expand(len(ids), -1)
    alphas, scales = [], []
    for column in range(ids.shape[1]):
        joint = prior * _columns(hmm, ids[:, column], seen[:, column], prior.dtype)
        scale = joint.sum(1).clamp(min=torch.finfo(prior.dtype).tiny)
        alphas.append(joint / scale[:, None])
        scales.append(scale)
        prior = advance(hmm, alphas[-1])
    return torch.stack(alphas), torch.stack(scales, 1)


def _backward(
    hmm: HMM,
    ids: torch.Tensor,
    seen: torch.Tensor,
    inside: torch.Tensor,
    alphas: torch.Tensor,
    scales: torch.Tensor,
    into: Counts,
) -> None:
    """Walk back from the ends and count; states past the end of a sequence are visited by nobody."""
    last = ids.shape[1] - 1
    beta = torch.ones_like(alphas[0])
    crossings = torch.zeros_like(into.transition)
    for column in range(last, -1, -1):
        gamma = alphas[column] * beta * seen[:, column, None]
        into.emission.index_add_(0, ids[:, column], gamma)
        if column == 0:
            into.start.add_((alphas[0] * beta).sum(0))
            break
        columns = _columns(hmm, ids[:, column], seen[:, column], beta.dtype)
        ahead = columns * beta / scales[:, column, None] * inside[:, column, None]
        crossings.add_(product(alphas[column - 1].to(hmm.dtype).T, ahead.to(hmm.dtype)))
        beta = torch.where(inside[:, column, None], product(ahead, hmm.transition.T), beta)
    into.transition.add_(crossings.mul_(hmm.transition))


def _columns(hmm: HMM, tokens: torch.Tensor, seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.where(seen[:, None], hmm.emission.columns(tokens).to(dtype), 1.0)


def _normalised(counts: torch.Tensor, more: torch.Tensor | float, dim: int) -> torch.Tensor:
    more = counts + more
    total = more.sum(dim, keepdim=True)
    return torch.where(total > 0, more / total.clamp(min=torch.finfo(more.dtype).tiny), 1 / counts.shape[dim])
