"""Objects and arrays of a network against all texts by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ctrlgen.automaton import Automaton
from ctrlgen.constraint import DEAD
from ctrlgen.engine.containers import Between, Members, Others, Slot
from ctrlgen.engine.machine import Machine, compile_network
from ctrlgen.engine.network import END, ITEM, NAME, RETURN, Network
from ctrlgen.errors import ComplexityError
from ctrlgen.testing import Enumerated, assert_same_language, check_laws
from ctrlgen.vocabulary import Vocabulary

TOKENS = [
    *(None, *(bytes([b]) for b in b'{}[]:,"abcx12')),
    *(b'":', b'{"', b'":1,"', b'a":1,"', b'","', b'"a"', b"ab", b'":1}', b"1,", b'1,"a":1'),
]
VOCABULARY = Vocabulary([*TOKENS, *(bytes([b]) for b in range(256) if b not in b'{}[]:,"abcx12')], eos=0)


def between(network: Network, close: bytes, more: int, start: bytes) -> Between:
    closed, first = network.literal(close, RETURN), network.literal(start, more) if start else more
    later = network.literal(b"," + start, more)
    return Between((closed, first, network.fork([closed, first])), (closed, later, network.fork([closed, later])))


def valued(network: Network, values: tuple[tuple[bytes, int], ...]) -> tuple[tuple[int, int], ...]:
    return tuple((network.literal(b":" + value, END), flags) for value, flags in values)


def names(classes: list[list[bytes]]) -> Automaton:
    """The names of each class, with quote and number."""
    return Automaton.from_strings(
        [name + b'"' + bytes([number]) for number, group in enumerate(classes) for name in group]
    )


def object_texts(slots, others, least, most, wanted, ordered):
    """All objects by definition; slots: (name, values, required, implies), others: (names, values) by class."""
    known = {name: (values, index) for index, (name, values, _, _) in enumerate(slots)}
    free = {name: values for group, values in others for name in group if name not in known}
    every = [*known, *free]
    for n in range(len(every) + 1):
        if n < least or (most is not None and n > most):
            continue
        for chosen in itertools.permutations(every, n):
            there = {known[name][1] for name in chosen if name in known}
            if any(required and i not in there for i, (_, _, required, _) in enumerate(slots)):
                continue
            if any(i in there and not set(slots[i][3]) <= there for i in range(len(slots))):
                continue
            places = [known[name][1] if name in known else len(slots) for name in chosen]
            if ordered and places != sorted(places):
                continue
            values = [known[name][0] if name in known else free[name] for name in chosen]
            for picked in itertools.product(*values):
                if wanted & ~int(np.bitwise_or.reduce([flags for _, flags in picked] or [0])):
                    continue
                yield (
                    b"{"
                    + b",".join(b'"' + name + b'":' + v for name, (v, _) in zip(chosen, picked, strict=True))
                    + b"}"
                )


def object_machine(slots, others, least, most, wanted, ordered) -> Machine:
    def build(network: Network) -> int:
        built = tuple(
            Slot(name + b'"', valued(network, values), required, implies) for name, values, required, implies in slots
        )
        rest = None
        if others:
            rest = Others(names([group for group, _ in others]), tuple(valued(network, v) for _, v in others))
        members = Members(built, rest, least, most, wanted, ordered)
        return network.literal(b"{", network.members(members, between(network, b"}", NAME, b'"'), 40))

    return compile_network(VOCABULARY, build)


ONE, TWO = ((b"1", 0),), ((b"1", 0), (b"2", 0))
OBJECTS = {
    "nothing": ([], [], 0, None, 0, True),
    "declared": ([(b"a", ONE, True, ()), (b"ab", ONE, False, ()), (b"b", ONE, True, ())], [], 0, None, 0, True),
    "in any order": ([(b"a", ONE, True, ()), (b"ab", ONE, False, ()), (b"b", TWO, True, ())], [], 0, None, 0, False),
    "never": ([(b"a", (), False, ()), (b"b", ONE, False, ())], [([b"a", b"ab", b"c"], ONE)], 0, None, 0, True),
    "others": ([(b"a", ONE, True, ())], [([b"ab", b"c"], ONE)], 0, None, 0, True),
    "others in any order": ([(b"a", ONE, True, ())], [([b"ab", b"c", b"aa"], ONE)], 0, None, 0, False),
    "classes": ([(b"a", ONE, False, ())], [([b"ab", b"c"], ONE), ([b"x", b"aa"], ((b"2", 0),))], 0, None, 0, False),
    "at least": ([(b"a", ONE, False, ()), (b"b", ONE, False, ()), (b"c", ONE, False, ())], [], 2, None, 0, True),
    "from two to three": ([(b"a", ONE, False, ()), (b"b", ONE, True, ())], [([b"ab", b"c"], ONE)], 2, 3, 0, False),
    "implied": ([(b"a", ONE, False, (2,)), (b"b", ONE, False, (0, 2)), (b"c", ONE, False, ())], [], 0, None, 0, True),
    "implied, any order": (
        [(b"a", ONE, False, (1, 2)), (b"b", ONE, False, (2,)), (b"c", ONE, False, ())], [([b"x"], ONE)], 0, 3, 0, False,
    ),
    "implied by what is required": (
        [(b"a", ONE, True, (1,)), (b"ab", ONE, False, ())], [([b"x"], ONE)], 0, 2, 0, False,
    ),
    "implied, counted": (
        [(b"a", ONE, False, (1, 2)), (b"b", ONE, False, (2,)), (b"c", ONE, False, ())], [], 1, 2, 0, True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OBJECTS)
def test_an_object_is_its_texts(case: str) -> None:
    texts = list(object_texts(*OBJECTS[case]))
    machine = object_machine(*OBJECTS[case])
    assert_same_language(machine, Enumerated(VOCABULARY, texts))
    check_laws(machine, max_states=150)


MOST_TEXTS = 20_000
names_pool = st.sampled_from([b"a", b"ab", b"b", b"aa", b"c"])


@st.composite
def random_objects(draw):
    declared = draw(st.lists(names_pool, max_size=3, unique=True))
    slots = []
    for name in declared:
        values = draw(st.sampled_from([(), ONE, ONE, TWO]))
        slots.append([name, values, bool(values) and draw(st.booleans()), ()])
    others = draw(st.lists(st.tuples(st.lists(st.sampled_from([b"x", b"ab", b"ax", b"b"]), min_size=1, unique=True),
                                     st.sampled_from([ONE, TWO])), max_size=1))  # fmt: skip
    if draw(st.booleans()):
        for i, slot in enumerate(slots):  # closed under implication
            if slot[1] and all(s[1] for s in slots[i + 1 :]) and draw(st.booleans()):
                slot[3] = tuple(range(i + 1, len(slots)))
    least = draw(st.integers(0, 2))
    most = draw(st.none() | st.integers(0, 3))
    return [tuple(s) for s in slots], others, least, most, 0, draw(st.booleans())


@settings(max_examples=120, deadline=None)
@given(random_objects())
def test_random_objects_are_their_texts(case: tuple) -> None:
    texts = list(itertools.islice(object_texts(*case), MOST_TEXTS + 1))
    if not texts:
        return  # who builds a network leaves out what has no text
    assume(len(texts) <= MOST_TEXTS)  # seven names in any order have millions
    machine = object_machine(*case)
    assert_same_language(machine, Enumerated(VOCABULARY, texts))
    check_laws(machine, max_states=60)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([b"1", b"2", b"12"]), max_size=3), st.booleans(), st.integers(0, 4), st.integers(0, 4))
def test_arrays_are_their_texts(first: list[bytes], more: bool, least: int, extra: int) -> None:
    most = least + extra if more else len(first)
    if least > most:
        return

    def build(network: Network) -> int:
        nodes = [network.literal(text, END) for text in first]
        rest = network.literal(b"c", END) if more else None
        node = network.items(nodes, rest, least, most, between(network, b"]", ITEM, b""), 40)
        return network.literal(b"[", node)

    items = [*first, *[b"c"] * 10]
    texts = [b"[" + b",".join(items[:n]) + b"]" for n in range(least, most + 1)]
    machine = compile_network(VOCABULARY, build)
    assert_same_language(machine, Enumerated(VOCABULARY, texts))
    check_laws(machine, max_states=60)
    if more:
        unlimited = compile_network(
            VOCABULARY,
            lambda n: n.items([n.literal(t, END) for t in first], n.literal(b"c", END), least, None,
                              between(n, b"]", ITEM, b""), 40),
        )  # fmt: skip
        for n in range(12):
            assert accepts(unlimited, b",".join(items[:n]) + b"]") == (n >= least)


def accepts(machine: Machine, text: bytes) -> bool:
    state = machine.start
    for byte in text:
        state = machine.advance(state, TOKENS.index(bytes([byte])))
        if state == DEAD:
            return False
    return machine.accepts(state)


def nested_object(network: Network) -> int:
    """An object whose members are such objects or 1; any name of the letters a and b, but not "ab"."""
    body = np.full((4, 256), -1, np.int32)
    body[0, list(b"ab")] = 0
    body[0, ord('"')], body[1, 0] = 1, 2
    free = Automaton(body[:3], np.array([False, False, True]), np.array([True, True, True]))
    rule = network.rule(cost=2)
    value = network.fork([network.literal(b"1", END), rule])
    ways = ((network.literal(b":", network.call(value, END)), 0),)
    members = Members((Slot(b'ab"', ()),), Others(free, (ways,)), 0, None, 0, False)
    network.define(rule, network.literal(b"{", network.members(members, between(network, b"}", NAME, b'"'), 1)))
    return rule


def test_names_never_come_twice_at_any_depth() -> None:
    machine = compile_network(VOCABULARY, nested_object)
    good = [b"{}", b'{"a":1}', b'{"a":1,"b":1}', b'{"a":{"a":1},"aa":{"a":{}}}', b'{"":1}', b'{"abb":1,"aba":1}']
    bad = [b'{"a":1,"a":1}', b'{"ab":1}', b'{"a":{"b":1,"b":1}}', b'{"aab":1,"b":1,"aab":1}', b'{"":1,"":1}']
    assert [accepts(machine, text) for text in good] == [True] * len(good)
    assert [accepts(machine, text) for text in bad] == [False] * len(bad)
    check_laws(machine, texts=[*good, b'{"a":1,"aa":1,"aaa":1}', b'{"b":{"a":1},"a":1}'], max_states=120)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("most", [None, 2, 3])
def test_what_is_wanted_of_other_members_comes(ordered: bool, most: int | None) -> None:
    values = {b"1": 0, b"2": 1, b"c": 2}
    body = np.full((3, 256), -1, np.int32)
    body[0, list(b"bc")] = 0
    body[0, ord('"')], body[1, 0] = 1, 2
    free = Automaton(body, np.array([False, False, True]), np.array([True, True, True]))

    def build(network: Network) -> int:
        ways = valued(network, tuple(values.items()))
        members = Members((Slot(b'a"', valued(network, ONE)),), Others(free, (ways,)), 0, most, 3, ordered)
        return network.members(members, between(network, b"}", NAME, b'"'), 20)

    machine = compile_network(VOCABULARY, build)
    check_laws(machine, texts=[b'"a":1,"b":2,"c":c}', b'"c":1,"":c,"cb":2}'], max_states=150)
    names = [b"a", b"b", b"c", b"cb", b""]
    for n in range(1, 4):
        for chosen in itertools.product(names, repeat=n):
            for picked in itertools.product(values, repeat=n):
                text = b",".join(b'"' + name + b'":' + value for name, value in zip(chosen, picked, strict=True)) + b"}"
                right = (
                    len(set(chosen)) == n
                    and all(value == b"1" for name, value in zip(chosen, picked, strict=True) if name == b"a")
                    and {b"2", b"c"} <= set(picked)
                    and (most is None or n <= most)
                    and (not ordered or b"a" not in chosen[1:])
                )
                assert accepts(machine, text) == right, text


def test_many_names_that_run_out_are_counted_to_the_last() -> None:
    every = [bytes(name) for n in (1, 2, 3) for name in itertools.product(b"abcx12", repeat=n)]
    assert len(every) == 258
    machine = object_machine([], [(every, ONE)], 0, None, 0, False)
    state = machine.start
    for i, name in enumerate(every):
        for byte in (b"{" if i == 0 else b",") + b'"' + name + b'":1':
            state = machine.advance(state, TOKENS.index(bytes([byte])))
        goes_on = machine.advance(state, TOKENS.index(b",")) != DEAD
        assert goes_on == (i < len(every) - 1), name
    assert machine.accepts(machine.advance(state, TOKENS.index(b"}")))
    # no name is left that begins with ab: its second letter is not offered any more
    used = [name for name in every if name.startswith(b"ab")]
    text = b"{" + b",".join(b'"' + name + b'":1' for name in used) + b',"a'
    state = machine.start
    for byte in text:
        state = machine.advance(state, TOKENS.index(bytes([byte])))
    row = machine.mask(state)
    offered = {TOKENS[t] for t in range(1, len(TOKENS)) if row[t >> 5] >> (t & 31) & 1}
    assert b"b" not in offered
    assert {b"a", b"c", b'":', b'":1,"'} <= offered


def test_what_cannot_be_told_apart_is_refused() -> None:
    with pytest.raises(ComplexityError, match="run out"):
        object_machine([(b"a", ((b"1", 1),), False, ())], [([b"b"], ((b"1", 1),))], 0, 2, 1, True)
    with pytest.raises(ComplexityError, match="can fulfil"):
        object_machine([(b"a", ((b"1", 1),), False, ())], [], 0, None, 1, True)


def test_wide_objects_are_read_in_any_order() -> None:
    count = 300
    slots = [(b"a%dx" % i if i % 2 else b"b%d" % i, ONE, i % 3 == 0, ()) for i in range(count)]
    letters = Vocabulary([bytes([b]) for b in range(256)] + [None], eos=256)

    def build(network: Network) -> int:
        built = tuple(Slot(name + b'"', valued(network, values), required) for name, values, required, _ in slots)
        return network.literal(
            b"{", network.members(Members(built, ordered=False), between(network, b"}", NAME, b'"'), 4000)
        )

    machine = compile_network(letters, build)
    order = np.random.default_rng(0).permutation(count).tolist()
    text = b"{" + b",".join(b'"' + slots[i][0] + b'":1' for i in order) + b"}"
    state = machine.start
    for byte in text:
        assert machine.mask(state)[byte >> 5] >> (byte & 31) & 1
        state = machine.advance(state, byte)
    assert machine.accepts(state)
    assert machine.witness(machine.start).count(b":") == 100
