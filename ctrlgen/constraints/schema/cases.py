"""Goals -> cases: the union of cases that a set of schemas means, some of which must not be met."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.schema.branches import Branches
from ctrlgen.constraints.schema.document import MAX_DEPTH, too_deep
from ctrlgen.constraints.schema.facts import NEVER, Facts, ItemRule, Listed, MemberRule
from ctrlgen.constraints.schema.forms import is_number
from ctrlgen.constraints.schema.negation import Negation
from ctrlgen.constraints.schema.numbers import Number, exact
from ctrlgen.constraints.schema.texts import String
from ctrlgen.constraints.schema.values import (
    ANY,
    Array,
    Boolean,
    Case,
    Null,
    Object,
    SeenItems,
    SeenMembers,
)
from ctrlgen.errors import ComplexityError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.reading import Reader

Json = Any
Cases = tuple[Case, ...]

MAX_PAIRS = 100_000
"""Most pairs of cases intersected for one schema."""

MAX_CASES = 5_000
"""Most cases in the union that one schema means."""

_TYPES = frozenset(("null", "boolean", "number", "string", "array", "object"))
_KINDS = ("null", "boolean", "number", "string", "array", "object")

_ABOUT = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "string": ("minLength", "maxLength", "pattern", "format", "x-quote"),
    "array": ("item rule", "minItems", "maxItems", "contains", "uniqueItems"),
    "object": ("members", "required", "minProperties", "maxProperties", "propertyNames", "dependentRequired"),
}
"""The facts that say something about one type."""


class CaseTable:
    """The cases of every goal of a document, found when they are asked for.

    Args:
        reader: the facts.
    """

    def __init__(self, reader: Reader) -> None:
        self.facts, self.pointers, self._reader = reader.facts, reader.pointers, reader
        self._known: dict[tuple[Goal, bool], Cases] = {((), False): ANY, ((), True): ANY}
        self._known[NEVER, False] = self._known[NEVER, True] = ()
        self._open: list[int] = []
        self._choosing: dict[int, bool] = {}
        self._pairs = 0
        self.branches = Branches(self)
        self.negation = Negation(self)

    # goals

    def synthetic(self, facts: Facts, pointer: str) -> Goal:
        """The goal of facts that stand nowhere in the document."""
        return self._reader.numbered(facts, pointer)

    def pointer(self, goal: Goal) -> str:
        """Where the first schema of a goal stands."""
        return self.pointers[abs(goal[0])] if goal else ""

    def of(self, goal: Goal, *, seen: bool = False) -> Cases:
        """The union of cases that a goal means.

        Args:
            goal: the goal.
            seen: also tell what has been evaluated; the union then holds a case for each way to evaluate.

        Raises:
            SchemaError: a schema refers to itself without reading anything, or cannot be enforced.
            ComplexityError: there are too many cases.
        """
        known = self._known.get((goal, seen))
        if known is None:
            known = self._literal(goal[0], ANY, seen) if len(goal) == 1 else self.within(ANY, goal, seen)
            self._known[goal, seen] = known
        return known

    def within(self, cases: Cases, goal: Goal, seen: bool) -> Cases:
        """The cases that also meet a goal: schemas that choose one branch of several come last, and know the others."""
        last = []
        for literal in goal:
            if literal > 0 and self._chooses(literal):
                last.append(literal)
            else:
                cases = self.meet(cases, self.of((literal,), seen=seen), self.pointers[abs(literal)])
        for literal in last:
            if not cases:
                break
            cases = self.of((literal,), seen=seen) if cases is ANY else self._literal(literal, cases, seen)
        return cases

    def _chooses(self, number: int) -> bool:
        """Whether a schema has a oneOf, its own or one that it refers to."""
        known = self._choosing.get(number)
        if known is None:
            self._choosing[number] = False  # until known: it may refer to itself
            facts = self.facts[number]
            found = "oneOf" in facts or any(n > 0 and self._chooses(n) for g in facts.get("allOf", ()) for n in g)
            known = self._choosing[number] = found and facts.keys().isdisjoint(_UNEVALUATED)
        return known

    def meet(self, left: Cases, right: Cases, pointer: str) -> Cases:
        """The union of the intersections."""
        if left is ANY or right is ANY:
            return right if left is ANY else left
        self._pairs += len(left) * len(right)
        if self._pairs > MAX_PAIRS:
            raise _too_many(pointer, MAX_PAIRS)
        found = []
        for a in left:
            for b in right:
                if a.kind == b.kind:
                    case = a.meet(b)  # type: ignore[arg-type]
                    if case is not None:
                        found.append(case)
                        self._pairs += len(case.rules) >> 2 if isinstance(case, Array | Object) else 0
        return self.union(found, pointer)

    def union(self, cases: Iterable[Case], pointer: str) -> Cases:
        """Several cases, each once."""
        found = tuple(cases)
        if len(found) > 1:
            found = tuple(dict.fromkeys(found))
        if len(found) > MAX_CASES:
            raise _too_many(pointer, MAX_CASES)
        return found

    def _literal(self, literal: int, cases: Cases, seen: bool) -> Cases:
        if literal in self._open:
            pointer = self.pointers[abs(literal)]
            raise SchemaError("the schema refers to itself without reading anything", pointer=pointer, keyword="$ref")
        if len(self._open) >= MAX_DEPTH:
            raise too_deep()
        self._open.append(literal)
        try:
            if literal < 0:
                return self.negation.of(-literal)
            return self._positive(literal, cases, seen)
        finally:
            self._open.pop()

    def _positive(self, number: int, within: Cases, seen: bool) -> Cases:
        facts, pointer = self.facts[number], self.pointers[number]
        looks = seen or not facts.keys().isdisjoint(_UNEVALUATED)
        cases = self.plain(facts, pointer)
        if looks:
            cases = tuple([_seeing(case, facts) for case in cases])
        cases = self.meet(within, cases, pointer)
        if not facts.keys().isdisjoint(_IN_PLACE):
            cases = self.branches.applied(cases, facts, pointer, looks)
        if looks:
            cases = self.branches.closed(cases, facts, pointer, seen)
        return cases

    # one schema, without what is in place

    def plain(self, facts: Facts, pointer: str) -> Cases:
        """The cases of the keywords that speak of one type, and of the listed values."""
        types = facts.get("type", _TYPES)
        found: Cases
        if len(facts) == 1 and len(types) == 1:
            (name,) = types
            found = ALONE[name]
        else:
            cases: Sequence[Case | None] = [self.typed(name, facts) for name in _KINDS if name in types]
            if "integer" in types:
                cases = [*cases, number(facts, whole=True)]
            found = tuple([case for case in cases if case is not None])
        for keyword in ("enum", "const"):
            if keyword in facts:
                found = self.meet(self.listed(facts[keyword], pointer), found, pointer)
        return found

    def typed(self, name: str, facts: Facts) -> Case | None:
        """The case of one type."""
        about = _ABOUT.get(name)
        if about is None or facts.keys().isdisjoint(about):
            return ALONE[name][0]
        if name == "number":
            return number(facts, whole=None)
        return string(facts) if name == "string" else array(facts) if name == "array" else object_(facts)

    def listed(self, listed: Listed, pointer: str) -> Cases:
        """Some values."""
        values = listed.values
        booleans = frozenset(value for value in values if isinstance(value, bool))
        numbers = tuple(dict.fromkeys(exact(value) for value in values if is_number(value)))
        strings = tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
        cases: list[Case] = [Null()] if any(value is None for value in values) else []
        cases += [Boolean(booleans)] if booleans else []
        cases += [Number(values=numbers)] if numbers else []
        cases += [String(values=strings)] if strings else []
        containers = [value for value in values if isinstance(value, dict | list)]
        for value in containers:
            goal = self.constant(value, pointer)
            cases += self.of(goal)
        return tuple(dict.fromkeys(cases))

    def single(self, value: object, pointer: str) -> Goal:
        """The goal of one null, boolean, string or decimal number."""
        if isinstance(value, Decimal):
            value = int(value) if value == value.to_integral_value() else float(value)
        return self.synthetic({"const": Listed.of([value])}, pointer)

    def constant(self, value: Json, pointer: str) -> Goal:
        """The goal of exactly this value, for containers spelt out as a schema so that it can be negated."""
        if isinstance(value, list):
            items = tuple(self.constant(item, pointer) for item in value)
            facts: Facts = {"type": frozenset(("array",)), "item rule": ItemRule(items, NEVER)}
            if value:
                facts["minItems"] = len(value)
            return self.synthetic(facts, pointer)
        if isinstance(value, dict):
            named = tuple((name, self.constant(item, pointer)) for name, item in value.items())
            facts = {"type": frozenset(("object",)), "members": MemberRule(named, (), NEVER)}
            if value:
                facts["required"] = tuple(value)
            return self.synthetic(facts, pointer)
        return self.synthetic({"const": Listed.of([value])}, pointer)


ALONE: dict[str, Cases] = {**{name: (ANY[i],) for i, name in enumerate(_KINDS)}, "integer": (Number(True),)}
"""The case of each type of which nothing more is said."""
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")
_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas")


def number(facts: Facts, *, whole: bool | None) -> Number | None:
    """The numbers that the facts allow."""
    if facts.keys().isdisjoint(_ABOUT["number"]):
        return Number(whole)
    case: Number | None = Number(whole, step=Fraction(exact(facts["multipleOf"])) if "multipleOf" in facts else None)
    for keyword, low, open_ in (
        ("minimum", True, False),
        ("exclusiveMinimum", True, True),
        ("maximum", False, False),
        ("exclusiveMaximum", False, True),
    ):
        if keyword in facts and case is not None:
            bound = exact(facts[keyword])
            case = case.meet(Number(low=bound, above=open_) if low else Number(high=bound, below=open_))
    return case


def string(facts: Facts) -> String | None:
    """The strings that the facts allow."""
    languages = frozenset((True, kind, facts[kind]) for kind in ("pattern", "format", "x-quote") if kind in facts)
    least, most = facts.get("minLength", 0), facts.get("maxLength")
    return None if most is not None and least > most else String(languages, least, most)


def array(facts: Facts) -> Array | None:
    """The arrays that the facts allow."""
    least, most = facts.get("minItems", 0), facts.get("maxItems")
    if most is not None and least > most:
        return None
    rules = (facts["item rule"],) if "item rule" in facts else ()
    return Array(rules, least, most, _counted(facts), facts.get("uniqueItems", False))


def _counted(facts: Facts) -> tuple[Any, ...]:
    contains = facts.get("contains")
    return () if contains is None or (contains.least == 0 and contains.most is None) else (contains,)


def object_(facts: Facts) -> Object | None:
    """The objects that the facts allow."""
    required, least, most = facts.get("required", ()), facts.get("minProperties", 0), facts.get("maxProperties")
    if most is not None and max(least, len(required)) > most:
        return None
    rules = (facts["members"],) if "members" in facts else ()
    implied = tuple((name, other) for name, others in facts.get("dependentRequired", ()) for other in others)
    case = Object(rules, required, least, most, facts.get("propertyNames", ()), implied)
    return None if required and case.lacks else case


def _seeing(case: Case, facts: Facts) -> Case:
    """The case, with what the keywords of its own schema evaluate."""
    if isinstance(case, Array):
        rule = facts.get("item rule")
        goals = (facts["contains"].goal,) if "contains" in facts else ()
        seen = SeenItems(len(rule.first) if rule else 0, "all items" in facts, goals)
        return Array(case.rules, case.least, case.most, case.counts, case.unique, case.seen.join(seen))
    if isinstance(case, Object):
        rule = facts.get("members")
        names = frozenset(name for name, _ in rule.named) if rule else frozenset()
        patterns = frozenset(pattern for pattern, _ in rule.patterns) if rule else frozenset()
        return _with_seen(case, SeenMembers(names, patterns, "all members" in facts))
    return case


def _with_seen(case: Object, seen: SeenMembers) -> Object:
    joined = case.seen.join(seen)
    return Object(case.rules, case.required, case.least, case.most, case.names, case.implies, case.demands, joined)


def _too_many(pointer: str, limit: int) -> ComplexityError:
    return ComplexityError(
        f"#{pointer}: more than {limit} cases to combine (a fixed limit); "
        "write fewer branches in anyOf or oneOf beside or within allOf"
    )
