"""retrieve against the score of every item, one by one; models are toys or tiny random ones."""

import numpy as np
import pytest
import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import ctrlgen as cg
from ctrlgen.flows.retrieve import retrieve
from ctrlgen.index.live import LiveIndex
from ctrlgen.testing import ToyLM, ToyTokenizer, toy_vocabulary

WIDTH, END = 20, 0
VOCABULARY = toy_vocabulary()


def random_items(seed, count=40, longest=4, fixed=False):
    rng = np.random.default_rng(seed)
    lengths = np.full(count, longest) if fixed else rng.integers(1, longest + 1, count)
    return [rng.integers(1, 7, length).tolist() for length in lengths]


def index_of(items, eos=END, **more):
    return cg.TokenIndex.from_items(items, eos=eos, width=WIDTH, **more)


class Plain:
    """Vocabulary enough for a ToyLM."""

    width, eos = WIDTH, (END,)


@pytest.fixture(scope="module")
def toy():
    return ToyLM(Plain())


def tiny(name):
    torch.manual_seed(0)
    small = {"vocab_size": WIDTH, "bos_token_id": 1, "eos_token_id": END, "pad_token_id": END}
    decoder = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 16}
    if name == "llama":
        model = LlamaForCausalLM(LlamaConfig(**small, **decoder, initializer_range=0.5, max_position_embeddings=32))
    elif name == "gpt2":
        model = GPT2LMHeadModel(
            GPT2Config(**small, n_layer=2, n_head=2, n_embd=16, n_positions=32, initializer_range=0.5)
        )
    elif name == "mamba":
        model = MambaForCausalLM(MambaConfig(**small, hidden_size=16, num_hidden_layers=2, state_size=4))
    elif name == "t5":
        model = T5ForConditionalGeneration(
            T5Config(**small, num_layers=2, num_heads=2, d_model=16, d_kv=8, d_ff=16, decoder_start_token_id=0)
        )
    else:
        sides = {f"{side}_{part}": 2 for side in ("encoder", "decoder") for part in ("layers", "attention_heads")}
        model = BartForConditionalGeneration(
            BartConfig(
                **small, **sides, d_model=16, encoder_ffn_dim=16, decoder_ffn_dim=16, max_position_embeddings=32,
                init_std=0.5, decoder_start_token_id=2,
            )
        )  # fmt: skip
    return model.eval()


MODELS = ("llama", "gpt2", "t5", "bart")
tinies = pytest.fixture(scope="module", params=MODELS)(lambda request: tiny(request.param))


@torch.no_grad()
def score_of(model, prompt, item, end=END):
    """Log-probability of an item and its end, by one pass over the whole of it."""
    target = [*item, *([] if end is None else [end])]
    if model.config.is_encoder_decoder:
        read = [model.config.decoder_start_token_id, *target[:-1]]
        logits = model(input_ids=torch.tensor([prompt]), decoder_input_ids=torch.tensor([read])).logits[0]
    else:
        logits = model(input_ids=torch.tensor([[*prompt, *target[:-1]]])).logits[0, len(prompt) - 1 :]
    return float(logits.log_softmax(-1)[range(len(target)), target].sum())


def brute(model, prompt, items, end=END, only=None):
    """(id, score) of all items, best first."""
    chosen = range(len(items)) if only is None else only
    return sorted(((i, score_of(model, prompt, items[i], end)) for i in chosen), key=lambda pair: -pair[1])


def assert_same(hits, wanted):
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in wanted], atol=1e-4)
    assert len({hit.id for hit in hits}) == len(hits)
    scores = dict(wanted)
    assert {hit.id for hit in hits} == set(scores)
    np.testing.assert_allclose([hit.score for hit in hits], [scores[hit.id] for hit in hits], atol=1e-4)


