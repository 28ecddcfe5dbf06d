"""A JSON Schema, or a Python type, as a specification."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.combined import Combinable
from ctrlgen.constraints.schema.compiling import Written, language, report, written
from ctrlgen.errors import InputError, SchemaError, SchemaWarning

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.constraints.schema.findings import Entry
    from ctrlgen.constraints.schema.network import KeyOrder, Whitespace
    from ctrlgen.constraints.schema.plans import Language
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True, init=False)
class JsonSchema(Combinable):
    """The text is a JSON document that a schema describes.

    All keywords are enforced exactly or refused here, before any model runs; ``docs/json_schema.md`` lists them.

    >>> spec = JsonSchema({"type": "array", "items": {"type": "integer"}, "maxItems": 3})
    >>> spec.parse("[1, 2]")
    [1, 2]

    Args:
        schema: a schema (dict, bool, or JSON text), a Pydantic model, or any type that Pydantic's TypeAdapter takes. Of
            a type only declared keys are written, unless it says extra="allow".
        whitespace: "line" allows one space after a colon or comma, "compact" none, "pretty" up to 20 blanks and line
            breaks between any two tokens.
        max_digits: most digits of a number before the point, and most after it; a longer bound extends it.
        strict: whether what cannot be enforced is refused; otherwise it is left out, and ``report`` says so.
        key_order: "declared" for declared members in the order of the schema and others after them, "any" for any.
        ensure_ascii: whether only ASCII is written, everything else as escapes.

    Raises:
        SchemaError: the schema cannot be enforced; says where, and what to write instead if there is something.
        UnsatisfiableError: no document satisfies it.
        ComplexityError: it reaches a limit.

    Warns:
        SchemaWarning: a keyword that nobody knows looks like a slip of the pen.
    """

    text: str
    whitespace: Whitespace
    max_digits: int
    strict: bool
    key_order: KeyOrder
    ensure_ascii: bool
    model: Any
    _written: Written = field(repr=False, compare=False)

    def __init__(
        self,
        schema: object,
        *,
        whitespace: Whitespace = "line",
        max_digits: int = 20,
        strict: bool = True,
        key_order: KeyOrder = "declared",
        ensure_ascii: bool = False,
    ) -> None:
        if whitespace not in ("compact", "line", "pretty"):
            raise InputError(f"whitespace must be 'compact', 'line' or 'pretty', not {whitespace!r}")
        if isinstance(max_digits, bool) or not isinstance(max_digits, int) or not 1 <= max_digits <= 1000:
            raise InputError(f"max_digits must be an integer from 1 to 1000, not {max_digits!r}")
        if key_order not in ("declared", "any"):
            raise InputError(f"key_order must be 'declared' or 'any', not {key_order!r}")
        model = None if isinstance(schema, dict | bool | str) else schema
        found = written(schema if model is None else schema_of(schema))
        for name, value in (
            ("text", found.text),
            ("_written", found),
            ("whitespace", whitespace),
            ("max_digits", max_digits),
            ("strict", strict),
            ("key_order", key_order),
            ("ensure_ascii", ensure_ascii),
            ("model", model),
        ):
            object.__setattr__(self, name, value)
        if slips := self._language().reader.slips:
            warnings.warn("; ".join(slips) + " (it restricts nothing)", SchemaWarning, stacklevel=2)

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

        return schema_network(
            network,
            self._language(),
            whitespace=self.whitespace,
            key_order=self.key_order,
            ensure_ascii=self.ensure_ascii,
        )

    def parse(self, text: str) -> Any:
        """The JSON value of ``text``, or the validated instance if a type was given.

        Raises:
            InputError: ``text`` is not JSON.
        """
        if not isinstance(text, str | bytes | bytearray):
            raise InputError(f"a JSON document is to be read, not {type(text).__name__}")
        if self.model is not None:
            return _adapter(self.model).validate_json(text)
        try:
            return json.loads(text)
        except ValueError as error:
            raise InputError(f"not a JSON document: {error}") from None

    def report(self) -> list[Entry]:
        """What becomes of each keyword: enforced, an annotation that restricts nothing, or not enforced."""
        return report(self._written, strict=self.strict)

    def _language(self) -> Language:
        return language(self._written, self.max_digits, self.strict, self.ensure_ascii)


def schema_report(schema: object, *, strict: bool = True) -> list[Entry]:
    """What becomes of each keyword of a schema, refused ones too.

    Raises:
        SchemaError: it is not JSON, or a reference leads nowhere.
    """
    return report(written(schema), strict=strict)


def schema_of(model: object) -> object:
    """The schema that Pydantic gives for a type."""
    from pydantic.errors import PydanticUserError

    try:
        return closed_schema(_adapter(model).json_schema())
    except (PydanticUserError, TypeError, NameError, AttributeError) as error:
        what = getattr(model, "__name__", None) or repr(model)
        raise SchemaError(f"Pydantic has no JSON Schema for {what}: {error}") from error


def closed_schema(schema: Any) -> Any:
    """Objects with declared keys and no word on others have no others: the type would ignore them."""
    if isinstance(schema, list):
        return [closed_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    # below these keywords stand values and names, not schemas
    kept = {"const", "enum", "default", "examples", "required"}
    named = {"properties", "$defs", "patternProperties"}
    closed = {
        keyword: {name: closed_schema(inner) for name, inner in part.items()}
        if keyword in named and isinstance(part, dict)
        else part
        if keyword in kept
        else closed_schema(part)
        for keyword, part in schema.items()
    }
    if "properties" in closed and "additionalProperties" not in closed:
        closed["additionalProperties"] = False
    return closed


def _adapter(model: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(model)
