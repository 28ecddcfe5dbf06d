"""Shapes: what a value of one JSON type may be. A schema means a union of shapes; ``meet`` intersects two.

A shape of an array or object does not hold the shapes below it but *goals*: sets of schemas that must all hold there.
So intersection never descends, a schema may contain itself, and there are finitely many goals whatever the recursion.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ctrlgen.grammars.lowering import json_body
from ctrlgen.grammars.numbers import integer, number

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton

Goal = tuple[int, ...]
"""Sorted numbers of schemas that must all hold; () is any value."""


def both(*goals: Goal) -> Goal:
    """The goal of meeting all of ``goals``."""
    return tuple(sorted({schema for goal in goals for schema in goal}))


@dataclass(frozen=True)
class Null:
    """null."""

    def meet(self, other: Null) -> Null | None:
        """The values of both."""
        return self


@dataclass(frozen=True)
class Boolean:
    """Some of true and false."""

    values: frozenset[bool] = frozenset((False, True))

    def meet(self, other: Boolean) -> Boolean | None:
        """The values of both."""
        values = self.values & other.values
        return Boolean(values) if values else None


@dataclass(frozen=True)
class Number:
    """Numbers between bounds, or some given ones.

    Args:
        integral: whether only integers.
        low: lower bound, None for none.
        high: upper bound, None for none.
        above: whether ``low`` itself is excluded.
        below: whether ``high`` itself is excluded.
        multiple_of: an integer that must divide it.
        values: the only ones there are; the rest then is as at first.
    """

    integral: bool = False
    low: Decimal | None = None
    high: Decimal | None = None
    above: bool = False
    below: bool = False
    multiple_of: int | None = None
    values: tuple[Decimal, ...] | None = None

    def meet(self, other: Number) -> Number | None:
        """The values of both, None where there is none for sure."""
        if self.values is not None or other.values is not None:
            listed, rest = (self, other) if self.values is not None else (other, self)
            values = tuple(value for value in listed.values or () if rest.admits(value))
            return Number(values=values) if values else None
        low, above = max((self.low_key, other.low_key))
        high, below = min((self.high_key, other.high_key))
        multiples = [m for m in (self.multiple_of, other.multiple_of) if m is not None]
        merged = Number(
            self.integral or other.integral,
            low if low.is_finite() else None,
            high if high.is_finite() else None,
            above,
            not below,
            math.lcm(*multiples) if multiples else None,
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
        if (self.integral or self.multiple_of) and value != value.to_integral_value():
            return False
        if self.multiple_of and int(value) % self.multiple_of:
            return False
        return not Number(low=self.low, high=self.high, above=self.above, below=self.below)._excludes(value)

    def _excludes(self, value: Decimal) -> bool:
        if self.low is not None and (value < self.low or (self.above and value == self.low)):
            return True
        return self.high is not None and (value > self.high or (self.below and value == self.high))

    def open_bounds(self) -> list[Decimal]:
        """The bounds that are excluded themselves."""
        found = [self.low if self.above else None, self.high if self.below else None]
        return [bound for bound in found if bound is not None]

    def texts(self) -> list[bytes]:
        """How the listed values are written."""
        return list(dict.fromkeys(text for value in self.values or () for text in spellings(value)))

    def automaton(self, max_digits: int) -> Automaton:
        """The texts, when the values are not listed."""
        return _number_automaton(self, max_digits)


def _fraction(bound: Decimal) -> int:
    """Decimals beside an excluded bound, so few that no other number is read as the same float.

    A float tells 15 significant digits apart.
    """
    whole = max(1, bound.adjusted() + 1)
    return max(1, 15 - whole, -int(bound.as_tuple().exponent))


def spellings(value: Decimal) -> list[bytes]:
    """A number as Python's ``json`` writes it; an integer given as a float also without its fraction.

    >>> spellings(Decimal("1.5")), spellings(Decimal("1.0")), spellings(Decimal(1))
    ([b'1.5'], [b'1', b'1.0'], [b'1'])
    """
    as_float = json.dumps(float(value)).encode() if value.as_tuple().exponent else b""
    whole = value == value.to_integral_value() and (not as_float or abs(value) < 10**25)
    return [text for text in (str(int(value)).encode() if whole else b"", as_float) if text]


@lru_cache(512)
def _number_automaton(shape: Number, max_digits: int) -> Automaton:
    if not shape.integral and shape.multiple_of is None:
        fraction = min([max_digits, *(_fraction(bound) for bound in shape.open_bounds())])
        return number(
            shape.low,
            shape.high,
            shape.above,
            shape.below,
            max_digits,
            max_fraction=fraction,
            max_exponent_digits=2,  # 1e999 is read as infinity
        )
    low, high = shape.low, shape.high
    if low is not None and shape.above:
        low = low.to_integral_value("ROUND_FLOOR") + 1
    if high is not None and shape.below:
        high = high.to_integral_value("ROUND_CEILING") - 1
    return integer(low, high, max_digits, multiple_of=shape.multiple_of)


@dataclass(frozen=True)
class String:
    """Strings of a language and a length, or some given ones.

    Args:
        automaton: the content in JSON, all spellings; None for any.
        language: its signature, which stands for it when shapes are compared.
        least: fewest code points.
        most: most code points, None for no limit.
        values: the only ones there are; the rest then is as at first.
    """

    automaton: Automaton | None = field(default=None, compare=False)
    language: str = ""
    least: int = 0
    most: int | None = None
    values: tuple[str, ...] | None = None

    def meet(self, other: String) -> String | None:
        """The values of both, None where there is none for sure."""
        if self.values is not None or other.values is not None:
            listed, rest = (self, other) if self.values is not None else (other, self)
            values = tuple(filter(rest.admits, listed.values or ()))
            return String(values=values) if values else None
        limits = [most for most in (self.most, other.most) if most is not None]
        least, most = max(self.least, other.least), min(limits, default=None)
        if most is not None and least > most:
            return None
        if self.automaton is None or other.automaton is None or self.language == other.language:
            kept = self if self.automaton is not None else other
            return replace(kept, least=least, most=most)
        automaton = self.automaton & other.automaton
        return None if automaton.is_empty else String(automaton, automaton.signature, least, most)

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.values or ())

    def admits(self, value: str) -> bool:
        """Whether ``value`` is one of these."""
        if self.values is not None:
            return value in self._members
        if len(value) < self.least or (self.most is not None and len(value) > self.most):
            return False
        return self.automaton is None or self.automaton.matches(content(value))


def content(text: str) -> bytes:
    """A string as JSON writes it between the quotes, in the canonical spelling.

    >>> content('say "hi"')
    b'say \\\\"hi\\\\"'
    """
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


@dataclass(frozen=True)
class ItemRule:
    """What one schema says of the items of an array: the first ones in turn, then all others."""

    first: tuple[Goal, ...]
    others: Goal


@dataclass(frozen=True)
class Array:
    """Arrays that obey all rules and have between ``least`` and ``most`` items."""

    rules: tuple[ItemRule, ...] = ()
    least: int = 0
    most: int | None = None

    def meet(self, other: Array) -> Array | None:
        """The values of both, None where there is none for sure."""
        limits = [most for most in (self.most, other.most) if most is not None]
        least, most = max(self.least, other.least), min(limits, default=None)
        if most is not None and least > most:
            return None
        return Array(tuple(dict.fromkeys(self.rules + other.rules)), least, most)

    @property
    def places(self) -> int:
        """From this index on all items have the same goal."""
        return max((len(rule.first) for rule in self.rules), default=0)

    def goal(self, index: int) -> Goal:
        """What the item at ``index`` must meet."""
        return both(*(rule.first[index] if index < len(rule.first) else rule.others for rule in self.rules))


@dataclass(frozen=True)
class MemberRule:
    """What one schema says of the members of an object.

    Args:
        named: (name, goal) of declared members, in order.
        patterns: (pattern, goal): what members whose name the pattern finds must meet.
        others: what all other members must meet.
    """

    named: tuple[tuple[str, Goal], ...]
    patterns: tuple[tuple[str, Goal], ...]
    others: Goal

    @cached_property
    def goals(self) -> dict[str, Goal]:
        """The goals of the declared members."""
        return dict(self.named)


@dataclass(frozen=True)
class Object:
    """Objects that obey all rules, have the required members, and between ``least`` and ``most`` in all."""

    rules: tuple[MemberRule, ...] = ()
    required: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None

    def meet(self, other: Object) -> Object | None:
        """The values of both, None where there is none for sure."""
        limits = [most for most in (self.most, other.most) if most is not None]
        required = tuple(dict.fromkeys(self.required + other.required))
        least, most = max(self.least, other.least), min(limits, default=None)
        if most is not None and max(least, len(required)) > most:
            return None
        return Object(tuple(dict.fromkeys(self.rules + other.rules)), required, least, most)


Shape = Null | Boolean | Number | String | Array | Object

ANY: tuple[Shape, ...] = (Null(), Boolean(), Number(), String(), Array(), Object())
"""Any value."""


def meet(a: Shape, b: Shape) -> Shape | None:
    """The values of two shapes, None where there is none for sure."""
    return a.meet(b) if type(a) is type(b) else None  # type: ignore[arg-type]


@lru_cache(1)
def any_content() -> Automaton:
    """The content of any JSON string."""
    return json_body("all")