# exactness


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("use_cache", [True, False])
def test_enough_beams_find_every_item(toy, seed, use_cache):
    items = random_items(seed)
    (hits,) = retrieve(toy, [[3, 4]], index_of(items), k=len(items), use_cache=use_cache)
    assert_same(hits, brute(toy, [3, 4], items))
    assert [list(hit.tokens) for hit in hits] == [items[hit.id] for hit in hits]


def test_items_without_ends(toy):
    items = random_items(4, fixed=True)
    (hits,) = retrieve(toy, [[3]], index_of(items, eos=None), k=len(items))
    assert_same(hits, brute(toy, [3], items, end=None))


@pytest.mark.parametrize("use_cache", [True, False])
def test_real_architectures(tinies, use_cache):
    items = random_items(1, count=25)
    prompts = [[5], [2, 7, 9, 4, 3], [8, 8, 1]]
    found = retrieve(tinies, prompts, index_of(items), k=25, use_cache=use_cache)
    for prompt, hits in zip(prompts, found, strict=True):
        assert_same(hits, brute(tinies, prompt, items))


def test_the_likeliest_of_several_ends_counts(toy):
    (hits,) = retrieve(toy, [[3]], index_of([[1, 2], [1]], eos=(0, 9)), k=2)
    for hit in hits:
        assert hit.score == pytest.approx(max(score_of(toy, [3], hit.tokens, end) for end in (0, 9)), abs=1e-4)


def test_few_beams_equal_a_plain_beam_search(toy):
    items, prompt, beams = random_items(7, count=80, longest=5, fixed=True), [3, 1], 4
    live = [((), 0.0)]
    for depth in range(5):
        grown = {tuple(item[: depth + 1]) for item in items}
        live = [(head, score_of(toy, prompt, head, None)) for head in grown if head[:-1] in dict(live)]
        live = sorted(live, key=lambda pair: -pair[1])[:beams]
    (hits,) = retrieve(toy, [prompt], index_of(items, eos=None), k=4, beams=beams)
    assert [hit.tokens for hit in hits] == [head for head, _ in live]
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in live], atol=1e-4)


def test_recurrent_models_read_whole_rows():
    model, items = tiny("mamba"), random_items(1, count=25)
    (hits,) = retrieve(model, [[2, 7, 9]], index_of(items), k=25)
    assert_same(hits, brute(model, [2, 7, 9], items))


# batches


def test_the_model_reads_only_rows_that_run(toy, monkeypatch):
    rows = []
    forward = ToyLM.forward

    def counted(self, input_ids, *arguments, **more):
        rows.append(tuple(input_ids.shape))
        return forward(self, input_ids, *arguments, **more)

    monkeypatch.setattr(ToyLM, "forward", counted)
    monkeypatch.setattr(counted, "__wrapped__", forward, raising=False)  # its signature is looked at
    retrieve(toy, [[3, 1]], index_of([[1], [2, 2, 2]]), k=2)
    # the prompt; 1 and 2; 2 2 alone, for 1 has ended; 2 2 2
    assert rows == [(1, 2), (2, 1), (1, 1), (1, 1)]


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(tinies, side):
    index = index_of(random_items(2))
    prompts = [[5, 6], [2, 7, 9, 4, 3]]
    gap = [11, 12, 13]
    padded = torch.tensor([[*gap, 5, 6] if side == "left" else [5, 6, *gap], prompts[1]])
    mask = torch.ones_like(padded)
    mask[0] = torch.tensor([0, 0, 0, 1, 1] if side == "left" else [1, 1, 0, 0, 0])
    together = retrieve(tinies, padded, index, k=5, attention_mask=mask)
    for hits, prompt in zip(together, prompts, strict=True):
        (alone,) = retrieve(tinies, torch.tensor(prompt), index, k=5)
        assert [hit.id for hit in hits] == [hit.id for hit in alone]
        np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in alone], atol=1e-4)


