import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm import HMM, Settings, fit
from ctrlgen.hmm.baselines import DISCOUNTS, perplexities, tally
from ctrlgen.hmm.corpus import Batch, batches, divided
from ctrlgen.hmm.model import from_tables
from ctrlgen.hmm.shards import Shard, write_shard
from tests.hmm.enumerated import arrays, random_hmm

ROOT = Path(__file__).resolve().parents[2]
WIDTH, END = 9, 8


def texts(hmm, rng, count, length):
    first, transition, emission = arrays(hmm)
    ids, path = np.zeros((count, length), np.int64), np.zeros((count, length), np.int64)
    for row in range(count):
        state = rng.choice(len(first), p=first)
        for t in range(length):
            path[row, t], ids[row, t] = state, rng.choice(WIDTH, p=emission[state])
            state = rng.choice(len(first), p=transition[state])
    return ids, path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve shards of texts of a sharp HMM; the "hidden states" are the states, and noise."""
    out, rng = tmp_path_factory.mktemp("shards"), np.random.default_rng(0)
    start, transition, emission = (table**6 for table in arrays(random_hmm(rng, 3, WIDTH)))
    truth = from_tables(start / start.sum(), *(table / table.sum(1, keepdims=True) for table in (transition, emission)))

    for number in range(12):
        ids, path = texts(truth, rng, 20, 8)
        begin, end = np.full(20, 2, np.int32), rng.integers(3, 9, 20).astype(np.int32)
        hidden = np.eye(3)[path[:5, 2:]] + 0.1 * rng.normal(size=(5, 6, 3))
        shard = Shard(ids.astype(np.uint16), begin, end, hidden.astype(np.float16))
        write_shard(out / f"seed0-{number:05d}.safetensors", shard, {"width": str(WIDTH)})
    return out


def settings(**more):
    given = {"states": 3, "eos": (END,), "dtype": "float64", "shards": 3, "stepwise": 2, "full": 2, "emission": 1.0}
    return Settings(**(given | {"transition": 1.0} | more))


def same(one, other, **close):
    for a, b in ((one.start, other.start), (one.transition, other.transition), (one.emission[0], other.emission[0])):
        np.testing.assert_allclose(a, b, **({"rtol": 0, "atol": 0} | close))


@pytest.mark.parametrize("begin", ["classes", "hidden", "random"])
def test_fits(folder, tmp_path, begin):
    seen = []
    hmm = fit(folder, tmp_path / "hmm", settings(begin=begin), held_out=4, progress=seen.append)
    same(HMM.load(tmp_path / "hmm", dtype=torch.float64), hmm)
    assert [path.name for path in tmp_path.iterdir()] == ["hmm"]
    assert len(seen) == seen[-1].steps == 2 * 3 + 2
    assert sum(one.held_out is not None for one in seen) == 4
    card = hmm.card
    assert card["held_out_perplexity"] == pytest.approx(seen[-1].held_out)
    assert card["held_out_perplexity"] < WIDTH and card["settings"]["begin"] == begin


def test_full_passes_never_lose(folder, tmp_path):
    seen = []
    none = {"stepwise": 0, "full": 12, "emission": 0.0, "transition": 0.0}
    fit(folder, tmp_path / "hmm", settings(**none), held_out=4, progress=seen.append)
    losses = [math.log(one.training) for one in seen]
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(losses))
    assert losses[-1] < losses[0] - 0.01


@pytest.mark.parametrize("stop", [1, 4, 7])
def test_goes_on_as_if_it_had_not_been_cut_off(folder, tmp_path, stop):
    wanted = settings(dropout=0.1)
    whole = fit(folder, tmp_path / "whole", wanted, held_out=4)

    class Killed(Exception):
        pass

    def kill(progress):
        if progress.step == stop:
            raise Killed

    with pytest.raises(Killed):
        fit(folder, tmp_path / "hmm", wanted, held_out=4, progress=kill, save_every=0)
    steps = []
    hmm = fit(folder, tmp_path / "hmm", wanted, held_out=4, progress=lambda p: steps.append(p.step))
    assert steps[0] == stop + 1
    same(hmm, whole)


def test_a_checkpoint_of_another_fit_is_refused(folder, tmp_path):
    def kill(progress):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(folder, tmp_path / "hmm", settings(), held_out=4, progress=kill, save_every=0)
    with pytest.raises(InputError, match="other settings"):
        fit(folder, tmp_path / "hmm", settings(seed=1), held_out=4)
    with pytest.raises(InputError, match="other shards"):
        fit(folder, tmp_path / "hmm", settings(), held_out=3)


def command(folder, out, *first):
    line = [*first, "-m", "ctrlgen.cli", "hmm", "fit", str(folder), "--out", str(out), "--states", "3", "--eos", "8"]
    line += ["--dtype", "float64", "--shards", "3", "--stepwise", "2", "--full", "1", "--held-out", "4"]
    line += ["--emission", "1", "--transition", "1", "--dropout", "0.1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *line], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done


def test_two_processes_find_what_one_does(folder, tmp_path):
    done = command(folder, tmp_path / "two", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    assert json.loads(done.stdout)["processes"] == 2
    assert "held out" in done.stderr
    more = {"stepwise": 2, "full": 1, "dropout": 0.1}
    one = fit(folder, tmp_path / "one", settings(**more), held_out=4)
    same(HMM.load(tmp_path / "two", dtype=torch.float64), one, rtol=1e-9, atol=1e-12)


def test_baselines():
    ids = torch.tensor([[0, 1, 2, 1], [1, 2, 2, 0], [2, 1, 2, 0]])
    train = Batch(ids, torch.tensor([1, 1, 1]), torch.tensor([4, 3, 4]))
    held = Batch(torch.tensor([[0, 1, 1, 2], [2, 0, 3, 0]]), torch.tensor([1, 2]), torch.tensor([4, 3]))
    found = perplexities(tally([train], 4), [held])
    rows = [[0, 1, 2, 1], [1, 2, 2], [2, 1, 2, 0]]
    flat = [token for row in rows for token in row]
    unigram = [(flat.count(v) + 0.1) / (len(flat) + 0.4) for v in range(4)]
    pairs = [pair for row in rows for pair in itertools.pairwise(row)]

    def bigram(u, v, d):
        after = [pair for pair in pairs if pair[0] == u]
        if not after:
            return unigram[v]
        return (max(0, after.count((u, v)) - d) + d * len(set(after)) * unigram[v]) / len(after)

    asked = [(0, 1), (1, 1), (1, 2), (0, 3)]
    assert found.unigram == pytest.approx(math.exp(-np.mean([math.log(unigram[v]) for _, v in asked])))
    best = min(math.exp(-np.mean([math.log(bigram(u, v, d)) for u, v in asked])) for d in DISCOUNTS)
    assert found.bigram == pytest.approx(best)
    assert all(sum(bigram(u, v, 0.7) for v in range(4)) == pytest.approx(1) for u in range(4))


def test_every_shard_is_in_one_part(folder):
    corpus = divided(folder, 4)
    assert len(corpus.held_out) == 3 and len(corpus.training) == 9 and corpus.width == WIDTH
    assert sum(int(batch.length.sum()) for batch in batches(corpus.training, WIDTH)) > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"states": 0}, "states is 0"),
        ({"dropout": 1.0}, "dropout"),
        ({"dtype": "int8"}, "dtype"),
        ({"full": -1}, "full"),
    ],
)
def test_refuses_settings(more, message):
    with pytest.raises(InputError, match=message):
        settings(**more)


def test_refuses_shards(folder, tmp_path):
    with pytest.raises(InputError, match="13th of 12"):
        fit(folder, tmp_path / "hmm", settings(), held_out=13)
    with pytest.raises(InputError, match="cannot begin"):
        fit(folder, tmp_path / "hmm", settings(begin="soft"), held_out=4)
    with pytest.raises(InputError, match="eos is"):
        fit(folder, tmp_path / "hmm", settings(eos=(9,)), held_out=4)
    bad = Shard(
        np.full((1, 3), 30, np.uint16), np.zeros(1, np.int32), np.full(1, 3, np.int32), np.zeros((0, 3, 2), np.float16)
    )
    for number in range(2):
        write_shard(tmp_path / f"{number}.safetensors", bad, {"width": "9"})
    with pytest.raises(InputError, match="ids past 8"):
        fit(tmp_path, tmp_path / "hmm", settings(), held_out=2)
