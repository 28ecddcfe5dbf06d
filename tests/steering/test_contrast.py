"""Methods of weighted differences: against plain sums, their neutral values, and inside generations."""

import functools
import itertools
import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ctrlgen.errors import InputError, ModelError
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.contexts import PMI, ClassifierFree, ContextAware
from ctrlgen.steering.contrastive import Contrastive
from ctrlgen.steering.experts import DExperts
from ctrlgen.steering.loglinear import combined, entropy, nucleus, plausible
from ctrlgen.steering.opposite import ACD, OppositePrompts
from ctrlgen.steering.source import Source
from ctrlgen.testing import Enumerated, ToyLM, toy_vocabulary

from .fixed import Fixed, drawn_rows, normalised, one_step
from .models import logits_after, tiny
from .test_source import OPTIONS, SOFT, generate_checked

VOCABULARY = toy_vocabulary()


def plain(row, parts, own=1.0, kept=None):
    """s by a loop over the tokens, -inf where a distribution that counts is 0."""
    allowed = [x > -math.inf for x in row]
    log_p = normalised(row)
    logs = [(w, normalised(one, allowed)) for w, one in parts if w]
    s = []
    for v in range(len(row)):
        if not allowed[v] or (kept and not kept[v]) or any(one[v] == -math.inf for _, one in logs):
            s.append(-math.inf)
        else:
            s.append((own * log_p[v] if own else 0.0) + sum(w * one[v] for w, one in logs))
    return normalised(s) if max(s) > -math.inf else s


def kept_share(row, share):
    return [x >= max(normalised(row)) + math.log(share) - 1e-9 if share else True for x in normalised(row)]


def kept_mass(row, mass):
    log_p, sum_before, kept = normalised(row), 0.0, [False] * len(row)
    for v in sorted(range(len(row)), key=lambda v: -log_p[v]):
        kept[v] = sum_before < mass or mass >= 1
        sum_before += math.exp(log_p[v])
    return kept


def near_an_edge(row):
    """Whether rounding decides what is kept."""
    log_p = normalised(row)
    mass = itertools.accumulate(sorted((math.exp(x) for x in log_p), reverse=True))
    ties = any(abs(x - y) < 1e-4 for x, y in itertools.pairwise(sorted(log_p)) if y > -math.inf)
    return (
        ties
        or any(abs(x - 0.8) < 1e-4 for x in mass)
        or any(abs(x - max(log_p) - math.log(0.15)) < 1e-4 for x in log_p)
    )


def cooled(row, allowed, temperature):
    return [x / temperature for x in normalised(row, allowed)]


weights = st.floats(0, 3)
METHODS = {
    "contrastive": lambda row, a, b, w: (
        Contrastive(Fixed(a), strength=w, plausibility=0.15, temperature=0.7),
        plain(row, [(-w, cooled(a, [x > -math.inf for x in row], 0.7))], kept=kept_share(row, 0.15)),
    ),
    "context aware": lambda row, a, b, w: (ContextAware(Fixed(a), strength=w), plain(row, [(-w, a)], 1 + w)),
    "classifier free": lambda row, a, b, w: (ClassifierFree(Fixed(a), scale=w), plain(row, [(1 - w, a)], w)),
    "experts": lambda row, a, b, w: (
        DExperts(Fixed(a), Fixed(b), strength=w, top_p=0.8),
        plain(row, [(w, a), (-w, b)], kept=kept_mass(row, 0.8)),
    ),
    "anti-expert alone": lambda row, a, b, w: (
        DExperts(None, Fixed(b), strength=w, top_p=1.0),
        plain(row, [(-w, b)], 1 + w),
    ),
    "expert alone": lambda row, a, b, w: (DExperts(Fixed(a), None, strength=w, top_p=1), plain(row, [(w, a)], 1 - w)),
    "pmi": lambda row, a, b, w: (PMI(Fixed(a), strength=w, uncertain=0), plain(row, [(-w, a)])),
    "acd": lambda row, a, b, w: (ACD(Fixed(a), Fixed(b), strength=w), plain(row, [(1, a), (-w, b)], 0)),
    "acd of itself": lambda row, a, b, w: (
        ACD(None, Fixed(b), strength=w / 4, keep_temperature=True),
        plain(row, [(-w / 4 / (1 - w / 4), b)], 1 / (1 - w / 4)),
    ),
}


@pytest.mark.parametrize("name", METHODS)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_against_plain_sums(name, data):
    """Also where supports differ, and with logits that another constant was added to."""
    row, a, b = drawn_rows(data, 3, data.draw(st.integers(1, 8)))
    weight = data.draw(weights)
    shift = data.draw(st.floats(-20, 20))
    assume(not near_an_edge(row))
    steerer, wanted = METHODS[name]([x + shift for x in row], [x - shift for x in a], [x + 3 for x in b], weight)
    scores = torch.tensor([row])
    out = one_step(steerer, scores)[0]
    if max(wanted) == -math.inf:  # what is kept and what the others say do not meet: for the caller to see
        assert (out == -math.inf).all()
        return
    out = out.log_softmax(0).tolist()
    for v, (x, y) in enumerate(zip(out, wanted, strict=True)):
        assert (x == -math.inf) == (y == -math.inf), v
        assert x == y or math.isclose(x, y, abs_tol=2e-3, rel_tol=1e-3), (v, x, y)


