"""fast_forward: what is appended is certain, spelled as the tokenizer does, and the rest is what the model says."""

import json
import random
from types import MappingProxyType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LogitsProcessor, StoppingCriteria

from ctrlgen.constraint import DEAD
from ctrlgen.constraints.choice import Choice
from ctrlgen.constraints.free import EOS, Free
from ctrlgen.constraints.json_schema import JsonSchema
from ctrlgen.errors import DeadEndError, InputError
from ctrlgen.flows.fast_forward_tokens import Forcing
from ctrlgen.flows.generate import generate, generate_stream
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary
from tests.neutral import Neutral
from tests.steering.models import tiny

VOCABULARY = toy_vocabulary()
TEXTS = ("abcab c", "abcabbb", "abcabé", "abc")
LIMIT = Enumerated(VOCABULARY, TEXTS)
words = st.lists(st.text("abc é", max_size=9), min_size=1, max_size=4, unique=True)


class Placed(ToyLM):
    """Says that it takes positions, and so may be padded between tokens; checks them."""

    passes = 0

    def forward(self, input_ids, position_ids=None, attention_mask=None, cache=None, **more):
        self.passes += 1
        shown = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        wanted = (shown.cumsum(1) - 1).clamp(min=0)[:, -input_ids.shape[1] :]
        assert position_ids is None or attention_mask is None or torch.equal(position_ids, wanted)
        return super().forward(input_ids, attention_mask=attention_mask, cache=cache, **more)


def ask(prompts="ab", constraint=LIMIT, model=None, **options):
    options = {"max_new_tokens": 14, "vocabulary": VOCABULARY, "fast_forward": True, **options}
    return generate(model or Placed(VOCABULARY), ToyTokenizer(VOCABULARY), prompts, constraint, **options)


def allowed(constraint, state):
    bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")
    return np.flatnonzero(bits).tolist()


def spellings(vocabulary, text):
    """Every sequence of tokens that spells a text."""
    if not text:
        return [()]
    return [
        (token, *rest)
        for token, piece in enumerate(vocabulary.tokens)
        if piece and text.startswith(piece)
        for rest in spellings(vocabulary, text[len(piece) :])
    ]


def certain(constraint, state, known):
    """By enumeration of all texts: the longest beginning of all that may follow, and whether nothing else can."""
    rests = [text[len(known) :] for text in constraint.texts if text.startswith(known)]
    shortest = min(rests, key=len)
    n = next((i for i in range(len(shortest)) if len({rest[i] for rest in rests}) > 1), len(shortest))
    return shortest[:n], rests == [shortest]


def by_hand(constraint, known, most, tokenizer):
    """The forced tokens after the bytes ``known``, from all texts and all spellings."""
    ids, vocabulary = [], constraint.vocabulary
    state = constraint.start
    for token in vocabulary.encode_greedy(known):
        state = constraint.advance(state, token)
    while len(ids) < most:
        row = allowed(constraint, state)
        if len(row) == 1:
            ids.append(row[0])
            state = constraint.advance(state, row[0])
            if row[0] in vocabulary.eos:
                break
            known += vocabulary.tokens[row[0]]
            continue
        text, _ = certain(constraint, state, known)
        while True:  # whole characters
            try:
                text.decode()
                break
            except UnicodeDecodeError:
                text = text[:-1]
        whole, added = text, 0
        for token in tokenizer(text.decode())["input_ids"]:
            beyond = [vocabulary.tokens[t] or b"" for t in allowed(constraint, state)]
            if any(not whole[added:].startswith(piece) or not piece for piece in beyond):
                break
            ids.append(token)
            added += len(vocabulary.tokens[token])
            state = constraint.advance(state, token)
        known += whole[:added]
        if not added or added < len(certain(constraint, state, known[: len(known) - added])[0]):
            break
    return ids[:most]


@settings(max_examples=150, deadline=None)
@given(words, st.integers(0, 5), st.integers(1, 9))
def test_forced_tokens_are_those_of_the_enumeration(texts, length, most):
    limit = Enumerated(VOCABULARY, texts)
    known = texts[0].encode()[:length]
    try:
        known.decode()
    except UnicodeDecodeError:
        return
    state = limit.start
    for token in VOCABULARY.encode_greedy(known):
        state = limit.advance(state, token)
    before = VOCABULARY.encode_greedy(known)
    found = Forcing(VOCABULARY, Alone(VOCABULARY)).tokens(limit, state, before, most)
    assert list(found.ids) == by_hand(limit, known, most, Alone(VOCABULARY))
    for token, after in zip(found.ids, found.states, strict=True):
        state = limit.advance(state, token)
        assert state == after != DEAD


