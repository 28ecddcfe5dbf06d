"""A JSON Schema, or a Python type, as a specification."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.schema.document import Document, checked_copy, read_text, too_deep
from ctrlgen.constraints.schema.expansion import Expansion
from ctrlgen.constraints.schema.keywords import Entry, examine
from ctrlgen.constraints.schema.lengths import Lengths
from ctrlgen.errors import InputError, SchemaError

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.constraints.schema.network import Whitespace
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True, init=False)
class JsonSchema:
    """The text is a JSON document that a schema describes.

    Declared members come in the order they are declared, undeclared ones after them. All keywords are enforced
    exactly or refused here, before any model runs; ``docs/json_schema.md`` lists them.

    >>> spec = JsonSchema({"type": "array", "items": {"type": "integer"}, "maxItems": 3})
    >>> spec.parse("[1, 2]")
    [1, 2]

    Args:
        schema: a schema (dict, bool, or JSON text), a Pydantic model, or any type that Pydantic's TypeAdapter takes. Of
            a type only declared keys are written, unless it says extra="allow".
        whitespace: "line" allows one space after a colon or comma, "compact" none, "pretty" up to 20 blanks and line
            breaks between any two tokens.
        max_digits: most digits of a number before the point, and most after it; a longer bound extends it.
        strict: whether unknown keywords are refused; otherwise they are annotations, as the standard says.

    Raises:
        SchemaError: the schema cannot be enforced; says where, and what to write instead if there is something.
        UnsatisfiableError: no document satisfies it.
        ComplexityError: it reaches a limit.
    """

    text: str
    whitespace: Whitespace
    max_digits: int
    strict: bool
    model: Any

    def __init__(
        self,
        schema: object,
        *,
        whitespace: Whitespace = "line",
        max_digits: int = 20,
        strict: bool = True,
    ) -> None:
        if whitespace not in ("compact", "line", "pretty"):
            raise InputError(f"whitespace must be 'compact', 'line' or 'pretty', not {whitespace!r}")
        if isinstance(max_digits, bool) or not isinstance(max_digits, int) or not 1 <= max_digits <= 1000:
            raise InputError(f"max_digits must be an integer from 1 to 1000, not {max_digits!r}")
        model, copy = None, schema
        try:
            if isinstance(schema, str):
                copy = read_text(schema)
            elif not isinstance(schema, dict | bool):
                model, copy = schema, _schema_of(schema)
            copy = checked_copy(copy)
        except RecursionError:
            raise too_deep() from None
        if not isinstance(copy, dict | bool):
            raise SchemaError(f"a schema is an object, true or false, not {type(copy).__name__}")
        for name, value in (
            ("text", json.dumps(copy, ensure_ascii=False, separators=(",", ":"))),
            ("whitespace", whitespace),
            ("max_digits", max_digits),
            ("strict", strict),
            ("model", model),
        ):
            object.__setattr__(self, name, value)
        self._lengths()

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return f"JsonSchema({getattr(self.model, '__name__', None) or shown})"

    @property
    def schema(self) -> Any:
        """The schema as a JSON value, a new one each time."""
        return json.loads(self.text)

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        from ctrlgen.engine.compiled import compiled

        return compiled(self, vocabulary, self.build)

    def build(self, network: Network) -> int:
        """The start node of the schema in ``network``."""
        from ctrlgen.constraints.schema.network import schema_network

        return schema_network(network, self._lengths(), self.whitespace, self.max_digits)

    def parse(self, text: str) -> Any:
        """The JSON value of ``text``, or the validated instance if a type was given.

        Raises:
            InputError: ``text`` is not JSON.
        """
        if self.model is not None:
            return _adapter(self.model).validate_json(text)
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"not a JSON document: {error}") from None

    def report(self) -> list[Entry]:
        """What becomes of each keyword: enforced, or an annotation that restricts nothing."""
        return schema_report(self.schema, strict=self.strict)

    def _lengths(self) -> Lengths:
        return _prepared(self.text, self.max_digits, self.strict)


def schema_report(schema: object, *, strict: bool = True) -> list[Entry]:
    """What becomes of each keyword of a schema, refused ones too.

    Raises:
        SchemaError: it is not JSON, or a reference leads nowhere.
    """
    copy = checked_copy(read_text(schema) if isinstance(schema, str) else schema)
    return [entry for part, pointer in Document(copy).walk() for entry in examine(part, pointer, strict=strict)]


@lru_cache(256)
def _prepared(text: str, max_digits: int, strict: bool) -> Lengths:
    """Everything about a schema that does not depend on the vocabulary."""
    try:
        document = Document(json.loads(text))
        for part, pointer in document.walk():
            for entry in examine(part, pointer, strict=strict):
                if entry.status == "refused":
                    raise entry.error()
        return Lengths(Expansion(document), max_digits)
    except RecursionError:
        raise too_deep() from None


def _schema_of(model: object) -> object:
    """The schema that Pydantic gives for a type."""
    from pydantic.errors import PydanticUserError

    try:
        return _closed(_adapter(model).json_schema())
    except (PydanticUserError, TypeError, NameError, AttributeError) as error:
        what = getattr(model, "__name__", None) or repr(model)
        raise SchemaError(f"Pydantic has no JSON Schema for {what}: {error}") from error


def _closed(schema: Any) -> Any:
    """Objects with declared keys and no word on others have no others: the type would ignore them."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # below these keywords stand values and names, not schemas
    kept = {"const", "enum", "default", "examples", "required"}
    named = {"properties", "$defs", "patternProperties"}
    closed = {
        keyword: {name: _closed(inner) for name, inner in part.items()}
        if keyword in named
        else part
        if keyword in kept
        else _closed(part)
        for keyword, part in schema.items()
    }
    if "properties" in closed and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed


def _adapter(model: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(model)
