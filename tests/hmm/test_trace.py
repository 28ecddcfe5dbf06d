"""TRACE against the enumeration of all futures, and inside ``model.generate``."""

import math

import numpy as np
import pytest
import torch
from transformers import LogitsProcessor

import ctrlgen as cg
from ctrlgen.errors import ComplexityError, InputError, ModelError
from ctrlgen.hmm import HMM, Geometric, Stationary, UntilEnd, Window
from ctrlgen.hmm.attribute import sines_for
from ctrlgen.steering.protocol import Moment, Prompts, Steerer
from ctrlgen.testing import Enumerated, ToyLM, toy_vocabulary
from tests.hmm.enumerated import expected, joint, logistic_of, product_of, random_hmm

CPU = torch.device("cpu")
EOS = 3


def deltas(steerer, prompt, generated, width):
    """float32[V]: for one row, from scratch."""
    state = steerer.init(Prompts((tuple(prompt),), CPU))
    for token in generated:
        state = steerer.update(state, torch.tensor([token]), torch.tensor([True]))
    moment = Moment(torch.full((1, width), -math.log(width)), torch.tensor([True]), len(generated))
    return steerer.delta(state, moment)[0]


def reference(hmm, prompt, generated, count, wanted, a, form="power"):
    """Every future enumerated; ``count`` tokens to come after the next one."""
    before = (*prompt, *generated)
    out = []
    for v in range(hmm.width):
        likely = joint(hmm, (*before, v)) / joint(hmm, before)
        e = expected(hmm, before, v, count, lambda text: wanted((*generated, *text))) / likely
        out.append(a * math.log(e) if form == "power" else -math.log1p((1 / e - 1) ** a))
    return out


def relative(deltas):
    """Less the largest: what a softmax sees."""
    values = np.asarray(deltas, float)
    return values - values.max()


def agree(found, wanted):
    found, wanted = relative(found), relative(wanted)
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)  # deltas are float32


@pytest.fixture(scope="module")
def hmm():
    return random_hmm(np.random.default_rng(0), 2, 4, eos=(EOS,))


def cases():
    rng = np.random.default_rng(1)
    one, two = (-rng.exponential(0.7, 4) for _ in range(2))
    free = rng.normal(0, 0.4, 4)
    f, g = cg.Attribute.factorised(one), cg.Attribute.factorised(two)
    s = cg.Attribute.logistic(free, -0.3, precision=1e-8)
    one, two, free = (np.float32(x).astype(float) for x in (one, two, free))
    p, q, r = product_of(one), product_of(two), logistic_of(free, -0.3)
    return {
        "factorised": (f, p),
        "not": (~f, lambda t: 1 - p(t)),
        "and": (f & g, lambda t: p(t) * q(t)),
        "or": (f | g, lambda t: 1 - (1 - p(t)) * (1 - q(t))),
        "deep": (f & ~(g & f) | g, lambda t: 1 - (1 - p(t) * (1 - q(t) * p(t))) * (1 - q(t))),
        "logistic": (s, r),
        "mixed": (s & ~f, lambda t: r(t) * (1 - p(t))),
    }


@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize(("prompt", "generated"), [((0, 2), ()), ((1,), (2,)), ((), (0, 1, 1))])
@pytest.mark.parametrize(("a", "form"), [(2.5, "power"), (1.0, "logit"), (2.5, "logit")])
def test_every_future(hmm, case, prompt, generated, a, form):
    attribute, wanted = cases()[case]
    found = deltas(cg.Trace(hmm, attribute, a=a, form=form, tokens=5), prompt, generated, 4)
    agree(found, reference(hmm, prompt, generated, 4 - len(generated), wanted, a, form))


def test_no_strength_changes_nothing(hmm):
    found = deltas(cg.Trace(hmm, cases()["not"][0], a=0, tokens=3), (1,), (), 4)
    assert torch.equal(found, found[:1].expand(4))


