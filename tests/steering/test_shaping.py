"""Methods that shape the distribution: closed forms, enumeration, scipy's optimum; inside generations."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ctrlgen.errors import InputError
from ctrlgen.flows.arithmetic import arithmetic, decoded, spaced_codes
from ctrlgen.flows.generate import generate
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.protocol import Moment, Prompts
from ctrlgen.steering.repetition import FSD, Momentum
from ctrlgen.steering.reranking import AdaDec
from ctrlgen.steering.simplex import BestOfK, Bregman, best_of_k, bregman_top_k
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary

from .fixed import drawn_rows, normalised, one_step
from .models import logits_after, tiny
from .test_source import OPTIONS, generate_checked

VOCABULARY = toy_vocabulary()
WIDTH = VOCABULARY.width


def counts_after(ids, order):
    """Plainly: what came after the last ``order`` ids, earlier in the text."""
    suffix = ids[len(ids) - order :]
    return Counter(ids[j] for j in range(order, len(ids)) if ids[j - order : j] == suffix)


def plain_fsd(ids, n, beta, v):
    penalty, rest = 0.0, 1.0
    for order in range(n - 1, 0, -1):
        seen = counts_after(ids, order) if len(ids) > order else {}
        if seen.get(v):
            penalty += rest * beta * seen[v] / (sum(seen.values()) + 1)
            rest *= 1 - beta
    return penalty + rest * ids.count(v) / len(ids)


def plain_momentum(ids, resistance, v):
    longest = 0
    for length in range(1, len(resistance)):
        gram = [*ids[len(ids) - length + 1 :], v] if length > 1 else [v]
        if any(ids[j : j + length] == gram for j in range(len(ids) - length + 1)):
            longest = length
    return resistance[longest]


texts = st.lists(st.integers(0, 3), min_size=1, max_size=14)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_penalties_against_plain_counting(data):
    rows = data.draw(st.lists(texts, min_size=1, max_size=3))
    prompts = Prompts(tuple(map(tuple, rows)), torch.device("cpu"))
    n, beta = data.draw(st.integers(1, 5)), data.draw(st.floats(0, 1))
    fsd, momentum = FSD(n=n, beta=beta), Momentum(resistance=(0, 1, 1.5, 4, 7))
    fsd_found = fsd.penalty(fsd.init(prompts), 4)
    momentum_found = momentum.penalty(momentum.init(prompts), 4)
    for i, ids in enumerate(rows):
        for v in range(4):
            assert float(fsd_found[i, v]) == pytest.approx(plain_fsd(ids, n, beta, v), abs=1e-5)
            assert float(momentum_found[i, v]) == pytest.approx(plain_momentum(ids, (0, 1, 1.5, 4, 7), v))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_the_order_is_that_of_the_scores(data):
    """Greedy decoding takes what the papers take, also where every score is negative."""
    (row,) = drawn_rows(data, 1, 4)
    ids, alpha = data.draw(texts), data.draw(st.floats(0.01, 0.95))
    p = [math.exp(x) for x in normalised(row)]
    for steerer, score in (
        (FSD(alpha=alpha, n=3, k=None), lambda v: (1 - alpha) * p[v] - alpha * plain_fsd(ids, 3, 0.9, v)),
        (Momentum(alpha=alpha, k=None), lambda v: p[v] - alpha * plain_momentum(ids, (0, 1, 2, 3, 4, 5), v)),
    ):
        out = one_step(steerer, [row], [tuple(ids)])[0]
        scores = [score(v) if row[v] > -math.inf else -math.inf for v in range(4)]
        assert [x == -math.inf for x in out.tolist()] == [x == -math.inf for x in row]
        assert scores[int(out.argmax())] >= max(scores) - 1e-6
        positive = [v for v in range(4) if scores[v] > 1e-4]
        if positive:
            wanted = normalised([math.log(scores[v]) for v in positive])
            torch.testing.assert_close(out[positive].log_softmax(0), torch.tensor(wanted), atol=5e-3, rtol=1e-3)


def test_only_the_likeliest_stay():
    out = one_step(FSD(alpha=0.3, k=2), [[0.0, 1.0, 2.0, -1.0]], [(3, 3)])[0]
    assert (out > -math.inf).tolist() == [False, True, True, False]


NEUTRAL = [
    lambda: FSD(alpha=0, k=None),
    lambda: Momentum(alpha=0, k=None),
    lambda: BestOfK(weight=0, beta=0, support=None),
    lambda: Bregman(sparsity=0),
    lambda: AdaDec(tiny("llama"), uncertain=math.inf),
]


@pytest.mark.parametrize("make", NEUTRAL)
def test_neutral_values(make):
    scores = torch.tensor([[1.0, -2.0, -math.inf, 0.3], [0.0, -50.0, 5.0, -math.inf]])
    torch.testing.assert_close(one_step(make(), scores, [(1, 2, 1), (3,)]), scores, atol=1e-4, rtol=1e-5)


def slsqp(p, s, lam, c, K):
    def loss(q):
        q = np.clip(q, 1e-15, 1)
        return -(q @ s - lam * (q @ np.log(q / p)) + c @ (1 - (1 - q) ** K))

    def slope(q):
        q = np.clip(q, 1e-15, 1)
        return -(s - lam * (np.log(q / p) + 1) + c * K * (1 - q) ** (K - 1))

    best = None
    for start in (p, np.full(len(p), 1 / len(p))):
        found = minimize(
            loss, start, jac=slope, bounds=[(1e-14, 1)] * len(p),
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones(len(p))},
            method="SLSQP", options={"ftol": 1e-16, "maxiter": 2000},
        )  # fmt: skip
        best = found if best is None or found.fun < best.fun else best
    return best.x, best.fun, loss


@pytest.mark.parametrize("seed", range(12))
def test_best_of_k_is_the_optimum_of_slsqp(seed):
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(2, 9)), int(rng.integers(1, 20))
    p, lam = rng.dirichlet(np.ones(n)), float(rng.choice([0.1, 0.2, 0.5, 2.0]))
    s, c = rng.normal(0, 0.5, n) * lam, rng.uniform(0, 0.2, n)
    log_q = best_of_k(*(torch.tensor(x)[None] for x in (np.log(p), s)), lam, torch.tensor(c)[None], K)
    q = log_q[0].exp().numpy()
    wanted, least, loss = slsqp(p, s, lam, c, K)
    assert q.sum() == pytest.approx(1, abs=1e-9)
    assert loss(q) <= least + 1e-9
    np.testing.assert_allclose(q, wanted, atol=1e-4)


def test_best_of_k_without_coverage_is_a_power():
    """The fix point p^(1 + 1 / lam) of the paper's iteration with s = log p."""
    scores = torch.tensor([[0.3, -0.2, 1.0, -math.inf, 0.5]])
    out = one_step(BestOfK(closeness=0.5, beta=0, weight=1), scores).log_softmax(1)
    torch.testing.assert_close(out, (3 * scores).log_softmax(1), atol=1e-5, rtol=1e-5)
    for closeness in (0.1, 5.0):
        assert one_step(BestOfK(closeness=closeness, support=2), scores).isfinite().sum() == 2


