"""Deco-G against the enumeration of all futures, alone, with an attribute, pruned, and under the hard mask."""

import itertools
import math

import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.hmm import Finite, UntilEnd
from ctrlgen.hmm.answers import Place, answers, value
from ctrlgen.hmm.horizon import Ahead
from ctrlgen.hmm.lifted import lift
from ctrlgen.hmm.lookahead import ask, before, finite
from ctrlgen.hmm.model import stationary
from ctrlgen.hmm.pruning import pruned, without
from ctrlgen.hmm.terms import constant
from ctrlgen.steering.protocol import Moment, Prompts, Steerer
from ctrlgen.testing import ToyLM, toy_vocabulary
from tests.hmm.enumerated import joint, product_of, random_hmm
from tests.hmm.test_trace import agree

CPU = torch.device("cpu")
VOCABULARY = toy_vocabulary([None, b"a", b"b", b"ab", b"c"])
WIDTH, EOS = 5, 0
PATTERNS = ["(ab)*c", "a?b?c?", "[ab]{0,3}", "(a|b)*c(a|b)*"]


@pytest.fixture(scope="module")
def hmm():
    return random_hmm(np.random.default_rng(0), 2, WIDTH, eos=(EOS,))


def deltas(steerer, prompt, generated):
    state = steerer.init(Prompts((tuple(prompt),), CPU, VOCABULARY))
    for token in generated:
        state = steerer.update(state, torch.tensor([token]), torch.tensor([True]))
    moment = Moment(torch.full((1, WIDTH), -math.log(WIDTH)), torch.tensor([True]), len(generated))
    return steerer.delta(state, moment)[0]


def accepted(constraint, text):
    """Whether a text with its end token meets the constraint."""
    state = constraint.start
    for token in text:
        state = constraint.advance(state, token) if state != DEAD else DEAD
    return state != DEAD and text[-1:] == (EOS,)


def reference(hmm, constraint, prompt, generated, left, wanted=lambda text: 1.0):
    """float[V]: p(met and wanted | v next), by writing out all that ends in time; ``left`` tokens after v."""
    before = (*prompt, *generated)
    out = []
    for v in range(WIDTH):
        likely, total = joint(hmm, (*before, v)), 0.0
        for n in range(left + 1):
            for future in itertools.product(range(WIDTH), repeat=n):
                text = (*generated, v, *future)
                if EOS not in text[:-1] and accepted(constraint, text):
                    total += joint(hmm, (*prompt, *text)) * wanted(text)
        out.append(total / likely)
    return np.array(out)


def agrees(found, chances):
    logs = np.log(np.maximum(chances / chances.max(), 1e-12))
    agree(found, logs)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize(("prompt", "generated"), [((2,), ()), ((), (1,))])
def test_every_future(hmm, pattern, prompt, generated):
    constraint = cg.Regex(pattern).compile(VOCABULARY)
    found = deltas(cg.DecoG(hmm, cg.Regex(pattern), tokens=5), prompt, generated)
    agrees(found, reference(hmm, constraint, prompt, generated, 4 - len(generated)))


@pytest.mark.parametrize(
    "template",
    [
        cg.Template("a", ["b", "ab"]),
        cg.Template(cg.Template.tokens(1, 2), "b"),
        cg.Template("a", cg.Template.tokens(0, None), "c"),
        cg.Template(..., "ab"),
    ],
    ids=repr,
)
def test_every_future_of_a_template(hmm, template):
    constraint = template.compile(VOCABULARY)
    found = deltas(cg.DecoG(hmm, template, tokens=5), (2,), (1,))
    agrees(found, reference(hmm, constraint, (2,), (1,), 3))


