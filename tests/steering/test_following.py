"""Steering inside the real ``model.generate``, in every mode, against deltas computed from scratch for each row."""

import itertools
import math
from collections import Counter

import pytest
import torch
from transformers import LogitsProcessor

from ctrlgen.errors import DeadEndError, InputError, ModelError
from ctrlgen.flows.generate import generate
from ctrlgen.processor import ControlProcessor
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary
from tests.neutral import Neutral
from tests.threads import at_once

from .recomputed import Ledger, Noise, RewindingNoise, noise

TEXTS = ("abc", "abcab c", "é", "a c", "bb")
VOCABULARY = toy_vocabulary()
WIDTH = VOCABULARY.width
KINDS = [Noise, RewindingNoise]


@pytest.fixture
def model():
    return ToyLM(VOCABULARY, pad=10)


@pytest.fixture
def constraint():
    return Enumerated(VOCABULARY, TEXTS)


class Check(LogitsProcessor):
    """Before and after a ControlProcessor: every row that is alive must be what enumeration says."""

    def __init__(self, prompts, constraint=None, steps=(noise,)):
        self.prompts, self.constraint, self.steps = prompts, constraint, steps
        self.before, self.calls = None, 0

    def first(self):
        def keep(input_ids, scores):
            self.before = scores.clone()
            return scores

        return keep

    def __call__(self, input_ids, scores):
        self.calls += 1
        start = max(map(len, self.prompts))
        for row, ids in enumerate(input_ids.tolist()):
            prompt = self.prompts[row * len(self.prompts) // len(input_ids)]
            generated = ids[start:]
            if set(generated) & set(VOCABULARY.eos) or not self.before[row].isfinite().any():
                continue
            masked = self.before[row].clone()
            if self.constraint is not None:
                state = self.constraint.start
                for token in generated:
                    state = self.constraint.advance(state, token) if state >= 0 else state
                if state < 0:
                    continue
                for token in range(WIDTH):
                    if self.constraint.advance(state, token) < 0:
                        masked[token] = -math.inf
            mass = masked.logsumexp(0)
            wanted = masked + sum(step([*prompt, *generated], WIDTH) for step in self.steps)
            wanted = wanted.log_softmax(0) + mass
            assert torch.equal(wanted == -math.inf, scores[row] == -math.inf)
            torch.testing.assert_close(scores[row], wanted, atol=1e-4, rtol=1e-5)
        return scores


def run(model, prompts, steer, constraint=None, check=True, **options):
    """Generate for left-padded prompts, checking every call; returns the ids that follow."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[10] * (longest - len(row)) + list(row) for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    processor = steer
    if not isinstance(steer, ControlProcessor):
        processor = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=steer)
    checked = Check(prompts, constraint)
    processors = [checked.first(), processor, checked] if check else [processor]
    options = {"do_sample": False, "max_new_tokens": 9, **options}
    out = model.generate(ids, attention_mask=mask, logits_processor=processors, **options)[:, longest:]
    assert checked.calls or not check
    return out


OPTIONS = [
    {},
    {"do_sample": True, "num_return_sequences": 5},
    {"num_beams": 3, "num_return_sequences": 3},
    {"num_beams": 4, "do_sample": True},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("constrained", [False, True])
def test_every_mode_against_recomputation(model, constraint, kind, options, constrained):
    torch.manual_seed(0)
    prompts = [[2, 3], [1], [4, 4, 9], [2, 3]]
    for seed in range(3):
        torch.manual_seed(seed)
        run(model, prompts, [kind(WIDTH)], constraint if constrained else None, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draft", ["same", "other", "lookup"])
@pytest.mark.parametrize("sample", [False, True])
def test_drafts(model, constraint, kind, draft, sample):
    options = {
        "same": {"assistant_model": model},
        "other": {"assistant_model": ToyLM(VOCABULARY, lambda ids: [float(-i) for i in range(12)])},
        "lookup": {"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 1},
    }[draft]
    for prompt in itertools.product((1, 2, 5), (2, 3), (5, 9)):
        torch.manual_seed(sum(prompt))
        found = run(model, [prompt], [kind(WIDTH)], constraint, do_sample=sample, **options)
        if not sample:
            assert found.tolist() == run(model, [prompt], [kind(WIDTH)], constraint).tolist()


def test_a_state_is_updated_once_a_token(model):
    steerer = Noise(WIDTH)
    out = run(model, [[2, 3], [1]], [steerer], max_new_tokens=8, min_new_tokens=8)
    assert out.shape[1] == 8
    assert steerer.updates == 7


def test_drafts_do_not_replay_from_the_start(model):
    steerer = Noise(WIDTH)
    run(model, [[2, 3]], [steerer], assistant_model=model, max_new_tokens=12, min_new_tokens=12)
    assert steerer.updates < 50


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}])
def test_reuse_and_threads(model, options):
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Noise(WIDTH)])
    wanted = {
        prompt: run(model, [prompt], [Noise(WIDTH)], **options).tolist()
        for prompt in itertools.product((1, 2, 3), (2, 3))
    }
    wrong = []

    def work():
        for prompt, ids in wanted.items():
            if run(model, [prompt], processor, check=False, **options).tolist() != ids:
                wrong.append(prompt)

    at_once(lambda _: work(), 4)
    assert not wrong
    assert not processor._generations


def test_right_padding_and_masks_in_the_middle(model):
    """Whatever the model sees, steerers see."""
    ids = torch.tensor([[2, 3, 10], [1, 10, 4]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 1]])
    seen = []

    class Look(Noise):
        def init(self, prompts):
            seen.extend(prompts.rows)
            return super().init(prompts)

    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Look(WIDTH)])
    model.generate(ids, attention_mask=mask, logits_processor=[processor], max_new_tokens=2, do_sample=False)
    assert seen == [(2, 3), (1, 4)]


def test_a_loop_of_ones_own():
    """Rows of the same prompt that change places, part, go back, and are asked about twice."""
    processor = ControlProcessor(
        None, vocabulary=VOCABULARY, steer=[Noise(WIDTH)], attention_mask=torch.tensor([[1, 1], [0, 1]])
    )
    scores = torch.zeros(4, WIDTH)
    begin = [[1, 2], [1, 2], [10, 4], [10, 4]]
    moves = [
        [[3], [4], [5], [6]],
        [[4, 1], [4, 2], [6, 1], [6, 1]],
        [[4, 1], [3, 2], [6, 1], [5, 1]],
        [[3], [3], [1], [2]],
    ]
    moves += [
        moves[-1],
        [[], [], [], []],
        [[3], [4], [0], [6]],
        [[3, 9], [3, 7], [0, 10], [6, 5]],
        [[3, 1], [3, 1], [6, 1], [6, 2]],
    ]
    processor(torch.tensor(begin), scores)
    for move in moves:
        out = processor(torch.tensor([[*a, *b] for a, b in zip(begin, move, strict=True)]), scores)
        for row, new in enumerate(move):
            if 0 not in new:
                prompt = [1, 2] if row < 2 else [4]
                wanted = noise([*prompt, *new], WIDTH).log_softmax(0) + math.log(WIDTH)
                torch.testing.assert_close(out[row], wanted, atol=1e-5, rtol=1e-5)


def test_sampling_follows_the_steered_distribution(model, constraint):
    torch.manual_seed(0)
    n = 3000
    options = {"do_sample": True, "num_return_sequences": n, "top_k": 0, "check": False}
    rows = run(model, [[2, 3]], [Noise(WIDTH)], constraint, **options)
    found = Counter(tuple(row[: row.index(0) + 1]) for row in rows.tolist())
    wanted, waiting = {}, [((), constraint.start, 1.0)]
    while waiting:
        ids, state, probability = waiting.pop()
        if ids and ids[-1] == 0:
            wanted[ids] = probability
            continue
        logs = torch.tensor(model.distribution((2, 3, *ids))).float() + noise((2, 3, *ids), WIDTH)
        after = {t: s for t in range(WIDTH) if (s := constraint.advance(state, t)) >= 0}
        mass = logs[list(after)].logsumexp(0)
        waiting += [((*ids, t), s, probability * float((logs[t] - mass).exp())) for t, s in after.items()]
    assert set(found) <= set(wanted)
    for ids, p in wanted.items():
        assert abs(found[ids] / n - p) < 4.5 * math.sqrt(p * (1 - p) / n) + 1e-9, ids


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_a_delta_of_zero_is_the_identity(constraint, dtype):
    scores = (3 * torch.randn(3, WIDTH)).to(dtype)
    ids = torch.tensor([[1], [2], [3]])
    plain = ControlProcessor(constraint)(ids, scores)
    out = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[Neutral(), Neutral()])(ids, scores)
    assert out.dtype == dtype
    torch.testing.assert_close(out, plain, atol=2e-6, rtol=2e-6)


class Fixed(Neutral):
    def __init__(self, delta):
        self.values = torch.as_tensor(delta)

    def delta(self, state, moment):
        return self.values.expand_as(moment.log_p).clone()


def test_deltas_add_up_in_any_order_and_nothing_forbidden_comes_back(constraint):
    scores, ids = torch.randn(2, WIDTH), torch.tensor([[1], [2]])
    scores[0, 2] = -math.inf
    bonus = torch.randn(WIDTH)
    bonus[3], bonus[5] = 80.0, math.inf  # c and id 5 are not allowed at the start
    minus = torch.randn(WIDTH)
    minus[8] = minus[7] = -math.inf
    first = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[Fixed(bonus), Fixed(minus)])(ids, scores)
    other = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[Fixed(minus), Fixed(bonus)])(ids, scores)
    torch.testing.assert_close(first, other)
    masked = ControlProcessor(constraint)(ids, scores)
    assert (first[masked == -math.inf] == -math.inf).all()
    assert (first[:, 8] == -math.inf).all()
    assert not first.isnan().any()
    shifted = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=[Fixed(bonus + 5.0), Fixed(minus)])(ids, scores)
    torch.testing.assert_close(first, shifted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_and_infinity_are_refused(value):
    delta = torch.zeros(WIDTH)
    delta[4] = value
    with pytest.raises(ModelError, match="delta of Fixed is NaN or \\+inf"):
        ControlProcessor(None, vocabulary=VOCABULARY, steer=[Fixed(delta)])(torch.tensor([[1]]), torch.zeros(1, WIDTH))


def test_scores_that_are_no_distribution():
    scores = torch.zeros(1, WIDTH)
    scores[0, 1] = math.nan
    with pytest.raises(ModelError, match="NaN"):
        ControlProcessor(None, vocabulary=VOCABULARY, steer=[Neutral()])(torch.tensor([[1]]), scores)


def test_a_steerer_that_forbids_everything(model, constraint):
    with pytest.raises(DeadEndError, match=r"Fixed.*forbids every allowed token"):
        run(model, [[2, 3]], [Fixed(torch.full((WIDTH,), -math.inf))], constraint, check=False)


def test_a_delta_of_another_shape():
    with pytest.raises(InputError, match=r"shape \[1, 3\]"):

        class Narrow(Neutral):
            def delta(self, state, moment):
                return torch.zeros(1, 3)

        ControlProcessor(None, vocabulary=VOCABULARY, steer=[Narrow()])(torch.tensor([[1]]), torch.zeros(1, WIDTH))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steer": [Neutral()]}, "need a tokenizer"),
        ({"steer": [Neutral], "vocabulary": VOCABULARY}, "expected steerers"),
        ({"steer": "abc", "vocabulary": VOCABULARY}, "expected steerers"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        ControlProcessor(None, **arguments)


def test_a_mask_of_another_shape():
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Neutral()], attention_mask=torch.ones(2, 1))
    with pytest.raises(InputError, match=r"attention mask has shape \[2, 1\]"):
        processor(torch.tensor([[1, 2], [1, 3]]), torch.zeros(2, WIDTH))


def ledger(model, prompt, ids):
    """The delta of a Ledger after ``ids``, from the start."""
    spent = torch.zeros(())
    for i in range(len(ids) + 1):
        delta = noise([*prompt, *ids[:i]], WIDTH) * (1 + spent)
        spent = spent + delta[3].tanh()
    return delta


@pytest.mark.parametrize("options", [*OPTIONS, {"assistant": True}])
def test_a_steerer_that_records_its_steps(model, options):
    options = dict(options)
    if options.pop("assistant", False):
        options["assistant_model"] = ToyLM(VOCABULARY, scale=1.0, pad=10)
    for prompt in ([2, 3], [1, 9]):
        torch.manual_seed(0)
        processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Ledger(WIDTH)])
        check = Check([prompt], steps=(lambda ids, width, p=prompt: ledger(model, p, ids[len(p) :]),))
        model.generate(
            torch.tensor([prompt]),
            logits_processor=[check.first(), processor, check],
            max_new_tokens=8,
            **{"do_sample": False, **options},
        )
        assert check.calls > 2


def test_a_record_cannot_begin_in_the_middle():
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Ledger(WIDTH)], prompt_length=1)
    with pytest.raises(InputError, match=r"Ledger keeps account of its steps.*begin with the prompt"):
        processor(torch.tensor([[1, 2, 3]]), torch.zeros(1, WIDTH))
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Noise(WIDTH)], prompt_length=1)
    out = processor(torch.tensor([[1, 2, 3]]), torch.zeros(1, WIDTH))
    torch.testing.assert_close(out[0].log_softmax(0), noise([1, 2, 3], WIDTH).log_softmax(0))


class Favourite(Neutral):
    """A token for each prompt."""

    def __init__(self, tokens):
        self.tokens, self.per_prompt = tokens, len(tokens)

    def init(self, prompts):
        each = len(prompts.rows) // self.per_prompt
        return (torch.tensor([token for token in self.tokens for _ in range(each)]),)

    def delta(self, state, moment):
        return torch.nn.functional.one_hot(state[0], WIDTH) * 50.0

    def update(self, state, tokens, alive):
        return state


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_return_sequences": 3}])
def test_parameters_for_each_prompt_stay_with_it(model, options):
    """Two equal prompts, whose beams must not become each other's parents."""
    out = run(model, [[2, 3], [2, 3]], [Favourite([4, 7])], check=False, max_new_tokens=4, **options)
    assert (out[0] == 4).all()
    assert (out[len(out) // 2] == 7).all()
    # no row mixes the two: each token that is not the favourite costs 50 nats
    assert (out[: len(out) // 2] == 4).sum(1).tolist() == [4, 3, 3][: len(out) // 2]
    assert (out[len(out) // 2 :] == 7).sum(1).tolist() == [4, 3, 3][: len(out) // 2]
    with pytest.raises(InputError, match="2 prompts, and there are 3 rows"):
        run(model, [[1]] * 3, [Favourite([4, 7])], check=False)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"assistant": True}])
@pytest.mark.parametrize("texts", [None, TEXTS])
def test_the_trace(model, options, texts):
    options = dict(options)
    if options.pop("assistant", False):
        options["assistant_model"] = model
    constraint = None if texts is None else Enumerated(VOCABULARY, texts)
    steer = [Noise(WIDTH), Neutral(), Noise(WIDTH, 0.5)]
    arguments = {"vocabulary": VOCABULARY, "max_new_tokens": 9, "steer": steer, **options}
    result = generate(model, ToyTokenizer(VOCABULARY, pad=10), "ab", constraint, **arguments)
    prompt = ToyTokenizer(VOCABULARY)("ab")["input_ids"]
    state = None if constraint is None else constraint.start
    for i, step in enumerate(result.trace.steps):
        ids = [*prompt, *result.token_ids[:i]]
        logs = torch.tensor(model.distribution(tuple(ids))).double()
        if constraint is not None:
            logs[[constraint.advance(state, t) < 0 for t in range(WIDTH)]] = -math.inf
            state = constraint.advance(state, result.token_ids[i])
        p = logs.log_softmax(0)
        for found, scale in zip(step.divergences, (1.5, 0.0, 0.5), strict=True):
            q = (p + noise(ids, WIDTH, scale)).log_softmax(0)
            kept = p != -math.inf
            wanted = (q.exp() * (q - p))[kept].sum()
            assert found == pytest.approx(float(wanted), abs=1e-4)
    assert result.trace.steering_seconds > 0


def test_generate_with_padding_is_one_prompt_at_a_time(model):
    def ask(prompts):
        arguments = {"vocabulary": VOCABULARY, "max_new_tokens": 9, "steer": [Noise(WIDTH)]}
        return generate(model, ToyTokenizer(VOCABULARY, pad=10), prompts, **arguments)

    prompts = ["a", "abc b", "ca c"]
    assert [one.token_ids for one in ask(prompts)] == [ask(one).token_ids for one in prompts]
