"""ToolCalls: each format's texts as models write them, the laws, and tools that are badly made."""

import copy
import functools
import json
import math
import pickle
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.constraints.marked import Marked
from ctrlgen.constraints.parts import byte_vocabulary
from ctrlgen.constraints.tools import formats
from ctrlgen.constraints.tools.formats import tool_format
from ctrlgen.errors import BudgetError, InputError, SchemaError, UnsatisfiableError
from ctrlgen.flows.generate import generate
from ctrlgen.processor import ControlProcessor
from ctrlgen.resources import folder
from ctrlgen.testing import ToyLM, ToyTokenizer, check_laws
from ctrlgen.vocabulary import Vocabulary

BYTES = byte_vocabulary()
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 0}},
            "required": ["city"],
        },
    },
}
TIME = {"name": "time"}
A, B = '{"name": "get_weather", "arguments": {"city": "Oslo"}}', '{"name": "time", "arguments": {}}'
BEGIN, SEP, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
TEXTS = {
    "hermes": f"<tool_call>\n{A}\n</tool_call>\n<tool_call>\n{B}\n</tool_call>",
    "openai": f'{{"tool_calls": [{{"type": "function", "function": {A}}}, {{"type": "function", "function": {B}}}]}}',
    "json": f"[{A}, {B}]",
    "llama": f"{A}; {B}".replace("arguments", "parameters"),
    "llama-function": '<function=get_weather>{"city": "Oslo"}</function><function=time>{}</function>',
    "mistral": f"[TOOL_CALLS] [{A}, {B}]",
    "mistral-v11": '[TOOL_CALLS]get_weather[ARGS]{"city": "Oslo"}[TOOL_CALLS]time[ARGS]{}',
    "deepseek": f"<｜tool▁calls▁begin｜>{BEGIN}function{SEP}get_weather\n```json\n"
    f'{{"city": "Oslo"}}\n```{END}\n{BEGIN}function{SEP}time\n```json\n{{}}\n```{END}<｜tool▁calls▁end｜>',
    "deepseek-v31": f'<｜tool▁calls▁begin｜>{BEGIN}get_weather{SEP}{{"city": "Oslo"}}{END}'
    f"{BEGIN}time{SEP}{{}}{END}<｜tool▁calls▁end｜>",
    "smollm2": f"<tool_call>[{A}, {B}]</tool_call>",
    "phi": f"<|tool_call|>[{A}, {B}]<|/tool_call|>",
}
TEXTS["qwen"] = TEXTS["hermes"]
CALLS = [("get_weather", {"city": "Oslo"}), ("time", {})]


def state_after(constraint, text):
    state = constraint.start
    for byte in text if isinstance(text, bytes) else text.encode():
        if (state := constraint.advance(state, byte)) == DEAD:
            return DEAD
    return state


def allows(constraint, text):
    state = state_after(constraint, text)
    return state != DEAD and constraint.accepts(state)


