"""Reward-guided steering: against enumeration, cached against uncached, inside every mode."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from ctrlgen.cli import app
from ctrlgen.errors import InputError, ModelError
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.gedi import GeDi
from ctrlgen.steering.protocol import Moment, Prompts
from ctrlgen.steering.reward import ARGS, FUDGE, RAD
from ctrlgen.steering.reward_model import Scorer, cumulative_loss, cut_off, fit_reward
from ctrlgen.steering.rewards import RewardFunction, RewardModel
from ctrlgen.steering.source import Source
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary

from .fixed import Fixed, drawn_rows, normalised, one_step
from .models import logits_after, tiny
from .test_source import OPTIONS, generate_checked

VOCABULARY = toy_vocabulary()
WIDTH = VOCABULARY.width


def table(values):
    """A reward of the last id alone."""
    return lambda rows: [values[row[-1]] for row in rows]


def plain(row, score, k):
    """log-softmax of score(v, log p(v)) over the k likeliest."""
    log_p = normalised(row)
    best = sorted(range(len(row)), key=lambda v: -log_p[v])[:k]
    return normalised(
        [score(v, log_p[v]) if v in best and log_p[v] > -math.inf else -math.inf for v in range(len(row))]
    )


METHODS = {
    "rad": (lambda r, w: RAD(r, beta=w, k=3), lambda r, w: lambda v, x: x + w * min(max(r[v], 0), 1)),
    "rad inverted": (
        lambda r, w: RAD(r, beta=w, k=3, invert=True),
        lambda r, w: lambda v, x: x + w * (1 - min(max(r[v], 0), 1)),
    ),
    "args": (lambda r, w: ARGS(r, weight=w, k=3), lambda r, w: lambda v, x: x + w * r[v]),
    "fudge": (
        lambda r, w: FUDGE(r, strength=w, k=3),
        lambda r, w: lambda v, x: x - w * math.log1p(math.exp(-r[v])),
    ),
    "fudge inverted": (
        lambda r, w: FUDGE(r, strength=w, k=3, invert=True),
        lambda r, w: lambda v, x: x - w * math.log1p(math.exp(r[v])),
    ),
}


@pytest.mark.parametrize("name", METHODS)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_against_plain_sums(name, data):
    width = data.draw(st.integers(1, 8))
    (row,) = drawn_rows(data, 1, width)
    row = [x + 1e-3 * v for v, x in enumerate(row)]  # no ties at the edge of the k likeliest
    values = data.draw(st.lists(st.floats(-2, 2), min_size=width, max_size=width))
    weight = data.draw(st.floats(0, 8))
    make, score = METHODS[name]
    out = one_step(make(table(values), weight), [row])[0].log_softmax(0).tolist()
    for x, y in zip(out, plain(row, score(values, weight), 3), strict=True):
        assert x == y or math.isclose(x, y, abs_tol=1e-3, rel_tol=1e-3)


@pytest.mark.parametrize(
    "make",
    [lambda r: RAD(r, beta=0, k=None), lambda r: ARGS(r, weight=0, k=None), lambda r: FUDGE(r, strength=0, k=None)],
)
def test_neutral_values(make):
    scores = torch.tensor([[1.0, -2.0, -math.inf, 0.3], [0.0, 0.0, 5.0, -math.inf]])
    torch.testing.assert_close(one_step(make(table([3.0, -1.0, math.nan, 2.0])), scores[:1]), scores[:1])


def scorer(kind="llama", outputs=2, seed=3):
    torch.manual_seed(seed)
    return Scorer(cut_off(tiny(kind, seed), 2), outputs).eval()


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_values_are_those_of_reading_each_candidate_anew(kind, use_cache):
    model = scorer(kind)
    reward = RewardModel(Source(model, use_cache=use_cache), output=1)
    prompts = ((1, 2, 3, 4, 5, 6), (7,))
    state = reward.init(Prompts(prompts, torch.device("cpu")))
    state = reward.update(state, torch.tensor([4, 5]), torch.tensor([True, True]))
    tokens = torch.tensor([[1, 2, 3], [9, 8, 0]])
    found = reward.values(state, tokens)
    for i, ids in enumerate([(1, 2, 3, 4, 5, 6, 4), (7, 5)]):
        for j, token in enumerate(tokens[i].tolist()):
            with torch.no_grad():
                wanted = model(torch.tensor([[*ids, token]])).logits[0, -1, 1]
            torch.testing.assert_close(found[i, j], wanted, atol=1e-4, rtol=1e-4)


def anew(model, beta):
    """What RAD adds, each candidate read from scratch, for the whole vocabulary."""

    def step(ids, width, *, prompt_length):
        with torch.no_grad():
            rows = torch.tensor([[*ids, v] for v in range(width)])
            return beta * model(rows).logits[:, -1, 0].clamp(0, 1)

    return step


@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("constrained", [False, True])
def test_inside_generations(mode, constrained):
    base, model = ToyLM(VOCABULARY, pad=10), scorer()
    constraint = Enumerated(VOCABULARY, ["abc", "ab", "é", "a c", "bb"]) if constrained else None
    processor = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[RAD(model, beta=5, k=None)])
    for prompts in ([[2, 3], [1], [4, 4, 9]], [[8, 1, 1, 5, 6], [2, 3]]):
        torch.manual_seed(0)
        generate_checked(base, prompts, processor, (anew(model, 5.0),), constraint, **OPTIONS[mode])


def gedi_anew(good, bad, strength, scale, bias):
    def step(ids, width, *, prompt_length):
        generated, sums = ids[prompt_length:], [0.0, 0.0]
        for i, token in enumerate(generated):
            for c, (model, code) in enumerate((good, bad)):
                sums[c] += float(logits_after(model, [*code, *generated[:i]]).log_softmax(0)[token])
        apart = sums[0] - sums[1]
        last = [logits_after(model, [*code, *generated]).log_softmax(0) for model, code in (good, bad)]
        mean = (apart + last[0] - last[1]) / (len(generated) + 1)
        return strength * torch.nn.functional.logsigmoid(scale * mean + bias)

    return step


@pytest.mark.parametrize("mode", [*OPTIONS, "drafts"])
def test_gedi_inside_generations(mode):
    base, model = ToyLM(VOCABULARY, pad=10), tiny("llama")
    steerer = GeDi(Source(model, prompt=[5]), Source(model, prompt=[6, 1]), strength=3, keep=1, scale=2.0, bias=-0.3)
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[steerer])
    step = gedi_anew((model, [5]), (model, [6, 1]), 3.0, 2.0, -0.3)
    for prompts in ([[2, 3], [1]], [[8, 1, 1, 5]]):
        torch.manual_seed(0)
        options = OPTIONS.get(mode, {"assistant_model": ToyLM(VOCABULARY, scale=0.5, pad=10), "do_sample": True})
        generate_checked(base, prompts[: 1 if mode == "drafts" else 2], processor, (step,), **options)


def test_gedi_keeps_what_is_typical():
    row, good, bad = [0.0, 0.1, 0.2, 0.3], [3.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 3.0]
    out = one_step(GeDi(Fixed(good), Fixed(bad), strength=1, keep=0.5, sure=1.0), [row])[0]
    apart = [a - b for a, b in zip(normalised(good), normalised(bad), strict=True)]
    log_c = [-math.log1p(math.exp(-x)) for x in apart]
    steered = [math.exp(x) for x in normalised([x + y for x, y in zip(normalised(row), log_c, strict=True)])]
    kept, mass = set(), 0.0
    for v in sorted(range(4), key=lambda v: -log_c[v]):
        if mass < 0.5:
            kept.add(v)
        mass += steered[v]
    assert [x > -math.inf for x in out.tolist()] == [v in kept for v in range(4)]
    out = one_step(GeDi(Fixed(good), Fixed(bad), strength=1, keep=1e-6, sure=0.6), [row])[0]
    assert [x > -math.inf for x in out.tolist()] == [True, True, False, False]
    scores = torch.tensor([row])
    torch.testing.assert_close(one_step(GeDi(Fixed(good), Fixed(bad), strength=0, keep=1), scores), scores)


@pytest.mark.parametrize("whole", [False, True])
def test_functions_of_texts(whole):
    seen = []

    def function(texts):
        seen.extend(texts)
        return [len(text) for text in texts]

    reward = RewardFunction(function, VOCABULARY, whole=whole)
    state = reward.init(Prompts(((1, 2), (3,)), torch.device("cpu")))
    state = reward.update(state, torch.tensor([2, 3]), torch.tensor([True, True]))
    found = reward.values(state, torch.tensor([[1, 2], [3, 1]]))
    wanted = [
        (*(p if whole else ()), *mid, t) for p, mid, ts in (((1, 2), (2,), (1, 2)), ((3,), (3,), (3, 1))) for t in ts
    ]
    assert seen == [VOCABULARY.decode(ids).decode() for ids in wanted]
    assert found.flatten().tolist() == [len(text) for text in seen]
    assert reward.rewind(state, 1)[0].shape[1] == (2 if whole else 0)


def test_rewards_that_are_wrong():
    moment = Moment(torch.zeros(1, 4).log_softmax(1), torch.ones(1, dtype=torch.bool), 0)
    prompts = Prompts(((1,),), torch.device("cpu"))
    for function, error, message in (
        (lambda rows: [math.nan] * len(rows), ModelError, "NaN or infinite"),
        (lambda rows: [1.0], InputError, r"\[1\] values for 3 texts"),
    ):
        steerer = RAD(function, k=3)
        with pytest.raises(error, match=message):
            steerer.delta(steerer.init(prompts), moment)
    with pytest.raises(InputError, match="has 2 values"):
        RewardModel(scorer(), output=2).init(prompts)
    for make, message in (
        (lambda: RAD(3), "a reward is 3"),
        (lambda: RAD(table([]), k=0), "k is 0"),
        (lambda: RAD(table([]), beta=-1), "beta is -1"),
        (lambda: GeDi(tiny("llama"), tiny("llama"), keep=0), "keep is 0"),
    ):
        with pytest.raises(InputError, match=message):
            make()


def test_the_cumulative_loss():
    model = scorer()
    texts, labels = [[1, 2, 3], [4, 5, 6, 7, 8]], [[1.0, 0.0], [0.2, 0.7]]
    each = []
    for ids, label in zip(texts, labels, strict=True):
        with torch.no_grad():
            values = model(torch.tensor([ids])).logits[0]
        n = len(ids)
        errors = [float(((values[t] - torch.tensor(label)) ** 2).mean()) for t in range(n)]
        each.append(2 / (n * (n + 1)) * sum((t + 1) * one for t, one in enumerate(errors)))
    assert float(cumulative_loss(model, texts, labels).detach()) == pytest.approx(sum(each) / 2, abs=1e-5)


def test_only_the_last_layers_learn():
    base, texts = tiny("llama"), [[3, 4], [5, 6, 7]]
    made = fit_reward(base, texts, [[1.0], [0.0]], layers=2, tuned=1, epochs=2, rate=1e-2)
    old, new = base.model.layers, made.backbone.layers
    kept = zip([*base.get_input_embeddings().parameters(), *old[0].parameters()],
               [*made.get_input_embeddings().parameters(), *new[0].parameters()], strict=True)  # fmt: skip
    assert all(torch.equal(one, two) for one, two in kept)
    assert not torch.equal(old[1].mlp.up_proj.weight, new[1].mlp.up_proj.weight)
    assert all(one.requires_grad for one in made.parameters())
    for wrong in (-1, 3, 1.0, True):
        with pytest.raises(InputError, match="tuned"):
            fit_reward(base, texts, [[1.0], [0.0]], layers=2, tuned=wrong)


def test_learning_saving_loading(tmp_path):
    """Texts are good if they hold a 3; after learning, values say so."""
    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(1, 12, (200, 6), generator=generator).tolist()
    labels = [[float(3 in text)] for text in texts]
    base = tiny("llama")
    seen = []
    made = fit_reward(base, texts, labels, layers=1, epochs=15, batch=20, rate=3e-3, on_step=lambda *x: seen.append(x))
    assert len(base.model.layers) == 2
    assert len(made.backbone.layers) == 1
    assert seen[-1][:2] == (149, 150)
    with torch.no_grad():
        values = made(torch.tensor(texts)).logits[:, -1, 0]
    good = torch.tensor([label[0] > 0 for label in labels])
    assert float(values[good].mean() - values[~good].mean()) > 0.4
    path = tmp_path / "reward.safetensors"
    made.save(path)
    again = Scorer.load(path)
    with torch.no_grad():
        torch.testing.assert_close(again(torch.tensor(texts)).logits[:, -1, 0], values)
    assert again.card["layers"] == 1
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelError):
        Scorer.load(path)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("ctrlgen.cli.reward.load", lambda *_: (tiny("llama"), ToyTokenizer(toy_vocabulary())))
    path, out = tmp_path / "texts.jsonl", tmp_path / "reward.safetensors"
    path.write_text('{"text": "ab", "label": 1}\n{"text": "ca", "label": 0.5}\n')
    result = CliRunner().invoke(app, ["reward", "fit", str(path), str(out), "--layers", "1"])
    assert result.exit_code == 0, result.output
    assert Scorer.load(out).head.out_features == 1
    path.write_text('{"text": "ab", "label": "good"}\n')
    result = CliRunner().invoke(app, ["reward", "fit", str(path), str(out)])
    assert result.exit_code == 2
    assert "text 1" in result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [[1.0]]}, "2 texts and 1 labels"),
        ({"labels": [[1.0], [1.0, 2.0]]}, r"labels have \[1, 2\] numbers"),
        ({"texts": [[1], []]}, "text 1 is empty"),
        ({"layers": 3}, "layers is 3; expected a number from 1 to 2"),
        ({"epochs": 0}, "epochs is 0"),
    ],
)
def test_what_is_refused(change, message):
    arguments = {"texts": [[1], [2]], "labels": [[1.0], [0.0]], **change}
    with pytest.raises(InputError, match=message):
        fit_reward(tiny("llama"), **{"layers": 1, **arguments})
