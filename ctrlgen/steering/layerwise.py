"""Steering by what the layers of a model disagree about: DoLa and dynamic focus decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.steering.layers import Layers
from ctrlgen.steering.loglinear import combined, only, plausible
from ctrlgen.steering.sourced import Sourced, number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlgen.steering.protocol import Moment

    Chosen = Sequence[int] | str


class _Layered(Sourced):
    """One Source of layers."""

    def __init__(self, model: Any, layers: Chosen) -> None:
        super().__init__(model if isinstance(model, Layers) else Layers(model, layers))

    def early(self, state: tuple[Any, ...], log_p: torch.Tensor) -> torch.Tensor:
        """float32[B, L, V]."""
        (source,) = self.sources
        assert isinstance(source, Layers)
        return source.log_ps(state[0], log_p)


class DoLa(_Layered):
    """s = log p - strength * log p_j, with j the layer farthest from the last one (arXiv 2309.03883).

    Each row chooses its layer at each step, by the Jensen-Shannon divergence; only tokens with p >= plausibility *
    max p stay. ``strength=0, plausibility=0`` is the model itself.

    Args:
        model: the model that generates, or Layers of it.
        layers: see ``Layers``.
        strength: 1 in the paper.
        plausibility: from 0 to 1; 0.1 in the paper.

    Raises:
        InputError: a number out of its range, or see ``Layers``.
    """

    def __init__(self, model: Any, *, layers: Chosen = "low", strength: float = 1.0, plausibility: float = 0.1) -> None:
        super().__init__(model, layers)
        self.strength = number("strength", strength, least=0)
        self.plausibility = number("plausibility", plausibility, least=0, most=1)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """-strength * log p_j, and -inf for what is not plausible."""
        early = self.early(state, moment.log_p)
        farthest = jensen_shannon(moment.log_p[:, None], early).argmax(1)
        chosen = early[torch.arange(len(early), device=early.device), farthest]
        return only(combined(moment.log_p, [(-self.strength, chosen)]), plausible(moment.log_p, self.plausibility))


class FocusTemperature(_Layered):
    """Dynamic focus decoding: cooler where the layers disagree, since there it matters (arXiv 2503.08057).

    T = base * 0.5 ** (w / sigma), with w the mean over the layers of KL(p || p_j) in nats among the plausible tokens.
    It takes the place of a temperature. ``base=1, sigma=inf`` is the model itself.

    Args:
        model: the model that generates, or Layers of it.
        layers: see ``Layers``.
        base: temperature where all layers agree; 1.1 in the paper.
        sigma: nats that halve it; the authors' code has 0.25 and 4.
        plausibility: from 0 to 1; 0.1 in the authors' code.

    Raises:
        InputError: a number out of its range, or see ``Layers``.
    """

    def __init__(
        self,
        model: Any,
        *,
        layers: Chosen = "low",
        base: float = 1.1,
        sigma: float = 4.0,
        plausibility: float = 0.1,
    ) -> None:
        super().__init__(model, layers)
        self.base = number("base", base, least=1e-3)
        self.sigma = sigma if sigma == float("inf") else number("sigma", sigma, least=1e-6)
        self.plausibility = number("plausibility", plausibility, least=0, most=1)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """log p * (1 / T - 1)."""
        temperature = self.temperature(state, moment.log_p)
        return (1 / temperature - 1)[:, None] * moment.log_p.masked_fill(moment.log_p == -torch.inf, 0.0)

    def temperature(self, state: tuple[Any, ...], log_p: torch.Tensor) -> torch.Tensor:
        """float32[B]: at least 1e-3."""
        kept = plausible(log_p, self.plausibility)
        last = log_p.masked_fill(~kept, -torch.inf).log_softmax(1)
        early = self.early(state, log_p).masked_fill(~kept[:, None], -torch.inf).log_softmax(2)
        disagreement = _divergence(last[:, None], early).mean(1)
        return (self.base * 0.5 ** (disagreement / self.sigma)).clamp(min=1e-3)


def jensen_shannon(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    """float32[...]: Jensen-Shannon divergence in nats of float32[..., V]."""
    middle = torch.logaddexp(log_p, log_q) - torch.tensor(2.0).log()
    return (_divergence(log_p, middle) + _divergence(log_q, middle)) / 2


def _divergence(log_p: torch.Tensor, log_q: torch.Tensor) -> torch.Tensor:
    apart = torch.where(log_p == -torch.inf, 0.0, log_p.exp() * (log_p - log_q))
    return apart.sum(-1).clamp(min=0.0)