class Alone(ToyTokenizer):
    """Letters in tokens of their own, so that what stands before does not matter."""

    def __call__(self, text, *, add_special_tokens=True):
        by_text = {piece: token for token, piece in enumerate(self.vocabulary.tokens) if piece}
        return {"input_ids": [by_text[letter.encode()] for letter in text]}


@settings(max_examples=80, deadline=None)
@given(words, st.booleans(), st.integers(0, 3))
def test_verify_is_the_slow_path_token_by_token(texts, sample, seed):
    limit = Enumerated(VOCABULARY, texts)
    options = {"seed": seed} | ({"temperature": 1.5} if sample else {})
    prompts = ["ab", "c abc", "é"]
    fast = ask(prompts, limit, fast_forward="verify", **options)
    assert all(one.finished and one.text in texts for one in fast)
    if not sample:
        slow = ask(prompts, limit, fast_forward=False)
        assert [one.token_ids for one in fast] == [one.token_ids for one in slow]
        for a, b in zip(fast, slow, strict=True):
            assert np.allclose([s.log_mass for s in a.trace.steps], [s.log_mass for s in b.trace.steps], atol=1e-5)


@settings(max_examples=80, deadline=None)
@given(words, st.booleans())
def test_a_batch_is_its_rows_one_by_one(texts, together):
    limit = Enumerated(VOCABULARY, texts)
    prompts, model = ["ab", "c abc", "é", "abcabcabc"], Placed if together else ToyLM
    batch = ask(prompts, limit, model=model(VOCABULARY))
    alone = [ask(one, limit) for one in prompts]
    assert [one.token_ids for one in batch] == [one.token_ids for one in alone]
    assert [one.trace.forced for one in batch] == [one.trace.forced for one in alone]
    assert all(one.finished and one.text in texts for one in batch)


@settings(max_examples=60, deadline=None)
@given(words)
def test_between_forced_tokens_the_model_chooses(texts):
    """A loop by hand: forced tokens, else the likeliest allowed one after all ids so far."""
    limit, model = Enumerated(VOCABULARY, texts), Placed(VOCABULARY)
    ids, state = VOCABULARY.encode_greedy(b"c abc"), limit.start
    forcing, made = Forcing(VOCABULARY, ToyTokenizer(VOCABULARY)), []
    while not made or made[-1] != 0:
        found = forcing.tokens(limit, state, [*ids, *made], 14 - len(made))
        next_ones = list(found.ids)
        if not next_ones:
            logits = model.distribution((*ids, *made))
            next_ones = [max(allowed(limit, state), key=lambda t: logits[t])]
        for token in next_ones:
            made.append(token)
            state = limit.advance(state, token)
    assert list(ask("c abc", limit).token_ids) == made


def test_one_text_needs_no_model_at_all():
    model = Placed(VOCABULARY)
    result = ask("ab", Enumerated(VOCABULARY, ["abcab"]), model=model)
    assert (result.text, result.trace.passes, model.passes) == ("abcab", 0, 0)
    assert result.trace.forced == len(result.token_ids)
    assert all(step.log_mass is None for step in result.trace.steps)


def test_what_might_be_one_token_is_left_to_the_model():
    """'ab' is certain, but 'abc' is a token: the model must be able to choose it."""
    limit = Enumerated(VOCABULARY, ["abc", "ab "])
    assert Forcing(VOCABULARY, ToyTokenizer(VOCABULARY)).tokens(limit, limit.start, (), 9).ids == ()
    found = Forcing(VOCABULARY, ToyTokenizer(VOCABULARY)).tokens(Enumerated(VOCABULARY, ["cc", "ccab"]), 1, (), 9)
    assert found.ids == (3, 3)


class OfTokens:
    """The ids 4 (ab) or 1, 2 (a, b) and a number: not a constraint about bytes."""

    start = 0
    vocabulary = VOCABULARY
    moves = MappingProxyType({(0, 4): 1, (0, 1): 2, (2, 2): 3, (1, 3): 4, (3, 7): 4, (4, 0): 4})

    def advance(self, state, token):
        return self.moves.get((state, token), DEAD)

    def mask(self, state):
        row = np.zeros(1, np.uint32)
        for at, token in self.moves:
            row[0] |= np.uint32(at == state) << np.uint32(token)
        return row

    def accepts(self, state):
        return state == 4

    def distance(self, state):
        return 5


def test_items_of_tokens_are_not_taken_for_texts():
    forcing = Forcing(VOCABULARY, ToyTokenizer(VOCABULARY))
    assert forcing.tokens(OfTokens(), 0, (), 9).ids == ()
    assert forcing.tokens(OfTokens(), 2, (), 9).ids == (2, 7, 0)
    assert ask("c", OfTokens()).token_ids in [(4, 3, 0), (1, 2, 7, 0)]


