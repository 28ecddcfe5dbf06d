"""Random schemas against jsonschema: nothing that is invalid is ever accepted, nothing that is valid is lost."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.json_schema import JsonSchema
from ctrlgen.errors import ComplexityError, SchemaError, UnsatisfiableError
from ctrlgen.vocabulary import Vocabulary
from tests.constraints.schema.strategies import DEFINITIONS, mentioned, schemas, values

BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos=256)


def orders(value: Any) -> Iterator[Any]:
    """The value with its keys in every order."""
    if isinstance(value, list):
        yield from (list(items) for items in itertools.product(*(list(orders(item)) for item in value)))
    elif isinstance(value, dict):
        for keys in itertools.permutations(value):
            for parts in itertools.product(*(list(orders(value[key])) for key in keys)):
                yield dict(zip(keys, parts, strict=True))
    else:
        yield value


def accepts(machine: Any, text: str) -> bool:
    state = machine.start
    for byte in text.encode():
        state = machine.advance(state, byte)
        if state < 0:
            return False
    return bool(machine.accepts(state))


def rambled(machine: Any, seed: int) -> str:
    """A random text that the machine accepts: random bytes, then the shortest way out."""
    choice = random.Random(seed)
    state, text = machine.start, bytearray()
    for _ in range(choice.randrange(40)):
        row = machine.mask(state)
        allowed = [byte for byte in range(256) if row[byte >> 5] >> (byte & 31) & 1]
        if not allowed:
            break
        common = [byte for byte in allowed if chr(byte) in '{}[]",: ab0123nulltruefalse'] or allowed
        text.append(choice.choice(common if choice.random() < 0.9 else allowed))
        state = machine.advance(state, text[-1])
    return (bytes(text) + machine.witness(state)).decode()


def prepared(schema: Any) -> tuple[Any, Any]:
    """The schema with its definitions, and its specification; None if nothing satisfies it."""
    if isinstance(schema, dict):
        schema = {**schema, "$defs": DEFINITIONS}
    try:
        return schema, JsonSchema(schema)
    except UnsatisfiableError:
        return schema, None
    except SchemaError as error:
        # what is not decided here may be refused, and nothing else
        assert error.keyword in ("uniqueItems", "not", "oneOf", "if") or "itself" in str(error)
        assume(False)
        raise
    except ComplexityError:
        assume(False)
        raise


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.lists(values, min_size=1, max_size=12), st.integers(0, 1 << 30))
def test_accepted_if_and_only_if_valid(schema: Any, documents: list[Any], seed: int) -> None:
    schema, spec = prepared(schema)
    validator = jsonschema.Draft202012Validator(schema)
    documents += mentioned(schema)
    if spec is None:
        assert not any(validator.is_valid(document) for document in documents)
        return
    machine = spec.compile(BYTES)
    for document in documents:
        texts = [json.dumps(value, ensure_ascii=False) for value in orders(document)]
        accepted = [text for text in texts if accepts(machine, text)]
        assert bool(accepted) == validator.is_valid(document), document
    for offset in range(4):
        text = rambled(machine, seed + offset)
        assert accepts(machine, text)
        assert validator.is_valid(json.loads(text)), text


@pytest.mark.parametrize("value", [{"a": [1, {"b": None}]}, [], "é", 1.5])
def test_a_constant_is_itself(value: Any) -> None:
    assert accepts(JsonSchema({"const": value}).compile(BYTES), json.dumps(value, ensure_ascii=False))