def test_jointly_with_an_attribute(hmm):
    weights = np.array([-0.1, -1.5, -0.2, -0.9, -0.4])
    spec, exact = cg.Regex("(a|b)*c"), np.float32(weights).astype(float)
    steerer = cg.DecoG(hmm, spec, attribute=cg.Attribute.factorised(weights), tokens=5)
    found = deltas(steerer, (3,), (1,))
    agrees(found, reference(hmm, spec.compile(VOCABULARY), (3,), (1,), 3, product_of(exact)))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_without_end_it_is_the_limit(hmm, pattern):
    spec = cg.Regex(pattern)
    far = deltas(cg.DecoG(hmm, spec, horizon=Finite(300, must_end=True)), (1,), (1,))
    agree(deltas(cg.DecoG(hmm, spec), (1,), (1,)), far)
    agree(deltas(cg.DecoG(hmm, spec, horizon=UntilEnd(5000, near=3)), (1,), (1,)), far)


def test_strength(hmm):
    one, two = (deltas(cg.DecoG(hmm, cg.Regex("(a|b)*c"), a=a), (1,), ()) for a in (1.0, 2.0))
    agree(two, 2 * one)
    assert torch.equal(deltas(cg.DecoG(hmm, cg.Regex("abc"), a=0), (1,), ()), torch.zeros(WIDTH))


def test_a_row_that_was_refused_is_left_alone(hmm):
    assert torch.equal(deltas(cg.DecoG(hmm, cg.Regex("abc")), (1,), (4,)), torch.zeros(WIDTH))


def test_others_have_the_average_of_their_class(hmm):
    spec = cg.Regex("[ab]*c")
    steerer = cg.DecoG(hmm, spec, tokens=4, top=1)
    state = steerer.init(Prompts(((1,),), CPU, VOCABULARY))
    log_p = torch.tensor([[0.1, 0.1, 0.1, 0.1, 0.6]]).log()
    found = steerer.delta(state, Moment(log_p, torch.tensor([True]), 0))[0].double().exp()
    whole = reference(hmm, spec.compile(VOCABULARY), (1,), (), 3)
    likely = np.array([joint(hmm, (1, v)) for v in range(WIDTH)])
    average = (likely * whole)[1:4].sum() / likely[1:4].sum()
    values = np.array([whole[0], average, average, average, whole[4]])
    agree(found, np.maximum(values / values.max(), 1e-12))


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("pattern", [*PATTERNS, "a{0,9}b{0,9}c"])
def test_pruning_keeps_what_it_says(hmm, pattern, keep):
    constraint = cg.Regex(pattern).compile(VOCABULARY)
    lifted, _ = lift(constraint, WIDTH)
    smaller, report = pruned(hmm, lifted, keep)
    assert report.states == lifted.states and report.left == smaller.states
    assert keep <= report.kept <= 1
    if keep == 1:
        assert report.left == report.states

    def chance(one):
        question = ask(hmm, constant(1.0, WIDTH), one)
        return float(stationary(hmm) @ before(question, finite(question, 300, must_end=True)[-1])[0, 0])

    assert report.kept == pytest.approx(chance(smaller) / chance(lifted), abs=1e-9)
    # what it keeps accepts nothing new
    for n in range(4):
        for text in itertools.product(range(1, WIDTH), repeat=n):
            state, own = torch.tensor([0]), constraint.start
            for token in text:
                state = smaller.after(state, torch.tensor([token]))
                own = constraint.advance(own, token) if own != DEAD else DEAD
            if int(state) >= 0 and bool(smaller.final[state]):
                assert own != DEAD and constraint.accepts(own)


def test_long_tails_are_pruned():
    hmm = random_hmm(np.random.default_rng(0), 2, WIDTH, eos=(EOS,))
    steerer = cg.DecoG(hmm, cg.Regex("a{0,40}b{0,40}c?"), keep=0.99)
    deltas(steerer, (1,), ())
    assert steerer.report.left < steerer.report.states / 3 and steerer.report.kept >= 0.99
    lifted, _ = lift(cg.Regex("abc").compile(VOCABULARY), WIDTH)
    assert without(lifted, torch.tensor([], dtype=torch.long)).moves.tolist() == lifted.moves.tolist()


