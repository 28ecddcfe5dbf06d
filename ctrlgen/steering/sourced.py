"""Steerers made of second models: the part that all of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.errors import InputError
from ctrlgen.steering.source import Source

if TYPE_CHECKING:
    import torch

    from ctrlgen.steering.protocol import Prompts


class Sourced:
    """State and movement of the sources; what is made of them is ``delta`` of a subclass.

    Args:
        sources: models, or Sources where more is to be said than which model.
    """

    def __init__(self, *sources: Any) -> None:
        self.sources = tuple(one if isinstance(one, Source) else Source(one) for one in sources)
        counts = {one.per_prompt for one in self.sources if one.per_prompt}
        if len(counts) > 1:
            raise InputError(f"the second models have prompts for batches of {sorted(counts)} prompts; pass as many")
        self.per_prompt = next(iter(counts), 0)

    def init(self, prompts: Prompts) -> tuple[Any, ...]:
        """What each source has read of the prompts."""
        return tuple(one.init(prompts) for one in self.sources)

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """One more token in each row."""
        return tuple(one.update(each, tokens, alive) for one, each in zip(self.sources, state, strict=True))

    def rewind(self, state: tuple[Any, ...], count: int) -> tuple[Any, ...] | None:
        """``count`` tokens back; None if that is lost."""
        return tuple(one.rewind(each, count) for one, each in zip(self.sources, state, strict=True))

    def log_ps(self, state: tuple[Any, ...], log_p: torch.Tensor) -> list[torch.Tensor]:
        """float32[B, V] of each source, normalised over what ``log_p`` allows."""
        return [one.log_p(each, log_p) for one, each in zip(self.sources, state, strict=True)]


def number(name: str, value: Any, *, least: float | None = None, most: float | None = None) -> float:
    """``value`` as a float.

    Raises:
        InputError: it is none, not finite, or out of range.
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < float("inf")
    if not good or (least is not None and value < least) or (most is not None and value > most):
        bounds = [f"at least {least}"] * (least is not None) + [f"at most {most}"] * (most is not None)
        raise InputError(f"{name} is {value!r}; expected a number" + (" of " if bounds else "") + ", ".join(bounds))
    return float(value)


def whole(name: str, value: Any) -> int:
    """``value``, a whole number of at least 1.

    Raises:
        InputError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} is {value!r}; expected a whole number of at least 1")
    return value


def tokens_or_all(name: str, value: Any) -> int | None:
    """``value``, a number of tokens of at least 1 or None.

    Raises:
        InputError: it is neither.
    """
    if value is not None and (not isinstance(value, int) or value < 1):
        raise InputError(f"{name} is {value!r}; expected a number of tokens, or None for all")
    return value
