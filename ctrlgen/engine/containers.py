"""Objects and arrays of a network as tables, from which kernels find the members and items that may come.

Nothing here is built for each name or each number of items: the kernels follow the bytes of a name in the sorted
names, and count. So an object of many members costs a table entry for each, and its orders cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.engine.lexicon import Growing
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ctrlgen.automaton import Automaton

FAR = 1 << 40
"""Cost of what a short text avoids, or what cannot be had."""

MAX_WANTED = 10
"""Most different flags that an object with a limit on its members may want."""

Way = tuple[int, int]
"""(node that reads colon and value up to END, flags that such a member fulfils)."""


@dataclass(frozen=True)
class Slot:
    """A declared member.

    Args:
        name: its name in JSON with the closing quote.
        ways: what may follow; none: this name is known and not allowed.
        required: whether it must be there.
        implies: numbers of slots that must be there if this one is, with those that they imply in turn.
    """

    name: bytes
    ways: tuple[Way, ...]
    required: bool = False
    implies: tuple[int, ...] = ()


@dataclass(frozen=True)
class Others:
    """Members that are no slot.

    Args:
        names: their names with the closing quote and a byte below 32 that is the number of their class; see
            ``Lexicon.enter_names``. Names of slots may be among them, and are not taken for others.
        classes: the ways of each class.
    """

    names: Automaton
    classes: tuple[tuple[Way, ...], ...]


@dataclass(frozen=True)
class Members:
    """The members of an object; no name ever comes twice.

    Args:
        slots: the declared ones.
        others: the others, None for none.
        least: fewest members.
        most: most members, None for no limit.
        wanted: flags that members must fulfil together.
        ordered: whether slots come in their order, before all others.
    """

    slots: tuple[Slot, ...]
    others: Others | None = None
    least: int = 0
    most: int | None = None
    wanted: int = 0
    ordered: bool = True


@dataclass(frozen=True)
class Between:
    """Nodes around members or items: (what may only close, what may only go on, what may do either).

    Args:
        first: after the opening bracket.
        later: after a member or item.
    """

    first: tuple[int, int, int]
    later: tuple[int, int, int]


class Containers:
    """The tables of all objects and arrays of a network."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self._tables = [
            Growing(moved, columns, dtype, 16)
            for columns, dtype in (
                (17, np.int64),  # objects
                (5, np.int64),  # slots
                (2, np.int64),  # ways
                (4, np.int64),  # names
                (2, np.int64),  # classes
                (5, np.int64),  # arrays
                (1, np.int64),  # items
                (1, np.uint8),  # letters
            )
        ]
        self._new: list[list[Any]] = [[] for _ in self._tables]
        self._moved = moved
        self.objects: list[Members] = []
        self.name_nodes: dict[int, int] = {}

    @property
    def number_of_objects(self) -> int:
        """The number that the next object gets."""
        return len(self.objects)

    @property
    def number_of_arrays(self) -> int:
        """The number that the next array gets."""
        return self._at(5)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """objects, slots, ways, names, classes, arrays, items and letters, as in ``kernel_table.COLUMNS``."""
        for table, new in zip(self._tables, self._new, strict=True):
            if new:
                table.extend(np.array(new, table.array.dtype).reshape(-1, table.array.shape[1]))
                new.clear()
        flat = (6, 7)
        return tuple(t.array[:, 0] if i in flat else t.array for i, t in enumerate(self._tables))

    def _at(self, table: int) -> int:
        return self._tables[table].n + len(self._new[table])

    def add_object(
        self, members: Members, start: int, finite: bool, taken: Sequence[bool], after: int, name: int
    ) -> None:
        """Add an object.

        Args:
            members: its members.
            start: state of the automaton of other names, -1 for none.
            finite: whether after some beginnings only few other names are left.
            taken: for each slot, whether the automaton of other names would take its name.
            after: its AFTER_MEMBER node.
            name: its NAME node.

        Raises:
            ComplexityError: it limits the number of members and wants more of them than can be told apart.
        """
        self._moved()
        objects, slots, ways, names, classes, _, items, letters = self._new
        others = members.others.classes if members.others is not None else ()
        cover = self._cover(members, others, finite)
        most = -1 if members.most is None else members.most
        first_slot, first_class, first_name = self._at(1), self._at(4), self._at(3)
        implying = any(slot.implies for slot in members.slots)
        for slot in members.slots:
            at, implied = self._at(2), self._at(6)
            ways += slot.ways
            items += slot.implies
            slots.append((at, at + len(slot.ways), slot.required, implied, implied + len(slot.implies)))
        for one in others:
            at = self._at(2)
            ways += one
            classes.append((at, at + len(one)))
        for number, slot in sorted(enumerate(members.slots), key=lambda pair: pair[1].name):
            at = self._at(7)
            letters += slot.name
            names.append((at, at + len(slot.name), number, taken[number]))
        covering = self._at(6)
        items += cover
        n = len(members.slots)
        objects.append(
            (
                *(first_slot, first_slot + n, first_name, first_name + n, start, first_class),
                *(members.least, most, members.wanted, members.ordered, (n + 63) // 64, after, name, covering, 0),
                *(finite, implying),
            )
        )
        self.name_nodes[name] = len(self.objects)
        self.objects.append(members)

    @staticmethod
    def _cover(members: Members, others: Sequence[tuple[Way, ...]], finite: bool) -> list[int]:
        """For each set of flags: fewest members that fulfil them."""
        wanted = members.wanted
        if finite and wanted:
            raise ComplexityError("an object wants something of its undeclared members, whose names may run out")
        given = {flags & wanted for ways in others for _, flags in ways}
        if wanted & ~int(np.bitwise_or.reduce(list(given) or [0])):
            raise ComplexityError("an object wants what none of its undeclared members can fulfil")
        if not wanted or members.most is None:
            return []
        if len(others) > 1 or any(flags & wanted for slot in members.slots for _, flags in slot.ways):
            raise ComplexityError("maxProperties beside what only some members fulfil: too many cases to tell apart")
        size = wanted + 1
        if size > 1 << MAX_WANTED:
            raise ComplexityError(f"an object with maxProperties may want at most {MAX_WANTED} things of its members")
        fewest = [0] * size
        for flags in range(1, size):
            fewest[flags] = min((fewest[flags & ~one] + 1 for one in given if flags & one), default=FAR)
        return fewest

    def add_array(self, first: Sequence[int], rest: int | None, least: int, most: int | None, after: int) -> None:
        """Add an array; the nodes read one item each."""
        self._moved()
        nodes = [*first, *([] if rest is None else [rest])]
        limit = len(first) if rest is None and most is None else most
        self._new[5].append((len(first), least, -1 if limit is None else limit, self._at(6), after))
        self._new[6] += nodes
