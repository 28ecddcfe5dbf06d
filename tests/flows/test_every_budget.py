"""Every flow ends in a valid text, whatever the model says, at every budget from the least it states."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ctrlgen as cg
from ctrlgen.constraints.tools import formats
from ctrlgen.constraints.tools.formats import tool_format
from ctrlgen.errors import BudgetError
from ctrlgen.testing import ToyLM, ToyTokenizer
from ctrlgen.vocabulary import Vocabulary

MORE = 31
"""So many budgets are tried, from the least on; every other one with two rows, the second padded."""
CONTROL = sorted({mark for name in formats.names() for mark in tool_format(name).control})
MERGED = [
    b'{"',
    b'": ',
    b'"}',
    b"}}",
    b' "',
    b", ",
    b"pip install ",
    b"num",
    b"py\n",
    b"<q>",
    b"</q",
    b"</think>",
    b"a b",
]
MERGED += [
    b'"name": "',
    b'", "arguments": {',
    b"<tool",
    b"_call>\n",
    b"\\u00",
    b"\xc3\xa9\n",
    b". T",
    b"flask",
    b"null",
]
TOKENS = [*(bytes([byte]) for byte in range(256)), *MERGED]
ENDS = [len(TOKENS), len(TOKENS) + 1]
VOCABULARY = Vocabulary(
    [*TOKENS, None, None, *[None] * len(CONTROL)],
    eos=ENDS,
    special={name: len(TOKENS) + 2 + i for i, name in enumerate(CONTROL)},
    width=len(TOKENS) + 2 + len(CONTROL) + 5,
)
SOURCE = 'He said "no" — twice.\nThen Zoë left; é stayed \\o/ 😀. The end'
TOOLS = [
    {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}, "required": ["city"]}},
    {"name": "time", "parameters": {"properties": {"zone": {"enum": ["UTC", "CET"]}}}},
]
EVIDENCE = {"claim": {"type": "string"}, "evidence": cg.Quote(SOURCE, unit="word", least=2)}
QUOTED = {"type": "object", "properties": EVIDENCE, "required": ["claim", "evidence"], "additionalProperties": False}
COUNT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
FLOWS: dict[str, Any] = {
    "copy": cg.Copy(SOURCE),
    "copy of words": cg.Copy(SOURCE, unit="word", least=2),
    "copy of sentences": cg.Copy(SOURCE, unit="sentence"),
    "copy between marks": "<q>" >> cg.Copy(SOURCE, least=3) >> "</q>",
    "copy after free text": cg.Free(until="<q>") >> cg.Copy(SOURCE, unit="word") >> "</q>",
    "quote": cg.JsonSchema(QUOTED),
    "quote in ascii": cg.JsonSchema(QUOTED, ensure_ascii=True, key_order="any"),
    "thinking to a mark": cg.Thinking(cg.JsonSchema(COUNT), end="</think>"),
    "thinking to the end": cg.Thinking(cg.JsonSchema(COUNT), end=cg.EOS, keep=9),
    "dispatch": cg.Dispatch({"<q>": cg.Copy(SOURCE, unit="word") >> "</q>", "=": cg.Regex(" [0-9]{1,3}")}),
    "package guard": cg.PackageGuard(["numpy", "flask"]),
    "package guard in a command": cg.PackageGuard(["numpy", "flask"]).following("pip install "),
}
for form in formats.names():
    for choice in ("auto", "required"):
        FLOWS[f"{form}, {choice}"] = cg.ToolCalls(TOOLS, form, choice)


def is_valid(spec: Any, result: cg.Result) -> bool:
    """Whether a complete text is one of the specification, read anew where that can be."""
    if not result.complete or result.problem is not None:
        return False
    if isinstance(spec, cg.PackageGuard):
        return not [found for found in spec.check(result.text) if found.reason == "not on the list"]
    if isinstance(spec, cg.JsonSchema):
        value = json.loads(result.text)
        return set(value) == set(QUOTED["properties"]) and value["evidence"] in SOURCE
    if isinstance(spec, cg.Copy):
        return result.text in SOURCE
    if isinstance(spec, cg.ToolCalls):
        return bool(result.value) or spec.choice == "auto"
    return result.value is not None


def least(ask: Any) -> int:
    """What the error says suffices."""
    try:
        ask(1)
    except BudgetError as error:
        return error.needed
    return 1


def check_every_budget(spec: Any, ask: Any) -> None:
    """From the least budget on, all texts that ``ask(budget)`` gives are in time and valid."""
    needed = least(ask)
    for budget in range(needed, needed + MORE):
        for made in ask(budget):
            assert len(made.token_ids) <= budget
            assert is_valid(spec, made), (budget, made.text)


def generated(spec: Any, budget: int, **options: Any) -> list[cg.Result]:
    """One text or two, from random logits."""
    model = ToyLM(VOCABULARY, scale=1.0 + budget % 7)
    prompts = [f"y{budget}z", "x"][: 1 + budget % 2]
    options = {"vocabulary": VOCABULARY, "max_new_tokens": budget, "seed": budget, **options}
    made: list[cg.Result] = cg.generate(model, ToyTokenizer(VOCABULARY), prompts, spec, **options)
    return made


@pytest.mark.parametrize("flow", FLOWS)
def test_of_the_constraint(flow: str) -> None:
    spec = FLOWS[flow]
    check_every_budget(spec, lambda budget: generated(spec, budget, do_sample=True, trace=False))


@pytest.mark.parametrize("flow", ["copy of sentences", "quote", "thinking to a mark", "dispatch", "llama, required"])
def test_of_what_is_certain(flow: str) -> None:
    spec = FLOWS[flow]
    check_every_budget(spec, lambda budget: generated(spec, budget, do_sample=budget % 2 == 0, fast_forward=True))


def test_of_the_answer_to_a_draft() -> None:
    spec = FLOWS["quote"]

    def ask(budget: int) -> list[cg.Result]:
        options = {"max_draft_tokens": 5, "max_new_tokens": budget, "k": 1 + budget % 2, "seed": budget}
        model = ToyLM(VOCABULARY, scale=1.0 + budget % 7)
        return [cg.draft_then_constrain(model, ToyTokenizer(VOCABULARY), "xy", spec, vocabulary=VOCABULARY, **options)]

    check_every_budget(spec, ask)


def test_of_arguments_at_once() -> None:
    spec = cg.ToolCalls(TOOLS, "deepseek", "required")

    def ask(budget: int) -> Any:
        model = ToyLM(VOCABULARY, scale=1.0 + budget % 7)
        options = {"max_argument_tokens": budget, "optional": True, "vocabulary": VOCABULARY}
        return cg.call_in_parallel(model, ToyTokenizer(VOCABULARY), f"a{budget}", spec, **options)

    needed = least(ask)
    for budget in range(needed + 12, needed + 12 + MORE):  # which tool is chosen, and so what suffices, may differ
        made = ask(budget)
        assert spec.parse(made.text) == [made.call], budget
