"""How short the rest of an array or object can be, after some of its items or members."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.objects import Members
from ctrlgen.errors import SchemaError

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.shapes import Array, Goal, Object


class ArrayLengths:
    """The items an array can have, given which goals can be satisfied.

    Args:
        shape: the array.
        lengths: bytes of the shortest text of each goal that has one.
    """

    def __init__(self, shape: Array, lengths: dict[Goal, int]) -> None:
        self.shape, self.least, self.places = shape, shape.least, shape.places
        self._items = [lengths.get(shape.goal(index)) for index in range(self.places + 1)]
        dead = next((index for index, length in enumerate(self._items) if length is None), None)
        limits = [limit for limit in (shape.most, dead) if limit is not None]
        self.most = min(limits, default=None)
        self._sums = list(accumulate((0 if n is None else n + 1 for n in self._items[: self.places]), initial=0))

    def item(self, index: int) -> Goal:
        """What the item at ``index`` must meet."""
        return self.shape.goal(min(index, self.places))

    def state(self, index: int) -> int:
        """A smaller number that stands for having read ``index`` items, as far as the rest is concerned."""
        return index if self.most is not None else min(index, max(self.places, self.least))

    def after(self, index: int, *, first: bool = False) -> int | None:
        """Bytes of the shortest rest after ``index`` items, the bracket included; None if there is none.

        Args:
            index: number of items read.
            first: count the whole array, the opening bracket included.
        """
        if self.most is not None and self.least > self.most:
            return None
        needed = self._upto(self.least) - self._upto(index) if index < self.least else 0
        opening = (1 if self.least == 0 else 0) if first else 0  # the first item has no comma before it
        return needed + 1 + opening

    def _upto(self, index: int) -> int:
        """Bytes of the first items, each with its comma."""
        tail = self._items[self.places]
        beyond = max(0, index - self.places)
        return self._sums[min(index, self.places)] + (beyond * (tail + 1) if beyond and tail is not None else 0)


class ObjectLengths:
    """The members an object can have, given which goals can be satisfied.

    Args:
        shape: the object.
        members: its members.
        lengths: bytes of the shortest text of each goal that has one; may still change until ``forget``.
        pointer: where the schema stands, for errors.

    Raises:
        SchemaError: ``minProperties`` counts members whose names cannot be told apart.
    """

    def __init__(self, shape: Object, members: Members, lengths: dict[Goal, int], pointer: str) -> None:
        self.members, self._lengths, self._pointer = members, lengths, pointer
        required = sum(member.required for member in members.declared)
        self.least = shape.least if shape.least > required else 0
        self.most = shape.most
        self._beyond = self.least - required
        self.forget()

    def forget(self) -> None:
        """Take the present lengths for the final ones."""
        lengths = self._lengths
        # a member costs its comma, opening quote, name, colon and value
        self.costs = [
            None if (length := lengths.get(member.goal)) is None else len(member.text) + length + 3
            for member in self.members.declared
        ]
        self.others = [other for other in self.members.others if other.goal in lengths]
        needed = [(c, m.required) for c, m in zip(self.costs, self.members.declared, strict=True)]
        self.dead = any(cost is None and required for cost, required in needed)
        reverse = [(cost or 0) if required else 0 for cost, required in reversed(needed)]
        self._bytes = list(accumulate(reverse, initial=0))[::-1]
        self._required = list(accumulate((int(required) for _, required in reversed(needed)), initial=0))[::-1]
        self._other: int | None = None

    def check(self) -> None:
        """Refuse what cannot be counted."""
        if self._beyond > 1 and self.others:
            raise SchemaError(
                "members that are not declared cannot be counted towards it, since one name could come twice",
                pointer=self._pointer,
                keyword="minProperties",
                rewrite='"additionalProperties": false with all names under "properties", or "required"',
            )

    def required_from(self, index: int) -> int:
        """Number of required members from this one on."""
        return self._required[index]

    def state(self, count: int) -> int:
        """A smaller number that stands for having read ``count`` members."""
        return count if self.most is not None else min(count, self.least)

    def after(self, index: int, count: int, *, first: bool = False) -> int | None:
        """Bytes of the shortest rest, the bracket included; None if there is none.

        Args:
            index: the first declared member that may still come.
            count: number of members read.
            first: count the whole object, the opening bracket included.
        """
        total = count + self._required[index]
        extra = max(0, self.least - total)
        if self.dead or (self.most is not None and total + extra > self.most):
            return None
        length = self._bytes[index] + 1
        if extra:
            candidates = self._optional(index)
            if len(candidates) < extra:
                return None
            length += sum(sorted(candidates)[:extra])
        if first:
            return length + (1 if total + extra == 0 else 0)  # the first member has no comma before it
        return length

    def _optional(self, index: int) -> list[int]:
        """Bytes of each member that may be added; of the undeclared ones one counts."""
        declared = zip(self.costs[index:], self.members.declared[index:], strict=True)
        found = [cost for cost, member in declared if cost is not None and not member.required]
        if self.others and self._other is None:
            self._other = min(self.members.shortest_other(o) + self._lengths[o.goal] + 3 for o in self.others)
        return found + ([self._other] if self.others and self._other is not None else [])
