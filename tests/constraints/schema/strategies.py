"""Random schemas, and values that may meet them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

names = st.sampled_from(["a", "b", "ab"])
strings = st.text("ab", max_size=3) | st.sampled_from(["é", '"', "a/b"])
numbers = st.integers(-3, 12) | st.sampled_from([0.5, -1.5, 2.25])
scalars = st.none() | st.booleans() | numbers | strings
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
patterns = st.sampled_from(["a", "^a", "b$", "^[ab]{1,2}$", "^(a|bb)*$", "^(a|b)$"])
counts = st.integers(0, 3)
TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"]
types = st.sampled_from(TYPES)


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with up to three of the keywords."""
    return st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in chosen})
    )


leaves = st.one_of(
    st.booleans(),
    st.just({}),
    types.map(lambda name: {"type": name}),
    st.lists(types, min_size=1, max_size=2, unique=True).map(lambda some: {"type": some}),
    st.lists(values, max_size=3).map(lambda listed: {"enum": listed}),
    values.map(lambda value: {"const": value}),
    some(minimum=numbers, maximum=numbers, exclusiveMinimum=numbers, multipleOf=st.sampled_from([1, 2, 3, 0.5, 0.75])),
    some(minLength=counts, maxLength=counts, pattern=patterns),
    st.sampled_from(["#/$defs/tree", "#/$defs/list"]).map(lambda target: {"$ref": target}),
)


def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    maps = st.dictionaries(names, inner, max_size=2)
    branches = st.lists(inner, min_size=1, max_size=3)
    return some(
        type=types,
        properties=maps,
        patternProperties=st.dictionaries(patterns, inner, max_size=2),
        additionalProperties=inner,
        propertyNames=inner,
        required=st.lists(names, max_size=2, unique=True),
        minProperties=st.integers(0, 2),
        maxProperties=counts,
        dependentRequired=st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
        dependentSchemas=maps,
        items=inner,
        prefixItems=branches,
        minItems=counts,
        maxItems=counts,
        contains=inner,
        minContains=st.integers(0, 2),
        maxContains=st.integers(0, 2),
        uniqueItems=st.booleans(),
        anyOf=branches,
        allOf=branches,
        oneOf=branches,
        unevaluatedItems=inner,
        unevaluatedProperties=inner,
        enum=st.lists(values, min_size=1, max_size=3),
        **{"not": inner, "if": inner, "then": inner, "else": inner},
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


def mentioned(schema: Any) -> list[Any]:
    """The values that a schema mentions."""
    if isinstance(schema, list):
        return [value for item in schema for value in mentioned(item)]
    if not isinstance(schema, dict):
        return []
    found = list(schema.get("enum", [])) if isinstance(schema.get("enum"), list) else []
    found += [schema["const"]] if "const" in schema else []
    return found[:4] + [value for item in schema.values() for value in mentioned(item)][:12]
