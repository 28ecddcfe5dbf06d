"""The fused step of Triton against torch and the host: on a CUDA device, or by Triton's interpreter on the CPU.

    TRITON_INTERPRET=1 python -m pytest tests/index/test_triton.py

The variable must be there before anything imports Triton, so the tests do not set it themselves.
"""

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.index import triton_step
from ctrlgen.index.token_index import TokenIndex

from .catalogues import WIDTH, catalogues, fixed_catalogues, index_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

pytestmark = [
    pytest.mark.skipif(not triton_step.installed(), reason="Triton is not installed"),
    pytest.mark.skipif(
        DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
        reason="neither a CUDA device nor Triton's interpreter (TRITON_INTERPRET=1)",
    ),
]
few = settings(max_examples=15, deadline=None)  # the interpreter takes its time


def same(one, other):
    """Whether two results are equal; what overflowed is no result."""
    if bool(one.overflow) or bool(other.overflow):
        return bool(one.overflow) == bool(other.overflow)
    return all(torch.equal(a, b) for a, b in zip(one[:4], other[:4], strict=True))


def searched(index, queries, beams, steps, *, k=None, filters=None, dtype=torch.float32, width=None, hole=0.0):
    """A beam search in which the fused step does what torch and the host do, bit by bit."""
    by_torch = replace(index.on(DEVICE), fused=False)
    fused = replace(by_torch, fused=True)
    states = torch.tensor(index.start_states(queries, beams=beams), device=DEVICE)
    scores = torch.zeros(queries * beams, device=DEVICE)
    rng = np.random.default_rng(beams)
    for _ in range(steps):
        logs = rng.standard_normal((len(states), index.width)).astype(np.float32)
        logs[rng.random(logs.shape) < hole] = rng.choice([np.nan, -np.inf, np.inf])
        there = torch.tensor(logs, device=DEVICE).to(dtype)
        got = fused.beam_step(states, scores, there, beams=beams, k=k, width=width, filters=filters)
        expected = by_torch.beam_step(states, scores, there, beams=beams, k=k, width=width, filters=filters)
        assert bool(got.overflow) == bool(expected.overflow)
        if not bool(got.overflow):
            at_home = index.beam_step(
                states.cpu().numpy(), scores.cpu().numpy(), there.float().cpu().numpy(), beams=beams, k=k,
                filters=filters,
            )  # fmt: skip
            assert all(np.array_equal(a.cpu().numpy(), b) for a, b in zip(got[:4], at_home[:4], strict=True))
        if hole == 0:  # equal scores come in no certain order from torch
            assert same(got, expected)
        if k is not None and k != beams:
            return
        states, scores = got.states.reshape(-1, 4), got.scores.reshape(-1)


@pytest.mark.parametrize("room", [triton_step.SORTED, 1])
@few
@given(items=catalogues(longest=4), beams=st.integers(1, 6), queries=st.integers(1, 3))
def test_equals_torch_and_the_host(room, items, beams, queries):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_step, "SORTED", room)
        searched(index_of(items), queries, beams, 6)


@pytest.mark.parametrize("room", [triton_step.SORTED, 1])
@few
@given(items=fixed_catalogues(), beams=st.integers(1, 6))
def test_items_of_one_length(room, items, beams):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_step, "SORTED", room)
        searched(index_of(items, eos=None), 2, beams, 6)


@pytest.mark.parametrize("room", [triton_step.SORTED, 1])
@few
@given(items=catalogues(longest=4), data=st.data())
def test_filters_of_each_row(room, items, data):
    index = index_of(items)
    subsets = st.none() | st.sets(st.integers(0, len(items) - 1), min_size=1)
    chosen = data.draw(st.lists(subsets, min_size=1, max_size=3))
    filters = index.row_filters([None if ids is None else index.filter(list(ids)) for ids in chosen], beams=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_step, "SORTED", room)
        searched(index, len(chosen), 3, 6, filters=filters)
        searched(index.where([0]), 2, 3, 6)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")  # inf - inf in the interpreter
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("room", [triton_step.SORTED, 1])
def test_impossible_and_equal_scores(monkeypatch, dtype, room):
    monkeypatch.setattr(triton_step, "SORTED", room)
    rng = np.random.default_rng(1)
    items = [rng.integers(0, 7, length).tolist() for length in rng.integers(1, 5, 60)]
    index = index_of(items)
    for hole in (0.3, 0.9):
        searched(index, 2, 5, 5, hole=hole, dtype=dtype)
    zeros = torch.zeros(2, WIDTH, device=DEVICE)
    fused = replace(index.on(DEVICE), fused=True)
    got = fused.beam_step(torch.tensor(index.start_states(2), device=DEVICE), None, zeros, beams=1, k=4)
    assert (
        got.tokens.tolist()
        == [index.step(index.start_states(), np.zeros((1, WIDTH), np.float32), 4).tokens[0].tolist()] * 2
    )


@pytest.mark.parametrize("room", [triton_step.SORTED, 1])
def test_more_or_fewer_than_beams_and_too_narrow(monkeypatch, room):
    monkeypatch.setattr(triton_step, "SORTED", room)
    index = index_of([[0], [1], [2, 3], [2, 4], [5]])
    for k in (1, 3, 50):
        searched(index, 2, 2, 1, k=k)
    for width in (1, 2, 4, 8):
        searched(index, 2, 2, 3, width=width)


@pytest.mark.parametrize(("width", "longest"), [(300, 12), (70_000, 300)])
def test_on_many_items(width, longest):
    rng = np.random.default_rng(width)
    lengths = rng.integers(1, longest + 1, 2000)
    items = [(rng.random(length) ** 6 * (width - 1)).astype(np.int64) for length in lengths]
    items += [item[: len(item) // 2 + 1] for item in items[:700]]
    index = TokenIndex.from_items(items, eos=width - 1, width=width)
    searched(index, 2, 20, 6)
    searched(index.where(rng.random(len(items)) < 0.7), 2, 20, 6)
