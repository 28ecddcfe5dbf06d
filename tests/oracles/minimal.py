"""What makes an automaton canonical, in plain Python: live states, the coarsest partition, breadth-first numbers.

Plain Python over lists, because the tables are small and the loops short: a chain of 2,500 states needs 2,500 rounds
of refinement, each touching one state. Dead moves are -1 throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import itemgetter
from typing import Any

Rows = Sequence[Sequence[int]]


def live_states(rows: Rows, accepting: Sequence[bool]) -> list[bool]:
    """Which states are reachable from state 0 and can reach an accepting one."""
    reachable = _closure(rows, [0])
    useful = _closure(_predecessors(rows), [state for state, accepts in enumerate(accepting) if accepts])
    return [here and there for here, there in zip(reachable, useful, strict=True)]


def coarsest_partition(rows: Rows, colours: Sequence[int], keep: Sequence[bool]) -> list[int]:
    """Number of the equivalence class of each kept state; states that are not kept are dead, of class -1.

    States that reach no cycle are classified in one pass from the end. The others by Moore's refinement, where a round
    only looks at states with a successor whose class changed, and the largest part of a split class keeps its number
    (Hopcroft's argument: a state changes its class at most log S times).
    """
    before = _predecessors(rows)
    successors: list[Callable[[Any], Any]] = [itemgetter(*row) if row else _no_moves for row in rows]
    class_of = [-1] * (len(rows) + 1)  # one more, which index -1 finds: the class of a dead move
    dirty = _settle_finite(rows, colours, keep, before, successors, class_of)
    members: list[set[int]] = []
    number_of: dict[int, int] = {}
    for state in dirty:
        number = class_of[state] = number_of.setdefault(colours[state], len(number_of))
        if number == len(members):
            members.append(set())
        members[number].add(state)
    cyclic = frozenset(dirty)
    while dirty:
        changed = _split(dirty, class_of, members, successors)
        dirty = {state for target in changed for state in before[target] if state in cyclic}
    return class_of[:-1]


def _no_moves(class_of: Sequence[int]) -> None:
    """The classes of no successors, for tables without columns."""


def _settle_finite(
    rows: Rows,
    colours: Sequence[int],
    keep: Sequence[bool],
    before: Rows,
    successors: Sequence[Callable[[Any], Any]],
    class_of: list[int],
) -> set[int]:
    """Give final classes (-2, -3 ...) to kept states with finitely many continuations; the other kept states."""
    waiting = [sum(target >= 0 and keep[target] for target in set(row)) for row in rows]
    ready = [state for state, kept in enumerate(keep) if kept and not waiting[state]]
    number_of: dict[tuple[int, object], int] = {}
    for state in ready:
        key = (colours[state], successors[state](class_of))
        class_of[state] = number_of.setdefault(key, -2 - len(number_of))
        for source in before[state]:
            waiting[source] -= 1
            if not waiting[source] and keep[source]:
                ready.append(source)
    return {state for state, kept in enumerate(keep) if kept and class_of[state] == -1}


def _split(
    dirty: set[int], class_of: list[int], members: list[set[int]], successors: Sequence[Callable[[Any], Any]]
) -> list[int]:
    """Split classes by the classes of their members' successors; the states whose class changed."""
    parts: dict[int, dict[object, list[int]]] = {}
    for state in dirty:
        parts.setdefault(class_of[state], {}).setdefault(successors[state](class_of), []).append(state)
    changed: list[int] = []
    for number, by_signature in parts.items():
        groups: list[Collection[int]] = sorted(by_signature.values(), key=lambda part: len(part))
        # members that are not dirty still agree with one another, and with no dirty one
        untouched, largest = len(members[number]) - sum(map(len, groups)), len(groups[-1])
        if untouched < largest:
            groups.pop()
            if untouched:
                groups.append(members[number] - dirty)
        for group in groups:
            members[number] -= set(group)
            members.append(set(group))
            for state in group:
                class_of[state] = len(members) - 1
            changed += group
    return changed


def canonical_order(rows: Rows, class_of: Sequence[int], keep: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Breadth-first order of the classes.

    Returns:
        one state of each class in that order, and for each state the place of its class, -1 for dead ones.
    """
    place = {class_of[0]: 0}
    order = [0]
    for state in order:
        for target in dict.fromkeys(rows[state]):
            if target >= 0 and keep[target] and class_of[target] not in place:
                place[class_of[target]] = len(order)
                order.append(target)
    return order, [place[number] if kept else -1 for number, kept in zip(class_of, keep, strict=True)]


def _predecessors(rows: Rows) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for target in set(row):
            if target >= 0:
                before[target].append(state)
    return before


def _closure(edges: Rows, start: Sequence[int]) -> list[bool]:
    seen = [False] * len(edges)
    order = list(start)
    for state in order:
        seen[state] = True
    for state in order:
        for target in dict.fromkeys(edges[state]):
            if target >= 0 and not seen[target]:
                seen[target] = True
                order.append(target)
    return seen
