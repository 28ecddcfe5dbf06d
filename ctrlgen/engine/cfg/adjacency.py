"""Which ends of terminals leave everything possible that the parser may want next.

What follows a match may show that it was none: after the name ``a`` no letter can come, so a name cannot follow
directly, but a bracket can, and a name after a blank. After ``''`` a third quote may open a longer string: what follows
must not close it, which texts with other quotes do not.

A boundary is *free* if, in every parser state that it leads to, every terminal that is wanted can come: directly, or
after one ignored piece. If all terminals can end so, what the parser takes can always be written, and nothing need be
searched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.engine.cfg.store import Store
    from ctrlgen.engine.cfg.tables import Tables

FREE, BOUND = 1, 2
_MOST_LISTS = 100
_LABEL, _ROW = 2, 4  # columns of lists


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
        self._fresh: dict[int, list[tuple[int, NDArray[np.bool_]]]] = {}
        self._known: dict[tuple[bytes, bytes, int], int] = {}
        self._within: dict[int, NDArray[np.bool_] | None] = {}
        self._reached: dict[tuple[int, bytes], int] = {}
        self._judged = 0

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
            from ctrlgen.engine.cfg.kernel_lexer import list_row

            store, lists, bytes_, before = self.store, [one], self._available.copy(), (0, 0)
            while before != (before := (len(lists), int(bytes_.sum()))) and len(lists) < _MOST_LISTS:
                for each in lists:
                    if store["lists"].item(each, _ROW) < 0:
                        store.run(list_row, each)
                    row = store["list_rows"][each]
                    bytes_ &= (row < 0) | (store["lists"][row, _LABEL] < 0)
                    lists += sorted(set(row[bytes_ & (row >= 0)].tolist()) - set(lists))
            survives = len(lists) < _MOST_LISTS and bool((store["list_rows"][one][bytes_] >= 0).any())
            self._within[one] = bytes_ if survives else None
        return self._within[one]

    def _possible(self, first: NDArray[np.bool_], all_: NDArray[np.bool_], scanner: int) -> int:
        """Bits of the terminals that may come if what comes begins with one of some bytes, and goes on with others."""
        key = first.tobytes(), all_.tobytes(), scanner
        known = self._known.get(key)
        if known is None:
            known = 0
            for state, here in self._begun(scanner):
                if not (here & first).any():
                    continue
                known |= self._reach(state, all_)
                low, high = self.store["states"][state, 4:6].tolist()
                for bound in self.store["ends"][low:high].tolist():
                    label, duties = self.store["bounds"][bound, :2].tolist()
                    if label == self.ignored:
                        then = (self._dead(duties) if duties else self._available) & all_
                        for other, bytes_ in self._begun(scanner):
                            known |= self._reach(other, all_) if (bytes_ & then).any() else 0
            self._known[key] = known
        return known

    def _begun(self, scanner: int) -> list[tuple[int, NDArray[np.bool_]]]:
        """The lexer states after one byte, each with those bytes."""
        known = self._fresh.get(scanner)
        if known is None:
            from ctrlgen.engine.cfg.kernel_store import intern_state

            store = self.store
            row = store["moves"][store.run(intern_state, store.begin_list(scanner), 0)] >> 1
            known = [(int(target) - 1, row == target) for target in np.unique(row) if target]
            self._fresh[scanner] = known
        return known

    def _reach(self, state: int, within: NDArray[np.bool_]) -> int:
        """Bits of the terminals that a lexer state can become with some bytes."""
        if (within == self._available).all():
            return int.from_bytes(self.store["reach"][state, self.words :].tobytes(), "little")
        key = state, within.tobytes()
        if key not in self._reached:
            from ctrlgen.engine.cfg.kernel_lexer import reached_within

            bits = np.zeros(self.words, np.uint64)
            self.store.run(reached_within, state, within, bits)
            self._reached[key] = int.from_bytes(bits.tobytes(), "little")
        return self._reached[key]