def plain_bregman(p, alpha, lam):
    """The best support by trying all k, with nu by bisection."""
    best = None
    for k in range(1, len(p) + 1):
        inside = p[:k]
        if alpha == 1:
            q = inside / inside.sum()
        elif alpha == 2:
            q = inside + (1 - inside.sum()) / k
        else:
            low, high = 0.0, 1.0
            for _ in range(200):
                middle = (low + high) / 2
                total = ((inside ** (alpha - 1) + middle) ** (1 / (alpha - 1))).sum()
                low, high = (low, middle) if total > 1 else (middle, high)
            q = (inside ** (alpha - 1) + low) ** (1 / (alpha - 1))
        q = np.concatenate([q, np.zeros(len(p) - k)])
        if alpha == 1:
            cost = float(np.sum(q[:k] * np.log(q[:k] / p[:k])))
        else:
            f, g = (lambda x: x**alpha / (alpha * (alpha - 1))), (lambda x: x ** (alpha - 1) / (alpha - 1))
            cost = float(np.sum(f(q) - f(p) - g(p) * (q - p)))
        if best is None or cost + lam * k < best[0] - 1e-12:
            best = (cost + lam * k, q)
    return best


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_bregman_is_the_best_of_all_supports(data):
    p = np.array(sorted(data.draw(st.lists(st.floats(0.01, 1), min_size=1, max_size=8)), reverse=True))
    p /= p.sum()
    alpha, lam = data.draw(st.sampled_from([1, 1.5, 2, 3])), data.draw(st.floats(0.0005, 0.5))
    cost, wanted = plain_bregman(p, alpha, lam)
    found = bregman_top_k(torch.tensor(p).log()[None], alpha, lam)[0].exp().numpy()
    if int((found > 0).sum()) != int((wanted > 0).sum()):  # two supports that cost the same
        again = plain_bregman(p, alpha, lam * (1 + 1e-9))[0]
        assert again == pytest.approx(cost, rel=1e-6)
        return
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_bregman_with_kl_stops_at_the_ratio():
    p = torch.tensor([0.5, 0.3, 0.1, 0.06, 0.04])
    scores = p.log()[torch.tensor([3, 0, 4, 2, 1])][None]
    for lam in (0.05, 0.12, 0.3, 0.6):
        sums = p.cumsum(0)
        k = next((k for k in range(1, 5) if math.log(sums[k] / sums[k - 1]) <= lam), 5)
        out = one_step(Bregman(sparsity=lam), scores)[0]
        assert int(out.isfinite().sum()) == k
        kept = out.isfinite()
        torch.testing.assert_close(out[kept].log_softmax(0), scores[0][kept].log_softmax(0))


