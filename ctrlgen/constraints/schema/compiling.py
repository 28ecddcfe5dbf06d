"""A schema as text -> its language; and what becomes of each keyword."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json, to_json

from ctrlgen.constraints.schema.document import MAX_DEPTH, checked_copy, read_text, too_deep
from ctrlgen.constraints.schema.findings import Entry
from ctrlgen.constraints.schema.plans import Language
from ctrlgen.constraints.schema.reading import Reader
from ctrlgen.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = Any

_BRACKETS = ("{", "[")


class Written(NamedTuple):
    """A schema as text, and its JSON values; equal if the texts are."""

    text: str
    root: Json

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def written(schema: object) -> Written:
    """A schema as JSON text and as a copy of its own.

    Args:
        schema: JSON values, or JSON text.

    Raises:
        SchemaError: it is not JSON, or no schema.
        ComplexityError: it is nested too deep, or too large.
    """
    try:
        copy = read_text(schema) if isinstance(schema, str) else schema
        found = _written(copy)
        if found is None:
            copy = checked_copy(copy)
            found = Written(to_json(copy).decode(), copy)
    except RecursionError:
        raise too_deep() from None
    if not isinstance(copy, dict | bool):
        raise SchemaError(f"a schema is an object, true or false, not {type(copy).__name__}")
    return found


def _written(value: Json) -> Written | None:
    """The text and a copy of plain JSON values, None if a closer look is needed."""
    try:
        encoded = to_json(value)  # in a third of the time that Python's own encoder takes
        copy = from_json(encoded, allow_inf_nan=False)
        text, same = encoded.decode(), bool(copy == value)
    except (TypeError, ValueError):
        return None
    flat = sum(map(text.count, _BRACKETS)) <= MAX_DEPTH or _shallow(value, MAX_DEPTH)
    return Written(text, copy) if same and flat else None


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
def language(schema: Written, max_digits: int, strict: bool, ensure_ascii: bool) -> Language:
    """The language of a schema, all that does not depend on a vocabulary.

    Args:
        schema: the schema as ``written`` writes it.
        max_digits: most digits of a number before the point, and after it.
        strict: whether what cannot be enforced is an error; else it is left out and noted.
        ensure_ascii: whether only ASCII is to be written.

    Raises:
        SchemaError: something cannot be enforced.
        UnsatisfiableError: no document satisfies the schema.
        ComplexityError: a limit was reached.
    """
    text, root = schema
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


def report(schema: Written, *, strict: bool = True) -> list[Entry]:
    """What becomes of each keyword of a schema, refused ones too.

    Args:
        schema: the schema as ``written`` writes it.
        strict: whether what cannot be enforced is refused, or left out.

    Raises:
        SchemaError: a schema refers to itself without reading anything.
        ComplexityError: a limit was reached.
    """
    text, root = schema
    dynamic = '"$dynamicRef"' in text or '"$recursiveRef"' in text
    if not strict:
        return language(schema, 20, False, False).reader.entries()
    reader = Reader(root, collect=True, dynamic=dynamic)
    try:
        language(schema, 20, True, False)
    except SchemaError as error:
        entry = _left_out(error)
        key = entry.pointer, entry.keyword
        reader.notes.setdefault(key, Entry(*key, "refused", entry.note, entry.rewrite))
    return reader.entries()