def test_every_ready_format_is_tested():
    assert formats.names() == sorted(TEXTS)
    assert (folder("constraints") / "tool_calls").is_dir()


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_texts_of_each_format(name):
    text = TEXTS[name]
    spec = cg.ToolCalls([WEATHER, TIME], name, "required")
    assert spec.parse(text) == CALLS
    assert spec.write(CALLS) == text
    constraint = spec.compile(BYTES)
    assert allows(constraint, text)
    assert not allows(constraint, text.replace("city", "town"))
    assert not allows(constraint, text.replace("time", "tim"))
    assert not allows(constraint, "Well. " + text)
    one = text.replace("Oslo", "Os\\nlo")
    assert spec.parse(one)[0].arguments == {"city": "Os\nlo"}
    alone = cg.ToolCalls([WEATHER, TIME], name, "required", parallel=False)
    assert not allows(alone.compile(BYTES), text)
    assert allows(alone.compile(BYTES), alone.write(CALLS[:1]))
    with pytest.raises(InputError, match="at most 1"):
        alone.parse(text)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_choices(name):
    auto = cg.ToolCalls([WEATHER, TIME], name)
    constraint, text = auto.compile(BYTES), TEXTS[name]
    assert allows(constraint, "No need to call.") and auto.parse("No need to call.") == []
    assert allows(constraint, "I look. " + text)
    found = auto.parse("I look. " + text)
    assert (found, found.text) == (CALLS, "I look. ")
    assert not allows(constraint, text + " There.")
    assert not allows(constraint, text[:-1])
    none = cg.ToolCalls([WEATHER, TIME], name, "none")
    assert allows(none.compile(BYTES), "No, {no} <call>.") and not allows(none.compile(BYTES), text)
    assert none.parse("No.").text == "No."
    with pytest.raises(InputError):
        none.parse(text)
    only = cg.ToolCalls([WEATHER, TIME], name, "time")
    assert allows(only.compile(BYTES), only.write(CALLS[1:])) and not allows(only.compile(BYTES), text)
    with pytest.raises(InputError):
        only.parse(text)


@pytest.mark.parametrize("choice", ["auto", "required", "none", "time"])
@pytest.mark.parametrize("name", ["hermes", "json", "llama-function", "deepseek"])
def test_laws(name, choice):
    spec = cg.ToolCalls([WEATHER, TIME], name, choice, parallel=3)
    check_laws(spec.compile(BYTES), texts=[TEXTS[name], "a <tool"], max_states=150)


def marked_vocabulary():
    """Bytes, the control tokens of two formats, and some merged tokens."""
    control = [*tool_format("deepseek").control, *tool_format("mistral").control]
    merged = [
        b'{"',
        b'": ',
        b"get_",
        b'"}',
        b"time",
        b"}}",
        b"<tool",
        b"_call>\n",
        b' {"name": "',
        b'", "arguments": {',
    ]
    tokens = [*(bytes([byte]) for byte in range(256)), None, *[None] * len(control), *merged]
    return Vocabulary(tokens, eos=256, special={name: 257 + i for i, name in enumerate(control)})


def ids_of(vocabulary, text):
    """With control tokens where their names stand."""
    ids, names = [], sorted(vocabulary.special, key=len, reverse=True)
    while text:
        name = next((one for one in names if text.startswith(one)), None)
        ids += [vocabulary.special[name]] if name else vocabulary.encode_greedy(text[0].encode())
        text = text[len(name or text[0]) :]
    return ids


@pytest.mark.parametrize("name", ["deepseek", "mistral"])
def test_control_tokens_are_ids_and_not_their_text(name):
    vocabulary = marked_vocabulary()
    spec = cg.ToolCalls([WEATHER, TIME], name)
    constraint = spec.compile(vocabulary)
    ids, state = ids_of(vocabulary, "I look. " + TEXTS[name]), constraint.start
    for token in ids:
        state = constraint.advance(state, token)
        assert state != DEAD
    assert constraint.accepts(state)
    found = spec.parse_marked(Marked.of([*ids, 256], (), vocabulary))
    assert (found, found.text) == (CALLS, "I look. ")
    # the name of a control token as text is free text
    plain = [token for letter in TEXTS[name] for token in letter.encode()]
    state = constraint.start
    for token in plain:
        state = constraint.advance(state, token)
    assert state != DEAD and spec.parse_marked(Marked.of([*plain, 256], (), vocabulary)) == []
    check_laws(constraint, controls=vocabulary.special.values(), max_states=80)


