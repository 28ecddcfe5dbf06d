"""A look at all that can be reached, so that whatever is refused is refused before anything is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.facts import ItemRule
from ctrlgen.constraints.schema.items import CountedItems
from ctrlgen.constraints.schema.plain import limited
from ctrlgen.constraints.schema.values import Array, Boolean, Null, Object
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlgen.constraints.schema.costs import Costs
    from ctrlgen.constraints.schema.facts import Goal

MAX_GOALS = 20_000
"""Most combinations of schemas that may have to be met."""


def survey(costs: Costs, root: Goal) -> None:
    """Find all cases that can be reached, with their automata, and the members and items that take some work.

    Raises:
        SchemaError: a keyword cannot be enforced, or a schema refers to itself without reading anything.
        ComplexityError: a limit was reached.
    """
    plain = costs.plain.costs.keys()
    todo, seen = [] if root in plain else [root], {root}
    while todo:
        goal = todo.pop()
        for case in costs.table.of(goal):
            limited(costs.case(case, goal))
            if isinstance(case, Array | Object):
                new = set(_inner(costs, case, goal)) - seen - plain
                seen |= new
                todo += new
            elif not isinstance(case, Null | Boolean):
                costs.scalar(case)
        if len(seen) > MAX_GOALS:
            raise ComplexityError(
                f"more than {MAX_GOALS} combinations of schemas (a fixed limit); "
                "write fewer schemas in allOf, or let them share fewer properties"
            )


def _inner(costs: Costs, case: Array | Object, goal: Goal) -> Iterable[Goal]:
    """The goals of the items or members of a case."""
    if _is_plain(case):
        rule = case.rules[0] if case.rules else None
        if rule is None:
            return ()
        first = rule.first if isinstance(rule, ItemRule) else [inner for _, inner in rule.named]
        return (*first, rule.others)
    costs.case(case, goal)
    if isinstance(case, Object):
        members = costs.members(case, goal)
        ways = (*members.ways, *[ways for _, ways in members.others])
        return [inner for some in ways for inner, _ in some]
    states = costs.states(case, goal)
    if isinstance(states, CountedItems):
        return states.goals()
    return [case.goal(index) for index in range(case.places + 1)]


def _is_plain(case: Array | Object) -> bool:
    """Whether each item or member has to meet what one rule says, and nothing else counts."""
    if len(case.rules) > 1:
        return False
    if isinstance(case, Array):
        return not case.counts and not case.unique
    return not (case.names or case.demands or case.implies or (case.rules and case.rules[0].patterns))
