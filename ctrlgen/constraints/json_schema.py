"""A JSON Schema, or a Python type that has one, as a specification."""

from __future__ import annotations

import dataclasses
import itertools
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.constraints.schema.cost import IMPOSSIBLE, Costs
from ctrlgen.constraints.schema.document import Document
from ctrlgen.constraints.schema.writing import Whitespace, Writer
from ctrlgen.errors import InputError, SchemaError, UnsatisfiableError

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary

STYLES = ("compact", "line", "pretty")


class Row(NamedTuple):
    """A line of ``JsonSchema.report``: a keyword, where it stands, and what becomes of it."""

    pointer: str
    keyword: str
    status: str
    """"enforced" or "annotation"; a keyword that is refused raises SchemaError when the schema is read."""


@dataclasses.dataclass(frozen=True, init=False, eq=False)
class JsonSchema:
    """The text is one JSON document that satisfies a schema.

    >>> schema = JsonSchema({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    >>> schema.parse('{"n": 3}')
    {'n': 3}

    Every keyword is enforced or refused; ``docs/json_schema.md`` lists them. Declared keys come in the order of the
    schema, optional ones may be left out, other keys (where they are allowed) come last. No declared key comes twice.

    Args:
        schema: a schema as a dict, a bool or JSON text; a Pydantic model; or a dataclass, TypedDict or other type that
            pydantic's TypeAdapter takes. Of a type only declared keys are written, unless it says extra="allow".
        whitespace: "line" (one blank may follow each comma and colon), "compact" (no blanks) or "pretty" (up to 20
            blanks, tabs and line ends between all parts).
        max_digits: most digits of a number before the decimal point, and after it.

    Raises:
        SchemaError: something in the schema cannot be enforced, or is no schema.
        UnsatisfiableError: no document satisfies it.
        ComplexityError: it takes too many states.
    """

    text: str
    whitespace: Whitespace
    max_digits: int
    model: Any = dataclasses.field(repr=False)

    def __init__(self, schema: Any, *, whitespace: Whitespace = "line", max_digits: int = 20) -> None:
        if whitespace not in STYLES:
            raise InputError(f"whitespace must be one of {', '.join(STYLES)}, not {whitespace!r}")
        if isinstance(max_digits, bool) or not isinstance(max_digits, int) or not 1 <= max_digits <= 1000:
            raise InputError(f"max_digits must be a whole number from 1 to 1000, not {max_digits!r}")
        text, model = _read(schema)
        for name, value in (("text", text), ("whitespace", whitespace), ("max_digits", max_digits), ("model", model)):
            object.__setattr__(self, name, value)
        costs = _costs(text, max_digits)
        if costs.cost(_root(costs)) >= IMPOSSIBLE:
            raise UnsatisfiableError(
                "no JSON document of finite length satisfies this schema: look for a required key whose schema is "
                "false or contradicts another, bounds that cross, an empty enum, or a reference with no way out"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JsonSchema) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.text, self.whitespace, self.max_digits, id(self.model)

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        from ctrlgen.engine.compiled import compiled

        return compiled(("json", self.text, self.whitespace, self.max_digits), vocabulary, self.build)

    def build(self, network: Network) -> int:
        """The start node of the schema in ``network``."""
        costs = _costs(self.text, self.max_digits)
        return Writer(network, costs, self.whitespace).value(_root(costs))

    def parse(self, text: str) -> Any:
        """The JSON value of a text, or the model's instance where a model was given."""
        if self.model is not None:
            return self.model.validate_json(text)
        return json.loads(text)

    def report(self) -> list[Row]:
        """What becomes of each keyword, in the order of the pointers."""
        rows = [Row(f"#{pointer}", keyword, status) for pointer, keyword, status in Document(self.text).rows]
        return sorted(rows, key=lambda row: (row.pointer, row.keyword))


def _root(costs: Costs) -> frozenset[int]:
    return frozenset((costs.document.at(""),))


@lru_cache(maxsize=64)
def _costs(text: str, max_digits: int) -> Costs:
    try:
        costs = Costs(Document(text), max_digits)
        _check_one_of(costs)
        return costs
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None


def _check_one_of(costs: Costs) -> None:
    """Exactly one branch of oneOf: enforced where no value satisfies two of them, else refused."""
    document = costs.document
    for index, schema in enumerate(list(document.schemas)):
        if not isinstance(schema, dict) or "oneOf" not in schema:
            continue
        branches = [document.child(index, "oneOf", str(i)) for i in range(len(schema["oneOf"]))]
        for (i, a), (j, b) in itertools.combinations(enumerate(branches), 2):
            if costs.cost(frozenset((a, b))) < IMPOSSIBLE:
                raise SchemaError(
                    f"a value may satisfy branch {i} and branch {j}; it must be refused then, which is not enforced",
                    pointer=document.pointers[index],
                    keyword="oneOf",
                    rewrite="anyOf, if such values are fine; else make the branches exclude each other",
                )


def _read(schema: Any) -> tuple[str, Any]:
    """The schema as JSON text, and pydantic's adapter where a Python type was given."""
    model = None
    if isinstance(schema, str):
        schema = _from_text(schema)
    elif not isinstance(schema, dict | bool):
        schema, model = _from_type(schema)
    try:
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        text.encode()
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except UnicodeEncodeError:
        raise SchemaError("the schema has a lone surrogate, which no valid text contains") from None
    except (ValueError, TypeError) as error:
        raise SchemaError(f"this is not JSON: {error}") from None
    return text, model


def _from_text(text: str) -> Any:
    try:
        schema = json.loads(text)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None
    except json.JSONDecodeError as error:
        from ctrlgen.errors import caret

        line = text.splitlines()[error.lineno - 1] if text.strip() else ""
        raise SchemaError(
            f"this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}\n"
            f"{caret(line, error.colno - 1)}"
        ) from None
    if not isinstance(schema, dict | bool):
        raise SchemaError("a schema is an object, true or false")
    return schema


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


def _from_type(kind: Any) -> tuple[Any, Any]:
    import pydantic

    try:
        adapter = pydantic.TypeAdapter(kind)
        return _closed(adapter.json_schema()), adapter
    except (pydantic.errors.PydanticUserError, TypeError, ValueError) as error:
        raise InputError(
            f"expected a JSON Schema (dict, bool or JSON text) or a type that pydantic knows, got {kind!r}: "
            f"{str(error).splitlines()[0]}"
        ) from None