def test_texts():
    model, tokenizer = ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY)
    items = [VOCABULARY.encode_greedy(text) for text in (b"a", b"ab", b"b")]
    index = cg.TokenIndex.from_items(items, vocabulary=VOCABULARY)
    one = cg.retrieve(model, "ab", index, k=3, tokenizer=tokenizer)
    both = cg.retrieve(model, ["ab", "b"], index, k=3, tokenizer=tokenizer)
    assert (len(one), len(both)) == (1, 2)
    assert one[0] == both[0] == retrieve(model, [tokenizer("ab")["input_ids"]], index, k=3)[0]


# filters, dead beams, several ids


def test_fewer_items_than_beams(toy):
    items = random_items(3, count=3)
    (hits,) = retrieve(toy, [[3]], index_of(items), k=10, beams=50)
    assert_same(hits, brute(toy, [3], items))


def test_a_filter_for_each_prompt(toy):
    items = random_items(5)
    index = index_of(items)
    prompts, even, few = [[3], [4], [5]], np.arange(40) % 2 == 0, [1, 7]
    found = retrieve(toy, prompts, index, k=40, filter=[even, None, few])
    for prompt, hits, only in zip(prompts, found, (range(0, 40, 2), None, few), strict=True):
        assert_same(hits, brute(toy, prompt, items, only=only))


@pytest.mark.parametrize("given", [[1, 7], np.array([1, 7]), np.isin(np.arange(40), [1, 7]), "Filter", "where"])
def test_one_filter_for_all_prompts(toy, given):
    items = random_items(5)
    index = index_of(items)
    if isinstance(given, str):
        given, index = (index.filter([1, 7]), index) if given == "Filter" else (None, index.where([1, 7]))
    found = retrieve(toy, [[3], [4]], index, k=5, filter=given)
    for prompt, hits in zip([[3], [4]], found, strict=True):
        assert_same(hits, brute(toy, prompt, items, only=[1, 7]))


def test_items_with_the_same_tokens_give_all_their_ids(toy):
    index = index_of([[1, 2], [3], [1, 2], [1, 2]], ids=[10, 20, 30, 40])
    (hits,) = retrieve(toy, [[3]], index, k=4)
    assert sorted(hit.id for hit in hits) == [10, 20, 30, 40]
    assert len({hit.score for hit in hits if hit.id != 20}) == 1
    (hits,) = retrieve(toy, [[3]], index, k=4, filter=[20, 30])
    assert sorted(hit.id for hit in hits) == [20, 30]
    assert len(retrieve(toy, [[3]], index, k=2)[0]) == 2


def test_items_of_probability_zero_do_not_come_out():
    def distribution(ids):
        row = np.zeros(WIDTH)
        row[2] = -np.inf
        return row.tolist()

    (hits,) = retrieve(ToyLM(Plain(), distribution), [[3]], index_of([[1], [2], [1, 2], [3]]), k=4)
    assert sorted(hit.id for hit in hits) == [0, 3]


def test_a_live_index(toy):
    items = random_items(6, count=30)
    live = LiveIndex(index_of(items[:20]))
    live.add(items[20:])
    live.remove([0, 25])
    kept = [i for i in range(30) if i not in (0, 25)]
    for index in (live, live.snapshot):
        (hits,) = retrieve(toy, [[3]], index, k=30)
        assert_same(hits, brute(toy, [3], items, only=kept))
    found = retrieve(toy, [[3], [4]], live, k=30, filter=[[1, 2, 21, 22], None])
    assert_same(found[0], brute(toy, [3], items, only=[1, 2, 21, 22]))
    assert_same(found[1], brute(toy, [4], items, only=kept))
    (hits,) = retrieve(toy, [[3]], live, k=30, filter=live.snapshot.filter([2]))
    assert [hit.id for hit in hits] == [2]


def on_torch(index, states, scores, logs, beams, k, filters):
    """A step as it is done on other devices than the CPU."""
    return index.on("cpu").beam_step(states, scores, logs, beams=beams, k=k, filters=filters)


