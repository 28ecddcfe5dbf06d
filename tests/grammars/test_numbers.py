"""Numbers against every short string, compared as decimals."""

from __future__ import annotations

import re
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.errors import ComplexityError, SpecificationError
from ctrlgen.grammars.numbers import integer, number

CANONICAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")
SHORT = ["".join(letters) for length in range(5) for letters in product("0159-.e+", repeat=length)]
LONGER = ["".join(letters) for letters in product("0159-.", repeat=5)]
TEXTS = SHORT + [text for text in LONGER if CANONICAL.fullmatch(text)]
VALUES = {text: Decimal(text) for text in TEXTS if CANONICAL.fullmatch(text)}

bounds = st.one_of(
    st.none(),
    st.integers(-120, 120),
    st.decimals(-20, 20, places=2),
    st.sampled_from([0, 0.0, 0.1, -0.1, 1e3, -1e3, 1e-3, Decimal("1E+2"), Decimal("-0"), 10**25, -(10**25)]),
)


def exact(bound: int | float | Decimal) -> Decimal:
    return Decimal(repr(bound)) if isinstance(bound, float) else Decimal(bound)


@settings(max_examples=60, deadline=None)
@given(bounds, bounds, st.booleans(), st.booleans())
def test_number(low: Decimal | None, high: Decimal | None, above: bool, below: bool) -> None:
    automaton = number(low, high, above, below)
    bounded = low is not None or high is not None
    for text in TEXTS:
        value = VALUES.get(text)
        expected = value is not None
        if value is not None and bounded:
            expected = "e" not in text and not (text.startswith("-") and value == 0)
            expected &= low is None or value > exact(low) or (value == exact(low) and not above)
            expected &= high is None or value < exact(high) or (value == exact(high) and not below)
        assert automaton.matches(text.encode()) == expected, text


@settings(max_examples=60, deadline=None)
@given(bounds, bounds, st.sampled_from([None, 1, 2, 3, 5, 7, 10, 12, 50]))
def test_integer(low: Decimal | None, high: Decimal | None, divisor: int | None) -> None:
    automaton = integer(low, high, multiple_of=divisor)
    for text in TEXTS:
        expected = re.fullmatch(r"0|-?[1-9][0-9]*", text) is not None
        if expected:
            value = int(text)
            expected = (low is None or value >= exact(low)) and (high is None or value <= exact(high))
            expected = expected and (divisor is None or value % divisor == 0)
        assert automaton.matches(text.encode()) == expected, text


@settings(max_examples=100, deadline=None)
@given(st.integers(-(10**12), 10**12), st.integers(0, 10**12), st.integers(-2, 2))
def test_large_integers_at_the_edges(low: int, width: int, offset: int) -> None:
    high = low + width
    automaton = integer(low, high)
    for value in (low + offset, high + offset, (low + high) // 2):
        assert automaton.matches(b"%d" % value) == (low <= value <= high)


@settings(max_examples=100, deadline=None)
@given(st.decimals(-1000, 1000, places=4), st.decimals(-1000, 1000, places=6))
def test_decimals_at_the_edges(low: Decimal, value: Decimal) -> None:
    text = format(value, "f").encode()
    positive_zero = not (value == 0 and text.startswith(b"-"))
    assert number(low).matches(text) == (value >= low and positive_zero)
    assert number(None, low, exclusive_high=True).matches(text) == (value < low and positive_zero)


def test_digits_are_limited() -> None:
    assert integer().matches(b"9" * 20)
    assert not integer().matches(b"9" * 21)
    assert integer(low=10**24).matches(b"9" * 25)
    assert not number(max_digits=3, max_fraction=2).matches(b"1234")
    assert number(max_digits=3, max_fraction=2).matches(b"123.45")
    assert not number(max_digits=3, max_fraction=2).matches(b"123.456")
    assert number(0, Decimal("0.0001"), max_fraction=2).matches(b"0.0001")
    assert number().matches(b"1e-999")
    assert not number().matches(b"1e1000")
    assert not number(max_exponent_digits=0).matches(b"1e1")


@pytest.mark.parametrize("text", ["-0", "+1", "01", "1.", ".5", "1.0", "1e2", "", "-", "--1"])
def test_integers_have_one_spelling(text: str) -> None:
    assert not integer().matches(text.encode())


def test_contradictory_bounds_are_empty() -> None:
    assert integer(3, 2).is_empty
    assert integer(Decimal("0.2"), Decimal("0.8")).is_empty
    assert number(1, 1, exclusive_low=True).is_empty
    assert number(5, -5).is_empty


def test_multiples() -> None:
    automaton = integer(0, 10**6, multiple_of=997)
    assert automaton.matches(b"0")
    assert automaton.matches(b"%d" % (997 * 1003))
    assert not automaton.matches(b"998")
    with pytest.raises(ComplexityError, match="max_states=20000"):
        integer(multiple_of=30_011)
    with pytest.raises(SpecificationError, match="multiple_of=0"):
        integer(multiple_of=0)


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), Decimal("-Infinity")])
def test_bounds_are_finite(bound: float | Decimal) -> None:
    with pytest.raises(SpecificationError, match="no limit"):
        number(bound)


def test_bounds_have_a_length_limit() -> None:
    with pytest.raises(ComplexityError, match="1000 digits"):
        number(high=Decimal("1E+5000"))