@pytest.mark.parametrize("options", [{"do_sample": True, "num_return_sequences": 8}, {"num_beams": 4}])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_mask_decides(hmm, pattern, options):
    """Every text is accepted within the budget, whatever the guidance thinks."""
    torch.manual_seed(0)
    spec, model = cg.Regex(pattern), ToyLM(VOCABULARY)
    processor = cg.ControlProcessor(
        spec, vocabulary=VOCABULARY, steer=[cg.DecoG(hmm, spec, tokens=6, a=3.0, keep=0.9)], max_new_tokens=6
    )
    ids = torch.tensor([[EOS, 1], [2, 4]])
    out = model.generate(
        ids, attention_mask=(ids != EOS).long(), logits_processor=[processor], max_new_tokens=6, **options
    )
    constraint = spec.compile(VOCABULARY)
    for row in out[:, 2:].tolist():
        assert accepted(constraint, tuple(row[: row.index(EOS) + 1]))


def test_nearer_to_rejection_sampling_than_the_mask(hmm):
    """When the language model is the HMM itself, guidance makes texts as likely as rejection sampling would."""
    spec = cg.Regex("(a|b|c)*c")
    constraint = spec.compile(VOCABULARY)
    steerer = cg.DecoG(hmm, spec, top=None)

    def log_p(text):
        values = [joint(hmm, (1, *text, v)) / joint(hmm, (1, *text)) for v in range(WIDTH)]
        return torch.tensor([values]).log()

    for text in [(), (1,), (2, 4), (4, 1)]:
        state = steerer.init(Prompts(((1,),), CPU, VOCABULARY))
        for token in text:
            state = steerer.update(state, torch.tensor([token]), torch.tensor([True]))
        steered = log_p(text) + steerer.delta(state, Moment(log_p(text).float(), torch.tensor([True]), len(text)))
        found = steered.softmax(1)[0]
        question = ask(hmm, constant(1.0, WIDTH), lift(constraint, WIDTH)[0])
        after = finite(question, 300, must_end=True)[-1:]
        ready = answers(question, Ahead(after, None))
        wanted, _ = value(ready, Place(state[0], state[1], state[2], 0), torch.arange(WIDTH)[None])
        np.testing.assert_allclose(found, (wanted / wanted.sum())[0], atol=1e-6)


def test_unlikely_formats_are_told_apart():
    """Single precision would have nothing left of these."""
    hmm = random_hmm(np.random.default_rng(0), 2, WIDTH, eos=(EOS,)).to(dtype=torch.float32)
    found = deltas(cg.DecoG(hmm, cg.Regex("a(abc){30}|b(bca){31}")), (1,), ())
    assert bool((found[[1, 2]] > -30 * 3 * 3).all()) and found[1] != found[2]
    with pytest.raises(InputError, match="too unlikely"):
        deltas(cg.DecoG(hmm, cg.Regex("(abc){300}")), (1,), ())


def test_refuses(hmm):
    spec = cg.Regex("abc")
    assert isinstance(cg.DecoG(hmm, spec), Steerer)
    with pytest.raises(InputError, match="expected an HMM"):
        cg.DecoG(spec, hmm)
    with pytest.raises(InputError, match="expected a constraint"):
        cg.DecoG(hmm, "abc")
    with pytest.raises(InputError, match="give one of them"):
        cg.DecoG(hmm, spec, tokens=3, horizon=UntilEnd())
    with pytest.raises(InputError, match="what the tokens mean"):
        cg.DecoG(hmm, spec).init(Prompts(((1,),), CPU))
    steerer = cg.DecoG(hmm, spec.compile(VOCABULARY))
    steerer.init(Prompts(((1,),), CPU))
    with pytest.raises(InputError, match="another tokenizer"):
        steerer.init(Prompts(((1,),), CPU, toy_vocabulary()))
    with pytest.raises(InputError, match="those of the HMM with"):
        cg.DecoG(random_hmm(np.random.default_rng(0), 2, WIDTH, eos=(4,)), spec.compile(VOCABULARY))
    never = cg.HMM(hmm.start, hmm.transition, type(hmm.emission)(_without_c(hmm.emission.table)), hmm.eos)
    with pytest.raises(UnsatisfiableError, match="impossible"):
        cg.DecoG(never, spec.compile(VOCABULARY), keep=0.5)


def _without_c(table):
    table = table.clone()
    table[4] = 0
    return table / table.sum(0)