def test_horizons(hmm):
    attribute, wanted = cases()["factorised"]
    agree(
        deltas(cg.Trace(hmm, attribute, horizon=Window(2)), (0,), (1, 2), 4),
        reference(hmm, (0,), (1, 2), 2, wanted, 1),
    )
    # long windows come near what has no end
    far = deltas(cg.Trace(hmm, attribute, tokens=60), (0,), (1,), 4)
    agree(deltas(cg.Trace(hmm, attribute, horizon=UntilEnd()), (0,), (1,), 4), far)
    for horizon in (Geometric(3.0), Geometric(1e8)):
        found = deltas(cg.Trace(hmm, attribute, horizon=horizon), (0,), (1,), 4)
        assert found.isfinite().all()
    agree(found, far)  # hardly ever stops but by an end token


def test_endless_futures_go_on_past_an_end_token(hmm):
    w = np.float32([-0.1, -1.0, -0.4, -0.3])
    steerer = cg.Trace(hmm, cg.Attribute.factorised(w), a=2.0, tokens=5, endless=True)
    going_on = HMM(hmm.start, hmm.transition, hmm.emission)
    agree(deltas(steerer, (0, 2), (1,), 4), reference(going_on, (0, 2), (1,), 3, product_of(w.astype(float)), 2.0))
    ended = cg.Trace(hmm, cg.Attribute.factorised(w), a=2.0, tokens=5)
    gained = [deltas(one, (0, 2), (1,), 4).log_softmax(0)[EOS] for one in (steerer, ended)]
    assert gained[0] < gained[1]  # ending spares what would have been said


def test_a_text_that_must_end_may_only_end_at_last(hmm):
    attribute, _ = cases()["factorised"]
    found = deltas(cg.Trace(hmm, attribute, horizon=UntilEnd(3)), (0,), (1, 2), 4)
    assert found.isfinite().all() and int(found.argmax()) == EOS
    assert bool((found[:EOS] < found[EOS] - 20).all())


def test_stationary_is_the_limit_of_long_windows():
    hmm = random_hmm(np.random.default_rng(5), 3, 4)
    attribute = cg.Attribute.factorised([-0.1, -1.0, -0.4, -2.0])
    long = deltas(cg.Trace(hmm, attribute, horizon=Window(80)), (0,), (), 4)
    never = deltas(cg.Trace(hmm, attribute, a=1.0, horizon=Stationary()), (0,), (), 4)
    agree(never - never.logsumexp(0), long - long.logsumexp(0))


def test_past_the_length_one_more_token_is_looked_at(hmm):
    for name in ("factorised", "logistic"):
        attribute, wanted = cases()[name]
        steerer = cg.Trace(hmm, attribute, tokens=2)
        found = deltas(steerer, (0,), (1, 2, 0, 1), 4)
        assert found.isfinite().all()
        later = [math.log(wanted((1, 2, v))) for v in range(4)]  # 0 and 1 came too late to count
        agree(found, later)


def test_a_horizon_too_far_for_the_numbers_is_refused():
    hmm = random_hmm(np.random.default_rng(2), 2, 4).to(dtype=torch.float32)
    attribute = cg.Attribute.factorised([-3.0, -4.0, -5.0, -6.0])
    with pytest.raises(InputError, match="too unlikely"):
        cg.Trace(hmm, attribute, tokens=200)
    far, near = (deltas(cg.Trace(hmm, attribute, horizon=one), (0,), (), 4) for one in (Window(60), Stationary()))
    torch.testing.assert_close(far - far[0], near - near[0])


def test_long_texts_do_not_underflow():
    hmm = random_hmm(np.random.default_rng(2), 2, 4).to(dtype=torch.float32)
    attribute = cg.Attribute.factorised([-0.5, -1.0, -2.0, -3.0])
    steerer = cg.Trace(hmm, attribute, a=2.0)
    early, late = (deltas(steerer, (0,), (1,) * n, 4) for n in (20, 300))
    assert late.isfinite().all()
    torch.testing.assert_close(late - late[0], early - early[0], atol=1e-3, rtol=1e-3)


