"""Keywords that apply other schemas to the same value, and those that look at what the others have evaluated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.facts import NEVER, Facts, ItemRule, MemberRule, both
from ctrlgen.constraints.schema.numbers import Number
from ctrlgen.constraints.schema.texts import String
from ctrlgen.constraints.schema.values import ANY, Array, Boolean, Case, Null, Object, SeenItems, SeenMembers, absent
from ctrlgen.errors import ComplexityError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlgen.constraints.schema.cases import Cases, CaseTable
    from ctrlgen.constraints.schema.facts import Goal

MAX_COMPARED = 400
"""Most pairs of cases looked at to tell two branches apart."""


class Branches:
    """What is in place, applied to the cases of the other keywords.

    Args:
        table: the cases of goals.
    """

    def __init__(self, table: CaseTable) -> None:
        self.table = table
        self.possible: Callable[[Goal], bool] | None = None

    def applied(self, cases: Cases, facts: Facts, pointer: str, seen: bool) -> Cases:
        """The cases that also meet what is in place.

        Args:
            cases: those of the other keywords.
            facts: of the schema.
            pointer: where it stands.
            seen: whether to tell what has been evaluated.
        """
        table = self.table
        if "allOf" in facts:
            several = both(*facts["allOf"])
            cases = () if several == NEVER else table.within(cases, several, seen)
        if "not" in facts:
            cases = table.meet(cases, self._not(facts["not"], pointer, "not"), pointer)
        if "anyOf" in facts and cases:
            cases = table.meet(cases, self._any(facts["anyOf"], pointer, seen), pointer)
        if "oneOf" in facts and cases:
            cases = self._one(cases, facts["oneOf"], pointer, seen)
        if "if" in facts and cases:
            cases = table.meet(cases, self._if(facts["if"], pointer, seen), pointer)
        for name, goal in facts.get("dependentSchemas", ()):
            cases = table.meet(cases, self._dependent(name, goal, pointer, seen), pointer)
        return cases

    def _not(self, goal: Goal, pointer: str, keyword: str) -> Cases:
        try:
            return self.table.negation.cases(goal)
        except SchemaError as error:
            raise _inexpressible(error, pointer, keyword) from error

    def _any(self, goals: Sequence[Goal], pointer: str, seen: bool) -> Cases:
        parts = [self.table.of(goal, seen=seen) for goal in goals]
        if any(part is ANY for part in parts) and not seen:
            return ANY
        found = [case for part in parts for case in part]
        if seen:
            found += self._together(parts, pointer)
        return self.table.union(found, pointer)

    def _together(self, parts: list[Cases], pointer: str) -> list[Case]:
        """Values that meet several branches, all of which evaluate."""
        found: list[Case] = []
        groups: list[Cases] = []
        for part in parts:
            containers = tuple([case for case in part if case.kind >= Array.kind])
            joined = [cases for group in groups if (cases := self.table.meet(group, containers, pointer))]
            found += [case for cases in joined for case in cases]
            groups += [containers, *joined]
            if len(groups) > 4_096:
                raise ComplexityError(f"#{pointer}: more than 12 branches of anyOf that count for unevaluated ones")
        return found

    # exactly one

    def _one(self, cases: Cases, goals: Sequence[Goal], pointer: str, seen: bool) -> Cases:
        """The cases that meet one branch and no other; what stands beside the branches may tell them apart."""
        table = self.table
        parts = [table.meet(cases, table.of(goal, seen=seen), pointer) for goal in goals]
        if _told_apart(parts, self._listed):
            return table.union([case for part in parts for case in part], pointer)
        found: list[Case] = []
        for i, (goal, part) in enumerate(zip(goals, parts, strict=True)):
            for j, other in enumerate(goals):
                if i != j and part and self._overlap(part, table.of(other)):
                    part = self._without(part, goal, other, pointer, (i, j))
            found += part
        return table.union(found, pointer)

    def _without(self, cases: Cases, goal: Goal, other: Goal, pointer: str, branches: tuple[int, int]) -> Cases:
        """The cases of one branch that do not meet another."""
        try:
            return self.table.meet(cases, self.table.negation.cases(other), pointer)
        except SchemaError as error:
            if self._impossible(both(goal, other)):
                return cases
            i, j = sorted(branches)
            raise SchemaError(
                f"branches {i} and {j} may match the same value, and their difference cannot be enforced: "
                f"{str(error).partition(': ')[2]}",
                pointer=pointer,
                keyword="oneOf",
                rewrite="anyOf, if both may match; or tell the branches apart by a required const",
            ) from error

    def _impossible(self, goal: Goal) -> bool:
        try:
            return self.possible is not None and not self.possible(goal)
        except SchemaError:
            return False

    def _listed(self, goal: Goal) -> set[object] | None:
        """The values of a goal that lists scalars, each with its type."""
        found: set[object] = set()
        for case in self._safely(goal) or ANY:
            if isinstance(case, Array | Object) or (isinstance(case, String | Number) and case.values is None):
                return None
            values = (None,) if isinstance(case, Null) else case.values or ()
            found |= {(case.kind, value) for value in values}
        return found

    def _safely(self, goal: Goal) -> Cases | None:
        try:
            return self.table.of(goal)
        except SchemaError:
            return None

    def apart(self, a: Goal, b: Goal) -> bool:
        """Whether two goals have nothing in common at sight: by type, bounds, or a required member."""
        if both(a, b) == NEVER:
            return True
        return not self._overlap(self.table.of(a), self.table.of(b))

    def _overlap(self, left: Cases, right: Cases) -> bool:
        """Whether two unions may have something in common, as far as can be told at sight."""
        if len(left) * len(right) > MAX_COMPARED:
            return True
        return any(x.kind == y.kind and self._meets(x, y) for x in left for y in right)

    def _meets(self, x: Case, y: Case) -> bool:
        case = x.meet(y)  # type: ignore[arg-type]
        if case is None:
            return False
        if isinstance(case, Object):
            return not any(self._safely(case.declared(name)) == () for name in case.required)
        if isinstance(case, String) and case.values is None:
            return case.quote is not None or not case.automaton("all").is_empty
        if isinstance(case, Array) and case.rules:
            return not any(self._safely(case.goal(i)) == () for i in range(min(case.least, case.places + 1)))
        return isinstance(case, Null | Boolean | Number | String | Array)

    # if, dependentSchemas

    def _if(self, goals: tuple[Goal, Goal, Goal], pointer: str, seen: bool) -> Cases:
        table = self.table
        condition, then, otherwise = goals
        if then == otherwise and not seen:
            return table.of(then)
        yes = table.meet(table.of(condition, seen=seen), table.of(then, seen=seen), pointer)
        try:
            no = table.meet(table.negation.cases(condition), table.of(otherwise, seen=seen), pointer)
        except SchemaError as error:
            if then != () or seen:
                raise _inexpressible(error, pointer, "if") from error
            no = table.of(otherwise)  # if it holds nothing more is asked: one or the other
        return table.union(yes + no, pointer)

    def _dependent(self, name: str, goal: Goal, pointer: str, seen: bool) -> Cases:
        table = self.table
        facts = table.facts[goal[0]] if len(goal) == 1 and goal[0] > 0 else {}
        if facts.keys() == {"required"}:
            return (*ANY[:-1], Object(implies=tuple((name, other) for other in facts["required"])))
        others: tuple[Case, ...] = tuple([case for case in ANY if not isinstance(case, Object)])
        there = table.within((Object(required=(name,)),), goal, seen)
        return (*others, absent(name), *there)

    # unevaluated

    def closed(self, cases: Cases, facts: Facts, pointer: str, seen: bool) -> Cases:
        """The cases once unevaluatedItems and unevaluatedProperties have been applied.

        Args:
            cases: with what they have evaluated.
            facts: of the schema.
            pointer: where it stands.
            seen: whether the result is to tell what has been evaluated.
        """
        found: list[Case] = []
        for case in cases:
            if isinstance(case, Array):
                if "unevaluatedItems" in facts:
                    case = self._closed_array(case, facts["unevaluatedItems"], pointer)
                found.append(case if seen else replace(case, seen=SeenItems()))
            elif isinstance(case, Object):
                kept: Object | None = case
                if "unevaluatedProperties" in facts:
                    kept = _closed_object(case, facts["unevaluatedProperties"])
                if kept is not None:
                    found.append(kept if seen else replace(kept, seen=SeenMembers()))
            else:
                found.append(case)
        return self.table.union(found, pointer)

    def _closed_array(self, case: Array, goal: Goal, pointer: str) -> Array:
        seen = case.seen
        if not seen.all:
            rest = self.table.negation.any_of((goal, *seen.goals), pointer)
            case = replace(case, rules=(*case.rules, ItemRule(((),) * seen.first, rest)) if rest else case.rules)
        return replace(case, seen=SeenItems(all=True))


def _told_apart(parts: Sequence[Cases], listed: Callable[[Goal], set[object] | None]) -> bool:
    """Whether all branches are objects that a required member with listed values tells apart."""
    objects = [part[0] for part in parts if len(part) == 1 and isinstance(part[0], Object)]
    if len(objects) < len(parts):
        return False
    return any(_tells(name, objects, listed) for name in objects[0].required)


def _tells(name: str, objects: Sequence[Object], listed: Callable[[Goal], set[object] | None]) -> bool:
    met: set[object] = set()
    for case in objects:
        values = listed(case.declared(name)) if name in case.required else None
        if values is None or not met.isdisjoint(values):
            return False
        met |= values
    return True


def _closed_object(case: Object, goal: Goal) -> Object | None:
    seen = case.seen
    if not seen.all and goal:
        named = tuple((name, ()) for name in sorted(seen.names))
        patterns = tuple((pattern, ()) for pattern in sorted(seen.patterns))
        case = replace(case, rules=(*case.rules, MemberRule(named, patterns, goal)))
    case = replace(case, seen=SeenMembers(all=True))
    return None if case.lacks else case


def _inexpressible(error: SchemaError, pointer: str, keyword: str) -> SchemaError:
    reason = str(error).partition(": ")[2].partition("\n")[0]
    return SchemaError(
        f"what does not match it cannot be enforced: {error.pointer}/{error.keyword}: {reason}",
        pointer=pointer,
        keyword=keyword,
        rewrite="list what is allowed (enum, anyOf) instead of what is not",
    )
