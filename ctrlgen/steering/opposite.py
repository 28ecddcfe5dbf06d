"""Adversarial contrastive decoding: a model under two opposite soft prompts (arXiv 2406.16743)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.steering.loglinear import combined, only, plausible
from ctrlgen.steering.source import Source
from ctrlgen.steering.sourced import Sourced, number
from ctrlgen.tensors import read, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ctrlgen.steering.protocol import Moment

KIND = "opposite prompts"


class OppositePrompts:
    """Two soft prompts that a model reads before the user's words.

    Args:
        safe: float32[n, H], embeddings that make it careful.
        adverse: float32[m, H], embeddings that make it the opposite.
        card: how they were made.
    """

    def __init__(self, safe: torch.Tensor, adverse: torch.Tensor, card: Mapping[str, Any] | None = None) -> None:
        for name, one in (("safe", safe), ("adverse", adverse)):
            if one.dim() != 2 or not len(one) or not bool(one.isfinite().all()):
                raise InputError(f"the {name} prompt has shape {list(one.shape)}; expected finite [n, H], n at least 1")
        self.safe, self.adverse, self.card = safe.float(), adverse.float(), dict(card or {})

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, whole or not at all."""
        write(path, KIND, {"safe": self.safe, "adverse": self.adverse}, {"card": self.card})

    @classmethod
    def load(cls, path: str | Path) -> OppositePrompts:
        """Read what ``save`` or ``ctrlgen acd fit`` wrote.

        Raises:
            ModelError: the file is missing, not intact, or something else.
        """
        tensors, facts = read(path, KIND)
        try:
            return cls(tensors["safe"], tensors["adverse"], facts["card"])
        except (KeyError, TypeError, InputError) as error:
            raise ModelError(f"{path} does not hold two prompts: {error}") from error


class ACD(Sourced):
    """s = log p_safe - strength * log p_adverse, both of one model under opposite prompts.

    The weights sum to 1 - strength, which flattens the result as a temperature of 1 / (1 - strength) would;
    ``keep_temperature=True`` divides by that sum. ``strength=0`` is the model under the safe prompt, and with
    ``safe=None`` the model itself.

    Args:
        safe: a Source with the safe prompt, or None for the model that generates.
        adverse: a Source with the adverse prompt.
        strength: alpha; the paper's is 0.4 to 0.5.
        plausibility: share of max p_safe below which tokens are left out; the paper has none.
        keep_temperature: see above; needs a strength below 1.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(
        self,
        safe: Any,
        adverse: Any,
        *,
        strength: float = 0.4,
        plausibility: float = 0.0,
        keep_temperature: bool = False,
    ) -> None:
        super().__init__(*(one for one in (safe, adverse) if one is not None))
        if adverse is None:
            raise InputError("ACD needs the model under an adverse prompt")
        self.strength = number("strength", strength, least=0)
        self.plausibility = number("plausibility", plausibility, least=0, most=1)
        if keep_temperature and self.strength >= 1:
            raise InputError(f"strength is {strength!r}; keep_temperature=True divides by 1 - strength, so give less")
        self._scale = 1 / (1 - self.strength) if keep_temperature else 1.0
        self._itself = safe is None

    @classmethod
    def of(cls, model: Any, prompts: OppositePrompts, tokenizer: Any = None, **options: Any) -> ACD:
        """The steerer of a model under the prompts that were learnt for it."""
        pair = (Source(model, tokenizer, soft_prompt=one) for one in (prompts.safe, prompts.adverse))
        return cls(*pair, **options)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """The weighted difference, less the model's own log p where another model takes its place."""
        *safe, adverse = self.log_ps(state, moment.log_p)
        log_safe = moment.log_p if self._itself else safe[0]
        away = (-self._scale * self.strength, adverse)
        if self._itself:
            delta = combined(moment.log_p, [away], own=self._scale)
        else:
            delta = combined(moment.log_p, [(self._scale, log_safe), away], own=0.0)
        return only(delta, plausible(log_safe, self.plausibility))