NEUTRAL = {
    "contrastive": lambda a, b: Contrastive(Fixed(a), strength=0, plausibility=0),
    "context aware": lambda a, b: ContextAware(Fixed(a), strength=0),
    "classifier free": lambda a, b: ClassifierFree(Fixed(a), scale=1),
    "experts": lambda a, b: DExperts(Fixed(a), Fixed(b), strength=0, top_p=1),
    "pmi": lambda a, b: PMI(Fixed(a), strength=0),
    "pmi where it is certain": lambda a, b: PMI(Fixed(a), strength=2, uncertain=9),
    "acd": lambda a, b: ACD(None, Fixed(b), strength=0),
}


@pytest.mark.parametrize("name", NEUTRAL)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_neutral_values(name, data):
    row, a, b = drawn_rows(data, 3, data.draw(st.integers(1, 8)))
    scores = torch.tensor([row])
    assert torch.equal(one_step(NEUTRAL[name](a, b), scores), scores) or torch.allclose(
        one_step(NEUTRAL[name](a, b), scores), scores, atol=1e-5
    )


def test_each_row_decides_on_its_own_whether_it_is_uncertain():
    rows = torch.tensor([[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]])
    out = one_step(PMI(Fixed([2.0, 0.0, 0.0, 0.0]), strength=1, uncertain=1.0), rows, [(1,), (2,)])
    torch.testing.assert_close(out[1], rows[1])
    assert out[0, 0] < out[0, 1]
    torch.testing.assert_close(entropy(rows.log_softmax(1))[0], torch.tensor(math.log(4)))


def test_the_likeliest_token_is_always_kept():
    log_p = torch.tensor([[0.0, 0.0, -1.0, -math.inf]]).log_softmax(1)
    assert plausible(log_p, 1.0).tolist() == [[True, True, False, False]]
    assert plausible(log_p, 0.0).tolist() == [[True, True, True, False]]
    assert nucleus(log_p, 1e-9).sum() == 1
    assert nucleus(log_p, 1.0).tolist() == [[True, True, True, False]]
    assert combined(log_p, []).abs().sum() == 0


def test_a_model_that_is_given_alone_reads_the_last_id():
    model = tiny("gpt2")
    for steerer in (Contrastive(model), ContextAware(model), ClassifierFree(model), PMI(model)):
        processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[steerer])
        processor(torch.tensor([[3, 4, 5]]), torch.zeros(1, 12))
        (generation,) = processor._generations.values()
        assert generation.steering.tracks[0].points[-1].ready[0].ids.tolist() == [[5]]


def rows_of(model, ids, size, options):
    """log p of a source as the steps of a check want it."""
    prompt, generated = list(ids[:size]), list(ids[size:])
    given = options.get("prompt")
    prompt = list(given(tuple(prompt)) if callable(given) else prompt if given is None else given)
    return logits_after(model, [*prompt, *generated], options.get("soft_prompt")).log_softmax(0)


@pytest.mark.parametrize("mode", OPTIONS)
@pytest.mark.parametrize("constrained", [False, True])
def test_inside_generations(mode, constrained):
    """Beams, samples, padding and reuse, with two second models of different kinds."""
    base, model, other = ToyLM(VOCABULARY, pad=10), tiny("gpt2"), tiny("llama", 1)
    # without a constraint every token is allowed, so the sums need no base model
    constraint = Enumerated(VOCABULARY, ["abc", "ab", "é", "a c", "bb"]) if constrained else None
    soft = {"soft_prompt": SOFT}
    steerer = DExperts(Source(model), Source(other, **soft), strength=0.8, top_p=1.0)

    def step(ids, width, *, prompt_length):
        expert, anti = rows_of(model, ids, prompt_length, {}), rows_of(other, ids, prompt_length, soft)
        return 0.8 * (expert - anti)

    processor = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[steerer])
    for prompts in ([[2, 3], [1], [4, 4, 9]], [[8, 1, 1, 5, 6], [2, 3]]):
        torch.manual_seed(0)
        generate_checked(base, prompts, processor, (functools.partial(step),), constraint, **OPTIONS[mode])


def test_prompts_as_files(tmp_path):
    path = tmp_path / "prompts.safetensors"
    made = OppositePrompts(torch.randn(3, 16), torch.randn(2, 16), {"steps": 5})
    made.save(path)
    read = OppositePrompts.load(path)
    assert torch.equal(read.safe, made.safe)
    assert torch.equal(read.adverse, made.adverse)
    assert read.card == {"steps": 5}
    steerer = ACD.of(tiny("llama"), read, strength=0.5)
    assert [len(one.soft_prompt) for one in steerer.sources] == [3, 2]
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(ModelError):
        OppositePrompts.load(path)
    with pytest.raises(InputError, match=r"safe prompt has shape \[3\]"):
        OppositePrompts(torch.zeros(3), torch.zeros(2, 4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: Contrastive(m, strength=-1), "strength is -1"),
        (lambda m: Contrastive(m, plausibility=1.5), "plausibility is 1.5"),
        (lambda m: Contrastive(m, temperature=0), "temperature is 0"),
        (lambda m: ContextAware(m, strength=math.nan), "strength is nan"),
        (lambda m: ClassifierFree(m, scale=None), "scale is None"),
        (lambda m: DExperts(None, None), "needs an expert"),
        (lambda m: DExperts(m, m, top_p=0), "top_p is 0"),
        (lambda m: PMI(m, uncertain=-1), "uncertain is -1"),
        (lambda m: ACD(m, None), "adverse prompt"),
        (lambda m: ACD(m, m, strength=1, keep_temperature=True), "give less"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make(tiny("llama"))
