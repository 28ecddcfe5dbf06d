"""What stands before, between and after names, as a small automaton.

Node 0 is the end of the text, node 1 stands after a whole name. Each node goes on with at most two bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

OVER, NAMED = 0, 1
TO_NAMES = -1
"""In place of a node: a name begins."""


@dataclass(frozen=True)
class Around:
    """A text is ``before``, a name, and ``after``; with a ``separator``, several names with that between them."""

    before: bytes = b""
    after: bytes = b""
    separator: bytes | None = None

    def __post_init__(self) -> None:
        if self.separator is None:
            return
        if not self.separator:
            raise InputError("separator is empty, and names without anything between them cannot be told apart")
        if self.after and (self.after.startswith(self.separator) or self.separator.startswith(self.after)):
            raise InputError(
                f"after={self.after!r} and separator={self.separator!r} begin one another, so that a text could be "
                "read in two ways; choose others"
            )

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.separator)

    @property
    def alphabet(self) -> frozenset[int]:
        """All bytes there are."""
        return frozenset(self.before + self.after + (self.separator or b""))

    @property
    def following(self) -> frozenset[int]:
        """The bytes that may come right after a name."""
        return frozenset(self.after[:1] + (self.separator or b"")[:1])

    def table(self) -> Table:
        """The automaton."""
        rests: list[tuple[bytes, str]] = [(b"", "end"), (self.after, "after")]
        edges: list[list[tuple[int, int]]] = [[], []]
        if self.after:
            _chain(edges, rests, NAMED, self.after, OVER, "after")
        if self.separator:
            _chain(edges, rests, NAMED, self.separator, TO_NAMES, "names")
        start = TO_NAMES
        if self.before:
            start = len(edges)
            edges.append([])
            rests.append((self.before, "names"))
            _chain(edges, rests, start, self.before, TO_NAMES, "names")
        labels, targets = np.full((len(edges), 2), -1, np.int16), np.zeros((len(edges), 2), np.int32)
        for node, out in enumerate(edges):
            for i, (byte, target) in enumerate(out):
                labels[node, i], targets[node, i] = byte, target
        return Table(start, not self.after, labels, targets, tuple((rest, kind == "names") for rest, kind in rests))


@dataclass(frozen=True, eq=False)
class Table:
    """An Around as arrays.

    Attributes:
        start: the first node, or TO_NAMES.
        may_end: whether a text may end after a name.
        labels: int16[J, 2], the bytes that each node goes on with, -1 for none.
        targets: int32[J, 2], the node after each of them, or TO_NAMES.
        rests: of each node the bytes that lie ahead on the shortest way, and whether a name follows them.
    """

    start: int
    may_end: bool
    labels: NDArray[np.int16]
    targets: NDArray[np.int32]
    rests: tuple[tuple[bytes, bool], ...]


def _chain(
    edges: list[list[tuple[int, int]]], rests: list[tuple[bytes, str]], node: int, text: bytes, last: int, kind: str
) -> None:
    """Add the nodes along ``text``, from ``node`` to ``last``, sharing those that are there."""
    for i, byte in enumerate(text):
        known = dict(edges[node]).get(byte)
        if known is None:
            known = last if i + 1 == len(text) else len(edges)
            edges[node].append((byte, known))
            if known == len(edges):
                edges.append([])
                rests.append((text[i + 1 :], kind))
        node = known
