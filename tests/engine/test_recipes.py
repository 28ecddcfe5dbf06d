"""Rows by recipe: recipes are forgotten when they are many, and long ones are carried out as they go."""

import itertools

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.engine import distinct, kernel_table, lexicon, machine
from ctrlgen.engine.kernel_kept import fill_kept
from ctrlgen.engine.kernel_rows import FREE, ROWS
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


def test_no_row_is_mended_that_was_let_go(monkeypatch):
    """A recipe names the row that it mends by its address, which another row may have once that one is gone."""
    vocabulary = Vocabulary([*BYTES, None, b"mended", b'"a', b'"b"', b'": "', b'", "'], eos=256)
    table, asked = distinct.rows_of(vocabulary), []
    others = itertools.count(1)

    def watched(*arguments):
        _, place, _, _, base, *_ = arguments
        if base == 0:  # one place is left, which the row that is to be mended may take
            while place[FREE] != place[ROWS] - 1:
                table.share(np.full(vocabulary.words, next(others), np.uint32))
        code = fill_kept(*arguments)
        if base > 0:
            asked.append(code < 0 and (-code - 1) % kernel_table.REQUESTS == kernel_table.NEED_ROWS)
        return code

    monkeypatch.setattr(machine, "fill_kept", watched)
    for name in ("a", "ab", "abc"):
        schema = {"type": "object", "properties": {name: {"type": "integer"}}, "additionalProperties": {"enum": [name]}}
        check_laws(cg.JsonSchema(schema).compile(vocabulary), max_states=60)
    assert asked
    assert not any(asked)


def test_long_recipes():
    words = [b'"' + "".join(letters).encode() for letters in itertools.product(LETTERS, repeat=3)]
    vocabulary = Vocabulary([*BYTES, None, *words], eos=256)
    for most in (2, 3):
        constraint = cg.JsonSchema({"type": "string", "maxLength": most, "minLength": 1}).compile(vocabulary)
        row = np.unpackbits(constraint.mask(constraint.start).view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(row).tolist()) == {ord('"'), *(range(257, vocabulary.width) if most == 3 else ())}
