"""Anchored decoding: every path enumerated, and the fused distribution against a numerical optimum."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from transformers import LogitsProcessor

from ctrlgen.errors import InputError
from ctrlgen.flows.generate import generate
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.anchored import Anchored, prefix_debt
from ctrlgen.steering.fusion import fuse
from ctrlgen.steering.source import Source
from ctrlgen.steering.steps import divergence
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary

from .models import tiny
from .recomputed import Noise
from .test_following import run

SMALL = toy_vocabulary([None, b"a", b"b", b"c"])
VOCABULARY = toy_vocabulary()


def logs(row):
    return torch.tensor(row, dtype=torch.float64).log_softmax(-1)


numbers = st.floats(-8, 8) | st.just(-math.inf)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_the_budget_is_kept_and_used(data):
    """Also with unequal supports, where the package of the paper's authors exceeds it."""
    width = data.draw(st.integers(1, 8))
    rows = [data.draw(st.lists(numbers, min_size=width, max_size=width)) for _ in range(2)]
    for row in rows:
        if max(row) == -math.inf:
            row[0] = 0.0
    safe, risky = (logs([row]) for row in rows)
    k = data.draw(st.floats(0, 3))
    q = fuse(safe, risky, torch.tensor([k], dtype=torch.float64))
    assert not q.isnan().any()
    assert q.exp().sum() == pytest.approx(1)
    assert (q[safe == -math.inf] == -math.inf).all()
    cost = float(divergence(q, safe))
    assert cost <= k + 1e-9
    common = (safe != -math.inf) & (risky != -math.inf)
    least = -float(safe[common].logsumexp(0)) if common.any() else math.inf
    if k < least:
        torch.testing.assert_close(q, safe)
        return
    # the risky model among what is safe, or all of the budget
    best = risky.masked_fill(~common, -math.inf).log_softmax(1)
    assert cost == pytest.approx(k, abs=1e-6) or torch.allclose(q.exp(), best.exp(), atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_the_fused_distribution_is_the_nearest(seed):
    """Against scipy's SLSQP over the simplex."""
    rng = np.random.default_rng(seed)
    safe, risky = (logs(rng.normal(0, 2, 5)) for _ in range(2))
    for k in (0.05, 0.3, 1.0):
        q = fuse(safe[None], risky[None], torch.tensor([k], dtype=torch.float64))[0].exp().numpy()

        def kl(x, other):
            x = np.clip(x, 1e-12, None)
            return float((x * (np.log(x) - other.numpy())).sum())

        found = minimize(
            lambda x: kl(x, risky),
            safe.exp().numpy(),
            bounds=[(1e-12, 1)] * 5,
            constraints=[
                {"type": "eq", "fun": lambda x: x.sum() - 1},
                {"type": "ineq", "fun": lambda x, k=k: k - kl(x, safe)},
            ],
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert kl(q, risky) <= kl(found.x, risky) + 1e-6
        np.testing.assert_allclose(q, found.x, atol=2e-3)


def test_the_case_that_leaked():
    """V = 3, safe uniform, risky zero on the third: the published package spends .479 of a budget of .05."""
    safe, risky = logs([0.0, 0.0, 0.0]), logs([2.0, 0.0, -math.inf])
    assert (
        float(divergence(fuse(safe[None], risky[None], torch.tensor([0.05], dtype=torch.float64)), safe[None])) <= 0.05
    )
    q = fuse(safe[None], risky[None], torch.tensor([0.45], dtype=torch.float64))[0]
    assert q[2] == -math.inf
    assert float(divergence(q[None], safe[None])) == pytest.approx(0.45, abs=1e-9)


def warped(row, temperature=1.0, top_k=None, top_p=1.0):
    """One row, plainly."""
    p = torch.softmax(torch.tensor(row, dtype=torch.float64) / temperature, 0)
    order = sorted(range(len(p)), key=lambda i: -p[i])
    kept = set(order[: top_k or len(p)])
    p = torch.tensor([float(p[i]) if i in kept else 0.0 for i in range(len(p))])
    p, mass, chosen = p / p.sum(), 0.0, set()
    for i in order:
        if mass < top_p and p[i] > 0:
            chosen.add(i)
        mass += float(p[i])
    p = torch.tensor([float(p[i]) if i in chosen else 0.0 for i in range(len(p))], dtype=torch.float64)
    return (p / p.sum()).log()


def paths(base, safe, steerer, constraint=None, length=4, vocabulary=SMALL, prompt=(1, 2), **warp):
    """Of every text of ``length`` tokens: sum of KL(q || safe) along it, log q and log safe of it."""
    found, waiting = [], [((), 0.0, 0.0, 0.0)]
    width = vocabulary.width
    while waiting:
        ids, spent, log_q, log_s = waiting.pop()
        if len(ids) == length or (ids and ids[-1] == 0):
            found.append((ids, spent, log_q, log_s))
            continue
        # from the prompt on, so that no book is inherited from another path
        processor = ControlProcessor(constraint, vocabulary=vocabulary, steer=[steerer])
        for i in range(len(ids) + 1):
            before = torch.tensor([[*prompt, *ids[:i]]])
            scores = torch.tensor([base.distribution((*prompt, *ids[:i]))], dtype=torch.float32)
            out = processor(before, scores)[0].double().log_softmax(0)
        row = np.array(safe.distribution((*prompt, *ids)), np.float64)
        if constraint is not None:
            state = constraint.start
            for token in ids:
                state = constraint.advance(state, token)
            row[[constraint.advance(state, t) < 0 for t in range(width)]] = -math.inf
        reference = warped(row, **warp)
        spent += float(divergence(out[None], reference[None]))
        for token in range(width):
            if out[token] > -math.inf:
                waiting.append(((*ids, token), spent, log_q + float(out[token]), log_s + float(reference[token])))
    return found


def never_first(model, token):
    """The same model, which gives no probability to a token after an even number of ids."""
    inner = model.distribution
    model.distribution = lambda ids: [
        -math.inf if t == token and len(ids) % 2 == 0 else value for t, value in enumerate(inner(ids))
    ]
    return model


def a_safe_model(gap):
    safe = ToyLM(SMALL, lambda ids: np.random.default_rng([3, *ids]).normal(0, 1.5, 4).tolist())
    return never_first(safe, 3) if gap else safe


@pytest.mark.parametrize("gap", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.5},
        {"top_p": 0.6},
        {"top_k": 2},
        {"temperature": 0.7, "top_k": 3, "top_p": 0.9},
        {"debt": 0.2},
        {"total": 0.25},
        {"per_token": 0.0},
    ],
)
def test_no_path_costs_more_than_the_budget(gap, options):
    """All paths of 4 tokens, with k = .15 and so K = .6; the sequence's own KL too."""
    base, safe = ToyLM(SMALL), a_safe_model(gap)
    options = {"per_token": 0.15, **options}
    found = paths(
        base,
        safe,
        Anchored(safe, **options),
        **{k: v for k, v in options.items() if k in ("temperature", "top_k", "top_p")},
    )
    budget = min(4 * options["per_token"], options.get("total", math.inf)) - options.get("debt", 0.0)
    assert sum(math.exp(log_q) for _, _, log_q, _ in found) == pytest.approx(1, abs=1e-5)
    assert max(spent for _, spent, _, _ in found) <= max(budget, 0) + 1e-6
    whole = sum(math.exp(log_q) * (log_q - log_s) for _, _, log_q, log_s in found)
    assert whole <= max(budget, 0) + 1e-6
    if (set(options) == {"per_token"} and options["per_token"]) or ("temperature" in options and len(options) == 2):
        assert max(spent for _, spent, _, _ in found) > 0.5 * budget


