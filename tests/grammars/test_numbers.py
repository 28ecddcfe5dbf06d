"""Numbers against every short string, compared as decimals."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.errors import ComplexityError, SpecificationError
from ctrlgen.grammars.number_complements import non_integer, not_multiple, number_except, told_apart
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


DECIMALS = [text for text in VALUES if "e" not in text] + [
    f"{n}.{f:03}" for n in (0, 3, -12) for f in range(0, 1000, 5)
]
STEPS = ["1", "2", "3", "7", "10", "25", "0.1", "0.01", "0.5", "2.5", "0.25", "0.125", "1.5", "0.3", "12", "0.05"]


@pytest.mark.parametrize("step", [*map(Decimal, STEPS), 0.1, Fraction(1, 8), Fraction(2, 3), Fraction(5, 6), 3])
def test_multiples_of_decimals(step: Decimal | Fraction | float) -> None:
    exact_value = Fraction(repr(step)) if isinstance(step, float) else Fraction(step)
    multiples, others = number(multiple_of=step), not_multiple(step)
    bounded = number(Decimal("-1.5"), 10, exclusive_low=True, multiple_of=step, max_fraction=1)
    for text in DECIMALS:
        value = Fraction(text)
        expected = value % exact_value == 0
        assert multiples.matches(text.encode()) == expected, text
        assert others.matches(text.encode()) != expected, text
        if bounded.matches(text.encode()):
            assert expected, text
            assert -1.5 < value <= 10
    assert not multiples.matches(b"1e1")
    assert not others.matches(b"1e1")


@pytest.mark.parametrize("step", [1, 2, 7, 10, 100, 256, 360, 1000])
def test_multiples_of_integers(step: int) -> None:
    automaton = number(0, 4000, max_fraction=0, multiple_of=step)
    assert [n for n in range(4100) if automaton.matches(b"%d" % n)] == list(range(0, 4001, step))


def test_multiples_have_limits() -> None:
    assert number(0, 1, multiple_of=Decimal("1e-30")).matches(b"0.000000000000000000000000000001")
    with pytest.raises(ComplexityError, match="max_states=20000"):
        number(multiple_of=Decimal("123456.789"))
    with pytest.raises(ComplexityError, match="1000 digits"):
        number(multiple_of=Decimal("1e-5000"))
    with pytest.raises(ComplexityError, match="1000 digits"):
        number(multiple_of=Fraction(1, 2**5000))
    with pytest.raises(ComplexityError, match="1000 digits"):
        integer(multiple_of=10**5000)
    for bad in (0, -1, Decimal("NaN"), float("inf")):
        with pytest.raises(SpecificationError, match="above 0"):
            number(multiple_of=bad)


@settings(max_examples=60, deadline=None)
@given(bounds, bounds, st.sampled_from([None, 2, 5, 10]), st.integers(0, 3))
def test_integers_with_zero_fractions(
    low: Decimal | None, high: Decimal | None, divisor: int | None, zeros: int
) -> None:
    plain = integer(low, high, multiple_of=divisor)
    automaton = integer(low, high, multiple_of=divisor, zero_fraction=zeros)
    for text in TEXTS:
        whole, _, fraction = text.partition(".")
        expected = plain.matches(whole.encode()) and len(fraction) <= zeros and not fraction.strip("0")
        expected = expected and not text.endswith(".")
        assert automaton.matches(text.encode()) == expected, text


def test_numbers_that_are_not_integers() -> None:
    automaton = non_integer(3, 2)
    for text in DECIMALS:
        value = VALUES.get(text, Decimal(text))
        fraction = text.partition(".")[2]
        expected = value != int(value) and abs(value) < 1000 and len(fraction) <= 2
        assert automaton.matches(text.encode()) == expected, text
    assert non_integer(3, 0).is_empty


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.integers(-20, 120), st.decimals(-20, 20, places=2)), max_size=5))
def test_numbers_except(values: list[int | Decimal]) -> None:
    automaton = number_except([*values, 10**30], 4, 3)
    for text in DECIMALS:
        whole, _, fraction = text.lstrip("-").partition(".")
        expected = Decimal(text) not in values and len(whole) <= 4 and len(fraction) <= 3
        assert automaton.matches(text.encode()) == expected, text


def test_excluded_numbers_are_finite() -> None:
    with pytest.raises(SpecificationError, match="JSON"):
        number_except([Decimal("NaN")])
    with pytest.raises(ComplexityError, match="spellings"):
        number_except(range(10_000))


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), Decimal("-Infinity")])
def test_bounds_are_finite(bound: float | Decimal) -> None:
    with pytest.raises(SpecificationError, match="no limit"):
        number(bound)


def test_bounds_have_a_length_limit() -> None:
    with pytest.raises(ComplexityError, match="1000 digits"):
        number(high=Decimal("1E+5000"))


def test_a_float_tells_non_integers_from_integers() -> None:
    automaton = non_integer(20, 20)
    accepted = 0
    for before in range(21):
        for text in (f"{zeros}{last}{more}" for zeros in _RUNS for last in ("1", "9", "5") for more in ("", "0", "9")):
            number = ("3" * before or "0") + "." + text[:20]
            if automaton.matches(number.encode()):
                accepted += 1
                assert not float(number).is_integer(), number
            elif len(text) + before <= 15:
                assert float(number).is_integer(), number
    assert accepted > 500
    assert automaton.matches(b"0.30000000000000004")
    assert automaton.matches(b"-12.30000000000000004")


_RUNS = [digit * length for digit in "09" for length in range(20)]


def test_numbers_that_floats_tell_apart() -> None:
    automaton = told_apart(20, 20)
    for text in (
        "0.1",
        "-0.00000000000000000001",
        "0.00000123456789012345",
        "12345678901234567890",
        "1.12345678901234",
    ):
        assert automaton.matches(text.encode()), text
    for text in ("1.123456789012345", "100000000000000.1", "0.01234567890123456789", "1.", "01", "1e5"):
        assert not automaton.matches(text.encode()), text
    assert told_apart(3, 2).matches(b"123.45")
    assert not told_apart(3, 2).matches(b"0.123")
    assert not told_apart(3, 0).matches(b"0.1")
