"""Machines against languages by enumeration: random networks on the toy vocabulary, recursion, counting, keys."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.automaton import Automaton
from ctrlgen.constraint import DEAD
from ctrlgen.engine.containers import Between, Members, Others, Slot
from ctrlgen.engine.machine import FINISHED, Machine, compile_network
from ctrlgen.engine.network import END, NAME, RETURN, Network
from ctrlgen.errors import ComplexityError, UnsatisfiableError
from ctrlgen.testing import Enumerated, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary
from tests.threads import at_once

VOCABULARY = toy_vocabulary()
BYTES = Vocabulary([bytes([b]) for b in range(256)] + [b"ab", b'":"', b'a"', b'a":', b'"}', b"aab", None], eos=262)

# a network as a value: (kind, parts); its language is a set of texts
_leaf = st.one_of(
    st.sampled_from([b"a", b"b", b"ab", b"c", b"abc", " é".encode()]).map(lambda t: ("literal", t)),
    st.frozensets(st.sampled_from([b"", b"a", b"ab", b"b", b"bc", b"cab"]), min_size=1).map(lambda s: ("lexeme", s)),
    st.frozensets(st.sampled_from([b"a", b"ab", b"b", b"bc", b"cab"]), min_size=1).map(lambda s: ("strings", s)),
)
expressions = st.recursive(
    _leaf,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("then", tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: ("any", tuple(parts))),
        inner.map(lambda part: ("lazy", part)),
    ),
    max_leaves=6,
)


def language(expression: tuple) -> set[bytes]:
    kind, parts = expression
    if kind == "literal":
        return {parts}
    if kind in ("lexeme", "strings"):
        return set(parts)
    if kind == "lazy":
        return language(parts)
    if kind == "any":
        return set().union(*map(language, parts))
    return {b"".join(texts) for texts in itertools.product(*map(language, parts))}


def node(network: Network, expression: tuple, then: int = END) -> int:
    kind, parts = expression
    if kind == "literal":
        return network.literal(parts, then)
    if kind == "lexeme":
        return network.lexeme(Automaton.from_strings(parts), then)
    if kind == "strings":
        return network.strings(sorted(parts), then)
    if kind == "lazy":
        cost = min(map(len, language(parts))) + network.cost[then]
        return network.lazy(lambda: node(network, parts, then), cost)
    if kind == "any":
        return network.fork([network.call(node(network, part), then) for part in parts])
    for part in reversed(parts):
        then = network.call(node(network, part), then)
    return then


@settings(max_examples=60, deadline=None)
@given(expressions)
def test_a_finite_network_is_its_language(expression: tuple) -> None:
    texts = language(expression)
    machine = compile_network(VOCABULARY, lambda network: node(network, expression))
    assert_same_language(machine, Enumerated(VOCABULARY, texts))
    check_laws(machine, max_states=60)


@settings(max_examples=40, deadline=None)
@given(expressions)
def test_distance_is_the_shortest_text_where_bytes_are_tokens(expression: tuple) -> None:
    texts = language(expression)
    letters = Vocabulary([bytes([b]) for b in range(256)] + [None], eos=256)
    machine = compile_network(letters, lambda network: node(network, expression))
    assert machine.distance(machine.start) == 1 + min(map(len, texts))
    assert machine.witness(machine.start) in texts
    check_laws(machine, max_states=60)


def nested(network: Network) -> int:
    """S -> a S b | c: no automaton can do it."""
    rule = network.rule(cost=1)
    inner = network.literal(b"a", network.call(rule, network.literal(b"b", END)))
    network.define(rule, network.fork([inner, network.literal(b"c", END)]))
    return rule


def test_recursion_is_exact_to_any_depth() -> None:
    machine = compile_network(BYTES, nested)
    for n in (0, 1, 2, 7, 2000):
        text = b"a" * n + b"c" + b"b" * n
        assert verdict(machine, text) == "accepts"
        assert verdict(machine, text + b"b") == "refuses"
        assert verdict(machine, text[:-1]) == ("accepts" if n == 0 else "open") or n == 0
    check_laws(machine, max_states=40)


def verdict(machine: Machine, text: bytes) -> str:
    state = machine.start
    for byte in text:
        state = machine.advance(state, byte)
        if state == DEAD:
            return "refuses"
    return "accepts" if machine.accepts(state) else "open"


def quoted() -> Automaton:
    """Any text of letters and é up to a closing quote."""
    step = np.full((3, 256), -1, np.int32)
    step[0, list(b"abcdefghijklmnopqrstuvwxyz:{}")] = 0
    step[0, 0xC3], step[1, 0xA9], step[0, ord('"')] = 1, 0, 2
    return Automaton(step, np.array([False, False, True]), np.array([True, False, False]))


@pytest.mark.parametrize(("least", "most"), [(0, None), (2, None), (0, 3), (1, 4), (3, 3), (0, 0), (2, 400)])
def test_lengths_count_characters(least: int, most: int | None) -> None:
    machine = compile_network(BYTES, lambda n: n.lexeme(quoted(), n.literal(b":", END), least=least, most=most))
    for n in (*range(7), 399, 400, 401):
        for letter in ("a", "é"):
            text = (letter * n).encode() + b'":'
            fits = n >= least and (most is None or n <= most)
            assert (verdict(machine, text) == "accepts") == fits, (n, letter)
    check_laws(machine, texts=[b'ab":', 'éab":'.encode()], max_states=60)


def keyed(network: Network) -> int:
    """One of "a", "ab" (a blocked, another way on after each), or any other name."""
    slots = (
        Slot(b'a"', ()),
        Slot(b'ab"', ((network.literal(b"1", END), 0),)),
        Slot('aé"'.encode(), ((network.literal(b"2", END), 0),)),
    )
    others = Others(quoted().then(Automaton.from_strings([b"\0"])), (((network.literal(b"3", END), 0),),))
    once = Between((RETURN, NAME, NAME), (RETURN, RETURN, RETURN))
    return network.members(Members(slots, others, least=1, most=1), once, cost=2)


def test_declared_names_and_any_other_name() -> None:
    machine = compile_network(BYTES, keyed)
    assert verdict(machine, b'ab"1') == "accepts"
    assert verdict(machine, 'aé"2'.encode()) == "accepts"
    for other in (b'"3', b'b"3', b'abc"3', b'aa"3', b'abab"3', 'é"3'.encode(), 'aéa"3'.encode()):
        assert verdict(machine, other) == "accepts", other
    for wrong in (b'ab"3', b'a"3', b'a"', b'abc"1', b'b"1', 'aé"3'.encode()):
        assert verdict(machine, wrong) == "refuses", wrong
    check_laws(machine, texts=[b'ab"1', b'aab"3', 'aéé"3'.encode()], max_states=80)


def test_states_go_on_after_rows_were_forgotten() -> None:
    machine = compile_network(BYTES, keyed)
    first = machine.mask(machine.start).copy()
    for text in itertools.product(b"abc", repeat=3):
        state = machine.start
        for byte in text:
            state = machine.advance(state, byte)
            machine.mask(state)
            machine.forget_rows()
    assert np.array_equal(machine.mask(machine.start), first)
    assert machine.mask(FINISHED) is not None


def test_after_the_end_only_the_end() -> None:
    machine = compile_network(VOCABULARY, lambda n: n.literal(b"a", END))
    done = machine.advance(machine.advance(machine.start, 1), 0)
    assert done == FINISHED
    assert machine.accepts(done)
    assert machine.distance(done) == 1
    assert machine.advance(done, 0) == FINISHED
    assert machine.advance(done, 1) == DEAD
    assert [t for t in range(12) if machine.mask(done)[0] >> t & 1] == [0]


@pytest.mark.parametrize("token", [-1, 12, 10**6, 10, 0])
def test_ids_that_are_no_text_are_refused(token: int) -> None:
    machine = compile_network(VOCABULARY, lambda n: n.literal(b"abc", END))
    assert machine.advance(machine.start, token) == DEAD
    assert machine.advance(DEAD, 1) == DEAD


def test_a_vocabulary_without_the_bytes_is_pruned_or_refused() -> None:
    few = Vocabulary([None, b"a", b"b", b"d"], eos=0)
    machine = compile_network(few, lambda n: n.strings([b"abc", b"ad"], END))
    check_laws(machine)
    assert machine.advance(machine.start, 1) != DEAD
    assert machine.advance(machine.advance(machine.start, 1), 2) == DEAD, "nothing continues 'ab'"
    with pytest.raises(UnsatisfiableError, match="no sequence of this vocabulary"):
        compile_network(few, lambda n: n.literal(b"abc", END))
    with pytest.raises(ComplexityError):
        compile_network(few, lambda n: n.fork([n.literal(b"abc", END), nested(n)]))


def test_too_many_parses_at_once_are_an_error_not_a_hang() -> None:
    def ambiguous(network: Network) -> int:
        rule = network.rule(cost=1)
        network.define(rule, network.fork([network.literal(b"a", END), network.call(rule, rule)]))
        return rule

    machine = compile_network(BYTES, ambiguous)
    with pytest.raises(ComplexityError, match="ambiguous"):
        machine.mask(machine.start)


def test_threads_share_a_machine() -> None:
    machine = compile_network(BYTES, keyed)
    want = Enumerated(BYTES, [b'ab"1'])
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(60):
                text = bytes((b"ab" * 40)[(seed + i) % 7 : (seed * i) % 11 + 8]) + b'"3'
                verdict(machine, text)
                state = machine.start
                for byte in text[:-2]:
                    machine.mask(state)
                    state = machine.advance(state, byte)
        except BaseException as error:
            failures.append(error)

    at_once(work, 4)
    assert not failures
    assert want.accepts(want.start) is False
    check_laws(machine, texts=[b'ab"1'], max_states=60)
