"""cost(): sizes before a text, and a budget that suffices."""

import pytest

import ctrlgen as cg
from ctrlgen.constraints.cost import Cost

VOCABULARY = cg.Vocabulary([*(bytes([b]) for b in range(256)), b'{"', b'":', b'"}', None], eos=[259])
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("specification", "needed"),
    [
        (cg.JsonSchema(OBJECT), len(['{"', "a", '":', "0", "}", "end"])),
        (cg.Regex("[a-z]{3,9}"), 4),
        (cg.Choice(["yes", "no"]), 3),
        (cg.Regex("a") >> "bc", 4),
        (cg.Grammar('start: "x" start | "yz"', syntax="lark"), 3),
    ],
)
def test_the_cost_of_each_kind(specification, needed):
    cost = specification.cost(VOCABULARY)
    assert isinstance(cost, Cost)
    assert cost.needed == needed
    assert min(cost.nodes, cost.states, cost.bytes) > 0


def test_more_to_read_costs_more():
    small, large = (cg.JsonSchema({**OBJECT, "properties": {"a": {"enum": list(range(n))}}}) for n in (3, 300))
    assert small.cost(VOCABULARY).nodes < large.cost(VOCABULARY).nodes


def test_many_options_and_vocabularies_that_lack_bytes():
    assert cg.Choice([f"{n:04}" for n in range(1000)]).cost(VOCABULARY) == Cost(None, None, None, 5)
    lacking = cg.Vocabulary([b"a", b"bc", None], eos=[2])
    assert cg.Regex("a*(bc|d)").cost(lacking).needed == 2