class Halved(LogitsProcessor):
    """A processor that looks at the ids."""

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        for row, ids in enumerate(input_ids.tolist()):
            scores[row, list(set(ids))] -= 3.0
        return scores


def test_processors_see_each_row_as_it_is():
    prompts, options = ["ab", "c abc", "é"], {"logits_processor": [Halved()], "repetition_penalty": 1.3}
    fast = ask(prompts, fast_forward="verify", **options)
    slow = ask(prompts, fast_forward=False, **options)
    assert [one.token_ids for one in fast] == [one.token_ids for one in slow]


class After(StoppingCriteria):
    def __call__(self, input_ids, scores, **more):
        return torch.tensor([bool(row[-1] == 7) for row in input_ids])


def test_stopping_criteria_are_asked_about_every_token():
    result = ask("ab", Enumerated(VOCABULARY, ["bb cbb"]), stopping_criteria=[After()])
    assert (result.text, result.finished) == ("bb ", False)


def test_it_stops_at_the_budget():
    limit = Enumerated(VOCABULARY, ["b", "bbbbbbbbb"])
    for most in range(2, 12):
        result = ask("ab", limit, max_new_tokens=most)
        assert len(result.token_ids) <= most


@pytest.mark.parametrize("options", [{"use_cache": False}, {"temperature": 1.2, "seed": 3}, {"trace": False}])
@pytest.mark.parametrize("mode", [True, "verify"])
def test_options(options, mode):
    prompts = ["ab", "c abc", "é"]
    results = ask(prompts, fast_forward=mode, **options)
    assert all(one.text in TEXTS and one.finished for one in results)
    if "seed" not in options:
        assert [one.token_ids for one in results] == [one.token_ids for one in ask(prompts, fast_forward=mode)]


def test_several_sequences_and_rows_without_a_constraint():
    results = ask(["ab", "c"], [LIMIT, None], num_return_sequences=3, do_sample=True, seed=0)
    for one in (results[0], *results[0].alternatives):
        assert one.text in TEXTS
    assert len(results[1].alternatives) == 2
    free = ask(["ab", "c"], [LIMIT, None])[1]
    assert free.token_ids == ask("c", None).token_ids
    assert all(step.log_mass is None for step in free.trace.steps)


def test_streams():
    pieces = list(generate_stream(Placed(VOCABULARY), ToyTokenizer(VOCABULARY), "ab", LIMIT, max_new_tokens=14,
                                  vocabulary=VOCABULARY, fast_forward=True))  # fmt: skip
    assert "".join(pieces) == ask().text


def test_dead_ends_are_said():
    class Never(LogitsProcessor):
        def __call__(self, input_ids, scores):
            return torch.full_like(scores, -torch.inf)

    with pytest.raises(DeadEndError):
        ask(logits_processor=[Never()])


@pytest.mark.parametrize(
    "options", [{"num_beams": 2}, {"fast_forward": "yes"}, {"prompt_lookup_num_tokens": 2}, {"steer": [Neutral()]}]
)
def test_refuses(options):
    with pytest.raises(InputError, match="fast_forward"):
        ask(**options)


LONG = {
    "type": "object",
    "properties": {
        "customer_identification_number": {"type": "integer", "minimum": 0, "maximum": 999},
        "is_returning_customer_account": {"type": "boolean"},
        "preferred_delivery_time_window": {"enum": ["morning", "afternoon", "evening"]},
    },
    "required": ["customer_identification_number", "is_returning_customer_account", "preferred_delivery_time_window"],
    "additionalProperties": False,
}


@pytest.mark.model
def test_with_the_real_model(smollm2):
    prompts = ["Order of customer 17, in the evening, new here.", "An order."]
    options = {"max_new_tokens": 90, "chat": True}
    slow = generate(*smollm2, prompts, JsonSchema(LONG), **options)
    fast = generate(*smollm2, prompts, JsonSchema(LONG), fast_forward=True, **options)
    verified = generate(*smollm2, prompts, JsonSchema(LONG), fast_forward="verify", **options)
    assert [one.token_ids for one in verified] == [one.token_ids for one in slow]
    assert all(one.finished for one in fast)
    assert all(1.5 * one.trace.passes <= len(other.token_ids) for one, other in zip(fast, slow, strict=True))
    # all that the model is asked for here it spells as the tokenizer does
    assert list(fast[0].token_ids[:-1]) == smollm2.tokenizer(fast[0].text)["input_ids"]


