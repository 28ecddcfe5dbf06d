import itertools

import numpy as np
import pytest
import torch

from ctrlgen.errors import ModelError
from ctrlgen.hmm import HMM
from ctrlgen.hmm.emission import Dense
from ctrlgen.hmm.model import from_tables, log_likelihood, memory, observe, stationary, step
from tests.hmm.enumerated import close, joint, random_hmm


@pytest.mark.parametrize(("states", "width", "length"), [(1, 4, 3), (2, 6, 3), (4, 3, 5)])
def test_likelihoods_are_those_of_all_paths(states, width, length):
    hmm = random_hmm(np.random.default_rng(states), states, width)
    texts = list(itertools.product(range(width), repeat=length))
    ids = torch.tensor(texts)
    found = log_likelihood(hmm, ids, torch.full((len(ids),), length)).sum(1).exp()
    close(found, [joint(hmm, text) for text in texts])
    close(found.sum(), 1.0)


def test_lengths():
    hmm = random_hmm(np.random.default_rng(0), 3, 4)
    found = log_likelihood(hmm, torch.tensor([[1, 2, 3], [3, 0, 0]]), torch.tensor([3, 1]))
    close(found[1].exp(), [joint(hmm, (3,)), 1.0, 1.0])
    close(found.sum(1).exp()[0], joint(hmm, (1, 2, 3)))


def test_unknown_and_impossible_tokens_are_passed_over():
    hmm = from_tables([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.3, 0.7]])
    prior = hmm.start.expand(3, -1)
    posterior, likely = observe(hmm, prior, torch.tensor([0, 1, 99]))
    assert likely.tolist() == [1.0, 0.0, 0.0]
    assert torch.equal(posterior, prior)
    close(step(hmm, prior, torch.tensor([0, 1, 99])), [[0.5, 0.5]] * 3)


def test_sixteen_bits_stay_close():
    hmm = random_hmm(np.random.default_rng(2), 4, 6)
    half = hmm.to(dtype=torch.bfloat16)
    assert half.dtype == torch.bfloat16 and half.start.dtype == torch.float32
    ids, length = torch.randint(6, (20, 8)), torch.full((20,), 8)
    exact, rounded = (log_likelihood(one, ids, length) for one in (hmm, half))
    assert float((exact - rounded).abs().max()) < 0.05
    assert hmm.to(dtype=torch.float64) is hmm


def test_stationary_and_memory():
    hmm = from_tables([1.0, 0.0], [[0.9, 0.1], [0.3, 0.7]], [[1.0], [1.0]])
    np.testing.assert_allclose(stationary(hmm), [0.75, 0.25], rtol=1e-9)
    assert memory(hmm) == pytest.approx(0.6, abs=1e-5)
    turning = from_tables([1.0, 0.0], [[0.0, 1.0], [1.0, 0.0]], [[1.0], [1.0]])
    np.testing.assert_allclose(stationary(turning), [0.5, 0.5], rtol=1e-9)


@pytest.mark.parametrize(
    ("start", "transition", "emission", "eos", "message"),
    [
        ([1.0], [[1.0, 0.0]], [[1.0]], (), "expected \\[H\\]"),
        ([0.5], [[1.0]], [[1.0]], (), "start of state 0 sums to 0.5"),
        ([1.0, 0.0], [[1.0, 0.0], [0.2, 0.2]], [[1.0], [1.0]], (), "transition of state 1 sums to 0.4"),
        ([1.0], [[1.0]], [[0.5, 0.4]], (), "emission of state 0 sums to 0.9"),
        ([1.0], [[1.0]], [[1.5, -0.5]], (), "negative"),
        ([1.0], [[1.0]], [[1.0]], (1,), "eos"),
        ([1.0], [[float("nan")]], [[1.0]], (), "sums to nan"),
    ],
)
def test_refuses(start, transition, emission, eos, message):
    with pytest.raises(ModelError, match=message):
        from_tables(start, transition, emission, eos=eos)


@pytest.mark.parametrize("least", [0.0, 1.5, 1e9])
def test_sparse_answers_as_its_dense_form(least):
    hmm = random_hmm(np.random.default_rng(3), 3, 7)
    thin = hmm.sparse(least=least).to(dtype=torch.float64)
    plain = Dense(thin.emission.dense())
    close(plain.table.sum(0), np.ones(3))
    if least == 0:
        close(plain.table, hmm.emission.dense())
    tokens, classes = torch.tensor([[0, 6], [3, 3], [1, 2]]), torch.tensor([0, 1, 1, 0, 2, 2, 0])
    weights, values = torch.rand(2, 3, dtype=torch.float64), torch.randn(2, 7, dtype=torch.complex128)
    for emission in (thin.emission, hmm.emission):
        plain = Dense(emission.dense())
        close(emission.columns(tokens), plain.columns(tokens))
        close(emission.scores(weights), plain.scores(weights))
        close(emission.expected(values), plain.expected(values))
        close(emission.sums(values[0], classes, 3), plain.sums(values[0], classes, 3))
    assert isinstance(thin, HMM)


def test_sums_over_a_large_vocabulary():
    # in float32 and one after the other, they would be off by 4e-4
    width = 50_000
    hmm = HMM(torch.ones(1), torch.ones(1, 1), Dense(torch.full((width, 1), 1 / width)))
    every = torch.zeros(width, dtype=torch.long)
    for emission in (hmm.emission, hmm.sparse(least=0.5).emission, hmm.sparse(least=2.0).emission):
        assert float(emission.sums(torch.ones(width), every, 1)) == pytest.approx(1, abs=1e-6)


def test_names_of_the_package_are_what_they_say():
    import ctrlgen.hmm as package
    from ctrlgen.hmm import fitting, sampling

    assert package.sample is sampling.sample and package.fit is fitting.fit and package.Settings is fitting.Settings
