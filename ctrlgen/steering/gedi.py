"""GeDi: generative discriminators, a classifier made of two language models (arXiv 2009.06367)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.steering.loglinear import only
from ctrlgen.steering.source import Reading
from ctrlgen.steering.sourced import Sourced, number

if TYPE_CHECKING:
    from ctrlgen.steering.protocol import Moment, Prompts


class GeDi(Sourced):
    """log p + strength * log P(c | x, v), for all tokens at once.

        log P(c | x) = log sigmoid(scale * (L_c - L_not) / t + bias)

    with L the sum of log-likelihoods of the t tokens generated so far, v included, under a model that reads a control
    code for c and one that reads the opposite code. ``strength=0, keep=1`` is the model itself.

    Args:
        wanted: a Source that reads the code of the class, such as ``Source(model, tokenizer, prompt="positive")``.
        unwanted: one that reads the opposite.
        strength: omega; 30 in the paper.
        keep: tokens are dropped, those least typical of the class first, as long as this mass stays; 0.8 in the
            paper, 1 keeps all.
        sure: tokens for which P(c | x, v) is at least this stay in any case.
        scale: of the difference.
        bias: log of the prior odds of the class.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(
        self,
        wanted: Any,
        unwanted: Any,
        *,
        strength: float = 30.0,
        keep: float = 0.8,
        sure: float = 0.8,
        scale: float = 1.0,
        bias: float = 0.0,
    ) -> None:
        super().__init__(wanted, unwanted)
        self.strength = number("strength", strength, least=0)
        self.keep = number("keep", keep, least=1e-6, most=1)
        self.sure = number("sure", sure, least=0, most=1)
        self.scale, self.bias = number("scale", scale, least=0), number("bias", bias)

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """Both models, and the differences of log-likelihood of the tokens so far, float32[B, n]."""
        return (*super().init(prompts), torch.zeros(len(prompts.rows), 0, device=prompts.device))

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """strength * log P(c | x, v), -inf for what is dropped."""
        *models, before = state
        width, count = moment.log_p.shape[1], before.shape[1]
        apart = torch.nn.functional.pad(self._apart(models), (0, width - models[0][2].shape[1])).to(moment.log_p)
        mean = (before.sum(1, keepdim=True) + apart) / (count + 1)
        log_class = torch.nn.functional.logsigmoid(self.scale * mean + self.bias)
        delta = self.strength * log_class
        return only(delta, self._kept(moment.log_p, delta, log_class))

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """What the token said of the class is booked; both models read on."""
        *models, before = state
        one = self._apart(models).gather(1, tokens[:, None].to(models[0][2].device)).to(before)
        after = torch.cat([before, torch.where(alive[:, None], one, 0.0)], 1)
        return (*super().update(tuple(models), tokens, alive), after)

    def rewind(self, state: tuple[Any, ...], count: int) -> tuple[Any, ...] | None:
        """``count`` tokens back; the last one that stays is read again, since the next is judged by what follows it."""
        *models, before = state
        length = before.shape[1] - count
        if length < 1:
            return None
        place = models[0][0].shape[1] - count - 1
        tokens, alive = models[0][0][:, place], models[0][1][:, place] > 0
        back = tuple(one.rewind(each, count + 1) for one, each in zip(self.sources, models, strict=True))
        return (*super().update(back, tokens, alive), before[:, :length])

    def _apart(self, models: list[Any]) -> torch.Tensor:
        """float32[B, D]: log-likelihood of each token under the one model, less that under the other."""
        good, bad = (Reading(*one).output.log_softmax(1) for one in models)
        return good - bad.to(good)

    def _kept(self, log_p: torch.Tensor, delta: torch.Tensor, log_class: torch.Tensor) -> torch.Tensor:
        """bool[B, V]: the most typical tokens with the mass ``keep`` of what is steered, and sure ones."""
        if self.keep >= 1:
            return log_p != -torch.inf
        p = (log_p + delta).softmax(1)
        order = log_class.masked_fill(log_p == -torch.inf, -torch.inf).argsort(dim=1, descending=True, stable=True)
        mass = p.gather(1, order).cumsum(1)
        needed = mass - p.gather(1, order) < self.keep
        kept = torch.zeros_like(needed).scatter(1, order, needed)
        return kept | (log_class >= math.log(max(self.sure, 1e-30)))
