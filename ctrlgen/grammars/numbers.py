"""Numbers between bounds, as JSON writes them, exactly: a digit at a time, compared with the digits of the bounds.

After the same number of digits a prefix is below, equal to or above that prefix of a bound; this and the number of
digits read decide everything, so automata stay small whatever the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil, floor
from typing import TypeVar

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError, SpecificationError

Bound = int | float | Decimal

MAX_DIGITS = 1_000
"""Longest bound, in digits; a longer one is refused."""

State = TypeVar("State", bound=Hashable)


def integer(
    low: Bound | None = None,
    high: Bound | None = None,
    max_digits: int = 20,
    *,
    multiple_of: int | None = None,
    max_states: int = 20_000,
) -> Automaton:
    """Integers from ``low`` to ``high``: no leading zeros, no plus, no "-0", no fraction or exponent.

    Args:
        low: the smallest, None for no limit; a fraction is rounded up.
        high: the largest, None for no limit; a fraction is rounded down.
        max_digits: most digits, so that a model cannot write digits for ever; a bound with more digits extends it.
        multiple_of: what must divide the number.
        max_states: limit on the states for ``multiple_of``.

    Raises:
        SpecificationError: a bound is not a number, or ``multiple_of`` is below 1.
        ComplexityError: a bound has more than MAX_DIGITS digits, or ``multiple_of`` needs too many states.
    """
    least = None if low is None else Decimal(ceil(_decimal(low)))
    most = None if high is None else Decimal(floor(_decimal(high)))
    signs = _signs(least, most, max_digits, max_fraction=0, bounded=True)
    numbers = _numbers(signs, b"0123456789-")
    if multiple_of is None:
        return numbers
    return numbers.intersection(_multiples(multiple_of, max_states), max_states=max_states)


def number(
    low: Bound | None = None,
    high: Bound | None = None,
    exclusive_low: bool = False,
    exclusive_high: bool = False,
    max_digits: int = 20,
    max_fraction: int = 20,
    max_exponent_digits: int = 3,
) -> Automaton:
    """Numbers between ``low`` and ``high``: no leading zeros and no plus in front.

    With a bound, no exponent and no negative zero is offered.

    Args:
        low: lower bound, None for none; a float means the decimal number it is written as.
        high: upper bound, None for none.
        exclusive_low: whether ``low`` itself is excluded.
        exclusive_high: whether ``high`` itself is excluded.
        max_digits: most digits before the point; a bound with more digits extends it.
        max_fraction: most digits after the point; a bound with more extends it.
        max_exponent_digits: most digits of an exponent, 0 for no exponents.

    Raises:
        SpecificationError: a bound is not a number.
        ComplexityError: a bound has more than MAX_DIGITS digits.
    """
    bounded = low is not None or high is not None
    least = None if low is None else _decimal(low)
    most = None if high is None else _decimal(high)
    signs = _signs(least, most, max_digits, max_fraction, bounded, exclusive_low, exclusive_high)
    if not bounded:
        signs = {sign: replace(limits, exponent=max_exponent_digits) for sign, limits in signs.items()}
    return _numbers(signs, b"0123456789-.eE+")


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
    """What the digits of one sign may be."""

    low: _Magnitude | None
    high: _Magnitude | None
    digits: int
    fraction: int
    exponent: int = 0


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


# States while a number is read; a side of a comparison is -1 below, 0 equal so far, 1 above


@dataclass(frozen=True)
class _Start:
    negative: bool = False


@dataclass(frozen=True)
class _Whole:
    negative: bool
    digits: int
    zero: bool
    to_low: int
    to_high: int


@dataclass(frozen=True)
class _Fraction:
    negative: bool
    digits: int
    to_low: int
    to_high: int


@dataclass(frozen=True)
class _Exponent:
    digits: int
    signed: bool


_State = _Start | _Whole | _Fraction | _Exponent
_Signs = dict[bool, _Limits]


def _advance(state: _State, byte: int, signs: _Signs) -> _State | None:
    """The state after a byte, None if it is refused."""
    if isinstance(state, _Start):
        if byte == ord("-"):
            return _Start(True) if not state.negative and True in signs else None
        if state.negative not in signs:
            return None
        return _read_whole(_Whole(state.negative, 0, False, 0, 0), byte, signs)
    if isinstance(state, _Exponent):
        if byte in b"+-":
            return _Exponent(0, True) if not state.digits and not state.signed else None
        limit = max(limits.exponent for limits in signs.values())
        return _Exponent(state.digits + 1, True) if chr(byte).isdigit() and state.digits < limit else None
    if byte in b"eE":
        ends_in_digit = isinstance(state, _Whole) or state.digits > 0
        return _Exponent(0, False) if signs[state.negative].exponent and ends_in_digit else None
    if isinstance(state, _Fraction):
        return _read_fraction(state, byte, signs)
    if byte == ord("."):
        limits = signs[state.negative]
        if not limits.fraction:
            return None
        return _Fraction(state.negative, 0, _by_length(state, "low", limits), _by_length(state, "high", limits))
    return _read_whole(state, byte, signs)


def _read_whole(state: _Whole, byte: int, signs: _Signs) -> _Whole | None:
    limits = signs[state.negative]
    if not chr(byte).isdigit() or state.zero or state.digits >= limits.digits:
        return None
    return _Whole(
        state.negative,
        state.digits + 1,
        state.digits == 0 and byte == ord("0"),
        _compared(state.to_low, byte, limits.low.whole if limits.low else None, state.digits),
        _compared(state.to_high, byte, limits.high.whole if limits.high else None, state.digits),
    )


def _read_fraction(state: _Fraction, byte: int, signs: _Signs) -> _Fraction | None:
    limits = signs[state.negative]
    if not chr(byte).isdigit() or state.digits >= limits.fraction:
        return None
    # past its last digit a bound goes on with zeros
    low = limits.low.fraction.ljust(limits.fraction, "0") if limits.low else None
    high = limits.high.fraction.ljust(limits.fraction, "0") if limits.high else None
    to_low = _compared(state.to_low, byte, low, state.digits)
    return _Fraction(state.negative, state.digits + 1, to_low, _compared(state.to_high, byte, high, state.digits))


def _compared(so_far: int, byte: int, bound: str | None, place: int) -> int:
    """The comparison with a bound after one more digit."""
    if so_far or bound is None or place >= len(bound):
        return so_far
    digit = ord(bound[place])
    return (byte > digit) - (byte < digit)


def _by_length(state: _Whole, side: str, limits: _Limits) -> int:
    """The comparison of a whole number with a bound's digits before the point, now that its length is known."""
    bound, so_far = (limits.low, state.to_low) if side == "low" else (limits.high, state.to_high)
    if bound is None or state.digits == len(bound.whole):
        return so_far
    return 1 if state.digits > len(bound.whole) else -1


