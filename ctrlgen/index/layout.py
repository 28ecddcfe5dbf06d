"""The arrays of a token index, and what the columns of its states mean.

The items are sorted; a prefix is an interval [lo, hi) of them. The trie over them is compressed: a node is stored
only where items part, so there are fewer than two edges an item whatever the catalogue looks like. Between two
branchings, and below the last one, the next token is read from the table of tokens itself. An edge e leads to the
items from lo[e] on; they end where its next sibling's begin, or where its parent's end. Edges lie breadth first,
so the edges below e are child[e] .. child[e + 1], none below a leaf, and no node needs an array of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

LO, HI, DEPTH, NODE = 0, 1, 2, 3
"""Columns of states, int64[R, 4]: the items [lo, hi) that begin with the tokens so far, how many these are, and
the edge whose branching lies ahead, or one of the three below."""

LEAF, DONE, LOST = -1, -2, -3
"""In place of an edge: one item is left (or several with the same tokens); its end was reached; no item is left."""

END_SYMBOL = 0
"""An edge's symbol is its token plus one; 0 marks the items that end at a branching, and so sorts first."""


@dataclass(frozen=True, eq=False)
class Layout:
    """N sorted items as a compressed trie of E edges; edge 0 leads to the root.

    Attributes:
        tokens: u16 or u32[T], the tokens of the sorted items one after the other.
        offsets: u32 or i64[N + 1], where each item begins in ``tokens``; empty if all have the same length.
        length: the length all items have; 0 if they differ.
        count: N, items with the same tokens counted one by one.
        longest: length of the longest item.
        symbol: u16 or u32[E], token + 1, or 0 for the end of an item.
        lo: u32 or i64[E], the first item below the edge.
        child: u32 or i64[E + 1], the first edge below the edge.
        branch: u8 or u16[E], how many tokens lie above the branching the edge leads to; the greatest value at leaves.
        shortest: u8 or u16[E], length of the shortest item below the edge; empty if all have the same length.
        ids: i64[N], the id of each sorted item; empty if an item's id is its position.
        weights: float64[N] of the sorted items; empty if there are none.
    """

    tokens: NDArray[Any]
    offsets: NDArray[Any]
    length: int
    count: int
    longest: int
    symbol: NDArray[Any]
    lo: NDArray[Any]
    child: NDArray[Any]
    branch: NDArray[Any]
    shortest: NDArray[Any]
    ids: NDArray[Any]
    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.flags.writeable = False

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], length: int, count: int, longest: int) -> Layout:
        """The inverse of ``arrays``."""
        return cls(**arrays, length=length, count=count, longest=longest)

    @property
    def walk(self) -> tuple[NDArray[Any], ...]:
        """What the kernels of names take for the trie."""
        return self.tokens, self.offsets, self.symbol, self.lo, self.child, self.branch

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays together."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def edges(self) -> int:
        """Number of edges, the one to the root included."""
        return len(self.lo)


ARRAYS = tuple(field.name for field in fields(Layout) if field.name not in ("length", "count", "longest"))


def token_dtype(largest: int) -> type[np.unsignedinteger[Any]]:
    """The narrower dtype in which ``largest`` and its symbol fit."""
    return np.uint16 if largest < 0xFFFF else np.uint32


def place_dtype(largest: int) -> type[np.integer[Any]]:
    """The narrower dtype for positions up to ``largest``."""
    return np.uint32 if largest <= 0xFFFFFFFF else np.int64


def depth_dtype(longest: int) -> type[np.unsignedinteger[Any]]:
    """The narrower dtype for depths; its greatest value is kept for leaves and equal items."""
    return np.uint8 if longest < 0xFF else np.uint16
