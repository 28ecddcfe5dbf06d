"""Requests as JSON: what is read, and what is refused with a pointer to it."""

import json

import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.serving.registry import Limits, Registry
from ctrlgen.serving.specification import read_request
from tests.hmm.enumerated import random_hmm

SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "required": ["b"]}
TOOL = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}
REGISTRY = Registry(
    constraints={"pair": cg.Choice(["one", "two"]), "names": cg.PackageNames(["numpy"])},
    catalogues={"books": cg.Choice(["x"])},
    guards={"pypi": cg.PackageGuard(["numpy"])},
)

READ = [
    ({"json_schema": SCHEMA, "whitespace": "compact"}, cg.JsonSchema(SCHEMA, whitespace="compact")),
    ({"regex": "a+", "dialect": "ecma"}, cg.Regex("a+", dialect="ecma")),
    ({"choices": ["a", "b"]}, cg.Choice(["a", "b"])),
    ({"grammar": 'root ::= "a"', "syntax": "gbnf"}, cg.Grammar('root ::= "a"', syntax="gbnf")),
    ({"constraint": "pair"}, cg.Choice(["one", "two"])),
    ({"catalogue": "books"}, cg.Choice(["x"])),
    ({"guard": "pypi"}, REGISTRY.guards["pypi"]),
    ({"guard": "pypi", "context": "pip "}, REGISTRY.guards["pypi"].following("pip ")),
    ({"tools": [TOOL], "format": "llama", "choice": "f"}, cg.ToolCalls([TOOL], "llama", "f")),
    ({"sequence": ["a", {"regex": "b"}]}, "a" >> cg.Regex("b")),
    ({"either": ["a", {"regex": "b"}]}, "a" | cg.Regex("b")),
    ({"both": [{"regex": "a+"}, {"regex": "..?"}]}, cg.Regex("a+") & cg.Regex("..?")),
    ({"repeat": {"regex": "a"}, "least": 1, "most": 3}, cg.Regex("a").repeat(1, 3)),
    ({"optional": {"regex": "a"}}, cg.Regex("a").optional()),
    ({"free": None}, cg.Free()),
    ({"free": ["x", {"token": "<t>"}], "max_tokens": 9}, cg.Free(("x", cg.Token("<t>")), max_tokens=9)),
    ({"free": "x", "without": ["y"], "allow": {"token": 3}}, cg.Free("x", without="y", allow=cg.Token(3))),
    ({"thinking": {"choices": ["a"]}, "start": "<think>"}, cg.Thinking(cg.Choice(["a"]), start="<think>")),
    (
        {"dispatch": [{"on": "<a>", "do": {"sequence": [{"choices": ["x"]}, "</a>"]}}, {"on": "<b>"}], "stop": "."},
        cg.Dispatch({"<a>": cg.Choice(["x"]) >> "</a>", "<b>": None}, stop="."),
    ),
]


@pytest.mark.parametrize(("value", "expected"), READ, ids=[next(iter(value)) for value, _ in READ])
def test_reads_values_and_text(value, expected):
    found = read_request(value, REGISTRY)
    assert found.constraint == expected
    assert found.in_time
    again = read_request(json.dumps(value, indent=2), REGISTRY)
    assert again[:2] == found[:2]


def test_members_keep_their_order_since_schemas_depend_on_it():
    one, other = ({"json_schema": {"properties": dict.fromkeys(names, True)}} for names in ("ab", "ba"))
    assert read_request(one, REGISTRY).text != read_request(other, REGISTRY).text


def test_may_be_cut_off_if_asked():
    assert not read_request({"choices": ["a"], "in_time": False}, REGISTRY).in_time


