"""Arrays on disk, for what takes long to compute and is the same each time.

One file an entry, named by the hash of its key. A file that cannot be read or fails its checksum is a miss, so a
cache can be cut off, corrupted, shared by processes or deleted at any time without harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
import warnings
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

MAGIC = b"ctrlgen\0"
VERSION = 1
LIMIT = 2 << 30
"""Bytes all entries together may take, by default."""

_SUFFIX = ".arrays"
_DIGEST = hashlib.sha256().digest_size
_HEADER = len(MAGIC) + 4 + _DIGEST
_STALE = 3600.0  # seconds after which the unfinished file of another process is taken for abandoned

_warned = False


def cache_folder() -> Path:
    """Where everything cached goes: $CTRLGEN_CACHE, else $XDG_CACHE_HOME/ctrlgen, else ~/.cache/ctrlgen."""
    if chosen := os.environ.get("CTRLGEN_CACHE"):
        return Path(chosen).expanduser().absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser().absolute() / "ctrlgen"
    return Path.home() / ".cache" / "ctrlgen"


def load_arrays(key: str) -> dict[str, NDArray[Any]] | None:
    """What was stored under ``key``, or None when there is nothing that can be trusted."""
    path = _path(key)
    try:
        arrays = _unpack(path.read_bytes(), key)
    except (OSError, ValueError, EOFError):
        return None
    with contextlib.suppress(OSError):  # a read-only cache still serves
        os.utime(path)  # eviction goes by age since the last use
    return arrays


def store_arrays(key: str, arrays: Mapping[str, NDArray[Any]], *, limit: int = LIMIT) -> None:
    """Store ``arrays`` under ``key``; where the folder cannot be written, warn once and go on without.

    Args:
        key: any text; say in it everything the arrays depend on, the version of the algorithm included.
        arrays: by name, of any dtype but object.
        limit: bytes all entries together may take; the least recently used go first, never the one just written.

    Raises:
        ValueError: an array holds Python objects.
    """
    content = _pack(key, arrays)
    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(path) as file:
            file.write(content)
        _evict(path, limit)
    except OSError as error:
        _warn(path.parent, error)


def _path(key: str) -> Path:
    return cache_folder() / "arrays" / (hashlib.sha256(key.encode()).hexdigest()[:40] + _SUFFIX)


def _pack(key: str, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Magic, version, sha256 of the rest, then the key and each name and array in turn, all in npy format."""
    payload = BytesIO()
    for name, array in [(key, np.zeros(0, np.uint8)), *arrays.items()]:
        # an array, and not bytes, which would lose trailing NULs
        np.lib.format.write_array(payload, np.frombuffer(name.encode(), np.uint8), allow_pickle=False)
        np.lib.format.write_array(payload, np.asanyarray(array), allow_pickle=False)
    body = payload.getvalue()
    return MAGIC + VERSION.to_bytes(4, "little") + hashlib.sha256(body).digest() + body


def _unpack(content: bytes, key: str) -> dict[str, NDArray[Any]]:
    """The inverse of ``_pack``; ValueError or EOFError for anything else."""
    body = memoryview(content)[_HEADER:]
    head = MAGIC + VERSION.to_bytes(4, "little") + hashlib.sha256(body).digest()
    if content[:_HEADER] != head:
        raise ValueError("not an intact file of this version")
    stream, arrays = BytesIO(body), {}
    while stream.tell() < len(body):
        name = np.lib.format.read_array(stream, allow_pickle=False).tobytes().decode()
        arrays[name] = np.lib.format.read_array(stream, allow_pickle=False)
    if next(iter(arrays), None) != key:
        raise ValueError("another entry's file")
    del arrays[key]
    return arrays


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write ``path`` with: under another name until it is done, so that no reader ever sees half of it.

    Raises:
        OSError: the file cannot be written.
    """
    handle, name = tempfile.mkstemp(prefix=path.name, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _evict(kept: Path, limit: int) -> None:
    """Remove abandoned temporary files, then the oldest entries until ``limit`` holds."""
    entries = []
    for path in kept.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process may evict too
            status = path.stat()
            if path.suffix == _SUFFIX:
                entries.append((status.st_mtime, status.st_size, path))
            elif path.suffix == ".tmp" and status.st_mtime < time.time() - _STALE:
                path.unlink()
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        if path != kept:
            path.unlink(missing_ok=True)
            total -= size


def _warn(folder: Path, error: OSError) -> None:
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"cannot write the cache {folder} ({error.strerror or error}); everything works, but tables are computed "
        "anew in each process. Set CTRLGEN_CACHE to a folder that can be written.",
        stacklevel=3,
    )
