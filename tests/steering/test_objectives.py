"""Several objectives: weights against scipy, mixtures against sums, whole texts against enumeration."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ctrlgen.errors import InputError, ModelError
from ctrlgen.flows.blockwise import best_of_blocks
from ctrlgen.flows.rejection import sample_exactly
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.maximin import RMOD, maximin_weights
from ctrlgen.steering.mixture import MOD, MPG
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary

from .fixed import Fixed, drawn_rows, normalised, one_step
from .models import logits_after, tiny
from .test_contrast import plain
from .test_source import OPTIONS, generate_checked

VOCABULARY = toy_vocabulary()
SMALL = toy_vocabulary([None, b"a", b"b", b"c"])


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_mixtures_against_plain_sums(data):
    row, a, b = drawn_rows(data, 3, data.draw(st.integers(1, 8)))
    w = data.draw(st.lists(st.floats(-1, 1.5), min_size=2, max_size=2))
    out = one_step(MPG([Fixed(a), Fixed(b)], w), [row])[0].log_softmax(0).tolist()
    for x, y in zip(out, plain(row, [(w[0], a), (w[1], b)], 1 - sum(w)), strict=True):
        assert x == y or math.isclose(x, y, abs_tol=1e-3, rel_tol=1e-3)


def test_neutral_values():
    scores = torch.tensor([[1.0, -2.0, -math.inf, 0.3]])
    other = Fixed([0.0, 1.0, 2.0, -math.inf])
    torch.testing.assert_close(one_step(MOD([other], [0.0]), scores), scores)
    torch.testing.assert_close(one_step(RMOD(lambda rows: [1.0] * len(rows), strength=0, k=None), scores), scores)
    out = one_step(MOD([Fixed([0.0, 1.0, 2.0, 3.0])], [1.0]), scores).log_softmax(1)
    wanted = torch.tensor([[0.0, 1.0, -math.inf, 3.0]]).log_softmax(1)
    torch.testing.assert_close(out, wanted)


def scipy_weights(values, strength, p):
    """The best of several runs of SLSQP."""
    objectives, best = values.shape[1], None

    def loss(w):
        x = strength * values @ w
        return float((np.log(np.sum(p * np.exp(x - x.max()))) + x.max()) / strength)

    def slope(w):
        x = strength * values @ w
        share = p * np.exp(x - x.max())
        return values.T @ (share / share.sum())

    starts = [np.full(objectives, 1 / objectives), *(0.9 * np.eye(objectives) + 0.1 / objectives)]
    for start in starts:
        found = minimize(
            loss,
            start,
            jac=slope,
            bounds=[(0, 1)] * objectives,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(objectives)},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        if best is None or found.fun < best.fun:
            best = found
    return best.x, best.fun, loss


@pytest.mark.parametrize("strength", [0.1, 0.5, 1.0, 5.0, 10.0])
@pytest.mark.parametrize("objectives", [2, 3, 5])
def test_weights_are_those_of_slsqp(strength, objectives):
    rng = np.random.default_rng([int(strength * 10), objectives])
    values = rng.normal(0, 1, (12, 16, objectives))
    p = rng.dirichlet(np.ones(16), 12)
    found = maximin_weights(torch.tensor(values), strength, torch.tensor(p).log()).numpy()
    for i in range(12):
        wanted, least, loss = scipy_weights(values[i], strength, p[i])
        assert loss(found[i]) <= least + 1e-9
        np.testing.assert_allclose(found[i], wanted, atol=1e-4)


def test_weights_that_are_known():
    # the second objective is worse everywhere
    values = torch.tensor([[[1.0, 0.0], [2.0, 0.5]]])
    torch.testing.assert_close(
        maximin_weights(values, 1.0), torch.tensor([[0.0, 1.0]], dtype=torch.float64), atol=1e-6, rtol=0
    )
    # one candidate is good at the one, the other at the other
    even = maximin_weights(torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), 3.0)
    torch.testing.assert_close(even, torch.tensor([[0.5, 0.5]], dtype=torch.float64), atol=1e-6, rtol=0)
    for strange in (torch.zeros(1, 4, 3), torch.ones(2, 1, 2), torch.full((1, 2, 2), 1e6)):
        found = maximin_weights(strange, 2.0)
        assert not found.isnan().any()
        torch.testing.assert_close(found.sum(1), torch.ones(len(found), dtype=torch.float64))
    for strength in (0.0, 1e-6, 1e3, 1e6):
        assert maximin_weights(torch.randn(3, 8, 3), strength).isfinite().all()
    # a shift of everything and a change of units change nothing
    values = torch.randn(2, 8, 3, dtype=torch.float64)
    torch.testing.assert_close(maximin_weights(values, 2.0), maximin_weights(values * 5 + 7, 0.4), atol=1e-5, rtol=0)


def test_tokens_are_judged_under_the_worst_weights():
    row = [0.3, -0.2, 1.0, -0.5]
    tables = [[1.0, 0.0, -1.0, 0.5], [0.0, 1.0, 0.5, 0.2]]
    rewards = [lambda rows, t=t: [t[r[-1]] for r in rows] for t in tables]
    out = one_step(RMOD(*rewards, strength=2.0, k=3), [row])[0].log_softmax(0)
    kept = [2, 0, 1]
    p = np.exp(normalised([row[v] for v in kept]))
    w, *_ = scipy_weights(np.array([[t[v] for t in tables] for v in kept]), 2.0, p)
    wanted = [-math.inf] * 4
    for v in kept:
        wanted[v] = row[v] + 2.0 * float(w @ [t[v] for t in tables])
    torch.testing.assert_close(out, torch.tensor(normalised(wanted)), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mode", OPTIONS)
def test_inside_generations(mode):
    base, model = ToyLM(VOCABULARY, pad=10), tiny("gpt2")
    steer = MPG([base, model], [1.0, 0.7])  # with itself, so that what is left is the other model alone
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[steer])

    def step(ids, width, *, prompt_length):
        return 0.7 * (logits_after(model, ids) - torch.tensor(base.distribution(tuple(ids))))

    for prompts in ([[2, 3], [1], [4, 4, 9]], [[8, 1, 1, 5, 6]]):
        torch.manual_seed(0)
        generate_checked(base, prompts, processor, (step,), **OPTIONS[mode])


def target(models, weights, prompt, length, texts=None):
    """The distribution over whole texts, by enumeration; texts that end, and those of full length."""
    found = {}
    for ids in itertools.product(range(SMALL.width), repeat=length):
        ids = ids[: ids.index(0) + 1] if 0 in ids else ids
        if ids in found:
            continue
        log = 0.0
        for i, token in enumerate(ids):
            allowed = [True] * SMALL.width
            if texts is not None:
                state = texts.start
                for one in ids[:i]:
                    state = texts.advance(state, one) if state >= 0 else state
                allowed = [state >= 0 and texts.advance(state, v) >= 0 for v in range(SMALL.width)]
            if not allowed[token]:
                log = -math.inf
                break
            rows = [normalised(m.distribution((*prompt, *ids[:i])), allowed) for m in models]
            log += sum(w * row[token] for w, row in zip(weights, rows, strict=True))
        found[ids] = log
    total = sum(map(math.exp, found.values()))
    return {ids: math.exp(log) / total for ids, log in found.items() if log > -math.inf}


def largest_sum(models, weights, prompt, length):
    """The largest sum that is normalised away, over all tokens and over the sets that the constraint allows."""
    found = 0.0
    for count in range(length):
        for ids in itertools.product(range(1, SMALL.width), repeat=count):
            for allowed in itertools.product([True, False], repeat=SMALL.width):
                if any(allowed):
                    rows = [normalised(m.distribution((*prompt, *ids)), allowed) for m in models]
                    powers, kept = [1 - sum(weights), *weights], [v for v in range(SMALL.width) if allowed[v]]
                    logs = [sum(w * row[v] for w, row in zip(powers, rows, strict=True)) for v in kept]
                    found = max(found, sum(map(math.exp, logs)))
    return found * 1.0001


def small_models():
    return [
        ToyLM(SMALL, lambda ids, s=s: np.random.default_rng([s, *ids]).normal(0, 1.2, 4).tolist()) for s in range(3)
    ]


@pytest.mark.parametrize(
    ("weights", "count", "chunk"), [([0.5, 0.3], 4000, 1), ([0.5, 0.5], 4000, 2), ([0.5, -0.2], 1000, 3)]
)
@pytest.mark.parametrize("constrained", [False, True])
def test_whole_texts_follow_the_target(weights, count, chunk, constrained):
    models = small_models()
    constraint = Enumerated(SMALL, ["abc", "ab", "ca", "cab", "bbb"]) if constrained else None
    wanted = target(models, [1 - sum(weights), *weights], [1, 2], 3 if not constrained else 4, constraint)
    count = 200 if constrained and min(weights) < 0 else count
    bound = None if min(weights) > 0 else largest_sum(models, weights, [1, 2], 4)
    found = sample_exactly(
        models[0],
        ToyTokenizer(SMALL),
        "ab",
        MPG(models[1:], weights),
        constraint,
        n=count,
        max_new_tokens=3 if not constrained else 4,
        chunk=chunk,
        parallel=1000,
        bound=bound,
        attempts=200_000,
        seed=1,
        vocabulary=SMALL,
    )
    seen = Counter(one.token_ids for one in found.samples)
    assert set(seen) <= set(wanted)
    distance = sum(abs(seen[ids] / count - p) for ids, p in wanted.items()) / 2
    # of as many draws from the target itself
    rng = np.random.default_rng(0)
    p = np.array(list(wanted.values()))
    usual = [np.abs(rng.multinomial(count, p / p.sum()) / count - p).sum() / 2 for _ in range(200)]
    assert distance <= max(usual) * 1.1
    if not constrained:  # what is normalised at each token is another distribution
        assert len(wanted) == 40
    assert found.attempts >= count
    assert all(one.finished == (one.token_ids[-1] == 0) for one in found.samples)


def test_what_exact_samples_refuse():
    models, tokenizer = small_models(), ToyTokenizer(SMALL)
    known = {"vocabulary": SMALL, "seed": 0}
    with pytest.raises(InputError, match="give bound="):
        sample_exactly(models[0], tokenizer, "ab", MPG(models[1:], [0.8, 0.5]))
    with pytest.raises(ModelError, match="above the bound"):
        sample_exactly(models[0], tokenizer, "ab", MPG(models[1:], [1.5, 0.5]), bound=1.0, **known)
    with pytest.raises(InputError, match="0 of 16 texts were kept"):
        sample_exactly(models[0], tokenizer, "ab", MPG(models[1:], [0.5, 0.5]), bound=1e6, attempts=10, **known)
    with pytest.raises(InputError, match=r"expected ctrlgen.MPG"):
        sample_exactly(models[0], tokenizer, "ab", None)
    with pytest.raises(InputError, match="sum of at most 1"):
        MOD(models[1:], [0.8, 0.5])
    with pytest.raises(InputError, match="2 models and 1 weights"):
        MPG(models[1:], [0.8])


@pytest.mark.parametrize("constrained", [False, True])
def test_blocks(constrained):
    model, tokenizer = ToyLM(VOCABULARY, pad=10), ToyTokenizer(VOCABULARY)
    constraint = Enumerated(VOCABULARY, ["abc", "abcab c", "é", "bb"]) if constrained else None
    seen = []

    def vowels(texts):
        seen.append(list(texts))
        return [text.count("a") / 4 for text in texts]

    def short(texts):
        return [-len(text) / 8 for text in texts]

    for seed in range(5):
        seen.clear()
        made = best_of_blocks(
            model, tokenizer, "ab", [vowels, short], constraint, block=2, candidates=5, max_new_tokens=8, seed=seed,
            vocabulary=VOCABULARY,
        )  # fmt: skip
        begun = ""
        for texts, choice in zip(seen, made.choices, strict=True):
            assert all(text.startswith(begun.rstrip("�")) for text in texts)
            values = np.array(choice.values)
            np.testing.assert_allclose(values[:, 0], [text.count("a") / 4 for text in texts])
            w, *_ = scipy_weights(values, 1.0, np.full(5, 0.2))
            worth = values @ np.array(choice.weights)
            assert worth[choice.chosen] == worth.max()
            assert (values @ w).max() == pytest.approx(worth.max(), abs=1e-3)
            begun = texts[choice.chosen]
        assert made.text == begun
        if constrained:
            assert made.finished
            assert made.text in ("abc", "abcab c", "é", "bb")
        again = best_of_blocks(
            model, tokenizer, "ab", [vowels, short], constraint, block=2, candidates=5, max_new_tokens=8, seed=seed,
            vocabulary=VOCABULARY,
        )  # fmt: skip
        assert again == made


def test_more_candidates_are_better():
    model, tokenizer = ToyLM(VOCABULARY, pad=10), ToyTokenizer(VOCABULARY)

    def worth(candidates):
        found = [
            best_of_blocks(
                model, tokenizer, "ab", [lambda texts: [t.count("b") for t in texts]],
                block=3, candidates=candidates, max_new_tokens=9, seed=seed, vocabulary=VOCABULARY,
            ).text.count("b")
            for seed in range(20)
        ]  # fmt: skip
        return sum(found)

    assert worth(8) > worth(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objectives": []}, "at least one function"),
        ({"block": 0}, "block is 0"),
        ({"strength": -1}, "strength is -1"),
        ({"objectives": [lambda texts: [1.0]]}, r"\[1\] values for 8 texts"),
    ],
)
def test_what_blocks_refuse(change, message):
    arguments = {"objectives": [lambda texts: [0.0] * len(texts)], **change}
    with pytest.raises(InputError, match=message):
        best_of_blocks(ToyLM(VOCABULARY, pad=10), ToyTokenizer(VOCABULARY), "ab", vocabulary=VOCABULARY, **arguments)
    with pytest.raises(ModelError, match="NaN"):
        best_of_blocks(
            ToyLM(VOCABULARY, pad=10), ToyTokenizer(VOCABULARY), "ab", [lambda t: [math.nan] * len(t)],
            vocabulary=VOCABULARY,
        )  # fmt: skip
