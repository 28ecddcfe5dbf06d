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
from ctrlgen.engine.lexicon import lexicon_of
from ctrlgen.engine.network import Network
from ctrlgen.errors import SchemaError, UnsatisfiableError
from ctrlgen.vocabulary import Vocabulary

BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos=256)

names = st.sampled_from(["a", "b", "ab"])
strings = st.text("ab", max_size=3) | st.sampled_from(["é", '"', "a/b"])
numbers = st.integers(-3, 12) | st.sampled_from([0.5, -1.5, 2.25])
scalars = st.none() | st.booleans() | numbers | strings
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
patterns = st.sampled_from(["a", "^a", "b$", "^[ab]{1,2}$", "^(a|bb)*$"])
counts = st.integers(0, 3)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with up to three of the keywords."""
    return st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in chosen})
    )


types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
leaves = st.one_of(
    st.booleans(),
    st.just({}),
    types.map(lambda name: {"type": name}),
    st.lists(types, min_size=1, max_size=2, unique=True).map(lambda some: {"type": some}),
    st.lists(values, max_size=3).map(lambda listed: {"enum": listed}),
    values.map(lambda value: {"const": value}),
    some(minimum=numbers, maximum=numbers, exclusiveMinimum=numbers, exclusiveMaximum=numbers).map(
        lambda bounds: {"type": "number", **bounds}
    ),
    some(minimum=numbers, maximum=numbers, multipleOf=st.integers(1, 4)).map(lambda b: {"type": "integer", **b}),
    some(minLength=counts, maxLength=counts, pattern=patterns).map(lambda b: {"type": "string", **b}),
    st.sampled_from(["#", "#/$defs/tree", "#/$defs/list"]).map(lambda target: {"$ref": target}),
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    maps = st.dictionaries(names, inner, max_size=2)
    branches = st.lists(inner, min_size=1, max_size=2)
    return some(
        type=types,
        properties=maps,
        patternProperties=st.dictionaries(patterns, inner, max_size=2),
        additionalProperties=inner,
        required=st.lists(names, max_size=2, unique=True),
        minProperties=st.integers(0, 2),
        maxProperties=counts,
        items=inner,
        prefixItems=branches,
        minItems=counts,
        maxItems=counts,
        anyOf=branches,
        allOf=branches,
        oneOf=branches,
        enum=st.lists(values, min_size=1, max_size=3),
    )


DEFINITIONS = {
    "tree": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/tree"}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "list": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/list"}, {"type": "null"}]}, "maxItems": 2},
}
schemas = st.recursive(leaves, larger, max_leaves=6)


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
        assert error.keyword in ("oneOf", "minProperties") or "itself" in str(error)
        assume(False)
        raise


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.lists(values, min_size=1, max_size=12), st.integers(0, 1 << 30))
def test_accepted_if_and_only_if_valid(schema: Any, documents: list[Any], seed: int) -> None:
    schema, spec = prepared(schema)
    validator = jsonschema.Draft202012Validator(schema)
    documents += listed(schema)
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


def listed(schema: Any) -> list[Any]:
    """The values that a schema mentions."""
    if isinstance(schema, list):
        return [value for item in schema for value in listed(item)]
    if not isinstance(schema, dict):
        return []
    found = list(schema.get("enum", [])) if isinstance(schema.get("enum"), list) else []
    found += [schema["const"]] if "const" in schema else []
    return found[:4] + [value for item in schema.values() for value in listed(item)][:12]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(schemas, st.sampled_from(["compact", "line", "pretty"]))
def test_the_shortest_document_is_as_short_as_computed(schema: Any, whitespace: Any) -> None:
    schema, spec = prepared(schema)
    assume(spec is not None)
    spec = JsonSchema(spec.text, whitespace=whitespace)
    network = Network(lexicon_of(BYTES))
    start = spec.build(network)
    text = network.witness(start, 0)
    assert len(text) == network.cost[start]
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
    # each lazy node promised a length; what it became has to keep it
    network.build_all(300)
    nodes, edges = network.arrays[:2]
    for node in range(network.size):
        kind, low, high = nodes[node, :3].tolist()
        if kind == 3:  # a fork, or a lazy node once built
            assert network.cost[node] == min(network.cost[target] for target in edges[low:high, 2].tolist())


@pytest.mark.parametrize("value", [{"a": [1, {"b": None}]}, [], "é", 1.5])
def test_a_constant_is_itself(value: Any) -> None:
    assert accepts(JsonSchema({"const": value}).compile(BYTES), json.dumps(value, ensure_ascii=False))
