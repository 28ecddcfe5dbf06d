"""Arrays that grow while kernels know their addresses."""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


LASTING: dict[int, int] = {}
"""Addresses of arrays that never go away, by identity."""


@cache
def _line_of(columns: int, dtype: Any) -> Struct:
    return Struct(f"{columns}{np.dtype(dtype).char}")


@cache
def _nothing(columns: int, dtype: Any) -> NDArray[Any]:
    """What stands for an array without rows; kernels are given its address, and never read there."""
    nothing = np.zeros((1, columns), dtype)
    LASTING[id(nothing)] = nothing.ctypes.data
    return nothing


class Growing:
    """An array that grows by doubling; ``array`` is its full allocation, ``n`` the rows in use.

    ``moved`` is called whenever ``array`` becomes another object. Room that is not used yet costs no memory, since
    nothing is written to it: where an array may become large, ``rows`` leaves room so that it seldom moves. Most arrays
    of a small network are never written to, so there is no room before the first row.
    """

    def __init__(self, moved: Callable[[], None], columns: int, dtype: Any, rows: int = 64) -> None:
        self.n = self._room = 0
        self._moved, self._line, self._first_room = moved, _line_of(columns, dtype), rows
        self.array: NDArray[Any] = _nothing(columns, dtype)
        self._bytes: memoryview

    @property
    def used(self) -> int:
        """Bytes in use."""
        return self.n * self._line.size

    def extend(self, rows: NDArray[Any]) -> int:
        """Append rows; the index of the first."""
        first = self.grow(len(rows))
        self.array[first : self.n] = rows
        return first

    def append(self, *cells: int) -> int:
        """Append one row, cell by cell; its index."""
        first = self.n
        if first < self._room:
            self.n = first + 1
        else:
            self.grow(1)
        self._line.pack_into(self._bytes, first * self._line.size, *cells)
        return first

    def write(self, row: int, *cells: int) -> None:
        """Replace a row."""
        self._line.pack_into(self._bytes, row * self._line.size, *cells)

    def to_bytes(self) -> bytes:
        """The memory of the rows in use."""
        return bytes(self._bytes[: self.used]) if self.n else b""

    def extend_bytes(self, text: bytes) -> int:
        """Append the memory of some rows; the index of the first."""
        size = self._line.size
        first = self.grow(len(text) // size)
        self._bytes[first * size : self.n * size] = text
        return first

    def grow(self, rows: int) -> int:
        """Append rows that the caller is going to write; the index of the first."""
        first, self.n = self.n, self.n + rows
        if self.n > self._room:
            self._room = max(self.n, 2 * self._room, self._first_room)
            more = np.empty((self._room, self.array.shape[1]), self.array.dtype)
            more[:first] = self.array[:first]
            self.array, self._bytes = more, more.data.cast("B")
            self._moved()
        return first