def plain_adadec(model, ids, row, tau, candidates, length, stop):
    log_p = normalised(row)
    entropy = -sum(math.exp(x) * x for x in log_p if x > -math.inf)
    if entropy < tau:
        return None
    best, found = -math.inf, None
    for v in sorted(range(len(row)), key=lambda v: -log_p[v])[:candidates]:
        if log_p[v] == -math.inf:
            continue
        text, total, count = [*ids, v], log_p[v], 1
        while text[-1] not in stop and count < length + 1:
            after = logits_after(model, text).log_softmax(0)
            text.append(int(after.argmax()))
            total, count = total + float(after.max()), count + 1
        if total / count > best:
            best, found = total / count, v
    return found


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_adadec_against_roll_outs(kind):
    model = tiny(kind)
    adadec = AdaDec(model, uncertain=1.5, candidates=3, length=4)
    rng = np.random.default_rng(0)
    prompts = ((1, 2, 3), (4,), (5, 6), (7, 8, 9, 10))
    seen = set()
    for _ in range(10):
        scores = torch.tensor(rng.normal(0, rng.choice([0.5, 4.0], (4, 1)), (4, 12)), dtype=torch.float32)
        scores[0, 3] = -math.inf
        moment = Moment(scores.log_softmax(1), torch.ones(4, dtype=torch.bool), 0)
        delta = adadec.delta(adadec.init(Prompts(prompts, torch.device("cpu"))), moment)
        for row, ids in enumerate(prompts):
            wanted = plain_adadec(model, ids, scores[row].tolist(), 1.5, 3, 4, (0,))
            seen.add(wanted is None)
            if wanted is None:
                assert not delta[row].any()
            else:
                assert (delta[row] == 0).nonzero().flatten().tolist() == [wanted]
    assert seen == {True, False}


@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: FSD(alpha=0.4, k=None),
        lambda: Momentum(k=4),
        lambda: BestOfK(),
        lambda: Bregman(sparsity=0.05, alpha=1.5),
        lambda: AdaDec(tiny("llama"), uncertain=0.5),
    ],
)
def test_inside_generations(mode, constrained, make):
    """Runs with left padding, n samples, beams and twice in a row; texts stay within the constraint."""
    allowed = ["abc", "ab", "é", "a c", "bb"]
    constraint = Enumerated(VOCABULARY, allowed) if constrained else None
    model, tokenizer = ToyLM(VOCABULARY, pad=10), ToyTokenizer(VOCABULARY, pad=10)
    steer, each = [make()], []
    for _ in range(2):
        options = {"seed": 3, "vocabulary": VOCABULARY, "max_new_tokens": 7, "steer": steer, **OPTIONS[mode]}
        results = generate(model, tokenizer, ["ab", "c"], constraint, **options)
        each.append([(one.text, *(other.text for other in one.alternatives)) for one in results])
        if constrained:
            assert {text for row in each[-1] for text in row} <= set(allowed)
    assert each[0] == each[1]


@pytest.mark.parametrize("mode", OPTIONS)
def test_fsd_is_recomputed_from_the_ids(mode):
    """The deltas in every mode are those that the ids of the row give."""
    base = ToyLM(VOCABULARY, pad=10)

    def step(ids, width, *, prompt_length):
        row = normalised(base.distribution(tuple(ids)))
        scores = [0.9 * math.exp(row[v]) - 0.1 * plain_fsd(list(ids), 3, 0.9, v) for v in range(width)]
        assume_positive.append(min(scores))
        shown = [math.log(x) if x > 1e-30 else math.log(1e-30) + (x - 1e-30) / 1e-30 for x in scores]
        penalties = [plain_fsd(list(ids), 3, 0.9, v) for v in range(width)]
        shown = [s if q else math.log(0.9) + x for s, q, x in zip(shown, penalties, row, strict=True)]
        best = max(shown)
        return torch.tensor([max(s, best - 60) - x for s, x in zip(shown, row, strict=True)])

    assume_positive = []

    class Cut(FSD):
        """Differences of 1e29 cannot be compared to five digits."""

        def delta(self, state, moment):
            delta = super().delta(state, moment)
            total = delta + moment.log_p
            return torch.maximum(total, total.amax(1, keepdim=True) - 60) - moment.log_p

    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Cut(alpha=0.1, k=None)])
    for prompts in ([[2, 3, 2], [1]], [[8, 1, 1, 5]]):
        torch.manual_seed(0)
        generate_checked(base, prompts, processor, (step,), **OPTIONS[mode])
    assert assume_positive


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_codes_choose_the_share_that_holds_them(data):
    (row,) = drawn_rows(data, 1, data.draw(st.integers(1, 8)))
    code = data.draw(st.floats(0, 1, exclude_max=True))
    p = [math.exp(x) for x in normalised(row)]
    ends = np.cumsum(p)
    assume(all(abs(code - end) > 1e-9 for end in ends))
    tokens, rest = decoded(torch.tensor([code], dtype=torch.float64), torch.tensor([row], dtype=torch.float64))
    wanted = int(np.searchsorted(ends, code, side="right"))
    assert int(tokens) == wanted
    start = ends[wanted] - p[wanted]
    assert float(rest) == pytest.approx((code - start) / p[wanted], abs=1e-6)


