"""Byte automata against sets of strings, enumerated."""

from __future__ import annotations

import pickle
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError

LENGTH = 4
STRINGS = [bytes(letters) for length in range(LENGTH + 1) for letters in product(b"ab", repeat=length)]


def language(automaton: Automaton) -> set[bytes]:
    return {string for string in STRINGS if automaton.matches(string)}


def finite(words: set[bytes]) -> Automaton:
    return Automaton.from_strings(words)


words = st.sets(st.binary(max_size=3).map(lambda data: bytes(97 + byte % 2 for byte in data)), max_size=6)


@st.composite
def automata(draw: st.DrawFn) -> Automaton:
    """Any table over "ab" with a few states, cycles included."""
    size = draw(st.integers(1, 5))
    table = np.full((size, 256), -1, dtype=np.int32)
    for state in range(size):
        for byte in b"ab":
            table[state, byte] = draw(st.integers(-1, size - 1))
    accepting = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    return Automaton.from_table(table, accepting, np.ones(size, dtype=bool))


def equal(a: Automaton, b: Automaton) -> bool:
    arrays = [(a.next, b.next), (a.accepting, b.accepting), (a.boundary, b.boundary)]
    return a.signature == b.signature and all(np.array_equal(x, y) for x, y in arrays)


@settings(max_examples=60, deadline=None)
@given(automata(), automata())
def test_boolean_operations_are_those_of_sets(a: Automaton, b: Automaton) -> None:
    assert language(a & b) == language(a) & language(b)
    assert language(a | b) == language(a) | language(b)
    assert language(a - b) == language(a) - language(b)
    assert equal((a - b) | (a & b), a)
    assert equal(a | b, b | a)
    assert (a - a).is_empty


@settings(deadline=None)
@given(automata(), automata())
def test_concatenation(a: Automaton, b: Automaton) -> None:
    joined = a.then(b)
    for string in STRINGS:
        splits = range(len(string) + 1)
        assert joined.matches(string) == any(a.matches(string[:i]) and b.matches(string[i:]) for i in splits)


@settings(deadline=None)
@given(words, st.integers(0, 3), st.one_of(st.none(), st.integers(0, 3)))
def test_repetition(strings: set[bytes], low: int, more: int | None) -> None:
    high = None if more is None else low + more
    powers, expected = {b""}, set()
    for count in range((high if high is not None else low + LENGTH) + 1):
        expected |= powers if count >= low else set()
        powers = {a + b for a in powers for b in strings if len(a + b) <= LENGTH}
    assert language(finite(strings).repeat(low, high)) == {string for string in expected if len(string) <= LENGTH}


@settings(max_examples=60, deadline=None)
@given(automata(), st.integers(0, 3), st.integers(0, 2))
def test_repetition_is_repeated_concatenation(a: Automaton, low: int, more: int) -> None:
    expected = Automaton.epsilon()
    for _ in range(low):
        expected = expected.then(a)
    for _ in range(more):
        expected = expected.then(a.optional())
    assert equal(a.repeat(low, low + more), expected)
    star = a.repeat(0, None)
    assert equal(a.repeat(low, None), a.repeat(low, low).then(star))
    assert equal(star, Automaton.epsilon() | a.then(star))


@settings(deadline=None)
@given(automata())
def test_canonical(a: Automaton) -> None:
    again = Automaton.from_table(a.next, a.accepting, a.boundary)
    assert equal(a, again)
    assert equal(pickle.loads(pickle.dumps(a)), a)
    # no two states agree on all continuations, every state has one
    behaviours = []
    for state in range(len(a.next)):
        ends = [a.advance(state, string) for string in [*STRINGS, *(x + y for x in STRINGS for y in STRINGS)]]
        behaviours.append(tuple(end >= 0 and bool(a.accepting[end]) for end in ends))
    assert len(set(behaviours)) == len(behaviours)
    assert a.is_empty or all(any(behaviour) for behaviour in behaviours)


@settings(deadline=None)
@given(automata())
def test_shortest(a: Automaton) -> None:
    if a.is_empty:
        with pytest.raises(ValueError, match="empty"):
            a.shortest()
        return
    shortest = a.shortest()
    assert a.matches(shortest)
    assert not any(a.matches(string) for string in STRINGS if (len(string), string) < (len(shortest), shortest))