def _ends(state: _State, signs: _Signs) -> bool:
    """Whether a number may end here."""
    if isinstance(state, _Start):
        return False
    if isinstance(state, _Exponent):
        return state.digits > 0
    limits = signs[state.negative]
    if isinstance(state, _Whole):
        to_low, to_high = _by_length(state, "low", limits), _by_length(state, "high", limits)
        digits = 0
    else:
        to_low, to_high, digits = state.to_low, state.to_high, state.digits
        if not digits:
            return False
    return _above(to_low, limits.low, digits) and _below(to_high, limits.high, digits)


def _above(compared: int, bound: _Magnitude | None, fraction_digits: int) -> bool:
    if bound is None or compared:
        return bound is None or compared > 0
    return len(bound.fraction) <= fraction_digits and not bound.excluded


def _below(compared: int, bound: _Magnitude | None, fraction_digits: int) -> bool:
    if bound is None or compared:
        return bound is None or compared < 0
    return len(bound.fraction) > fraction_digits or not bound.excluded


# Automata from states and moves


def _numbers(signs: _Signs, alphabet: bytes) -> Automaton:
    start: _State = _Start()
    return _explore(
        start, lambda state, byte: _advance(state, byte, signs), lambda state: _ends(state, signs), alphabet
    )


def _explore(
    start: State, move: Callable[[State, int], State | None], ends: Callable[[State], bool], alphabet: bytes
) -> Automaton:
    """The automaton of everything reachable from ``start``."""
    place: dict[State | None, int] = {None: -1, start: 0}
    order = [start]
    rows = []
    for state in order:
        row = []
        for byte in alphabet:
            target = move(state, byte)
            reached = place.setdefault(target, len(order))
            if reached == len(order) and target is not None:
                order.append(target)
            row.append(reached)
        rows.append([*row, -1])
    classes = np.full(256, len(alphabet), dtype=np.intp)
    classes[list(alphabet)] = np.arange(len(alphabet))
    accepting = _flags(ends(state) for state in order)
    return Automaton.from_table(np.array(rows, dtype=np.int32), accepting, np.ones_like(accepting), classes=classes)


def _flags(values: Iterable[bool]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array(list(values), dtype=bool)


def _multiples(divisor: int, max_states: int) -> Automaton:
    """Multiples of ``divisor`` with any number of digits: a state is the remainder so far."""
    if divisor < 1:
        raise SpecificationError(f"multiple_of={divisor}: expected an integer of at least 1")
    if divisor > max_states:
        raise ComplexityError(
            f"multiples of {divisor} take {divisor} states, the limit is max_states={max_states}; raise max_states"
        )

    def move(state: int, byte: int) -> int | None:
        # -1 before everything, -2 after a minus
        if byte == ord("-"):
            return -2 if state == -1 else None
        return (max(state, 0) * 10 + byte - ord("0")) % divisor

    return _explore(-1, move, lambda state: state == 0, b"0123456789-")
