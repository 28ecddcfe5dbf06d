"""AdaDec: where the model is uncertain, look ahead from the likeliest tokens before choosing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.steering.following import selected
from ctrlgen.steering.loglinear import entropy
from ctrlgen.steering.source import Reading
from ctrlgen.steering.sourced import Sourced, number, whole

if TYPE_CHECKING:
    from ctrlgen.steering.protocol import Moment


class AdaDec(Sourced):
    """At steps with an entropy of at least ``uncertain``: the candidate with the best greedy continuation.

    A candidate's score is the mean of log p over itself and ``length`` tokens that follow greedily, fewer if the text
    ends. The others are forbidden at that step; all other steps are left alone. Continuations are the model's own: no
    constraint is applied to them, so among allowed candidates one may be preferred for a text that cannot come.

    Args:
        model: the model that generates, or a Source of it.
        uncertain: tau, in nats; infinity never looks ahead and is the model itself.
        candidates: 3 in the paper.
        length: 5 in the paper.
        stop: ids that end a continuation; by default the model's end tokens.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(
        self,
        model: Any,
        *,
        uncertain: float = 1.0,
        candidates: int = 3,
        length: int = 5,
        stop: Sequence[int] | None = None,
    ) -> None:
        super().__init__(model)
        self.uncertain = uncertain if uncertain == float("inf") else number("uncertain", uncertain, least=0)
        self.candidates, self.length = whole("candidates", candidates), whole("length", length)
        given = self.sources[0].model.generation_config.eos_token_id if stop is None else stop
        self.stop = (given,) if isinstance(given, int) else tuple(given or ())

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """0 for the best candidate and -inf for all others, in rows that are uncertain; else 0."""
        delta = torch.zeros_like(moment.log_p)
        unsure = ((entropy(moment.log_p) >= self.uncertain) & moment.alive).nonzero()[:, 0]
        if not len(unsure):
            return delta
        log_p = moment.log_p[unsure]
        first, tokens = log_p.topk(min(self.candidates, log_p.shape[1]), 1)
        best = self._scores(Reading(*selected(state[0], unsure)), tokens, first).argmax(1, keepdim=True)
        only = torch.full_like(log_p, -torch.inf).scatter(1, tokens.gather(1, best), 0.0)
        return delta.index_copy(0, unsure, only)

    def _scores(self, reading: Reading, tokens: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        """float32[B, k]; -inf for a candidate that is forbidden."""
        (source,) = self.sources
        rows = torch.arange(len(tokens), device=tokens.device).repeat_interleave(tokens.shape[1])
        reading = Reading(*selected(reading, rows.to(reading.ids.device)))
        token, total = tokens.flatten(), first.flatten().clone()
        counted = torch.ones_like(total)
        stop = torch.tensor(self.stop, device=tokens.device, dtype=torch.int64)
        alive = ~torch.isin(token, stop)
        for _ in range(self.length):
            if not bool(alive.any()):
                break
            reading = source.update(reading, token, alive)
            log_p, token = reading.output.log_softmax(1).to(total.device).max(1)
            total = total + torch.where(alive, log_p, 0.0)
            counted = counted + alive
            alive = alive & ~torch.isin(token, stop)
        return (total / counted).reshape(tokens.shape)
