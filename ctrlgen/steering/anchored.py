"""Anchored decoding: as close to the model as a budget of KL from a safe model allows (arXiv 2602.07120)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import InputError
from ctrlgen.steering.fusion import fuse
from ctrlgen.steering.source import Source
from ctrlgen.steering.sourced import Sourced, number, tokens_or_all
from ctrlgen.steering.steps import divergence, log_ratio

if TYPE_CHECKING:
    from ctrlgen.steering.protocol import Moment, Prompts


class Anchored(Sourced):
    """Keep the sum of KL(q_t || safe_t) along every text within a budget, exactly.

    Step t may spend k_t = max(0, min((t + 1) * per_token, total) - debt - spent), with ``spent`` the KL of the steps
    before: what is not used is saved. So the text of n tokens, whatever it is, has cost at most min(n * per_token,
    total), and by the chain rule so has the KL of whole texts. Both models are restricted to the tokens that the
    constraint allows, then warped, then fused; nothing may be done to the result but to sample from it, which is why
    temperature, top-k and top-p are given here, and why greedy decoding and beams are refused.

    Args:
        safe: the safe model, or a Source.
        per_token: k, nats a token; 0 is the safe model alone. The paper uses 0.15 to 1.5.
        total: K, nats for a whole text; without limit by default.
        debt: nats to begin with, for a prompt that itself leans to the risky model (``prefix_debt``); a number, or one
            for each prompt.
        temperature: of both models.
        top_k: keep so many tokens of both; None keeps all.
        top_p: keep the likeliest tokens of that mass of both.

    Raises:
        InputError: a number out of its range.
    """

    final = True
    """It has the last word: nothing may come after it."""

    def __init__(
        self,
        safe: Any,
        *,
        per_token: float = 0.5,
        total: float | None = None,
        debt: float | Sequence[float] = 0.0,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
    ) -> None:
        super().__init__(safe)
        self.per_token = number("per_token", per_token, least=0)
        self.total = float("inf") if total is None else number("total", total, least=0)
        self.debts = [number("debt", one, least=0) for one in (debt if isinstance(debt, Sequence) else [debt])]
        self.temperature = number("temperature", temperature, least=1e-3)
        self.top_p = number("top_p", top_p, least=1e-9, most=1)
        self.top_k = tokens_or_all("top_k", top_k)
        if isinstance(debt, Sequence):
            if self.per_prompt not in (0, len(self.debts)):
                raise InputError(f"{len(self.debts)} debts for {self.per_prompt} prompts of the safe model")
            self.per_prompt = len(self.debts)

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """The safe model's state, nothing spent, and the debts."""
        count = len(prompts.rows)
        if count % len(self.debts):
            raise InputError(f"{len(self.debts)} debts for {count} rows")
        debts = torch.tensor(self.debts, dtype=torch.float64, device=prompts.device)
        spent = torch.zeros(count, 0, dtype=torch.float64, device=prompts.device)
        return (*super().init(prompts), spent, debts.repeat_interleave(count // len(debts)))

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """log q - log p."""
        *models, spent, debt = state
        log_safe, log_risky = self.warped(models, moment.log_p)
        allowed = (self._granted(moment.length) - debt - spent.sum(1)).clamp(min=0.0)
        return log_ratio(fuse(log_safe, log_risky, allowed).to(moment.log_p.dtype), moment.log_p)

    def record(self, state: tuple[Any, ...], moment: Moment, delta: torch.Tensor) -> tuple[Any, ...]:
        """Book the KL of what is sampled from, as it left ``delta``."""
        *models, spent, debt = state
        log_safe, _ = self.warped(models, moment.log_p)
        cost = divergence((moment.log_p + delta).double().log_softmax(1), log_safe.double().log_softmax(1))
        return (*models, torch.cat([spent, torch.where(moment.alive, cost, 0.0)[:, None]], 1), debt)

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """The safe model reads on."""
        return (*super().update(state[:-2], tokens, alive), *state[-2:])

    def rewind(self, state: tuple[Any, ...], count: int) -> tuple[Any, ...]:
        """The books as they were after the step at which the first token to be forgotten was chosen."""
        *models, spent, debt = state
        back = tuple(one.rewind(each, count) for one, each in zip(self.sources, models, strict=True))
        return (*back, spent[:, : spent.shape[1] - count + 1], debt)

    def warped(self, models: Sequence[Any], log_p: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """float32[B, V] of the safe and of the risky model, restricted, warped and normalised."""
        (log_safe,) = self.log_ps(tuple(models), log_p)
        return self._warp(log_safe), self._warp(log_p)

    def _granted(self, length: int) -> float:
        return min((length + 1) * self.per_token, self.total)

    def _warp(self, log_p: torch.Tensor) -> torch.Tensor:
        log_p = (log_p / self.temperature).log_softmax(1)
        if self.top_k is not None and self.top_k < log_p.shape[1]:
            least = log_p.topk(self.top_k, 1).values[:, -1:]
            log_p = log_p.masked_fill(log_p < least, -torch.inf).log_softmax(1)
        if self.top_p < 1:
            ordered, index = log_p.sort(1, descending=True)
            before = ordered.exp().cumsum(1) - ordered.exp()  # mass of the likelier ones: the first always stays
            ordered = ordered.masked_fill(before >= self.top_p, -torch.inf)
            log_p = torch.empty_like(log_p).scatter(1, index, ordered).log_softmax(1)
        return log_p


@torch.no_grad()
def prefix_debt(risky: Any, safe: Any, prompts: Sequence[Sequence[int]], *, largest: int = 5) -> list[float]:
    """How much a prompt itself speaks for the risky model: a debt for ``Anchored``.

    The mean of the ``largest`` values of log p_risky - log p_safe over the ids of the prompt, none below 0.

    Args:
        risky: the model that generates.
        safe: the safe model.
        prompts: ids of each, without padding.
        largest: how many count.

    Returns:
        Nats, one number for each prompt; 0 for a prompt of one id.
    """
    if largest < 1:
        raise InputError(f"largest is {largest!r}; expected at least 1")
    return [_debt(risky, safe, list(ids), largest) for ids in prompts]


def _debt(risky: Any, safe: Any, ids: list[int], largest: int) -> float:
    if len(ids) < 2:
        return 0.0
    models = [one.model if isinstance(one, Source) else one for one in (risky, safe)]
    logs = []
    for model in models:
        row = torch.tensor([ids], device=model.device)
        seen = model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0, :-1].double().log_softmax(1)
        logs.append(seen.gather(1, row[0, 1:, None])[:, 0].cpu())
    ratios = (logs[0] - logs[1]).clamp(min=0.0)
    return float(ratios.topk(min(largest, len(ratios))).values.mean())
