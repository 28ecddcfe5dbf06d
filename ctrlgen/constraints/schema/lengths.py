"""The shortest document of each goal, in bytes: a least fixpoint. A goal without one cannot be satisfied.

Reference: D. E. Knuth, A generalization of Dijkstra's algorithm, Information Processing Letters 6 (1977).
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.counting import ArrayLengths, ObjectLengths
from ctrlgen.constraints.schema.expansion import NEVER
from ctrlgen.constraints.schema.objects import members_of
from ctrlgen.constraints.schema.shapes import Array, Boolean, Goal, Null, Number, Object, Shape, String
from ctrlgen.constraints.schema.strings import string_lexeme
from ctrlgen.errors import ComplexityError, SchemaError, UnsatisfiableError

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.expansion import Exclusive, Expansion

MAX_GOALS = 200_000
MAX_LENGTH = 10_000_000


class Lengths:
    """All goals that can be reached, and how short they can be written.

    Args:
        expansion: the schemas.
        max_digits: most digits of a number.

    Raises:
        SchemaError: branches of a oneOf may match the same value, or a minProperties cannot be enforced.
        UnsatisfiableError: there is no finite document.
        ComplexityError: a limit was reached.
    """

    def __init__(self, expansion: Expansion, max_digits: int) -> None:
        self.expansion, self.max_digits = expansion, max_digits
        self.of: dict[Goal, int] = {}
        self._objects: dict[Object, ObjectLengths] = {}
        self._settled: dict[Shape, int | None] = {}
        self._parents: defaultdict[Goal, set[Goal]] = defaultdict(set)
        self._order: list[Goal] = []
        self._children: dict[Goal, list[Goal]] = {}
        self._reach([expansion.root])
        self._overlaps: dict[Goal, Exclusive] = {}
        for pair in expansion.exclusive:  # grows meanwhile: expanding an overlap may meet further oneOfs
            if not expansion.apart(*pair.goals):
                self._overlaps.setdefault(pair.overlap, pair)
                self._reach([pair.overlap])
        self._relax()
        for known in self._objects.values():
            known.forget()
            known.check()
        self._check()

    # reachable goals

    def _reach(self, todo: list[Goal]) -> None:
        while todo:
            goal = todo.pop()
            if goal in self._children:
                continue
            if len(self._children) >= MAX_GOALS:
                raise ComplexityError(
                    f"#{self.expansion.pointer(goal)}: more than {MAX_GOALS} combinations of schemas (a fixed limit); "
                    "write fewer schemas in allOf, or let them share fewer properties"
                )
            below = [child for shape in self.expansion.shapes(goal) for child in self._below(shape, goal)]
            self._children[goal] = below
            self._order.append(goal)
            for child in below:
                self._parents[child].add(goal)
            todo += below

    def _below(self, shape: Shape, goal: Goal) -> list[Goal]:
        if isinstance(shape, Array):
            return [shape.goal(index) for index in range(shape.places + 1)]
        if isinstance(shape, Object):
            members = self._object(shape, goal).members
            return [member.goal for member in members.declared] + [other.goal for other in members.others]
        return []

    def _object(self, shape: Object, goal: Goal) -> ObjectLengths:
        if shape not in self._objects:
            pointer = self.expansion.pointer(goal)
            self._objects[shape] = ObjectLengths(shape, members_of(shape, pointer), self.of, pointer)
        return self._objects[shape]

    # the fixpoint

    def _relax(self) -> None:
        todo = dict.fromkeys(self._order)  # taken from the end: those below first, mostly
        while todo:
            goal, _ = todo.popitem()
            try:
                lengths = [length for shape in self.expansion.shapes(goal) if (length := self._now(shape)) is not None]
            except ComplexityError as error:
                raise ComplexityError(f"#{self.expansion.pointer(goal)}: {error}") from error
            if lengths and min(lengths) < self.of.get(goal, 1 << 200):
                self.of[goal] = min(lengths)
                todo.update(dict.fromkeys(self._parents[goal]))

    def shape(self, shape: Shape) -> int | None:
        """Bytes of the shortest text of a shape; None if there is none."""
        if shape not in self._settled:
            self._settled[shape] = self._now(shape)
        return self._settled[shape]

    def _now(self, shape: Shape) -> int | None:
        """The same, with the lengths known so far."""
        if isinstance(shape, Array):
            return ArrayLengths(shape, self.of).after(0, first=True)
        if isinstance(shape, Object):
            known = self._objects[shape]
            known.forget()
            return known.after(0, 0, first=True)
        return _scalar(shape, self.max_digits)

    def object(self, shape: Object) -> ObjectLengths:
        """The members of an object shape and their lengths."""
        return self._objects[shape]

    @property
    def widest(self) -> int:
        """Most declared members of an object."""
        return max((len(known.members.declared) for known in self._objects.values()), default=0)

    # errors

    def _check(self) -> None:
        for goal, pair in self._overlaps.items():
            if goal in self.of:
                i, j = pair.branches
                raise SchemaError(
                    f"branches {i} and {j} may match the same value, and exclusion cannot be enforced yet",
                    pointer=pair.pointer,
                    keyword="oneOf",
                    rewrite="anyOf, if both may match; or tell the branches apart by a required const",
                )
        root = self.expansion.root
        if root not in self.of:
            raise UnsatisfiableError(f"no finite document satisfies the schema: {self._blame(root)}")
        if self.of[root] > MAX_LENGTH:
            raise ComplexityError(f"the shortest document has {self.of[root]} bytes; the limit is {MAX_LENGTH}")

    def _blame(self, goal: Goal) -> str:
        """Where it fails: the deepest goal on the way that must hold and cannot."""
        seen: set[Goal] = set()
        while goal not in seen:
            seen.add(goal)
            shapes = self.expansion.shapes(goal)
            where = f"#{self.expansion.pointer(goal)}"
            if not shapes:
                return f"nothing is left of {where} when all its keywords are combined"
            inner = next((child for child in self._needed(shapes[-1]) if child not in self.of), None)
            if inner is None or inner == NEVER:
                return f"{where} allows nothing" + (", since it needs what is false" if inner == NEVER else "")
            goal = inner
        return f"#{self.expansion.pointer(goal)} contains itself without an end"

    def _needed(self, shape: Shape) -> list[Goal]:
        if isinstance(shape, Array):
            return [shape.goal(index) for index in range(min(shape.least, shape.places + 1))]
        if isinstance(shape, Object):
            return [member.goal for member in self._objects[shape].members.declared if member.required]
        return []


@lru_cache(4096)
def _scalar(shape: Shape, max_digits: int) -> int | None:
    if isinstance(shape, Null):
        return 4
    if isinstance(shape, Boolean):
        return 4 if True in shape.values else 5
    if isinstance(shape, Number):
        if shape.values is not None:
            return min(map(len, shape.texts()))
        automaton = shape.automaton(max_digits)
        return None if automaton.is_empty else len(automaton.shortest())
    assert isinstance(shape, String)
    return string_lexeme(shape).shortest