def test_no_path_costs_more_under_a_constraint():
    base, safe = ToyLM(SMALL), a_safe_model(False)
    constraint = Enumerated(SMALL, ["abc", "ab", "ca", "cab", "bbb"])
    found = paths(base, safe, Anchored(safe, per_token=0.1), constraint)
    assert {SMALL.decode(ids).decode() for ids, _, _, _ in found} <= {"abc", "ab", "ca", "cab", "bbb"}
    assert max(spent for _, spent, _, _ in found) <= 0.4 + 1e-6


def test_each_path_stays_within_at_every_step():
    base, safe = ToyLM(SMALL), a_safe_model(False)
    for length in (1, 2, 3):
        found = paths(base, safe, Anchored(safe, per_token=0.2), length=length)
        assert max(spent for _, spent, _, _ in found) <= 0.2 * length + 1e-6


def test_neutral_values():
    """Without limit it is the model itself; with nothing to spend, the safe model."""
    base, safe = ToyLM(VOCABULARY), ToyLM(VOCABULARY, scale=1.0, pad=10)
    ids = torch.tensor([[1, 2], [3, 4]])
    scores = torch.tensor([base.distribution(tuple(row)) for row in ids.tolist()])
    wanted = torch.tensor([safe.distribution(tuple(row)) for row in ids.tolist()]).float().log_softmax(1)
    for per_token, expected in ((1e6, scores.float()), (0.0, wanted)):
        processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Anchored(safe, per_token=per_token)])
        out = processor(ids, scores.float())
        torch.testing.assert_close(out.log_softmax(1), expected.log_softmax(1), atol=1e-5, rtol=1e-5)


