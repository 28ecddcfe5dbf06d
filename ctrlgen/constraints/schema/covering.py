"""How short an object can be: which members to write so that all that must be there is, and no more than allowed."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.names import lengths_of
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.automaton import Automaton
    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.members import Members, Ways

MAX_STATES = 50_000
"""Most sets of members looked at where members imply others or fulfil demands."""

MAX_COUNT = 1_000_000
"""Most members that an object may have to have beside the known ones."""

_PRINTED = 93  # printable ASCII without the quote and the backslash


def object_cost(members: Members, lookup: Callable[[Goal], int | None]) -> int | None:
    """Bytes of a short text of an object; None if there is none.

    Args:
        members: its members.
        lookup: bytes of a short text of a goal, None if there is none.

    Raises:
        ComplexityError: members that imply each other or fulfil demands make too many sets.
    """
    needed = [i for i, required in enumerate(members.required) if required]
    if members.most is not None and len(needed) > members.most:
        return None
    if members.wanted or (members.most is not None and any(members.implied)):
        return _searched(members, lookup, needed)
    total = 0
    for i in needed:
        cost = _cheapest(members.ways[i], lookup)
        if cost is None:
            return None
        total += members.lengths[i] + cost + 4
    missing = members.least - len(needed)
    if missing > 0:
        extra = _filled(members, lookup, frozenset(needed), missing)
        if extra is None:
            return None
        total += extra
    return max(total + 1, 2)  # a member comes with a comma or the opening bracket


def _cheapest(ways: Ways, lookup: Callable[[Goal], int | None]) -> int | None:
    if len(ways) == 1:
        return lookup(ways[0][0])
    return min((cost for goal, _ in ways if (cost := lookup(goal)) is not None), default=None)


def _filled(members: Members, lookup: Callable[[Goal], int | None], there: frozenset[int], missing: int) -> int | None:
    """Bytes of ``missing`` more members."""
    found: list[int] = []
    if any(members.implied):  # each that comes brings the ones it implies, so all that can be are counted
        dead = {i for i, ways in enumerate(members.ways) if _cheapest(ways, lookup) is None}
    else:
        dead = set()
    for i, ways in enumerate(members.ways):
        if i not in there and ways and dead.isdisjoint(members.implied[i]):
            cost = _cheapest(ways, lookup)
            if cost is not None:
                found.append(members.lengths[i] + cost + 4)
    if any(members.implied):
        return (
            sum(found) + (_others_cost(members, lookup, missing - len(found)) or 0)
            if _enough(members, lookup, missing - len(found))
            else None
        )
    found += _other_costs(members, lookup, missing)
    return sum(heapq.nsmallest(missing, found)) if len(found) >= missing else None


def _enough(members: Members, lookup: Callable[[Goal], int | None], missing: int) -> bool:
    return missing <= 0 or len(_other_costs(members, lookup, missing)) >= missing


def _others_cost(members: Members, lookup: Callable[[Goal], int | None], missing: int) -> int | None:
    return sum(heapq.nsmallest(missing, _other_costs(members, lookup, missing))) if missing > 0 else 0


def _other_costs(members: Members, lookup: Callable[[Goal], int | None], count: int) -> list[int]:
    """Bytes of up to ``count`` members of each class of other names."""
    found: list[int] = []
    for names, ways in members.others:
        cost = _cheapest(ways, lookup)
        if cost is not None:
            lengths = _free(members, names, count)
            found += [length + cost + 4 for length in lengths]
    return found


def _free(members: Members, names: Automaton | None, count: int) -> list[int]:
    """The lengths of ``count`` short names of a class, which may hold the known ones too; fewer if there are fewer."""
    if count > MAX_COUNT:
        raise ComplexityError(f"an object needs {count} members; the limit is {MAX_COUNT} (fixed)")
    if names is None:
        return free_lengths(members.lengths, count)
    return lengths_of(names, count + len(members.names))[-count:] if count else []


def free_lengths(taken: tuple[int, ...], count: int) -> list[int]:
    """The lengths of ``count`` short names beside those of the lengths that are taken."""
    used = [0] * 8
    for length in taken:
        if length < len(used):
            used[length] += 1
    found: list[int] = []
    for length in range(len(used)):
        free = max(0, _PRINTED**length - used[length])
        found += [length] * min(free, count - len(found))
        if len(found) >= count:
            break
    return found


def _searched(members: Members, lookup: Callable[[Goal], int | None], needed: list[int]) -> int | None:
    """The cheapest set of members, by a search over what is there and what has been fulfilled (Dijkstra).

    A state is the known members that are there, how many others there are, and the demands fulfilled.
    """
    others = _other_ways(members, lookup)
    start = (0, frozenset[int](), 0, 0)
    heap: list[tuple[int, int, frozenset[int], int, int]] = [(0, 0, *start[1:])]
    done: set[tuple[frozenset[int], int, int]] = set()
    order = 0
    required = frozenset(needed)
    while heap:
        cost, _, there, count, flags = heapq.heappop(heap)
        if (there, count, flags) in done:
            continue
        done.add((there, count, flags))
        if len(done) > MAX_STATES:
            raise ComplexityError(
                f"more than {MAX_STATES} sets of members to choose from (a fixed limit), since members imply others or "
                "must not meet something; use fewer dependent or negated properties"
            )
        size = len(there) + count
        owed = required.union(*[members.implied[i] for i in there]) - there
        if not owed and flags == members.wanted and size >= members.least:
            return max(cost + 1, 2)
        if members.most is not None and size + max(len(owed), 1) > members.most:
            continue
        useful = size < members.least
        for i in sorted(owed)[:1] or range(len(members.names)):
            if i in there:
                continue
            for goal, bits in members.ways[i]:
                value = lookup(goal)
                if value is not None and (owed or useful or flags | bits != flags):
                    order += 1
                    step = members.lengths[i] + value + 4
                    heapq.heappush(heap, (cost + step, order, there | {i}, count, flags | bits))
        if not owed:
            for step, bits in others:
                if useful or flags | bits != flags:
                    order += 1
                    heapq.heappush(heap, (cost + step, order, there, count + 1, flags | bits))
    return None


def _other_ways(members: Members, lookup: Callable[[Goal], int | None]) -> list[tuple[int, int]]:
    """(bytes, demands fulfilled) of one more member with another name, long enough to be new."""
    found: dict[int, int] = {}
    count = members.least + members.wanted.bit_count() + 1
    for names, ways in members.others:
        lengths = _free(members, names, count)
        for goal, bits in ways:
            value = lookup(goal)
            if value is not None and lengths:
                found[bits] = min(found.get(bits, 1 << 60), lengths[-1] + value + 4)
    return [(cost, bits) for bits, cost in found.items()]