def test_others_have_the_average_of_all(hmm):
    attribute, wanted = cases()["factorised"]
    steerer = cg.Trace(hmm, attribute, tokens=4, top=2)
    state = steerer.init(Prompts(((0, 2),), CPU))
    log_p = torch.tensor([[0.5, 0.1, 0.3, 0.1]]).log()
    found = steerer.delta(state, Moment(log_p, torch.tensor([True]), 0))[0]
    whole = np.array(reference(hmm, (0, 2), (), 3, wanted, 1))
    likely = [joint(hmm, (0, 2, v)) / joint(hmm, (0, 2)) for v in range(3)]
    average = np.log(np.dot(likely, np.exp(whole[:3])) / sum(likely))
    agree(found, [whole[0], average, whole[2], whole[EOS]])  # the end token is alone in its class


def test_tokens_that_the_hmm_does_not_know(hmm):
    attribute, wanted = cases()["factorised"]
    found = deltas(cg.Trace(hmm, attribute, tokens=4), (0,), (1,), 7)
    agree(found[:4], reference(hmm, (0,), (1,), 2, wanted, 1))
    assert torch.equal(found[4:], found[4:5].expand(3)) and found.isfinite().all()
    state = cg.Trace(hmm, attribute).init(Prompts(((0, 6),), CPU))
    assert cg.Trace(hmm, attribute).update(state, torch.tensor([6]), torch.tensor([True]))[0].isfinite().all()


def test_a_batch_is_its_rows(hmm):
    steerer = cg.Trace(hmm, cases()["mixed"][0], tokens=6)
    prompts = [(0,), (), (2, 1, 1, 0, 2), (1, 2)]
    state = steerer.init(Prompts(tuple(prompts), CPU))
    for tokens in ([1, 2, 0, 0], [0, 0, 2, 1]):
        state = steerer.update(state, torch.tensor(tokens), torch.tensor([True, True, True, True]))
    log_p = torch.full((4, 4), 0.25).log()
    found = steerer.delta(state, Moment(log_p, torch.ones(4, dtype=torch.bool), 2))
    for row, (prompt, generated) in enumerate(zip(prompts, [(1, 0), (2, 0), (0, 2), (0, 1)], strict=True)):
        agree(found[row], deltas(steerer, prompt, generated, 4))
    over = steerer.update(state, torch.full((4,), EOS), torch.tensor([True, False, True, False]))
    for before, after in zip(state, over, strict=True):
        assert torch.equal(before[1], after[1]) and torch.equal(before[3], after[3])


VOCABULARY = toy_vocabulary()


class Compared(LogitsProcessor):
    """After a ControlProcessor: every row that is alive is what a row of its own would be."""

    def __init__(self, prompts, steerer, constraint):
        self.prompts, self.steerer, self.constraint, self.calls = prompts, steerer, constraint, 0

    def keep(self, input_ids, scores):
        self.before = scores.clone()
        return scores

    def __call__(self, input_ids, scores):
        start = max(map(len, self.prompts))
        for row, ids in enumerate(input_ids.tolist()):
            generated = ids[start:]
            if 0 in generated or not self.before[row].isfinite().any():
                continue
            masked, state = self.before[row].clone(), self.constraint.start
            for token in generated:
                state = self.constraint.advance(state, token) if state >= 0 else state
            if state < 0:
                continue
            masked[[t for t in range(12) if self.constraint.advance(state, t) < 0]] = -math.inf
            prompt = self.prompts[row * len(self.prompts) // len(input_ids)]
            wanted = masked + deltas(self.steerer, prompt, generated, 12)
            wanted = wanted.log_softmax(0) + masked.logsumexp(0)
            torch.testing.assert_close(scores[row], wanted, atol=1e-4, rtol=1e-5)
            self.calls += 1
        return scores


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": True, "num_return_sequences": 4},
        {"num_beams": 3, "num_return_sequences": 2},
        {"num_beams": 3, "do_sample": True},
    ],
)
def test_in_every_mode_of_generate(options):
    torch.manual_seed(0)
    model, constraint = ToyLM(VOCABULARY, pad=10), Enumerated(VOCABULARY, ("abc", "abcab c", "é", "a c", "bb"))
    hmm = random_hmm(np.random.default_rng(3), 4, 12, eos=(0,))
    steerer = cg.Trace(hmm, cg.Attribute.factorised(-np.random.default_rng(4).exponential(1, 12)), a=2.0, tokens=9)
    prompts = [[2, 3], [1], [4, 4, 9], [2, 3]]
    ids = torch.tensor([[10] * (3 - len(row)) + row for row in prompts])
    compared = Compared(prompts, steerer, constraint)
    processor = cg.ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[steerer])
    for _ in range(2):
        model.generate(
            ids,
            attention_mask=(ids != 10).long(),
            logits_processor=[compared.keep, processor, compared],
            max_new_tokens=9,
            **options,
        )
    assert compared.calls > 20