def test_others_come_before_it_and_are_paid_for():
    """What it fuses is the model as the others have steered it."""
    safe = ToyLM(SMALL, lambda ids: [0.0, 1.0, -1.0, 0.5])
    ids, scores = torch.tensor([[1, 2]]), torch.randn(1, 4)
    steer = [Noise(4, 3.0), Anchored(safe, per_token=0.1)]
    out = ControlProcessor(None, vocabulary=SMALL, steer=steer)(ids, scores)
    steered = ControlProcessor(None, vocabulary=SMALL, steer=steer[:1])(ids, scores)
    reference = logs([0.0, 1.0, -1.0, 0.5])[None]
    torch.testing.assert_close(
        out.log_softmax(1).double(), fuse(reference, steered.log_softmax(1), torch.tensor([0.1])), atol=1e-5, rtol=1e-4
    )
    with pytest.raises(InputError, match=r"Anchored .* must be the last"):
        ControlProcessor(None, vocabulary=SMALL, steer=steer[::-1])


@pytest.mark.parametrize("options", [{"num_return_sequences": 4}, {"assistant": True}])
def test_generate_keeps_the_books(options):
    """Sums of KL as sampled, recomputed from the ids alone; with drafts too."""
    base, safe = ToyLM(VOCABULARY, pad=10), ToyLM(VOCABULARY, scale=1.0, pad=10)
    options = dict(options)
    if options.pop("assistant", False):
        options["assistant_model"] = ToyLM(VOCABULARY, scale=0.5, pad=10)
    anchored = Anchored(safe, per_token=0.2, temperature=0.8)
    prompt = ToyTokenizer(VOCABULARY)("ab")["input_ids"]
    for seed in range(4):
        arguments = {"vocabulary": VOCABULARY, "max_new_tokens": 8, "steer": [anchored], "seed": seed, **options}
        result = generate(base, ToyTokenizer(VOCABULARY, pad=10), "ab", **arguments)
        for one in (result, *result.alternatives):
            spent = 0.0
            for i in range(len(one.token_ids)):
                ids = (*prompt, *one.token_ids[:i])
                risky, careful = (warped(m.distribution(ids), temperature=0.8)[None] for m in (base, safe))
                q = fuse(careful, risky, torch.tensor([max(0.0, 0.2 * (i + 1) - spent)]))
                # what the trace says was done is what the books of this path say
                plain = logs(base.distribution(ids))[None]
                assert one.trace.steps[i].divergences[0] == pytest.approx(float(divergence(q, plain)), abs=1e-3)
                spent += float(divergence(q, careful))
            assert spent <= 0.2 * len(one.token_ids) + 1e-6