@pytest.mark.parametrize("name", ["deepseek", "mistral", "json"])
def test_control_tokens_after_free_text(name):
    vocabulary = marked_vocabulary()
    end = [*b"I look. </think>"]
    for choice in ("auto", "required"):
        inner = cg.ToolCalls([WEATHER, TIME], name, choice)
        spec = cg.Thinking(inner, end="</think>")
        constraint, state = spec.compile(vocabulary), spec.compile(vocabulary).start
        ids = [*end, *ids_of(vocabulary, TEXTS[name])]
        for token in ids:
            state = constraint.advance(state, token)
        assert state != DEAD and constraint.accepts(state)
        found = spec.parse_marked(Marked.of([*ids, 256], (), vocabulary))
        assert found.answer == CALLS and isinstance(found.answer, list)
    before = "Sure: " >> inner
    text = before.parse_marked(Marked.of([*b"Sure: ", *ids_of(vocabulary, TEXTS[name]), 256], (), vocabulary))
    assert text == "Sure: " + TEXTS[name]


class Refusing(BaseModel):
    """Takes nothing."""

    x: int

    @field_validator("x")
    @classmethod
    def never(cls, value: int) -> int:
        raise ValueError("never")


def test_what_a_validator_refuses_is_an_error_of_input():
    spec = cg.ToolCalls([Refusing], "json", "required")
    with pytest.raises(InputError, match="'Refusing' are refused by its own validation"):
        spec.parse('[{"name": "Refusing", "arguments": {"x": 1}}]')
    with pytest.raises(InputError, match="own validation"):
        cg.call_in_parallel(ToyLM(BYTES), ToyTokenizer(BYTES), "a", spec, vocabulary=BYTES)


@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("name", ["hermes", "deepseek", "llama"])
def test_in_generate_every_budget_that_suffices_is_kept(name, choice):
    vocabulary = marked_vocabulary()
    spec = cg.ToolCalls([WEATHER, TIME], name, choice)
    constraint = spec.compile(vocabulary)
    needed = constraint.distance(constraint.start)
    for seed, budget in enumerate([needed, needed + 1, needed + 9, needed + 60]):
        results = generate(
            ToyLM(vocabulary, scale=4.0),
            ToyTokenizer(vocabulary),
            ["ab", "c abc"],
            spec,
            max_new_tokens=budget,
            vocabulary=vocabulary,
            do_sample=True,
            seed=seed,
        )
        for one in results:
            # a text that need not call anything may be cut off as any other text
            assert (one.complete if choice == "auto" else one.finished) and one.problem is None
            assert isinstance(one.value, list) and (one.value or choice == "auto")
            assert all(call.name in ("get_weather", "time") for call in one.value)


def test_too_small_a_budget_is_said():
    spec = cg.ToolCalls([TIME], "json", "required")
    with pytest.raises(BudgetError):
        generate(ToyLM(BYTES), ToyTokenizer(BYTES), "a", spec, max_new_tokens=9, vocabulary=BYTES)


def test_as_a_processor():
    spec = cg.ToolCalls([WEATHER, TIME], "json", "required", parallel=2)
    model = ToyLM(BYTES, scale=3.0)
    import torch

    limit = ControlProcessor(spec, vocabulary=BYTES, max_new_tokens=150)
    made = model.generate(torch.tensor([[97], [98]]), logits_processor=[limit], max_new_tokens=150, do_sample=True)
    for row in made[:, 1:].tolist():
        text = bytes(token for token in row if token < 256).decode(errors="replace")
        assert spec.parse(text)


class Unit(Enum):
    metric = "metric"
    imperial = "imperial"


def book(
    room: Annotated[str, Field(max_length=20)],
    day: date,
    unit: Unit = Unit.metric,
    schema: int | None = None,
    tags: list[Literal["a", "b"]] | None = None,
) -> str:
    """Book a room.

    And more about it.

    Args:
        room: which room
        day (date): when
    """
    return f"{room}{day}{unit}{schema}{tags}"


class Point(BaseModel):
    """A place."""

    x: int
    y: int = 0


