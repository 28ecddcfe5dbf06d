"""Layers against a model that is cut off, DoLa and DFD against plain sums, inside every mode."""

import math

import pytest
import torch
from transformers import GemmaConfig, GemmaForCausalLM

from ctrlgen.errors import InputError
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.following import begin
from ctrlgen.steering.layers import Layers
from ctrlgen.steering.layerwise import DoLa, FocusTemperature, jensen_shannon
from ctrlgen.steering.protocol import Moment, Prompts
from ctrlgen.testing import Enumerated, ToyLM, toy_vocabulary

from .models import tiny
from .test_following import OPTIONS
from .test_source import generate_checked

VOCABULARY = toy_vocabulary()


def deep(family):
    return tiny(family, **({"n_layer": 6} if family == "gpt2" else {"num_hidden_layers": 6}))


@torch.no_grad()
def cut_off(model, family, ids, layer):
    """Logits of a model that has only its first layers."""
    layers = model.transformer.h if family == "gpt2" else model.model.layers
    (norm, head) = (model.transformer.ln_f if family == "gpt2" else model.model.norm, model.lm_head)
    seen = {}
    handle = (layers[layer - 1] if layer else layers[0]).register_forward_hook(
        lambda module, given, made: seen.update(out=made if isinstance(made, torch.Tensor) else made[0], given=given[0])
    )
    model(input_ids=torch.tensor([list(ids)]), use_cache=False)
    handle.remove()
    return head(norm(seen["out"] if layer else seen["given"]))[0, -1].float()


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_layers_are_those_of_a_model_that_is_cut_off(family):
    model = deep(family)
    source = Layers(model, [0, 1, 3, 5])
    prompts = ((1, 2, 3), (4,))
    state = source.init(Prompts(prompts, torch.device("cpu")))
    state = source.update(state, torch.tensor([5, 6]), torch.tensor([True, True]))
    like = torch.zeros(2, 12)
    like[:, 3] = -math.inf
    found = source.log_ps(state, like)
    for row, ids in enumerate([(1, 2, 3, 5), (4, 6)]):
        for place, layer in enumerate([0, 1, 3, 5]):
            wanted = cut_off(model, family, ids, layer)
            wanted[3] = -math.inf
            torch.testing.assert_close(found[row, place], wanted.log_softmax(0), atol=1e-4, rtol=1e-4)


def plain_divergence(p, q):
    return sum(float(a) * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True) if a > 0)


def plain_dola(model, family, ids, log_p, layers, share, strength):
    p = log_p.exp().double().tolist()
    best, far = None, -1.0
    for layer in layers:
        early = cut_off(model, family, ids, layer)
        early[log_p == -math.inf] = -math.inf
        early = early.log_softmax(0)
        q = early.exp().double().tolist()
        m = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        apart = (plain_divergence(p, m) + plain_divergence(q, m)) / 2
        if apart > far:
            best, far = early, apart
    kept = log_p >= log_p.max() + math.log(share)
    return torch.where(kept, -strength * best, -math.inf)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_against_plain_sums(family):
    model, layers = deep(family), [1, 2, 4]
    prompts = ((1, 2, 3), (4,), (7, 7, 7, 8))
    log_p = torch.randn(3, 12).mul(3).log_softmax(1)
    log_p[1, [2, 5]] = -math.inf
    log_p = log_p.log_softmax(1)
    moment = Moment(log_p, torch.ones(3, dtype=torch.bool), 0)
    dola = DoLa(model, layers=layers, strength=0.8, plausibility=0.05)
    focus = FocusTemperature(model, layers=layers, base=1.2, sigma=0.7, plausibility=0.05)
    state = begin([dola], Prompts(prompts, torch.device("cpu"))).tracks[0].points[-1].ready
    delta, cooled = dola.delta(state, moment), focus.delta(state, moment)
    for row, ids in enumerate(prompts):
        wanted = plain_dola(model, family, ids, log_p[row], layers, 0.05, 0.8)
        allowed = log_p[row] > -math.inf
        torch.testing.assert_close(delta[row][allowed], wanted[allowed], atol=1e-4, rtol=1e-4)
        kept = [v for v in range(12) if log_p[row, v] >= log_p[row].max() + math.log(0.05)]
        p = log_p[row][kept].softmax(0).double().tolist()
        apart = [
            plain_divergence(p, cut_off(model, family, ids, layer)[kept].softmax(0).double().tolist())
            for layer in layers
        ]
        temperature = 1.2 * 0.5 ** (sum(apart) / len(apart) / 0.7)
        wanted = (log_p[row][allowed] / temperature).log_softmax(0)
        torch.testing.assert_close((log_p + cooled)[row][allowed].log_softmax(0), wanted, atol=1e-4, rtol=1e-4)


