"""Several models at once, as a weighted geometric mean: MOD and MPG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ctrlgen.errors import InputError
from ctrlgen.steering.loglinear import combined
from ctrlgen.steering.sourced import Sourced, number

if TYPE_CHECKING:
    import torch

    from ctrlgen.steering.protocol import Moment


class MPG(Sourced):
    """Density ratios: q proportional to p * prod_i (p_i / p)^w_i, at each token (arXiv 2511.01891).

    Normalised at each token, this is not the same product of whole texts; ``ctrlgen.sample_exactly`` draws from that.
    Weights of 0 give the model itself.

    Args:
        models: models or Sources, one for each objective.
        weights: one for each; any numbers.

    Raises:
        InputError: not one weight for each model, or a weight that is no number.
    """

    def __init__(self, models: Sequence[Any], weights: Sequence[float]) -> None:
        if not models or len(models) != len(weights):
            raise InputError(f"{len(models)} models and {len(weights)} weights; expected as many of both, at least one")
        super().__init__(*models)
        self.weights = tuple(number("a weight", one) for one in weights)
        self.own = 1.0 - sum(self.weights)

    @property
    def bounded(self) -> bool:
        """Whether sum_v p(v) prod_i (p_i(v) / p(v))^w_i is at most 1 whatever the models say (Hoelder)."""
        return min(self.weights) >= 0 and self.own >= -1e-12

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """sum_i w_i (log p_i - log p)."""
        parts = list(zip(self.weights, self.log_ps(state, moment.log_p), strict=True))
        return combined(moment.log_p, parts, own=self.own if abs(self.own) > 1e-12 else 0.0)


class MOD(MPG):
    """Multi-objective decoding: log q = sum_i w_i log p_i + const, weights that sum to 1 (arXiv 2406.18853).

    The optimum of a weighted sum of rewards when each p_i is the optimum for one of them, with reverse KL. The model
    that generates takes part with what is left to 1: nothing, if the weights sum to 1 by themselves.

    Args:
        models: models or Sources, one for each objective.
        weights: one for each, at least 0, with a sum of at most 1.

    Raises:
        InputError: weights that are no such weights.
    """

    def __init__(self, models: Sequence[Any], weights: Sequence[float]) -> None:
        super().__init__(models, weights)
        if not self.bounded:
            raise InputError(f"weights are {list(weights)}; expected numbers of at least 0 with a sum of at most 1")
