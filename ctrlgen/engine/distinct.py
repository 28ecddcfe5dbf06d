"""Rows of one vocabulary, each kept once however many states of however many constraints have it.

Real schemas share nine rows of ten: every place in every schema where a comma may follow has the same row. A row lives
as long as a constraint remembers it, and when all of them take more than the budget, all constraints forget theirs.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Protocol

from ctrlgen.engine.kernel_rows import equal, fingerprint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

BYTES = 128 << 20
"""Memory for the rows of a vocabulary; 8,000 distinct ones of 128k ids."""

_tables: weakref.WeakKeyDictionary[Vocabulary, DistinctRows] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


class Remembers(Protocol):
    """What holds rows."""

    def forget_rows(self) -> None:
        """Let go of all rows; they are computed again when needed."""


def rows_of(vocabulary: Vocabulary) -> DistinctRows:
    """The rows that all constraints over a vocabulary share."""
    with _lock:
        table = _tables.get(vocabulary)
        if table is None:
            table = _tables[vocabulary] = DistinctRows(4 * vocabulary.words)
        return table


class DistinctRows:
    """Rows by content.

    Args:
        row_bytes: bytes of a row.
        budget: bytes of all rows.
    """

    def __init__(self, row_bytes: int, budget: int = BYTES) -> None:
        self.most = max(16, budget // row_bytes)
        self._rows: dict[int, weakref.ref[NDArray[np.uint32]]] = {}
        self._holders: weakref.WeakSet[Remembers] = weakref.WeakSet()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Number of distinct rows alive."""
        return sum(found() is not None for found in list(self._rows.values()))

    def held_by(self, holder: Remembers) -> None:
        """Have ``holder`` told when rows must go."""
        with self._lock:
            self._holders.add(holder)

    def share(self, row: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The one array, read-only, with the content of ``row``: ``row`` itself if there is none yet."""
        key = fingerprint(row)
        known = self._rows.get(key)
        if known is not None and (found := known()) is not None:
            if equal(found, row):
                return found
            key = ~key  # two contents with one fingerprint: the second is kept as well, a third is not shared
            if (known := self._rows.get(key)) is not None and (found := known()) is not None:
                return found if equal(found, row) else row
        row.flags.writeable = False
        with self._lock:
            self._rows[key] = weakref.ref(row)
            crowded = len(self._rows) > self.most and self._swept() > self.most // 2
            holders = list(self._holders) if crowded else ()
        for holder in holders:
            holder.forget_rows()
        return row

    def _swept(self) -> int:
        """Drop the entries of rows that are gone; how many are left."""
        self._rows = {key: row for key, row in self._rows.items() if row() is not None}
        return len(self._rows)
