import json

import numpy as np
import pytest
import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.hmm import HMM
from ctrlgen.hmm.model import HMM as Model
from tests.hmm.enumerated import random_hmm


@pytest.fixture
def hmm():
    made = random_hmm(np.random.default_rng(0), 8, 40, eos=(3,))
    return Model(made.start, made.transition, made.emission, made.eos, {"model": "toy", "perplexity": 12.5})


def test_round_trip(hmm, tmp_path):
    hmm.save(tmp_path / "h.safetensors")
    back = HMM.load(tmp_path / "h.safetensors", dtype=torch.float64)
    assert torch.equal(back.emission.dense(), hmm.emission.dense()) and torch.equal(back.transition, hmm.transition)
    assert back.eos == (3,) and back.card == hmm.card
    assert [path.name for path in tmp_path.iterdir()] == ["h.safetensors"]


def test_sparse_round_trip(hmm, tmp_path):
    thin = hmm.sparse(least=1.2)
    thin.save(tmp_path / "h.safetensors")
    back = HMM.load(tmp_path / "h.safetensors", dtype=torch.float64)
    assert torch.equal(back.emission.dense(), thin.emission.dense())
    with pytest.raises(InputError, match="dense"):
        thin.save(tmp_path / "h.safetensors", bits=8)


def test_eight_bits(tmp_path):
    # probabilities over many orders of magnitude, as those of a language model are
    rng = np.random.default_rng(1)
    hmm = random_hmm(rng, 6, 3000)
    table = torch.from_numpy(np.exp(rng.normal(0, 3, (3000, 6))))
    hmm = Model(hmm.start, hmm.transition, type(hmm.emission)(table / table.sum(0)))
    hmm.save(tmp_path / "h.safetensors", bits=8)
    back = HMM.load(tmp_path / "h.safetensors", dtype=torch.float64).emission.dense()
    exact = hmm.emission.dense()
    divergence = (exact * (exact / back).log()).sum(0)
    assert float(divergence.max()) < 1e-3
    assert (tmp_path / "h.safetensors").stat().st_size < 3000 * 6 * 1.3


def test_damage_is_noticed(hmm, tmp_path):
    path = tmp_path / "h.safetensors"
    hmm.save(path)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        HMM.load(path)
    path.write_bytes(content[:50])
    with pytest.raises(ModelError, match="cannot read"):
        HMM.load(path)
    with pytest.raises(ModelError, match="cannot read"):
        HMM.load(tmp_path / "none")


def test_other_files_are_refused(tmp_path):
    from safetensors.torch import save_file

    from ctrlgen.tensors import write

    save_file({"x": torch.zeros(1)}, tmp_path / "x")
    with pytest.raises(ModelError, match="expected 'hmm'"):
        HMM.load(tmp_path / "x")
    write(tmp_path / "y", "hmm", {"start": torch.ones(1)}, json.loads('{"eos": [], "card": {}}'))
    with pytest.raises(ModelError, match="lacks a part"):
        HMM.load(tmp_path / "y")
