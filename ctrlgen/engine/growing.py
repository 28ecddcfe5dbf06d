"""Arrays that grow while kernels know their addresses."""

from __future__ import annotations

from array import array
from ctypes import addressof, c_char
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
    """How the first rows of several arrays lie in one block of memory, behind a table of their addresses.

    What is compiled is mostly small. One block is one allocation for all its arrays, and tells their addresses at once.

    Args:
        before: lines of the table that are for other arrays.
        arrays: (columns, dtype, rows) of each array; no columns for one-dimensional.
        known: {number of an array: its first rows}; zero else.

    Attributes:
        parts: (columns, dtype, rows, place in bytes) of each array.
    """

    def __init__(self, before: int, arrays: Sequence[tuple[int, Any, int]], known: dict[int, Any]) -> None:
        self._lines, self._before = before + len(arrays), before
        self._at = before * 3 * 8
        at = self._lines * 3 * 8
        self.parts: list[tuple[int, Any, int, slice]] = []
        for columns, dtype, rows in arrays:
            size = _line_of(columns, dtype).size * rows
            self.parts.append((columns, dtype, rows, slice(at, at + size)))
            at += (size + 7) // 8 * 8
        self._offsets = np.array([place.start for *_, place in self.parts], np.int64)
        self._template = bytearray(at)
        table = np.ndarray((self._lines, 3), np.int64, self._template)
        table[before:, 1:] = [(rows, columns or rows) for columns, _, rows, _ in self.parts]
        for number, rows in known.items():
            columns, dtype, _, place = self.parts[number]
            text = np.asarray(rows, dtype).tobytes()
            self._template[place.start : place.start + len(text)] = text

    def block(self, others: bytes) -> tuple[memoryview, NDArray[np.int64]]:
        """A new block, and the int64[n, 3] table in it: ``others``, then the lines of its own arrays."""
        block = bytearray(self._template)
        block[: self._at] = others
        table: NDArray[np.int64] = np.ndarray((self._lines, 3), np.int64, block)
        table[self._before :, 0] = self._offsets + addressof(c_char.from_buffer(block))
        return memoryview(block), table

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

    def extend_cells(self, cells: list[int]) -> int:
        """Append rows of int64, cell by cell; the index of the first."""
        if not cells:
            return self.n
        size = self._line.size
        first = self.grow(8 * len(cells) // size)
        self._bytes[first * size : self.n * size] = array("q", cells).tobytes()
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
