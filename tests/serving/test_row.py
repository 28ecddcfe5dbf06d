"""Rows of requests against the states that their ids lead to."""

import random
import time

import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.serving.registry import Limits
from ctrlgen.serving.row import Row
from tests.served import END, OTHER, VOCABULARY, allowed, compiler

ENDS = {END, OTHER}


def row_of(value, *, ends=ENDS, budget=None, prompt=(), **arguments):
    made = compiler(**arguments)
    return Row(made, made.begin(value), ends=ends, budget=budget, prompt=prompt)


def walk(constraint, ids):
    state = constraint.start
    for token in ids:
        state = constraint.advance(state, token)
    return state


def test_the_row_is_that_of_the_state_whatever_the_host_did_with_its_ids():
    """Grown by one or by many, taken back, replaced, ending with placeholders."""
    draw = random.Random(0)
    value = {"json_schema": {"type": "array", "items": {"enum": ["ab", "a", 1]}, "maxItems": 4}}
    constraint = cg.JsonSchema(value["json_schema"]).compile(VOCABULARY)
    row, ids = row_of(value), []
    for _ in range(400):
        for _ in range(draw.choice([0, 1, 1, 1, 3])):
            options = sorted(allowed(constraint.mask(walk(constraint, ids))) - ENDS)
            if options:
                ids.append(draw.choice(options))
        if draw.random() < 0.3:
            del ids[len(ids) - min(len(ids), draw.choice([1, 2, len(ids)])) :]
        shown = [*ids, *[-1] * draw.choice([0, 0, 1, 2])]
        assert np.array_equal(row.row(shown), constraint.mask(walk(constraint, ids)))
    assert row.fault is None


def test_ends_in_time_as_the_processor_does():
    value = {"thinking": {"json_schema": {"type": "array", "items": {"type": "integer"}}}, "keep": 6}
    spec = cg.Thinking(cg.JsonSchema({"type": "array", "items": {"type": "integer"}}), keep=6)
    for seed in range(20):
        draw, budget = random.Random(seed), 12 + seed
        processor = cg.ControlProcessor(spec, vocabulary=VOCABULARY, max_new_tokens=budget)
        row, ids, prompt = row_of(value, budget=budget), [], [65]
        while len(ids) < budget:
            found = row.row(ids)
            scores = processor(torch.tensor([prompt + ids]), torch.zeros(1, VOCABULARY.width))
            assert allowed(found) == set(torch.isfinite(scores[0]).nonzero()[:, 0].tolist())
            ids.append(draw.choice(sorted(allowed(found))))
            if ids[-1] in ENDS:
                break
        assert ids[-1] in ENDS


def test_only_ends_at_which_the_host_stops_are_allowed():
    for ends in ({END}, {OTHER, 65}):
        row = row_of({"choices": ["ab"]}, ends=ends)
        assert allowed(row.row([97, 98])) == ends & ENDS
    row = row_of({"choices": ["ab"]}, ends={65})
    assert allowed(row.row([97])) == {98}
    row.row([97, 98])
    assert isinstance(row.fault, cg.InputError)


@pytest.mark.parametrize(
    ("value", "budget", "error"),
    [
        ({"choices": ["abc"]}, 2, cg.BudgetError),
        ({"regex": "("}, None, cg.RequestError),
        ({"free": {"token": "<none>"}}, None, cg.VocabularyError),
    ],
)
def test_what_fails_may_only_end(value, budget, error, caplog):
    row = row_of(value, budget=budget)
    for ids in ([], [97], [97, 98]):
        assert allowed(row.row(ids)) == ENDS
    assert isinstance(row.fault, error)
    assert len(caplog.records) == 1


def test_what_takes_too_long_is_given_up():
    class Slow(cg.Choice):
        def compile(self, vocabulary):
            time.sleep(0.5)
            return super().compile(vocabulary)

    row = row_of({"constraint": "slow"}, constraints={"slow": Slow(["a"])}, limits=Limits(seconds=0.05))
    assert allowed(row.row([])) == ENDS
    assert "limits.seconds" in str(row.fault)


def test_a_token_that_was_forbidden_ends_the_row_but_not_as_a_draft():
    row = row_of({"choices": ["ab"]})
    assert allowed(row.row([120], draft=True)) == ENDS
    assert row.fault is None
    assert allowed(row.row([97])) == {98}
    row.row([120])
    assert isinstance(row.fault, cg.DeadEndError)


def test_without_a_constraint_nothing_is_masked_and_steerers_still_steer():
    row = row_of({"steer": [{"fsd": {"alpha": 0.5, "k": None}}]}, prompt=[97, 98])
    scores = torch.zeros(1, VOCABULARY.width)
    assert row.row([]) is None
    assert row.steers
    plain = cg.FSD(alpha=0.5, k=None)
    for ids in ([], [97], [97, 98, 97], [97]):
        assert row.row(ids) is None
        processor = cg.ControlProcessor(None, vocabulary=VOCABULARY, steer=[plain], prompt_length=2)
        expected = processor(torch.tensor([[97, 98, *ids]]), scores)
        torch.testing.assert_close(row.steer(scores), expected)


def test_steering_needs_the_prompt(caplog):
    row = row_of({"steer": [{"fsd": {}}]}, prompt=None)
    scores = torch.zeros(1, VOCABULARY.width)
    assert row.row([]) is None
    assert row.steer(scores) is scores
    assert allowed(row.row([])) == ENDS