def test_neutral_values():
    model = deep("llama")
    log_p = torch.randn(1, 12).log_softmax(1)
    log_p[0, 4] = -math.inf
    moment = Moment(log_p.log_softmax(1), torch.ones(1, dtype=torch.bool), 0)
    for steerer in (
        DoLa(model, strength=0, plausibility=0),
        FocusTemperature(model, base=1.0, sigma=math.inf),
    ):
        state = steerer.init(Prompts(((1, 2),), torch.device("cpu")))
        assert not steerer.delta(state, moment)[moment.log_p > -math.inf].any()


def test_divergence_of_equal_and_of_disjoint_distributions():
    a, b = (torch.tensor(x).log() for x in ([0.5, 0.5, 0.0], [0.0, 0.0, 1.0]))
    assert float(jensen_shannon(a, a)) == 0
    assert float(jensen_shannon(a, b)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("constrained", [False, True])
def test_inside_generations(options, constrained):
    model = deep("gpt2")
    constraint = Enumerated(VOCABULARY, ["abc", "ab", "é", "a c", "bb"]) if constrained else None
    processor = ControlProcessor(
        constraint, vocabulary=VOCABULARY, steer=[FocusTemperature(model, layers=[1, 3], base=1.0, sigma=1.0)]
    )
    dola = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[DoLa(model, layers=[2], plausibility=0)])

    def one_layer(ids, width, *, prompt_length):
        return -cut_off(model, "gpt2", ids, 2).log_softmax(0)

    for prompts in ([[2, 3], [1]], [[8, 1, 1, 5]]):
        torch.manual_seed(0)
        generate_checked(ToyLM(VOCABULARY, pad=10), prompts, dola, (one_layer,), constraint, **options)
        longest = max(map(len, prompts))
        ids = torch.tensor([[10] * (longest - len(row)) + row for row in prompts])
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
        out = deep("llama").generate(
            ids,
            attention_mask=mask,
            logits_processor=[processor],
            **{"do_sample": False, "max_new_tokens": 5, **options},
        )
        assert out.shape[1] > longest


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: Layers(m, "middle"), '"low", "high" or numbers'),
        (lambda m: Layers(m, [6]), "6 is not one of 0 to 5"),
        (lambda m: Layers(m, []), "layers is empty"),
        (lambda m: DoLa(m, strength=-1), "strength is -1"),
        (lambda m: FocusTemperature(m, sigma=0), "sigma is 0"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make(deep("llama"))


def test_which_layers():
    assert Layers(deep("llama"), "low").layers == (2,)
    assert Layers(deep("llama"), "high").layers == (4,)
    assert Layers(tiny("llama"), "low").layers == (1,)
    assert Layers(tiny("llama"), "high").layers == (1,)


def test_logits_that_are_scaled_are_refused():
    model = tiny("llama")
    forward = model.forward

    def scaled(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits = output.logits * 2
        return output

    scaled.__signature__ = __import__("inspect").signature(forward)
    model.forward = scaled
    with pytest.raises(InputError, match="pass head="):
        Layers(model)
    assert Layers(model, head=model.lm_head).layers


def test_a_model_that_scales_its_embeddings():
    torch.manual_seed(0)
    config = GemmaConfig(
        vocab_size=12, hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=4, pad_token_id=0, eos_token_id=0, bos_token_id=None,
    )  # fmt: skip
    assert Layers(GemmaForCausalLM(config).eval(), [1, 2]).layers == (1, 2)
