"""The forms that a value may take: null, boolean, number, string, array, object, or one of given values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.schema.document import TYPES, format_pattern
from ctrlgen.constraints.schema.flat import Demand, alternatives

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.document import Document


@dataclass(frozen=True)
class Given:
    """One of these values, frozen: ("true",), ("array", ...), ("object", (name, value), ...), else as in JSON."""

    values: tuple[Any, ...]


@dataclass(frozen=True)
class Number:
    """A number; bounds are (value, excluded)."""

    integer: bool
    low: tuple[Decimal, bool] | None
    high: tuple[Decimal, bool] | None
    step: int


@dataclass(frozen=True)
class Text:
    """A string of ``least`` to ``most`` characters in which each of ``patterns`` (ECMA) is found."""

    least: int
    most: int | None
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Array:
    """An array: what is demanded of the first items, of all others, and how many there are."""

    prefix: tuple[Demand, ...]
    items: Demand
    least: int
    most: int | None


@dataclass(frozen=True)
class Object:
    """An object.

    Attributes:
        names: declared names in order, with what is demanded of their values.
        required: which of them must be there (each required name is in ``names``).
        layers: for names not declared: per subschema, (patterns with their demand, demand where none matches).
    """

    names: tuple[tuple[str, Demand], ...]
    required: frozenset[str]
    layers: tuple[tuple[tuple[tuple[str, Demand], ...], Demand], ...]
    least: int
    most: int | None


Shape = Given | Number | Text | Array | Object


def shapes(document: Document, demand: Demand) -> list[Shape]:
    """The shapes of a demand; a value satisfies it exactly if it is of one of them (empty ones may be among them)."""
    found: dict[Shape, None] = {}
    for alternative in alternatives(document, demand):
        for shape in _of_alternative(document, sorted(alternative)):
            found.setdefault(shape)
    return list(found)


def _of_alternative(document: Document, flat: list[int]) -> list[Shape]:
    schemas = [document.schemas[index] for index in flat]
    types = _types(schemas)
    given = [
        schema["enum"] if "enum" in schema else [schema["const"]]
        for schema in schemas
        if {"enum", "const"} & set(schema)
    ]
    if given:
        return _given(document, flat, schemas, given)
    out: list[Shape] = []
    if "null" in types:
        out.append(Given((None,)))
    if "boolean" in types:
        out.append(Given((("false",), ("true",))))
    if "number" in types or "integer" in types:
        out.append(_number(schemas, "number" not in types))
    if "string" in types:
        out.append(_text(schemas))
    if "array" in types:
        out.append(_array(document, flat))
    if "object" in types:
        out.append(_object(document, flat))
    return out


def _types(schemas: list[dict[str, Any]]) -> set[str]:
    types = set(TYPES)
    for schema in schemas:
        if "type" in schema:
            named = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
            types &= named | {"integer"} if "number" in named else named
    return types


def _given(document: Document, flat: list[int], schemas: list[dict[str, Any]], given: list[list[Any]]) -> list[Shape]:
    constants = [[schema["const"]] for schema in schemas if "const" in schema]
    kept: list[Any] = []
    for value in given[0]:
        everywhere = all(any(same(value, other) for other in values) for values in given[1:] + constants)
        if everywhere and not any(same(value, other) for other in kept) and _admits(document, flat, value):
            kept.append(value)
    return [Given(tuple(_frozen(value) for value in kept))] if kept else []


def _number(schemas: list[dict[str, Any]], integer: bool) -> Number:
    low: tuple[Decimal, bool] | None = None
    high: tuple[Decimal, bool] | None = None
    step = 1
    for schema in schemas:
        for keyword, excluded in (("minimum", False), ("exclusiveMinimum", True)):
            if keyword in schema and (low is None or (Decimal(schema[keyword]), excluded) > low):
                low = (Decimal(schema[keyword]), excluded)
        for keyword, excluded in (("maximum", False), ("exclusiveMaximum", True)):
            if keyword in schema and (
                high is None or (Decimal(schema[keyword]), not excluded) < (high[0], not high[1])
            ):
                high = (Decimal(schema[keyword]), excluded)
        if "multipleOf" in schema:
            step, integer = math.lcm(step, int(schema["multipleOf"])), True
    return Number(integer, low, high, step)


def _text(schemas: list[dict[str, Any]]) -> Text:
    patterns = {schema["pattern"] for schema in schemas if "pattern" in schema}
    patterns |= {format_pattern(schema["format"]) for schema in schemas if "format" in schema}
    return Text(_least(schemas, "minLength"), _most(schemas, "maxLength"), tuple(sorted(patterns)))


def _array(document: Document, flat: list[int]) -> Array:
    schemas = [document.schemas[index] for index in flat]
    length = max(len(schema.get("prefixItems", ())) for schema in schemas) if schemas else 0
    prefix = tuple(frozenset().union(*(_item(document, index, i) for index in flat)) for i in range(length))
    items: Demand = frozenset().union(*(_item(document, index, None) for index in flat))
    return Array(prefix, items, _least(schemas, "minItems"), _most(schemas, "maxItems"))


def _item(document: Document, index: int, place: int | None) -> Demand:
    schema = document.schemas[index]
    if place is not None and place < len(schema.get("prefixItems", ())):
        return frozenset((document.child(index, "prefixItems", str(place)),))
    return frozenset((document.child(index, "items"),)) if "items" in schema else frozenset()


def _object(document: Document, flat: list[int]) -> Object:
    schemas = [document.schemas[index] for index in flat]
    names = dict.fromkeys(name for schema in schemas for name in schema.get("properties", ()))
    required = dict.fromkeys(name for schema in schemas for name in schema.get("required", ()))
    layers = tuple(_layer(document, index) for index in flat)
    demands = tuple(
        (
            name,
            frozenset().union(
                *(_demand(document, index, layer, name) for index, layer in zip(flat, layers, strict=True))
            ),
        )
        for name in (*names, *(name for name in required if name not in names))
    )
    return Object(
        demands, frozenset(required), layers, _least(schemas, "minProperties"), _most(schemas, "maxProperties")
    )


def _layer(document: Document, index: int) -> tuple[tuple[tuple[str, Demand], ...], Demand]:
    schema = document.schemas[index]
    patterns = tuple(
        (pattern, frozenset((document.child(index, "patternProperties", pattern),)))
        for pattern in schema.get("patternProperties", ())
    )
    other = (
        frozenset((document.child(index, "additionalProperties"),)) if "additionalProperties" in schema else frozenset()
    )
    return patterns, other


def _demand(document: Document, index: int, layer: tuple[tuple[tuple[str, Demand], ...], Demand], name: str) -> Demand:
    """What one subschema demands of the value of ``name``."""
    patterns, other = layer
    declared = name in document.schemas[index].get("properties", ())
    found = [demand for pattern, demand in patterns if matches(pattern, name)]
    if declared:
        found.append(frozenset((document.child(index, "properties", name),)))
    return frozenset().union(*found) if found else other


def _least(schemas: list[dict[str, Any]], keyword: str) -> int:
    return max((int(schema[keyword]) for schema in schemas if keyword in schema), default=0)


def _most(schemas: list[dict[str, Any]], keyword: str) -> int | None:
    return min((int(schema[keyword]) for schema in schemas if keyword in schema), default=None)


def matches(pattern: str, text: str) -> bool:
    """Whether an ECMA expression is found in a text."""
    from ctrlgen.grammars.regex import compile_regex

    return compile_regex(pattern, dialect="ecma", search=True).matches(text.encode())


def same(a: Any, b: Any) -> bool:
    """Equality as JSON Schema has it: 1 equals 1.0, true does not equal 1."""
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    numbers = type(a) in (int, Decimal) and type(b) in (int, Decimal)
    return (numbers or type(a) is type(b) is str) and bool(a == b)


def _frozen(value: Any) -> Any:
    """A hashable form of a JSON value: lists as ("array", ...), dicts as ("object", (name, value), ...)."""
    if isinstance(value, list):
        return ("array", *map(_frozen, value))
    if isinstance(value, dict):
        return ("object", *((name, _frozen(part)) for name, part in value.items()))
    # a type beside the value, since True == 1 and would be the same key
    return value if not isinstance(value, bool) else ("true",) if value else ("false",)


def _admits(document: Document, flat: list[int], value: Any) -> bool:
    """Whether a value satisfies the own keywords of flat subschemas (enum and const left out)."""
    schemas = [document.schemas[index] for index in flat]
    types = _types(schemas)
    if value is None or isinstance(value, bool):
        return ("null" if value is None else "boolean") in types
    if isinstance(value, int | Decimal):
        return ("number" in types or ("integer" in types and value == int(value))) and _number_admits(
            schemas, Decimal(value)
        )
    if isinstance(value, str):
        text = _text(schemas)
        length = len(value)
        fits = length >= text.least and (text.most is None or length <= text.most)
        return "string" in types and fits and all(matches(pattern, value) for pattern in text.patterns)
    if isinstance(value, list):
        array = _array(document, flat)
        fits = len(value) >= array.least and (array.most is None or len(value) <= array.most)
        demands = [array.prefix[i] if i < len(array.prefix) else array.items for i in range(len(value))]
        return "array" in types and fits and all(admits(document, d, v) for d, v in zip(demands, value, strict=True))
    return "object" in types and _object_admits(document, flat, value)


def _number_admits(schemas: list[dict[str, Any]], value: Decimal) -> bool:
    number = _number(schemas, False)
    if number.low is not None and (value < number.low[0] or (number.low[1] and value == number.low[0])):
        return False
    if number.high is not None and (value > number.high[0] or (number.high[1] and value == number.high[0])):
        return False
    return not number.integer or value % number.step == 0


def _object_admits(document: Document, flat: list[int], value: dict[str, Any]) -> bool:
    shape = _object(document, flat)
    if not shape.required <= value.keys() or len(value) < shape.least:
        return False
    if shape.most is not None and len(value) > shape.most:
        return False
    layers = list(zip(flat, shape.layers, strict=True))
    return all(
        admits(document, frozenset().union(*(_demand(document, i, layer, name) for i, layer in layers)), part)
        for name, part in value.items()
    )


def admits(document: Document, demand: Demand, value: Any) -> bool:
    """Whether a JSON value satisfies a demand."""
    for alternative in alternatives(document, demand):
        flat = sorted(alternative)
        schemas = [document.schemas[index] for index in flat]
        given = [s["enum"] for s in schemas if "enum" in s] + [[s["const"]] for s in schemas if "const" in s]
        if all(any(same(value, other) for other in values) for values in given) and _admits(document, flat, value):
            return True
    return False
