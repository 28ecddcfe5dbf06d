"""A second model with its own cache, in every mode of ``model.generate``, against reading every row anew."""

import functools
import itertools

import pytest
import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.protocol import Prompts
from ctrlgen.steering.source import Source
from ctrlgen.steering.sourced import Sourced
from ctrlgen.testing import Enumerated, ToyLM, toy_vocabulary
from tests.threads import at_once

from .models import logits_after, tiny
from .test_following import Check, run

VOCABULARY = toy_vocabulary()
SOFT = torch.randn(3, 16, generator=torch.Generator().manual_seed(5))


class Weighted(Sourced):
    """log p of each source, weighted: what most methods are made of."""

    def __init__(self, *sources, weights=None):
        super().__init__(*sources)
        self.weights = weights or [0.7 - i for i in range(len(sources))]

    def delta(self, state, moment):
        zero = moment.log_p == -torch.inf
        parts = self.log_ps(state, moment.log_p)
        return sum(w * one.masked_fill(zero, 0.0) for w, one in zip(self.weights, parts, strict=True))


KINDS = {
    "same ids": {},
    "another prompt": {"prompt": [5, 6, 1]},
    "last id": {"prompt": lambda prompt: prompt[-1:]},
    "a prefix": {"prompt": lambda prompt: (7, 7, *prompt)},
    "soft prompt": {"soft_prompt": SOFT},
    "soft prompt alone": {"soft_prompt": SOFT, "prompt": []},
    "without cache": {"use_cache": False},
    "soft without cache": {"use_cache": False, "soft_prompt": SOFT},
}
PROMPTS = [[2, 3], [1], [4, 4, 9], [2, 3], [8, 1, 1, 5, 6]]


def anew(model, kind, weight=0.7):
    """The step function of Check: log p of the whole row, read at once."""
    options = KINDS[kind]

    def step(ids, width, *, prompt_length):
        prompt, generated = ids[:prompt_length], ids[prompt_length:]
        given = options.get("prompt")
        prompt = list(given(tuple(prompt)) if callable(given) else prompt if given is None else given)
        return weight * logits_after(model, [*prompt, *generated], options.get("soft_prompt")).log_softmax(0)

    return step


class CheckSource(Check):
    """Tells the step functions where the prompt of the row ends."""

    def __call__(self, input_ids, scores):
        owners = [self.prompts[i * len(self.prompts) // len(input_ids)] for i in range(len(input_ids))]
        for prompt in {tuple(one) for one in self.prompts}:
            own, size = [i for i, owner in enumerate(owners) if tuple(owner) == prompt], len(prompt)
            steps = tuple(functools.partial(step, prompt_length=size) for step in self.steps)
            part = Check([list(prompt)], self.constraint, steps)
            part.before = self.before[own]
            part(input_ids[own][:, max(map(len, self.prompts)) - size :], scores[own])
        self.calls += 1
        return scores


def generate_checked(base, prompts, processor, steps, constraint=None, **options):
    longest = max(map(len, prompts))
    ids = torch.tensor([[10] * (longest - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in prompts])
    check = CheckSource(prompts, constraint, steps)
    base.generate(
        ids,
        attention_mask=mask,
        logits_processor=[check.first(), processor, check],
        **{"do_sample": False, "max_new_tokens": 6, **options},
    )
    assert check.calls > 1


OPTIONS = {
    "greedy": {},
    "samples": {"do_sample": True, "num_return_sequences": 3},
    "beams": {"num_beams": 3, "num_return_sequences": 3},
    "sampled beams": {"num_beams": 3, "do_sample": True},
}


MATRIX = [(family, kind) for kind in KINDS for family in ("gpt2", "llama")] + [("mistral", "same ids")]


@pytest.mark.parametrize(("family", "kind"), MATRIX)
@pytest.mark.parametrize("mode", OPTIONS)
def test_cached_is_uncached(family, kind, mode):
    """Left padding, beams, n samples, and the same object three times over."""
    model, base = tiny(family), ToyLM(VOCABULARY, pad=10)
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Weighted(Source(model, **KINDS[kind]))])
    for prompts in (PROMPTS[:3], PROMPTS[3:]):
        torch.manual_seed(0)
        generate_checked(base, prompts, processor, (anew(model, kind),), **OPTIONS[mode])


@pytest.mark.parametrize(("family", "kind"), MATRIX)
def test_drafts_that_are_taken_back(family, kind):
    model, base = tiny(family), ToyLM(VOCABULARY, pad=10)
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Weighted(Source(model, **KINDS[kind]))])
    for prompt, sample in itertools.product(([2, 3], [9, 1, 1]), (False, True)):
        torch.manual_seed(1)
        options = {"assistant_model": base if sample else ToyLM(VOCABULARY, scale=0.5, pad=10), "do_sample": sample}
        generate_checked(base, [prompt], processor, (anew(model, kind),), **options)


