"""Rows by recipe: recipes are forgotten when they are many, and long ones are carried out as they go."""

import itertools

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.engine import distinct, lexicon
from ctrlgen.testing import check_laws
from ctrlgen.vocabulary import Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BYTES = [bytes([byte]) for byte in range(256)]


def schemas():
    """Open and closed objects, whose rows have recipes of all kinds."""
    yield {"type": "object", "properties": {"ab": {"type": "string", "maxLength": 2}, "b": {}}, "required": ["b"]}
    yield {"type": "object", "properties": {"a": {"enum": ["x", 1]}}, "additionalProperties": False}
    yield {"type": "array", "items": {"type": "string", "pattern": "^[a-c]+$"}}


@pytest.mark.parametrize("few", ["_RECIPES", "_STEPS", "_WALKS", "_ITEMS"])
def test_rows_stay_right_while_recipes_and_walks_are_forgotten(few, monkeypatch):
    monkeypatch.setattr(lexicon, few, {"_WALKS": 4, "_RECIPES": 16}.get(few, 40))
    vocabulary = Vocabulary([*BYTES, None, few.encode(), b'"a', b'"b"', b'": "', b'", "', b'{"a'], eos=256)
    for schema in schemas():
        check_laws(cg.JsonSchema(schema).compile(vocabulary), max_states=60)


def test_rows_stay_right_while_rows_are_forgotten(monkeypatch):
    vocabulary = Vocabulary([*BYTES, None, b"forgotten", b'"a', b'"b"', b'": "', b'", "'], eos=256)
    monkeypatch.setattr(distinct.DistinctRows.__init__, "__defaults__", (64 * 20,))
    first, *others = (cg.JsonSchema(schema).compile(vocabulary) for schema in schemas())
    for constraint in (first, *others, first):
        check_laws(constraint, max_states=60)


def test_long_recipes():
    words = [b'"' + "".join(letters).encode() for letters in itertools.product(LETTERS, repeat=3)]
    vocabulary = Vocabulary([*BYTES, None, *words], eos=256)
    for most in (2, 3):
        constraint = cg.JsonSchema({"type": "string", "maxLength": most, "minLength": 1}).compile(vocabulary)
        row = np.unpackbits(constraint.mask(constraint.start).view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(row).tolist()) == {ord('"'), *(range(257, vocabulary.width) if most == 3 else ())}
