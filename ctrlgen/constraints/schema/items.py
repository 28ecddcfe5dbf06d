"""Arrays whose items depend on each other: some are counted, or no two are equal."""

from __future__ import annotations

import heapq
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.facts import NEVER, both
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.values import Array

MAX_STATES = 20_000
"""Most states of an array that counts."""

Counts = tuple[int, ...]
State = tuple[int, Counts]


def array_cost(case: Array, lookup: Callable[[Goal], int | None]) -> int | None:
    """Bytes of a short text of an array in which nothing is counted; None if there is none."""
    if case.least == 0:
        return 2
    total, places = 1, case.places
    for index in range(min(case.least, places)):
        cost = lookup(case.goal(index))
        if cost is None:
            return None
        total += cost + 1
    if case.least > places:
        cost = lookup(case.goal(places))
        if cost is None:
            return None
        total += (case.least - places) * (cost + 1)
    return total


class CountedItems:
    """The states of an array in which some items are counted: an index, and how many of each kind there were.

    An index from which on nothing changes stands for all later ones, and a count that suffices for all higher ones.

    Args:
        case: the array.
        negated: the goal of not meeting one.
        lookup: bytes of a short text of a goal, None if there is none.

    Raises:
        ComplexityError: there are too many states.
    """

    def __init__(
        self, case: Array, negated: Callable[[Goal], Goal], lookup: Callable[[Goal], int | None], pointer: str
    ) -> None:
        self.case, self._negated, self._lookup, self._pointer = case, negated, lookup, pointer
        latest = max([case.places, case.least, *(count.start for count in case.counts)])
        self._last = latest if case.most is None else case.most
        self._caps = [count.least if count.most is None else count.most + 1 for count in case.counts]
        self.start: State = (0, (0,) * len(case.counts))
        self._moves: dict[State, list[tuple[Goal, State]]] = {}
        self._open = {self._kind(index): None for index in range(min(latest, self._last) + 1)}

    def _kind(self, index: int) -> tuple[int, tuple[bool, ...]]:
        """Indices of one kind have the same ways, apart from the counts."""
        return min(index, self.case.places), tuple(index >= count.start for count in self.case.counts)

    @cached_property
    def _choices(self) -> dict[tuple[int, tuple[bool, ...]], list[tuple[Goal, Counts]]]:
        """What an item may be, and what it counts for."""
        found = {}
        for place, begun in self._open:
            base = self.case.goal(place)
            ways: dict[Counts, Goal] = {}
            options = [(0, 1) if on else (0,) for on in begun]
            for chosen in product(*options):
                goal = base
                for counted, on, count in zip(chosen, begun, self.case.counts, strict=True):
                    if counted:
                        goal = both(goal, count.goal)
                    elif on and count.most is not None:  # without an upper limit a missed count does no harm
                        goal = both(goal, self._negated(count.goal))
                if goal != NEVER:
                    ways[chosen] = goal
            best: dict[Goal, Counts] = {}
            for chosen, goal in ways.items():
                best[goal] = tuple(map(max, best.get(goal, chosen), chosen))
            found[place, begun] = list(best.items())
        return found

    def goals(self) -> list[Goal]:
        """All goals that items may have."""
        return list(dict.fromkeys(goal for ways in self._choices.values() for goal, _ in ways))

    def _after(self, state: State) -> list[tuple[Goal, State]]:
        known = self._moves.get(state)
        if known is None:
            index, counts = state
            known = []
            if self.case.most is None or index < self.case.most:
                following = index + 1 if self.case.most is not None else min(index + 1, self._last)
                for goal, more in self._choices[self._kind(index)]:
                    after = tuple(min(n + m, cap) for n, m, cap in zip(counts, more, self._caps, strict=True))
                    limits = zip(after, self.case.counts, strict=True)
                    within = all(count.most is None or n <= count.most for n, count in limits)
                    if within and self._lookup(goal) is not None:
                        known.append((goal, (following, after)))
            self._moves[state] = known
        return known

    def closes(self, state: Hashable) -> bool:
        """Whether the array may end here."""
        index, counts = state  # type: ignore[misc]
        return index >= self.case.least and all(  # type: ignore[has-type]
            n >= count.least
            for n, count in zip(counts, self.case.counts, strict=True)  # type: ignore[has-type]
        )

    def settle(self, lookup: Callable[[Goal], int | None]) -> None:
        """Forget what was found with goals that had no text yet."""
        self._lookup = lookup
        self._moves.clear()
        self.__dict__.pop("_costs", None)

    @cached_property
    def _costs(self) -> dict[State, int]:
        """Bytes of the shortest rest after each state from which the array can end."""
        before: dict[State, list[tuple[State, int]]] = {}
        order = [self.start]
        seen = {self.start}
        for state in order:
            for goal, after in self._after(state):
                before.setdefault(after, []).append((state, (self._lookup(goal) or 0) + 1))
                if after not in seen:
                    seen.add(after)
                    order.append(after)
            if len(order) > MAX_STATES:
                raise ComplexityError(
                    f"#{self._pointer}: counting the items takes more than {MAX_STATES} states (a fixed limit); "
                    "use smaller minItems, maxItems, minContains and maxContains"
                )
        heap = [(1, state) for state in order if self.closes(state)]
        heapq.heapify(heap)
        found: dict[State, int] = {}
        while heap:
            cost, state = heapq.heappop(heap)
            if state in found:
                continue
            found[state] = cost
            for earlier, step in before.get(state, ()):
                if earlier not in found:
                    heapq.heappush(heap, (cost + step, earlier))
        return found

    def possible(self) -> bool:
        """Whether there is such an array."""
        return self.start in self._costs

    def whole(self) -> int:
        """Bytes of the shortest array."""
        # each item was counted with a comma before it, the first one has none, and the bracket comes first
        return self._costs[self.start] + (1 if self.closes(self.start) else 0)

    def ways(self, state: Hashable) -> tuple[tuple[Goal, Hashable], ...]:
        """What the next item may be and the state after it; only ways from which the array can still end."""
        return tuple([(goal, after) for goal, after in self._after(state) if after in self._costs])  # type: ignore[arg-type]

    def cost(self, state: Hashable) -> int:
        """Bytes of a short rest: items, each with the comma before it, and the bracket."""
        return self._costs[state]  # type: ignore[index]
