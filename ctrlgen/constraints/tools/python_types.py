"""Schemas whose types are those of Python or of other languages, as in collections of function calls.

``dict`` is an object, ``float`` a number, ``tuple`` and ``list`` arrays, ``any`` anything; see ``TYPES``. Names of
types are changed where schemas stand, never in values or among names of members.
"""

from __future__ import annotations

from typing import Any

TYPES = {
    "dict": "object",
    "hashmap": "object",
    "float": "number",
    "double": "number",
    "int": "integer",
    "long": "integer",
    "short": "integer",
    "byte": "integer",
    "bigint": "integer",
    "list": "array",
    "tuple": "array",
    "set": "array",
    "arraylist": "array",
    "str": "string",
    "char": "string",
    "bool": "boolean",
    "none": "null",
    "any": None,
} | {name: name for name in ("object", "array", "string", "number", "integer", "boolean", "null")}
"""The JSON type of each name, in lower case; None for any value."""

_VALUES = ("const", "enum", "default", "examples", "required")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


def with_json_types(schema: Any) -> Any:
    """A schema, or list of schemas, with the names of types that JSON Schema has."""
    if isinstance(schema, list):
        return [with_json_types(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "type":
            if (found := _type(value)) is not None:
                made[keyword] = found
        elif keyword in _NAMED and isinstance(value, dict):
            made[keyword] = {name: with_json_types(one) for name, one in value.items()}
        else:
            made[keyword] = value if keyword in _VALUES else with_json_types(value)
    return made


def _type(value: Any) -> Any:
    """A name of a type, or a list of them; None for any value."""
    if isinstance(value, list):
        several = [_type(one) for one in value]
        return None if None in several else list(dict.fromkeys(several))
    return TYPES.get(value.lower(), value) if isinstance(value, str) else value
