import itertools

import numpy as np
import pytest
import torch

from ctrlgen.hmm.em import count, maximised, no_counts
from ctrlgen.hmm.initial import assign, clusters, from_paths, random_classes
from tests.hmm.enumerated import arrays, close, random_hmm


def counted(hmm, ids, seen, length):
    counts = no_counts(hmm)
    count(hmm, ids, seen, length, counts)
    return counts


def enumerated_counts(hmm, ids, seen, length):
    """Every path of states of every sequence, weighted with its probability given what was seen."""
    first, transition, emission = arrays(hmm)
    start, crossed = np.zeros(hmm.states), np.zeros((hmm.states, hmm.states))
    emitted, log_likelihood = np.zeros((hmm.width, hmm.states)), 0.0
    for row, n in enumerate(length.tolist()):
        paths = list(itertools.product(range(hmm.states), repeat=n))
        weights = np.array([first[path[0]] for path in paths])
        for i, path in enumerate(paths):
            for t, state in enumerate(path):
                weights[i] *= transition[path[t - 1], state] if t else 1.0
                weights[i] *= emission[state, ids[row, t]] if seen[row, t] else 1.0
        log_likelihood += np.log(weights.sum())
        for path, weight in zip(paths, weights / weights.sum(), strict=True):
            start[path[0]] += weight
            for t, state in enumerate(path):
                crossed[path[t - 1], state] += weight if t else 0.0
                emitted[ids[row, t], state] += weight if seen[row, t] else 0.0
    return start, crossed, emitted, log_likelihood


@pytest.mark.parametrize("seed", range(4))
def test_counts(seed):
    rng = np.random.default_rng(seed)
    hmm = random_hmm(rng, 3, 5, zeros=0.0 if seed % 2 else 0.2)
    ids = torch.from_numpy(rng.integers(0, 5, (4, 5)))
    if seed % 2 == 0:
        ids = torch.zeros_like(ids)  # the token that is never impossible
    length = torch.tensor([5, 1, 3, 4])
    seen = torch.from_numpy(rng.random((4, 5)) < 0.8)
    found = counted(hmm, ids, seen, length)
    for mine, reference in zip(found, enumerated_counts(hmm, ids.numpy(), seen.numpy(), length), strict=False):
        close(mine, reference)
    inside = torch.arange(5) < length[:, None]
    assert int(found.tokens) == int((seen & inside).sum())


def test_parts_add_up():
    rng = np.random.default_rng(5)
    hmm = random_hmm(rng, 3, 5)
    ids, length = torch.from_numpy(rng.integers(0, 5, (6, 4))), torch.tensor([4, 2, 3, 4, 1, 4])
    whole, parts = counted(hmm, ids, torch.ones(6, 4, dtype=bool), length), no_counts(hmm)
    for rows in (slice(0, 2), slice(2, 6)):
        count(hmm, ids[rows], torch.ones_like(ids[rows], dtype=bool), length[rows], parts)
    for one, other in zip(whole, parts, strict=True):
        close(one, other)


def test_full_passes_never_lose():
    rng = np.random.default_rng(6)
    truth = random_hmm(rng, 3, 6)
    hmm = random_hmm(rng, 3, 6)
    first, transition, emission = arrays(truth)
    texts = np.zeros((80, 8), int)
    for row in texts:
        state = rng.choice(3, p=first)
        for t in range(8):
            row[t] = rng.choice(6, p=emission[state])
            state = rng.choice(3, p=transition[state])
    ids, length = torch.from_numpy(texts), torch.full((80,), 8)
    likelihoods = []
    for _ in range(30):
        counts = counted(hmm, ids, torch.ones_like(ids, dtype=bool), length)
        likelihoods.append(float(counts.log_likelihood))
        hmm = maximised(hmm, counts, 0.0)
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(likelihoods))
    assert likelihoods[-1] > likelihoods[0] + 5


def test_sixteen_bits_count_about_the_same():
    rng = np.random.default_rng(7)
    hmm = random_hmm(rng, 4, 6)
    ids, length = torch.from_numpy(rng.integers(0, 6, (50, 6))), torch.full((50,), 6)
    seen = torch.ones_like(ids, dtype=bool)
    exact, rounded = counted(hmm, ids, seen, length), counted(hmm.to(dtype=torch.bfloat16), ids, seen, length)
    for one, other in zip(exact, rounded, strict=True):
        np.testing.assert_allclose(other.double(), one, rtol=0.03, atol=0.3)


def test_a_stepwise_step_mixes():
    hmm = random_hmm(np.random.default_rng(0), 2, 3)
    ids = torch.tensor([[0, 1]])
    one = counted(hmm, ids, torch.ones_like(ids, dtype=bool), torch.tensor([2]))
    mixed = no_counts(hmm).mixed(one, 0.25)
    close(mixed.emission, one.emission / 4)


def test_known_paths_are_learnt():
    ids, path = torch.tensor([[0, 1, 2], [2, 0, 7]]), torch.tensor([[0, 0, 1], [1, 0, -1]])
    ids[1, 2] = 0
    hmm = from_paths([(ids, path)], 2, 3, smoothing=0.0, pseudocount=0.0)
    close(hmm.start, [0.5, 0.5])
    np.testing.assert_allclose(hmm.transition, [[0.5, 0.5], [1.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(hmm.emission.dense(), [[2 / 3, 0], [1 / 3, 0], [0, 1]], atol=1e-6)
    smooth = from_paths([(ids, path)], 2, 3)
    assert bool((smooth.emission.dense() > 0).all())


def test_clusters_find_what_is_apart():
    rng = torch.Generator().manual_seed(0)
    truth = torch.arange(300) % 3
    points = torch.eye(3).repeat_interleave(2, 1)[truth] + 0.05 * torch.randn(300, 6, generator=rng)
    found = [assign(points, clusters(points, 3, seed=seed)) for seed in range(4)]
    assert any(len({(int(a), int(b)) for a, b in zip(truth, one, strict=True)}) == 3 for one in found)
    assert clusters(points[:2], 5).isfinite().all()


def test_frequent_tokens_have_classes_of_their_own():
    classes = random_classes(torch.tensor([5.0, 100.0, 1.0, 50.0, 0.0, 0.0]), 4)
    assert classes[1] != classes[3] and {int(classes[1]), int(classes[3])} == {0, 1}
    assert int(classes.min()) >= 0 and int(classes.max()) < 4
