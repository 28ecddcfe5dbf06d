"""Which members an object may have, and what each must meet: the rules of an object shape, resolved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.expansion import pattern_automaton
from ctrlgen.constraints.schema.shapes import both, content
from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.shapes import Goal, Object

MAX_CLASSES = 64
"""Most classes of names that patternProperties may tell apart in one object."""

MAX_NAME_STATES = 2_000
"""Most states of such a class."""


@dataclass(frozen=True)
class Member:
    """A declared member.

    Args:
        text: its name in JSON with the closing quote, without the opening one.
        goal: what its value must meet.
        required: whether it must be there.
    """

    text: bytes
    goal: Goal
    required: bool


@dataclass(frozen=True)
class OtherMembers:
    """Members that are not declared.

    Args:
        names: their names with the closing quote; None for all names that are not declared.
        goal: what their values must meet.
    """

    names: Automaton | None
    goal: Goal


@dataclass(frozen=True)
class Members:
    """The members of an object: declared ones in order, then any number of others."""

    declared: tuple[Member, ...]
    others: tuple[OtherMembers, ...]

    def shortest_other(self, other: OtherMembers) -> int:
        """Bytes of the shortest name, with its closing quote."""
        if other.names is not None:
            return len(other.names.shortest())
        taken = Automaton.from_strings([member.text for member in self.declared if len(member.text) <= 3])
        return len((any_name() - taken).shortest())


def members_of(shape: Object, pointer: str) -> Members:
    """Resolve the rules of an object shape.

    Raises:
        ComplexityError: the patterns tell too many classes of names apart.
    """
    names = dict.fromkeys(name for rule in shape.rules for name, _ in rule.named)
    names.update(dict.fromkeys(shape.required))
    required = frozenset(shape.required)
    patterns = list(dict.fromkeys(pattern for rule in shape.rules for pattern, _ in rule.patterns))
    automata = {pattern: pattern_automaton(pattern, "canonical", pointer) for pattern in patterns}
    declared = []
    for name in names:
        text = content(name)
        found = frozenset(pattern for pattern, automaton in automata.items() if automaton.matches(text))
        declared.append(Member(text + b'"', _goal(shape, name, found), name in required))
    if not patterns:
        return Members(tuple(declared), (OtherMembers(None, _goal(shape, None, frozenset())),))
    return Members(tuple(declared), tuple(_others(shape, automata, [content(name) for name in names], pointer)))


def _goal(shape: Object, name: str | None, found: frozenset[str]) -> Goal:
    """What the member of a name (None: one that is declared nowhere) in which these patterns are found must meet."""
    goals = []
    for rule in shape.rules:
        own = [goal for pattern, goal in rule.patterns if pattern in found]
        if name is not None and name in rule.goals:
            own.append(rule.goals[name])
        goals += own or [rule.others]
    return both(*goals)


def _others(shape: Object, automata: dict[str, Automaton], declared: list[bytes], pointer: str) -> list[OtherMembers]:
    """Names that are not declared, by the goals of their members."""
    free = json_body("canonical") - Automaton.from_strings(declared)
    classes: list[tuple[Automaton, frozenset[str]]] = [(free, frozenset())]
    for pattern, automaton in automata.items():
        try:
            split = [
                (part, matched)
                for names, found in classes
                for part, matched in (
                    (names.intersection(automaton, max_states=MAX_NAME_STATES), found | {pattern}),
                    (names.difference(automaton, max_states=MAX_NAME_STATES), found),
                )
            ]
        except ComplexityError as error:
            raise ComplexityError(f"#{pointer}/patternProperties: {error}") from error
        classes = [(names, found) for names, found in split if not names.is_empty]
        if len(classes) > MAX_CLASSES:
            raise ComplexityError(
                f"#{pointer}/patternProperties: the patterns tell more than {MAX_CLASSES} classes of names apart "
                "(a fixed limit); use fewer of them, or patterns that exclude each other"
            )
    by_goal: dict[Goal, Automaton] = {}
    for names, found in classes:
        goal = _goal(shape, None, found)
        by_goal[goal] = by_goal[goal] | names if goal in by_goal else names
    quote = Automaton.from_strings([b'"'])
    return [OtherMembers(names.then(quote), goal) for goal, names in by_goal.items()]


@lru_cache(1)
def any_name() -> Automaton:
    """Any name, in its canonical spelling, with its closing quote."""
    return json_body("canonical").then(Automaton.from_strings([b'"']))
