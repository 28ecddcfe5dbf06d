"""Contrastive decoding: what an expert says more than an amateur (arXiv 2210.15097)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.steering.loglinear import combined, only, plausible
from ctrlgen.steering.source import Source
from ctrlgen.steering.sourced import Sourced, number

if TYPE_CHECKING:
    import torch

    from ctrlgen.steering.protocol import Moment


def last_id(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """What an amateur or an unconditional model reads of a prompt: its last id."""
    return prompt[-1:]


def unconditional(model: Any) -> Source:
    """A Source that reads only the last id of each prompt, unless it already is one that says what it reads."""
    return model if isinstance(model, Source) else Source(model, prompt=last_id)


class Contrastive(Sourced):
    """s = log p - strength * log p_amateur over the tokens with p >= plausibility * max p.

    The model that generates is the expert. ``strength=0, plausibility=0`` is that model itself.

    Args:
        amateur: a smaller model of the same family, which reads only the last id of each prompt; or a Source.
        strength: the paper takes the plain difference, 1.
        plausibility: alpha, from 0 to 1; the paper's is 0.1.
        temperature: of the amateur; the paper's is 0.5 for GPT-2, 1 for OPT.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(
        self, amateur: Any, *, strength: float = 1.0, plausibility: float = 0.1, temperature: float = 1.0
    ) -> None:
        super().__init__(unconditional(amateur))
        self.strength = number("strength", strength, least=0)
        self.plausibility = number("plausibility", plausibility, least=0, most=1)
        self.temperature = number("temperature", temperature, least=1e-3)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """-strength * log p_amateur, and -inf for what is not plausible."""
        (amateur,) = self.log_ps(state, moment.log_p)
        amateur = (amateur / self.temperature).log_softmax(1)
        return only(combined(moment.log_p, [(-self.strength, amateur)]), plausible(moment.log_p, self.plausibility))
