"""Attributes of texts, and what can be said with them: ``polite & ~(angry | rude)``.

    Attribute.factorised(w)       p = exp(sum of w(x_i)), w <= 0: TRACE (arXiv 2504.18535)
    Attribute.logistic(w, bias)   p = 1 / (1 + exp(-bias - sum of w(x_i))), any sign

Composition takes attributes for independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import ComplexityError, InputError
from ctrlgen.hmm import terms
from ctrlgen.tensors import read, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from ctrlgen.hmm.terms import Terms

PRECISION = 1e-4
"""How far sines may be from a logistic function, by default."""

_SINES = 256


class Wanted:
    """What can be composed: an attribute, or several."""

    width: int
    """V"""

    def terms(self, tokens: int | None) -> Terms:
        """As a sum of products over tokens.

        Args:
            tokens: the most that count, or None if there is no telling.

        Raises:
            InputError: a logistic attribute must know one, for it is a sum of sines up to the greatest sum of weights.
            ComplexityError: that takes too many sines.
        """
        raise NotImplementedError

    def __and__(self, other: Wanted) -> Wanted:
        """Both."""
        return _Both(self, _wanted(other))

    def __or__(self, other: Wanted) -> Wanted:
        """Either, or both."""
        return ~(~self & ~_wanted(other))

    def __invert__(self) -> Wanted:
        """The opposite."""
        return _Opposite(self)


@dataclass(frozen=True, eq=False)
class Attribute(Wanted):
    """A probability that hangs on which tokens a text has: ``factorised`` and ``logistic`` make them.

    Args:
        weights: float32[V].
        bias: None for a factorised one.
        reach: the largest sum that a logistic one is exact for; by default what the texts can come to.
        precision: error of its probability up to there.
        card: how it was made.
    """

    weights: torch.Tensor
    bias: float | None = None
    reach: float | None = None
    precision: float = PRECISION
    card: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._terms(1.0, 1)  # which checks numbers
        if not self.precision > 0:
            raise InputError(f"precision is {self.precision}; expected a small positive number")

    @classmethod
    def factorised(cls, weights: Any, *, card: Mapping[str, Any] | None = None) -> Attribute:
        """p = exp(sum of weights), none of which is above 0."""
        return cls(torch.as_tensor(weights, dtype=torch.float32), card=card or {})

    @classmethod
    def logistic(
        cls,
        weights: Any,
        bias: float,
        *,
        reach: float | None = None,
        precision: float = PRECISION,
        card: Mapping[str, Any] | None = None,
    ) -> Attribute:
        """p = 1 / (1 + exp(-bias - sum of weights)).

        Args:
            weights: float[V], of any sign.
            bias: of a text without tokens.
            reach: beyond this sum of bias and weights the look-ahead is worthless; by default it cannot get there.
            precision: of probabilities, up to ``reach``.
            card: how it was made.
        """
        return cls(torch.as_tensor(weights, dtype=torch.float32), float(bias), reach, precision, card or {})

    @property
    def width(self) -> int:  # type: ignore[override]
        """V."""
        return self.weights.shape[0]

    def terms(self, tokens: int | None) -> Terms:
        """As a sum of products."""
        if self.bias is None:
            return terms.factorised(self.weights)
        reach = self._reach(tokens)
        return self._terms(reach, sines_for(reach, self.precision))

    def probability(self, counts: torch.Tensor) -> torch.Tensor:
        """float64[N]: of texts given as numbers of each token, float[N, V]."""
        total = counts.double() @ self.weights.double()
        return total.exp() if self.bias is None else (total + self.bias).sigmoid()

    def save(self, path: str | Path) -> None:
        """Write to one safetensors file, whole or not at all."""
        facts = {"bias": self.bias, "reach": self.reach, "precision": self.precision, "card": dict(self.card)}
        write(path, "attribute", {"weights": self.weights}, facts)

    @classmethod
    def load(cls, path: str | Path) -> Attribute:
        """Read what ``save`` wrote.

        Raises:
            ModelError: the file is missing, not intact or no attribute.
        """
        tensors, facts = read(path, "attribute")
        return cls(tensors["weights"], facts["bias"], facts["reach"], facts["precision"], facts["card"])

    @classmethod
    def named(cls, name: str) -> Attribute:
        """One that comes with ctrlgen, such as "smollm2-135m.positive-review.logistic".

        Raises:
            InputError: there is none of this name.
        """
        from ctrlgen.hmm.library import ready

        return cls.load(ready(name))

    def __repr__(self) -> str:
        kind = "factorised" if self.bias is None else "logistic"
        return f"Attribute({kind}, width={self.width}, weights={int((self.weights != 0).sum())})"

    def _terms(self, reach: float, sines: int) -> Terms:
        if self.bias is None:
            return terms.factorised(self.weights)
        return terms.logistic(self.weights, self.bias, reach=reach, sines=sines)

    def _reach(self, tokens: int | None) -> float:
        if self.reach is not None:
            return self.reach
        if tokens is None:
            raise InputError(
                "a logistic attribute needs to know how far its sums may go: give the texts a length (tokens=), or the "
                "attribute a reach="
            )
        assert self.bias is not None
        return max(1.0, abs(self.bias) + tokens * float(self.weights.abs().max()))


@dataclass(frozen=True, eq=False)
class _Both(Wanted):
    left: Wanted
    right: Wanted

    def __post_init__(self) -> None:
        if self.left.width != self.right.width:
            raise InputError(f"attributes for {self.left.width} and {self.right.width} tokens cannot be composed")

    @property
    def width(self) -> int:  # type: ignore[override]
        return self.left.width

    def terms(self, tokens: int | None) -> Terms:
        return self.left.terms(tokens) & self.right.terms(tokens)


@dataclass(frozen=True, eq=False)
class _Opposite(Wanted):
    one: Wanted

    @property
    def width(self) -> int:  # type: ignore[override]
        return self.one.width

    def terms(self, tokens: int | None) -> Terms:
        return ~self.one.terms(tokens)

    def __invert__(self) -> Wanted:
        return self.one


def sines_for(reach: float, precision: float) -> int:
    """The fewest sines, up to a tenth, that are within ``precision`` of a logistic function on [-reach, reach].

    Raises:
        ComplexityError: they are more than 256.
    """
    count = 4
    while terms.largest_error(reach, count) > precision:
        if count == _SINES:
            raise ComplexityError(
                f"{_SINES} sines are not within {precision} of a logistic function up to sums of {reach:.3g}: use "
                "smaller weights, fewer tokens, a coarser precision=, or a reach= that texts hardly go beyond"
            )
        count = min(_SINES, max(count + 1, count * 11 // 10))
    return count


def _wanted(value: Any) -> Wanted:
    if not isinstance(value, Wanted):
        raise InputError(f"attributes are composed with attributes, not with {value!r}")
    return value
