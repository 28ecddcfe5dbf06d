"""What each keyword must look like, and which keywords are refused, with what to write instead."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ctrlgen.constraints.schema.formats import FORMATS
from ctrlgen.errors import SchemaError

Json = Any
Status = Literal["enforced", "annotation", "refused"]

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


@dataclass(frozen=True)
class Entry:
    """What becomes of one keyword.

    Args:
        pointer: the schema it stands in.
        keyword: its name.
        status: "enforced", "annotation" (it restricts nothing) or "refused".
        note: why it is refused, or how it is read.
        rewrite: what to write instead of a refused one, if there is something.
    """

    pointer: str
    keyword: str
    status: Status
    note: str = ""
    rewrite: str | None = None

    def error(self) -> SchemaError:
        """The error for a refused keyword."""
        return SchemaError(self.note, pointer=self.pointer, keyword=self.keyword, rewrite=self.rewrite)


# Where schemas stand within a schema

_SCHEMA = ("items", "additionalProperties")
_LIST = ("prefixItems", "allOf", "anyOf", "oneOf")
_MAP = ("properties", "patternProperties")
_DEFINITIONS = ("$defs", "definitions")


def subschemas(schema: dict[str, Json], *, definitions: bool) -> Iterator[tuple[tuple[str | int, ...], Json]]:
    """(path, schema) for each schema directly below ``schema``, those of ``$defs`` if asked for."""
    for keyword, value in schema.items():
        if keyword in _SCHEMA and isinstance(value, dict | bool):
            yield (keyword,), value
        elif keyword in _LIST and isinstance(value, list):
            yield from (((keyword, i), item) for i, item in enumerate(value) if isinstance(item, dict | bool))
        elif (keyword in _MAP or (definitions and keyword in _DEFINITIONS)) and isinstance(value, dict):
            yield from (((keyword, name), item) for name, item in value.items() if isinstance(item, dict | bool))


# Forms. Each says in its name what is expected; the message is built from it.


def is_number(value: Json) -> bool:
    """Whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def _schema(value: Json) -> bool:
    return isinstance(value, dict | bool)


def _schemas(value: Json) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_schema, value))


def _schema_map(value: Json) -> bool:
    return isinstance(value, dict) and all(map(_schema, value.values()))


def _names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _types(value: Json) -> bool:
    names = value if isinstance(value, list) else [value]
    return len(names) > 0 and all(isinstance(name, str) and name in TYPES for name in names)


def _string(value: Json) -> bool:
    return isinstance(value, str)


def _discriminator(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("propertyName"), str)


_Form = tuple[Callable[[Json], bool], str]
_COUNT: _Form = (_count, "an integer of at least 0")
_NUMBER: _Form = (is_number, "a number")
_LIST_OF_SCHEMAS: _Form = (_schemas, "a list of at least one schema")
_MAP_OF_SCHEMAS: _Form = (_schema_map, "an object whose values are schemas")

ENFORCED: dict[str, _Form] = {
    "type": (_types, f"one of {', '.join(TYPES)}, or a list of these"),
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "const": (lambda value: True, "any value"),
    "$ref": (_string, "a string"),
    "allOf": _LIST_OF_SCHEMAS,
    "anyOf": _LIST_OF_SCHEMAS,
    "oneOf": _LIST_OF_SCHEMAS,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _NUMBER,
    "exclusiveMaximum": _NUMBER,
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number above 0"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": (_string, "a regular expression"),
    "format": (_string, "a string"),
    "prefixItems": _LIST_OF_SCHEMAS,
    "items": (_schema, "a schema"),
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "properties": _MAP_OF_SCHEMAS,
    "patternProperties": _MAP_OF_SCHEMAS,
    "additionalProperties": (_schema, "a schema"),
    "required": (_names, "a list of strings"),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "discriminator": (_discriminator, 'an object with a string "propertyName"'),
}

ANNOTATIONS = frozenset(
    {"$schema", "$id", "id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default"}
    | {"example", "examples", "deprecated", "readOnly", "writeOnly", "externalDocs", "xml"}
    | {"contentEncoding", "contentMediaType", "contentSchema"}
)

