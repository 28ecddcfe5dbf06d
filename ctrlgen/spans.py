"""The contiguous parts of texts as a sparse automaton over bytes: a suffix automaton, spelled.

A suffix automaton of a long text has hundreds of thousands of states, most with one edge, so it is kept as lists of
edges, and neither minimised nor turned into a table of all bytes as an ``Automaton`` is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Coding = Literal["utf-8", "json", "ascii json"]

LOW, HIGH, FINAL, LONGEST, SHORTEST, OWED = range(6)
"""Columns of ``Spans.states``."""
COUNTED = 256
"""Added to the byte of an edge that uses up one of the units that are counted."""
MEASURED = 64
"""Up to so many units it is known how many bytes they take at least."""

MAX_CHARACTERS = 1 << 24


@dataclass(frozen=True, eq=False)
class Spans:
    """An automaton that reads the parts of some texts.

    Args:
        states: int32[S, 6]: first edge, edge after the last, whether a part may end here, the most units that can
            still follow, bytes to a near place where it may end, units that are needed up to there (only inside a
            character; elsewhere none is).
        edges: int32[E, 2]: byte, plus 256 if it uses up one of the units that are counted; target.
        begun: units that have begun in ``start``, which no edge counts.
        start: the start state.
        order: int32[S], the states, each after those it leads to.
    """

    states: NDArray[np.int32]
    edges: NDArray[np.int32]
    begun: int
    start: int
    order: NDArray[np.int32]

    @property
    def longest(self) -> int:
        """The most units of a part; 0 if there is none."""
        return self.begun + int(self.states[self.start, LONGEST]) if len(self.states) else 0

    @cached_property
    def bytes_used(self) -> NDArray[np.bool_]:
        """bool[256], the bytes that occur."""
        used = np.zeros(256, bool)
        used[self.edges[:, 0] & 255] = True
        return used

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.states.nbytes + self.edges.nbytes

    def may_end(self, state: int) -> bool:
        """Whether a part may end in a state."""
        return bool(self.states[state, FINAL])

    def step(self, state: int, byte: int) -> tuple[int, int]:
        """(state after one byte, units that it counts), or (-1, 0)."""
        low, high = self.states[state, :2].tolist()
        for label, target in self.edges[low:high].tolist():
            if label & 255 == byte:
                return target, label >> 8
        return -1, 0

    def bytes_left(self, least: int) -> NDArray[np.int32]:
        """int32[least + 1, S] or more of it: bytes to a near place where a part may end that counts so many units more.

        Up to MEASURED units; where there is none it is more than the texts have.
        """
        from ctrlgen.span_kernel import with_units

        wanted = min(least, MEASURED)
        if len(self._left) <= wanted:
            lines = [*self._left]
            while len(lines) <= wanted:
                lines.append(with_units(self.states, self.edges, self.order, lines[-1]))
            self.__dict__["_left"] = np.array(lines)
        return self._left

    @cached_property
    def _left(self) -> NDArray[np.int32]:
        return self.states[:, SHORTEST][None].copy()

    def ending(self, state: int, least: int) -> bytes:
        """A short way to an end that counts at least ``least`` units more, which must be possible.

        What is left of it after some of its bytes is what this gives for the state and number then.
        """
        from ctrlgen.span_kernel import ending

        left = self.bytes_left(least)
        out = np.empty(64, np.uint8)
        size = ending(self.states, self.edges, left, state, least, out)
        if size > len(out):
            out = np.empty(size, np.uint8)
            ending(self.states, self.edges, left, state, least, out)
        return out[:size].tobytes()


def spans_of(texts: Sequence[str], coding: Coding, units: Sequence[Sequence[tuple[int, int]]] | None = None) -> Spans:
    """The automaton of the parts of some texts.

    Args:
        texts: the texts; no part goes from one into another.
        coding: "utf-8"; or as the content of a JSON string, "json" as a whole or in ASCII alone. There each character
            stands as it is, where that is allowed, or as an escape where it has one of its own or is not ASCII.
        units: for each text the (start, end) of its units, ascending and without overlap: parts begin and end with
            one. Whether one starts or ends between two characters must depend on the next character and on what
            stands before, from the start of any unit on. None: each character is a unit.

    Raises:
        ComplexityError: more than MAX_CHARACTERS characters.
    """
    from ctrlgen import span_kernel as kernels

    total = sum(map(len, texts))
    if total > MAX_CHARACTERS:
        raise ComplexityError(f"{total} characters to copy from; the limit is {MAX_CHARACTERS}: give a part of them")
    symbols = _symbols(texts, units)
    length, sources, labels, targets = kernels.suffix_automaton(symbols)
    order = np.argsort(labels + (sources.astype(np.int64) << 32))
    labels, targets = labels[order], targets[order]
    starts = np.searchsorted(sources[order], np.arange(len(length) + 1)).astype(np.int32)
    start, marked = 0, units is not None
    if marked:
        first = labels[: starts[1]] == kernels.BEGIN
        if not first.any():
            return Spans(np.zeros((0, 6), np.int32), np.zeros((0, 2), np.int32), 0, 0, np.zeros(0, np.int32))
        start = int(targets[: starts[1]][first][0])
    kept, longest = kernels.reached(length, starts, labels, targets, start, marked)
    number = {"utf-8": kernels.UTF8, "json": kernels.JSON, "ascii json": kernels.ASCII_JSON}[coding]
    states, edges, order = kernels.spelled(kept, longest, starts, labels, targets, marked, number)
    if not len(edges):
        return Spans(np.zeros((0, 6), np.int32), np.zeros((0, 2), np.int32), 0, 0, np.zeros(0, np.int32))
    return Spans(states, edges, int(marked), int(np.flatnonzero(kept == start)[0]), order)


def _symbols(texts: Sequence[str], units: Sequence[Sequence[tuple[int, int]]] | None) -> NDArray[np.int32]:
    """int32[n]: the characters, marks where units begin and end, and a mark of its own after each text."""
    from ctrlgen.span_kernel import BEGIN, CLOSE

    parts = []
    for number, text in enumerate(texts):
        codes = np.frombuffer(text.encode("utf-32-le"), np.int32)
        if units is not None:
            places = np.array(units[number], np.int64).reshape(-1, 2)
            # sorted by place; where one unit ends and the next begins, the end comes first
            order = np.lexsort((np.tile([1, 0], len(places)), places.ravel()))
            marks = np.tile(np.array([BEGIN, CLOSE], np.int32), len(places))[order]
            codes = np.insert(codes, places.ravel()[order], marks)
        parts += [codes, np.array([CLOSE - 1 - number], np.int32)]
    return np.concatenate(parts)
