"""Building an index larger than memory: sorted runs in files, one merge, arrays that live in files.

Everything happens in a folder beside the target, which is removed in the end, and at the start if an earlier build
was cut off there; the target appears in one move. What stays in memory is one chunk, and a block of the merge;
the arrays of the trie are mapped files that the system may write out at any time.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index import build_kernels
from ctrlgen.index.build import edges_of, read_ids
from ctrlgen.index.compiled import compiled
from ctrlgen.index.items import Items, end_ids, meaningless_ids, read_items, refuse_tokens
from ctrlgen.index.layout import depth_dtype, place_dtype, token_dtype
from ctrlgen.index.sorting import sorted_order
from ctrlgen.index.storage import write_layout

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

    Progress = Callable[[str, int, int], None]

_BLOCK = 1 << 18  # items merged at a time


def build_file(
    path: str | os.PathLike[str],
    chunks: Iterable[Any],
    *,
    vocabulary: Vocabulary | None = None,
    eos: int | Iterable[int] | None = None,
    width: int | None = None,
    pad: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Write the index of a catalogue that comes in chunks.

    Args:
        path: of the file, to be opened with ``open_index``.
        chunks: each integer[N, L] or a list of sequences, or a pair (items, ids) of which all or none come with ids.
            A chunk must fit into memory several times over.
        vocabulary, eos, width, pad: as for ``TokenIndex.from_items``.
        progress: called with a stage ("sort", "merge", "edges", "write"), items done and items in all (0: not known).

    Raises:
        UnsatisfiableError: there are no items.
        InputError: as for ``TokenIndex.from_items``. The target is untouched then, as after any interruption.
    """
    target = Path(path)
    folder = target.with_name(target.name + ".partial")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        given = end_ids(vocabulary, eos)
        width = vocabulary.width if vocabulary is not None and width is None else width
        runs = _Runs(folder, given, meaningless_ids(vocabulary) if vocabulary is not None else [], width, pad)
        report = progress or (lambda stage, done, total: None)
        for number, chunk in enumerate(chunks):
            try:
                runs.add(chunk)
            except InputError as error:
                raise InputError(f"chunk {number}: {error}") from error
            report("sort", runs.count, 0)
        _assemble(target, runs, vocabulary, report)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Runs:
    """Sorted chunks in files, one after the other, and what all of them have in common."""

    folder: Path
    ends: tuple[int, ...]
    meaningless: list[int]
    width: int | None
    pad: int | None
    bounds: list[int] = field(default_factory=lambda: [0])
    tokens: int = 0
    largest: int = 0
    longest: int = 0
    shortest: int = 1 << 62
    named: bool | None = None

    @property
    def count(self) -> int:
        """Items so far."""
        return self.bounds[-1]

    def add(self, chunk: Any) -> None:
        """Sort a chunk and append it to the files."""
        items, ids = chunk if isinstance(chunk, tuple) else (chunk, None)
        if len(items) == 0:
            return
        if self.named is not None and self.named != (ids is not None):
            raise InputError("either all chunks come with ids or none")
        self.named = ids is not None
        read = read_items(items, pad=self.pad, width=self.width)
        refuse_tokens(read, self.ends, "an end id; items are given without it")
        refuse_tokens(read, self.meaningless, "neither text nor a control token of the vocabulary")
        names = read_ids(ids, len(read)).astype(np.int64) if ids is not None else self.count + np.arange(len(read))
        self._append(read, sorted_order(read), names)

    def _append(self, read: Items, order: NDArray[np.int64], names: NDArray[np.int64]) -> None:
        lengths = (read.ends - read.starts)[order]
        tokens = np.empty(int(lengths.sum()), np.uint32)
        compiled(build_kernels.gather_items)(read.flat, read.starts, read.ends, order, tokens)
        for name, array in (("tokens", tokens), ("lengths", lengths), ("ids", names[order])):
            with (self.folder / name).open("ab") as file:
                array.tofile(file)
        self.bounds.append(self.count + len(read))
        self.tokens += len(tokens)
        self.largest = max(self.largest, int(tokens.max()))
        self.longest, self.shortest = max(self.longest, int(lengths.max())), min(self.shortest, int(lengths.min()))

    def array(self, name: str, dtype: Any) -> NDArray[Any]:
        """One of the files, mapped."""
        return np.memmap(self.folder / name, dtype, "r").view(np.ndarray)

    def new(self, name: str, size: int, dtype: Any) -> NDArray[Any]:
        """An array in a file of its own."""
        if not size:
            return np.zeros(0, dtype)
        return np.memmap(self.folder / f"{name}.new", dtype, "w+", shape=(size,)).view(np.ndarray)


