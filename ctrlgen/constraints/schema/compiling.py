"""A schema as text -> its language; and what becomes of each keyword."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.schema.document import MAX_DEPTH, checked_copy, read_text, too_deep
from ctrlgen.constraints.schema.findings import Entry
from ctrlgen.constraints.schema.plans import Language
from ctrlgen.constraints.schema.reading import Reader
from ctrlgen.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = Any

_BRACKETS = ("{", "[")
_PLAIN = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def canonical_text(schema: object) -> str:
    """The JSON text of a schema.

    Args:
        schema: JSON values, or JSON text.

    Raises:
        SchemaError: it is not JSON, or no schema.
        ComplexityError: it is nested too deep, or too large.
    """
    try:
        copy = read_text(schema) if isinstance(schema, str) else schema
        text = _written(copy)
        if text is None:
            copy = checked_copy(copy)
            text = json.dumps(copy, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise too_deep() from None
    if not isinstance(copy, dict | bool):
        raise SchemaError(f"a schema is an object, true or false, not {type(copy).__name__}")
    return text


def _written(value: Json) -> str | None:
    """The text of plain JSON values, None if a closer look is needed."""
    try:
        text = _PLAIN.encode(value)
        text.encode()
        same = bool(json.loads(text) == value)
    except (TypeError, ValueError):
        return None
    return text if same and (sum(map(text.count, _BRACKETS)) <= MAX_DEPTH or _shallow(value, MAX_DEPTH)) else None


def _shallow(value: Json, depth: int) -> bool:
    """Whether values are nested at most ``depth`` deep."""
    level: list[Json] = [value]
    while level and depth >= 0:
        level = [inner for outer in level for inner in _containers(outer)]
        depth -= 1
    return not level


def _containers(value: Json) -> Iterable[Json]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [inner for inner in inside if isinstance(inner, dict | list | tuple)]


@lru_cache(256)
def language(text: str, max_digits: int, strict: bool, ensure_ascii: bool) -> Language:
    """The language of a schema, all that does not depend on a vocabulary.

    Args:
        text: the schema as ``canonical_text`` writes it.
        max_digits: most digits of a number before the point, and after it.
        strict: whether what cannot be enforced is an error; else it is left out and noted.
        ensure_ascii: whether only ASCII is to be written.

    Raises:
        SchemaError: something cannot be enforced.
        UnsatisfiableError: no document satisfies the schema.
        ComplexityError: a limit was reached.
    """
    root = json.loads(text)
    dynamic = '"$dynamicRef"' in text or '"$recursiveRef"' in text
    dropped: dict[tuple[str, str], Entry] = {}
    try:
        while True:
            try:
                reader = Reader(root, strict=strict, dropped=dropped, dynamic=dynamic)
                return Language(reader, max_digits=max_digits, ensure_ascii=ensure_ascii)
            except SchemaError as error:
                entry = _left_out(error)
                if strict or (entry.pointer, entry.keyword) in dropped:
                    raise
                dropped[entry.pointer, entry.keyword] = entry
    except RecursionError:
        raise too_deep() from None


def _left_out(error: SchemaError) -> Entry:
    message = str(error).partition(": ")[2].partition("\n")[0]
    return Entry(error.pointer, error.keyword or "", "not enforced", message, error.rewrite)


def report(text: str, *, strict: bool = True) -> list[Entry]:
    """What becomes of each keyword of a schema, refused ones too.

    Args:
        text: the schema as ``canonical_text`` writes it.
        strict: whether what cannot be enforced is refused, or left out.

    Raises:
        SchemaError: a schema refers to itself without reading anything.
        ComplexityError: a limit was reached.
    """
    dynamic = '"$dynamicRef"' in text or '"$recursiveRef"' in text
    if not strict:
        return language(text, 20, False, False).reader.entries()
    reader = Reader(json.loads(text), collect=True, dynamic=dynamic)
    try:
        language(text, 20, True, False)
    except SchemaError as error:
        entry = _left_out(error)
        key = entry.pointer, entry.keyword
        reader.notes.setdefault(key, Entry(*key, "refused", entry.note, entry.rewrite))
    return reader.entries()