def test_two_sources_under_a_constraint():
    base = ToyLM(VOCABULARY, pad=10)
    models = tiny("gpt2"), tiny("llama", 1)
    steer = [Weighted(*(Source(model) for model in models))]
    constraint = Enumerated(VOCABULARY, ("abc", "abcab c", "é", "a c", "bb"))
    processor = ControlProcessor(constraint, vocabulary=VOCABULARY, steer=steer)
    steps = (anew(models[0], "same ids"), anew(models[1], "same ids", -0.3))
    # over allowed tokens a log-probability differs from that over all by the same number, which cancels
    generate_checked(base, PROMPTS, processor, steps, constraint, num_beams=3)


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_prompt_for_each(family):
    model, base = tiny(family), ToyLM(VOCABULARY, pad=10)
    given = [[1, 2], [3], [4, 5, 6, 7]]
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Weighted(Source(model, prompt=given))])
    prompts = [[2], [3], [2]]

    def step(ids, width, *, prompt_length):
        raise AssertionError

    for options in OPTIONS.values():
        seen = []

        def check(input_ids, scores, seen=seen):
            for row, ids in enumerate(input_ids.tolist()):
                if 0 not in ids[1:]:
                    after = logits_after(model, [*given[row * 3 // len(input_ids)], *ids[1:]]).log_softmax(0)
                    base_p = torch.tensor(base.distribution(tuple(ids))).float().log_softmax(0)
                    wanted = (base_p + 0.7 * after).log_softmax(0)
                    torch.testing.assert_close(scores[row].log_softmax(0), wanted, atol=1e-4, rtol=1e-4)
                    seen.append(row)
            return scores

        base.generate(
            torch.tensor(prompts),
            attention_mask=torch.ones(3, 1, dtype=torch.long),
            logits_processor=[processor, check],
            **{"do_sample": False, "max_new_tokens": 6, **options},
        )
        assert len(seen) > 6
    with pytest.raises(InputError, match="3 prompts, and there are 2 rows"):
        run(base, [[1], [2]], processor, check=False)


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral"])
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("implementation", ["sdpa", "eager", "other"])
def test_candidates_beside_one_another(family, cached, implementation):
    """k next ids in one pass, from rows of unequal lengths of which one is over, and the state left as it was."""
    model = tiny(family, attn_implementation=None if implementation == "other" else implementation)
    source = Source(model, use_cache=cached)
    state = source.init(Prompts(tuple(map(tuple, PROMPTS)), torch.device("cpu")))
    rows = [list(row) for row in PROMPTS]
    alive = torch.tensor([True, True, False, True, True])
    for tokens in ([1, 2, 3, 4, 5], [5, 5, 0, 5, 5]):
        state = source.update(state, torch.tensor(tokens), alive)
        for row, token, going in zip(rows, tokens, alive.tolist(), strict=True):
            row += [token] * going
    if implementation == "other":
        source._takes_any_mask = False
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 0], [3, 3, 1]])
    kept = [one.clone() for one in (*state[:3], *state[3])]
    found = source.candidates(state, tokens)
    assert found.shape == (5, 3, 12)
    for i, j in itertools.product((0, 1, 3, 4), range(3)):
        wanted = logits_after(model, [*rows[i], int(tokens[i, j])])
        torch.testing.assert_close(found[i, j], wanted, atol=1e-4, rtol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(kept, (*state[:3], *state[3]), strict=True))