def test_bfloat16_is_about_the_same(hmm):
    attribute = cases()["factorised"][0]
    exact = deltas(cg.Trace(hmm, attribute, tokens=4), (0, 1), (2,), 4)
    rough = deltas(cg.Trace(hmm.to(dtype=torch.bfloat16), attribute, tokens=4), (0, 1), (2,), 4)
    np.testing.assert_allclose(rough, exact, atol=0.05)


def test_is_a_steerer(hmm):
    assert isinstance(cg.Trace(hmm, cases()["factorised"][0]), Steerer)


def test_refuses(hmm):
    with pytest.raises(InputError, match="UntilEnd"):
        cg.Trace(hmm, cg.Attribute.factorised(np.zeros(4)), horizon=UntilEnd(), endless=True)
    factorised, logistic = cases()["factorised"][0], cases()["logistic"][0]
    with pytest.raises(InputError, match="needs to know how far"):
        cg.Trace(hmm, logistic)
    cg.Trace(hmm, cg.Attribute.logistic([0.1, -0.1, 0, 0], 0.0, reach=12.0))
    with pytest.raises(InputError, match="a is -1"):
        cg.Trace(hmm, factorised, a=-1)
    with pytest.raises(InputError, match="give one of them"):
        cg.Trace(hmm, factorised, tokens=3, horizon=Window(2))
    with pytest.raises(InputError, match="for 3 tokens, the HMM for 4"):
        cg.Trace(hmm, cg.Attribute.factorised([0.0, 0.0, -1.0]))
    with pytest.raises(InputError, match="3 and 4 tokens cannot be composed"):
        cg.Attribute.factorised([0.0, 0.0, -1.0]) & factorised
    with pytest.raises(InputError, match="none above 0"):
        cg.Attribute.factorised([0.1])
    with pytest.raises(InputError, match="expected an HMM"):
        cg.Trace(factorised, factorised)
    for form, horizon in (("odds", None), ("logit", Stationary())):
        with pytest.raises(InputError, match="form is"):
            cg.Trace(hmm, factorised, form=form, horizon=horizon)
    with pytest.raises(InputError, match="top is 0"):
        cg.Trace(hmm, factorised, top=0)
    with pytest.raises(ComplexityError, match="256 sines"):
        sines_for(1e4, 1e-6)


def test_files(hmm, tmp_path):
    for name in ("factorised", "logistic"):
        made = cases()[name][0]
        made.save(tmp_path / name)
        read = cg.Attribute.load(tmp_path / name)
        assert torch.equal(read.weights, made.weights) and read.bias == made.bias
        counts = torch.tensor([[1.0, 0, 2, 0]])
        assert torch.equal(read.probability(counts), made.probability(counts))
    (tmp_path / "logistic").write_bytes((tmp_path / "logistic").read_bytes()[:-1])
    with pytest.raises(ModelError):
        cg.Attribute.load(tmp_path / "logistic")
