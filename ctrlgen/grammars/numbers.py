"""Numbers between bounds, as JSON writes them, exactly: a digit at a time, compared with the digits of the bounds.

After the same number of digits a prefix is below, equal to or above that prefix of a bound; this and the number of
digits read decide everything, so automata stay small whatever the bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError, SpecificationError
from ctrlgen.grammars.digits import DEAD, NO_DIGITS, DigitStates
from ctrlgen.grammars.multiples import decimal_places, exact_step, multiples

Bound = int | float | Decimal

MAX_DIGITS = 1_000
"""Longest bound, in digits; a longer one is refused."""


def integer(
    low: Bound | None = None,
    high: Bound | None = None,
    max_digits: int = 20,
    *,
    multiple_of: int | None = None,
    zero_fraction: int = 0,
    max_states: int = 20_000,
) -> Automaton:
    """Integers from ``low`` to ``high``: no leading zeros, no plus, no "-0", no exponent.

    Args:
        low: the smallest, None for no limit; a fraction is rounded up.
        high: the largest, None for no limit; a fraction is rounded down.
        max_digits: most digits, so that a model cannot write digits for ever; a bound with more digits extends it.
        multiple_of: what must divide the number.
        zero_fraction: most zeros after a point: "1.0" is an integer to JSON Schema; 0 for no point.
        max_states: limit on the states for ``multiple_of``.

    Raises:
        SpecificationError: a bound is not a number, or ``multiple_of`` is below 1.
        ComplexityError: a bound has more than MAX_DIGITS digits, or ``multiple_of`` needs too many states.
    """
    least = None if low is None else Decimal(ceil(_decimal(low)))
    most = None if high is None else Decimal(floor(_decimal(high)))
    states, start = _numbers(_signs(least, most, max_digits, 0, bounded=True), 0, zero_fraction)
    if multiple_of is None:
        return states.automaton(start)
    if multiple_of < 1:
        raise SpecificationError(f"multiple_of={multiple_of}: expected an integer of at least 1")
    return states.intersection(start, multiples(exact_step(multiple_of), zero_fraction > 0, max_states), max_states)


def number(
    low: Bound | None = None,
    high: Bound | None = None,
    exclusive_low: bool = False,
    exclusive_high: bool = False,
    max_digits: int = 20,
    max_fraction: int = 20,
    max_exponent_digits: int = 3,
    *,
    multiple_of: Fraction | Bound | None = None,
    max_states: int = 20_000,
) -> Automaton:
    """Numbers between ``low`` and ``high``: no leading zeros and no plus in front.

    With a bound, no exponent and no negative zero is offered; with ``multiple_of`` no exponent.

    Args:
        low: lower bound, None for none; a float means the decimal number it is written as.
        high: upper bound, None for none.
        exclusive_low: whether ``low`` itself is excluded.
        exclusive_high: whether ``high`` itself is excluded.
        max_digits: most digits before the point; a bound with more digits extends it.
        max_fraction: most digits after the point; a bound or a multiple with more extends it.
        max_exponent_digits: most digits of an exponent, 0 for no exponents.
        multiple_of: what the number must be a multiple of, exactly in decimal: 0.3 is one of 0.1.
        max_states: limit on the states for ``multiple_of``.

    Raises:
        SpecificationError: a bound is not a number, or ``multiple_of`` is not above 0.
        ComplexityError: a bound has more than MAX_DIGITS digits, or ``multiple_of`` needs too many states.
    """
    bounded = low is not None or high is not None
    least = None if low is None else _decimal(low)
    most = None if high is None else _decimal(high)
    step = None if multiple_of is None else exact_step(multiple_of)
    if step is not None:
        max_fraction, max_exponent_digits = max(max_fraction, decimal_places(step)), 0
    signs = _signs(least, most, max_digits, max_fraction, bounded, exclusive_low, exclusive_high)
    states, start = _numbers(signs, 0 if bounded else max_exponent_digits)
    if step is None:
        return states.automaton(start)
    point = any(limits.fraction for limits in signs.values())
    return states.intersection(start, multiples(step, point, max_states), max_states)


def _decimal(bound: Bound) -> Decimal:
    value = Decimal(repr(bound)) if isinstance(bound, float) else Decimal(bound)
    if not value.is_finite():
        raise SpecificationError(f"{bound!r} is no bound for a number: use None for no limit")
    if value and not -MAX_DIGITS < value.adjusted() < MAX_DIGITS:
        raise ComplexityError(f"the bound {value:.3e} has more than {MAX_DIGITS} digits (a fixed limit)")
    return value


@dataclass(frozen=True)
class _Magnitude:
    """A bound without its sign: digits before and after the point, no zeros in front or at the end."""

    whole: str
    fraction: str
    excluded: bool


@dataclass(frozen=True)
class _Limits:
    """What the digits of one sign may be: bounds, most digits before and after the point."""

    low: _Magnitude | None
    high: _Magnitude | None
    digits: int
    fraction: int


def _signs(
    low: Decimal | None,
    high: Decimal | None,
    max_digits: int,
    max_fraction: int,
    bounded: bool,
    exclusive_low: bool = False,
    exclusive_high: bool = False,
) -> dict[bool, _Limits]:
    """Limits for numbers without (False) and with (True) a minus, where there are such numbers."""
    above = None if low is None else _magnitude(low, exclusive_low)
    below = None if high is None else _magnitude(high, exclusive_high)

    def digits(least: _Magnitude | None, most: _Magnitude | None) -> int:
        # a number with more digits than its upper bound is above it
        return len(most.whole) if most else max(max_digits, len(least.whole) if least else 1)

    known = [magnitude for magnitude in (above, below) if magnitude is not None]
    fraction = max([max_fraction, *(len(magnitude.fraction) for magnitude in known)])
    signs = {}
    if high is None or high >= 0:
        least = above if low is not None and low >= 0 else None
        signs[False] = _Limits(least, below, digits(least, below), fraction)
    if low is None or low < 0:
        # bounded numbers have no negative zero: what follows a minus is above 0
        least = below if high is not None and high < 0 else _magnitude(Decimal(0), True) if bounded else None
        signs[True] = _Limits(least, above, digits(least, above), fraction)
    return signs


def _magnitude(value: Decimal, excluded: bool) -> _Magnitude:
    whole, _, fraction = format(abs(value), "f").partition(".")
    return _Magnitude(whole.lstrip("0") or "0", fraction.rstrip("0"), excluded)


# Automata


def _numbers(signs: dict[bool, _Limits], max_exponent_digits: int, zero_fraction: int = 0) -> tuple[DigitStates, int]:
    states = DigitStates()
    exponent = _exponent(states, max_exponent_digits)
    zeros = _zeros(states, zero_fraction)
    starts = {negative: _Wholes(states, limits, exponent, zeros).start() for negative, limits in signs.items()}
    minus = states.add(False, starts[True]) if True in starts else DEAD
    return states, states.add(False, starts.get(False, NO_DIGITS), minus=minus)


def _exponent(states: DigitStates, max_digits: int) -> int:
    """The state after an e."""
    if max_digits < 1:
        return DEAD
    rest = DEAD
    for _ in range(max_digits):
        rest = states.add(True, (rest,) * 10)
    signed = states.add(False, (rest,) * 10)
    return states.add(False, (rest,) * 10, plus=signed, minus=signed)


def _zeros(states: DigitStates, most: int) -> int:
    """The state after a point that only zeros follow."""
    if most < 1:
        return DEAD
    rest = DEAD
    for _ in range(most):
        rest = states.add(True, (rest, *[DEAD] * 9))
    return states.add(False, (rest, *[DEAD] * 9))


_COMPARED = tuple(tuple((digit > other) - (digit < other) for digit in range(10)) for other in range(10))
"""For a digit of a bound the comparisons of all digits with it."""


class _Wholes:
    """The states of one sign before the point. A side of a comparison is -1 below, 0 equal so far, 1 above."""

    def __init__(self, states: DigitStates, limits: _Limits, exponent: int, zeros: int) -> None:
        self.states, self.limits, self.exponent, self.zeros = states, limits, exponent, zeros
        self.fractions = _fractions(states, limits, exponent)
        self.lows = (-1, 0, 1) if limits.low else (1,)
        self.highs = (-1, 0, 1) if limits.high else (-1,)

    def start(self) -> tuple[int, ...]:
        """The states after each first digit."""
        following: dict[tuple[int, int], int] = {}
        for digits in range(self.limits.digits, 0, -1):
            following = {
                (to_low, to_high): self._state(digits, to_low, to_high, self._row(digits, to_low, to_high, following))
                for to_low in self.lows
                for to_high in self.highs
            }
        row = self._row(0, 0 if self.limits.low else 1, 0 if self.limits.high else -1, following)
        zero = self._state(1, *self._first_zero(), NO_DIGITS)
        return (zero, *row[1:])

    def _first_zero(self) -> tuple[int, int]:
        low, high = self.limits.low, self.limits.high
        return _COMPARED[int(low.whole[0])][0] if low else 1, _COMPARED[int(high.whole[0])][0] if high else -1

    def _row(self, digits: int, to_low: int, to_high: int, following: dict[tuple[int, int], int]) -> tuple[int, ...]:
        """The states after one more digit."""
        if digits >= self.limits.digits:
            return NO_DIGITS
        low, high = self.limits.low, self.limits.high
        by_low = low is not None and not to_low and digits < len(low.whole)
        by_high = high is not None and not to_high and digits < len(high.whole)
        if not by_low and not by_high:
            return (following[to_low, to_high],) * 10
        to_lows = _COMPARED[int(low.whole[digits])] if by_low and low else (to_low,) * 10
        to_highs = _COMPARED[int(high.whole[digits])] if by_high and high else (to_high,) * 10
        return tuple(following[sides] for sides in zip(to_lows, to_highs, strict=True))

    def _state(self, digits: int, to_low: int, to_high: int, row: tuple[int, ...]) -> int:
        """The state after some digits, now compared as if they were all."""
        low, high = self.limits.low, self.limits.high
        to_low = _by_length(to_low, digits, low)
        to_high = _by_length(to_high, digits, high)
        if to_low < 0 or to_high > 0:
            return self.states.add(False, row)
        accepting = (to_low > 0 or _low_ends(low, 0)) and (to_high < 0 or _high_ends(high, 0))
        point = self.fractions.get((not to_low, not to_high), DEAD)
        if accepting and self.zeros != DEAD:
            point = self.zeros
        return self.states.add(accepting, row, point=point, exponent=self.exponent if accepting else DEAD)


def _by_length(so_far: int, digits: int, bound: _Magnitude | None) -> int:
    """The comparison of a whole number with a bound's digits before the point, now that its length is known."""
    if bound is None or digits == len(bound.whole):
        return so_far
    return 1 if digits > len(bound.whole) else -1


