"""Quotes in schemas and models: strings that are parts of a text."""

from __future__ import annotations

import itertools
import json
import pickle
from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

import ctrlgen as cg
from ctrlgen.closing import closing_of
from ctrlgen.errors import InputError, SchemaError, UnsatisfiableError
from ctrlgen.testing import check_laws
from ctrlgen.vocabulary import Vocabulary

PIECES = [b'":', b'"}', b'"]', b'{"', b'": "', b"\\n", b"\\u00", b'a"', b"ab", b'", "', b"null", b"b c", b"e9"]
LETTERS = Vocabulary([*[bytes([b]) for b in range(256)], *PIECES, None], eos=256 + len(PIECES))


def written(machine: cg.Constraint, rng: np.random.Generator, budget: int) -> str:
    """A text by tokens drawn at random, within a budget."""
    closing, state, out = closing_of(machine), machine.start, b""
    for remaining in range(max(budget, closing.needed(machine, machine.start, budget)), 0, -1):
        row = closing.row(machine, state, remaining)
        token = int(rng.choice(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))))
        state = machine.advance(state, token)
        if token in LETTERS.eos:
            return out.decode()
        out += LETTERS.tokens[token] or b""
    raise AssertionError("no end in time")


def takes(machine: cg.Constraint, text: str) -> bool:
    state = machine.start
    for byte in text.encode():
        state = machine.advance(state, byte)
        if state == cg.DEAD:
            return False
    return machine.accepts(state)


@settings(max_examples=60, deadline=None)
@given(st.text('ab"\\\n/é😀 ', min_size=1, max_size=5), st.booleans(), st.sampled_from(["declared", "any"]))
def test_all_parts_in_all_their_spellings_and_no_others(text: str, ascii: bool, key_order: str) -> None:
    quote = cg.Quote(text)
    spec = cg.JsonSchema(
        {"type": "object", "properties": {"q": quote}, "required": ["q"], "additionalProperties": False},
        ensure_ascii=ascii,
        key_order=key_order,  # type: ignore[arg-type]
    )
    machine = spec.compile(LETTERS)
    parts = {text[i:j] for i, j in itertools.combinations(range(len(text) + 1), 2)}
    for part in parts:
        assert takes(machine, json.dumps({"q": part}, ensure_ascii=True))
        assert takes(machine, json.dumps({"q": part}, ensure_ascii=False)) == (not ascii or part.isascii())
    for part in {"", "x", text + "a", "\\", '"'} - parts:
        assert not takes(machine, json.dumps({"q": part}))
    rng = np.random.default_rng(0)
    for budget in (1, 30, 100):
        found = written(machine, rng, budget)
        assert spec.parse(found)["q"] in parts
        assert not ascii or found.isascii()


def test_the_laws() -> None:
    for key_order in ("declared", "any"):
        properties = {"q": cg.Quote("a ab", unit="word"), "n": {"type": "null"}}
        spec = cg.JsonSchema(
            {"type": "object", "properties": properties, "additionalProperties": False, "required": ["q"]},
            key_order=key_order,  # type: ignore[arg-type]
            whitespace="compact",
        )
        check_laws(spec.compile(LETTERS), max_states=150)


