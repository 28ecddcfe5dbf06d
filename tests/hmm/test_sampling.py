import numpy as np
import pytest
import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm.sampling import draw, sample, sample_batch
from ctrlgen.hmm.shards import read_shard, read_shards, shard_paths


@pytest.fixture(scope="module")
def model():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, initializer_range=1.0,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def test_draws_have_the_probabilities():
    logits = torch.full((1, 1000), -torch.inf)
    logits[0, [3, 255, 256, 999]] = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    drawn = draw(logits.expand(20_000, -1), torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=1000) / 20_000
    np.testing.assert_allclose(shares[[3, 255, 256, 999]], [0.1, 0.2, 0.3, 0.4], atol=0.015)
    assert float(shares.sum() - shares[[3, 255, 256, 999]].sum()) == 0


def test_first_tokens_are_distributed_as_the_model_says(model):
    prompt = [3, 1, 4]
    with torch.inference_mode():
        reference = model(torch.tensor([prompt])).logits[0, -1].softmax(0)
    shard = sample_batch(model, [prompt, [1]] * 4000, 1, (), seed=0)
    tokens = shard.ids[::2, 3].astype(np.int64)
    np.testing.assert_allclose(np.bincount(tokens, minlength=11) / 4000, reference, atol=0.03)


def test_padding_changes_nothing(model):
    # of the hidden states, and so of every distribution sampled from
    long = sample_batch(model, [[5], [1, 2, 3, 4, 5, 6]], 4, (), seed=1, hidden_rows=2)
    row = long.ids[0, : long.end[0]].astype(np.int64)
    with torch.inference_mode():
        reference = model.base_model(torch.from_numpy(row[None])).last_hidden_state[0, :4]
    np.testing.assert_allclose(long.hidden[0].astype(np.float32), reference, atol=5e-3)


def test_ends(model):
    shard = sample_batch(model, [[1], [2, 3]] * 50, 8, (4, 7), seed=0)
    for ids, begin, end in zip(shard.ids, shard.begin, shard.end, strict=True):
        text = ids[begin:end].tolist()
        assert all(token not in (4, 7) for token in text[:-1])
        assert len(text) == 8 or text[-1] in (4, 7)


def test_goes_on_where_it_stopped(model, tmp_path):
    asked = {"tokens": 100, "new_tokens": 5, "batch": 4, "eos": (4,), "hidden_rows": 1}
    sample(model, [[1], [2, 3]], tmp_path / "a", seed=3, **asked)
    paths = shard_paths(tmp_path / "a")
    assert len(paths) == 5
    first = [read_shard(path) for path in paths]
    paths[2].unlink()
    seen = []
    sample(model, [[1], [2, 3]], tmp_path / "a", seed=3, progress=seen.append, **asked)
    assert [one.shard for one in seen] == [3]
    for one, other in zip(first, read_shards(paths), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert first[0].ids.dtype == np.uint16 and first[0].hidden.shape == (1, 5, 16)
    sample(model, [[1]], tmp_path / "a", seed=4, **asked)
    assert len(shard_paths(tmp_path / "a")) == 10


@pytest.mark.parametrize(
    ("prompts", "message"), [([], "no prompts"), ([[]], "at least one"), ([[1], [11]], "prompt 1")]
)
def test_refuses(model, tmp_path, prompts, message):
    with pytest.raises(InputError, match=message):
        sample(model, prompts, tmp_path, tokens=1)


def test_damage_is_noticed(model, tmp_path):
    sample(model, [[1]], tmp_path, tokens=1, batch=2)
    (path,) = shard_paths(tmp_path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="not an intact shard"):
        read_shard(path)
    path.write_bytes(b"x")
    with pytest.raises(InputError, match="not a shard"):
        read_shard(path)
    with pytest.raises(InputError, match="no shards"):
        shard_paths(tmp_path / "none")


@pytest.mark.model
def test_instructions_are_put_into_the_chat_format(tmp_path):
    from ctrlgen import models
    from ctrlgen.cli.hmm import _prompts

    _, tokenizer = models.load(None)
    (tmp_path / "asked").write_text("Name a colour.\n\nWhy?\n")
    plain, chat = (_prompts(tmp_path / "asked", tokenizer, one) for one in (False, True))
    assert len(plain) == len(chat) == 2
    text = tokenizer.decode(chat[0])
    assert "user\nName a colour." in text and text.endswith("<|im_start|>assistant\n")
    assert chat[0].count(tokenizer.convert_tokens_to_ids("<|im_start|>")) == text.count("<|im_start|>")
    tokenizer.chat_template = None
    with pytest.raises(InputError, match="no chat format"):
        _prompts(tmp_path / "asked", tokenizer, True)
