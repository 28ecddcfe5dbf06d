"""Rows of one vocabulary, each kept once however many states of however many constraints have it.

Real schemas share nine rows of ten: every place in every schema where a comma may follow has the same row. Rows stay
until they take more than the budget; then all constraints forget theirs.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

BYTES = 128 << 20
"""Memory for the rows of a vocabulary; 8,000 distinct ones of 128k ids."""
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 20, 256
_ALIGNED = 16  # 32-bit words of a cache line

_tables: weakref.WeakKeyDictionary[Vocabulary, DistinctRows] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_eras = itertools.count(1)


class Remembers(Protocol):
    """What holds rows."""

    def forget_rows(self) -> None:
        """Let go of all rows; they are computed again when needed."""


def rows_of(vocabulary: Vocabulary) -> DistinctRows:
    """The rows that all constraints over a vocabulary share."""
    with _lock:
        table = _tables.get(vocabulary)
        if table is None:
            table = _tables[vocabulary] = DistinctRows(vocabulary.end_row)
        return table


class DistinctRows:
    """Rows by content.

    Attributes:
        place: int64[9], what ``kernel_rows`` knows of this; whoever runs a kernel on it holds ``lock``.
        rows: list of uint32[words], read-only, by the number that the kernels give them.

    Args:
        end_row: uint32[words], the row of end ids.
        budget: bytes of all rows.
    """

    def __init__(self, end_row: NDArray[np.uint32], budget: int = BYTES) -> None:
        from ctrlgen.engine.kernel_rows import ENDS, ROWS, STRIDE

        self.lock = threading.RLock()
        self.words = len(end_row)
        self._stride = -(-self.words // _ALIGNED) * _ALIGNED
        self.most = max(16, budget // (4 * self._stride))
        self._holders: weakref.WeakSet[Remembers] = weakref.WeakSet()
        self._ends = np.zeros(self._stride, np.uint32)
        self._ends[: self.words] = end_row
        self.place = np.zeros(9, np.int64)
        self.place[ROWS] = min(self.most, _BLOCK_ROWS, max(16, _BLOCK_BYTES // (4 * self._stride)))
        self.place[STRIDE], self.place[ENDS] = self._stride // 2, self._ends.ctypes.data
        self._empty()

    def __len__(self) -> int:
        """Number of rows kept."""
        from ctrlgen.engine.kernel_rows import COUNT

        return int(self.place[COUNT])

    def _empty(self) -> None:
        from ctrlgen.engine.kernel_rows import COUNT, ERA, FREE, ROWS

        self.place[ERA] = next(_eras)
        self.rows: list[NDArray[np.uint32]] = []
        self.place[COUNT], self.place[FREE] = 0, self.place[ROWS]
        self._slot(np.full((64, 3), -1, np.int64))

    def _slot(self, slots: NDArray[np.int64]) -> None:
        from ctrlgen.engine.kernel_rows import MASK, SLOTS

        self._slots = slots
        self.place[SLOTS], self.place[MASK] = slots.ctypes.data, len(slots) - 1

    def held_by(self, holder: Remembers) -> None:
        """Have ``holder`` told when rows must go."""
        with self.lock:
            self._holders.add(holder)

    def make_room(self, rows: int = 1) -> None:
        """Have room for so many more rows (at most 16); beyond the budget all holders are told to forget theirs."""
        from ctrlgen.engine.kernel_rows import COUNT, FREE, ROOM, ROWS, move_slots

        with self.lock:
            block = int(self.place[ROWS])
            if self.place[FREE] + rows <= block:
                return
            del self.rows[int(self.place[COUNT]) :]  # places that stay empty
            if len(self.rows) + block > self.most and self.rows:
                self._empty()
                for holder in list(self._holders):
                    holder.forget_rows()
            if 2 * (len(self.rows) + block) > len(self._slots):
                slots = np.full((1 << (4 * (len(self.rows) + block)).bit_length(), 3), -1, np.int64)
                move_slots(self._slots, slots)
                self._slot(slots)
            room = np.empty((block, self._stride), np.uint32)
            shown = room[:, : self.words]
            shown.flags.writeable = False
            self.rows += list(shown)
            self.place[ROOM], self.place[FREE] = room.ctypes.data, 0

    def share(self, row: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The one array, read-only, with the content of ``row``."""
        from ctrlgen.engine.kernel_rows import keep_copy

        with self.lock:
            self.make_room()
            return self.rows[int(keep_copy(self.place, row))]
