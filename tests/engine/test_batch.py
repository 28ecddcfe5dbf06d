"""Rows and moves of a batch are those of its requests, one by one."""

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.engine.batch import MaskEngine
from ctrlgen.testing import toy_vocabulary

VOCABULARY = toy_vocabulary(width=40)
CONSTRAINTS = [cg.Regex("a(b|c)+").compile(VOCABULARY), None, cg.Choice(["abc", "bb"]).compile(VOCABULARY)]


class Broken:
    """A constraint that gives up."""

    vocabulary, start = VOCABULARY, 1

    def mask(self, *_):
        raise cg.ComplexityError("too much")

    advance = accepts = distance = mask


def test_rows_and_moves_of_a_batch():
    engine, states = MaskEngine(VOCABULARY), [c.start if c else 0 for c in CONSTRAINTS]
    rng = np.random.default_rng(0)
    for _ in range(12):
        rows = engine.rows(CONSTRAINTS, states)
        for row, constraint, state in zip(rows, CONSTRAINTS, states, strict=True):
            if constraint is None:
                assert (row == 0xFFFFFFFF).all()
            else:
                assert np.array_equal(row, constraint.mask(state) if state >= 0 else np.zeros(2, np.uint32))
        tokens = rng.integers(0, 12, 3).tolist()
        wanted = [
            s if c is None else DEAD if s < 0 else c.advance(s, t)
            for c, s, t in zip(CONSTRAINTS, states, tokens, strict=True)
        ]
        states = engine.advance(CONSTRAINTS, states, tokens)
        assert states == wanted


def test_rows_go_where_they_are_wanted():
    engine, out = MaskEngine(VOCABULARY), np.zeros((5, 2), np.uint32)
    rows = engine.rows(CONSTRAINTS, [c.start if c else 0 for c in CONSTRAINTS], out)
    assert rows.base is out
    assert out[:3].any()
    assert not out[3:].any()
    assert engine.rows([], []).shape == (0, 2)


def test_a_fault_in_one_row_leaves_the_others_alone():
    engine, faults = MaskEngine(VOCABULARY), {}
    constraints = [CONSTRAINTS[0], Broken(), None]
    rows = engine.rows(constraints, [CONSTRAINTS[0].start, 1, 0], faults=faults)
    assert list(faults) == [1]
    assert rows[0].any()
    assert not rows[1].any()
    assert rows[2].all()
    assert engine.advance(constraints, [CONSTRAINTS[0].start, 1, 0], [1, 1, 1], faults)[1] == DEAD
    with pytest.raises(cg.ComplexityError):
        engine.rows(constraints, [CONSTRAINTS[0].start, 1, 0])
    with pytest.raises(cg.ComplexityError):
        engine.advance(constraints, [CONSTRAINTS[0].start, 1, 0], [1, 1, 1])


def test_what_does_not_fit_is_refused():
    engine = MaskEngine(VOCABULARY)
    with pytest.raises(cg.InputError, match="one state for each"):
        engine.rows(CONSTRAINTS, [1])
    with pytest.raises(cg.InputError, match="out must be"):
        engine.rows([None], [0], np.zeros((1, 3), np.uint32))
    with pytest.raises(cg.InputError, match="another width"):
        MaskEngine(toy_vocabulary()).rows(CONSTRAINTS[:1], [CONSTRAINTS[0].start])
