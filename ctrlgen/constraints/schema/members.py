"""The members an object may have: the rules of an object case, resolved into slots and classes of other names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import chain, combinations
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.facts import NEVER, both, content
from ctrlgen.constraints.schema.names import MAX_FINITE, classes, finite, has_loop, without
from ctrlgen.constraints.schema.patterns import pattern_automaton
from ctrlgen.constraints.schema.texts import ascii_bytes
from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ctrlgen.automaton import Automaton
    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.names import Condition
    from ctrlgen.constraints.schema.values import Demand, Object

MAX_DEMANDS = 4
"""Most demands that one member may fulfil at once."""

Ways = tuple[tuple["Goal", int], ...]


@dataclass(frozen=True, eq=False)
class Members:
    """The members of an object.

    Args:
        names: the known names, in the order of their declaration.
        lengths: bytes of each between the quotes.
        ways: for each, what its value may meet and the demands it then fulfils.
        required: for each, whether it must be there.
        implied: for each, the indices of those that must be there too.
        others: (names, ways) of the others, whose names have no end; None for all that are not known.
        least: fewest members.
        most: most members.
        wanted: all demands.
    """

    names: tuple[str, ...]
    lengths: tuple[int, ...]
    ways: tuple[Ways, ...]
    required: tuple[bool, ...]
    implied: tuple[tuple[int, ...], ...]
    others: tuple[tuple[Automaton | None, Ways], ...]
    least: int
    most: int | None
    wanted: int


def members_of(case: Object, names_of: Callable[[Goal], Automaton], pointer: str, *, ascii: bool = False) -> Members:
    """Resolve the rules of an object.

    Args:
        case: the object.
        names_of: the canonical content of the strings that meet a goal.
        pointer: where the schema stands.
        ascii: whether names are written in ASCII only.

    Raises:
        ComplexityError: there are too many classes of names or demands.
    """
    if len(case.rules) == 1 and not (case.names or case.implies or case.demands or case.rules[0].patterns):
        return _plain(case, ascii)
    return _Resolver(case, names_of, pointer, ascii).members()


def _plain(case: Object, ascii: bool) -> Members:
    """The members by one rule without patterns."""
    rule = case.rules[0]
    names = tuple([name for name, _ in rule.named])
    ways: list[Ways] = [((goal, 0),) if goal != NEVER else () for _, goal in rule.named]
    rest: Ways = ((rule.others, 0),) if rule.others != NEVER else ()
    missing = tuple([name for name in case.required if name not in rule.goals])
    names += missing
    ways += [rest] * len(missing)
    return Members(
        names,
        lengths(names, ascii),
        tuple(ways),
        tuple(map(set(case.required).__contains__, names)),
        ((),) * len(names),
        ((None, rest),) if rest else (),
        case.least,
        case.most,
        0,
    )


def lengths(names: tuple[str, ...], ascii: bool) -> tuple[int, ...]:
    """Bytes of each name between the quotes, in its canonical spelling."""
    return tuple([len(encode_basestring_ascii(name)) - 2 if ascii else len(content(name)) for name in names])


class _Resolver:
    def __init__(self, case: Object, names_of: Callable[[Goal], Automaton], pointer: str, ascii: bool) -> None:
        self.case, self.pointer, self.ascii = case, pointer, ascii
        self.conditions: dict[Condition, Automaton] = {}
        patterns = [pattern for rule in case.rules for pattern, _ in rule.patterns]
        for demand in case.demands:
            patterns += [*demand.unmatched, *([] if demand.matched is None else [demand.matched])]
        for pattern in dict.fromkeys(patterns):
            self.conditions["pattern", pattern] = pattern_automaton(pattern, "canonical", pointer)
        for goal in (case.names, *(demand.name for demand in case.demands)):
            if goal:
                self.conditions["names", goal] = names_of(goal)

    def members(self) -> Members:
        case = self.case
        known = dict.fromkeys(name for rule in case.rules for name, _ in rule.named)
        known.update(dict.fromkeys(case.required))
        known.update(dict.fromkeys(chain.from_iterable(case.implies)))
        known.update(dict.fromkeys(name for demand in case.demands for name in demand.besides))
        others = list(self._others(known))
        names = tuple(known)
        index = {name: i for i, name in enumerate(names)}
        required = _needed(case, index)
        return Members(
            names,
            lengths(names, self.ascii),
            tuple([self._named(name) for name in names]),
            tuple([name in required for name in names]),
            _implied(case, index),
            tuple(others),
            case.least,
            case.most,
            (1 << len(case.demands)) - 1,
        )

    def _others(self, known: dict[str, None]) -> Iterator[tuple[Automaton | None, Ways]]:
        """The classes of other names by what their members may be; a class with an end adds to ``known``."""

        def unwanted(met: frozenset[Condition]) -> bool:
            return not self._ways(None, met)

        everything = json_body("canonical")
        if self.ascii:
            everything = everything & ascii_bytes()
        groups: dict[Ways, list[Automaton | None]] = {}
        for names, met in classes(self.conditions, unwanted, everything, self.pointer):
            groups.setdefault(self._ways(None, met), []).append(names)
        if len(groups) == 1 and not unwanted(frozenset()):
            yield None, next(iter(groups))  # all names are alike after all
            return
        for ways, parts in groups.items():
            if ways:
                yield from self._class(ways, parts, known)

    def _class(
        self, ways: Ways, parts: list[Automaton | None], known: dict[str, None]
    ) -> Iterator[tuple[Automaton | None, Ways]]:
        """Names whose members may be the same."""
        automata = [names for names in parts if names is not None]
        if len(automata) < len(parts):
            yield None, ways
            return
        names = reduce(Automaton.union, automata)
        ends = not has_loop(names)
        if ends:  # else the known names among them may stay: they are not read as others
            names = without(names, known)
            if names.is_empty:
                return
        listed = finite(names) if ends else None
        if listed is not None:
            known.update(dict.fromkeys(listed))
        elif ends and self.case.least > MAX_FINITE:
            raise ComplexityError(
                f"#{self.pointer}/minProperties: more than {MAX_FINITE} members of a class of names that "
                "has an end cannot be counted (a fixed limit)"
            )
        else:
            yield names, ways

    def _named(self, name: str) -> Ways:
        text = content(name) if self.conditions else b""
        met = frozenset(condition for condition, names in self.conditions.items() if names.matches(text))
        return self._ways(name, met)

    def _ways(self, name: str | None, met: frozenset[Condition]) -> Ways:
        """What the member of a name may be; None for a name that is declared nowhere."""
        goal = self._goal(name, met)
        if goal == NEVER:
            return ()
        demands = self.case.demands
        if not demands:
            return ((goal, 0),)
        bits = [i for i, demand in enumerate(demands) if _concerns(demand, name, met)]
        if len(bits) > MAX_DEMANDS:
            raise ComplexityError(
                f"#{self.pointer}: more than {MAX_DEMANDS} demands (negated properties) on one member (a fixed limit)"
            )
        found: dict[Goal, int] = {}
        for size in range(len(bits) + 1):
            for chosen in combinations(bits, size):
                met_too = both(goal, *[demands[i].value for i in chosen])
                if met_too != NEVER:
                    found[met_too] = found.get(met_too, 0) | sum(1 << i for i in chosen)
        return tuple(found.items())

    def _goal(self, name: str | None, met: frozenset[Condition]) -> Goal:
        case = self.case
        if case.names and ("names", case.names) not in met:
            return NEVER
        goals = []
        for rule in case.rules:
            own = [goal for pattern, goal in rule.patterns if ("pattern", pattern) in met]
            declared = None if name is None else rule.goals.get(name)
            if declared is not None:
                own.append(declared)
            goals += own or [rule.others]
        return both(*goals)


def _concerns(demand: Demand, name: str | None, met: frozenset[Condition]) -> bool:
    """Whether a member of this name may fulfil a demand."""
    return (
        name not in demand.besides
        and all(("pattern", pattern) not in met for pattern in demand.unmatched)
        and (demand.matched is None or ("pattern", demand.matched) in met)
        and (not demand.name or ("names", demand.name) in met)
    )


def _needed(case: Object, index: dict[str, int]) -> set[str]:
    """The names that must be there: the required ones and all that they imply."""
    found = set(case.required)
    if case.implies:
        todo = list(found)
        while todo:
            name = todo.pop()
            for one, other in case.implies:
                if one == name and other not in found:
                    found.add(other)
                    todo.append(other)
    return found


def _implied(case: Object, index: dict[str, int]) -> tuple[tuple[int, ...], ...]:
    if not case.implies:
        return ((),) * len(index)
    direct: dict[int, set[int]] = {}
    for name, other in case.implies:
        direct.setdefault(index[name], set()).add(index[other])
    found = []
    for i in range(len(index)):
        reached: set[int] = set()
        todo = [i]
        while todo:
            new = direct.get(todo.pop(), set()) - reached
            reached |= new
            todo += new
        found.append(tuple(sorted(reached - {i})))
    return tuple(found)
