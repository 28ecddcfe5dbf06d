"""Robust weights of several objectives: the worst ones for the best policy (RMOD, arXiv 2503.08796).

    w* = argmin over the simplex of log sum_i p_i exp(lam * sum_g w_g V_ig)

A smooth convex problem of few unknowns, solved for all rows at once by an interior-point method: Newton steps on the
objective with a logarithmic barrier, whose weight goes to 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.steering.rewards import Rewarded, spread
from ctrlgen.steering.sourced import number

if TYPE_CHECKING:
    from ctrlgen.steering.protocol import Moment

_BARRIERS = [0.1 * 0.02**i for i in range(8)]
_NEWTON = 4
_TRIED = 2.0 ** -torch.arange(0, 10, dtype=torch.float64)
"""Parts of a Newton step that are tried."""


def maximin_weights(values: torch.Tensor, strength: float, log_p: torch.Tensor | None = None) -> torch.Tensor:
    """The weights of the objectives.

    Args:
        values: float[B, K, G], of K candidates under G objectives.
        strength: lam, at least 0; the larger, the more the best candidates count. 0 stands for its limit, the mean.
        log_p: float[B, K], log-probabilities of the candidates, -inf allowed; equal by default.

    Returns:
        float64[B, G]: at least 0, rows sum to 1.
    """
    values = values.double()
    rows, count, objectives = values.shape
    log_p = values.new_zeros(rows, count) if log_p is None else log_p.double()
    log_p = log_p.log_softmax(1)
    values = torch.where(log_p[:, :, None] == -torch.inf, 0.0, values)
    weights = values.new_full((rows, objectives), 1 / objectives)
    # neither a common shift nor a common factor of values and 1 / lam changes the weights
    top, low = values.amax((1, 2), keepdim=True), values.amin((1, 2), keepdim=True)
    size = (top - low).clamp(min=1e-30)
    values, scale = (values - low) / size, strength * size[:, 0]
    for barrier in _BARRIERS:
        for _ in range(_NEWTON):
            weights = _newton(values, scale, log_p, weights, barrier)
    return weights / weights.sum(1, keepdim=True)


def _objective(values: torch.Tensor, scale: torch.Tensor, log_p: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """float64[..., B]: log sum_i p_i exp(scale * w . V_i) / scale, for weights [..., B, G]."""
    each = torch.einsum("bkg,...bg->...bk", values, weights)
    mean = (each * log_p.exp()).sum(-1)
    little = scale < 1e-9  # there the limit is exact to the last digit
    soft = (log_p + scale.clamp(min=1e-9) * each).logsumexp(-1) / scale[:, 0].clamp(min=1e-9)
    found: torch.Tensor = torch.where(little[:, 0], mean, soft)
    return found


def _newton(
    values: torch.Tensor, scale: torch.Tensor, log_p: torch.Tensor, weights: torch.Tensor, barrier: float
) -> torch.Tensor:
    """One step, as long as it lowers objective and barrier together."""
    rows, objectives = weights.shape
    share = (log_p + scale * torch.einsum("bkg,bg->bk", values, weights)).softmax(1)
    mean = torch.einsum("bk,bkg->bg", share, values)
    apart = values - mean[:, None]
    hessian = scale[:, :, None] * torch.einsum("bk,bkg,bkh->bgh", share, apart, apart)
    hessian = hessian + torch.diag_embed(barrier / weights**2)
    system = values.new_zeros(rows, objectives + 1, objectives + 1)
    system[:, :-1, :-1] = hessian
    system[:, -1, :-1] = system[:, :-1, -1] = 1.0
    right = torch.cat([barrier / weights - mean, values.new_zeros(rows, 1)], 1)
    step = torch.linalg.solve(system, right[:, :, None])[:, :objectives, 0]
    room = torch.where(step < 0, -weights / step, torch.inf).amin(1).clamp(max=1 / 0.99)
    lengths = _TRIED.to(values.device)[:, None] * 0.99 * room
    lengths = torch.cat([lengths.new_zeros(1, rows), lengths])
    tried = weights + lengths[:, :, None] * step
    found = _objective(values, scale, log_p, tried) - barrier * tried.log().sum(2)
    best = found.nan_to_num(nan=torch.inf).argmin(0)
    chosen: torch.Tensor = tried[best, torch.arange(rows, device=values.device)]
    return chosen


class RMOD(Rewarded):
    """Robust multi-objective decoding, at each token: log p + strength * sum_g w*_g V_g for the k likeliest.

    The weights are those of the objectives that are worst off, solved for anew in each row at each step. Whole blocks
    are chosen by ``ctrlgen.best_of_blocks``, as in the paper (arXiv 2503.08796). ``strength=0, k=None`` is the model
    itself.

    Args:
        rewards: one for each objective, as for ``RAD``, on scales that can be compared.
        strength: lam.
        k: tokens that are judged and stay possible; None for all.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, *rewards: Any, strength: float = 1.0, k: int | None = 20) -> None:
        super().__init__(*rewards, k=k)
        self.strength = number("strength", strength, least=0)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """strength * w* . V, -inf for all other tokens."""
        tokens, values = self.judged(state, moment)
        log_p = moment.log_p.gather(1, tokens)
        weights = maximin_weights(values, self.strength, log_p)
        worth = torch.einsum("bkg,bg->bk", values.double(), weights).to(moment.log_p)
        return spread(tokens, self.strength * worth, moment.log_p.shape[1])