@pytest.mark.parametrize("given", [None, [np.arange(40) % 2 == 0, None]])
def test_steps_of_other_devices_give_the_same(toy, given, monkeypatch):
    index, prompts = index_of(random_items(5)), [[3], [4]]
    on_host = retrieve(toy, prompts, index, k=6, filter=given)
    monkeypatch.setattr("ctrlgen.flows.retrieve._step", on_torch)
    assert retrieve(toy, prompts, index, k=6, filter=given) == on_host


@pytest.mark.gpu
def test_on_a_gpu():
    model, items = tiny("llama"), random_items(5)
    wanted = [brute(model, prompt, items) for prompt in ([3], [4, 9, 2])]
    live = LiveIndex(index_of(items[:30]))
    live.add(items[30:])
    model = model.to("cuda")
    for index in (index_of(items), live):
        found = retrieve(model, [[3], [4, 9, 2]], index, k=40)
        for hits, each in zip(found, wanted, strict=True):
            np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in each], atol=1e-3)


# what is refused


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        ([[[3]]], {"k": 0}, "k is 0"),
        ([[[3]]], {"beams": 3, "k": 5}, "3 beams cannot end in k=5"),
        ([[[3]]], {"beams": True}, "beams is True"),
        ([[]], {}, "no prompts"),
        ([[[3], []]], {}, "prompt 1 is empty"),
        ([["ab"]], {}, "tokenizer="),
        ([[[3.5]]], {}, "tokenizer="),
        ([torch.ones(1, 2)], {}, "must be integers"),
        ([torch.tensor([[3]])], {"attention_mask": torch.ones(2, 1)}, "attention_mask has the shape"),
        ([torch.tensor([[3]])], {"attention_mask": torch.zeros(1, 1)}, "prompt 0 is empty"),
        ([[[3]]], {"attention_mask": [[1]]}, "lists need none"),
        ([[[WIDTH]]], {}, "prompt 0 has ids from 20"),
        ([[[3] * 4095]], {}, "prompt 0 has 4095 tokens"),
        ([[[3], [4]]], {"filter": [[1], [2], [3]]}, "3 filters for 2 prompts"),
        ([[[3]]], {"filter": "x"}, "filter is 'x'; expected"),
        ([[[3]]], {"filter": [1.5]}, "expected index.filter"),
        ([[[3]]], {"filter": [[[1], [2, 3]]]}, "expected index.filter"),
        ([torch.tensor([[3]])], {"attention_mask": "x"}, "cannot be read as an array"),
        ([[[3]]], {"filter": [77]}, "no item has the id 77"),
        ([[[3]]], {"filter": index_of([[1]]).filter([0])}, "was not made by this index"),
    ],
)
def test_refuses(toy, arguments, more, message):
    with pytest.raises(cg.InputError, match=message):
        retrieve(toy, *arguments, index_of([[1, 2], [2]]), **more)


def test_refuses_an_index_that_does_not_fit(toy):
    with pytest.raises(cg.InputError, match="expected a TokenIndex"):
        retrieve(toy, [[3]], [[1, 2]])
    with pytest.raises(cg.InputError, match="expected a model"):
        retrieve(None, [[3]], index_of([[1]]))
    with pytest.raises(cg.InputError, match="only those below 20"):
        retrieve(toy, [[3]], cg.TokenIndex.from_items([[30]]))
    with pytest.raises(cg.UnsatisfiableError):
        retrieve(toy, [[3], [4]], index_of([[1]]), filter=[None, []])


def test_refuses_logits_that_are_none():
    with pytest.raises(cg.ModelError, match="NaN"):
        retrieve(ToyLM(Plain(), lambda ids: [float("nan")] * WIDTH), [[3]], index_of([[1]]))
    model = tiny("t5")
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = None
    with pytest.raises(cg.InputError, match="begin with"):
        retrieve(model, [[3]], index_of([[1]]))