def _assemble(target: Path, runs: _Runs, vocabulary: Vocabulary | None, report: Progress) -> None:
    """Merge the runs, build the trie over them, write the file."""
    if not runs.count:
        raise UnsatisfiableError("the catalogue is empty: there is nothing that could be generated")
    needed = max((runs.largest, *runs.ends)) + 1
    if runs.width is not None and needed > runs.width:
        raise InputError(f"end id {needed - 1} does not lie below the width {runs.width}")
    fixed = runs.longest if runs.longest == runs.shortest else 0
    tokens, offsets, ids = _merge(runs, report)
    shared = runs.new("shared", runs.count, depth_dtype(runs.longest))
    equal = int(np.iinfo(shared.dtype).max)
    offsets = np.zeros(0, np.uint32) if fixed else offsets
    for begin in range(0, runs.count, _BLOCK):
        end = min(begin + _BLOCK, runs.count)
        compiled(build_kernels.shared_prefixes)(tokens, offsets, fixed, begin, end, equal, shared)
        report("edges", end, runs.count)
    if not runs.named and bool((ids[1:] > ids[:-1]).all()):
        ids = np.zeros(0, np.uint32)
    layout = edges_of(tokens, offsets, fixed, shared, ids, np.zeros(0), runs.new)
    if not runs.ends and bool((layout.symbol[1:] == 0).any()):
        raise InputError("an item is the beginning of another one, so ends must be told apart: pass eos=")
    report("write", 0, runs.count)
    fingerprint = vocabulary.fingerprint if vocabulary is not None else None
    write_layout(target, layout, runs.ends, runs.width or needed, fingerprint)
    report("write", runs.count, runs.count)


def _merge(runs: _Runs, report: Progress) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Tokens, offsets and ids of all items in order, in files."""
    source, names = runs.array("tokens", np.uint32), runs.array("ids", np.int64)
    starts = runs.new("starts", runs.count + 1, np.int64)
    starts[0] = 0
    np.cumsum(runs.array("lengths", np.int64), out=starts[1:])
    tokens = runs.new("tokens", runs.tokens, token_dtype(runs.largest))
    offsets = runs.new("offsets", runs.count + 1, place_dtype(runs.tokens))
    ids = runs.new("ids", runs.count, place_dtype(int(names.max())))
    heads, ends = np.array(runs.bounds[:-1]), np.array(runs.bounds[1:])
    heap, size = _heap(source, starts, heads), len(heads)
    offsets[0] = done = at = 0
    lengths, block_ids = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    block = np.empty(_BLOCK * runs.longest, np.uint32)
    while size:
        size, moved, written = compiled(build_kernels.merge_runs)(
            source, starts, names, heads, ends, heap, size, _BLOCK, block, lengths, block_ids
        )
        tokens[at : at + written] = block[:written]
        offsets[done + 1 : done + moved + 1] = at + np.cumsum(lengths[:moved])
        ids[done : done + moved] = block_ids[:moved]
        done, at = done + moved, at + written
        report("merge", done, runs.count)
    return tokens, offsets, ids


def _heap(tokens: NDArray[Any], starts: NDArray[np.int64], heads: NDArray[np.int64]) -> NDArray[np.int64]:
    """The runs in the order of their first items, which makes them a heap."""
    firsts = [tokens[starts[head] : starts[head + 1]].tolist() for head in heads]
    return np.array(sorted(range(len(heads)), key=lambda run: (firsts[run], run)), np.int64)
