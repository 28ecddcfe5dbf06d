"""Plans: what a value may be, ready to be turned into an automaton.

A goal stands for a value that has to meet several schemas, or must not meet them; its plans are the ways to write such
a value. Plans of arrays and objects hold the goals of what is in them, so that a schema may contain itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ctrlgen.constraints.schema.cases import ALONE
from ctrlgen.constraints.schema.costs import Costs
from ctrlgen.constraints.schema.demanded import told_out
from ctrlgen.constraints.schema.distinct import DistinctStrings
from ctrlgen.constraints.schema.facts import NEVER, Goal
from ctrlgen.constraints.schema.numbers import Number
from ctrlgen.constraints.schema.survey import survey
from ctrlgen.constraints.schema.texts import String, closed
from ctrlgen.constraints.schema.values import Array, Boolean, Case, Null, Object

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlgen.automaton import Automaton
    from ctrlgen.constraints.schema.facts import MemberRule
    from ctrlgen.constraints.schema.members import Members, Ways
    from ctrlgen.constraints.schema.reading import Reader


@dataclass(frozen=True)
class Texts:
    """Whole JSON texts: null, booleans, listed numbers and strings, in all spellings that are allowed."""

    texts: tuple[bytes, ...]


@dataclass(frozen=True)
class Lexeme:
    """A number, or a string.

    Args:
        automaton: the number; or the content of the string with its closing quote.
        text: whether it is a string, whose opening quote is read before.
        least: fewest code points, if ``automaton`` reads any string; else 0, and the automaton knows.
        most: most code points, None for no limit.
    """

    automaton: Automaton
    text: bool
    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Quoted:
    """A string that is a part of a text; ``quotes.copy_of`` says what ``text`` means."""

    text: str


class ItemStates(Protocol):
    """The states of an array whose items depend on those before them."""

    @property
    def start(self) -> Hashable:
        """The state of the empty array."""

    def closes(self, state: Hashable) -> bool:
        """Whether the array may end here."""

    def ways(self, state: Hashable) -> tuple[tuple[Goal, Hashable], ...]:
        """What the next item may be and the state after it; only ways from which the array can still end."""

    def cost(self, state: Hashable) -> int:
        """Bytes of a short rest: items, each with the comma before it, and the bracket."""


@dataclass(frozen=True, eq=False)
class ArrayPlan:
    """An array.

    Args:
        prefix: what the first items must meet.
        rest: what all others must meet, None if there are none.
        least: fewest items.
        most: most items, None for no limit.
        states: if given, they alone say what the items are.
        cost: bytes of a short text of the array.
        strings: if given, all items are strings with this content (canonical, with the closing quote), no two alike.
    """

    prefix: tuple[Goal, ...]
    rest: Goal | None
    least: int
    most: int | None
    states: ItemStates | None
    cost: int
    strings: Automaton | None = None


class Slot(NamedTuple):
    """A member whose name is known.

    Args:
        name: its name.
        ways: what its value may meet, with the bits of ``wanted`` that such a member fulfils; none: it is never there.
        required: whether it must be there.
        implies: indices of the slots that must be there if this one is, theirs included.
    """

    name: str
    ways: tuple[tuple[Goal, int], ...]
    required: bool = False
    implies: tuple[int, ...] = ()


class Other(NamedTuple):
    """Members whose names are not those of slots.

    Args:
        names: canonical content with the closing quote; names of slots may be among them, and are not meant. None for
            every name that is no slot's.
        ways: as for a slot.
    """

    names: Automaton | None
    ways: tuple[tuple[Goal, int], ...]


@dataclass(frozen=True, eq=False)
class ObjectPlan:
    """An object.

    Args:
        slots: members with known names, in the order of their declaration.
        others: members with other names; no name is in two of them.
        least: fewest members.
        most: most members, None for no limit.
        wanted: bits that the members together must fulfil; others can fulfil each of them.
        cost: bytes of a short text of the object.
    """

    slots: tuple[Slot, ...]
    others: tuple[Other, ...]
    least: int
    most: int | None
    wanted: int
    cost: int


Plan = Texts | Lexeme | Quoted | ArrayPlan | ObjectPlan

MAX_TYPES = 256
SCALARS = ("null", "boolean", "integer", "number", "string")
_OF_TYPES: dict[tuple[str, int, int, bool], tuple[Plan, ...]] = {}
"""The plans of schemas that name a scalar type and nothing else, by the type and how it is to be written."""


class Language:
    """The plans of all goals of a document, made when they are asked for.

    Args:
        reader: what the document says.
        max_digits: most digits of a number before the point, and after it.
        ensure_ascii: whether only ASCII is to be written.

    Attributes:
        spelling: how numbers and strings are written: ``max_digits``, zeros after the point of integers, ASCII or not.

    Raises:
        SchemaError: a schema refers to itself without reading anything, or a keyword cannot be enforced.
        UnsatisfiableError: no document satisfies the schema.
        ComplexityError: a limit was reached.
    """

    def __init__(self, reader: Reader, *, max_digits: int = 20, ensure_ascii: bool = False) -> None:
        self.reader, self.root = reader, reader.root
        self._ascii = ensure_ascii
        self.spelling = max_digits, 0 if reader.plain_integers else 1, ensure_ascii
        self.costs = Costs(reader, max_digits, ensure_ascii)
        self._plans: dict[Goal, tuple[Plan, ...]] = {}
        self.costs.require(self.root)
        survey(self.costs, self.root)

    def shortest(self, goal: Goal) -> int:
        """Bytes of a short text of a goal that has been handed out."""
        cost = self.costs.of(goal)
        assert cost is not None  # goals without a text are never handed out
        return cost

    def alternatives(self, goal: Goal) -> tuple[Plan, ...]:
        """The ways to write a value that meets a goal; none is without a text."""
        known = self._plans.get(goal)
        if known is None:
            name = self.bare_type(goal)
            known = self._plans[goal] = tuple(self._made(goal)) if name is None else self.of_type(name)
        return known

    def bare_type(self, goal: Goal) -> str | None:
        """The scalar type that a schema names, if it says nothing else."""
        name = self.costs.plain.type_alone(goal)
        return name if name in SCALARS else None

    def of_type(self, name: str) -> tuple[Plan, ...]:
        """The ways to write a value of a scalar type, kept for all languages."""
        key = name, *self.spelling
        known = _OF_TYPES.get(key)
        if known is None:
            known = tuple(self._written((ALONE[name][0],), ()))
            if len(_OF_TYPES) < MAX_TYPES:
                _OF_TYPES[key] = known
        return known

    def _made(self, goal: Goal) -> Iterable[Plan]:
        rule = self.costs.plain.member_rule(goal)
        if rule is not None:
            yield self._plain_object(goal, *rule)
            return
        yield from self._written(self.costs.cases(goal), goal)

    def _written(self, cases: Sequence[Case], goal: Goal) -> Iterable[Plan]:
        texts = tuple([text for case in cases for text in self._listed(case)])
        if texts:
            yield Texts(tuple(dict.fromkeys(texts)))
        for case in cases:
            plan = self._plan(case, goal)
            if isinstance(plan, ObjectPlan):
                yield from told_out(plan, self.shortest)
            elif plan is not None:
                yield plan

    def _listed(self, case: Case) -> Iterable[bytes]:
        """The texts of a case that has a list of them."""
        if isinstance(case, Null):
            return [b"null"]
        if isinstance(case, Boolean):
            return [b"true" if value else b"false" for value in sorted(case.values)]
        if isinstance(case, Number):
            return case.texts(self.costs.zeros)
        if isinstance(case, String):
            return [text for text in self.costs.strings(case) if not self._ascii or text.isascii()]
        return []

    def _plan(self, case: Case, goal: Goal) -> Plan | None:
        if isinstance(case, Number):
            return None if case.values is not None else self._number(case)
        if isinstance(case, String):
            return None if case.values is not None else self._string(case)
        if isinstance(case, Array):
            return self._array(case, goal)
        return self._object(case, goal) if isinstance(case, Object) else None

    def _number(self, case: Number) -> Lexeme:
        return Lexeme(case.automaton(self.costs.max_digits, self.costs.zeros), text=False)

    def _string(self, case: String) -> Lexeme | Quoted:
        if case.quote is not None:
            return Quoted(case.quote)
        automaton = self.costs.quoted(case)
        return Lexeme(automaton, True, case.least, case.most) if case.plain else Lexeme(automaton, True)

    # arrays

    def _array(self, case: Array, goal: Goal) -> ArrayPlan:
        cost = self.costs.case(case, goal)
        assert cost is not None  # cases without a text are left out before
        states = self.costs.states(case, goal)
        if isinstance(states, DistinctStrings):
            return ArrayPlan((), None, states.least, states.most, None, cost, closed(states.content))
        if states is not None:
            return ArrayPlan((), None, case.least, case.most, states, cost)
        places = case.places if case.most is None else min(case.places, case.most)
        prefix: list[Goal] = []
        for index in range(places):
            item = case.goal(index)
            if self.costs.of(item) is None:
                return ArrayPlan(tuple(prefix), None, case.least, index, None, cost)
            prefix.append(item)
        rest: Goal | None = case.goal(case.places)
        if (case.most is not None and case.most <= places) or (rest is not None and self.costs.of(rest) is None):
            rest = None
        most = len(prefix) if rest is None else case.most
        return ArrayPlan(tuple(prefix), rest, case.least, most, None, cost)

    # objects

    def _object(self, case: Object, goal: Goal) -> ObjectPlan:
        cost = self.costs.case(case, goal)
        assert cost is not None  # cases without a text are left out before
        members = self.costs.members(case, goal)
        slots = tuple([self._slot(members, i) for i in range(len(members.names))])
        others = [(names, self._ways(ways)) for names, ways in members.others]
        kept = tuple([Other(None if names is None else closed(names), ways) for names, ways in others if ways])
        return ObjectPlan(slots, kept, members.least, members.most, members.wanted, cost)

    def _plain_object(self, goal: Goal, rule: MemberRule, required: tuple[str, ...]) -> ObjectPlan:
        """The plan of an object of which a plain schema says what its members are: what ``_object`` would make."""
        slots = [Slot(name, () if to == NEVER else ((to, 0),), name in required) for name, to in rule.named]
        ways: Ways = () if rule.others == NEVER else ((rule.others, 0),)
        slots += [Slot(name, ways, True) for name in required if name not in rule.goals]
        others = (Other(None, ways),) if ways else ()
        return ObjectPlan(tuple(slots), others, 0, None, 0, self.shortest(goal))

    def _slot(self, members: Members, i: int) -> Slot:
        return Slot(members.names[i], self._ways(members.ways[i]), members.required[i], members.implied[i])

    def _ways(self, ways: Ways) -> Ways:
        """Only those that can be finished."""
        of = self.costs.of
        return tuple([way for way in ways if of(way[0]) is not None])