REFUSED = [
    ({}, "", "nothing is asked for"),
    ([], "", "expected an object"),
    ('{"regex": "a"', "", "line 1, column 14"),
    ('{"regex": "a", "regex": "b"}', "", "'regex' twice"),
    ('{"choices": [NaN]}', "", "NaN"),
    ({"choices": [float("inf")]}, "", "not JSON"),
    ({"regex": {1, 2}}, "", "not JSON"),
    ({"regex": "\ud800"}, "", "surrogate"),
    ("[" * 100_000, "", "nested too deeply"),
    ({"regexp": "a"}, "/regexp", "did you mean"),
    ({"regex": "a", "choices": ["a"]}, "", "exactly one of"),
    ({"regex": "a", "flags": "i"}, "/flags", "dialect"),
    ({"regex": "("}, "/regex", "never closed"),
    ({"regex": 3}, "/regex", "expected a string"),
    ({"json_schema": "object"}, "/json_schema", "an object, true or false"),
    ({"json_schema": {"type": "sting"}}, "/json_schema", "#/type"),
    ({"json_schema": {"$ref": "http://example.com/a"}}, "/json_schema", "nothing is ever fetched"),
    ({"json_schema": True, "ensure_ascii": 1}, "/ensure_ascii", "true or false"),
    ({"json_schema": True, "strict": False}, "/strict", "nobody knows"),
    ({"choices": "ab"}, "/choices", "expected a list"),
    ({"choices": [["a"]]}, "/choices", "must be a string"),
    ({"grammar": "start: a"}, "/grammar", "column 8"),
    ({"grammar": "%import .secret.X\nstart: X"}, "/grammar", ""),
    ({"catalogue": "../../etc/passwd"}, "/catalogue", "this server has no"),
    ({"constraint": "pears"}, "/constraint", "did you mean pair?"),
    ({"guard": "pypi", "context": 3}, "/context", "expected a string"),
    ({"tools": [TOOL], "format": "/etc/passwd.toml"}, "/format", "expected one of"),
    ({"tools": [TOOL], "format": {"call": "x"}}, "/format", "expected one of"),
    ({"tools": ["os.system"]}, "/tools/0", "expected an object"),
    ({"tools": [{**TOOL, "parameters": {"type": "x"}}]}, "/tools", "f"),
    ({"sequence": ["a", {"regex": "("}]}, "/sequence/1/regex", "never closed"),
    ({"sequence": ["a"]}, "/sequence", "two parts"),
    ({"sequence": [{"free": None}, "a"]}, "/sequence", "goes on to the end"),
    ({"sequence": [{"guard": "pypi"}, "a"]}, "/sequence", "stands alone"),
    ({"repeat": {"guard": "pypi"}}, "/repeat", "stands alone"),
    ({"repeat": {"regex": "a"}, "least": -1}, "/repeat", "0 to"),
    ({"free": {"end": True}}, "/free", "expected a string or"),
    ({"free": {"token": 1, "name": 2}}, "/free", "expected a string or"),
    ({"thinking": "a", "end": {"token": [1]}}, "/end", "name or id"),
    ({"dispatch": [{"on": "a", "then": "b"}]}, "/dispatch/0/then", "do, on"),
    ({"dispatch": [{"on": "a"}, {"on": "a"}]}, "/dispatch/1/on", "twice"),
    ({"choices": ["a"], "in_time": 1}, "/in_time", "true or false"),
    ({"steer": [{"rad": {}}]}, "/steer/0", "exactly one of"),
    ({"steer": [{"fsd": {"alpha": 2}}]}, "/steer/0/fsd", "alpha"),
    ({"steer": [{"fsd": {"beat": 2}}]}, "/steer/0/fsd", "beat"),
    ({"steer": [{"trace": "large", "attribute": "x"}]}, "/steer/0/trace", "this server has no"),
    ({"steer": [{"fsd": {}}] * 5}, "/steer", "up to 4"),
]


@pytest.mark.parametrize(("value", "pointer", "reason"), REFUSED)
def test_refuses(value, pointer, reason):
    with pytest.raises(cg.RequestError) as caught:
        read_request(value, REGISTRY)
    assert caught.value.pointer == pointer
    assert reason in str(caught.value)


def test_size_depth_and_number_of_parts_are_bounded():
    registry = Registry(limits=Limits(bytes=3000, depth=5, parts=20))
    deep = {"regex": "a"}
    for _ in range(12):
        deep = {"optional": deep}
    for value, reason in [
        ({"regex": "a" * 3000}, "bytes of JSON; this server takes up to 3000"),
        (deep, "within each other"),
        ({"sequence": ["a"] * 21}, "more than 20 parts"),
        ({"choices": [str(i) for i in range(350)]}, "more than 20 parts"),
    ]:
        with pytest.raises(cg.RequestError, match=reason):
            read_request(value, registry)


def test_steerers_by_registered_names():
    width = 6
    generator = torch.Generator().manual_seed(0)
    hmm = random_hmm(np.random.default_rng(0), 3, width)
    attribute = cg.Attribute.factorised(-torch.rand(width, generator=generator))
    loads = []
    registry = Registry(hmms={"small": lambda: loads.append(1) or hmm}, attributes={"kind": attribute})
    steer = [{"trace": "small", "attribute": {"all": ["kind", {"not": "kind"}]}, "a": 2}, {"momentum": {}}]
    found = read_request({"steer": steer}, registry)
    assert found.constraint is None
    assert [one.name for one in found.steering] == ["trace", "momentum"]
    assert found.steering[0].make().a == 2
    read_request({"steer": steer}, registry)
    assert loads == [1]
    for wrong in ({"tokens": 0}, {"tokens": 10**6}, {"top": "x"}, {"form": []}):
        with pytest.raises(cg.RequestError):
            read_request({"steer": [{"trace": "small", "attribute": "kind", **wrong}]}, registry)
    with pytest.raises(cg.RequestError, match="needs an attribute"):
        read_request({"steer": [{"trace": "small"}]}, registry)
    with pytest.raises(cg.RequestError, match="no constraint to steer towards"):
        read_request({"steer": [{"deco_g": "small"}]}, registry)
