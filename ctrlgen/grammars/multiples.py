"""Multiples of a number, exactly, on the decimal text: a state is a remainder and the digits after the point so far.

A text with digits N and j of them after the point is a multiple of M / 10**s if and only if N * 10**(s - j) is one of
M, that is if N is one of M / gcd(M, 10**(s - j)). More than s digits after the point can only be zeros.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError, SpecificationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALL = 64  # states that are minimised without a first pass in numpy

_BITS = 4_000
_TOO_LONG = "multiple_of has more than 1000 digits (a fixed limit)"

_MINUS, _POINT, _OTHER = 10, 11, 12


def exact_step(multiple_of: Fraction | Decimal | float) -> Fraction:
    """What decimal numbers that are multiples of ``multiple_of`` are multiples of: a number of finitely many digits.

    A decimal number is a multiple of 1/3 if and only if it is one of 1. A float means the decimal it is written as.

    Raises:
        SpecificationError: it is not a number above 0.
    """
    exact = Decimal(repr(multiple_of)) if isinstance(multiple_of, float) else multiple_of
    if (isinstance(exact, Decimal) and not exact.is_finite()) or exact <= 0:
        raise SpecificationError(f"multiple_of={multiple_of}: expected a number above 0")
    if isinstance(exact, Decimal) and (abs(exact.adjusted()) > 1_000 or len(exact.as_tuple().digits) > 1_000):
        raise ComplexityError(_TOO_LONG)
    step = Fraction(exact)
    if max(step.numerator, step.denominator).bit_length() > _BITS:
        raise ComplexityError(_TOO_LONG)
    rest = step.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return step * rest


def decimal_places(step: Fraction) -> int:
    """Digits after the point of a number that has finitely many."""
    places = 0
    while (step * 10**places).denominator > 1:
        places += 1
    return places


@lru_cache(64)
def multiples(step: Fraction, point: bool, max_states: int) -> Automaton:
    """Texts of digits, at most one point and a minus in front whose value is a multiple of ``step``.

    Only meant to be intersected with numbers: zeros in front, and a minus or point without digits, are not refused.

    Args:
        step: above 0, a finite decimal (see ``exact_step``).
        point: whether the numbers may have a point.
        max_states: limit on the states before minimising.

    Raises:
        ComplexityError: more than ``max_states`` states.
    """
    places = decimal_places(step)
    whole = (step * 10**places).numerator
    moduli = [whole // gcd(whole, 10 ** (places - place)) for place in range(places + 1)]
    count = moduli[0] + (sum(moduli) if point else 0)
    if count > max_states:
        raise ComplexityError(
            f"multiples of {step} take {count} states, the limit is max_states={max_states}; raise max_states"
        )
    table, accepting = _remainders(moduli, point)
    if count > _SMALL:
        table, accepting = _coarsest(table, accepting)
    classes = np.full(256, _OTHER, dtype=np.intp)
    classes[list(b"0123456789-.")] = np.arange(_OTHER)
    return Automaton.from_table(table, accepting, np.ones_like(accepting), classes=classes)


def _remainders(moduli: list[int], point: bool) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """int32[S, 13], bool[S]: states of whole numbers, then those after 0, 1 ... digits behind the point."""
    digits = np.arange(10)
    sizes = [moduli[0], *(moduli if point else [])]
    starts = np.cumsum([0, *sizes])
    table = np.full((starts[-1], _OTHER + 1), -1, dtype=np.int32)
    accepting = np.zeros(starts[-1], dtype=bool)
    accepting[starts[:-1]] = True
    remainder = np.arange(moduli[0])
    table[: moduli[0], :10] = (10 * remainder[:, None] + digits) % moduli[0]
    table[0, _MINUS] = 0
    if point:
        table[: moduli[0], _POINT] = starts[1] + remainder
        for place, modulus in enumerate(moduli[1:], start=1):
            here = table[starts[place] : starts[place + 1], :10]
            here[:] = starts[place + 1] + (10 * np.arange(len(here))[:, None] + digits) % modulus
        table[starts[-2], 0] = starts[-2]
    return table, accepting


def _coarsest(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Equivalent states merged, by Moore's refinement; a multiple of 10**k takes k rounds."""
    following = np.vstack((table, np.full((1, table.shape[1]), len(table), dtype=np.int32)))
    following[following < 0] = len(table)
    class_of = np.append(accepting, False).astype(np.int64)
    known = 0
    while True:
        _, first, class_of = np.unique(
            np.column_stack((class_of, class_of[following])), axis=0, return_index=True, return_inverse=True
        )
        class_of = class_of.reshape(-1)
        if len(first) == known:
            break
        known = len(first)
    # the start first; the class of the dead state is -1
    place = np.full(known, -1, dtype=np.int32)
    order = [c for c in dict.fromkeys(class_of[:-1].tolist()) if c != class_of[-1]]
    place[order] = np.arange(len(order))
    kept = first[order]
    return place[class_of[following[kept]]], accepting[kept]
