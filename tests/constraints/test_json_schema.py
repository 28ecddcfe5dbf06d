# ruff: noqa: E501 (tables: one case a line)
"""JsonSchema: what each keyword accepts and refuses, random schemas against jsonschema, and errors that say where."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import jsonschema
import pydantic
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from ctrlgen.constraint import DEAD
from ctrlgen.constraints.json_schema import JsonSchema
from ctrlgen.constraints.tools.tool_calls import ToolCalls
from ctrlgen.errors import ComplexityError, CtrlgenError, InputError, SchemaError, UnsatisfiableError
from ctrlgen.testing import check_laws
from ctrlgen.vocabulary import Vocabulary

BYTES = Vocabulary(
    [bytes([b]) for b in range(256)] + [b'{"', b'":', b'", "', b'"}', b"12", b"}]", b"null", None], eos=263
)


def accepts(schema: JsonSchema, text: str) -> bool:
    constraint = schema.compile(BYTES)
    state = constraint.start
    for byte in text.encode():
        state = constraint.advance(state, byte)
        if state < 0:
            return False
    return constraint.accepts(state)


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


INTEGER = {"type": "integer"}

TABLE: list[tuple[str, Any, list[str], list[str]]] = [
    ("true", True, ["1", '"x"', "[null, {}]", '{"a": [1.5e3]}'], ["", "nul", "[1 2]", "{a: 1}", " 1", "01"]),
    ("type", {"type": ["null", "integer"]}, ["null", "-3", "0"], ["1.5", '"3"', "nil"]),
    ("object", closed({"a": INTEGER}, "a"), ['{"a": 1}', '{"a":1}'], ["{}", '{"a": 1, "b": 2}', '{"a":  1}', "{ }"]),
    ("order", closed({"a": INTEGER, "b": INTEGER}), ["{}", '{"b": 1}', '{"a": 1, "b": 2}'], ['{"b": 1, "a": 2}', '{"a":1,}']),
    ("needed between", closed({"o": INTEGER, "r": INTEGER, "p": INTEGER}, "r"), ['{"r": 1, "p": 2}', '{"o": 1, "r": 2}'], ['{"o": 1}', '{"o": 1, "p": 2}']),
    ("open object", {"properties": {"n": INTEGER}}, ['{"n": 1, "x": []}', '{"nn": null}', "7", '{"": 1}'], ['{"n": "1"}', '{"x": 1, "n": "2"}', '{"n": 1, "n": "2"}']),
    ("other spelling of a key", {"properties": {"é": INTEGER}}, ['{"é": 1}'], [r'{"\u00e9": "x"}', '{"é": "x"}']),
    ("prefix of a key", {"properties": {"ab": INTEGER, "abc": False}}, ['{"a": "x"}', '{"ab": 1}', '{"abcd": "x"}'], ['{"ab": "x"}', '{"abc": 1}']),
    ("empty key", {"properties": {"": INTEGER}, "minProperties": 1, "type": "object"}, ['{"": 1}', '{"a": "x"}'], ['{"": "x"}', "{}"]),
    ("needed, not declared", {"type": "object", "required": ["id"]}, ['{"id": [1]}', '{"id": 1, "z": 2}'], ["{}", '{"z": 2}', "[]"]),
    ("schema for others", {"type": "object", "additionalProperties": INTEGER}, ["{}", '{"q": 1, "r": 2}'], ['{"q": "1"}']),
    ("pattern keys", closed({"level": INTEGER}) | {"patternProperties": {"^level$": {"minimum": 3}, "^x_": {"type": "string"}}}, ['{"level": 3}', '{"x_a": "q"}', '{"level": 9, "x_": "", "x_b": ""}'], ['{"level": 2}', '{"x_a": 1}', '{"y": 1}']),
    ("pattern keys and others", {"type": "object", "patternProperties": {"a": INTEGER}, "additionalProperties": {"type": "string"}}, ['{"ba": 1, "b": "x"}'], ['{"ba": "x"}', '{"b": 1}']),
    ("counts of members", {"type": "object", "minProperties": 1, "maxProperties": 3, "additionalProperties": INTEGER, "properties": {"a": INTEGER, "b": INTEGER}}, ['{"a": 1, "b": 2}', '{"a": 1, "x": 2, "y": 3}', '{"x": 1}'], ["{}", '{"b": "1"}', '{"a": 1, "b": 2, "c": 3, "d": 4}']),
    ("members that must be enough", closed({"a": INTEGER, "b": INTEGER, "c": INTEGER}) | {"minProperties": 2}, ['{"a": 1, "c": 3}', '{"b": 1, "c": 3}'], ['{"c": 3}', '{"a": 3}']),
    ("items", {"type": "array", "items": INTEGER}, ["[]", "[1]", "[1, 2,3]"], ["[1,]", '["1"]', "[1  ,2]", "[ 1]"]),
    ("counts of items", {"type": "array", "items": INTEGER, "minItems": 1, "maxItems": 2}, ["[1]", "[1, 2]"], ["[]", "[1, 2, 3]"]),
    ("prefix of items", {"type": "array", "prefixItems": [INTEGER, {"type": "string"}], "items": False}, ["[]", "[1]", '[1, "a"]'], ['["a"]', '[1, "a", 2]', "[1, 2]"]),
    ("prefix, then others", {"type": "array", "prefixItems": [INTEGER], "items": {"type": "null"}, "minItems": 2}, ["[1, null]", "[1, null, null]"], ["[1]", "[1, 1]"]),
    ("items that cannot be", {"type": "array", "items": False}, ["[]"], ["[1]", "[null]"]),
    ("enum", {"enum": [True, None, 'say "hi"', "C:\\t", 1.5, ["x", 2], {"k": "v"}]}, ["true", "null", r'"say \"hi\""', r'"C:\\t"', "1.5", '["x", 2]', '["x",2]', '{"k": "v"}'], ["True", '"x"', "1.50", '["x"]', "false"]),
    ("const", {"const": 1.0}, ["1", "1.0"], ["true", "1.5", '"1"', "10"]),
    ("enum and siblings", {"enum": [1, "a", "abc", None], "type": ["string", "integer"], "minLength": 2, "minimum": 2}, ['"abc"'], ["1", '"a"', "null"]),
    ("enum of words that begin alike", {"enum": ["on", "one", "only"]}, ['"on"', '"one"', '"only"'], ['"o"', '"onl"']),
    ("lengths", {"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"日本語"', r'"\u00e9\n"', '"👍👍"', r'"\ud83d\ude00a"'], ['"a"', '"abcd"', '""', '"日本語だ"']),
    ("pattern is a search", {"type": "string", "pattern": "owl"}, ['"owl"', '"bowler"'], ['"ow l"', '""']),
    ("pattern and lengths", {"type": "string", "pattern": "^[a-f0-9]+$", "minLength": 2, "maxLength": 4}, ['"a0"', '"beef"', r'"\u0061b"'], ['"a"', '"beef0"', '"xy"']),
    ("any string", {"type": "string"}, ['"é\\"\\\\ /"', r'"\b\u001f"'], ['"a', '"\n"', '"\x01"', r'"\x"', r'"\ud800"']),
    ("bounds of integers", {"type": "integer", "minimum": -17, "maximum": 12}, ["-17", "0", "12"], ["-18", "13", "-", "007", "1.5"]),
    ("bounds of numbers", {"type": "number", "exclusiveMinimum": 0, "maximum": 5}, ["0.1", "5", "4.999", "5.0"], ["0", "0.0", "5.01", "-1", "12"]),
    ("multiples", {"type": "integer", "multipleOf": 6, "minimum": 1}, ["6", "600"], ["0", "3", "-6"]),
    ("numbers", {"type": "number"}, ["0", "-1.5", "1e5", "2.5E-10"], ["1.", ".5", "+1", "1e", "00", "NaN"]),
    ("anyOf", {"anyOf": [INTEGER, {"type": "string", "maxLength": 1}]}, ["5", '"a"'], ["null", '"ab"']),
    ("anyOf and siblings", {"type": "object", "properties": {"k": {"enum": ["bus"]}, "l": INTEGER, "s": {"type": "string"}}, "required": ["k"], "additionalProperties": False, "anyOf": [{"required": ["l"]}, {"required": ["s"]}]}, ['{"k": "bus", "l": 7}', '{"k": "bus", "s": ""}'], ['{"k": "bus"}', '{"k": "x", "l": 7}', "17"]),
    ("allOf", {"allOf": [{"minimum": 3}, {"maximum": 5}], "type": "integer"}, ["3", "5"], ["2", "6"]),
    ("allOf of objects", {"type": "object", "allOf": [{"properties": {"a": {"minimum": 2}}, "required": ["a"]}, {"properties": {"a": INTEGER}, "additionalProperties": False}]}, ['{"a": 2}'], ['{"a": 1}', "{}", '{"a": 2, "b": 1}']),
    ("oneOf of cases apart", {"oneOf": [closed({"t": {"const": "a"}}, "t"), closed({"t": {"const": "b"}, "n": INTEGER}, "t")]}, ['{"t": "a"}', '{"t": "b", "n": 1}'], ['{"t": "a", "n": 1}', '{"t": "c"}']),
    ("$ref", {"$defs": {"H": {"enum": ["r"]}}, **closed({"a": {"$ref": "#/$defs/H"}, "b": {"$ref": "#/properties/a"}}, "a", "b")}, ['{"a": "r", "b": "r"}'], ['{"a": "r", "b": "x"}', '{"a": {}, "b": "r"}']),
    ("$ref with siblings", {"$defs": {"n": INTEGER}, "$ref": "#/$defs/n", "minimum": 5}, ["5"], ["4", '"5"']),
    ("$anchor and escapes", {"$defs": {"a/b~c %": {"$anchor": "here", "const": 1}}, "items": {"$ref": "#/$defs/a~1b~0c%20%25"}, "prefixItems": [{"$ref": "#here"}], "type": "array"}, ["[1, 1]"], ["[2]", "[1, 2]"]),
    ("recursion", {"$defs": {"t": closed({"v": INTEGER, "c": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "v")}, "$ref": "#/$defs/t"}, ['{"v": 1}', '{"v": 1, "c": [{"v": 2, "c": []}, {"v": 3}]}'], ['{"v": 1, "c": [{}]}', '{"c": []}']),
    ("date", {"type": "string", "format": "date"}, ['"2024-02-29"', '"2000-02-29"', '"1999-12-31"'], ['"2023-02-29"', '"1900-02-29"', '"2024-02-30"', '"2024-04-31"', '"24-1-1"', '"2024-13-01"']),
    ("date-time", {"type": "string", "format": "date-time"}, ['"2031-07-04T23:59:59.25+02:00"', '"2024-02-29T00:00:00Z"'], ['"2031-07-04"', '"2031-07-04T24:00:00Z"', '"2023-02-29T00:00:00Z"']),
    ("uuid", {"type": "string", "format": "uuid"}, ['"123e4567-e89b-42d3-a456-426614174000"'], ['"123e4567e89b42d3a456426614174000"']),
    ("ipv4", {"type": "string", "format": "ipv4"}, ['"127.0.0.1"', '"255.255.255.255"'], ['"256.0.0.1"', '"1.2.3"', '"01.2.3.4"']),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "good", "bad"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_keywords(schema: Any, good: list[str], bad: list[str]) -> None:
    spec = JsonSchema(schema)
    for text in good:
        assert accepts(spec, text), f"refuses {text}"
        if "format" not in json.dumps(schema):
            jsonschema.Draft202012Validator(schema).validate(json.loads(text))
    for text in bad:
        assert not accepts(spec, text), f"accepts {text}"
    check_laws(spec.compile(BYTES), texts=[text.encode() for text in good[:3]], max_states=60)


def test_styles_of_blanks() -> None:
    schema = closed({"a": {"type": "array", "items": INTEGER}}, "a")
    texts = {"compact": '{"a":[1,2]}', "line": '{"a": [1, 2]}', "pretty": '{\n  "a" : [\n    1,\n    2\n  ]\n}'}
    for style, accepted in {"compact": 1, "line": 2, "pretty": 3}.items():
        spec = JsonSchema(schema, whitespace=style)  # type: ignore[arg-type]
        assert [accepts(spec, text) for text in texts.values()] == [True] * accepted + [False] * (3 - accepted)
    pretty = JsonSchema(schema, whitespace="pretty")
    assert accepts(pretty, '{"a":' + " " * 20 + "[]}")
    assert not accepts(pretty, '{"a":' + " " * 21 + "[]}")
    assert accepts(pretty, '{"a": []}')


def test_digits_end() -> None:
    assert accepts(JsonSchema(INTEGER), "1" * 20)
    assert not accepts(JsonSchema(INTEGER), "1" * 21)
    assert accepts(JsonSchema(INTEGER, max_digits=30), "1" * 30)
    assert not accepts(JsonSchema({"type": "number"}), "0." + "1" * 21)


def test_numbers_mean_the_same_when_they_are_read_as_floats() -> None:
    below = JsonSchema({"type": "number", "minimum": 0, "exclusiveMaximum": 1})
    assert accepts(below, "0.99999999999999")
    assert not accepts(below, "0.99999999999999999999")
    above = JsonSchema({"type": "number", "exclusiveMinimum": 0.1, "maximum": 123})
    assert accepts(above, "0.10000000000001")
    assert not accepts(above, "0.10000000000000000001")
    assert not accepts(JsonSchema({"type": "number"}), "1e999")


def test_long_limits_cost_nothing_until_they_are_met() -> None:
    spec = JsonSchema(
        closed({"t": {"type": "string", "maxLength": 2500}, "l": {"type": "array", "maxItems": 10**6}}, "t")
    )
    assert accepts(spec, json.dumps({"t": "x" * 2500}))
    assert not accepts(spec, json.dumps({"t": "x" * 2501}))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "null"}, "maxItems": 10**30},
        {"type": "array", "items": {"type": "string"}, "maxItems": 2**70, "uniqueItems": True},
        {"type": "object", "maxProperties": 10**30},
        {"type": "string", "maxLength": 2**63},
    ],
)
def test_limits_beyond_all_texts(schema: Any) -> None:
    free = {key: value for key, value in schema.items() if not key.startswith("max")}
    for text in ("[null", '["a"', '{"a"', '"ab"'):
        limited, unlimited = (JsonSchema(one).compile(BYTES) for one in (schema, free))
        states = [limited.start, unlimited.start]
        for byte in text.encode():
            states = [one.advance(state, byte) for one, state in zip((limited, unlimited), states, strict=True)]
        assert (states[0] == DEAD) == (states[1] == DEAD)
        if states[0] != DEAD:
            assert (limited.mask(states[0]) == unlimited.mask(states[1])).all()


@pytest.mark.parametrize(
    "value",
    [
        {"type": "array", "minItems": 10**30},
        {"type": "array", "minItems": 10**18},
        {"type": "string", "minLength": 2**62},
        {"type": "string", "minLength": 2**70, "maxLength": 2**70},
        {"type": "array", "minItems": 9000, "items": {"type": "array", "minItems": 900, "items": {"type": "null"}}},
    ],
)
def test_values_that_no_text_is_short_enough_for_are_refused_at_once(value: Any) -> None:
    for schema in (
        {"anyOf": [{"type": "null"}, value]},
        {"type": "object", "properties": {"a": value}},
        {"type": "array", "items": value},
    ):
        with pytest.raises(ComplexityError, match="shortest text"):
            JsonSchema(schema)


def test_a_hundred_and_fifty_optional_keys() -> None:
    names = [f"key{i:03}" for i in range(150)]
    spec = JsonSchema(closed(dict.fromkeys(names, INTEGER)))
    assert accepts(spec, json.dumps(dict.fromkeys(names[::7], 1)))
    assert not accepts(spec, '{"key149": 1, "key000": 1}')


# random schemas against an independent validator

_scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 12), st.sampled_from(["", "a", "ab", "é", 'q"']))
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "ab", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=5,
)
_names = st.sampled_from(["a", "ab", "b"])


def _some(**keywords: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    small = st.integers(0, 3)
    return st.one_of(
        _some(properties=st.dictionaries(_names, inner, max_size=3), required=st.lists(_names, max_size=2, unique=True), additionalProperties=inner, minProperties=small, maxProperties=small, type=st.just("object")),
        _some(properties=st.dictionaries(_names, inner, max_size=2), patternProperties=st.dictionaries(st.sampled_from(["a", "^b", "c$"]), inner, max_size=2), additionalProperties=inner),
        _some(items=inner, prefixItems=st.lists(inner, min_size=1, max_size=2), minItems=small, maxItems=small, type=st.just("array")),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"anyOf": parts}),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: {"allOf": parts}),
        st.tuples(inner, inner).map(lambda pair: {**(pair[0] if isinstance(pair[0], dict) else {}), "anyOf": [pair[1], True]}),
    )  # fmt: skip


_leaves = st.one_of(
    st.booleans(),
    st.just({"$ref": "#"}),
    _some(type=st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])),
    _some(enum=st.lists(_values, min_size=1, max_size=3)),
    _some(const=_values),
    _some(
        minimum=st.integers(-2, 9), exclusiveMaximum=st.integers(-2, 11), type=st.sampled_from(["integer", "number"])
    ),
    _some(minLength=st.integers(0, 2), maxLength=st.integers(0, 2), pattern=st.sampled_from(["a", "^a", "b$", "^.?$"])),
    _some(multipleOf=st.integers(1, 4)),
)
schemas = st.recursive(_leaves, _schemas, max_leaves=6)


@settings(max_examples=250, deadline=None)
@given(schemas, st.lists(_values, min_size=3, max_size=8))
def test_random_schemas_agree_with_an_independent_validator(schema: Any, documents: list[Any]) -> None:
    try:
        spec = JsonSchema(schema)
    except SchemaError:
        assume(False)  # a reference that leads back to itself
    except UnsatisfiableError:
        spec = None
    validator = jsonschema.Draft202012Validator(schema)
    for document in documents:
        try:
            valid = validator.is_valid(document)
        except RecursionError:
            continue
        texts = orders(document)
        if spec is None:
            assert not valid
        elif not valid:
            assert not any(accepts(spec, text) for text in texts)
        else:
            assert any(accepts(spec, text) for text in texts), "in no order of its keys"


MOST_ORDERS = 300


def orders(value: Any) -> list[str]:
    """The texts of a document with its keys in every order (of the outer objects; sizes are tiny)."""
    import itertools

    def forms(value: Any) -> list[Any]:
        if isinstance(value, list):
            return list(itertools.islice(map(list, itertools.product(*map(forms, value))), MOST_ORDERS))
        if isinstance(value, dict):
            # all orders of these keys before another order of those within
            found = (
                {name: parts[names.index(name)] for name in order}
                for names in [tuple(value)]
                for parts in itertools.product(*(forms(value[name]) for name in names))
                for order in itertools.permutations(names)
            )
            return list(itertools.islice(found, MOST_ORDERS))
        return [value]

    return [json.dumps(form, ensure_ascii=False) for form in forms(value)]


# Python types


class Pet(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=10)
    age: int | None = None


class Open(pydantic.BaseModel, extra="allow"):
    name: str


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Movie(TypedDict):
    title: str


def test_python_types_come_back_as_values() -> None:
    assert JsonSchema(Pet).parse('{"name": "Rex", "age": 3}') == Pet(name="Rex", age=3)
    assert JsonSchema(Point).parse('{"x": 1}') == Point(1, 0)
    assert JsonSchema(Movie).parse('{"title": "M"}') == {"title": "M"}
    assert JsonSchema(list[Pet]).parse('[{"name": "a"}]') == [Pet(name="a")]
    assert JsonSchema({"type": "integer"}).parse("3") == 3


def test_python_types_write_only_what_they_declare() -> None:
    assert accepts(JsonSchema(Pet), '{"name": "Rex", "age": null}')
    assert not accepts(JsonSchema(Pet), '{"name": "Rex", "age": null, "owner": "me"}')
    assert accepts(JsonSchema(Open), '{"name": "Rex", "owner": "me"}')
    assert accepts(JsonSchema(dict[str, int]), '{"anything": 1}')


def test_values_of_specifications() -> None:
    schema = closed({"a": INTEGER}, "a")
    assert JsonSchema(schema) == JsonSchema(json.dumps(schema))
    assert hash(JsonSchema(schema)) == hash(JsonSchema(json.dumps(schema)))
    assert JsonSchema(schema) != JsonSchema(schema, whitespace="compact")
    assert pickle.loads(pickle.dumps(JsonSchema(schema))) == JsonSchema(schema)
    assert JsonSchema(schema).compile(BYTES) is JsonSchema(dict(schema)).compile(BYTES)
    assert [
        (entry.pointer, entry.keyword, entry.status) for entry in JsonSchema({"title": "t", "type": "null"}).report()
    ] == [("", "title", "annotation"), ("", "type", "enforced")]


# refusals


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"properties": {"w": {"$ref": "other.json#/x"}}}, "/properties/w", "$ref"),
        ({"properties": {"w": {"$ref": "#/$defs/none"}}}, "/properties/w", "$ref"),
        ({"$ref": "#"}, "", "$ref"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, None, "$ref"),
        ({"type": "strng"}, "", "type"),
        ({"properties": {"a/b": {"minLength": -3}}}, "/properties/a~1b", "minLength"),
        ({"items": {"uniqueItems": True}}, "/items", "uniqueItems"),
        ({"format": "idn-hostname"}, "", "format"),
        ({"not": {"uniqueItems": True}}, "", "not"),
        ({"minLength": -1}, "", "minLength"),
        ({"minLength": True}, "", "minLength"),
        ({"required": "a"}, "", "required"),
        ({"anyOf": []}, "", "anyOf"),
        ({"properties": {"a": 3}}, "", "properties"),
    ],
)
def test_what_is_not_enforced_is_refused_with_its_place(schema: Any, pointer: str | None, keyword: str) -> None:
    with pytest.raises(SchemaError) as caught:
        JsonSchema(schema)
    assert caught.value.keyword == keyword
    assert pointer is None or caught.value.pointer == pointer
    assert keyword in str(caught.value)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "integer", "minimum": 2.1, "maximum": 2.9},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        {"allOf": [INTEGER, {"type": "string"}]},
        {"type": "string", "pattern": "^a$", "minLength": 2},
        {"type": "object", "maxProperties": 1, "required": ["a", "b"]},
        {"const": 3, "type": "string"},
    ],
)
def test_what_no_document_satisfies_is_said_at_once(schema: Any) -> None:
    with pytest.raises(UnsatisfiableError):
        JsonSchema(schema)


def cyclic() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    return schema


def deep(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "make",
    [
        cyclic,
        lambda: deep(100_000),
        lambda: '{"items":' * 100_000,
        lambda: {"enum": [float("nan")]},
        lambda: {"const": "\ud800"},
        lambda: {"const": {1, 2}},
        lambda: "{'type': 'null'}",
        lambda: "[]",
        lambda: '{"type": "string"',
        lambda: 3.5,
        lambda: {
            "type": "object",
            "allOf": [{"anyOf": [{"required": [f"k{i}{j}"]} for i in range(12)]} for j in range(12)],
        },
        lambda: {"pattern": "(a*)*" * 200 + "{1000}"},
        lambda: {"pattern": "("},
    ],
)
def test_hostile_schemas_are_typed_errors(make: Any) -> None:
    with pytest.raises(CtrlgenError) as caught:
        JsonSchema(make())
    assert isinstance(caught.value, SchemaError | ComplexityError | InputError) or "pattern" in str(make())


@pytest.mark.parametrize("properties", ["f", [None], 3, None, True])
def test_tools_with_hostile_schemas_are_typed_errors(properties: Any) -> None:
    parameters = {"type": "object", "properties": properties}
    with pytest.raises(SchemaError, match="#/properties"):
        ToolCalls([{"type": "function", "function": {"name": "f", "parameters": parameters}}], "hermes")


def test_deep_documents_are_no_problem() -> None:
    spec = JsonSchema({"type": "array", "items": {"$ref": "#"}})
    assert accepts(spec, "[" * 3000 + "]" * 3000)
    assert not accepts(spec, "[" * 3000 + "]" * 2999)


@pytest.mark.parametrize("options", [{"whitespace": "tabs"}, {"max_digits": 0}, {"max_digits": True}])
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        JsonSchema(True, **options)
