"""Objects and arrays of a network as tables, from which kernels find the members and items that may come.

Nothing here is built for each name or each number of items: the kernels follow the bytes of a name in the sorted
names, and count. So an object of many members costs a table entry for each, and its orders cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.automaton import Automaton
    from ctrlgen.engine.growing import Growing

FAR = 1 << 40
"""Cost of what a short text avoids, or what cannot be had."""

MAX_WANTED = 10
"""Most different flags that an object with a limit on its members may want."""

Way = tuple[int, int]
"""(node that reads colon and value up to END, flags that such a member fulfils)."""


def at_most(most: int | None) -> int:
    """A limit as the tables hold it: -1 for none; as no text gets to FAR, what is beyond is as good as FAR."""
    return -1 if most is None else min(most, FAR)


class Slot(NamedTuple):
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
    """The tables of all objects and arrays of a network.

    Args:
        tables: empty ones of objects, slots, ways, names, classes, arrays, items and letters.
    """

    def __init__(self, tables: Sequence[Growing]) -> None:
        self._tables = tables
        self.objects: list[Members] = []
        self.name_nodes: dict[int, int] = {}

    @property
    def number_of_objects(self) -> int:
        """The number that the next object gets."""
        return len(self.objects)

    @property
    def number_of_arrays(self) -> int:
        """The number that the next array gets."""
        return self._tables[5].n

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """objects, slots, ways, names, classes, arrays, items and letters, as in ``kernel_table.COLUMNS``."""
        return tuple([table.array for table in self._tables])

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
        objects, slots, _, names, classes, _, items, _ = self._tables
        others = members.others.classes if members.others is not None else ()
        cover = self._cover(members, others, finite)
        most = at_most(members.most)
        n, first_slot, first_name, first_class = len(members.slots), slots.n, names.n, classes.n
        implying = self._add_slots(members.slots)
        classes.extend_cells(self._add_ways(others))
        self._add_names(members.slots, taken)
        covering = items.extend_cells(cover)
        objects.append(
            *(first_slot, first_slot + n, first_name, first_name + n, start, first_class),
            *(members.least, most, members.wanted, members.ordered, (n + 63) // 64, after, name, covering, 0),
            *(finite, implying),
        )
        self.name_nodes[name] = len(self.objects)
        self.objects.append(members)

    def _add_slots(self, several: Sequence[Slot]) -> bool:
        """Add slots; whether one implies another."""
        slots, items = self._tables[1], self._tables[6]
        places = self._add_ways([slot.ways for slot in several])
        cells: list[int] = []
        implications: list[int] = []
        at = items.n
        for number, slot in enumerate(several):
            low = at + len(implications)
            implications += slot.implies
            cells += (places[2 * number], places[2 * number + 1], slot.required, low, at + len(implications))
        slots.extend_cells(cells)
        items.extend_cells(implications)
        return bool(implications)

    def _add_ways(self, several: Sequence[Sequence[Way]]) -> list[int]:
        """Add the ways of each, one after the other: where they begin and end, in turn."""
        ways = self._tables[2]
        cells: list[int] = []
        places: list[int] = []
        at = ways.n
        for some in several:
            places.append(at)
            at += len(some)
            places.append(at)
            for way in some:
                cells += way
        ways.extend_cells(cells)
        return places

    def _add_names(self, several: Sequence[Slot], taken: Sequence[bool]) -> None:
        """Add the names of slots, in the order of their bytes."""
        names, letters = self._tables[3], self._tables[7]
        texts = sorted([(slot.name, number) for number, slot in enumerate(several)])
        at = letters.extend_bytes(b"".join([text for text, _ in texts]))
        cells: list[int] = []
        for text, number in texts:
            cells += (at, at + len(text), number, taken[number])
            at += len(text)
        names.extend_cells(cells)

    @staticmethod
    def _cover(members: Members, others: Sequence[tuple[Way, ...]], finite: bool) -> list[int]:
        """For each set of flags: fewest members that fulfil them."""
        wanted = members.wanted
        if finite and wanted:
            raise ComplexityError("an object wants something of its undeclared members, whose names may run out")
        given = {flags & wanted for ways in others for _, flags in ways}
        if wanted & ~reduce(or_, given, 0):
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
        nodes = [*first, *([] if rest is None else [rest])]
        limit = len(first) if rest is None and most is None else most
        arrays, items = self._tables[5:7]
        arrays.append(len(first), least, at_most(limit), items.n, after)
        items.extend_cells(nodes)
