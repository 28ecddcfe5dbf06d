"""Random schemas against jsonschema: plans hold exactly the valid documents; a schema and its negation all of them."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.schema.compiling import language, written
from ctrlgen.constraints.schema.plans import Language
from ctrlgen.errors import ComplexityError, SchemaError, UnsatisfiableError
from tests.constraints.schema.strategies import DEFINITIONS, mentioned, schemas, values
from tests.oracles.plans import matches


def prepared(schema: Any) -> tuple[Any, Language | None]:
    """The schema with definitions, and its language; None if nothing satisfies it."""
    if isinstance(schema, dict):
        schema = {**schema, "$defs": DEFINITIONS}
    try:
        return schema, language(written(schema), 20, True, False)
    except UnsatisfiableError:
        return schema, None
    except (SchemaError, ComplexityError):
        assume(False)
        raise


def holds(spec: Language | None, document: Any) -> bool:
    return spec is not None and matches(spec, json.dumps(document, ensure_ascii=False))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.lists(values, min_size=4, max_size=12))
def test_plans_hold_exactly_the_valid_documents(schema: Any, documents: list[Any]) -> None:
    schema, spec = prepared(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for document in [*documents, *mentioned(schema), {}, [], {"a": 1}, [None], ""]:
        assert holds(spec, document) == validator.is_valid(document), document


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.lists(values, min_size=4, max_size=12))
def test_a_document_meets_a_schema_or_its_negation_and_never_both(schema: Any, documents: list[Any]) -> None:
    _, spec = prepared(schema)
    _, negated = prepared({"not": schema})
    for document in [*documents, *mentioned(schema)]:
        assert holds(spec, document) != holds(negated, document), document