@pytest.mark.parametrize("constrained", [False, True])
def test_arithmetic_samples_cover_evenly(constrained):
    """Of n texts a beginning of probability P comes n * P times, up to less than one at each end."""
    allowed = ["abc", "ab", "é", "a c", "bb", "cab"]
    constraint = Enumerated(VOCABULARY, allowed) if constrained else None
    model, tokenizer = ToyLM(VOCABULARY, pad=10, scale=0.7), ToyTokenizer(VOCABULARY, pad=10)
    steps = []
    options = {"vocabulary": VOCABULARY, "max_new_tokens": 4, "do_sample": True, "top_k": 0, "temperature": 1.0}
    processor = ControlProcessor(constraint, vocabulary=VOCABULARY)
    prompt = tokenizer("ab")["input_ids"]
    row = processor(torch.tensor([prompt]), torch.tensor([model.distribution(tuple(prompt))])).double().softmax(1)[0]
    for seed in range(4):
        result = generate(
            model, tokenizer, ["ab", "ab"], constraint, num_return_sequences=16,
            custom_generate=arithmetic(seed=seed), **options,
        )  # fmt: skip
        for one in result:
            first = Counter(made.token_ids[0] for made in (one, *one.alternatives))
            steps.append(tuple(sorted(first.items())))
            for v in range(WIDTH):
                assert abs(first[v] - 16 * float(row[v])) < 1 + 1e-6
            if constrained:
                assert {made.text for made in (one, *one.alternatives)} <= set(allowed)
    again = generate(
        model, tokenizer, ["ab", "ab"], constraint, num_return_sequences=16,
        custom_generate=arithmetic(seed=3), **options,
    )  # fmt: skip
    assert [one.token_ids for one in again] == [one.token_ids for one in result]


def test_each_arithmetic_sample_is_fair():
    """Over the starts, the text of a code has the probability the model gives it: two tokens, all 16 pairs."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(0, 1, 4), rng.normal(0, 1, (4, 4))
    count = 20000
    codes = (torch.arange(count, dtype=torch.float64) + 0.5) / count
    tokens, rest = decoded(codes, torch.tensor(first)[None].expand(count, -1))
    after, _ = decoded(rest, torch.tensor(second)[tokens])
    seen = Counter(zip(tokens.tolist(), after.tolist(), strict=True))
    p, q = np.exp(normalised(first.tolist())), [np.exp(normalised(row)) for row in second.tolist()]
    for a in range(4):
        for b in range(4):
            assert abs(seen[a, b] / count - p[a] * q[a][b]) < 3 / count
    assert spaced_codes(2, 5).reshape(2, 5).sort(1).values.diff(dim=1).allclose(torch.tensor(0.2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FSD(alpha=1), "alpha is 1"),
        (lambda: FSD(n=0), "n is 0"),
        (lambda: FSD(k=0), "k is 0"),
        (lambda: Momentum(resistance=()), "resistance is empty"),
        (lambda: BestOfK(draws=0), "draws is 0"),
        (lambda: BestOfK(closeness=0), "closeness is 0"),
        (lambda: Bregman(alpha=0.5), "alpha is 0.5"),
        (lambda: Bregman(alpha=1.001), r"alpha is 1\.001"),
        (lambda: Bregman(sparsity=-1), "sparsity is -1"),
        (lambda: AdaDec(tiny("llama"), candidates=0), "candidates is 0"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_arithmetic_needs_sampling():
    model, tokenizer = ToyLM(VOCABULARY, pad=10), ToyTokenizer(VOCABULARY, pad=10)
    with pytest.raises(InputError, match="do_sample=True and no beams"):
        generate(model, tokenizer, "ab", vocabulary=VOCABULARY, custom_generate=arithmetic(0), max_new_tokens=2)
