"""Numbers that are not something: what ``not`` asks for.

Complements are by value: 1, 1.0 and 1.00 fall on one side. Exponents are not offered: with them, whether a number is
an integer, a multiple or a given value depends on digits read before the exponent without limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError, SpecificationError
from ctrlgen.grammars.digits import DEAD, DigitStates
from ctrlgen.grammars.multiples import decimal_places, exact_step, multiples
from ctrlgen.grammars.numbers import MAX_DIGITS, Bound, number

SIGNIFICANT = 15
"""Decimal digits that a float tells apart."""

MAX_TEXTS = 200_000
"""Most spellings of excluded values."""


def non_integer(max_digits: int = 20, max_fraction: int = 20) -> Automaton:
    """Numbers with a fraction that is not zero, nor so small or near 1 that a float reads them as an integer.

    Args:
        max_digits: most digits before the point.
        max_fraction: most digits after the point.
    """
    states = DigitStates()
    free = [states.add(True)]  # by the number of digits that may follow
    for _ in range(max_fraction):
        free.append(states.add(True, (free[-1],) * 10))

    def point(before: int) -> int:
        """The state after the point: zeros and nines alone may fill only the digits that a float tells apart."""
        window = max_fraction if not before else max(SIGNIFICANT - before, 0)
        zero, nine = DEAD, states.add(True)
        for left in range(max(max_fraction - window, 0), max_fraction):
            then = free[left]
            if max_fraction - left <= SIGNIFICANT - before:
                after, nine = nine, states.add(True, (*[then] * 9, nine))
            else:
                after = then
            zero = states.add(False, (zero, *[then] * 8, after))
        return zero

    alone, whole = states.add(False, point=point(0)), DEAD
    for digits in range(max_digits, 0, -1):
        whole = states.add(False, (whole,) * 10, point=point(digits))
    first = (alone, *[whole] * 9)
    return states.automaton(states.add(False, first, minus=states.add(False, first)))


@lru_cache(8)
def told_apart(max_digits: int = 20, max_fraction: int = 20) -> Automaton:
    """Numbers with so few digits after the point that no two of them are read as the same float.

    A float tells 15 significant digits apart, so that 1e15 + 0.1 is none of these, and a reader may take it for an
    integer. Integers may have any number of digits.

    Args:
        max_digits: most digits before the point.
        max_fraction: most digits after the point.
    """
    states = DigitStates()
    behind = [states.add(True)]  # by the number of digits that may follow
    for _ in range(max(SIGNIFICANT, max_fraction)):
        behind.append(states.add(True, (behind[-1],) * 10))
    small = states.add(True)  # after zeros only
    for left in range(1, max_fraction):
        small = states.add(True, (small, *[behind[min(left, SIGNIFICANT) - 1]] * 9))
    point = states.add(False, (small, *[behind[min(max_fraction, SIGNIFICANT) - 1]] * 9)) if max_fraction else DEAD
    alone, whole = states.add(True, point=point), DEAD
    for digits in range(max_digits, 0, -1):
        left = min(SIGNIFICANT - digits, max_fraction)
        point = states.add(False, (behind[left - 1],) * 10) if left > 0 else DEAD
        whole = states.add(True, (whole,) * 10, point=point)
    first = (alone, *[whole] * 9)
    return states.automaton(states.add(False, first, minus=states.add(False, first)))


def not_multiple(
    multiple_of: Fraction | Bound, max_digits: int = 20, max_fraction: int = 20, *, max_states: int = 20_000
) -> Automaton:
    """Numbers that are no multiple of ``multiple_of``.

    Args:
        multiple_of: a number above 0; a float means the decimal it is written as.
        max_digits: most digits before the point.
        max_fraction: most digits after the point; a multiple with more extends it.
        max_states: limit on the states.

    Raises:
        SpecificationError: ``multiple_of`` is not above 0.
        ComplexityError: it needs too many states.
    """
    step = exact_step(multiple_of)
    max_fraction = max(max_fraction, decimal_places(step))
    numbers = number(max_digits=max_digits, max_fraction=max_fraction, max_exponent_digits=0)
    return numbers.difference(multiples(step, max_fraction > 0, max_states), max_states=max_states)


def number_except(values: Iterable[Bound], max_digits: int = 20, max_fraction: int = 20) -> Automaton:
    """Numbers whose value is none of ``values``.

    Args:
        values: finite numbers; a float means the decimal it is written as.
        max_digits: most digits before the point.
        max_fraction: most digits after the point.

    Raises:
        SpecificationError: a value is not finite.
        ComplexityError: the values have more than MAX_TEXTS spellings.
    """
    numbers = number(max_digits=max_digits, max_fraction=max_fraction, max_exponent_digits=0)
    texts = {text for value in values for text in _spellings(value, max_digits, max_fraction)}
    if len(texts) > MAX_TEXTS:
        raise ComplexityError(f"the excluded numbers have {len(texts)} spellings, the limit is {MAX_TEXTS}")
    return numbers - Automaton.from_strings(sorted(texts)) if texts else numbers


def _spellings(value: Bound, max_digits: int, max_fraction: int) -> list[bytes]:
    """All texts of a value within the limits, without exponents."""
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite():
        raise SpecificationError(f"{value!r} is no number that JSON can write")
    if exact and abs(exact.adjusted()) > MAX_DIGITS:
        return []  # outside all limits
    whole, _, fraction = format(abs(exact), "f").partition(".")
    whole, fraction = whole.lstrip("0") or "0", fraction.rstrip("0")
    if len(whole) > max_digits or len(fraction) > max_fraction:
        return []
    least = max(len(fraction), 1)
    fractions = [f".{fraction.ljust(digits, '0')}" for digits in range(least, max_fraction + 1)]
    signs = ["-", ""] if exact == 0 else ["-" if exact < 0 else ""]
    return [
        f"{sign}{whole}{end}".encode() for sign in signs for end in ([*fractions] if fraction else ["", *fractions])
    ]
