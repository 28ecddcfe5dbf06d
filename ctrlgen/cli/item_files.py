"""Catalogues in files, read in chunks: arrays, JSON lines, texts, tables. Errors show the place."""

from __future__ import annotations

import gzip
import importlib
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ctrlgen.cli.sources import STDIN, parse_json, shown
from ctrlgen.errors import InputError

CHUNK = 250_000
"""Items read at a time."""

Chunk = Any
"""What ``build_file`` takes: items, or a pair (items, ids)."""

Tokenize = Callable[[Sequence[str]], list[list[int]]]


class Format(Enum):
    """How a catalogue is written."""

    NPY = "npy"
    JSONL = "jsonl"
    TEXT = "text"
    PARQUET = "parquet"


_SUFFIXES = {
    ".npy": Format.NPY,
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".txt": Format.TEXT,
    ".parquet": Format.PARQUET,
}


def format_of(name: str) -> Format:
    """The format that a file's name tells; lines of text for standard input.

    Raises:
        InputError: it tells none.
    """
    if name == STDIN:
        return Format.TEXT
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"{name}: its name does not tell what it holds; say it with --format npy|jsonl|text|parquet")
    return _SUFFIXES[suffix]


def chunks_of(name: str, form: Format, tokenize: Tokenize | None, size: int = CHUNK) -> Iterator[Chunk]:
    """The items of a file, ``size`` at a time.

    Args:
        name: of a file; of .txt.gz and .jsonl.gz too. "-" is standard input, for lines.
        form: how it is written.
        tokenize: makes tokens of texts; None if items are tokens already.
        size: items a chunk.

    Raises:
        InputError: names the line that is no item, or what else cannot be read.
    """
    if form in (Format.NPY, Format.PARQUET) and name == STDIN:
        raise InputError(f"{form.value} cannot be read from standard input; give a file")
    if name != STDIN and not Path(name).is_file():
        raise InputError(f"there is no file {name}")
    if form is Format.NPY:
        return _table(name, size)
    if form is Format.PARQUET:
        return _parquet(name, tokenize, size)
    return _lines(name, _record if form is Format.JSONL else _line, tokenize, size)


def _table(name: str, size: int) -> Iterator[Chunk]:
    try:
        table = np.load(name, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise InputError(f"{name} cannot be read as an array: {error}") from error
    if not isinstance(table, np.ndarray) or table.ndim != 2 or table.dtype.kind not in "iu":
        found = f"{table.dtype} of shape {table.shape}" if isinstance(table, np.ndarray) else "several arrays"
        raise InputError(f"{name} must hold integers [items, tokens], not {found}")
    for first in range(0, len(table), size):
        yield np.asarray(table[first : first + size])


# lines


def _lines(name: str, read: Callable[[str, str, int], Any], tokenize: Tokenize | None, size: int) -> Iterator[Chunk]:
    """Chunks of items, each made of a line by ``read``: tokens or a text, with an id or None."""
    with _opened(name) as file:
        numbered = enumerate(file, 1)
        while several := list(islice(numbered, size)):
            pairs = [read(_decoded(line, name, number), shown(name), number) for number, line in several]
            places = [f"{shown(name)}, line {number}" for number, _ in several]
            yield _chunk([item for item, _ in pairs], [i for _, i in pairs], places, tokenize)


@contextmanager
def _opened(name: str) -> Iterator[Iterable[bytes]]:
    if name == STDIN:
        yield sys.stdin.buffer
    elif name.endswith(".gz"):
        try:
            with gzip.open(name) as packed:
                yield packed
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{name} cannot be unpacked: {error}") from error
    else:
        with Path(name).open("rb") as file:
            yield file


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(name)}, line {number}: byte 0x{line[error.start]:02x} is not UTF-8") from error
    if not text.strip():  # to skip it would give all items after it other ids than their lines
        raise InputError(f"{shown(name)}, line {number} is empty: each line is an item; take it out")
    return text


def _line(text: str, where: str, number: int) -> tuple[Any, None]:
    return text, None


def _record(text: str, where: str, number: int) -> tuple[Any, int | None]:
    """The item of a line of JSON: a list of tokens, a text, or an object with one of these and perhaps an id."""
    record = parse_json(text, f"{where}, line {number}")
    if not isinstance(record, dict):
        return record, None
    key = next((key for key in ("tokens", "text") if key in record), None)
    if key is None:
        raise InputError(f'{where}, line {number}: expected "tokens" or "text" in the object')
    return record[key], record.get("id")


def _chunk(items: list[Any], ids: list[Any], places: list[str], tokenize: Tokenize | None) -> Chunk:
    sequences = _tokenized(items, places, tokenize)
    if all(i is None for i in ids):
        return sequences
    for i, place in zip(ids, places, strict=True):
        if not _is_integer(i) or i < 0:
            raise InputError(
                f"{place}: the id is {i!r}; expected an integer that is not negative, in all lines or none"
            )
    return sequences, np.array(ids, np.int64)


def _tokenized(items: list[Any], places: list[str], tokenize: Tokenize | None) -> list[list[int]]:
    texts = [i for i, item in enumerate(items) if isinstance(item, str)]
    made = tokenize([items[i] for i in texts]) if tokenize else [_integers(items[i], places[i]) for i in texts]
    sequences = list(items)
    for i, tokens in zip(texts, made, strict=True):
        sequences[i] = tokens
    for item, place in zip(sequences, places, strict=True):
        if not isinstance(item, list) or not item or not all(_is_integer(token) for token in item):
            raise InputError(f"{place}: {str(item)[:60]} is no item; expected a list of token ids, or a text")
    return sequences


def _is_integer(value: Any) -> bool:
    return type(value) is int


def _integers(text: str, place: str) -> list[int]:
    """The tokens of a line such as "3 1 4" or "3,1,4"."""
    parts = [part for part in re.split(r"[,\s]+", text) if part]
    if not all(re.fullmatch(r"[0-9]+", part) for part in parts):
        raise InputError(f"{place}: {text[:60]!r} is not a list of token ids; to tokenize texts, give --tokenizer")
    return [int(part) for part in parts]


# tables


def _parquet(name: str, tokenize: Tokenize | None, size: int) -> Iterator[Chunk]:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(
            f"{name}: parquet files are read by pyarrow, which is not installed: pip install pyarrow, or give the "
            "catalogue as .npy or .jsonl"
        ) from error
    try:
        file = parquet.ParquetFile(name)
    except Exception as error:  # pyarrow has exceptions of its own
        raise InputError(f"{name} cannot be read as parquet: {error}") from error
    names = file.schema_arrow.names
    column = next((key for key in ("tokens", "text") if key in names), None)
    if column is None:
        raise InputError(f'{name} has the columns {", ".join(names)}; expected "tokens" or "text", and perhaps "id"')
    row = 0
    for batch in file.iter_batches(batch_size=size, columns=[column, *(["id"] if "id" in names else [])]):
        items = batch.column(0).to_pylist()
        ids = batch.column(1).to_pylist() if "id" in names else [None] * len(items)
        yield _chunk(items, ids, [f"{name}, row {row + i}" for i in range(len(items))], tokenize)
        row += len(items)