def test_python_functions_and_models():
    spec = cg.ToolCalls([book, Point], "json", "required")
    room = spec.definitions[0]["function"]
    assert (room["name"], room["description"]) == ("book", "Book a room.")
    assert room["parameters"]["properties"]["room"]["description"] == "which room"
    assert room["parameters"]["properties"]["day"]["description"] == "when"
    assert room["parameters"]["required"] == ["room", "day"]
    text = spec.write([("book", {"room": "R", "day": "2024-02-29", "schema": 3}), ("Point", {"x": 1})])
    assert allows(spec.compile(BYTES), text)
    first, second = spec.parse(text)
    assert first.arguments == {"room": "R", "day": date(2024, 2, 29), "schema": 3}
    assert book(**first.arguments) == "R2024-02-29Unit.metric3None"
    assert Point(**second.arguments) == Point(x=1)
    assert not allows(spec.compile(BYTES), text.replace("02-29", "02-30"))
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec and hash(again) == hash(spec) and again.parse(text) == spec.parse(text)
    assert cg.ToolCalls(book, "json").callable_tools == spec.tools[:1]


def test_functions_that_cannot_be_tools():
    def bare(x):
        return x

    def many(*values: int):
        return values

    for function, what in ((bare, "annotate"), (many, "values"), (lambda x: x, "no type")):
        with pytest.raises(InputError, match=what):
            cg.ToolCalls([function])
    with pytest.raises(InputError, match="expected a dictionary"):
        cg.ToolCalls([3])


def test_a_callable_without_a_name():
    with pytest.raises(InputError, match="wrap it in a function"):
        cg.ToolCalls([functools.partial(book, "R")])


def test_names_that_are_choices():
    tools = [{"name": "auto"}, {"name": "b"}]
    with pytest.raises(InputError, match="could mean the tool"):
        cg.ToolCalls(tools, choice="auto")
    assert len(cg.ToolCalls(tools, choice="required").callable_tools) == 2


def test_what_cannot_be_read_or_written_is_said():
    spec = cg.ToolCalls([WEATHER, TIME], "json", "required")
    for text, what in ((None, "NoneType"), (b"a", "bytes"), ("a\ud800", "at character 1")):
        for one in (spec, cg.ToolCalls([TIME])):
            with pytest.raises(InputError, match=what):
                one.parse(text)
    with pytest.raises(InputError, match=r"at character 9, '1}' .*key_order"):
        spec.parse('[{"name": "get_weather", "arguments": {"city": 1}}]')
    for calls, what in (
        ([("tim", {})], "mean 'time'"),
        ([("time", {"x": {1}})], "JSON"),
        ([("time", math.nan)], "JSON"),
    ):
        with pytest.raises(InputError, match=what):
            spec.write(calls)
    with pytest.raises(InputError, match="no tool called 'x'; there are get_weather, time"):
        spec.arguments("x")


QUOTED = 'say "hi" \\ é\n'


def test_names_with_quotes():
    spec = cg.ToolCalls([{"name": QUOTED}, {"name": "a"}, {"name": 'a", "arguments": {'}], "hermes", "required")
    calls = [(QUOTED, {}), ("a", {}), ('a", "arguments": {', {})]
    text = spec.write(calls)
    assert allows(spec.compile(BYTES), text) and spec.parse(text) == calls
    for name in (QUOTED, "a>b", "f[ARGS]"):
        with pytest.raises(InputError, match="cannot carry"):
            cg.ToolCalls([{"name": name}], "llama-function" if "[" not in name else "mistral-v11")


def test_a_name_that_begins_another():
    spec = cg.ToolCalls([{"name": "get"}, {"name": "get_all"}, {"name": "get_all_x"}], "mistral-v11", "required")
    calls = [(name, {}) for name in ("get_all_x", "get", "get_all")]
    assert allows(spec.compile(BYTES), spec.write(calls)) and spec.parse(spec.write(calls)) == calls