@settings(max_examples=60, deadline=None)
@given(st.sets(st.one_of(st.binary(max_size=4), st.text(max_size=4).map(str.encode)), max_size=12))
def test_from_strings_agrees_with_unions(strings: set[bytes]) -> None:
    automaton = Automaton.from_strings(strings)
    for string in strings:
        assert automaton.matches(string)
        assert automaton.matches(string[:-1]) == (string[:-1] in strings)
        assert automaton.matches(string + b"a") == (string + b"a" in strings)
    assert equal(Automaton.from_table(automaton.next, automaton.accepting, automaton.boundary), automaton)


@settings(deadline=None)
@given(st.sets(st.text(max_size=4), max_size=8))
def test_boundaries_are_those_of_characters(texts: set[str]) -> None:
    automaton = Automaton.from_strings(text.encode() for text in texts)
    for text in texts:
        data = text.encode()
        ends = {len(text[:i].encode()) for i in range(len(text) + 1)}
        for length in range(len(data) + 1):
            assert automaton.boundary[automaton.advance(0, data[:length])] == (length in ends)
    assert equal(automaton & Automaton.anything(), automaton)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=6), st.text(max_size=4).map(str.encode)))
def test_anything_is_valid_utf8(data: bytes) -> None:
    try:
        data.decode()
        valid = True
    except UnicodeDecodeError:
        valid = False
    assert Automaton.anything().matches(data) == valid


def test_anything_on_all_short_sequences() -> None:
    anything = Automaton.anything()
    tails = [b"", b"\x80", b"\xbf", b"\x80\x80", b"\xbf\xbf", b"\x80\x80\x80"]
    for lead, second, tail in product(range(0x80, 256), range(256), tails):
        data = bytes((lead, second)) + tail
        assert anything.matches(data) == (data.decode(errors="ignore").encode() == data)


def test_arrays_are_read_only() -> None:
    automaton = pickle.loads(pickle.dumps(Automaton.from_strings([b"ab"])))
    with pytest.raises(ValueError, match="read-only"):
        automaton.next[0, 0] = 1


def test_constants() -> None:
    assert Automaton.empty().is_empty
    assert not Automaton.epsilon().is_empty
    assert language(Automaton.epsilon()) == {b""}
    assert equal(Automaton.from_strings([]), Automaton.empty())
    assert equal(Automaton.from_strings([b""]), Automaton.epsilon())
    assert len(Automaton.epsilon().signature) == 16


def test_limits_name_option_and_count() -> None:
    a = Automaton.from_strings([b"aaaaaaaaaa"])
    with pytest.raises(ComplexityError, match=r"union reached \d+ states, the limit is max_states=5"):
        a.union(a, max_states=5)
    with pytest.raises(ComplexityError, match=r"max_states=5 states \(reached"):
        Automaton.from_strings([b"abcdefgh"], max_states=5)
    with pytest.raises(ComplexityError, match="max_states=100"):
        a.repeat(0, 1000, max_states=100)
    with pytest.raises(ValueError, match="0 <= low <= high"):
        a.repeat(3, 2)


@pytest.mark.timeout(20)
def test_many_strings() -> None:
    numbers = [b"%d" % (n * 7919) for n in range(50_000)]
    automaton = Automaton.from_strings(numbers)
    assert all(automaton.matches(number) for number in numbers[::97])
    assert not automaton.matches(b"7918")


def test_a_folded_automaton_is_the_same() -> None:
    automaton = Automaton.from_strings([b"ab", b"cd"]).repeat(0, None).then(Automaton.from_strings(["é".encode()]))
    table, signature = automaton.next.copy(), automaton.signature
    automaton.fold()
    assert "next" not in vars(automaton)
    assert automaton.signature == signature
    assert automaton.matches("abcdabé".encode())
    assert np.array_equal(automaton.next, table)
    assert not automaton.next.flags.writeable
    with pytest.raises(AttributeError, match="no attribute 'prev'"):
        automaton.prev  # noqa: B018