_LATER = "this keyword cannot be enforced yet"
_REFUSED: dict[str, tuple[str, str | None]] = {
    "not": (_LATER, "list what is allowed (enum, anyOf) instead of what is not"),
    "if": (_LATER, '{"anyOf": [...]} with one branch for each case, told apart by const'),
    "then": ("it only means something beside if, which cannot be enforced yet", None),
    "else": ("it only means something beside if, which cannot be enforced yet", None),
    "dependentRequired": (_LATER, '{"anyOf": [{"properties": {KEY: false}}, {"required": [KEY, OTHER]}]}'),
    "dependentSchemas": (_LATER, '{"anyOf": [{"properties": {KEY: false}}, {"required": [KEY], ...SCHEMA}]}'),
    "dependencies": (_LATER, '{"anyOf": [{"properties": {KEY: false}}, {"required": [KEY, OTHER]}]}'),
    "propertyNames": (_LATER, '{"patternProperties": {PATTERN: SCHEMA}, "additionalProperties": false}'),
    "contains": (_LATER, "prefixItems, if the item has a known place"),
    "minContains": ("it only means something beside contains, which cannot be enforced yet", None),
    "maxContains": ("it only means something beside contains, which cannot be enforced yet", None),
    "additionalItems": ("it was replaced in Draft 2020-12", '"items", beside "prefixItems" for the first items'),
    "unevaluatedItems": (_LATER, '"items", in each branch'),
    "unevaluatedProperties": (_LATER, '"additionalProperties", with all properties in the same schema'),
    "$dynamicRef": (_LATER, '"$ref"'),
    "$dynamicAnchor": (_LATER, '"$anchor"'),
    "$recursiveRef": (_LATER, '"$ref"'),
    "$recursiveAnchor": (_LATER, '"$anchor"'),
    "$vocabulary": (_LATER, None),
}


def examine(schema: Json, pointer: str, *, strict: bool) -> Iterator[Entry]:
    """What becomes of each keyword of one schema (not of those below it)."""
    if isinstance(schema, bool):
        return
    for keyword, value in schema.items():
        if keyword in ("$id", "id") and pointer and isinstance(value, str) and not value.startswith("#"):
            yield _address(schema, keyword, pointer)
        else:
            yield _entry(keyword, value, pointer, strict)


def _address(schema: dict[str, Json], keyword: str, pointer: str) -> Entry:
    """A schema below the root with an address of its own, which changes what the references in it mean."""
    if '"$ref"' not in json.dumps(schema):
        return Entry(pointer, keyword, "annotation")
    note = "references within a schema that has an address of its own are not followed"
    return Entry(pointer, keyword, "refused", note, 'no address here, and "$ref": "#/..." from the root')


def _entry(keyword: str, value: Json, pointer: str, strict: bool) -> Entry:
    special = _special(keyword, value, pointer)
    if special is not None:
        return special
    if keyword in ENFORCED:
        fits, expected = ENFORCED[keyword]
        if not fits(value):
            return Entry(pointer, keyword, "refused", f"expected {expected}, not {_shown(value)}")
        return Entry(pointer, keyword, "enforced")
    if keyword in _REFUSED:
        note, rewrite = _REFUSED[keyword]
        return Entry(pointer, keyword, "refused", note, rewrite)
    if keyword in ANNOTATIONS or keyword.startswith("x-"):
        return Entry(pointer, keyword, "annotation")
    if not strict:
        return Entry(pointer, keyword, "annotation", "unknown keyword")
    return Entry(
        pointer,
        keyword,
        "refused",
        "unknown keyword; is it misspelt?",
        f'"x-{keyword}", or JsonSchema(..., strict=False) to take all unknown keywords for annotations',
    )


def _special(keyword: str, value: Json, pointer: str) -> Entry | None:
    """Values that older drafts and OpenAPI give a meaning of their own."""
    if keyword == "items" and isinstance(value, list):
        return Entry(pointer, keyword, "refused", "a list here was replaced in Draft 2020-12", '"prefixItems"')
    if keyword in ("exclusiveMinimum", "exclusiveMaximum") and isinstance(value, bool):
        bound = "minimum" if keyword == "exclusiveMinimum" else "maximum"
        note = "expected a number; true and false were replaced in Draft 6"
        return Entry(pointer, keyword, "refused", note, f'"{keyword}": BOUND, and no "{bound}"')
    if keyword == "nullable":
        if value is False:
            return Entry(pointer, keyword, "annotation")
        return Entry(pointer, keyword, "refused", "OpenAPI 3.0, not JSON Schema", '"type": [TYPE, "null"]')
    if keyword == "uniqueItems":
        if value is False:
            return Entry(pointer, keyword, "annotation")
        return Entry(pointer, keyword, "refused", _LATER)
    if keyword == "format" and isinstance(value, str) and value not in FORMATS:
        known = ", ".join(sorted(FORMATS))
        return Entry(pointer, keyword, "refused", f"{value!r} is none of the formats {known}", '"pattern"')
    return None


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