@pytest.mark.parametrize(
    ("tools", "what"),
    [
        ([], "empty"),
        ("get", "list of tools"),
        ([TIME, WEATHER, TIME], "both called 'time'"),
        ([{"name": ""}], "is called ''"),
        ([{"name": None}], "is called None"),
        ([{"name": "a\ud800"}], "lone surrogate"),
        ([{"name": "x" * 1000}], "256"),
        ([{"type": "retrieval"}], "retrieval"),
        ([{"name": "a", "parameters": []}], "schema of an object"),
        ([{"name": "a", "parameters": {"type": "dict"}}], "python_types=True"),
        ([{"name": "a", "parameters": {"properties": {"x": {"const": {1, 2}}}}}], "no JSON"),
        ([{"name": "a", "description": 3}], "description"),
    ],
)
def test_hostile_lists(tools, what):
    with pytest.raises(InputError, match=what):
        cg.ToolCalls(tools)


def test_schemas_that_cannot_be_enforced_name_their_tool():
    with pytest.raises(SchemaError) as error:
        cg.ToolCalls([TIME, {"name": "bad", "parameters": {"properties": {"x": {"type": "dict"}}}}])
    assert "'bad'" in error.value.__notes__[0]
    with pytest.raises(UnsatisfiableError):
        cg.ToolCalls([{"name": "bad", "parameters": {"properties": {"x": False}, "required": ["x"]}}])


def test_references():
    tree = {
        "properties": {"root": {"$ref": "#/$defs/node"}},
        "required": ["root"],
        "$defs": {"node": {"properties": {"next": {"$ref": "#/$defs/node"}}, "type": "object"}},
    }
    spec = cg.ToolCalls([{"name": "walk", "parameters": tree}], "json", "required")
    good = spec.write([("walk", {"root": {"next": {"next": {}}}})])
    assert allows(spec.compile(BYTES), good)
    assert not allows(spec.compile(BYTES), good.replace("next", "last"))


def test_types_of_python():
    properties = {
        "a": {"type": "float"},
        "b": {"type": "tuple", "items": {"type": "str"}},
        "c": {"type": "dict", "properties": {"type": {"type": "int"}}, "required": ["type"]},
        "d": {"type": "any"},
        "e": {"type": ["bool", "none"], "enum": [True, None]},
        "type": {"type": "String", "enum": ["dict", "float"]},
    }
    given = [{"name": "f", "parameters": {"type": "dict", "properties": properties, "required": list(properties)}}]
    before = copy.deepcopy(given)
    spec = cg.ToolCalls(given, "json", "required", python_types=True)
    assert given == before
    arguments = {"a": 1.5, "b": ["x"], "c": {"type": 2}, "d": [None, {}], "e": None, "type": "dict"}
    text = spec.write([("f", arguments)])
    assert allows(spec.compile(BYTES), text) and spec.parse(text) == [("f", arguments)]
    assert not allows(spec.compile(BYTES), text.replace('"type": 2', '"type": "2"'))
    assert not allows(spec.compile(BYTES), text.replace('"type": "dict"', '"type": "object"'))


def test_arguments_are_not_made_up():
    closed, open_one = {"name": "a"}, {"name": "b", "parameters": {"additionalProperties": {"type": "null"}}}
    spec = cg.ToolCalls([closed, open_one], "json", "required")
    assert allows(spec.compile(BYTES), '[{"name": "b", "arguments": {"x": null}}]')
    assert not allows(spec.compile(BYTES), '[{"name": "a", "arguments": {"x": null}}]')


OWN = {"opening": "CALL ", "call": "$name($arguments)", "between": " AND ", "names": "plain"}


