"""The schemas of which it is plain that documents satisfy them, and how short these are: most of most documents.

A schema is plain if it says of each type by itself what a value may be, and so are all below it: then nothing there
can be refused, there is a document, and a schema above needs no more of it than its shortest text. One pass from below
to above finds them; what is not plain (branches, patterns of names, references to itself) is left to ``Costs``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.facts import NEVER
from ctrlgen.constraints.schema.members import lengths
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.constraints.schema.facts import Facts, Goal, ItemRule, MemberRule

MAX_DEPTH = 60
"""Schemas deeper than this below the root are not looked at."""
MAX_ITEMS = 1000
MAX_LENGTH = 10_000_000
"""Most bytes of the shortest text of a value."""

_SHORTEST = {"null": 4, "boolean": 4, "number": 1, "integer": 1, "string": 2, "array": 2, "object": 2}
_OBJECT = frozenset(("object",))
_CONTAINERS = frozenset(("array", "object"))
_OF_CONTAINERS = frozenset(
    ("type", "members", "required", "item rule", "minItems", "maxItems", "all members", "all items")
)
_OF_SCALARS = frozenset(
    ("type", "enum", "const", "pattern", "format", "x-quote", "minLength", "maxLength", "minimum", "maximum")
) | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf"}


def limited(cost: int | None) -> None:
    """Raise ComplexityError for a value of which no text is short enough."""
    if cost is not None and cost > MAX_LENGTH:
        raise ComplexityError(f"the shortest text of a value has {cost} bytes; the limit is {MAX_LENGTH} (fixed)")


class Plain:
    """The plain schemas of a document.

    Args:
        facts: what each schema says.
        scalar: bytes of the shortest null, boolean, number or string that meets a goal; None where there is none.
        ascii: whether only ASCII is to be written.

    Attributes:
        costs: bytes of the shortest text of each plain goal that has been looked at.
    """

    def __init__(self, facts: list[Facts], scalar: Callable[[Goal], int | None], *, ascii: bool) -> None:
        self._facts, self._scalar, self._ascii = facts, scalar, ascii
        self.costs: dict[Goal, int] = {(): 1}
        self._open: set[Goal] = {NEVER}  # not plain, or being looked at

    def look(self, goal: Goal, depth: int = 0) -> int | None:
        """Bytes of the shortest text of a goal; None if it is not plain."""
        cost = self.costs.get(goal)
        if cost is not None:
            return cost
        if goal in self._open or len(goal) > 1 or goal[0] < 0 or depth > MAX_DEPTH:
            return None
        self._open.add(goal)
        facts = self._facts[goal[0]]
        types = facts.get("type")
        if types is not None and len(types) == 1 and len(facts) == 1:
            (name,) = types
            cost = _SHORTEST[name]
        elif facts.keys() <= _OF_CONTAINERS:
            cost = self._container(facts, types, depth + 1)
        elif facts.keys() <= _OF_SCALARS and (types is None or _CONTAINERS.isdisjoint(types)):
            # without a type there are arrays and objects too, of which nothing is said
            cost = self._scalar(goal)
        if cost is not None and cost > MAX_LENGTH:
            return None
        if cost is not None:
            self._open.discard(goal)
            self.costs[goal] = cost
        return cost

    def type_alone(self, goal: Goal) -> str | None:
        """The type that a schema names, if it says nothing else."""
        if len(goal) != 1 or goal[0] <= 0:
            return None
        facts = self._facts[goal[0]]
        types: frozenset[str] = facts.get("type", frozenset())
        return next(iter(types)) if len(facts) == 1 and len(types) == 1 else None

    def member_rule(self, goal: Goal) -> tuple[MemberRule, tuple[str, ...]] | None:
        """What a plain schema that means nothing but objects says of members, and the names that must be there."""
        if goal not in self.costs or not goal:
            return None
        facts = self._facts[goal[0]]
        rule: MemberRule | None = facts.get("members")
        if rule is None or facts.get("type") != _OBJECT:
            return None
        return rule, facts.get("required", ())

    def _container(self, facts: Facts, types: frozenset[str] | None, depth: int) -> int | None:
        """The cost of a schema that speaks of arrays and objects only; all below it is looked at."""
        found = [_SHORTEST[name] for name in (_SHORTEST if types is None else types) if name not in _CONTAINERS]
        if types is None or "array" in types:
            found.append(self._array(facts, depth))
        if types is None or "object" in types:
            found.append(self._object(facts.get("members"), facts.get("required", ()), depth))
        return None if -1 in found else min(found, default=None)

    def _array(self, facts: Facts, depth: int) -> int:
        """The cost of arrays, -1 if they are not plain."""
        rule: ItemRule | None = facts.get("item rule")
        least, most = facts.get("minItems", 0), facts.get("maxItems")
        if least > (MAX_ITEMS if most is None else min(most, MAX_ITEMS)):
            return -1
        if rule is None:
            return 1 + 2 * least if least else 2
        costs = [self.look(goal, depth) for goal in rule.first]
        others = None if rule.others == NEVER else self.look(rule.others, depth)
        if None in costs or (others is None and (rule.others != NEVER or least > len(costs))):
            return -1
        items = [*costs, *[others] * (least - len(costs))][:least]
        total: int = 1 + sum(filter(None, items)) + least
        return max(total, 2)

    def _object(self, rule: MemberRule | None, required: tuple[str, ...], depth: int) -> int:
        """The cost of objects, -1 if they are not plain."""
        others: int | None = 1
        costs: dict[str, int | None] = {}
        if rule is not None:
            if rule.patterns:
                return -1
            others = None if rule.others == NEVER else self.look(rule.others, depth)
            if others is None and rule.others != NEVER:
                return -1
            for name, goal in rule.named:
                cost = costs[name] = self.look(goal, depth)
                if cost is None and goal != NEVER:
                    return -1
        if not required:
            return 2
        needed = [costs.get(name, others) for name in required]
        return -1 if None in needed else 1 + sum(needed) + sum(lengths(required, self._ascii)) + 4 * len(required)  # type: ignore[arg-type]
