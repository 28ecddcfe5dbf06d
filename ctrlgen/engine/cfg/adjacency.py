"""Which ends of terminals leave everything possible that the parser may want next.

What follows a match may show that it was none: after the name ``a`` no letter can come, so a name cannot follow
directly, but a bracket can, and a name after a blank. After ``''`` a third quote may open a longer string: what follows
must not close it, which texts with other quotes do not.

A boundary is *free* if, in every parser state that it leads to, every terminal that is wanted can come: directly, or
after one ignored piece. If all terminals can end so, what the parser takes can always be written, and nothing need be
searched.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.engine.cfg.store import Store
    from ctrlgen.engine.cfg.tables import Tables

FREE, BOUND = 1, 2
_MOST_LISTS = 100


class Adjacency:
    """Over one store, in which the states that begin terminals are closed; ``found``: bits of those, by scanner."""

    def __init__(self, store: Store, tables: Tables, scanner_of: list[int], found: list[int]) -> None:
        self.store, self.tables = store, tables
        self.ignored, self.words = tables.terminals + 1, store["accept"].shape[1]
        self._available = store["available"] > 0
        self._wanted: dict[int, int] = {}
        """By scanner, of all states: what may follow an ignored piece."""
        self._after: dict[int, dict[int, int]] = {}
        for state, scanner in enumerate(scanner_of):
            bits = tables.accepts[state] & found[scanner]
            self._wanted[scanner] = self._wanted.get(scanner, 0) | bits
        for terminal in range(tables.terminals):
            after = self._after[terminal] = {}
            for state in np.unique(tables.shift[:, terminal]).tolist():
                if state >= 0:
                    bits = tables.accepts[state] & found[scanner_of[state]]
                    after[scanner_of[state]] = after.get(scanner_of[state], 0) | bits
        self._fresh: dict[int, int] = {}
        self._known: dict[tuple[bytes, bytes, int], int] = {}
        self._within: dict[int, NDArray[np.bool_] | None] = {}
        self._reached: dict[bytes, tuple[NDArray[np.uint64], int]] = {}
        self._judged = 0

    def over(self, store: Store) -> Adjacency:
        """The same over a copy of the store, whose lists and states will differ from now on."""
        new = copy(self)
        new.store, new._within = store, self._within.copy()
        new._reached = {key: (reach.copy(), known) for key, (reach, known) in self._reached.items()}
        return new

    def judge(self) -> None:
        """Mark the boundaries that have not been looked at."""
        from ctrlgen.engine.cfg.kernel_store import N_BOUNDS, N_JUDGED

        bounds, last = self.store["bounds"], int(self.store["counts"][N_BOUNDS])
        for bound in range(self._judged, last):
            label, duties = bounds[bound, :2].tolist()
            bounds[bound, 3] = FREE if self._is_free(label, duties) else BOUND
        self._judged = self.store["counts"][N_JUDGED] = last

    def _is_free(self, label: int, duties: int) -> bool:
        if duties == 0:
            return True
        dead, after = self._dead(duties), self._wanted if label == self.ignored else self._after[label]
        left = {scanner: wanted & ~self._possible(dead, self._available, scanner) for scanner, wanted in after.items()}
        if not any(left.values()):
            return True
        first, all_ = self._harmless(duties)
        return all(not bits & ~self._possible(first, all_, scanner) for scanner, bits in left.items() if bits)

    def _dead(self, duties: int) -> NDArray[np.bool_]:
        """bool[256], the bytes with which all duties are met at once."""
        low, high = self.store["duty_sets"][duties, :2].tolist()
        rows = self.store["list_rows"][self.store["duties"][low:high]]
        dead: NDArray[np.bool_] = (rows < 0).all(0) & self._available
        return dead

    def _harmless(self, duties: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """bool[256] twice: the bytes of which the first must be, and all, for the duties to be met."""
        low, high = self.store["duty_sets"][duties, :2].tolist()
        first, all_ = self._available.copy(), self._available.copy()
        for one in self.store["duties"][low:high].tolist():
            within = self._outlived(one)
            if within is None:
                first &= self.store["list_rows"][one] < 0
            else:
                all_ &= within
        return first & all_, all_

    def _outlived(self, one: int) -> NDArray[np.bool_] | None:
        """The bytes with which a list stays alive and never matches; None if it dies of them all."""
        if one not in self._within:
            from ctrlgen.engine.cfg.kernel_adjacency import outlived

            within = np.empty(256, bool)
            survives = self.store.run(outlived, one, np.empty(_MOST_LISTS, np.int32), within)
            self._within[one] = within if survives else None
        return self._within[one]

    def _possible(self, first: NDArray[np.bool_], all_: NDArray[np.bool_], scanner: int) -> int:
        """Bits of the terminals that may come if what comes begins with one of some bytes, and goes on with others."""
        key = first.tobytes(), all_.tobytes(), scanner
        known = self._known.get(key)
        if known is None:
            from ctrlgen.engine.cfg.kernel_adjacency import possible

            bits = np.zeros(self.words, np.uint64)
            self.store.run(possible, self._begun(scanner), first, all_, self.ignored, self._reach(all_), bits)
            known = self._known[key] = int.from_bytes(bits.tobytes(), "little")
        return known

    def _begun(self, scanner: int) -> int:
        """The lexer state in which a scanner begins."""
        known = self._fresh.get(scanner)
        if known is None:
            from ctrlgen.engine.cfg.kernel_store import intern_state

            known = self._fresh[scanner] = self.store.run(intern_state, self.store.begin_list(scanner), 0)
        return known

    def _reach(self, within: NDArray[np.bool_]) -> NDArray[np.uint64]:
        """uint64[n, words], the bits of the terminals that each lexer state can become with some bytes."""
        from ctrlgen.engine.cfg.kernel_adjacency import reach_within
        from ctrlgen.engine.cfg.kernel_store import N_STATES

        key, count = within.tobytes(), int(self.store["counts"][N_STATES])
        reach, known = self._reached.get(key, (np.empty((0, self.words), np.uint64), 0))
        if known < count:
            if len(reach) < count:
                reach, old = np.empty((2 * count, self.words), np.uint64), reach
                reach[:known] = old[:known]
            self.store.run(reach_within, within, reach, known, count)
            self._reached[key] = reach, count
        return reach
