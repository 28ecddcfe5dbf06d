"""Steering by what the next token is worth: RAD, ARGS, FUDGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.nn.functional import logsigmoid

from ctrlgen.steering.rewards import Rewarded, spread
from ctrlgen.steering.sourced import number

if TYPE_CHECKING:
    import torch

    from ctrlgen.steering.protocol import Moment


class RAD(Rewarded):
    """Reward-augmented decoding: log p + beta * clip(r, 0, 1) for the k likeliest tokens (arXiv 2310.09520).

    ``beta=0, k=None`` is the model itself.

    Args:
        reward: a reward model, a Source of one, a function or a Reward (``ctrlgen.steering.rewards``).
        beta: the strength; the paper goes up to 50.
        k: tokens that are judged and stay possible, 20 in the paper; None for all.
        invert: reward 1 - r, to avoid what the reward measures.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, reward: Any, *, beta: float = 30.0, k: int | None = 20, invert: bool = False) -> None:
        super().__init__(reward, k=k)
        self.beta, self.invert = number("beta", beta, least=0), bool(invert)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """beta * r, -inf for all other tokens."""
        tokens, values = self.judged(state, moment)
        reward = values[:, :, 0].clamp(0.0, 1.0)
        reward = 1 - reward if self.invert else reward
        return spread(tokens, self.beta * reward, moment.log_p.shape[1])


class ARGS(Rewarded):
    """log p + weight * r for the k likeliest tokens, whatever the scale of r (arXiv 2402.01694).

    ``weight=0, k=None`` is the model itself.

    Args:
        reward: as for ``RAD``.
        weight: 1 to 1.5 in the authors' code.
        k: tokens that are judged and stay possible, 10 in the paper; None for all.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, reward: Any, *, weight: float = 1.0, k: int | None = 10) -> None:
        super().__init__(reward, k=k)
        self.weight = number("weight", weight)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """weight * r, -inf for all other tokens."""
        tokens, values = self.judged(state, moment)
        return spread(tokens, self.weight * values[:, :, 0], moment.log_p.shape[1])


class FUDGE(Rewarded):
    """log p + strength * log P(attribute | text so far, v), Bayes' rule with a classifier (arXiv 2104.05218).

    ``strength=0, k=None`` is the model itself.

    Args:
        classifier: as for ``RAD``; its value is the log-odds of the attribute (a logit).
        strength: 1 is Bayes' rule.
        k: tokens that are judged and stay possible; None for all.
        invert: the attribute is to be avoided.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, classifier: Any, *, strength: float = 1.0, k: int | None = 200, invert: bool = False) -> None:
        super().__init__(classifier, k=k)
        self.strength, self.invert = number("strength", strength, least=0), bool(invert)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """strength * log P(attribute), -inf for all other tokens."""
        tokens, values = self.judged(state, moment)
        odds = -values[:, :, 0] if self.invert else values[:, :, 0]
        return spread(tokens, self.strength * logsigmoid(odds), moment.log_p.shape[1])
