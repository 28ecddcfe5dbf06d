"""A checked copy of a schema, and JSON pointers.

A schema comes from anywhere: Python objects with cycles, texts of any depth. The copy is finite JSON of bounded depth,
so everything behind it may recurse.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from ctrlgen.errors import ComplexityError, SchemaError

MAX_DEPTH = 150
"""Deepest nesting of a schema; also the longest chain of references that read nothing."""

MAX_VALUES = 2_000_000
"""Most values in a schema."""

MAX_NUMBER_DIGITS = 1_000

Json = Any


def too_deep() -> ComplexityError:
    """The error for a schema nested or chained beyond MAX_DEPTH."""
    return ComplexityError(
        f"the schema is nested, or chained by $ref, more than {MAX_DEPTH} deep (a fixed limit); "
        "flatten it, or move parts of it to $defs"
    )


def read_text(text: str) -> Json:
    """The value of a JSON text.

    Raises:
        SchemaError: it is not JSON, or a key is given twice in an object.
        ComplexityError: it is nested too deep.
    """

    def members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SchemaError(f"the key {twice!r} is given twice in one object")
        return found

    def constant(name: str) -> Json:
        raise SchemaError(f"{name} is not JSON")

    try:
        return json.loads(text, object_pairs_hook=members, parse_constant=constant)
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise SchemaError(f"the schema is not JSON: {error}") from None


def checked_copy(value: object) -> Json:
    """A copy of ``value`` made of dict, list, str, int, float, bool and None alone.

    Raises:
        SchemaError: something is not JSON; the pointer says where.
        ComplexityError: too deep or too large; a cycle is too deep.
    """
    left = MAX_VALUES

    def copy(value: object, pointer: str, depth: int) -> Json:
        nonlocal left
        left -= 1
        if depth > MAX_DEPTH:
            raise too_deep()
        if left < 0:
            raise ComplexityError(f"the schema has more than {MAX_VALUES} values (a fixed limit)")
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise SchemaError(f"the key {key!r} is not a string", pointer=pointer)
            return {_text(k, pointer): copy(v, below(pointer, k), depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [copy(item, below(pointer, i), depth + 1) for i, item in enumerate(value)]
        return _scalar(value, pointer)

    return copy(value, "", 0)


def _scalar(value: object, pointer: str) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, pointer)
    if isinstance(value, int):
        if value.bit_length() > 3.33 * MAX_NUMBER_DIGITS:
            raise SchemaError(f"a number of more than {MAX_NUMBER_DIGITS} digits", pointer=pointer)
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise SchemaError(f"{value} is not JSON", pointer=pointer)
        return float(value)
    raise SchemaError(f"{type(value).__name__} is not a JSON type", pointer=pointer)


def _text(text: str, pointer: str) -> str:
    try:
        return text.encode().decode()  # also turns members of string enumerations into plain strings
    except UnicodeEncodeError:
        raise SchemaError("a string holds a lone surrogate, which UTF-8 cannot write", pointer=pointer) from None


def below(pointer: str, key: str | int) -> str:
    """The pointer to a member or item.

    >>> below("/properties", "a/b")
    '/properties/a~1b'
    """
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
