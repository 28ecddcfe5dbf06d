"""Cases: what a value of one JSON type may be. A schema means a union of cases; ``meet`` intersects two.

A case of an array or object does not hold what is below it but *goals*: sets of schemas that must, or must not, hold
there. So intersection never descends, a schema may contain itself, and there are finitely many goals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ctrlgen.constraints.schema.facts import NEVER, Contains, Goal, ItemRule, MemberRule, both
from ctrlgen.constraints.schema.numbers import Number
from ctrlgen.constraints.schema.texts import String


@dataclass(frozen=True)
class Null:
    """null."""

    kind: ClassVar[int] = 0

    def meet(self, other: Null) -> Null | None:
        """The values of both."""
        return self


@dataclass(frozen=True)
class Boolean:
    """Some of true and false."""

    kind: ClassVar[int] = 1

    values: frozenset[bool] = frozenset((False, True))

    def meet(self, other: Boolean) -> Boolean | None:
        """The values of both."""
        values = self.values & other.values
        return Boolean(values) if values else None


@dataclass(frozen=True)
class SeenItems:
    """The items that a schema has evaluated: the first ones, and all that meet one of some goals."""

    first: int = 0
    all: bool = False
    goals: tuple[Goal, ...] = ()

    def join(self, other: SeenItems) -> SeenItems:
        """What one or the other has evaluated."""
        goals = tuple(dict.fromkeys(self.goals + other.goals))
        return SeenItems(max(self.first, other.first), self.all or other.all, goals)


@dataclass(frozen=True)
class Array:
    """Arrays that obey all rules.

    Args:
        rules: what the items meet.
        least: fewest items.
        most: most items, None for no limit.
        counts: items that are counted.
        unique: whether no two items are equal.
        seen: which items have been evaluated, if anybody asks.
    """

    kind: ClassVar[int] = 4

    rules: tuple[ItemRule, ...] = ()
    least: int = 0
    most: int | None = None
    counts: tuple[Contains, ...] = ()
    unique: bool = False
    seen: SeenItems = SeenItems()

    def meet(self, other: Array) -> Array | None:
        """The values of both, None where there is none for sure."""
        if self == ANY_ARRAY or other == ANY_ARRAY:
            return other if self == ANY_ARRAY else self
        limits = [most for most in (self.most, other.most) if most is not None]
        least, most = max(self.least, other.least), min(limits, default=None)
        if most is not None and least > most:
            return None
        return Array(
            tuple(dict.fromkeys(self.rules + other.rules)),
            least,
            most,
            tuple(dict.fromkeys(self.counts + other.counts)),
            self.unique or other.unique,
            self.seen.join(other.seen),
        )

    @property
    def places(self) -> int:
        """From this index on all items have the same goal."""
        return max((len(rule.first) for rule in self.rules), default=0)

    def goal(self, index: int) -> Goal:
        """What the item at ``index`` must meet."""
        return both(*[rule.first[index] if index < len(rule.first) else rule.others for rule in self.rules])


@dataclass(frozen=True)
class SeenMembers:
    """The members that a schema has evaluated."""

    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    all: bool = False

    def join(self, other: SeenMembers) -> SeenMembers:
        """What one or the other has evaluated."""
        return SeenMembers(self.names | other.names, self.patterns | other.patterns, self.all or other.all)


@dataclass(frozen=True)
class Demand:
    """There must be a member of some kind.

    Args:
        besides: names it may not have.
        unmatched: patterns that must not be found in its name.
        matched: a pattern that must be found in its name, None for none.
        name: what its name must meet as a string.
        value: what its value must meet.
    """

    besides: tuple[str, ...] = ()
    unmatched: tuple[str, ...] = ()
    matched: str | None = None
    name: Goal = ()
    value: Goal = ()


@dataclass(frozen=True)
class Object:
    """Objects that obey all rules.

    Args:
        rules: what the members meet.
        required: names that must be there.
        least: fewest members.
        most: most members, None for no limit.
        names: what all names must meet as strings.
        implies: (name, other name): if the one is there, so is the other.
        demands: members that must be there, whatever they are called.
        seen: which members have been evaluated, if anybody asks.
    """

    kind: ClassVar[int] = 5

    rules: tuple[MemberRule, ...] = ()
    required: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    names: Goal = ()
    implies: tuple[tuple[str, str], ...] = ()
    demands: tuple[Demand, ...] = ()
    seen: SeenMembers = SeenMembers()

    def meet(self, other: Object) -> Object | None:
        """The values of both, None where there is none for sure."""
        if self == ANY_OBJECT or other == ANY_OBJECT:
            return other if self == ANY_OBJECT else self
        limits = [most for most in (self.most, other.most) if most is not None]
        required = tuple(dict.fromkeys(self.required + other.required))
        least, most = max(self.least, other.least), min(limits, default=None)
        if most is not None and max(least, len(required)) > most:
            return None
        merged = Object(
            tuple(dict.fromkeys(self.rules + other.rules)),
            required,
            least,
            most,
            both(self.names, other.names),
            tuple(dict.fromkeys(self.implies + other.implies)),
            tuple(dict.fromkeys(self.demands + other.demands)),
            self.seen.join(other.seen),
        )
        return None if merged.lacks else merged

    @property
    def lacks(self) -> bool:
        """Whether a required member is plainly impossible."""
        return any(self.declared(name) == NEVER for name in self.required)

    def declared(self, name: str) -> Goal:
        """What the member of a name must meet by the rules that name it, and those without patterns that do not."""
        goals = []
        for rule in self.rules:
            goal = rule.goals.get(name)
            if goal is not None:
                goals.append(goal)
            elif not rule.patterns:
                goals.append(rule.others)
        return both(*goals)


Case = Null | Boolean | Number | String | Array | Object

ANY_ARRAY, ANY_OBJECT = Array(), Object()
ANY: tuple[Case, ...] = (Null(), Boolean(), Number(), String(), ANY_ARRAY, ANY_OBJECT)
"""Any value."""


def absent(name: str) -> Object:
    """Objects without a member of this name."""
    return Object((MemberRule(((name, NEVER),), (), ()),))
