"""Plain schemas against the fixpoint that knows nothing of them: the same shortest documents, the same refusals."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.schema.costs import Costs
from ctrlgen.constraints.schema.facts import NEVER
from ctrlgen.constraints.schema.plain import MAX_DEPTH, Plain
from ctrlgen.constraints.schema.reading import Reader
from ctrlgen.constraints.schema.survey import survey
from ctrlgen.errors import ComplexityError, SchemaError, UnsatisfiableError
from tests.constraints.schema.strategies import DEFINITIONS, schemas


def looked_at(schema: Any, ascii: bool) -> tuple[Costs | None, type[Exception] | None]:
    try:
        reader = Reader(schema)
        costs = Costs(reader, 20, ascii)
        costs.require(reader.root)
        survey(costs, reader.root)
    except (SchemaError, ComplexityError, UnsatisfiableError) as error:
        return None, type(error)
    return costs, None


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.booleans())
def test_plain_costs_are_those_of_the_fixpoint(schema: Any, ascii: bool) -> None:
    if isinstance(schema, dict):
        schema = {**schema, "$defs": DEFINITIONS}
    costs, refused = looked_at(schema, ascii)
    with patch.object(Plain, "look", lambda *_: None):
        plainly, otherwise = looked_at(schema, ascii)
    assert refused is otherwise
    if costs is not None and plainly is not None:
        for goal, cost in costs.plain.costs.items():
            assert plainly.of(goal) == cost


@pytest.mark.parametrize(
    ("schema", "cost"),
    [
        ({"type": "object", "properties": {"a": {"type": "null"}, "b": {}}, "required": ["a", "b"]}, 16),
        ({"properties": {"a": {"type": "string"}}, "required": ["a"]}, 1),
        ({"type": "object", "additionalProperties": {"const": "xyz"}, "required": ["é"]}, 12),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 3}, 16),
        ({"type": "array", "prefixItems": [{"enum": [10, 200]}], "items": False, "minItems": 1}, 4),
        ({"type": ["string", "null"], "minLength": 3}, 4),
    ],
)
def test_plain_schemas(schema: Any, cost: int) -> None:
    costs, _ = looked_at(schema, False)
    assert costs is not None
    assert costs.plain.costs[costs.table._reader.root] == cost


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "object", "patternProperties": {"a": {"type": "null"}}},
        {"type": "object", "properties": {"a": False}},
        {"type": "array", "items": {"type": "string"}, "minItems": 2000},
        {"$ref": "#/$defs/list", "$defs": DEFINITIONS},
    ],
)
def test_what_is_not_plain_is_left_to_the_fixpoint(schema: Any) -> None:
    costs, _ = looked_at(schema, False)
    assert costs is not None
    plain = costs.table._reader.root in costs.plain.costs
    assert plain == (schema.get("properties") == {"a": False})


def test_deep_documents_are_left_to_the_fixpoint() -> None:
    schema: Any = {"type": "string"}
    for _ in range(2 * MAX_DEPTH):
        schema = {"type": "array", "items": schema}
    reader = Reader(schema)
    plain = Plain(reader.facts, lambda goal: None, ascii=False)
    assert plain.look(reader.root) is None
    assert NEVER not in plain.costs
