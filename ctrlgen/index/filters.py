"""Parts of a catalogue, switched on and off between steps.

A filter is a bit for each item and a count for each 64 of them, so whether any item of an interval passes is
answered by two look-ups: rank(hi) > rank(lo). Nothing of the trie is rebuilt.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index import filter_kernels
from ctrlgen.index.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Filter:
    """Which of the N sorted items of an index may come out; made by ``TokenIndex.filter`` and its like.

    Filters of the same index combine with ``&``, ``|``, ``-`` and ``~``.

    Attributes:
        words: uint64[N // 64 + 1], bit i % 64 of word i // 64 is set if the sorted item i passes.
        counts: int64[N // 64 + 1], how many items pass before each word.
        size: N.
        passing: how many items pass.
    """

    words: NDArray[np.uint64]
    counts: NDArray[np.int64]
    size: int
    passing: int

    @classmethod
    def from_words(cls, words: NDArray[np.uint64], size: int) -> Filter:
        """The filter of these bits; those from ``size`` on must be 0."""
        counts = np.empty(len(words), np.int64)
        passing = int(compiled(filter_kernels.count_words)(words, counts))
        words.flags.writeable = counts.flags.writeable = False
        return cls(words, counts, size, passing)

    @classmethod
    def from_places(cls, places: NDArray[np.integer[Any]], size: int) -> Filter:
        """The filter that lets the sorted items at ``places`` pass.

        Raises:
            InputError: a place lies outside of 0 .. size - 1.
        """
        if len(places) and not 0 <= int(places.min()) <= int(places.max()) < size:
            raise InputError(f"positions of items must lie in 0..{size - 1}, not {places.min()}..{places.max()}")
        words = np.zeros(size // 64 + 1, np.uint64)
        compiled(filter_kernels.set_bits)(words, places)
        return cls.from_words(words, size)

    @classmethod
    def from_flags(cls, flags: NDArray[np.bool_]) -> Filter:
        """The filter that lets the sorted items pass whose flag is set; flags: bool[N]."""
        words = np.zeros(len(flags) // 64 + 1, np.uint64)
        flags = np.ascontiguousarray(flags)
        whole = len(flags) // 64 * 64
        compiled(filter_kernels.pack_flags)(flags[:whole].view(np.uint64), words)
        rest = np.flatnonzero(flags[whole:]).tolist()
        words[-1] = sum(1 << place for place in rest)
        return cls.from_words(words, len(flags))

    def places(self) -> NDArray[np.int64]:
        """int64[passing], the sorted items that pass, ascending."""
        places = np.empty(self.passing, np.int64)
        compiled(filter_kernels.list_bits)(self.words, places)
        return places

    def flags(self) -> NDArray[np.bool_]:
        """bool[N], whether each sorted item passes."""
        return np.unpackbits(self.words.view(np.uint8), bitorder="little")[: self.size].view(np.bool_)

    def rank(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[...], how many items pass before each place in 0 .. N."""
        word, bit = places >> 6, (places & 63).astype(np.uint64)
        below = self.words[word] & ((np.uint64(1) << bit) - np.uint64(1))
        ranks: NDArray[np.int64] = self.counts[word] + np.bitwise_count(below).astype(np.int64)
        return ranks

    def first_from(self, place: int) -> int:
        """The first item that passes at or after ``place``; the size if there is none."""
        word = place >> 6
        bits = int(self.words[word]) >> (place & 63) << (place & 63)
        while not bits:
            # the next word whose count has grown by the one after it
            before = self.counts[word] + int(self.words[word]).bit_count()
            word, last = int(np.searchsorted(self.counts, before, "right")) - 1, word
            if word == last:
                return self.size
            bits = int(self.words[word])
        return word * 64 + (bits & -bits).bit_length() - 1

    def __and__(self, other: Filter) -> Filter:
        return Filter.from_words(self.words & self._matching(other).words, self.size)

    def __or__(self, other: Filter) -> Filter:
        return Filter.from_words(self.words | self._matching(other).words, self.size)

    def __sub__(self, other: Filter) -> Filter:
        return Filter.from_words(self.words & ~self._matching(other).words, self.size)

    def __invert__(self) -> Filter:
        words = ~self.words
        words[-1] &= np.uint64((1 << self.size % 64) - 1)
        return Filter.from_words(words, self.size)

    def __len__(self) -> int:
        return self.passing

    def __repr__(self) -> str:
        return f"Filter({self.passing} of {self.size} items)"

    def _matching(self, other: Filter) -> Filter:
        if not isinstance(other, Filter):
            raise InputError(f"a Filter combines with a Filter, not with {type(other).__name__}")
        if other.size != self.size:
            raise InputError(f"filters of two indexes, of {self.size} and {other.size} items, do not combine")
        return other


@dataclass(frozen=True, eq=False)
class RowFilters:
    """A filter for each row of a batch.

    Attributes:
        words: uint64[F, W] and counts: int64[F, W], the bits and counts of F filters.
        which: int64[R], the line each row obeys, -1 for none.
    """

    words: NDArray[np.uint64]
    counts: NDArray[np.int64]
    which: NDArray[np.int64]

    def __post_init__(self) -> None:
        self.words.flags.writeable = self.counts.flags.writeable = False

    @classmethod
    def of(cls, filters: Sequence[Filter | None], *, repeat: int = 1, empty: bool = False) -> RowFilters:
        """One filter (or None) for each query, each of them for ``repeat`` rows (the beams of the query).

        With ``empty``, a filter may let nothing pass; its rows are dead.

        Raises:
            UnsatisfiableError: a filter lets nothing pass.
            InputError: the filters are not of one index.
        """
        for row, one in enumerate(filters):
            if one is not None and not one.passing and not empty:
                raise UnsatisfiableError(f"the filter of row {row} lets none of the {one.size} items pass")
        distinct = list({id(one): one for one in filters if one is not None}.values())
        if not distinct:
            return no_filters(len(filters) * repeat)
        if len({one.size for one in distinct}) > 1:
            raise InputError(f"filters of several indexes in one batch: sizes {sorted({f.size for f in distinct})}")
        line = {id(one): i for i, one in enumerate(distinct)}
        which = np.repeat(np.array([-1 if one is None else line[id(one)] for one in filters], np.int64), repeat)
        if len(distinct) == 1:  # the usual case, without a copy
            return cls(distinct[0].words[None], distinct[0].counts[None], which)
        return cls(np.stack([one.words for one in distinct]), np.stack([one.counts for one in distinct]), which)


def no_filters(rows: int) -> RowFilters:
    """RowFilters of rows that may reach everything."""
    return RowFilters(np.zeros((1, 1), np.uint64), np.zeros((1, 1), np.int64), np.full(rows, -1, np.int64))
