"""Arrays that grow while kernels know their addresses."""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray


LASTING: dict[int, int] = {}
"""Addresses of arrays that never go away, by identity."""


@cache
def _line_of(columns: int, dtype: Any) -> Struct:
    return Struct(f"{columns or 1}{np.dtype(dtype).char}")


@cache
def _nothing(columns: int, dtype: Any) -> NDArray[Any]:
    """What stands for an array without rows; kernels are given its address, and never read there."""
    nothing = np.zeros((1, columns) if columns else 1, dtype)
    LASTING[id(nothing)] = nothing.ctypes.data
    return nothing


class Layout:
    """How the first rows of several arrays lie in one block of memory.

    What is compiled is mostly small. One block is one allocation for all arrays, and tells their addresses at once.

    Args:
        arrays: (columns, dtype, rows) of each array; no columns for one-dimensional.

    Attributes:
        first: int64[words], what a block begins as; a block is a copy of it.
        table: int64[n, 3], the offset in bytes, the rows and the columns of each array.
    """

    def __init__(self, arrays: Sequence[tuple[int, Any, int]]) -> None:
        self.parts: list[tuple[int, Any, int, slice]] = []
        at, lines = 0, []
        for columns, dtype, rows in arrays:
            size = _line_of(columns, dtype).size * rows
            self.parts.append((columns, dtype, rows, slice(at, at + size)))
            lines.append((at, rows, columns or rows))
            at += (size + 7) // 8 * 8
        self.first = np.zeros(at // 8, np.int64)
        self.table = np.array(lines, np.int64)

    def view(self, memory: memoryview, number: int) -> NDArray[Any]:
        """One of the arrays of a block."""
        columns, dtype, rows, place = self.parts[number]
        return np.frombuffer(memory[place], dtype).reshape((rows, columns) if columns else (rows,))


class Growing:
    """An array that grows by doubling; ``array`` is its full allocation, ``n`` the rows in use.

    ``moved(number)`` is called whenever ``array`` becomes another object. Room that is not used yet costs no memory,
    since nothing is written to it: where an array may become large, ``rows`` leaves room so that it seldom moves. The
    first rows may lie in ``memory``, a part of a block; else there is no room before the first row.
    """

    def __init__(
        self,
        moved: Callable[[int], None],
        columns: int,
        dtype: Any,
        rows: int = 64,
        number: int = 0,
        memory: memoryview | None = None,
    ) -> None:
        self.n = 0
        self._moved, self._number, self._columns, self._dtype = moved, number, columns, dtype
        self._line, self._first_room = _line_of(columns, dtype), rows
        self._array: NDArray[Any] | None
        self._bytes: memoryview
        if memory is None:
            self._room, self._array = 0, _nothing(columns, dtype)
        else:
            self._room, self._array, self._bytes = rows, None, memory

    @property
    def array(self) -> NDArray[Any]:
        """The rows in use, and the room behind them."""
        if self._array is None:
            flat = np.frombuffer(self._bytes, self._dtype)
            self._array = flat.reshape(-1, self._columns) if self._columns else flat
        return self._array

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
            more = np.empty((self._room, self._columns) if self._columns else self._room, self._dtype)
            more[:first] = self.array[:first]
            self._array, self._bytes = more, more.data.cast("B")
            self._moved(self._number)
        return first
