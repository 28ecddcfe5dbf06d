"""Steps over batches: host kernels and torch against the plain catalogue, dead beams, filters of each row."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.layout import DONE, LOST, NODE
from ctrlgen.index.token_index import TokenIndex

from .catalogues import ENDS, WIDTH, catalogues, fixed_catalogues, index_of, prefixes, state_after, unhurried
from .plain import PlainCatalogue

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
endings = st.sampled_from([(), ENDS])


def search(step, states, queries, beams, steps, seed=0, start=None, plain=None):
    """A beam search by ``step``, checked at every step against the plain catalogues; returns the last candidates."""
    rng = np.random.default_rng(seed)
    scores = np.where(states[:, NODE] == LOST, -np.inf, 0).astype(np.float32)
    believed = [[((), np.float32(0), False)] + [None] * (beams - 1) for _ in range(queries)]
    for _ in range(steps):
        logs = rng.standard_normal((queries * beams, WIDTH)).astype(np.float32)
        got = step(states, scores, logs)
        for query in range(queries):
            rows = logs[query * beams : (query + 1) * beams]
            best = plain[query].beam_step(believed[query], rows, beams)
            assert np.asarray(got.scores)[query].tolist() == [s for s, *_ in best] + [-math.inf] * (beams - len(best))
            assert np.asarray(got.tokens)[query].tolist() == [t for _, _, t, _ in best] + [-1] * (beams - len(best))
            parents = [query * beams + p for _, p, _, _ in best] + [query * beams] * (beams - len(best))
            assert np.asarray(got.parents)[query].tolist() == parents
            believed[query] = [beam for *_, beam in best] + [None] * (beams - len(best))
            for state, beam in zip(np.asarray(got.states)[query], believed[query], strict=True):
                assert (state[NODE] == LOST) == (beam is None)
                assert beam is None or (state[NODE] == DONE) == beam[2]
        states, scores = np.asarray(got.states).reshape(-1, 4), np.asarray(got.scores).reshape(-1)
    return got, believed


def torch_step(index, device, beams, **more):
    def step(states, scores, logs):
        on = index.on(device)
        arguments = [torch.tensor(array, device=device) for array in (states, scores, logs)]
        got = on.beam_step(*arguments, beams=beams, **more)
        return type(got)(*(part.cpu() for part in got))

    return step


@unhurried
@given(catalogues(longest=4), st.integers(1, 6), st.integers(1, 3), endings, st.integers(0, 5))
def test_beam_search_equals_going_through_all(items, beams, queries, ends, seed):
    ends = ends or ENDS
    index, plain = index_of(items, eos=ends), PlainCatalogue(items, ends=ends)
    states = index.start_states(queries, beams=beams)
    got, believed = search(
        lambda *a: index.beam_step(*a, beams=beams), states, queries, beams, 6, seed, plain=[plain] * queries
    )
    for row, beam in zip(got.states.reshape(-1, 4), [b for q in believed for b in q], strict=True):
        if beam is not None and beam[2]:
            assert index.ids(row).tolist() == [i for i, item in enumerate(items) if tuple(item) == beam[0]]


@unhurried
@given(fixed_catalogues(), st.integers(1, 6), st.integers(1, 3))
def test_items_of_one_length(items, beams, queries):
    index, plain = index_of(items, eos=None), PlainCatalogue(items)
    states = index.start_states(queries, beams=beams)
    search(lambda *a: index.beam_step(*a, beams=beams), states, queries, beams, 6, plain=[plain] * queries)


@pytest.mark.parametrize("device", DEVICES)
@unhurried
@given(items=catalogues(longest=4), beams=st.integers(1, 6), queries=st.integers(1, 3))
def test_torch_equals_going_through_all(device, items, beams, queries):
    index, plain = index_of(items), PlainCatalogue(items, ends=ENDS)
    states = index.start_states(queries, beams=beams)
    search(torch_step(index, device, beams), states, queries, beams, 6, plain=[plain] * queries)
    search(torch_step(index, device, beams, width=32), states, queries, beams, 6, plain=[plain] * queries)


@pytest.mark.parametrize("device", DEVICES)
@unhurried
@given(items=fixed_catalogues(), beams=st.integers(1, 6))
def test_torch_on_items_of_one_length(device, items, beams):
    index, plain = index_of(items, eos=None), PlainCatalogue(items)
    search(torch_step(index, device, beams), index.start_states(1, beams=beams), 1, beams, 6, plain=[plain])


@unhurried
@given(catalogues(), st.data())
def test_each_row_obeys_its_filter(items, data):
    index, plain = index_of(items), PlainCatalogue(items, ends=ENDS)
    subsets = st.none() | st.sets(st.integers(0, len(items) - 1), min_size=1)
    chosen = data.draw(st.lists(subsets, min_size=1, max_size=4))
    plains = [plain if ids is None else plain.only(ids) for ids in chosen]
    filters = index.row_filters([None if ids is None else index.filter(list(ids)) for ids in chosen], beams=3)
    states = index.start_states(len(chosen), beams=3)
    search(lambda *a: index.beam_step(*a, beams=3, filters=filters), states, len(chosen), 3, 6, plain=plains)
    search(torch_step(index, "cpu", 3, filters=filters), states, len(chosen), 3, 6, plain=plains)


@unhurried
@given(catalogues(), st.data())
def test_masks_and_moves_are_the_same_on_every_device(items, data):
    index = index_of(items)
    ids = data.draw(st.sets(st.integers(0, len(items) - 1), min_size=1))
    for one in (index, index.where(list(ids))):
        states = np.concatenate([state_after(one, p) for p in prefixes(items)] + [one.start_states(1, beams=2)])
        states = np.concatenate([states, one.advance_states(states, np.full(len(states), ENDS[1]))])
        on, there = one.on("cpu"), torch.tensor(states)
        assert np.array_equal(one.masks(states), on.masks(there).numpy().view(np.uint32))
        for token in range(-1, WIDTH):
            here = one.advance_states(states, np.full(len(states), token))
            assert np.array_equal(here, on.advance_states(there, torch.full((len(states),), token)).numpy())


def test_step_gives_the_best_of_each_row():
    index = index_of([[0, 1], [0, 2], [1]])
    logs = np.array([[0, -1, 0, 0, 0, 0, 0, -3, -2], [-5, -4, -3, 0, 0, 0, 0, 0, 0]], np.float32)
    states = np.concatenate([index.start_states(), state_after(index, [0])])
    got = index.step(states, logs, 3)
    assert got.tokens.tolist() == [[0, 1, -1], [2, 1, -1]]
    assert got.scores.tolist() == [[0, -1, -math.inf], [-3, -4, -math.inf]]
    assert got.parents.tolist() == [[0, 0, 0], [1, 1, 1]]
    tensors = index.step(states, torch.tensor(logs), 3, scores=torch.tensor([1.0, 2.0]))
    assert tensors.scores.tolist() == [[1, 0, -math.inf], [-1, -2, -math.inf]]
    assert index.step(states, torch.tensor(logs, dtype=torch.bfloat16), 1).tokens.tolist() == [[0], [2]]


def test_of_several_ends_the_likeliest_counts():
    index = index_of([[0]])
    logs = np.zeros((1, WIDTH), np.float32)
    logs[0, 8] = 1
    got = index.step(state_after(index, [0]), logs, 2)
    assert (got.tokens.tolist(), got.scores.tolist()) == ([[8, -1]], [[1, -math.inf]])


def test_ties_go_to_the_first():
    index = index_of([[token] for token in range(7)])
    got = index.step(index.start_states(), np.zeros((1, WIDTH), np.float32), 4)
    assert got.tokens.tolist() == [[0, 1, 2, 3]]
    signed = np.where(np.arange(WIDTH) % 2, -0.0, 0.0).astype(np.float32)[None]
    assert index.step(index.start_states(), signed, 7).tokens.tolist() == [[0, 1, 2, 3, 4, 5, 6]]


def test_impossible_tokens_are_no_candidates():
    index = index_of([[0], [1], [2]])
    logs = np.full((1, WIDTH), -np.inf, np.float32)
    logs[0, 1], logs[0, 2] = -1, np.nan
    for got in (
        index.step(index.start_states(), logs, 3),
        torch_step(index, "cpu", 1, k=3)(index.start_states(), np.zeros(1, np.float32), logs),
    ):
        assert np.asarray(got.tokens).tolist() == [[1, -1, -1]]


def test_three_items_and_eight_beams_give_three_items():
    index = TokenIndex.from_items([[0, 0], [0, 1], [3, 2]])
    states, scores = index.start_states(1, beams=8), np.zeros(8, np.float32)
    for _ in range(3):
        got = index.beam_step(states, scores, np.zeros((8, 4), np.float32), beams=8)
        states, scores = got.states.reshape(-1, 4), got.scores.reshape(-1)
    assert [index.ids(state).tolist() for state in states] == [[0], [1], [2], [], [], [], [], []]
    assert scores.tolist() == [0, 0, 0] + [-math.inf] * 5


def test_a_row_wider_than_the_width_is_reported():
    index = index_of([[token] for token in range(5)])
    states, logs = torch.tensor(index.start_states()), torch.zeros(1, WIDTH)
    on = index.on("cpu")
    assert on.width_of(states) == 8
    assert bool(on.beam_step(states, None, logs, width=4).overflow)
    assert not bool(on.beam_step(states, None, logs, width=8).overflow)


@pytest.mark.slow
def test_compiles_as_one_graph():
    index = index_of([[0, 1], [0, 2], [1], [1, 1, 1]]).where([0, 1, 3])
    on = index.on("cpu")
    states, scores = torch.tensor(index.start_states(2, beams=3)), torch.zeros(6)
    logs = torch.randn(6, WIDTH)

    def step(states, scores, logs):
        got = on.beam_step(states, scores, logs, beams=3, width=4)
        moved = on.advance_states(got.states.view(-1, 4), got.tokens.view(-1))
        return got.tokens, got.states, moved, on.masks(states, width=4)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    for one, other in zip(step(states, scores, logs), compiled(states, scores, logs), strict=True):
        assert torch.equal(one, other)


@pytest.mark.gpu
def test_captured_in_a_cuda_graph():
    index = index_of([[0, 1], [0, 2], [1], [1, 1, 1]])
    on = index.on("cuda")
    states = torch.tensor(index.start_states(2, beams=3), device="cuda")
    scores, logs = torch.zeros(6, device="cuda"), torch.randn(6, WIDTH, device="cuda")
    plain = on.beam_step(states, scores, logs, beams=3, width=4)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = on.beam_step(states, scores, logs, beams=3, width=4)
    graph.replay()
    for one, other in zip(plain, captured, strict=True):
        assert torch.equal(one, other)


def test_refuses_shapes_that_do_not_fit():
    index = index_of([[0, 1], [2]])
    states, scores, logs = index.start_states(4), np.zeros(4, np.float32), np.zeros((4, WIDTH), np.float32)
    with pytest.raises(InputError, match="not groups of 3"):
        index.beam_step(states, scores, logs, beams=3)
    with pytest.raises(InputError, match="need scores"):
        index.beam_step(states, scores[:3], logs, beams=2)
    with pytest.raises(InputError, match="shape"):
        index.beam_step(states[:, :3], scores, logs, beams=2)
    with pytest.raises(InputError, match="k=0"):
        index.step(states, logs, 0)
    with pytest.raises(InputError, match="8 columns"):
        index.step(states, logs[:, :8].copy(), 1)
    with pytest.raises(InputError, match="filters for 2 rows"):
        index.step(states, logs, 1, filters=index.row_filters([None, None]))
    with pytest.raises(InputError, match="as many tokens"):
        index.advance_states(states, np.zeros(3, np.int64))
    with pytest.raises(UnsatisfiableError, match="row 1"):
        index.row_filters([None, index.filter([])])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("width", "longest"), [(300, 12), (70_000, 300)])
def test_torch_equals_the_kernels_on_many_items(device, width, longest):
    rng = np.random.default_rng(width)
    # tokens are drawn with a skew, and many items begin with another one
    lengths = rng.integers(1, longest + 1, 3000)
    items = [(rng.random(length) ** 6 * (width - 1)).astype(np.int64) for length in lengths]
    items += [item[: len(item) // 2 + 1] for item in items[:1000]]
    index = TokenIndex.from_items(items, eos=width - 1, width=width)
    index = index.where(rng.random(len(items)) < 0.7)
    states, scores = index.start_states(2, beams=20), np.zeros(40, np.float32)
    for _ in range(8):
        logs = rng.standard_normal((40, width)).astype(np.float32)
        host = index.beam_step(states, scores, logs, beams=20)
        there = torch_step(index, device, 20)(states, scores, logs)
        for one, other in zip(host[:4], there[:4], strict=True):
            assert np.array_equal(one, other.numpy())
        moved = index.advance_states(states[host.parents.ravel()], host.tokens.ravel())
        assert np.array_equal(moved[host.tokens.ravel() >= 0], host.states.reshape(-1, 4)[host.tokens.ravel() >= 0])
        states, scores = host.states.reshape(-1, 4), host.scores.reshape(-1)