def test_a_model_without_keys_and_values_reads_anew():
    model = tiny("mamba")
    source = Source(model)
    state = source.init(Prompts(((1, 2), (3, 4)), torch.device("cpu")))
    assert state.keys_values == ()
    state = source.update(state, torch.tensor([5, 6]), torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(state.output[1], logits_after(model, [3, 4, 6]), atol=1e-4, rtol=1e-4)


def test_equal_prompts_are_read_once():
    model = tiny("llama")
    sizes = []
    hook = model.register_forward_hook(
        lambda module, arguments, keywords, output: sizes.append(tuple(keywords["input_ids"].shape)), with_kwargs=True
    )
    base = ToyLM(VOCABULARY, pad=10)
    run(base, [[1, 2], [3, 4]], [Weighted(Source(model))], num_beams=4, check=False, max_new_tokens=4)
    hook.remove()
    assert sizes[0] == (2, 2)
    assert set(sizes[1:]) == {(8, 1)}


def test_threads_share_a_source():
    model, base = tiny("llama"), ToyLM(VOCABULARY, pad=10)
    processor = ControlProcessor(None, vocabulary=VOCABULARY, steer=[Weighted(Source(model))])
    wanted = {
        n: run(base, [[n, 1], [2]], [Weighted(Source(model))], check=False, num_beams=1 + n % 2).tolist()
        for n in range(1, 7)
    }
    wrong = []

    def work():
        for n, ids in wanted.items():
            if run(base, [[n, 1], [2]], processor, check=False, num_beams=1 + n % 2).tolist() != ids:
                wrong.append(n)

    at_once(lambda _: work(), 4)
    assert not wrong


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Source(tiny("llama"), soft_prompt=torch.zeros(2, 3)), r"shape \[2, 3\]; expected \[n, 16\]"),
        (lambda: Source(tiny("llama"), prompt="ab"), "needs a tokenizer"),
        (lambda: Source(tiny("llama"), prompt=[1, "a"]), "expected a text, ids"),
        (lambda: Source(tiny("llama"), prompt=1.5), "expected a text, ids"),
        (
            lambda: Sourced(Source(tiny("llama"), prompt=[[1]]), Source(tiny("llama"), prompt=[[1], [2]])),
            r"\[1, 2\] prompts",
        ),
    ],
)
def test_what_is_refused_at_once(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_what_is_refused_at_the_first_token():
    base = ToyLM(VOCABULARY, pad=10)

    def ask(source, prompts=((1, 2),), **options):
        run(base, list(map(list, prompts)), [Weighted(source)], check=False, **options)

    with pytest.raises(InputError, match="empty prompt"):
        ask(Source(tiny("llama"), prompt=lambda prompt: ()))
    with pytest.raises(InputError, match=r"has 13 ids, the logits 12"):
        ask(Source(tiny("llama", vocab_size=13)))
    with pytest.raises(InputError, match=r"has 70 ids, and the second model was made for 64"):
        ask(Source(tiny("gpt2")), [[1] * 70])
    with pytest.raises(InputError, match="has 65 ids"):
        ask(Source(tiny("gpt2")), [[1] * 60], max_new_tokens=10, min_new_tokens=10)
    other = toy_vocabulary([*VOCABULARY.tokens[:5], b"zz", *VOCABULARY.tokens[6:]])
    with pytest.raises(InputError, match="another tokenizer: id 5 differs"):
        ask(Source(tiny("llama"), other))
    broken = tiny("llama")
    broken.lm_head.weight.data[3] = torch.nan
    with pytest.raises(ModelError, match="NaN"):
        ask(Source(broken))


@pytest.mark.parametrize("width", [9, 12, 16])
def test_ids_that_are_only_padding(width):
    """With its vocabulary given, a model may have more or fewer rows than the first one."""
    model = tiny("llama", vocab_size=width)
    processor = ControlProcessor(
        None, vocabulary=VOCABULARY, steer=[Weighted(Source(model, VOCABULARY), weights=[1.0])]
    )
    out = processor(torch.tensor([[1, 2]]), torch.zeros(1, 12))
    wanted = logits_after(model, [1, 2])[:12].log_softmax(0)
    torch.testing.assert_close(out[0, : len(wanted)].log_softmax(0), wanted, atol=1e-4, rtol=1e-4)
    assert (out[0, len(wanted) :] == -torch.inf).all()