def test_a_format_of_ones_own(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text("\n".join(f"{name} = {json.dumps(value)}" for name, value in OWN.items()))
    for one in (OWN, path, str(path)):
        spec = cg.ToolCalls([WEATHER, TIME], one, "required")
        assert spec.write(CALLS) == 'CALL get_weather({"city": "Oslo"}) AND time({})'
        assert allows(spec.compile(BYTES), spec.write(CALLS)) and spec.parse(spec.write(CALLS)) == CALLS


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ("herms", "did you mean hermes"),
        (Path("/nowhere/x.toml"), "cannot be read"),
        (3, "expected a name"),
        ({"call": "$name"}, "once each"),
        ({"call": "$arguments$name"}, "must come before"),
        ({"call": "$name$arguments"}, "before the first name"),
        ({"call": "<$name$arguments>", "names": "plain"}, "between"),
        ({"call": "<$name $arguments>", "names": "loud"}, "loud"),
        ({"call": "<$name $arguments>", "colour": "red"}, "colour"),
        ({"call": "<$name $arguments>", "control": "<"}, "list of strings"),
        ({"call": "<$name $arguments>", "control": [""]}, "empty"),
        ({"call": 3}, "must be a string"),
        ({}, "call is missing"),
    ],
)
def test_formats_that_are_none(given, what):
    with pytest.raises(InputError, match=what):
        cg.ToolCalls([TIME], given)


@pytest.mark.parametrize("options", [{"choice": "tim"}, {"choice": None}, {"parallel": 0}, {"parallel": "yes"}])
def test_options_that_are_none(options):
    with pytest.raises(InputError):
        cg.ToolCalls([TIME], **options)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.text('ab"\\{}[]é\n', max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text('ab"}', max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(TEXTS)), st.lists(st.tuples(st.sampled_from(["f", "fg"]), VALUES), min_size=1, max_size=3)
)
def test_whatever_is_written_is_allowed_and_read_back(name, given_calls):
    any_value = {"type": "object", "properties": {"x": True}, "required": ["x"]}
    spec = cg.ToolCalls([{"name": one, "parameters": any_value} for one in ("f", "fg")], name, "required")
    calls = [(one, {"x": value}) for one, value in given_calls]
    text = spec.write(calls)
    assert spec.parse(text) == calls
    assert allows(spec.compile(BYTES), text)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_reading_raises_nothing_but_errors_of_input(name, data):
    text = TEXTS[name]
    cut = data.draw(st.integers(0, len(text)))
    broken = text[:cut] + data.draw(st.text('{}[]":,<>\\a1', max_size=4)) + text[cut + data.draw(st.integers(0, 3)) :]
    spec = cg.ToolCalls([WEATHER, TIME], name, "required")
    try:
        found = spec.parse(broken)
    except InputError:
        return
    assert all(call.name in ("get_weather", "time") for call in found)


@pytest.mark.model
def test_with_the_real_model(smollm2):
    asked = ["What is the weather in Paris for 2 days?", "What time is it?"]
    spec = cg.ToolCalls([WEATHER, TIME], "json", "required", parallel=2)
    for one in generate(*smollm2, asked, spec, max_new_tokens=60, chat=True):
        assert one.finished and one.value
        assert spec.parse(one.text) == one.value
    one = generate(*smollm2, asked[0], cg.ToolCalls([WEATHER], "hermes"), max_new_tokens=12, chat=True)
    assert one.complete and one.value == [] and one.value.text == one.text


@pytest.mark.model
@pytest.mark.parametrize(("name", "tokenizer"), [("qwen", "qwen3"), ("deepseek", "deepseek_v3"), ("llama", "llama3")])
def test_with_real_tokenizers(tokenizer_folder, name, tokenizer):
    from transformers import AutoTokenizer

    loaded = AutoTokenizer.from_pretrained(tokenizer_folder(tokenizer))
    vocabulary = Vocabulary.from_tokenizer(loaded)
    spec = cg.ToolCalls([WEATHER, TIME], name)
    constraint = spec.compile(vocabulary)
    ids, state = loaded("Hm. " + TEXTS[name], add_special_tokens=False)["input_ids"], constraint.start
    for token in ids:
        state = constraint.advance(state, token)
        assert state != DEAD, loaded.decode([token])
    assert constraint.accepts(state)
    found = spec.parse_marked(Marked.of([*ids, vocabulary.eos[0]], (), vocabulary))
    assert (found, found.text) == (CALLS, "Hm. ")
