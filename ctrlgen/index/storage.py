"""An index as one file that is mapped into memory: opening reads a few kilobytes, whatever its size.

The file: magic, version, length and sha256 of a header in JSON, the header, then each array from a multiple of 64
bytes on. The header holds name, dtype, shape, place and sha256 of each array and what else there is to know.
Files are written under another name and moved into place, so a file with the right name is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ctrlgen.cache import written_whole
from ctrlgen.errors import InputError
from ctrlgen.index.integrity import ALIGNMENT, fault_of_arrays, fault_of_header, fault_of_names
from ctrlgen.index.layout import Layout
from ctrlgen.index.name_files import LONGEST
from ctrlgen.index.name_index import NameIndex, fingerprint_of
from ctrlgen.index.token_index import TokenIndex

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

    from numpy.typing import NDArray

    from ctrlgen.index.name_files import Normal
    from ctrlgen.vocabulary import Vocabulary

    Progress = Callable[[str, int, int], None]

MAGIC = b"ctrlidx\0"
VERSION = 1

_START = len(MAGIC) + 4 + 8 + hashlib.sha256().digest_size
_BLOCK = 1 << 24  # bytes hashed and copied at a time
_HEADER_ROOM = 1 << 14


class FileError(InputError):
    """A file that is not an intact index: which file, what is wrong, what to do."""


@dataclass(frozen=True)
class Header:
    """What a file says about its index; of one of names, tokens are bytes and ``normalise`` is their normal form."""

    length: int
    count: int
    longest: int
    ends: tuple[int, ...]
    width: int
    fingerprint: str | None
    arrays: dict[str, dict[str, Any]]
    kind: Literal["tokens", "names"] = "tokens"
    normalise: Normal | None = None

    @property
    def names_fingerprint(self) -> str:
        """What ``NameIndex.fingerprint`` is."""
        return fingerprint_of(*(bytes.fromhex(self.arrays[name]["sha256"]) for name in ("tokens", "offsets")))


def save_index(index: TokenIndex, path: str | os.PathLike[str]) -> None:
    """Write an index to ``path``, at once or not at all.

    Raises:
        InputError: the index is filtered; what is saved is always a whole one.
        OSError: the file cannot be written.
    """
    if index.passing is not None:
        raise InputError("a filtered index cannot be saved: save the whole one, and filter what was opened")
    fingerprint = index.given_vocabulary.fingerprint if index.given_vocabulary is not None else None
    write_layout(path, index.layout, index.ends, index.width, fingerprint)


def save_names(index: NameIndex, path: str | os.PathLike[str]) -> None:
    """Write an index of names to ``path``, at once or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    write_layout(path, index.layout, (), 256, None, kind="names", normalise=index.normalise)


def write_layout(
    path: str | os.PathLike[str],
    layout: Layout,
    ends: tuple[int, ...],
    width: int,
    fingerprint: str | None,
    **more: str | None,
) -> None:
    """Write the arrays of an index to ``path``, at once or not at all; ``more`` are fields of Header."""
    target = Path(path)
    arrays = {name: _little(array) for name, array in layout.arrays().items()}
    place = _aligned(_START + _HEADER_ROOM)
    table: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        digest = _digest(array)
        table[name] = {"dtype": array.dtype.str, "size": array.size, "place": place, "sha256": digest}
        place = _aligned(place + array.nbytes)
    content = {
        "length": layout.length, "count": layout.count, "longest": layout.longest, "ends": list(ends),
        "width": width, "fingerprint": fingerprint, "arrays": table, **more,
    }  # fmt: skip
    header = json.dumps(content).encode()
    if len(header) > _HEADER_ROOM:
        raise InputError(f"{len(ends)} end ids are more than the header of a file has room for")
    with written_whole(target) as file:
        file.write(MAGIC + VERSION.to_bytes(4, "little") + len(header).to_bytes(8, "little"))
        file.write(hashlib.sha256(header).digest() + header)
        for key, array in arrays.items():
            file.write(bytes(table[key]["place"] - file.tell()))
            for block in _blocks(array):
                file.write(block)
        file.flush()
        os.fsync(file.fileno())


def open_index(path: str | os.PathLike[str], vocabulary: Vocabulary | None = None) -> TokenIndex:
    """The index in a file, its arrays mapped: pages are read when they are first needed.

    Only the header is checked, and that the file is as long as it should be; ``verify`` reads everything.

    Args:
        path: written by ``save_index`` or ``ctrlgen.index.external.build_file``.
        vocabulary: of the tokens; it must be the one the index was built with, if there was one.

    Raises:
        FileError: not an intact index of this version.
        InputError: another vocabulary.
        OSError: the file cannot be read.
    """
    header = read_header(path)
    if header.kind != "tokens":
        raise FileError(f"{path} holds names, not items of tokens: open it with NameIndex.open")
    if vocabulary is not None and header.fingerprint not in (None, vocabulary.fingerprint):
        raise InputError(
            f"{path} was built with another vocabulary: its fingerprint is {str(header.fingerprint)[:12]}..., "
            f"not {vocabulary.fingerprint[:12]}..."
        )
    if vocabulary is not None and (vocabulary.eos != header.ends or vocabulary.width != header.width):
        raise InputError(f"{path} has eos={list(header.ends)} and width={header.width}, unlike the vocabulary")
    return TokenIndex(_layout(path, header), header.ends, header.width, vocabulary)


