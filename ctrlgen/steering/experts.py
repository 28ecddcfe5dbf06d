"""DExperts: towards an expert and away from an anti-expert (arXiv 2105.03023)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.errors import InputError
from ctrlgen.steering.loglinear import combined, nucleus, only
from ctrlgen.steering.sourced import Sourced, number

if TYPE_CHECKING:
    import torch

    from ctrlgen.steering.protocol import Moment


class DExperts(Sourced):
    """s = log p + strength * (log p_expert - log p_anti) over the base model's nucleus.

    Either may be None: then the model itself stands in its place, as in the paper's variant with the anti-expert
    alone. ``strength=0, top_p=1`` is the model itself.

    Args:
        expert: a model (or Source) of what is wanted.
        anti: one of what is not.
        strength: alpha; the paper's is 2 against toxicity, 3.2 for sentiment.
        top_p: of the base model, before the experts are asked; the paper's is 0.9.

    Raises:
        InputError: a number out of its range, or neither model.
    """

    def __init__(self, expert: Any, anti: Any, *, strength: float = 2.0, top_p: float = 0.9) -> None:
        if expert is None and anti is None:
            raise InputError("DExperts needs an expert, an anti-expert, or both")
        super().__init__(*(one for one in (expert, anti) if one is not None))
        self.strength = number("strength", strength)
        self.top_p = number("top_p", top_p, least=1e-9, most=1)
        signs = [sign for sign, one in ((1.0, expert), (-1.0, anti)) if one is not None]
        self._signs = signs

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """strength * (log p_expert - log p_anti) within the nucleus."""
        each = self.log_ps(state, moment.log_p)
        parts = [(sign * self.strength, one) for sign, one in zip(self._signs, each, strict=True)]
        # a model that is missing is the base model, with the sign of the other turned round
        own = 1.0 - self.strength * sum(self._signs)
        return only(combined(moment.log_p, parts, own=own), nucleus(moment.log_p, self.top_p))
