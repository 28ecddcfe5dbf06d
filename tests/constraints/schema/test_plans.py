# ruff: noqa: E501 (tables: one case a line)
"""What each keyword means, in all drafts; references; what is refused; hostile schemas. Plans alone, no engine."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema import costs
from ctrlgen.constraints.schema.compiling import language, written
from ctrlgen.constraints.schema.formats import FORMAT_NAMES, format_automaton
from ctrlgen.constraints.schema.forms import KNOWN
from ctrlgen.constraints.schema.misspelt import intended
from ctrlgen.constraints.schema.plans import Language
from ctrlgen.constraints.schema.texts import String, closed, quoted
from ctrlgen.errors import ComplexityError, CtrlgenError, SchemaError, UnsatisfiableError
from tests.oracles.plans import matches, shortest_text

DRAFT4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
DRAFT7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}


def planned(schema: Any, *, strict: bool = True, ascii: bool = False) -> Language:
    return language(written(schema), 20, strict, ascii)


# (name, schema, valid, invalid)
TABLE: list[tuple[str, Any, list[str], list[str]]] = [
    ("integers with a zero fraction", INTEGER, ["1", "1.0", "-0.0"[1:]], ["1.5", "1e2"]),
    ("in Draft 4 1.0 is none", {**DRAFT4, **INTEGER}, ["1"], ["1.0"]),
    ("multiples of decimals", {"multipleOf": 0.1}, ["0.3", "1.2", "5", '"x"'], ["0.35", "0.01"]),
    ("not a type", {"not": {"type": ["string", "array"]}}, ["1", "null", "{}"], ['"x"', "[]"]),
    ("not integers", {"type": "number", "not": INTEGER}, ["1.5", "0.25"], ["1", "1.0", "7.00"]),
    ("not bounds", {"type": "number", "not": {"minimum": 2, "maximum": 3}}, ["1.9", "3.1"], ["2", "2.5", "3"]),
    ("not multiples", {"type": "integer", "not": {"multipleOf": 3}}, ["1", "4"], ["3", "0"]),
    ("not listed", {"not": {"enum": [1, "a", None, [1], {"a": 1}]}}, ["2", '"b"', "true", "[]", "[2]", '{"a": 2}', '{"a": 1, "b": 1}'], ["1", "1.0", '"a"', r'"\u0061"', "null", "[1]", '{"a": 1}']),
    ("not a pattern", {"type": "string", "not": {"pattern": "^a"}}, ['"b"', '""'], ['"ab"', r'"\u0061"']),
    ("not a format", {"type": "string", "not": {"format": "ipv4"}}, ['"1.2.3"'], ['"1.2.3.4"']),
    ("not a format that is known in part", {"type": "string", "not": {"format": "email"}}, ['"nobody"'], ['"a@b"', '"a@"']),
    ("not lengths", {"type": "string", "not": {"minLength": 2, "maxLength": 3}}, ['"a"', '"abcd"'], ['"ab"', '"abc"']),
    ("not required", {"type": "object", "not": {"required": ["a", "b"]}}, ["{}", '{"a": 1}', '{"b": 1, "c": 1}'], ['{"a": 1, "b": 2}']),
    ("not properties", {"type": "object", "not": {"properties": {"a": INTEGER}}}, ['{"a": "x"}'], ["{}", '{"a": 1}']),
    ("not additionalProperties", {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": False}}, ['{"b": 1}', '{"a": 1, "b": 1}'], ["{}", '{"a": 1}']),
    ("not other members", {"type": "object", "not": {"additionalProperties": INTEGER}}, ['{"b": "x"}', '{"b": 1, "c": null}'], ["{}", '{"b": 1}']),
    ("not patternProperties", {"type": "object", "not": {"patternProperties": {"^x": INTEGER}}}, ['{"x1": "a"}'], ["{}", '{"x": 1}', '{"y": "a"}']),
    ("not propertyNames", {"type": "object", "not": {"propertyNames": {"maxLength": 1}}}, ['{"ab": 1}'], ["{}", '{"a": 1}']),
    ("not items", {"type": "array", "not": {"items": INTEGER}}, ['["x"]', '[1, "x", 1]'], ["[]", "[1, 2]"]),
    ("not prefixItems", {"type": "array", "not": {"prefixItems": [INTEGER, NULL], "items": False}}, ['["x"]', "[1, 2]", "[1, null, 3]"], ["[]", "[1]", "[1, null]"]),
    ("not counts", {"type": "array", "not": {"minItems": 1, "maxItems": 2}}, ["[]", "[1, 2, 3]"], ["[1]", "[1, 2]"]),
    ("not contains", {"type": "array", "not": {"contains": INTEGER}}, ["[]", '["x"]'], ["[1]", '["x", 1]']),
    ("not not", {"not": {"not": INTEGER}}, ["1"], ['"x"']),
    ("not allOf", {"not": {"allOf": [INTEGER, {"minimum": 3}]}}, ["2", "3.5", '"x"'], ["3", "4"]),
    ("not anyOf", {"not": {"anyOf": [INTEGER, STRING]}}, ["1.5", "null"], ["1", '"x"']),
    ("oneOf is exclusive", {"oneOf": [INTEGER, {"type": "number", "minimum": 10}]}, ["3", "10.5", "-2"], ["12", "9.5", '"3"']),
    ("not oneOf", {"not": {"oneOf": [{"minimum": 2}, {"maximum": 5}]}}, ["3", "2", '"x"'], ["1", "6"]),
    ("oneOf of what is required", {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, ['{"a": 1}', '{"b": 1, "c": 1}'], ["{}", '{"a": 1, "b": 1}']),
    ("oneOf told apart from outside", {"required": ["k"], "allOf": [{"oneOf": [{"properties": {"k": {"const": k}, k: INTEGER}} for k in ("a", "b")]}], "type": "object"}, ['{"k": "a", "a": 1, "b": "x"}'], ['{"k": "a", "a": "x"}', "{}", '{"k": "c"}']),
    ("if, then and else", {"if": {"properties": {"m": {"const": 1}}, "required": ["m"]}, "then": {"required": ["a"]}, "else": {"required": ["b"]}, "type": "object"}, ['{"m": 1, "a": 1}', '{"b": 1}', '{"m": 2, "b": 1}'], ['{"m": 1}', '{"m": 1, "b": 1}', "{}"]),
    ("then without if", {"then": {"type": "null"}}, ["1"], []),
    ("dependentRequired", {"dependentRequired": {"a": ["b"], "b": ["c"]}}, ["{}", '{"c": 1}', '{"a": 1, "b": 1, "c": 1}', "7"], ['{"a": 1}', '{"a": 1, "b": 1}']),
    ("dependentSchemas", {"dependentSchemas": {"a": {"properties": {"b": INTEGER}}}}, ['{"b": "x"}', '{"a": 1, "b": 1}', "7"], ['{"a": 1, "b": "x"}']),
    ("dependencies", {**DRAFT7, "dependencies": {"a": ["b"], "c": {"maxProperties": 1}}}, ['{"a": 1, "b": 1}', '{"c": 1}'], ['{"a": 1}', '{"c": 1, "d": 1}']),
    ("contains", {"type": "array", "contains": INTEGER, "minContains": 2, "maxContains": 3}, ['[1, "x", 2]', "[1, 2, 3]"], ["[1]", "[1, 2, 3, 4]"]),
    ("contains beside items and counts", {"type": "array", "items": {"type": ["integer", "null"]}, "contains": NULL, "minItems": 2, "maxItems": 3}, ["[1, null]", "[null, 1, 2]"], ["[null]", "[1, 2]", '[null, "x"]', "[1, 2, 3, null]"]),
    ("contains nothing", {"type": "array", "contains": INTEGER, "minContains": 0}, ["[]", '["x"]'], ["7"]),
    ("uniqueItems of few values", {"type": "array", "items": {"enum": [1, "a", None]}, "uniqueItems": True, "minItems": 2}, ['[1, "a"]', '[null, 1.0, "a"]'], ["[1]", "[1, 1]", '["a", null, "a"]']),
    ("uniqueItems of small integers", {"items": {"type": "integer", "minimum": 1, "maximum": 6}, "uniqueItems": True}, ["[]", "[6, 1]"], ["[6, 6]", "[7]"]),
    ("uniqueItems of strings", {"items": STRING, "uniqueItems": True, "type": "array", "minItems": 2}, ['["", "a"]', '["b", "a", "ab"]'], ['["a", "a"]', '["a"]', '["a", 1]', '["b", "a", "b"]']),
    ("uniqueItems of a language", {"items": {"type": "string", "pattern": "^[ab]{1,2}$"}, "uniqueItems": True, "type": "array", "minItems": 6}, ['["a", "b", "aa", "ab", "ba", "bb"]'], ['["a", "b", "aa", "ab", "ba", "a"]', '["c"]']),
    ("uniqueItems of many strings", {"items": {"enum": [f"x{i}" for i in range(300)]}, "uniqueItems": True, "type": "array"}, ['["x1", "x299"]'], ['["x1", "x1"]', '["x300"]']),
    ("uniqueItems by type", {"prefixItems": [STRING, INTEGER], "items": False, "uniqueItems": True}, ['["x", 1]'], ['["x", "x"]']),
    ("items as a list", {**DRAFT7, "items": [INTEGER], "additionalItems": NULL}, ["[1, null]", "[]"], ["[1, 2]", "[null]"]),
    ("exclusive bounds as booleans", {**DRAFT4, "minimum": 1, "exclusiveMinimum": True, "maximum": 3, "exclusiveMaximum": False}, ["2", "3"], ["1", "4"]),
    ("nullable", {"type": "string", "nullable": True}, ['"x"', "null"], ["1"]),
    ("propertyNames", {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "minProperties": 1}, ['{"ab": 1}'], ["{}", '{"A": 1}', '{"ab": 1, "": 1}']),
    ("names that are listed", {"type": "object", "propertyNames": {"enum": ["a", "b"]}}, ["{}", '{"a": 1, "b": 2}'], ['{"c": 1}']),
    ("a pattern of few names", {"type": "object", "patternProperties": {"^(gz|raw)$": INTEGER}, "additionalProperties": False, "minProperties": 2}, ['{"gz": 1, "raw": 2}'], ['{"gz": 1}', '{"x": 1, "gz": 1}']),
    ("unevaluatedProperties", {"allOf": [{"properties": {"a": {}}}], "anyOf": [{"properties": {"b": INTEGER}, "required": ["b"]}, {"properties": {"c": INTEGER}, "required": ["c"]}], "unevaluatedProperties": False}, ['{"a": 1, "b": 1}', '{"b": 1, "c": 1}'], ['{"b": 1, "d": 1}', '{"b": 1, "c": "x"}']),
    ("unevaluatedProperties after if", {"if": {"required": ["a"], "properties": {"a": {}}}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}, "unevaluatedProperties": False}, ['{"a": 1, "b": 1}', '{"c": 1}'], ['{"a": 1, "c": 1}', '{"b": 1}']),
    ("unevaluatedItems", {"prefixItems": [INTEGER], "contains": NULL, "unevaluatedItems": STRING}, ["[1, null]", '[null, "x"]'[:0] or '[1, null, "x"]'], ["[1, 2, null]", '["x", null]']),
    ("an address within", {"$id": "http://x.example/root", "$ref": "item#/$defs/i", "$defs": {"q": {"$id": "item", "$defs": {"i": {"$ref": "#k"}, "k": {"$anchor": "k", "type": "integer"}}}}}, ["1"], ['"x"']),
    ("a dynamic reference", {"$id": "http://x.example/strict", "$ref": "tree", "$dynamicAnchor": "node", "unevaluatedProperties": False, "$defs": {"t": {"$id": "tree", "$dynamicAnchor": "node", "type": "object", "properties": {"kids": {"type": "array", "items": {"$dynamicRef": "#node"}}}}}}, ['{"kids": [{"kids": []}]}'], ['{"kids": [{"kid": []}]}', '{"x": 1}']),
    ("beside $ref in Draft 7", {**DRAFT7, "definitions": {"i": INTEGER}, "properties": {"a": {"$ref": "#/definitions/i", "minimum": 3}}}, ['{"a": 1}'], ['{"a": "x"}']),
    ("unknown formats", {"type": "string", "format": "url"}, ['"x"'], ["1"]),
    ("1 is not true", {"enum": [1, False]}, ["1", "1.0", "false"], ["true", "0"]),
    ("beside many branches", {"allOf": [{"anyOf": [{"minimum": i}, {"type": "string"}]} for i in range(12)]}, ["11", '"x"'], ["10"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "valid", "invalid"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_keywords(schema: Any, valid: list[str], invalid: list[str]) -> None:
    spec = planned(schema)
    assert [text for text in valid if not matches(spec, text)] == []
    assert [text for text in invalid if matches(spec, text)] == []


@pytest.mark.parametrize("schema", [row[1] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_cheapest_alternatives_are_as_short_as_promised(schema: Any) -> None:
    spec = planned(schema)
    text = shortest_text(spec, spec.root)
    assert len(text) <= spec.shortest(spec.root)
    assert matches(spec, text.decode())


def test_ascii() -> None:
    spec = planned({"type": "object", "properties": {"é": {"const": "ü"}}, "additionalProperties": STRING}, ascii=True)
    (plan,) = spec.alternatives(spec.root)
    ((goal, _),) = plan.slots[0].ways  # type: ignore[union-attr]
    assert spec.alternatives(goal)[0].texts == (rb'"\u00fc"',)  # type: ignore[union-attr]
    ((goal, _),) = plan.others[0].ways  # type: ignore[union-attr]
    automaton = spec.alternatives(goal)[0].automaton  # type: ignore[union-attr]
    assert automaton.matches(rb'\u00e9"')
    assert not automaton.matches('é"'.encode())


@pytest.mark.parametrize("name", sorted(FORMAT_NAMES))
def test_the_lengths_of_formats_are_known(name: str) -> None:
    assert len(format_automaton(name, "all").shortest()) == costs.SHORTEST[name]


@pytest.mark.parametrize("name", ["date", "uri", "regex", "email"])
def test_a_closing_quote_is_what_concatenation_makes(name: str) -> None:
    content = format_automaton(name, "all")
    assert closed(content).signature == content.then(Automaton.from_strings([b'"'])).signature
    assert quoted(String()).signature == closed(Automaton.from_table(*_any())).signature


def _any() -> tuple[Any, Any, Any]:
    from ctrlgen.constraints.schema.facts import any_content

    content = any_content()
    return content.next, content.accepting, content.boundary


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("requried", "required"), ("additionalproperties", "additionalProperties"), ("minlength", "minLength"),
        ("max_items", "maxItems"), ("item", "items"), ("propertes", "properties"), ("self", None), ("id", None),
        ("descprition", None), ("x-type", None), ("_format", None), ("name", None), ("version", None), ("Title", None),
    ],
)  # fmt: skip
def test_misspelt_keywords(name: str, meant: str | None) -> None:
    assert intended(name, KNOWN) == meant


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"items": {"uniqueItems": True}}, "/items", "uniqueItems"),
        ({"not": {"unevaluatedItems": False}}, "", "not"),
        ({"if": {"uniqueItems": True}, "then": NULL}, "", "if"),
        ({"oneOf": [{"uniqueItems": True}, {"type": "array"}]}, "", "oneOf"),
        ({"$ref": "http://x.example/other"}, "", "$ref"),
        ({"$defs": {"a": {"$anchor": "b"}}, "$ref": "#c"}, "", "$ref"),
        ({"allOf": [{"$ref": "#"}]}, "", "$ref"),
        ({"format": "idn-hostname"}, "", "format"),
        ({"patternProperties": {"(": {}}}, "/patternProperties/(", "pattern"),
        ({"minimum": "3"}, "", "minimum"),
    ],
)
def test_refusals(schema: Any, pointer: str, keyword: str) -> None:
    with pytest.raises(SchemaError) as caught:
        planned(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)
    planned({"anyOf": [NULL, {"type": "array"}]})


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"allOf": [{"const": 1}, {"not": {"const": 1}}]}, "nothing is left of #"),
        ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "minItems": 3}, "# allows nothing"),
        (
            {
                "type": "array",
                "items": {"type": "string", "pattern": "^[ab]{1,2}$"},
                "uniqueItems": True,
                "minItems": 7,
            },
            "# allows nothing",
        ),
        ({"type": "array", "items": STRING, "contains": INTEGER}, "# allows nothing"),
        (
            {"type": "object", "dependentRequired": {"a": ["b"]}, "required": ["a"], "maxProperties": 1},
            "# allows nothing",
        ),
        ({"type": "object", "not": {"additionalProperties": {}}}, "nothing is left of #"),
        ({"type": "object", "propertyNames": {"maxLength": 0}, "minProperties": 2}, "# allows nothing"),
    ],
)
def test_what_no_document_satisfies(schema: Any, why: str) -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        planned(schema)
    assert why in str(caught.value)


HOSTILE: dict[str, Any] = {
    "many items": {"type": "array", "minItems": 20_000},
    "branches beside branches": {"allOf": [{"anyOf": [{"required": [a + str(i)]} for a in "abc"]} for i in range(14)]},
    "one of each": {"allOf": [{"oneOf": [{"required": [a + str(i)]} for a in "abc"]} for i in range(14)]},
    "many counted items": {"type": "array", "contains": STRING, "minContains": 10_000, "minItems": 20_000},
    "many values": {"enum": [f"value {i}" for i in range(100_000)]},
    "many properties": {"properties": {f"p{i}": INTEGER for i in range(10_000)}, "required": ["p7"]},
    "many patterns": {"patternProperties": {f"a{i}.*b{i}": {"minimum": i} for i in range(20)}},
    "doubling references": {
        "$ref": "#/$defs/0",
        "$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}] * 2} for i in range(60)} | {"60": {}},
    },
    "a chain": {"$ref": "#/$defs/0", "$defs": {str(i): {"allOf": [{"$ref": f"#/$defs/{i + 1}"}]} for i in range(999)}},
    "nots": json.loads('{"not":' * 140 + "{}" + "}" * 140),
    "demands": {"allOf": [{"not": {"patternProperties": {c: STRING}}} for c in "abcdefgh"]},
    "tagged branches": {"oneOf": [{"properties": {"k": {"const": i}}, "required": ["k"], "type": "object"} for i in range(500)]},
    "branches that overlap": {"oneOf": [{"properties": {"k": INTEGER}, "required": [f"k{i}"]} for i in range(200)]},
    "many different strings": {"type": "array", "items": STRING, "uniqueItems": True, "minItems": 10**9},
    "strings that run out": {"type": "array", "items": {"type": "string", "format": "date"}, "uniqueItems": True, "minItems": 400},
    "depending members": {"dependentRequired": {f"a{i}": [f"a{i + 1}"] for i in range(500)}},
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_end_soon(name: str) -> None:
    begun = time.process_time()
    try:
        planned(HOSTILE[name])
    except CtrlgenError as error:
        assert isinstance(error, SchemaError | ComplexityError)
    assert time.process_time() - begun < 10
