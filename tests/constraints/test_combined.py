"""Combinations of specifications against the languages they stand for."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.constraints.combined import Combinable, Text
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.testing import Enumerated, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

VOCABULARY = toy_vocabulary()
LETTERS = Vocabulary([bytes([b]) for b in range(256)] + [b'": ', b'"}', b"ab", None], eos=259)

leaves = st.one_of(
    st.sampled_from(["a", "b", "ab", "c"]).map(lambda t: (Text(t), {t})),
    st.frozensets(st.sampled_from(["a", "ab", "b", "bc"]), min_size=1).map(lambda s: (cg.Choice(sorted(s)), set(s))),
    st.sampled_from([("[ab]", {"a", "b"}), ("a?b", {"b", "ab"}), ("a{1,2}", {"a", "aa"})]).map(
        lambda p: (cg.Regex(p[0]), p[1])
    ),
)


def texts_of(repeated: set[str], least: int, most: int) -> set[str]:
    return {"".join(t) for n in range(least, most + 1) for t in itertools.product(sorted(repeated), repeat=n)}


combined = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: (p[0][0] >> p[1][0], {a + b for a in p[0][1] for b in p[1][1]})),
        st.tuples(inner, inner).map(lambda p: (p[0][0] | p[1][0], p[0][1] | p[1][1])),
        inner.map(lambda p: (p[0].optional(), p[1] | {""})),
        st.tuples(inner.filter(lambda p: "" not in p[1]), st.integers(0, 2), st.integers(0, 1)).map(
            lambda p: (p[0][0].repeat(p[1], p[1] + p[2]), texts_of(p[0][1], p[1], p[1] + p[2]))
        ),
    ),
    max_leaves=4,
)


@settings(max_examples=80, deadline=None)
@given(combined)
def test_a_combination_is_its_language(case: tuple[Combinable, set[str]]) -> None:
    spec, texts = case
    machine = spec.compile(VOCABULARY)
    assert_same_language(machine, Enumerated(VOCABULARY, texts))
    check_laws(machine, max_states=60)


def accepts(spec: Combinable, text: str) -> bool:
    machine = spec.compile(LETTERS)
    state = machine.start
    for byte in text.encode():
        state = machine.advance(state, byte)
        if state == DEAD:
            return False
    return machine.accepts(state)


def test_documents_among_texts() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    spec = "Answer: " >> cg.JsonSchema(schema) >> cg.Regex(r"\n+") >> (cg.JsonSchema({"type": "boolean"}) | "none")
    assert accepts(spec, 'Answer: {"a": 12}\n\ntrue')
    assert accepts(spec, "Answer: {}\nnone")
    assert not accepts(spec, 'Answer: {"a": 12}true')
    assert not accepts(spec, 'Answer: {"a": 1, "a": 2}\nnone')
    assert pickle.loads(pickle.dumps(spec)) == spec
    check_laws(spec.compile(LETTERS), texts=[b'Answer: {"a": 1}\nfalse'], max_states=120)
    assert spec.parse("Answer: {}\nnone") == "Answer: {}\nnone"


def test_many_times_is_counted_not_unrolled() -> None:
    lines = (cg.Regex("[a-z]+") >> "\n").repeat(100_000)
    machine = lines.compile(LETTERS)
    assert machine.network.size < 50
    assert machine.distance(machine.start) > 100_000
    assert accepts((cg.Regex("[0-9]") >> ",").repeat(2, 3), "1,2,3,")
    assert not accepts((cg.Regex("[0-9]") >> ",").repeat(2, 3), "1,")
    assert not accepts((cg.Regex("[0-9]") >> ",").repeat(2, 3), "1,2,3,4,")
    assert accepts(cg.Choice(["ab"]).repeat(), "")
    assert accepts(cg.Choice(["ab"]).repeat(), "ab" * 50)


def test_both_at_once() -> None:
    spec = cg.Regex("[a-z]{3,}") & cg.Regex(".*x.*")
    assert accepts(spec, "axb")
    assert not accepts(spec, "abc")
    assert not accepts(spec, "ax")
    with pytest.raises(UnsatisfiableError, match="both"):
        cg.Regex("a+") & cg.Choice(["b"])
    with pytest.raises(InputError, match="& takes"):
        cg.Regex("a+") & cg.JsonSchema(True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cg.Regex("a") >> 5, "cannot be combined"),
        (lambda: cg.Regex("a") | None, "cannot be combined"),
        (lambda: cg.Regex("a").repeat(-1), "whole numbers"),
        (lambda: cg.Regex("a").repeat(3, 2), "below the least"),
        (lambda: cg.Regex("a*").repeat().compile(VOCABULARY), "can be empty"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]
