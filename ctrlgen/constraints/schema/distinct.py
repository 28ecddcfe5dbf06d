"""Arrays no two items of which are equal: of few values, or of strings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.names import lengths_of
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ctrlgen.automaton import Automaton
    from ctrlgen.constraints.schema.facts import Goal

MAX_VALUES = 256
"""Most values an item may have."""

MAX_STRINGS = 254
"""Most items of an array of different strings, where after some beginning there are finitely many and more than these.

So many are counted one by one; with at most so many items, more never run out.
"""

MAX_LEAST = 10_000
"""Most different strings that an array may have to have."""


@dataclass(frozen=True)
class Domain:
    """The values an item may have: the number of each, its goal and the bytes of a short text."""

    values: tuple[tuple[int, Goal, int], ...]


class DistinctItems:
    """The states of an array without equal items: how many there were, and which values they had.

    Args:
        first: the values of the first items.
        rest: those of all others, None if there are none.
        least: fewest items.
        most: most items, None for no limit.
    """

    def __init__(self, first: Sequence[Domain], rest: Domain | None, least: int, most: int | None) -> None:
        self._first, self._rest, self._least = tuple(first), rest, least
        limits = [] if most is None else [most]
        if rest is None:
            limits.append(len(first))
        everything = {number for domain in (*first, *([rest] if rest else [])) for number, _, _ in domain.values}
        self._most = min([*limits, len(everything)])
        self.start: tuple[int, int] = (0, 0)
        self._rests = lru_cache(4_096)(self._rest_of)

    def _domain(self, index: int) -> tuple[tuple[int, Goal, int], ...]:
        if index < len(self._first):
            return self._first[index].values
        return self._rest.values if self._rest else ()

    def closes(self, state: Hashable) -> bool:
        """Whether the array may end here."""
        return _state(state)[0] >= self._least

    def _rest_of(self, index: int, used: int) -> int | None:
        """Bytes of a short rest, None if the array cannot end: values for all items it still needs (a matching)."""
        taken: dict[int, int] = {}
        costs: dict[int, int] = {}
        if self._least > self._most and index < self._least:
            return None

        def place(item: int, tried: set[int]) -> bool:
            for number, _, cost in sorted(self._domain(item), key=lambda value: value[2]):
                if number in tried or used >> number & 1:
                    continue
                tried.add(number)
                if number not in taken or place(taken[number], tried):
                    taken[number], costs[item] = item, cost
                    return True
            return False

        for item in range(index, self._least):
            if not place(item, set()):
                return None
        return sum(cost + 1 for cost in costs.values()) + 1

    def possible(self) -> bool:
        """Whether there is such an array."""
        return self._rests(0, 0) is not None

    def whole(self) -> int:
        """Bytes of a short array."""
        return (self._rests(0, 0) or 0) + (1 if self._least == 0 else 0)

    def ways(self, state: Hashable) -> tuple[tuple[Goal, Hashable], ...]:
        """What the next item may be and the state after it; only ways from which the array can still end."""
        index, used = _state(state)
        if index >= self._most:
            return ()
        found: list[tuple[Goal, Hashable]] = []
        for number, goal, _ in self._domain(index):
            after = used | 1 << number
            if not used >> number & 1 and self._rests(index + 1, after) is not None:
                found.append((goal, (index + 1, after)))
        return tuple(found)

    def cost(self, state: Hashable) -> int:
        """Bytes of a short rest: items, each with the comma before it, and the bracket."""
        return self._rests(*_state(state)) or 0


class DistinctStrings:
    """An array of strings, no two of which are equal.

    Args:
        content: the canonical content of the strings.
        least: fewest items.
        most: most items, None for no limit.
        pointer: where the schema stands.

    Raises:
        ComplexityError: there are too many items to remember.
    """

    def __init__(self, content: Automaton, least: int, most: int | None, pointer: str) -> None:
        counts = content.endings(MAX_STRINGS + 1)
        if (counts > MAX_STRINGS).any():
            most = MAX_STRINGS if most is None else min(most, MAX_STRINGS)
            if least > MAX_STRINGS:
                raise ComplexityError(
                    f"#{pointer}/minItems: of strings that run out, at most {MAX_STRINGS} different ones can be "
                    f"remembered (a fixed limit), not {least}; use a smaller minItems"
                )
        elif counts[0] >= 0:
            most = int(counts[0]) if most is None else min(most, int(counts[0]))
        if least > MAX_LEAST:
            raise ComplexityError(f"#{pointer}/minItems: more than {MAX_LEAST} different strings (a fixed limit)")
        self.content, self.least, self.most = content, least, most

    @cached_property
    def _lengths(self) -> list[int]:
        return lengths_of(self.content, self.least)

    def possible(self) -> bool:
        """Whether there is such an array."""
        return len(self._lengths) >= self.least

    def whole(self) -> int:
        """Bytes of a short array."""
        return max(2, 1 + sum(length + 3 for length in self._lengths))


def _state(state: Hashable) -> tuple[int, int]:
    """How many items there were, and a bit for each value they had."""
    assert isinstance(state, tuple)
    return state
