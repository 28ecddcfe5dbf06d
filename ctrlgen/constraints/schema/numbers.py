"""Numbers: bounds, multiples, and what they are not."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from ctrlgen.grammars.number_complements import non_integer, not_multiple, number_except, told_apart
from ctrlgen.grammars.numbers import integer, number

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton

MAX_LISTED = 1_000
"""Most integers of a range that are told one by one."""


@dataclass(frozen=True)
class Number:
    """Numbers between bounds, or some given ones.

    Args:
        whole: True for integers only, False for none, None for all.
        low: lower bound, None for none.
        high: upper bound, None for none.
        above: whether ``low`` itself is excluded.
        below: whether ``high`` itself is excluded.
        step: what they are multiples of.
        off: what they are no multiples of.
        excluded: values they are not.
        values: the only ones there are; the rest then is as at first.
    """

    kind: ClassVar[int] = 2

    whole: bool | None = None
    low: Decimal | None = None
    high: Decimal | None = None
    above: bool = False
    below: bool = False
    step: Fraction | None = None
    off: frozenset[Fraction] = frozenset()
    excluded: frozenset[Decimal] = frozenset()
    values: tuple[Decimal, ...] | None = None

    def meet(self, other: Number) -> Number | None:
        """The values of both, None where there is none for sure."""
        if self is other:
            return self
        if self.values is not None or other.values is not None:
            listed, rest = (self, other) if self.values is not None else (other, self)
            values = tuple([value for value in listed.values or () if rest.admits(value)])
            return Number(values=values) if values else None
        if self.whole is not None and other.whole is not None and self.whole != other.whole:
            return None
        low, above = max(self.low_key, other.low_key)
        high, below = min(self.high_key, other.high_key)
        merged = Number(
            self.whole if other.whole is None else other.whole,
            low if low.is_finite() else None,
            high if high.is_finite() else None,
            above,
            not below,
            _common(self.step, other.step),
            self.off | other.off,
            self.excluded | other.excluded,
        )
        return None if merged.crossed else merged

    @property
    def low_key(self) -> tuple[Decimal, bool]:
        """Greater for a stricter lower bound."""
        return (Decimal("-Infinity") if self.low is None else self.low), self.above

    @property
    def high_key(self) -> tuple[Decimal, bool]:
        """Smaller for a stricter upper bound."""
        return (Decimal("Infinity") if self.high is None else self.high), not self.below

    @property
    def crossed(self) -> bool:
        """Whether the bounds leave nothing."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.above or self.below))

    def admits(self, value: Decimal) -> bool:
        """Whether ``value`` is one of these."""
        if self.values is not None:
            return value in self.values
        if self.whole is not None and self.whole != (value == value.to_integral_value()):
            return False
        if self.low is not None and (value < self.low or (self.above and value == self.low)):
            return False
        if self.high is not None and (value > self.high or (self.below and value == self.high)):
            return False
        if value in self.excluded:
            return False
        exact = Fraction(value) if self.step is not None or self.off else Fraction(0)
        if self.step is not None and exact % self.step:
            return False
        return all(exact % step for step in self.off)

    def listed(self) -> tuple[Decimal, ...] | None:
        """All values, if they are few; None if they are not."""
        if self.values is not None:
            return self.values
        step = Fraction(1) if self.whole else self.step
        if step is None or self.low is None or self.high is None:
            return None
        first, last = math.ceil(Fraction(self.low) / step), math.floor(Fraction(self.high) / step)
        if last - first >= MAX_LISTED:
            return None
        values = [_decimal(step * n) for n in range(first, last + 1)]
        return tuple(value for value in values if self.admits(value))

    def texts(self, zeros: int) -> list[bytes]:
        """How the listed values are written; with ``zeros`` an integer also as 1.0."""
        texts = dict.fromkeys(text for value in self.values or () for text in spellings(value))
        return list(texts) if zeros else [text for text in texts if not text.endswith(b".0")]

    def automaton(self, max_digits: int, zeros: int) -> Automaton:
        """The texts, when the values are not listed.

        Args:
            max_digits: most digits before the point, and after it.
            zeros: most zeros after the point of an integer.

        Raises:
            ComplexityError: it takes too many states.
        """
        return _automaton(self, max_digits, zeros)


def exact(value: float) -> Decimal:
    """A JSON number as the decimal number it is written as."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _common(a: Fraction | None, b: Fraction | None) -> Fraction | None:
    """The least common multiple."""
    if a is None or b is None:
        return a if b is None else b
    return Fraction(math.lcm(a.numerator, b.numerator), math.gcd(a.denominator, b.denominator))


def spellings(value: Decimal) -> list[bytes]:
    """A number as Python's ``json`` writes it; an integer with and without a zero behind a point.

    >>> spellings(Decimal("1.5")), spellings(Decimal("1.0")), spellings(Decimal(1))
    ([b'1.5'], [b'1', b'1.0'], [b'1', b'1.0'])
    """
    if value == value.to_integral_value() and abs(value) < 10**25:
        whole = str(int(value)).encode()
        found = [whole, whole + b".0"]
    else:
        found = [str(int(value)).encode()] if not value.as_tuple().exponent else []
    if value.as_tuple().exponent:
        found.append(json.dumps(float(value)).encode())
    return list(dict.fromkeys(found))


def _fraction(bound: Decimal) -> int:
    """Decimals beside an excluded bound, so few that no other number is read as the same float.

    A float tells 15 significant digits apart.
    """
    whole = max(1, bound.adjusted() + 1)
    return max(1, 15 - whole, -int(bound.as_tuple().exponent))


@lru_cache(512)
def _automaton(shape: Number, max_digits: int, zeros: int) -> Automaton:
    found = _integers(shape, max_digits, zeros) if shape.whole else _numbers(shape, max_digits)
    if shape.whole is False:
        found = found & non_integer(max_digits, max_digits)
    for step in shape.off:
        found = found & not_multiple(step, max_digits, max_digits)
    if shape.excluded:
        found = found & number_except(shape.excluded, max_digits, max_digits)
    if shape.step is not None or shape.off or shape.excluded:
        found = found & told_apart(max_digits, max_digits)
    return found


def _numbers(shape: Number, max_digits: int) -> Automaton:
    bounds = [shape.low if shape.above else None, shape.high if shape.below else None]
    fraction = min([max_digits, *(_fraction(bound) for bound in bounds if bound is not None)])
    return number(
        shape.low,
        shape.high,
        shape.above,
        shape.below,
        max_digits,
        max_fraction=fraction,
        max_exponent_digits=2,  # 1e999 is read as infinity
        multiple_of=shape.step,
    )


def _integers(shape: Number, max_digits: int, zeros: int) -> Automaton:
    low, high = shape.low, shape.high
    if low is not None and shape.above:
        low = low.to_integral_value("ROUND_FLOOR") + 1
    if high is not None and shape.below:
        high = high.to_integral_value("ROUND_CEILING") - 1
    # integers are multiples of p/q exactly if they are multiples of p
    step = None if shape.step is None or shape.step.numerator == 1 else shape.step.numerator
    return integer(low, high, max_digits, multiple_of=step, zero_fraction=zeros)
