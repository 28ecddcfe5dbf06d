"""How a text can be brought to an end: a search for a short rest, terminal by terminal (A*, Hart et al. 1968).

The estimate is what the rules still need, each terminal at the length of its shortest text. It is never too high, and
exact unless terminals need a space between them or a conflict was resolved against the shortest way.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.engine.cfg.adjacency import BOUND
from ctrlgen.engine.cfg.costs import INFINITE, StackCosts
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from ctrlgen.engine.cfg.store import Store
    from ctrlgen.engine.cfg.tables import Tables

MAX_STEPS = 10_000

_MAX_ENDING = 1 << 20
_MAX_SHIFTS = 1 << 14
_NO_END = f"no way to end the text was found in {MAX_STEPS} steps; the grammar may have rules that never end"

_Reached = list[tuple[bytes, int]]
_Place = tuple[int, int]
_Way = tuple[int, int, bytes, int, int]
"""Estimate, order, text, lexer state (-1: the end), stack."""


class Completion:
    """Searches over one store; whoever calls holds the machine's lock."""

    def __init__(self, store: Store, tables: Tables) -> None:
        self.store, self.tables = store, tables
        self.end, self.ignored = tables.terminals, tables.terminals + 1
        lengths = [len(a.shortest()) if not a.is_empty else INFINITE for a in store.lexer.language.automata]
        self.costs = StackCosts(tables, lengths)
        self._reached: dict[tuple[int, int], _Reached] = {}
        self._out = np.empty(4096, np.int32)
        self._number = count()
        self._ending: set[_Place] = set()
        self._bounds: dict[int, list[tuple[int, int]]] = {}
        self._shifts: dict[tuple[int, int, int], list[tuple[int, int, int, bool]]] = {}
        self._available = store["available"] > 0

    def text(self, configurations: Iterable[tuple[int, int]]) -> bytes:
        """A short text to an end from the best of the configurations.

        Raises:
            ComplexityError: none was found in ``MAX_STEPS`` steps.
        """
        found = self.search(configurations)
        if found is None:
            raise ComplexityError("no way to end the text was found")
        return found

    def search(self, configurations: Iterable[tuple[int, int]]) -> bytes | None:
        """The same, None if there is none."""
        heap: list[_Way] = []
        for s, k in configurations:
            if self._may_end(s, k):
                return b""
            self._spread(heap, b"", s, k)
        seen: set[tuple[int, int]] = set()
        for _ in range(MAX_STEPS):
            if not heap:
                return None
            _, _, text, s, k = heapq.heappop(heap)
            if s < 0:
                return text
            if (s, k) not in seen:
                seen.add((s, k))
                self._spread(heap, text, s, k)
        raise ComplexityError(_NO_END)

    def ends(self, s: int, k: int) -> bool:
        """Whether a text comes to an end from a configuration: up to one of which that is known already."""
        start, number = (s, k), count()
        heap: list[tuple[int, int, _Place]] = [(0, next(number), start)]
        came_from: dict[_Place, _Place | None] = {start: None}
        for _ in range(MAX_STEPS):
            if not heap:
                return False
            place: _Place = heapq.heappop(heap)[2]
            if place in self._ending or self._may_end(*place):
                if len(self._ending) > _MAX_ENDING:
                    self._ending.clear()
                source: _Place | None = place
                while source is not None:
                    self._ending.add(source)
                    source = came_from[source]
                return True
            for cost, after in self._after(*place):
                if after not in came_from:
                    came_from[after] = place
                    heapq.heappush(heap, (cost, -next(number), after))
        raise ComplexityError(_NO_END)

    def _after(self, s: int, k: int) -> Iterator[tuple[int, _Place]]:
        """The configurations after one more terminal, each with what its stack still needs."""
        from ctrlgen.engine.cfg.kernel_live import begin
        from ctrlgen.engine.cfg.kernel_parser import acceptable, shifted_into

        store = self.store
        store.run(acceptable, k)
        accept = int.from_bytes(store["accept"][k].tobytes(), "little")
        for label, duties in self._boundaries(s):
            if label == self.ignored:
                yield self.costs.of(store, k), (store.run(begin, k, duties), k)
            elif accept >> label & 1:
                for after in self._out[: store.run(shifted_into, k, label, self._out)].tolist():
                    cost = self.costs.of(store, after)
                    if cost < INFINITE:
                        yield cost, (store.run(begin, after, duties), after)

    def _boundaries(self, s: int) -> list[tuple[int, int]]:
        """(terminal, duties) of the boundaries that lexer state s may come to; of free ones one for each terminal."""
        known = self._bounds.get(s)
        if known is None:
            from ctrlgen.engine.cfg.kernel_lexer import outcomes

            store = self.store
            if store["states"].item(s, 6) < 0:
                store.run(outcomes, s)
            low, high = store["states"][s, 6:8].tolist()
            found = store["bounds"][store["outcomes"][low:high]][:, [0, 1, 3]].tolist()
            each: dict[tuple[int, int], tuple[int, int]] = {}
            for label, duties, free in found:
                # a free one may need an ignored piece after it, so these must all be there
                one_will_do = free != BOUND and label != self.ignored
                each.setdefault((label, -1 if one_will_do else duties), (label, duties))
            known = self._bounds[s] = list(each.values())
        return known

    def _may_end(self, s: int, k: int) -> bool:
        from ctrlgen.engine.cfg.kernel_live import may_end

        return bool(self.store.run(may_end, s, k))

    def _spread(self, heap: list[_Way], text: bytes, s: int, k: int) -> None:
        """Put what may come after one more terminal from (s, k) on the heap."""
        from ctrlgen.engine.cfg.kernel_parser import acceptable

        store = self.store
        store.run(acceptable, k)
        accept = int.from_bytes(store["accept"][k].tobytes(), "little")
        for more, bound in self.reached(s, k):
            label, duties = store["bounds"][bound, :2].tolist()
            longer = text + more
            if label == self.ignored:
                if accept >> self.end & 1:
                    heapq.heappush(heap, (len(longer), next(self._number), longer, -1, 0))
                continue
            if not accept >> label & 1:
                continue
            for after, fresh, cost, may_end in self._shifted(k, label, duties):
                if may_end:
                    heapq.heappush(heap, (len(longer), next(self._number), longer, -1, 0))
                if cost < INFINITE:
                    heapq.heappush(heap, (len(longer) + cost, -next(self._number), longer, fresh, after))

    def _shifted(self, k: int, label: int, duties: int) -> list[tuple[int, int, int, bool]]:
        """The stacks after a terminal, each with its lexer state, what it needs, and whether the text may end there."""
        known = self._shifts.get((k, label, duties))
        if known is None:
            from ctrlgen.engine.cfg.kernel_live import begin
            from ctrlgen.engine.cfg.kernel_parser import acceptable, shifted_into

            store, known = self.store, []
            for after in self._out[: store.run(shifted_into, k, label, self._out)].tolist():
                store.run(acceptable, after)
                accept = int.from_bytes(store["accept"][after].tobytes(), "little")
                cost = self.costs.of(store, after)
                fresh = store.run(begin, after, duties) if cost < INFINITE else -1
                known.append((after, fresh, cost, bool(accept >> self.end & 1)))
            if len(self._shifts) >= _MAX_SHIFTS:
                self._shifts.clear()
            self._shifts[k, label, duties] = known
        return known

    def reached(self, s: int, k: int) -> _Reached:
        """The boundaries that may come next from lexer state s, each with its shortest text.

        Of those after which anything may come the shortest of each terminal will do.
        """
        store = self.store
        key = (s, store["scanner"].item(store["frames"].item(k, 0)))
        known = self._reached.get(key)
        if known is not None:
            return known
        from ctrlgen.engine.cfg.kernel_live import begin

        result: dict[tuple[int, int], tuple[bytes, int]] = {}
        seen, order = {s}, [(s, b"")]
        for one, text in order:
            low, high = store["states"][one, 4:6].tolist()
            row, rows = store["moves"][one], [store["moves"][one]]
            for bound in store["ends"][low:high].tolist():
                label, duties, _, free = store["bounds"][bound].tolist()
                result.setdefault((label, duties if free == BOUND else -1), (text, bound))
                if label == self.ignored:
                    fresh = store.run(begin, k, duties)
                    rows.append(np.where(row & 1, store["moves"][fresh], 0))
            for byte, target in sorted(way for row in rows for way in _ways(np.where(self._available, row, 0))):
                if target not in seen:
                    seen.add(target)
                    order.append((target, text + bytes([byte])))
        self._reached[key] = list(result.values())
        return self._reached[key]


_ORDER = np.array(sorted(range(256), key=lambda byte: (not 0x20 <= byte < 0x7F, byte)))


def _ways(row: NDArray[np.int32]) -> list[tuple[int, int]]:
    """One byte, printable where there is one, for each state that a row leads to."""
    targets, first = np.unique(row[_ORDER] >> 1, return_index=True)
    return [(int(_ORDER[at]), int(target) - 1) for target, at in zip(targets, first, strict=True) if target]