def _low_ends(bound: _Magnitude | None, digits: int) -> bool:
    """Whether a number equal to the lower bound in ``digits`` digits after the point may end."""
    return bound is None or (len(bound.fraction) <= digits and not bound.excluded)


def _high_ends(bound: _Magnitude | None, digits: int) -> bool:
    return bound is None or len(bound.fraction) > digits or not bound.excluded


def _fractions(states: DigitStates, limits: _Limits, exponent: int) -> dict[tuple[bool, bool], int]:
    """The states after the point: whether the whole numbers before it were equal to those of low and high."""
    if not limits.fraction:
        return {}
    low = limits.low.fraction.ljust(limits.fraction, "0") if limits.low else None
    high = limits.high.fraction.ljust(limits.fraction, "0") if limits.high else None
    cases: list[tuple[bool, bool]] = [
        (a, b) for a in ((False, True) if low else (False,)) for b in ((False, True) if high else (False,))
    ]
    following = dict.fromkeys(cases, DEAD)
    for digits in range(limits.fraction, -1, -1):
        # past its last digit a bound goes on with zeros
        here: dict[tuple[bool, bool], int] = {}
        for on_low, on_high in cases:
            if on_low and _low_ends(limits.low, digits):  # whatever follows is not below
                here[on_low, on_high] = here[False, on_high]
                continue
            row: tuple[int, ...] = NO_DIGITS
            if digits < limits.fraction:
                least = int(low[digits]) if on_low and low else -1
                most = int(high[digits]) if on_high and high else 10
                row = _between(least, most, following)
            accepting = (
                digits > 0
                and (not on_low or _low_ends(limits.low, digits))
                and (not on_high or _high_ends(limits.high, digits))
            )
            here[on_low, on_high] = states.add(accepting, row, exponent=exponent if accepting else DEAD)
        following = here
    return following


def _between(least: int, most: int, following: dict[tuple[bool, bool], int]) -> tuple[int, ...]:
    """The states after each digit from ``least`` to ``most``; strictly between, no bound matters any more."""
    free = following[False, False]
    if least < 0 and most > 9:
        return (free,) * 10
    return tuple(
        DEAD
        if digit < least or digit > most
        else following[digit == least, digit == most]
        if digit in (least, most)
        else free
        for digit in range(10)
    )