NAMES = ("order", "orderId", "orderName", "customer_identification_number", "Straße", "größe", "名前", "名称", "user")
NAMES += (
    "userId",
    "user_name",
    "x",
    "y",
    "price",
    "priceTotal",
    "naïve",
    "é",
    "ée",
    "emoji😀",
    "emoji😁",
    "a_b",
    "a_bc",
)


def invented(rng):
    """A schema of names that begin alike, and a document of it."""
    names, schema, document = rng.sample(NAMES, rng.randint(1, 5)), {}, {}
    for name in names:
        one, several = rng.choice(NAMES), rng.sample(NAMES, 3)
        schema[name], document[name] = rng.choice(
            [
                ({"type": "integer", "minimum": 0, "maximum": 999}, rng.randint(0, 999)),
                ({"type": "boolean"}, True),
                ({"enum": several}, several[0]),
                ({"const": f"{one} {several[0]}"}, f"{one} {several[0]}"),
                ({"type": "string", "maxLength": 40}, one),
                ({"type": "array", "items": {"enum": several}, "minItems": 1, "maxItems": 2}, several[:2]),
            ]
        )
    needed = rng.sample(names, rng.randint(0, len(names)))
    more = {"type": "object", "required": needed, "additionalProperties": False}
    kept = {name: value for name, value in document.items() if name in needed or rng.random() < 0.5}
    separators = rng.choice([(",", ":"), (", ", ": ")])
    return {"properties": schema, **more}, json.dumps(kept, ensure_ascii=False, separators=separators)


@pytest.mark.model
@pytest.mark.parametrize("name", ["qwen3", "gemma3", "gpt4o"])
def test_a_model_that_spells_as_the_tokenizer_does_gets_the_same_tokens(tokenizer_folder, name):
    """Whatever text it has in mind: what is forced is what that text's spelling has there."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder(name))
    vocabulary, rng, spared = Vocabulary.from_tokenizer(tokenizer), random.Random(1), 0
    for _ in range(40):
        schema, text = invented(rng)
        limit, forcing = JsonSchema(schema).compile(vocabulary), Forcing(vocabulary, tokenizer)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        state, place = limit.start, 0
        while place < len(ids):
            forced = [
                token
                for token in forcing.tokens(limit, state, ids[:place], 99).ids
                if token not in limit.vocabulary.eos
            ]
            assert forced == ids[place : place + len(forced)], text
            spared += len(forced)
            for token in ids[place : place + len(forced) + 1]:
                state = limit.advance(state, token)
                assert state != DEAD
            place += len(forced) + 1
    assert spared > 100


@settings(max_examples=25, deadline=None)
@given(words, st.sampled_from([True, "verify"]))
def test_every_budget_that_suffices_is_kept(texts, mode):
    limit = Enumerated(VOCABULARY, texts)
    for budget in range(limit.distance(limit.start), 14):
        result = ask("ab", limit, fast_forward=mode, max_new_tokens=budget)
        assert result.finished and result.text in texts
        if mode == "verify":
            assert result.token_ids == ask("ab", limit, fast_forward=False, max_new_tokens=budget).token_ids


@settings(max_examples=12, deadline=None)
@given(words)
def test_free_text_and_phases(texts):
    limit = (Free(until="c ", keep=5) >> Choice([*texts, "aaaab"])).compile(VOCABULARY)
    for budget in range(limit.distance(limit.start), 24, 3):
        options = {"constraint": limit, "max_new_tokens": budget}
        assert ask(fast_forward="verify", **options).token_ids == ask(fast_forward=False, **options).token_ids
        assert ask(**options).finished


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral"])
def test_models_of_transformers(kind):
    """Sliding windows too, where rows cannot be padded in between."""
    prompts, limit = ["ab", "c abc", "é", "abcabcabc"], Enumerated(VOCABULARY, ["abcabbb c", "abcabé", "bcc"])
    for seed in range(3):
        model = tiny(kind, seed)
        slow = ask(prompts, limit, model, fast_forward=False)
        assert [o.token_ids for o in ask(prompts, limit, model, fast_forward="verify")] == [o.token_ids for o in slow]
        fast = ask(prompts, limit, model)
        assert all(one.finished for one in fast)
        assert [o.token_ids for o in ask(prompts, limit, model, use_cache=False)] == [o.token_ids for o in fast]


def test_models_with_a_state_are_refused():
    with pytest.raises(InputError, match="recurrent"):
        ask("ab", LIMIT, tiny("mamba"))


def test_where_the_model_would_end_is_refused():
    with pytest.raises(InputError, match="EOS"):
        ask("ab", Free(until=EOS) >> Choice(["abc"]))
