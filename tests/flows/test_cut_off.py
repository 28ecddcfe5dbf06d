"""Text that is only watched may be cut off by the budget: it is what the model says unguarded, to the last token."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ctrlgen as cg
from ctrlgen.closing import closing_of, may_be_cut
from ctrlgen.testing import ToyLM, ToyTokenizer
from ctrlgen.testing.laws import allowed
from ctrlgen.vocabulary import Vocabulary

WORDS = [b"a", b"b", b" ", b"\xc3", b"\xa9", b"pip install ", b"nu", b"m", b"py", b"zz", b"<q>", b"<", b"q", b"\n"]
VOCABULARY = Vocabulary([*WORDS, *(bytes([byte]) for byte in range(256)), None, None], eos=[270, 271])
TOKENIZER = ToyTokenizer(VOCABULARY)
GUARD = cg.PackageGuard(["numpy", "numb"])
PROMPTS = ["a", "bab", "ab ab"]
JSON = cg.JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False})
TOOLS = [{"name": "time", "parameters": {"properties": {"zone": {"enum": ["UTC", "CET"]}}}}]
WATCHED: dict[str, Any] = {
    "guard": GUARD,
    "free": cg.Free(),
    "dispatch": cg.Dispatch({"<q>": JSON >> "</q>"}),
    "free without": cg.Free(without="<q>"),
    "tool calls": cg.ToolCalls(TOOLS, "hermes"),
    "no tool calls": cg.ToolCalls(TOOLS, "hermes", "none"),
    "either": cg.Free() | cg.Free(without="zz"),
}
CLOSED: dict[str, Any] = {
    "json": JSON,
    "until": cg.Free(until="<q>"),
    "stop": cg.Dispatch({"<": "a"}, stop="\n"),
    "either": cg.Free() | JSON,
    "required": cg.ToolCalls(TOOLS, "hermes", "required"),
    "thinking": cg.Thinking(JSON),
}


def plain_words(seed: int) -> ToyLM:
    """A model that says nothing that anything watches for, and ends now and then."""
    model = ToyLM(VOCABULARY, scale=1.0 + seed)
    inner = model.distribution

    def distribution(ids: tuple[int, ...]) -> list[float]:
        row = list(inner((*ids, seed)))
        return [one if token < 5 or token == 270 else -60.0 for token, one in enumerate(row)]

    model.distribution = distribution
    return model


def told(constraint: Any, budget: int, **options: Any) -> list[tuple[Any, ...]]:
    options = {"vocabulary": VOCABULARY, "max_new_tokens": budget, "seed": budget, **options}
    made = cg.generate(plain_words(budget), TOKENIZER, PROMPTS, constraint, **options)
    return [(one.token_ids, one.text, one.finished) for each in made for one in (each, *each.alternatives)]


@pytest.mark.parametrize("name", WATCHED)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True},
        {"num_beams": 3, "num_return_sequences": 2},
        {"do_sample": True, "num_return_sequences": 3},
    ],
    ids=["greedy", "sampled", "beams", "samples"],
)
def test_of_plain_words_nothing_changes(name: str, options: dict[str, Any]) -> None:
    cut = 0
    for budget in (1, 2, 3, 6):
        free = told(None, budget, **options)
        assert told(WATCHED[name], budget, **options) == free
        cut += sum(not finished for _, _, finished in free)
    assert cut


@pytest.mark.parametrize("name", WATCHED)
def test_fast_forward_changes_nothing_either(name: str) -> None:
    for budget in (1, 4):
        for forward in (True, "verify"):
            assert told(WATCHED[name], budget, fast_forward=forward) == told(None, budget)


@pytest.mark.parametrize("name", WATCHED)
def test_the_processor_alone(name: str) -> None:
    ids = torch.tensor([TOKENIZER("abab")["input_ids"]])
    for budget in (1, 2, 5):
        model = plain_words(budget)
        free = model.generate(ids, max_new_tokens=budget, do_sample=False)
        processor = cg.ControlProcessor(WATCHED[name], vocabulary=VOCABULARY, max_new_tokens=budget)
        made = model.generate(ids, max_new_tokens=budget, do_sample=False, logits_processor=[processor])
        assert made.tolist() == free.tolist()


def test_how_a_text_ended() -> None:
    for name, spec in WATCHED.items():
        made = cg.generate(plain_words(5), TOKENIZER, PROMPTS, spec, vocabulary=VOCABULARY, max_new_tokens=3)
        for one in made:
            assert one.complete, name
            assert one.finished == (one.token_ids[-1] in VOCABULARY.eos)
            assert one.value is not None
    free = cg.generate(plain_words(5), TOKENIZER, "a", vocabulary=VOCABULARY, max_new_tokens=1)
    assert (free.complete, free.value) == (True, None)


@pytest.mark.parametrize("name", CLOSED)
def test_what_must_be_closed_ends_with_an_end_token(name: str) -> None:
    constraint = CLOSED[name].compile(VOCABULARY)
    assert not may_be_cut(constraint)
    needed = closing_of(constraint).needed(constraint, constraint.start, 10**6)
    made = cg.generate(plain_words(1), TOKENIZER, "a", CLOSED[name], vocabulary=VOCABULARY, max_new_tokens=needed)
    assert made.finished
    assert made.complete


def exact(constraint: Any, state: int, remaining: int) -> set[int]:
    """The tokens after which so many, the token itself among them, can make a text that is whole, by trying all."""

    def whole(state: int, left: int) -> bool:
        if constraint.accepts(state):
            return True
        return left > 0 and any(
            whole(constraint.advance(state, token), left - 1) for token in allowed(constraint, state)
        )

    return {t for t in allowed(constraint, state) if whole(constraint.advance(state, t), remaining - 1)}


@pytest.mark.parametrize("text", ["", "pip install ", "pip install nu", "pip install num", "pip install numb"])
def test_names_are_finished_within_the_budget_as_far_as_they_can_be(text: str) -> None:
    constraint = GUARD.compile(VOCABULARY)
    state = constraint.start
    for byte in text.encode():
        state = constraint.advance(state, VOCABULARY.tokens.index(bytes([byte])))
    closing = closing_of(constraint)
    for remaining in (1, 2):
        offered = closing.row(constraint, state, remaining)
        found = {t for t in allowed(constraint, state) if offered[t >> 5] >> (t & 31) & 1}
        possible = exact(constraint, state, remaining)
        if closing.needed(constraint, state, remaining) <= remaining:
            assert found
            assert found <= possible
            assert possible - found <= {t for t in possible if not constraint.accepts(constraint.advance(state, t))}
        else:
            assert not {t for t in possible if constraint.accepts(constraint.advance(state, t))}


def test_a_name_is_not_cut_off() -> None:
    wanted = {3: b"zz", 4: b"nu", 5: b"m", 6: b"py"}

    def after(ids: tuple[int, ...]) -> list[float]:
        row = [0.0] * VOCABULARY.width
        row[VOCABULARY.tokens.index(wanted.get(len(ids), b"pip install "))] = 9.0
        return row

    for budget in range(1, 9):
        made = cg.generate(
            ToyLM(VOCABULARY, after), TOKENIZER, "ab", GUARD, vocabulary=VOCABULARY, max_new_tokens=budget
        )
        assert made.complete
        assert not GUARD.check(made.text)
