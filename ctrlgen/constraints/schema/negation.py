"""What does not meet a schema: the union of what breaks each of its keywords."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.complements import Complements
from ctrlgen.constraints.schema.facts import NEVER, Contains, Facts, ItemRule, Listed, MemberRule, both
from ctrlgen.constraints.schema.forms import is_number
from ctrlgen.constraints.schema.numbers import Number, exact
from ctrlgen.constraints.schema.texts import String
from ctrlgen.constraints.schema.values import (
    ANY,
    ANY_ARRAY,
    ANY_OBJECT,
    Array,
    Boolean,
    Case,
    Demand,
    Null,
    Object,
    absent,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlgen.constraints.schema.cases import Cases, CaseTable
    from ctrlgen.constraints.schema.facts import Goal

_KINDS = ("null", "boolean", "number", "string", "array", "object")


class Negation:
    """The cases of what does not meet a schema.

    Args:
        table: the cases of goals.
    """

    def __init__(self, table: CaseTable) -> None:
        self.table = table
        self.complements = Complements(table.facts, table.pointers)
        self.used = False

    # goals

    def cases(self, goal: Goal) -> Cases:
        """The values that do not meet a goal.

        Raises:
            SchemaError: a keyword has no complement that can be enforced.
        """
        if goal == NEVER:
            return ANY
        self.complements.require(goal)
        parts = [case for literal in goal for case in self.table.of((-literal,))]
        return self.table.union(parts, self.table.pointer(goal))

    def goal(self, goal: Goal, pointer: str) -> Goal:
        """The goal of not meeting one."""
        if len(goal) == 1:
            return () if goal == NEVER else (-goal[0],)
        return self.any_of([(-literal,) for literal in goal], pointer) if goal else NEVER

    def any_of(self, goals: Iterable[Goal], pointer: str) -> Goal:
        """The goal of meeting one of several."""
        several = tuple(dict.fromkeys(goal for goal in goals if goal != NEVER))
        if () in several:
            return ()
        if len(several) <= 1:
            return several[0] if several else NEVER
        return self.table.synthetic({"anyOf": several}, pointer)

    # one schema

    def of(self, number: int) -> Cases:
        """The values that do not meet schema ``number``."""
        self.used = True
        facts, pointer = self.table.facts[number], self.table.pointers[number]
        found = [*self._values(facts, pointer), *_numbers(facts), *_strings(facts)]
        found += [*self._arrays(facts, pointer), *self._objects(facts, pointer), *self._in_place(facts, pointer)]
        return self.table.union(found, pointer)

    def _values(self, facts: Facts, pointer: str) -> Iterator[Case]:
        types = facts.get("type")
        if types is not None:
            yield from (ANY[i] for i, kind in enumerate(_KINDS) if kind not in types and kind != "number")
            if "integer" in types:
                yield Number(whole=False)
            elif "number" not in types:
                yield Number()
        for keyword in ("enum", "const"):
            if keyword in facts:
                yield from self._unlisted(facts[keyword], pointer)

    def _unlisted(self, listed: Listed, pointer: str) -> Iterator[Case]:
        values = listed.values
        if all(value is not None for value in values):
            yield Null()
        booleans = frozenset((True, False)) - {value for value in values if isinstance(value, bool)}
        if booleans:
            yield Boolean(booleans)
        yield Number(excluded=frozenset(exact(value) for value in values if is_number(value)))
        yield String(excluded=frozenset(value for value in values if isinstance(value, str)))
        for container, kind in ((list, ANY_ARRAY), (dict, ANY_OBJECT)):
            cases: Cases = (kind,)
            for value in values:
                if isinstance(value, container):
                    constant = self.table.constant(value, pointer)
                    cases = self.table.meet(cases, self.cases(constant), pointer)
            yield from cases

    # arrays

    def _arrays(self, facts: Facts, pointer: str) -> Iterator[Case]:
        if facts.get("minItems", 0) > 0:
            yield Array(most=facts["minItems"] - 1)
        if "maxItems" in facts:
            yield Array(least=facts["maxItems"] + 1)
        if "item rule" in facts:
            yield from self._items(facts["item rule"], pointer)
        if "contains" in facts:
            yield from _uncounted(facts["contains"])

    def _items(self, rule: ItemRule, pointer: str) -> Iterator[Case]:
        """One item is wrong."""
        for index, goal in enumerate(rule.first):
            if goal != ():
                wrong = (*[()] * index, self.goal(goal, pointer))
                yield Array((ItemRule(wrong, ()),), least=index + 1)
        if rule.others == NEVER:
            yield Array(least=len(rule.first) + 1)
        elif rule.others != ():
            yield Array(counts=(Contains(self.goal(rule.others, pointer), 1, None, len(rule.first)),))

    # objects

    def _objects(self, facts: Facts, pointer: str) -> Iterator[Case]:
        for name in facts.get("required", ()):
            yield absent(name)
        if facts.get("minProperties", 0) > 0:
            yield Object(most=facts["minProperties"] - 1)
        if "maxProperties" in facts:
            yield Object(least=facts["maxProperties"] + 1)
        if "members" in facts:
            yield from self._members(facts["members"], pointer)
        if facts.get("propertyNames", ()) != ():
            yield Object(demands=(Demand(name=self.goal(facts["propertyNames"], pointer)),))
        for name, others in facts.get("dependentRequired", ()):
            for other in others:
                if other != name:
                    yield Object(absent(other).rules, required=(name,))

    def _members(self, rule: MemberRule, pointer: str) -> Iterator[Case]:
        """One member is wrong."""
        for name, goal in rule.named:
            if goal != ():
                wrong = MemberRule(((name, self.goal(goal, pointer)),), (), ())
                yield Object((wrong,), required=(name,))
        for pattern, goal in rule.patterns:
            if goal != ():
                yield Object(demands=(Demand(matched=pattern, value=self.goal(goal, pointer)),))
        if rule.others != ():
            besides = tuple(name for name, _ in rule.named)
            unmatched = tuple(pattern for pattern, _ in rule.patterns)
            goal = self.goal(rule.others, pointer)
            if besides or unmatched or goal != ():
                yield Object(demands=(Demand(besides, unmatched, value=goal),))
            else:
                yield Object(least=1)

    # in place

    def _in_place(self, facts: Facts, pointer: str) -> Iterator[Case]:
        table = self.table
        for goal in facts.get("allOf", ()):
            yield from self.cases(goal)
        if "anyOf" in facts:
            yield from self._none(facts["anyOf"], pointer)
        if "oneOf" in facts:
            goals: Sequence[Goal] = facts["oneOf"]
            yield from self._none(goals, pointer)
            for i, a in enumerate(goals):
                for b in goals[i + 1 :]:
                    if not table.branches.apart(a, b):
                        yield from table.of(both(a, b))
        if "not" in facts:
            yield from table.of(facts["not"])
        if "if" in facts:
            condition, then, otherwise = facts["if"]
            if then != ():
                yield from table.meet(table.of(condition), self.cases(then), pointer)
            if otherwise != ():
                yield from table.meet(self.cases(condition), self.cases(otherwise), pointer)
        for name, goal in facts.get("dependentSchemas", ()):
            yield from table.meet((Object(required=(name,)),), self.cases(goal), pointer)

    def _none(self, goals: Sequence[Goal], pointer: str) -> Cases:
        """What meets none of several."""
        cases: Cases = ANY
        for goal in goals:
            cases = self.table.meet(cases, self.cases(goal), pointer)
        return cases


def _numbers(facts: Facts) -> Iterator[Case]:
    if "minimum" in facts:
        yield Number(high=exact(facts["minimum"]), below=True)
    if "exclusiveMinimum" in facts:
        yield Number(high=exact(facts["exclusiveMinimum"]))
    if "maximum" in facts:
        yield Number(low=exact(facts["maximum"]), above=True)
    if "exclusiveMaximum" in facts:
        yield Number(low=exact(facts["exclusiveMaximum"]))
    if "multipleOf" in facts:
        yield Number(off=frozenset((Fraction(exact(facts["multipleOf"])),)))


def _uncounted(contains: Contains) -> Iterator[Case]:
    if contains.least > 0:
        yield Array(counts=(Contains(contains.goal, 0, contains.least - 1, contains.start),))
    if contains.most is not None:
        yield Array(counts=(Contains(contains.goal, contains.most + 1, None, contains.start),))


def _strings(facts: Facts) -> Iterator[Case]:
    if facts.get("minLength", 0) > 0:
        yield String(most=facts["minLength"] - 1)
    if "maxLength" in facts:
        yield String(least=facts["maxLength"] + 1)
    if "pattern" in facts:
        yield String(frozenset(((False, "pattern", facts["pattern"]),)))
    if "format" in facts:
        yield String(frozenset(((False, "format", facts["format"]),)))
    if "x-quote" in facts:
        yield String(frozenset(((False, "x-quote", facts["x-quote"]),)))
