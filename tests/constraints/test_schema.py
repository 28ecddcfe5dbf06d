"""What each keyword lets through, what is refused and how that is said, and what hostile schemas run into."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any, Literal

import pydantic
import pytest
from typing_extensions import TypedDict

from ctrlgen.constraints.json_schema import JsonSchema, schema_report
from ctrlgen.errors import ComplexityError, CtrlgenError, InputError, SchemaError, SchemaWarning, UnsatisfiableError
from ctrlgen.testing import check_laws
from ctrlgen.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos=256)


def accepts(spec: JsonSchema, text: str) -> bool:
    machine = spec.compile(BYTES)
    state = machine.start
    for byte in text.encode():
        state = machine.advance(state, byte)
        if state < 0:
            return False
    return machine.accepts(state)


def closed(properties: dict[str, Any], required: list[str], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        **more,
    }


POINT = closed({"x": {"type": "integer"}, "y": {"type": "integer"}}, ["x"])
TREE = closed({"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#"}}}, ["v"])

# (schema, accepted, rejected)
CASES: dict[str, tuple[Any, list[str], list[str]]] = {
    "anything": (
        True,
        ["null", "[]", '{"a": [1, {}]}', "-0.5e+3", '"\\u00e9"'],
        ["", "nul", "[1,]", "{,}", " 1", "1 "],
    ),
    "type": ({"type": "boolean"}, ["true", "false"], ["null", "True", '"true"', "0"]),
    "types": ({"type": ["null", "integer"]}, ["null", "0", "-12", "1.0"], ["1.5", "-0", "01", "true", "+1"]),
    "digits": ({"type": "integer"}, ["9" * 20], ["9" * 21]),
    "number": ({"type": "number"}, ["0", "-1.25", "1e9", "1E-12"], [".5", "1.", "1e", "0x1", "NaN", "1e9999"]),
    "bounds": ({"type": "integer", "minimum": -3, "maximum": 12}, ["-3", "0", "12", "3.0"], ["-4", "13", "-", "3.5"]),
    "open bounds": (
        {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2.5},
        ["0.001", "2", "2.49"],
        ["0", "0.0", "2.5", "-1"],
    ),
    "multiples": ({"type": "integer", "multipleOf": 7}, ["0", "-14", "21"], ["1", "20"]),
    "multiples of an integer": ({"type": "number", "multipleOf": 2}, ["4", "-2"], ["3", "1.5"]),
    "multiples of a fraction": ({"type": "integer", "multipleOf": 1.5}, ["3", "0", "-6"], ["1", "2"]),
    "lengths": ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"é👍\\n"'], ['"a"', '"abcd"', '"👍"']),
    "pattern": ({"type": "string", "pattern": "b+c"}, ['"abbcd"', '"\\u0062c"'], ['"bac"', '"bc', "1"]),
    "pattern and length": (
        {"type": "string", "pattern": "^[0-9]+$", "minLength": 2, "maxLength": 3},
        ['"12"', '"123"', '"\\u0031\\u0032"'],
        ['"1"', '"1234"', '"1a"'],
    ),
    "date": ({"format": "date", "type": "string"}, ['"2024-02-29"'], ['"2023-02-29"', '"2023-04-31"', '"0000-01-01"']),
    "enum": (
        {"enum": ["a/b", 1.5, None, ["x"], {"k": 1}]},
        ['"a/b"', '"a\\/b"', "1.5", '["x"]', '{"k": 1}'],
        ["[]", "1"],
    ),
    "floats": ({"enum": [1.0, 2]}, ["1", "1.0", "2", "2.0"], ["2.5", "3"]),
    "const": ({"const": 'say "é"'}, ['"say \\"é\\""', '"say \\"\\u00e9\\""'], ['"say é"', 'say "é"']),
    "array": (
        {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2},
        ["[null]", "[null,null]"],
        ["[]", "[null, null, null]", "[1]"],
    ),
    "tuple": (
        {"type": "array", "prefixItems": [{"type": "null"}, {"type": "integer"}], "items": {"type": "boolean"}},
        ["[]", "[null]", "[null, 1, true, false]"],
        ["[1]", "[null, null]", "[null, 1, 2]"],
    ),
    "closed tuple": (
        {"type": "array", "prefixItems": [{"type": "null"}], "items": False},
        ["[]", "[null]"],
        ["[null, null]"],
    ),
    "object": (
        POINT,
        ['{"x": 1}', '{"x":1,"y":2}'],
        ['{"y": 2}', "{}", '{"x": 1, "z": 1}', '{"x": 1, "x": 1}', '{"x": 1,}'],
    ),
    "open object": (
        {"type": "object", "properties": {"n": {"type": "integer"}}},
        ["{}", '{"n": 1, "m": "x"}', '{"m": [], "nn": null}', '{"": 1}'],
        ['{"n": "1"}', '{"m": 1, "n": 1}', '{"\\u006e": "1"}', '{"n": 1, "n": "x"}'],
    ),
    "other members": (
        {"type": "object", "additionalProperties": {"type": "null"}},
        ['{"é": null, "b": null}'],
        ['{"a": 1}'],
    ),
    "required alone": ({"type": "object", "required": ["id"]}, ['{"id": {}}', '{"id": 1, "z": 2}'], ["{}", '{"z": 1}']),
    "forbidden member": ({"type": "object", "properties": {"a": False}}, ["{}", '{"b": 1}', '{"ab": 1}'], ['{"a": 1}']),
    "patterns": (
        {
            "type": "object",
            "properties": {"xa": {"type": "integer"}},
            "patternProperties": {"^x": {"minimum": 3}, "a$": {"maximum": 9}},
            "additionalProperties": False,
        },
        ['{"xa": 5}', '{"xb": "t"}', '{"xa": 3, "ya": 9, "xya": 4}'],
        ['{"xa": 2}', '{"xa": "5"}', '{"ya": 10}', '{"xya": 2}', '{"b": 1}'],
    ),
    "member counts": (
        closed({"a": True, "b": True, "c": True}, ["b"], minProperties=2, maxProperties=2),
        ['{"a": 1, "b": 1}', '{"b": 1, "c": 1}'],
        ['{"b": 1}', '{"a": 1, "b": 1, "c": 1}', '{"a": 1, "c": 1}'],
    ),
    "one more of any name": (
        {"type": "object", "minProperties": 1, "maxProperties": 2},
        ['{"q": 1}', '{"q": 1, "r": 2}'],
        ["{}"],
    ),
    "anyOf": ({"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 1}]}, ["null", '"a"'], ['"ab"', "1"]),
    "beside anyOf": (
        {**POINT, "required": [], "anyOf": [{"required": ["x"]}, {"required": ["y"]}]},
        ['{"x": 1}', '{"y": 1}', '{"x": 1, "y": 1}'],
        ["{}", '{"x": "1"}', '{"z": 1}', "null"],
    ),
    "allOf": (
        {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}, {"multipleOf": 2}]},
        ["4"],
        ["3", "5", "6", '"4"'],
    ),
    "allOf of objects": (
        {
            "allOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"a": {"maximum": 3}}},
            ]
        },
        ['{"a": 3}', "null"],
        ['{"a": 4}', "{}", '{"a": "x"}'],
    ),
    "oneOf by type": ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, ["null", "7"], ["true"]),
    "oneOf by const": (
        {"oneOf": [closed({"k": {"const": k}, k: {"type": "integer"}}, ["k", k]) for k in ("a", "b")]},
        ['{"k": "a", "a": 1}', '{"k": "b", "b": 1}'],
        ['{"k": "a", "b": 1}', '{"k": "c"}'],
    ),
    "discriminator": (
        {
            "discriminator": {"propertyName": "k"},
            "oneOf": [closed({"k": {"const": "a"}}, []), closed({"k": {"const": "b"}, "n": {"type": "null"}}, [])],
        },
        ['{"k": "a"}', '{"k": "b", "n": null}'],
        ["{}", '{"n": null}'],
    ),
    "recursion": (
        TREE,
        ['{"v": 1}', '{"v": 1, "kids": [{"v": 2, "kids": []}]}'],
        ['{"v": 1, "kids": [{}]}', '{"kids": []}'],
    ),
    "references": (
        closed(
            {"a": {"$ref": "#/$defs/x~1y%20z"}, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#here"}},
            ["a", "b", "c"],
            **{"$defs": {"x/y z": {"enum": ["p", "q"]}, "n": {"$anchor": "here", "type": "null"}}},
        ),
        ['{"a": "p", "b": "q", "c": null}'],
        ['{"a": "p", "b": "r", "c": null}', '{"a": {}, "b": "p", "c": null}'],
    ),
    "beside a reference": (
        {"$ref": "#/$defs/small", "minimum": 2, "$defs": {"small": {"type": "integer", "maximum": 3}}},
        ["2", "3"],
        ["1", "4", '"2"'],
    ),
    "parts nothing satisfies": (
        {"anyOf": [{"enum": []}, closed({"a": {"type": "integer", "minimum": 2, "maximum": 1}}, []), False]},
        ["{}"],
        ['{"a": 1}', "null"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_keywords(name: str) -> None:
    schema, accepted, rejected = CASES[name]
    spec = JsonSchema(schema)
    for texts, expected in ((accepted, True), (rejected, False)):
        for text in texts:
            assert accepts(spec, text) is expected, text


@pytest.mark.parametrize("name", ["object", "recursion", "pattern and length", "patterns", "anyOf"])
def test_laws(name: str) -> None:
    check_laws(JsonSchema(CASES[name][0]).compile(BYTES), max_states=60)


BLANKS: tuple[Any, ...] = ("compact", "line", "pretty")


@pytest.mark.parametrize("pattern", ["", "^[ab]{1,2}$", "^(c*|[ab]{1,2})$"])
@pytest.mark.parametrize("tokens", [(), (b'["a",', b'"a"', b'","', b'"]', b'"a","a"', b'ab","', b'", "')])
def test_strings_that_come_once(pattern: str, tokens: tuple[bytes, ...]) -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": pattern}, "uniqueItems": True, "minItems": 5}
    vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None, *tokens], eos=256)
    check_laws(JsonSchema(schema).compile(vocabulary), max_states=150)


def test_blanks_around_strings_that_come_once() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    texts = ['["a","b"]', '["a", "b"]', '[ "a" ,\n "b" ]', "[]", '["a","a"]', '["\\u0061"]']
    rows = [[accepts(JsonSchema(schema, whitespace=style), text) for text in texts] for style in BLANKS]
    assert rows == [
        [True, False, False, True, False, False],
        [True, True, False, True, False, False],
        [True, True, True, True, False, False],
    ]


@pytest.mark.parametrize("order", ["declared", "any"])
def test_what_only_declared_members_can_break(order: Any) -> None:
    broken = {"not": {"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}}
    members = {"a": {}, "b": {}, "c": {}}
    schema = {"type": "object", "properties": members, "additionalProperties": False, "required": ["c"], **broken}
    spec = JsonSchema(schema, key_order=order)
    for text, valid in (
        ('{"a": 1, "b": "x", "c": 1}', True),
        ('{"a": "x", "c": 1}', True),
        ('{"a": "x", "b": "x", "c": 1}', True),
        ('{"b": 1, "c": "x"}', False),
        ('{"c": 1}', False),
        ('{"a": "x"}', False),
        ('{"c": 1, "a": "x"}', order == "any"),
    ):
        assert accepts(spec, text) == valid, text
    check_laws(spec.compile(BYTES), max_states=60)


def test_blanks() -> None:
    text = '{\n  "x": 1,\n  "y": 2\n}'
    assert [accepts(JsonSchema(POINT, whitespace=style), text) for style in ("compact", "line", "pretty")] == [
        False,
        False,
        True,
    ]
    assert [
        accepts(JsonSchema(POINT, whitespace=style), '{"x": 1, "y": 2}') for style in ("compact", "line", "pretty")
    ] == [False, True, True]
    assert all(accepts(JsonSchema(POINT, whitespace=style), '{"x":1,"y":2}') for style in ("compact", "line", "pretty"))
    pretty = JsonSchema(POINT, whitespace="pretty")
    assert accepts(pretty, '{"x":' + " " * 20 + "1}")
    assert not accepts(pretty, '{"x":' + " " * 21 + "1}")
    assert not accepts(JsonSchema(POINT), '{"x":  1}')
    assert not accepts(JsonSchema(POINT), '{ "x": 1}')


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword", "rewrite"),
    [
        ({"items": {"uniqueItems": True}}, "/items", "uniqueItems", "enum"),
        ({"properties": {"a/b": {"not": {"uniqueItems": True}}}}, "/properties/a~1b", "not", "anyOf"),
        (
            {"oneOf": [{"unevaluatedItems": {"type": "null"}}, {"minItems": 1}]},
            "",
            "oneOf",
            "anyOf",
        ),
        ({"type": "str"}, "", "type", None),
        ({"minLength": -1}, "", "minLength", None),
        ({"anyOf": []}, "", "anyOf", None),
        ({"format": "idn-hostname"}, "", "format", "pattern"),
        ({"allOf": [{"pattern": "("}]}, "/allOf/0", "pattern", None),
        ({"properties": {"who": {"$ref": "other.json#/$defs/P"}}}, "/properties/who", "$ref", "$defs"),
        ({"$ref": "#/$defs/none"}, "", "$ref", "$defs"),
        ({"$ref": "#"}, "", "$ref", None),
        ({"const": float("nan")}, "/const", None, None),
        ({"enum": [{1, 2}]}, "/enum/0", None, None),
        ({"const": "\ud800"}, "/const", None, None),
        ('{"type": "null", "type": "string"}', "", None, None),
        ('{"type": ', "", None, None),
        ("[1]", "", None, None),
    ],
)
def test_refusals(schema: Any, pointer: str, keyword: str | None, rewrite: str | None) -> None:
    with pytest.raises(SchemaError) as caught:
        JsonSchema(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)
    assert rewrite is None or rewrite in str(caught.value.rewrite)


def test_a_slip_of_the_pen_is_an_annotation_and_a_warning() -> None:
    with pytest.warns(SchemaWarning, match="#/items/minium: unknown keyword; is 'minimum' meant") as caught:
        spec = JsonSchema({"items": {"minium": 3}, "x-minimum": 4})
    assert len(caught) == 1
    assert accepts(spec, "[2]")
    (entry,) = [entry for entry in spec.report() if entry.keyword == "minium"]
    assert (entry.pointer, entry.status) == ("/items", "annotation")
    assert "'minimum'" in entry.note


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        (False, "#"),
        ({"enum": []}, "#"),
        (closed({"a": {"properties": {"b": False}, "required": ["b"], "type": "object"}}, ["a"]), "#/properties/a"),
        (closed({"next": {"$ref": "#"}}, ["next"]), "without an end"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "#"),
        ({"type": "string", "pattern": "^a+$", "maxLength": 0}, "#"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "#"),
    ],
)
def test_what_no_document_satisfies(schema: Any, where: str) -> None:
    with pytest.raises(UnsatisfiableError, match="no finite document") as caught:
        JsonSchema(schema)
    assert where in str(caught.value)


def nested(depth: int) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


def cycle() -> Any:
    schema: dict[str, Any] = {}
    schema["items"] = schema
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(nested(100_000), id="depth"),
        pytest.param('{"items":' * 100_000 + "{}" + "}" * 100_000, id="depth of a text"),
        pytest.param(cycle(), id="cycle"),
        pytest.param({"maximum": 10**5000}, id="digits"),
        pytest.param('{"maximum": 1' + "0" * 5000 + "}", id="digits of a text"),
        pytest.param({"type": "array", "minItems": 10**15}, id="items"),
        pytest.param({"pattern": "^(a|b)*a(a|b){20}$"}, id="pattern"),
        pytest.param({"type": "string", "pattern": "^a+$", "maxLength": 10**7}, id="pattern and length"),
        pytest.param({"type": "integer", "multipleOf": 10**30}, id="multiples"),
        pytest.param({"allOf": [{"anyOf": [{"required": [a + str(i)]} for a in "ab"]} for i in range(16)]}, id="cases"),
        pytest.param({"patternProperties": {f"a{i}.*b{i}": {"minimum": i} for i in range(20)}}, id="name classes"),
        pytest.param(
            {"$ref": "#/$defs/0", "$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}]} for i in range(999)}},
            id="chain",
        ),
    ],
)
def test_hostile_schemas_end_in_typed_errors(schema: Any) -> None:
    with pytest.raises(CtrlgenError) as caught:
        JsonSchema(schema)
    assert isinstance(caught.value, SchemaError | ComplexityError)


def test_large_schemas() -> None:
    wide = JsonSchema({"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(5_000)}})
    assert accepts(wide, '{"p7": 1, "p4000": 2, "q": null}')
    assert not accepts(wide, '{"p7": 1, "p6": 2}')
    listed = JsonSchema({"enum": [f"value {i}" for i in range(20_000)]})
    assert accepts(listed, '"value 19999"')
    tagged = JsonSchema({"oneOf": [closed({"k": {"const": i}}, ["k"]) for i in range(100)]})
    assert accepts(tagged, '{"k": 99}')


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = pydantic.Field(ge=1, le=9)


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    tags: list[str] | None = None


class Owner(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=1, description="as on the door")
    pet: Cat | Dog = pydantic.Field(discriminator="kind")
    friends: list[Owner] = []


@dataclass
class Place:
    city: str
    code: int | None = None


class Move(TypedDict):
    to: str


@pytest.mark.parametrize(
    ("model", "text", "value"),
    [
        (Owner, '{"name": "A", "pet": {"kind": "cat", "lives": 9}}', Owner(name="A", pet=Cat(lives=9))),
        (Place, '{"city": "Oslo", "code": null}', Place("Oslo", None)),
        (Move, '{"to": "b"}', {"to": "b"}),
        (list[int], "[1, 2]", [1, 2]),
        (dict[str, bool], '{"a": true}', {"a": True}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
    ],
)
def test_python_types(model: Any, text: str, value: Any) -> None:
    spec = JsonSchema(model)
    assert accepts(spec, text)
    assert spec.parse(text) == value
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert not accepts(JsonSchema(Owner), '{"name": "", "pet": {"kind": "cat", "lives": 9}}')
    assert not accepts(JsonSchema(Owner), '{"name": "A", "pet": {"lives": 9}}')


def test_it_is_a_value() -> None:
    schema = {"type": "integer"}
    spec = JsonSchema(schema)
    schema["type"] = "string"
    assert spec.schema == {"type": "integer"}
    assert spec == JsonSchema('{"type": "integer"}') != JsonSchema(spec.schema, whitespace="pretty")
    assert hash(pickle.loads(pickle.dumps(spec))) == hash(spec)
    with pytest.raises(AttributeError):
        spec.text = "{}"  # type: ignore[misc]
    for wrong in ({"whitespace": "none"}, {"max_digits": 0}, {"max_digits": True}):
        with pytest.raises(InputError):
            JsonSchema({}, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        spec.parse("{")
    with pytest.raises(SchemaError):
        JsonSchema(3)


def test_report() -> None:
    schema = {"title": "t", "type": "object", "properties": {"a": {"uniqueItems": True, "x-note": 1, "colour": 2}}}
    rows = [(row.pointer, row.keyword, row.status) for row in schema_report(schema)]
    assert rows == [
        ("", "title", "annotation"),
        ("", "type", "enforced"),
        ("", "properties", "enforced"),
        ("/properties/a", "uniqueItems", "refused"),
        ("/properties/a", "x-note", "annotation"),
        ("/properties/a", "colour", "annotation"),
    ]
    lax = JsonSchema(schema, strict=False)
    assert {(row.keyword, row.status) for row in lax.report()} >= {("uniqueItems", "not enforced")}
    assert accepts(lax, '{"a": [1, 1]}')
    assert not accepts(lax, "[]")


def test_what_is_left_out_on_demand_is_reported_and_the_rest_is_enforced() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "str", "maximum": 3}, "b": {"$ref": "http://x.example/y"}, "c": {"pattern": "("}},
        "required": ["b"],
    }
    spec = JsonSchema(schema, strict=False)
    left = {(row.pointer, row.keyword) for row in spec.report() if row.status == "not enforced"}
    assert left == {
        ("/properties/a", "type"),
        ("/properties/b", "$ref"),
        ("/properties/c", "pattern"),
    }
    assert accepts(spec, '{"b": 1}')
    assert not accepts(spec, '{"a": 4, "b": 1}')
    assert not accepts(spec, "{}")


def test_any_order_and_ascii() -> None:
    spec = JsonSchema(closed({"é": {"type": "string"}, "b": {"const": "ü"}}, ["é"]), key_order="any", ensure_ascii=True)
    assert accepts(spec, r'{"b": "\u00fc", "\u00e9": "\u00e9"}')
    assert not accepts(spec, r'{"b": "ü", "\u00e9": "x"}')
    assert not accepts(spec, '{"é": "x"}')