def test_whatever_would_break_the_guarantee_is_refused():
    base, safe = ToyLM(VOCABULARY, pad=10), ToyLM(VOCABULARY, scale=1.0, pad=10)
    steer = [Anchored(safe)]

    def ask(**options):
        return generate(
            base, ToyTokenizer(VOCABULARY), "ab", vocabulary=VOCABULARY, steer=steer, max_new_tokens=3, **options
        )

    assert ask(seed=1).token_ids
    for name, value in (("temperature", 0.5), ("top_p", 0.9), ("top_k", 5), ("min_p", 0.1)):
        with pytest.raises(InputError, match=f"give {name} to Anchored"):
            ask(**{name: value})
    with pytest.raises(InputError, match="do_sample=True and no beams"):
        ask(do_sample=False)
    with pytest.raises(InputError, match="do_sample=True and no beams"):
        ask(num_beams=2)
    with pytest.raises(InputError, match=r"TemperatureLogitsWarper.* would change it"):
        run(base, [[1, 2]], steer, check=False, do_sample=True, temperature=0.5, top_k=0)
    with pytest.raises(InputError, match="TopKLogitsWarper would change it"):
        run(base, [[1, 2]], steer, check=False, do_sample=True, top_k=2)

    class Later(LogitsProcessor):
        def __call__(self, input_ids, scores):
            return scores

    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=steer)
    with pytest.raises(InputError, match="Later would change it"):
        base.generate(
            torch.tensor([[1, 2]]), logits_processor=[processor, Later()], do_sample=True, top_k=0, max_new_tokens=3
        )


def test_a_debt_for_each_prompt():
    safe = ToyLM(SMALL, lambda ids: [0.0, 1.0, -1.0, 0.5])
    scores = torch.tensor([[3.0, 0.0, 0.0, 0.0]] * 4)
    steer = [Anchored(safe, per_token=0.2, debt=[0.0, 0.15])]
    out = ControlProcessor(None, vocabulary=SMALL, steer=steer)(torch.tensor([[1], [1], [1], [1]]), scores)
    costs = divergence(out.double().log_softmax(1), logs([0.0, 1.0, -1.0, 0.5])[None].expand(4, -1))
    torch.testing.assert_close(costs, torch.tensor([0.2, 0.2, 0.05, 0.05], dtype=torch.float64), atol=1e-5, rtol=0)


def test_prefix_debt():
    risky, safe = tiny("gpt2"), tiny("llama", 1)
    prompts = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [3, 3, 1], [4]]
    wanted = []
    for ids in prompts:
        with torch.no_grad():
            rows = [m(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(1) for m in (risky, safe)]
        ratios = sorted((max(0.0, float(rows[0][i, t] - rows[1][i, t])) for i, t in enumerate(ids[1:])), reverse=True)
        wanted.append(sum(ratios[:5]) / max(1, len(ratios[:5])))
    assert prefix_debt(risky, Source(safe), prompts) == pytest.approx(wanted, abs=1e-5)
    assert wanted[0] > 0 == wanted[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_token": -0.1}, "per_token is -0.1; expected a number of at least 0"),
        ({"per_token": math.nan}, "per_token is nan"),
        ({"total": -1}, "total is -1"),
        ({"temperature": 0}, "temperature is 0"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_k": 0}, "top_k is 0"),
        ({"debt": [0.1, "a"]}, "debt is 'a'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        Anchored(tiny("llama"), **options)


def test_a_path_of_every_kind_is_among_those_enumerated():
    """The enumeration above is not empty of texts that end early, nor of full ones."""
    base, safe = ToyLM(SMALL), a_safe_model(False)
    lengths = {len(ids) for ids, *_ in paths(base, safe, Anchored(safe, per_token=0.15))}
    assert lengths == set(range(1, 5))
    assert len(list(itertools.product(range(1, 4), repeat=4))) == 81