@pytest.mark.parametrize("key_order", ["declared", "any"])
def test_nested_in_objects_arrays_and_branches(key_order: str) -> None:
    text = 'He said "no".\nThen he left, and é stayed.'
    claim = {
        "type": "object",
        "properties": {"claim": {"type": "string", "maxLength": 9}, "evidence": cg.Quote(text, unit="word", most=3)},
        "required": ["claim", "evidence"],
        "additionalProperties": False,
    }
    schema = {
        "type": "object",
        "properties": {
            "claims": {"type": "array", "items": {"$ref": "#/$defs/claim"}, "minItems": 1, "maxItems": 3},
            "best": {"anyOf": [cg.Quote(text, least=2, most=6), {"type": "null"}, cg.Quote(["x y"], least=0)]},
        },
        "required": ["claims", "best"],
        "additionalProperties": False,
        "$defs": {"claim": claim},
    }
    spec = cg.JsonSchema(schema, key_order=key_order)  # type: ignore[arg-type]
    machine, rng = spec.compile(LETTERS), np.random.default_rng(1)
    for _ in range(12):
        value = spec.parse(written(machine, rng, 400))
        assert all(claim["evidence"] in text for claim in value["claims"])
        assert value["best"] is None or value["best"] in text or value["best"] in "x y"
    assert {entry.status for entry in spec.report() if entry.keyword == "x-quote"} == {"enforced"}


class Answer(BaseModel):
    """A model with a quote."""

    quotes: list[Annotated[str, cg.Quote("the cat sat on a mat", unit="word")]]
    best: Annotated[str, cg.Quote("the cat sat on a mat", unit="word")] | None


def test_pydantic_models_check_what_they_read() -> None:
    spec = cg.JsonSchema(Answer)
    value = spec.parse('{"quotes": ["cat sat"], "best": "mat"}')
    assert value.quotes[0].start == 4
    assert isinstance(value.best, cg.Span)
    assert value.model_dump_json() == '{"quotes":["cat sat"],"best":"mat"}'
    for wrong in ("ca", "dog", "sat cat"):
        with pytest.raises(ValidationError):
            spec.parse(json.dumps({"quotes": [wrong], "best": None}))
    rng, machine = np.random.default_rng(2), spec.compile(LETTERS)
    for _ in range(5):
        for span in spec.parse(written(machine, rng, 60)).quotes:
            assert "the cat sat on a mat"[span.start : span.end] == span


def test_a_quote_by_itself_and_beside_listed_values() -> None:
    assert cg.JsonSchema(cg.Quote("ab")).compile(LETTERS)
    spec = cg.JsonSchema({"allOf": [cg.Quote("ab ba"), {"enum": ["ab", "x", "b b"]}]})
    machine = spec.compile(LETTERS)
    assert takes(machine, '"ab"')
    assert not takes(machine, '"x"')
    assert takes(cg.JsonSchema(cg.Quote("ab", least=0)).compile(LETTERS), '""')


def test_a_quote_is_a_value() -> None:
    quote = cg.Quote("a b", unit="word", most=2)
    assert pickle.loads(pickle.dumps(quote)) == quote
    assert hash(quote) == hash(cg.Quote("a b", unit="word", most=2))
    assert json.loads(json.dumps(quote)) == quote
    assert repr(quote) == "Quote('a b', unit='word', least=1, most=2)"
    with pytest.raises(InputError):
        cg.Quote("a", least=-1)
    with pytest.raises(UnsatisfiableError):
        cg.Quote("a", unit="word", least=2)


@pytest.mark.parametrize(
    "schema",
    [
        {**cg.Quote("ab"), "maxLength": 1},
        {**cg.Quote("ab"), "pattern": "a"},
        {"allOf": [cg.Quote("ab"), cg.Quote("ba")]},
        {"allOf": [{"type": "string"}, {"not": cg.Quote("ab")}]},
        {"type": "object", "propertyNames": cg.Quote("ab"), "minProperties": 1},
        {"type": "array", "items": cg.Quote("ab"), "uniqueItems": True, "minItems": 2},
        {"x-quote": {"context": 1}},
        {"x-quote": {"context": ["a"], "pages": 1}},
        {"x-quote": {"context": ["a"], "unit": "page"}},
        {"x-quote": {"context": ["a"], "least": True}},
        {"x-quote": {"context": ["a"], "least": 2}},
        {"x-quote": {"context": ["a"], "least": 1, "most": 0}},
    ],
)
def test_what_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(SchemaError, match="x-quote"):
        cg.JsonSchema(schema).compile(LETTERS)
