"""NameIndex: very many strings as a constraint, whatever tokenizer cuts them.

The names are sorted by their bytes and held as the compressed trie of ``ctrlgen.index.layout``, with a byte in place of
a token: an edge a branching, the rest read from the names themselves. Masks come from walking that trie and the tokens
of a vocabulary together (``ctrlgen.index.name_constraint``), so one index serves every vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError
from ctrlgen.index import build_kernels, name_kernels
from ctrlgen.index.around import Around
from ctrlgen.index.build import edges_of
from ctrlgen.index.compiled import compiled
from ctrlgen.index.items import Items
from ctrlgen.index.layout import Layout, depth_dtype, place_dtype
from ctrlgen.index.name_files import Lines, Normal, lines_of, normalised, read_lines
from ctrlgen.index.sorting import sorted_order

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from ctrlgen.index.name_constraint import NameConstraint
    from ctrlgen.index.name_files import Progress
    from ctrlgen.vocabulary import Vocabulary


class NameIndex:
    """Names, each once, in the order of their bytes; immutable, picklable, equal if the names are.

    >>> index = NameIndex.from_names(["torch", "numpy", "numba", "numpy"])
    >>> index, "numba" in index, list(index.starting_with("nu"))
    (NameIndex(3 names, 15 bytes), True, ['numba', 'numpy'])

    Args:
        layout: the arrays, bytes in place of tokens; made by ``from_names``, ``from_file`` or ``open``.
        normalise: the normal form the names were brought into, None if they are as they were.
        path: the file that holds the arrays, if they are mapped.
    """

    def __init__(self, layout: Layout, normalise: Normal | None = None, path: str | None = None) -> None:
        self.layout, self.normalise, self.path = layout, normalise, path

    @classmethod
    def from_names(cls, names: Iterable[str], *, normalise: Normal | None = None) -> NameIndex:
        """The index of names in any order; equal ones are one.

        Args:
            names: strings; the empty one too.
            normalise: "pep503" brings names into the normal form of Python's package index.

        Raises:
            UnsatisfiableError: there are none.
            InputError: something that is no string, or one of more than 65,000 bytes.
        """
        return cls.from_lines(lines_of(names), normalise)

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, normalise: Normal | None = None, progress: Progress | None = None
    ) -> NameIndex:
        """The index of the lines of a text file in UTF-8, which may be packed by gzip.

        Raises:
            InputError: the file cannot be read; names the line.
            ComplexityError: it holds more than 2 GiB.
        """
        return cls.from_lines(read_lines(path, progress=progress), normalise, progress)

    @classmethod
    def from_lines(cls, lines: Lines, normalise: Normal | None = None, progress: Progress | None = None) -> NameIndex:
        """The index of names that have been read."""
        count = len(lines.bounds) - 1
        if progress is not None:
            progress("sort", 0, count)
        made = cls(_layout(normalised(lines, normalise)), normalise)
        if progress is not None:
            progress("sort", count, count)
        return made

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> NameIndex:
        """The index that ``save`` wrote, mapped into memory: see ``ctrlgen.index.storage.open_names``."""
        from ctrlgen.index.storage import open_names

        return open_names(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to ``path``, at once or not at all.

        Raises:
            OSError: the file cannot be written.
        """
        from ctrlgen.index.storage import save_names

        save_names(self, path)

    # a specification

    def compile(
        self, vocabulary: Vocabulary, *, before: str = "", after: str = "", separator: str | None = None
    ) -> NameConstraint:
        """The constraint over ``vocabulary``: see ``ctrlgen.index.name_constraint``.

        Args:
            vocabulary: of any tokenizer.
            before: what stands before the first name.
            after: what stands after the last one.
            separator: what stands between names, of which there may then be several; None for one name.

        Raises:
            InputError: a text could be read in two ways.
            UnsatisfiableError: no name can be spelled with the tokens of the vocabulary.
        """
        from ctrlgen.index.name_constraint import constraint_of

        around = Around(before.encode(), after.encode(), None if separator is None else separator.encode())
        return constraint_of(self, vocabulary, around)

    def parse(self, text: str) -> str:
        """The text itself."""
        return text

    # a collection

    def __len__(self) -> int:
        """Number of names."""
        return self.layout.count

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        lo, hi = self._below(name)
        return lo < hi and self[lo] == name

    def __getitem__(self, place: int) -> str:
        """The name at a place in the order of bytes."""
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} names; none has the place {place}")
        offsets = self.layout.offsets
        return self.layout.tokens[int(offsets[place]) : int(offsets[place + 1])].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        return map(self.__getitem__, range(len(self)))

    def starting_with(self, prefix: str) -> Names:
        """The names that begin with ``prefix``, in the order of their bytes."""
        return Names(self, *self._below(prefix))

    def __repr__(self) -> str:
        form = "" if self.normalise is None else f", normalise={self.normalise!r}"
        return f"NameIndex({len(self)} names, {len(self.layout.tokens)} bytes{form})"

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of the names; the same however they came, and whatever normal form was asked for."""
        return fingerprint_of(
            *(hashlib.sha256(array.data).digest() for array in (self.layout.tokens, self.layout.offsets))
        )

    @cached_property
    def alphabet(self) -> frozenset[int]:
        """The bytes that occur."""
        return frozenset(np.flatnonzero(np.bincount(self.layout.tokens, minlength=256)).tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NameIndex):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is not None:
            return _reopened, (self.path, self.fingerprint)
        layout = self.layout
        return _unpickled, (layout.tokens.tobytes(), layout.offsets.tobytes(), layout.offsets.dtype.str, self.normalise)

    def rest_below(self, edge: int, depth: int) -> bytes:
        """The rest of a shortest name below a place of the trie, the same name from all places on the way to it."""
        layout = self.layout
        shortest = compiled(name_kernels.shortest_below)
        name = int(shortest(layout.symbol, layout.lo, layout.child, layout.shortest, edge))
        return layout.tokens[int(layout.offsets[name]) + depth : int(layout.offsets[name + 1])].tobytes()

    def _below(self, prefix: str) -> tuple[int, int]:
        try:
            wanted = np.frombuffer(prefix.encode(), np.uint8)
        except UnicodeEncodeError:  # no name holds a lone surrogate
            return 0, 0
        lo, hi = compiled(name_kernels.names_below)(self.layout.offsets, self.layout.tokens, wanted)
        return int(lo), int(hi)


class Names:
    """Names lo .. hi of an index, in the order of their bytes; read when they are asked for."""

    def __init__(self, index: NameIndex, lo: int, hi: int) -> None:
        self.index, self.lo, self.hi = index, lo, hi

    def __len__(self) -> int:
        return self.hi - self.lo

    def __iter__(self) -> Iterator[str]:
        return map(self.index.__getitem__, range(self.lo, self.hi))


def fingerprint_of(tokens: bytes, offsets: bytes) -> str:
    """The fingerprint of an index whose arrays have these sha256 digests."""
    return hashlib.sha256(b"ctrlgen names 1" + tokens + offsets).hexdigest()


def _layout(lines: Lines) -> Layout:
    """The trie of names in any order, each once."""
    flat, bounds = lines
    items = Items(flat, bounds[:-1], bounds[1:], 0)
    depths = depth_dtype(int(np.diff(bounds).max()))
    equal = int(np.iinfo(depths).max)
    shared = np.zeros(len(items), depths)
    offsets = bounds.astype(place_dtype(int(bounds[-1])))
    compare = compiled(build_kernels.shared_prefixes)
    if compare(flat, offsets, 0, 0, len(items), equal, shared) >= 0:
        # an item has at least one byte where the sort looks at it; of names without any, all are equal
        items = _gathered(items, sorted_order(items) if len(flat) else np.arange(len(items)))
        offsets = _offsets(items, offsets.dtype)
        if compare(items.flat, offsets, 0, 0, len(items), equal, shared) >= 0:
            raise RuntimeError("names are out of order after they were sorted")
    distinct = shared != equal
    if not distinct.all():
        items = _gathered(items, np.flatnonzero(distinct))
        offsets, shared = _offsets(items, offsets.dtype), shared[distinct]
    none = np.zeros(0, np.uint32)
    return edges_of(items.flat, offsets, 0, shared, none, none.astype(np.float64))


def _gathered(items: Items, order: NDArray[np.int64]) -> Items:
    bounds = np.zeros(len(order) + 1, np.int64)
    np.cumsum((items.ends - items.starts)[order], out=bounds[1:])
    flat = np.empty(int(bounds[-1]), np.uint8)
    compiled(build_kernels.gather_items)(items.flat, items.starts, items.ends, order, flat)
    return Items(flat, bounds[:-1], bounds[1:], 0)


def _offsets(items: Items, dtype: Any) -> NDArray[Any]:
    return np.append(items.starts, items.ends[-1]).astype(dtype)


def _reopened(path: str, fingerprint: str) -> NameIndex:
    if not Path(path).is_file():
        raise InputError(f"the names were in {path}, which is not there any more; put it back, or build it anew")
    index = NameIndex.open(path)
    if index.fingerprint != fingerprint:
        raise InputError(f"{path} holds other names than when this was pickled; make it anew from the file")
    return index


def _unpickled(flat: bytes, offsets: bytes, dtype: str, normalise: Normal | None) -> NameIndex:
    bounds = np.frombuffer(offsets, dtype).astype(np.int64)
    return NameIndex(_layout(Lines(np.frombuffer(flat, np.uint8), bounds)), normalise)
