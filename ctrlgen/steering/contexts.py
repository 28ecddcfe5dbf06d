"""The same model without the context: what the context makes likelier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.steering.contrastive import unconditional
from ctrlgen.steering.loglinear import combined, entropy
from ctrlgen.steering.sourced import Sourced, number

if TYPE_CHECKING:
    import torch

    from ctrlgen.steering.protocol import Moment


class ContextAware(Sourced):
    """Context-aware decoding: s = (1 + strength) log p(v | c, x) - strength log p(v | x)  (arXiv 2305.14739).

    ``strength=0`` is the model itself.

    Args:
        without: a Source of the same model whose ``prompt`` leaves the context out; a model alone reads the last id
            of each prompt.
        strength: the paper's alpha: 0.5 for summaries, 1 where context and knowledge contradict each other.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, without: Any, *, strength: float = 0.5) -> None:
        super().__init__(unconditional(without))
        self.strength = number("strength", strength, least=0)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """strength * (log p - log p without the context)."""
        (without,) = self.log_ps(state, moment.log_p)
        return combined(moment.log_p, [(-self.strength, without)], own=1 + self.strength)


class ClassifierFree(Sourced):
    """Classifier-free guidance: s = scale * (log p - log p_u) + log p_u  (arXiv 2306.17806).

    ``scale=1`` is the model itself, 0 the unconditional one.

    Args:
        other: the unconditional model, which reads the last id of each prompt; or a Source with a negative prompt.
        scale: the paper's gamma.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, other: Any, *, scale: float = 1.5) -> None:
        super().__init__(unconditional(other))
        self.scale = number("scale", scale)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """(scale - 1) * (log p - log p_u)."""
        (other,) = self.log_ps(state, moment.log_p)
        return combined(moment.log_p, [(1 - self.scale, other)], own=self.scale)


class PMI(Sourced):
    """s = log p(v | x) - strength * log p_u(v), where the model is uncertain (CPMI, arXiv 2210.13210).

    Tokens that are likely whatever the source text says lose, but only at steps whose entropy is at least
    ``uncertain``: elsewhere the model knows what it is about. ``strength=0`` is the model itself.

    Args:
        without: the model without the source text, which reads the last id of each prompt; or a Source.
        strength: the paper's lambda.
        uncertain: its tau, in nats; 0 corrects every step.

    Raises:
        InputError: a number out of its range.
    """

    def __init__(self, without: Any, *, strength: float = 0.1, uncertain: float = 3.0) -> None:
        super().__init__(unconditional(without))
        self.strength = number("strength", strength, least=0)
        self.uncertain = number("uncertain", uncertain, least=0)

    def delta(self, state: tuple[Any, ...], moment: Moment) -> torch.Tensor:
        """-strength * log p_u in rows that are uncertain, else 0."""
        (without,) = self.log_ps(state, moment.log_p)
        delta = combined(moment.log_p, [(-self.strength, without)])
        return delta.masked_fill((entropy(moment.log_p) < self.uncertain)[:, None], 0.0)
