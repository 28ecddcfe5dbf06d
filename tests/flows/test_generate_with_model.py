"""The default model in every mode of generation; what is allowed is enumerated by a table over its real vocabulary."""

import re

import numpy as np
import pytest
import torch

from ctrlgen.constraint import DEAD
from ctrlgen.flows.generate import generate, generate_stream
from ctrlgen.processor import ControlProcessor
from ctrlgen.vocabulary import Vocabulary
from tests.threads import at_once

pytestmark = pytest.mark.model

COLOURS = ("red", "dark green", "sky blue", "été", "東京")
ASK = "Name a colour, nothing else: "


class Texts:
    """One of a few texts, over a real vocabulary: Enumerated with the tokens looked up by their bytes."""

    def __init__(self, vocabulary, texts):
        self.vocabulary = vocabulary
        self.texts = [text.encode() for text in texts]
        pieces = {text[a:b] for text in self.texts for a in range(len(text)) for b in range(a + 1, len(text) + 1)}
        self.ids = {}
        for token, piece in enumerate(vocabulary.tokens):
            if piece in pieces:
                self.ids.setdefault(piece, []).append(token)
        self.known, self.rows, self.after = [None, b""], {}, {}
        self.start = 1

    def _next(self, state):
        """{token: text after it}; every single byte is a token, so nothing is a dead end."""
        if state in self.after:
            return self.after[state]
        text = self.known[state]
        after = dict.fromkeys(self.vocabulary.eos) if self.accepts(state) else {}
        for whole in self.texts if text is not None else ():
            if whole.startswith(text):
                for end in range(len(text) + 1, len(whole) + 1):
                    after.update(dict.fromkeys(self.ids.get(whole[len(text) : end], ()), whole[:end]))
        self.after[state] = after
        return after

    def advance(self, state, token):
        after = self._next(state)
        if token not in after:
            return DEAD
        if after[token] not in self.known:
            self.known.append(after[token])
        return self.known.index(after[token])

    def mask(self, state):
        if state not in self.rows:
            row = np.zeros(self.vocabulary.words, np.uint32)
            for token in self._next(state):
                row[token // 32] |= np.uint32(1 << token % 32)
            row.flags.writeable = False
            self.rows[state] = row
        return self.rows[state]

    def accepts(self, state):
        return state == 0 or self.known[state] in self.texts

    def distance(self, state):
        text = self.known[state]
        return 1 if text is None else 1 + min(len(w) - len(text) for w in self.texts if w.startswith(text))


class OneOf:
    """A specification that compiles to Texts."""

    def __init__(self, *texts):
        self.texts = texts

    def compile(self, vocabulary):
        return Texts(vocabulary, self.texts)

    def parse(self, text):
        return self.texts.index(text)


@pytest.fixture
def ask(smollm2):
    def call(prompts=ASK, constraint=None, **options):
        return generate(smollm2.model, smollm2.tokenizer, prompts, constraint, **{"max_new_tokens": 16, **options})

    return call


def test_greedy_and_the_reading_of_it(ask):
    result = ask(ASK, OneOf(*COLOURS))
    assert result.text in COLOURS
    assert COLOURS[result.value] == result.text
    assert result.finished
    assert len(result.trace.steps) == len(result.token_ids)
    assert result.trace.log_mass < 0


def test_sampling_far_from_what_the_model_would_say(ask):
    results = ask([ASK, "東京 is", "x"], OneOf(*COLOURS), temperature=1.5, top_k=0, num_return_sequences=3, seed=1)
    found = [one for result in results for one in (result, *result.alternatives)]
    assert len(found) == 9
    assert {one.text for one in found} <= set(COLOURS)
    assert len({one.text for one in found}) > 1


def test_four_beams_for_eight_prompts(ask):
    prompts = [f"{ASK}{'or ' * (i % 3)}" for i in range(8)]
    results = ask(prompts, [OneOf(*COLOURS[i % 4 : i % 4 + 2]) for i in range(8)], num_beams=4)
    for i, result in enumerate(results):
        assert result.text in COLOURS[i % 4 : i % 4 + 2]


@pytest.mark.parametrize("options", [{}, {"temperature": 1.5, "top_k": 0, "seed": 0}])
def test_assisted_generation(ask, smollm2, options):
    spec = OneOf("the sky, and the sea", "something else entirely")
    result = ask(ASK, spec, assistant_model=smollm2.model, **options)
    assert result.text in spec.texts
    if not options:
        assert result.token_ids == ask(ASK, spec).token_ids


def test_the_same_processor_twice_and_in_threads(smollm2):
    vocabulary = Vocabulary.from_tokenizer(smollm2.tokenizer, model=smollm2.model)
    processor = ControlProcessor(OneOf(*COLOURS), vocabulary=vocabulary)
    inputs = smollm2.tokenizer(ASK, return_tensors="pt")
    found = []

    def work():
        out = smollm2.model.generate(**inputs, logits_processor=[processor], do_sample=False, max_new_tokens=12)
        found.append(out[0, inputs["input_ids"].shape[1] :].tolist())

    work()
    work()
    at_once(lambda _: work(), 3)
    assert len(found) == 5
    assert all(ids == found[0] for ids in found)
    assert vocabulary.decode(found[0]).decode() in COLOURS


@pytest.mark.parametrize("options", [{}, {"do_sample": True, "top_k": 20}, {"num_beams": 3}])
def test_without_a_constraint_nothing_changes(ask, smollm2, options):
    prompts = [ASK, "Once upon a time there was"]
    model, tokenizer = smollm2
    ids = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    longest = max(map(len, ids))
    padded = torch.tensor([[tokenizer.pad_token_id] * (longest - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in ids])
    torch.manual_seed(5)
    options = {"do_sample": False, "max_new_tokens": 6, **options}
    plain = model.generate(padded, attention_mask=mask, **options)[:, longest:].tolist()
    results = ask(prompts, None, seed=5, **options)
    for row, result in zip(plain, results, strict=True):
        assert row[: len(result.token_ids)] == list(result.token_ids)
        assert len(result.token_ids) == len(row) or result.token_ids[-1] in (0, 2)


def test_a_chat_and_its_stream(ask, smollm2):
    chat = [{"role": "user", "content": "Name a colour."}]
    result = ask(chat, OneOf(*COLOURS))
    pieces = list(generate_stream(smollm2.model, smollm2.tokenizer, chat, OneOf(*COLOURS), max_new_tokens=16))
    assert "".join(pieces) == result.text
    assert ask("Name a colour.", OneOf(*COLOURS), chat=True).token_ids == result.token_ids
    only = OneOf("東京 été")
    pieces = list(generate_stream(smollm2.model, smollm2.tokenizer, chat, only, max_new_tokens=16))
    assert "".join(pieces) == "東京 été"
    assert not re.search("\ufffd", "".join(pieces))
