"""Which schemas have a complement that can be enforced, all the way down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ctrlgen.constraints.schema.facts import Facts, Goal


class Complements:
    """What stands in the way of negating a schema, found before anything is built on it.

    Args:
        facts: of all schemas; may grow.
        pointers: where they stand.
    """

    def __init__(self, facts: Sequence[Facts], pointers: Sequence[str]) -> None:
        self._facts, self._pointers = facts, pointers
        self._fine: set[int] = {0}

    def require(self, goal: Goal) -> None:
        """Check that a goal can be negated.

        Raises:
            SchemaError: some keyword in it has no complement that can be enforced.
        """
        met: set[int] = set()
        todo = [-literal for literal in goal]
        while todo:
            literal = todo.pop()
            if literal in met or literal in self._fine:
                continue
            met.add(literal)
            facts = self._facts[abs(literal)]
            if literal < 0:
                _check(facts, self._pointers[-literal])
                todo += [-inner for goal in _inner(facts) for inner in goal]
                todo += [inner for goal in _inverted(facts) for inner in goal]
            else:
                todo += [-inner for goal in _inverted(facts) for inner in goal]
        self._fine |= met


def _check(facts: Facts, pointer: str) -> None:
    for keyword in ("uniqueItems", "unevaluatedItems", "unevaluatedProperties"):
        if facts.get(keyword, ()) != ():
            raise SchemaError("what breaks it cannot be enforced", pointer=pointer, keyword=keyword)


def _inner(facts: Facts) -> Iterator[Goal]:
    """The goals that are negated along with a schema."""
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from facts.get(keyword, ())
    yield from facts.get("if", ())
    yield from (goal for _, goal in facts.get("dependentSchemas", ()))
    if "propertyNames" in facts:
        yield facts["propertyNames"]
    if "item rule" in facts:
        yield from facts["item rule"].first
        yield facts["item rule"].others
    if "members" in facts:
        yield from (goal for _, goal in (*facts["members"].named, *facts["members"].patterns))
        yield facts["members"].others
    contains = facts.get("contains")
    if contains is not None and contains.least > 0:
        yield contains.goal  # fewer than some are counted exactly


def _inverted(facts: Facts) -> Iterator[Goal]:
    """The goals that a schema itself negates."""
    if "not" in facts:
        yield facts["not"]
    if "if" in facts:
        yield facts["if"][0]