def open_names(path: str | os.PathLike[str]) -> NameIndex:
    """The index of names in a file, its arrays mapped; checked as ``open_index`` does.

    Raises:
        FileError: not an intact index of names of this version.
        OSError: the file cannot be read.
    """
    header = read_header(path)
    if header.kind != "names" or header.longest > LONGEST:
        raise FileError(f"{path} holds items of tokens, not names: open it with open_index")
    index = NameIndex(_layout(path, header), header.normalise, str(Path(path).absolute()))
    index.__dict__["fingerprint"] = header.names_fingerprint
    return index


def read_header(path: str | os.PathLike[str]) -> Header:
    """What a file says about its index, and a check that it is whole.

    Raises:
        FileError: not an intact index of this version.
    """
    with Path(path).open("rb") as file:
        header = _header(file, path)
        size = file.seek(0, os.SEEK_END)
    needed = max(entry["place"] + np.dtype(entry["dtype"]).itemsize * entry["size"] for entry in header.arrays.values())
    if size != needed:
        raise FileError(f"{path} has {size} bytes instead of {needed}: it was cut off; build it anew")
    return header


def verify(path: str | os.PathLike[str]) -> None:
    """Read the whole file and raise unless every byte is as written and the arrays are an index.

    What opens a file does not read its arrays, and steps follow them as they stand: verify files of others first.

    Raises:
        FileError: names the array that differs.
    """
    header = read_header(path)
    arrays = {name: _mapped(path, entry) for name, entry in header.arrays.items()}
    for name, entry in header.arrays.items():
        if _digest(arrays[name]) != entry["sha256"]:
            raise FileError(f"{path}: the array {name!r} is not as it was written; build the file anew")
    named = header.kind == "names"
    ends = named or bool(header.ends)
    fault = fault_of_arrays(arrays, header.length, header.longest, header.width, ends=ends)
    if fault is None and named:
        fault = fault_of_names(arrays)
    if fault is not None:
        raise FileError(f"{path}: {fault}; build the file anew")


def _header(file: BinaryIO, path: Any) -> Header:
    start = file.read(_START)
    if len(start) < _START or not start.startswith(MAGIC):
        raise FileError(f"{path} is not an index of ctrlgen")
    version = int.from_bytes(start[8:12], "little")
    if version != VERSION:
        raise FileError(f"{path} has version {version}, but this ctrlgen reads version {VERSION}; build it anew")
    size = int.from_bytes(start[12:20], "little")
    content = file.read(min(size, _HEADER_ROOM))
    if len(content) != size or hashlib.sha256(content).digest() != start[20:]:
        raise FileError(f"{path} has a damaged header; build it anew")
    try:
        read = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} has a header that is no JSON: {error}") from error
    if isinstance(read, dict) and read.get("kind", "tokens") not in ("tokens", "names"):
        raise FileError(f"{path} holds {read['kind']!r}, which this ctrlgen does not know; update it")
    fault = fault_of_header(read)
    if fault is not None:
        raise FileError(f"{path} is no index: {fault}; build it anew")
    return Header(**{**read, "ends": tuple(read["ends"])})


def _layout(path: Any, header: Header) -> Layout:
    arrays = {name: _mapped(path, entry) for name, entry in header.arrays.items()}
    return Layout.from_arrays(arrays, header.length, header.count, header.longest)


def _mapped(path: Any, entry: dict[str, Any]) -> NDArray[Any]:
    dtype = np.dtype(entry["dtype"])
    if not entry["size"]:  # nothing cannot be mapped
        return np.zeros(0, dtype)
    mapped = np.memmap(path, dtype, "r", entry["place"], (entry["size"],))
    return mapped.view(np.ndarray)


def _little(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def _aligned(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


def _blocks(array: NDArray[Any]) -> list[memoryview]:
    view = memoryview(np.ascontiguousarray(array).view(np.uint8).data) if array.size else memoryview(b"")
    return [view[at : at + _BLOCK] for at in range(0, len(view), _BLOCK)]


def _digest(array: NDArray[Any]) -> str:
    digest = hashlib.sha256()
    for block in _blocks(array):
        digest.update(block)
    return digest.hexdigest()
