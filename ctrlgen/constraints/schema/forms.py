"""What the value of each keyword must look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ctrlgen.constraints.schema.quotes import is_quote

Json = Any
Form = tuple[Callable[[Json], bool], str]
"""A test, and what it expects in words."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_TYPES = frozenset(TYPES)
# values come from JSON, so their classes are exactly these
_OF_SCHEMAS, _OF_NAMES = frozenset((dict, bool)), frozenset((str,))


def is_number(value: Json) -> bool:
    """Whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Json) -> bool:
    return is_number(value) and value >= 0 and value == int(value)


def is_schema(value: Json) -> bool:
    """Whether a JSON value may be a schema."""
    return value.__class__ in _OF_SCHEMAS


def _are_schemas(value: Json) -> bool:
    return isinstance(value, list) and len(value) > 0 and _OF_SCHEMAS.issuperset(map(type, value))


def _are_named_schemas(value: Json) -> bool:
    return isinstance(value, dict) and _OF_SCHEMAS.issuperset(map(type, value.values()))


def are_names(value: Json) -> bool:
    """Whether a JSON value is a list of strings."""
    return isinstance(value, list) and _OF_NAMES.issuperset(map(type, value))


def _are_types(value: Json) -> bool:
    if isinstance(value, str):
        return value in _TYPES
    names = value if isinstance(value, list) else [value]
    return len(names) > 0 and all(isinstance(name, str) and name in TYPES for name in names)


def _is_string(value: Json) -> bool:
    return isinstance(value, str)


def _is_bool(value: Json) -> bool:
    return isinstance(value, bool)


def _lists_of_names(value: Json) -> bool:
    return isinstance(value, dict) and all(map(are_names, value.values()))


def _are_dependencies(value: Json) -> bool:
    return isinstance(value, dict) and all(are_names(v) or is_schema(v) or _is_string(v) for v in value.values())


_COUNT: Form = (_is_count, "an integer of at least 0")
_NUMBER: Form = (is_number, "a number")
_BOUND: Form = (lambda value: isinstance(value, bool) or is_number(value), "a number, or in Draft 4 true or false")
_SCHEMA: Form = (is_schema, "a schema")
_SCHEMAS: Form = (_are_schemas, "a list of at least one schema")
_BY_NAME: Form = (_are_named_schemas, "an object whose values are schemas")
_STRING: Form = (_is_string, "a string")
_BOOL: Form = (_is_bool, "true or false")

FORMS: dict[str, Form] = {
    "type": (_are_types, f"one of {', '.join(TYPES)}, or a list of these"),
    "nullable": _BOOL,
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "const": (lambda value: True, "any value"),
    "$ref": _STRING,
    "$dynamicRef": _STRING,
    "$recursiveRef": (lambda value: value == "#", '"#"'),
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "not": _SCHEMA,
    "if": _SCHEMA,
    "then": _SCHEMA,
    "else": _SCHEMA,
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "exclusiveMinimum": _BOUND,
    "exclusiveMaximum": _BOUND,
    "multipleOf": (lambda value: is_number(value) and value > 0, "a number above 0"),
    "minLength": _COUNT,
    "maxLength": _COUNT,
    "pattern": (_is_string, "a regular expression"),
    "format": _STRING,
    "x-quote": (is_quote, "what cg.Quote makes: context, and unit, least, most"),
    "prefixItems": _SCHEMAS,
    "items": (lambda value: is_schema(value) or (isinstance(value, list) and all(map(is_schema, value))), "a schema"),
    "additionalItems": _SCHEMA,
    "minItems": _COUNT,
    "maxItems": _COUNT,
    "uniqueItems": _BOOL,
    "contains": _SCHEMA,
    "minContains": _COUNT,
    "maxContains": _COUNT,
    "unevaluatedItems": _SCHEMA,
    "properties": _BY_NAME,
    "patternProperties": _BY_NAME,
    "additionalProperties": _SCHEMA,
    "propertyNames": _SCHEMA,
    "required": (are_names, "a list of strings"),
    "minProperties": _COUNT,
    "maxProperties": _COUNT,
    "dependentRequired": (_lists_of_names, "an object whose values are lists of strings"),
    "dependentSchemas": _BY_NAME,
    "dependencies": (_are_dependencies, "an object whose values are schemas or lists of strings"),
    "unevaluatedProperties": _SCHEMA,
    "discriminator": (
        lambda value: isinstance(value, dict) and isinstance(value.get("propertyName"), str),
        'an object with a string "propertyName"',
    ),
}
"""The keywords that restrict something."""

KNOWN = frozenset(FORMS)


def shown(value: Json) -> str:
    """A value as it stands in messages."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
