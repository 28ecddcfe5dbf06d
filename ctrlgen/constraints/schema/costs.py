"""The shortest document of each goal, in bytes: a least fixpoint. A goal without one cannot be satisfied.

Only what a text must contain is looked at: optional members, and items beyond the least number, wait until somebody
asks for them.

Reference: D. E. Knuth, A generalization of Dijkstra's algorithm, Information Processing Letters 6 (1977).
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema import quotes
from ctrlgen.constraints.schema.cases import CaseTable
from ctrlgen.constraints.schema.covering import object_cost
from ctrlgen.constraints.schema.distinct import MAX_VALUES, DistinctItems, DistinctStrings, Domain
from ctrlgen.constraints.schema.facts import NEVER
from ctrlgen.constraints.schema.items import CountedItems, array_cost
from ctrlgen.constraints.schema.members import Members, members_of
from ctrlgen.constraints.schema.numbers import Number
from ctrlgen.constraints.schema.plain import Plain, limited
from ctrlgen.constraints.schema.texts import String, ascii_bytes, listed, quoted, spellings
from ctrlgen.constraints.schema.values import ANY_ARRAY, ANY_OBJECT, Array, Boolean, Case, Null, Object
from ctrlgen.errors import ComplexityError, SchemaError, UnsatisfiableError
from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.reading import Reader

MAX_GOALS = 100_000

_INFINITE = 1 << 200

SHORTEST = {
    "date": 10, "time": 9, "date-time": 20, "duration": 3, "email": 3, "idn-email": 3, "hostname": 1, "ipv4": 7,
    "ipv6": 2, "uri": 2, "uri-reference": 0, "iri": 2, "iri-reference": 0, "uri-template": 0, "uuid": 36,
    "json-pointer": 0, "relative-json-pointer": 1, "regex": 0,
}  # fmt: skip
"""Bytes of the shortest string of each format, known without building its automaton."""

_FORMAT_LENGTHS = {String(frozenset(((True, "format", name),))): length + 2 for name, length in SHORTEST.items()}


class Costs:
    """How short each goal can be written.

    Args:
        reader: what the document says.
        max_digits: most digits of a number.
        ensure_ascii: whether only ASCII is to be written.
    """

    def __init__(self, reader: Reader, max_digits: int, ensure_ascii: bool) -> None:
        self.table = CaseTable(reader)
        self.table.branches.possible = lambda goal: self.of(goal) is not None
        self.max_digits, self.ascii = max_digits, ensure_ascii
        self.zeros = 0 if reader.plain_integers else 1
        self.plain = Plain(reader.facts, self._shortest_scalar, ascii=ensure_ascii)
        self.plain.look(reader.root)
        self._of: dict[Goal, int | None] = {(): 1, NEVER: None, **self.plain.costs}
        self._cases: dict[int, int | None] = {}
        self._members: dict[int, Members] = {}
        self._states: dict[int, CountedItems | DistinctItems | DistinctStrings | None] = {}
        self._kept: list[Case] = []  # what is known by identity must stay alive

    # goals

    def of(self, goal: Goal) -> int | None:
        """Bytes of the shortest text; None if there is none."""
        if goal in self._of:
            return self._of[goal]
        return self._solved(goal)

    def _solved(self, goal: Goal) -> int | None:
        """The fixpoint over the goal and all that its texts must contain."""
        cases = self.table.of(goal)
        if all(child in self._of for case in cases for child in self._needed(case, goal)):
            costs = [cost for case in cases if (cost := self._now(case, goal, self.of)) is not None]
            self._of[goal] = min(costs, default=None)
            return self._of[goal]
        below: dict[Goal, list[Goal]] = {}
        todo = [goal]
        while todo:
            here = todo.pop()
            if here in below:
                continue
            found = [g for case in self.table.of(here) for g in self._needed(case, here) if g not in self._of]
            below[here] = found
            todo += found
            if len(below) > MAX_GOALS:
                raise ComplexityError(
                    f"#{self.table.pointer(here)}: more than {MAX_GOALS} combinations of schemas (a fixed limit); "
                    "write fewer schemas in allOf, or let them share fewer properties"
                )
        self._relax(below)
        return self._of[goal]

    def _relax(self, below: dict[Goal, list[Goal]]) -> None:
        parents: defaultdict[Goal, list[Goal]] = defaultdict(list)
        for goal, needed in below.items():
            for child in needed:
                parents[child].append(goal)
        values: dict[Goal, int] = {}

        def lookup(goal: Goal) -> int | None:
            return values[goal] if goal in values else self._of.get(goal)

        pending = dict.fromkeys(below)  # taken from the end: those below first, mostly
        while pending:
            goal, _ = pending.popitem()
            costs = [self._now(case, goal, lookup) for case in self.table.of(goal)]
            best = min([cost for cost in costs if cost is not None], default=None)
            if best is not None and best < values.get(goal, _INFINITE):
                values[goal] = best
                pending.update(dict.fromkeys(parents[goal]))
        for goal in below:
            self._of[goal] = values.get(goal)

    def cases(self, goal: Goal) -> list[Case]:
        """The cases of a goal that have a text."""
        cases = self.table.of(goal)
        if len(cases) == 1 and cases[0].kind != Array.kind:
            cost = self._cases[id(cases[0])] = self.of(goal)
            return [] if cost is None else [cases[0]]
        return [case for case in cases if self.case(case, goal) is not None]

    def case(self, case: Case, goal: Goal) -> int | None:
        """Bytes of the shortest text of one case of a goal; None if there is none."""
        key = id(case)
        if key not in self._cases:
            for needed in self._needed(case, goal):
                self.of(needed)
            self._kept.append(case)
            self._cases[key] = self._now(case, goal, self.of)
        return self._cases[key]

    # cases

    def _needed(self, case: Case, goal: Goal) -> Iterable[Goal]:
        """The goals that the length of a case depends on."""
        if isinstance(case, Array):
            states = self.states(case, goal)
            if isinstance(states, CountedItems):
                return states.goals()
            if case.least == 0 or case.unique:
                return ()
            places = case.places
            goals = [case.goal(index) for index in range(min(case.least, places))]
            return [*goals, case.goal(places)] if case.least > places else goals
        if isinstance(case, Object):
            if not (case.required or case.least or case.demands or case.implies):
                return ()
            members = self.members(case, goal)
            if case.demands or case.implies or case.least > sum(members.required):
                ways = [*members.ways, *(ways for _, ways in members.others)]
            else:
                ways = [ways for ways, needed in zip(members.ways, members.required, strict=True) if needed]
            return [goal for some in ways for goal, _ in some]
        return ()

    def _now(self, case: Case, goal: Goal, lookup: object) -> int | None:
        if isinstance(case, Array):
            states = self.states(case, goal)
            if states is None:
                return array_cost(case, lookup)  # type: ignore[arg-type]
            if isinstance(states, CountedItems):
                states.settle(lookup)  # type: ignore[arg-type]
            return states.whole() if states.possible() else None
        if isinstance(case, Object):
            if not (case.required or case.least or case.demands):
                return 2
            return object_cost(self.members(case, goal), lookup)  # type: ignore[arg-type]
        return self.scalar(case)

    def _shortest_scalar(self, goal: Goal) -> int | None:
        """Bytes of the shortest text of a goal that arrays and objects meet freely or not at all."""
        cases = self.table.of(goal)
        if any(isinstance(case, Array | Object) and case not in (ANY_ARRAY, ANY_OBJECT) for case in cases):
            return None
        costs = [2 if isinstance(case, Array | Object) else self.scalar(case) for case in cases]
        return min([cost for cost in costs if cost is not None], default=None)

    def scalar(self, case: Case) -> int | None:
        """Bytes of the shortest text of a case that holds no others."""
        if isinstance(case, Null):
            return 4
        if isinstance(case, Boolean):
            return 4 if True in case.values else 5
        if isinstance(case, Number):
            return _number_cost(case, self.max_digits, self.zeros)
        assert isinstance(case, String)
        if case.values is not None:
            return min(map(len, self.strings(case)), default=None)
        if case.plain:
            return case.least + 2
        if case.quote is not None:
            return quotes.length(case.quote, self.ascii)
        if not self.ascii and (length := _FORMAT_LENGTHS.get(case)) is not None:
            return length
        return _string_cost(case, self.ascii)

    def strings(self, case: String) -> list[bytes]:
        """How listed strings are written."""
        texts = [text for value in case.values or () for text in spellings(value)]
        return [text for text in texts if text.isascii()] if self.ascii else texts

    def quoted(self, case: String) -> Automaton:
        """The content of a string with its closing quote."""
        return _quoted(case, self.ascii)

    # arrays and objects

    def members(self, case: Object, goal: Goal) -> Members:
        """The members of an object."""
        found = self._members.get(id(case))
        if found is None:
            found = self._members[id(case)] = members_of(
                case, self._names_of, self.table.pointer(goal), ascii=self.ascii
            )
            self._kept.append(case)
        return found

    def _names_of(self, goal: Goal) -> Automaton:
        """The canonical content of the strings that meet a goal."""
        found: Automaton | None = None
        for case in self.table.of(goal):
            if isinstance(case, String):
                part = _names(case)
                found = part if found is None else found | part
        return Automaton.empty() if found is None else found

    def states(self, case: Array, goal: Goal) -> CountedItems | DistinctItems | DistinctStrings | None:
        """The states of an array whose items depend on each other; None for another one."""
        if not case.counts and not case.unique:
            return None
        key = id(case)
        if key not in self._states:
            self._kept.append(case)
            pointer = self.table.pointer(goal)
            if case.unique and not self._distinct_anyway(case):
                self._states[key] = self._distinct(case, pointer)
            elif case.counts:
                negated = self.table.negation.goal
                self._states[key] = CountedItems(case, lambda g: negated(g, pointer), self.of, pointer)
            else:
                self._states[key] = None
        return self._states[key]

    def _distinct_anyway(self, case: Array) -> bool:
        """Whether no two items can be equal: there is one at most, or all differ in type."""
        most = case.most
        if case.goal(case.places) == NEVER:
            most = case.places if most is None else min(most, case.places)
        if most is None or most > case.places + 1:
            return most is not None and most <= 1
        kinds: set[int] = set()
        for index in range(most):
            here = {item.kind for item in self.table.of(case.goal(index))}
            if not kinds.isdisjoint(here):
                return most <= 1
            kinds |= here
        return True

    def _distinct(self, case: Array, pointer: str) -> DistinctItems | DistinctStrings:
        if case.counts:
            raise _not_distinct(pointer, "beside contains")
        items = self.table.of(case.goal(0))
        if case.places == 0 and len(items) == 1 and isinstance(items[0], String) and not _is_short(items[0]):
            content = _names(items[0])
            content = content & ascii_bytes() if self.ascii else content
            return DistinctStrings(content, case.least, case.most, pointer)
        numbers: dict[object, int] = {}
        first = [self._domain(case.goal(index), numbers, pointer) for index in range(case.places)]
        rest = case.goal(case.places)
        domain = None if rest == NEVER else self._domain(rest, numbers, pointer)
        return DistinctItems(first, domain, case.least, case.most)

    def _domain(self, goal: Goal, numbers: dict[object, int], pointer: str) -> Domain:
        """The values of a goal that has few."""
        values: list[object] = []
        for case in self.table.of(goal):
            if isinstance(case, Null):
                values.append(None)
            elif isinstance(case, Boolean):
                values += sorted(case.values)
            elif isinstance(case, String) and case.values is not None:
                values += case.values
            elif isinstance(case, Number) and (few := case.listed()) is not None:
                values += few
            else:
                raise _not_distinct(
                    pointer, "unless all items are strings, or have few values (enum, const, boolean, small integers)"
                )
            if len(values) > MAX_VALUES:
                raise _not_distinct(pointer, f"for items with more than {MAX_VALUES} values")
        found = {}
        for value in values:
            number = numbers.setdefault((isinstance(value, bool), value), len(numbers))
            constant = self.table.single(value, pointer)
            cost = self.of(constant)
            if cost is not None:
                found[number] = (number, constant, cost)
        return Domain(tuple(found.values()))

    # errors

    def require(self, root: Goal) -> None:
        """Refuse a root that nothing satisfies, or only something very long.

        Raises:
            UnsatisfiableError: there is no finite document.
            ComplexityError: the shortest is too long.
        """
        cost = self.of(root)
        if cost is None:
            raise UnsatisfiableError(f"no finite document satisfies the schema: {self._blame(root)}")
        limited(cost)

    def _blame(self, root: Goal) -> str:
        """Where it fails: the deepest goal on the way that must hold and cannot."""
        goal = root
        seen: set[Goal] = set()
        while goal not in seen:
            seen.add(goal)
            cases = self.table.of(goal)
            where = f"#{self.table.pointer(goal)}"
            if not cases:
                return f"nothing is left of {where} when all its keywords are combined"
            inner = next((child for child in self._surely_needed(cases[-1], goal) if self.of(child) is None), None)
            if inner is None or inner == NEVER:
                return f"{where} allows nothing" + (", since it needs what is false" if inner == NEVER else "")
            goal = inner
        return f"#{self.table.pointer(goal)} contains itself without an end"

    def _surely_needed(self, case: Case, goal: Goal) -> Iterable[Goal]:
        """The goals without which there is no text; none where it is a matter of choice."""
        if isinstance(case, Array):
            return () if case.counts else self._needed(case, goal)
        if isinstance(case, Object):
            members = self.members(case, goal)
            required = [ways for ways, needed in zip(members.ways, members.required, strict=True) if needed]
            return [ways[0][0] if ways else NEVER for ways in required if len(ways) <= 1]
        return ()


def _is_short(case: String) -> bool:
    """Whether the values are listed, and few."""
    return case.values is not None and len(case.values) <= MAX_VALUES


def _not_distinct(pointer: str, why: str) -> SchemaError:
    return SchemaError(
        f"that no two items are equal cannot be enforced {why}",
        pointer=pointer,
        keyword="uniqueItems",
        rewrite="items of type string, or with an enum; or an object with the values as keys",
    )


@lru_cache(4096)
def _number_cost(case: Number, max_digits: int, zeros: int) -> int | None:
    if case.values is not None:
        return min(map(len, case.texts(zeros)), default=None)
    automaton = case.automaton(max_digits, zeros)
    return None if automaton.is_empty else len(automaton.shortest())


@lru_cache(4096)
def _string_cost(case: String, ascii: bool) -> int | None:
    automaton = _quoted(case, ascii)
    return None if automaton.is_empty else len(automaton.shortest()) + 1


@lru_cache(256)
def _quoted(case: String, ascii: bool) -> Automaton:
    automaton = quoted(case)
    return automaton & ascii_bytes() if ascii else automaton


@lru_cache(256)
def _names(case: String) -> Automaton:
    if case.values is not None:
        return listed(case.values, "canonical")
    return (
        json_body("canonical") if case.plain and not case.least and case.most is None else case.automaton("canonical")
    )
