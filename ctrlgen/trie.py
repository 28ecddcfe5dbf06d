"""The tokens of a vocabulary as a byte trie in preorder, held in flat arrays.

Preorder makes two things cheap that mask building does all the time: skipping a whole subtree is one jump
(``end``), and the tokens of a whole subtree are one contiguous slice of ``tokens``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

BYTE, END, TOKEN_LO, TOKEN_HI, DENSE, DEPTH = range(6)
"""Columns of ``Trie.nodes``."""

DENSE_FROM = 8
"""A node with at least this many children gets a row of ``Trie.children``."""

VERSION = 1
"""To be raised when the same tokens give other arrays; part of the key on disk."""

FIELDS = ("nodes", "tokens", "children")


@dataclass(frozen=True, eq=False)
class Trie:
    """Byte trie over tokens; node 0 is the root, children come in ascending byte order.

    The tokens below node v, its own included, are ``tokens[nodes[v, 2] : nodes[nodes[v, 1] - 1, 3]]``.

    Attributes:
        nodes: int32[N, 6]: byte, end (index after the subtree), token_lo, token_hi (its own tokens, a range in
            ``tokens``), dense (row in ``children`` or -1), depth. The root has byte 0 and depth 0.
        tokens: int32[M], token ids in preorder; ids with the same bytes stand side by side, ascending.
        children: int32[D, 256], node of the child by byte or -1, for the root and nodes with 8 children or more.
        longest: number of bytes of the longest token.
    """

    nodes: NDArray[np.int32]
    tokens: NDArray[np.int32]
    children: NDArray[np.int32]
    longest: int

    def __post_init__(self) -> None:
        for name in FIELDS:
            getattr(self, name).flags.writeable = False

    def arrays(self) -> dict[str, NDArray[np.int32]]:
        """The fields as arrays, for a cache on disk."""
        return {name: getattr(self, name) for name in FIELDS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.int32]]) -> Trie:
        """The inverse of ``arrays``."""
        nodes = arrays["nodes"]
        return cls(nodes, arrays["tokens"], arrays["children"], int(nodes[:, DEPTH].max()))


def build(tokens: Sequence[bytes | None]) -> Trie:
    """The trie over all tokens that have bytes.

    Args:
        tokens: bytes of each id; None or empty means that the id is left out.
    """
    lengths = np.fromiter(map(len, [token or b"" for token in tokens]), np.int64, len(tokens))
    ids = np.flatnonzero(lengths)
    length = lengths[ids]
    offset = np.cumsum(length) - length
    flat = np.frombuffer(b"".join(filter(None, tokens)), np.uint8)
    order = _sort(flat, offset, length)
    ids, offset, length = ids[order], offset[order], length[order]
    nodes = _preorder(flat, offset, length, _shared_prefix(flat, offset, length))
    parent = _link(nodes)
    children = _dense_rows(nodes, parent)
    return Trie(nodes, ids.astype(np.int32), children, int(length.max(initial=0)))


def _sort(flat: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """The stable order of the tokens by their bytes, int64[M]: eight bytes at a time, each time those still tied."""
    order = np.arange(len(length))
    tied = order.copy()  # positions in ``order``; those of one group stand side by side
    group = np.zeros(len(tied), np.int64)
    depth = 0
    while len(tied):
        rows = order[tied]
        chunk = _eight_bytes(flat, offset[rows] + depth, length[rows] - depth)
        # tells a token that ends inside the chunk from one that goes on with NULs
        left = np.minimum(length[rows] - depth, 9)
        within = np.lexsort((left, chunk, group))
        order[tied] = rows[within]
        chunk, left, group = chunk[within], left[within], group[within]
        new = np.ones(len(tied), bool)
        new[1:] = (np.diff(chunk) != 0) | (np.diff(left) != 0) | (np.diff(group) != 0)
        group = np.cumsum(new)
        going_on = (left == 9) & (np.bincount(group)[group] > 1)
        tied, group = tied[going_on], group[going_on]
        depth += 8
    return order


def _eight_bytes(flat: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The first eight bytes at each offset as one big-endian number, padded with NULs after ``length`` bytes."""
    column = np.arange(8)
    window = flat[np.minimum(offset[:, None] + column, len(flat) - 1)]
    window[column >= length[:, None]] = 0
    numbers: NDArray[np.uint64] = window.view(">u8").ravel().astype(np.uint64)
    return numbers


def _shared_prefix(flat: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64]) -> NDArray[np.int64]:
    """Length of the prefix each token shares with the token before it, int64[M]; 0 for the first."""
    shared = np.zeros_like(length)
    alive = np.arange(1, len(length))
    depth = 0
    while len(alive):
        alive = alive[np.minimum(length[alive - 1], length[alive]) > depth]
        alive = alive[flat[offset[alive - 1] + depth] == flat[offset[alive] + depth]]
        depth += 1
        shared[alive] = depth
    return shared


def _preorder(
    flat: NDArray[np.uint8], offset: NDArray[np.int64], length: NDArray[np.int64], shared: NDArray[np.int64]
) -> NDArray[np.int32]:
    """All columns except end and dense: each sorted token adds the nodes of its bytes after the shared prefix."""
    added = length - shared
    owner = np.repeat(np.arange(len(length)), added)  # the first token below each node
    first = np.cumsum(added) - added
    depth = np.arange(len(owner)) - first[owner] + shared[owner] + 1
    # tokens equal to the one before add no node, so a group of equals starts where nodes were added
    leaders = np.flatnonzero(added)
    equals = np.zeros_like(length)
    equals[leaders] = np.diff(np.append(leaders, len(length)))
    nodes = np.zeros((len(owner) + 1, 6), np.int32)
    nodes[1:, BYTE] = flat[offset[owner] + depth - 1]
    nodes[1:, TOKEN_LO] = owner
    nodes[1:, TOKEN_HI] = owner + np.where(depth == length[owner], equals[owner], 0)
    nodes[1:, DEPTH] = depth
    return nodes


def _link(nodes: NDArray[np.int32]) -> NDArray[np.int64]:
    """Fill the end column; returns the parent of each node, int64[N], -1 for the root."""
    count = len(nodes)
    parent = np.full(count, -1, np.int64)
    nodes[0, END] = count
    order = np.argsort(nodes[:, DEPTH], kind="stable")
    levels = np.split(order, np.flatnonzero(np.diff(nodes[order, DEPTH])) + 1)
    for above, level in pairwise(levels):
        parent[level] = above[np.searchsorted(above, level) - 1]
        # a subtree ends at the next node of the same depth, or where the parent's subtree does
        nodes[level, END] = np.minimum(np.append(level[1:], count), nodes[parent[level], END])
    return parent


def _dense_rows(nodes: NDArray[np.int32], parent: NDArray[np.int64]) -> NDArray[np.int32]:
    """Fill the dense column and return ``Trie.children``."""
    degree = np.bincount(parent[1:], minlength=len(nodes))
    degree[0] = max(degree[0], DENSE_FROM)  # the root always has a row
    rich = np.flatnonzero(degree >= DENSE_FROM)
    nodes[:, DENSE] = -1
    nodes[rich, DENSE] = np.arange(len(rich))
    children = np.full((len(rich), 256), -1, np.int32)
    row = nodes[parent, DENSE]
    row[0] = -1
    child = np.flatnonzero(row >= 0)
    children[row[child], nodes[child, BYTE]] = child
    return children
