"""Folders that are either whole or absent: built aside, hashed, then renamed into place.

A folder carries SOURCE.json: what it was made from and the sha256 of each of its files. Whoever is interrupted leaves
nothing behind, and of two processes that build the same folder at once, one wins and the other takes its result.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ctrlgen.errors import ModelError

SOURCE = "SOURCE.json"

Build = Callable[[Path, Path], Mapping[str, object]]
"""build(scratch, out): fills ``out`` (``scratch`` is for what is thrown away) and returns facts for SOURCE.json."""


def ensure(folder: Path, identity: Mapping[str, object], build: Build, cache: Path) -> Path:
    """``folder``, left alone when it is whole and has this identity, built otherwise.

    Raises:
        ModelError: it cannot be built or written; nothing half made is left behind.
    """
    if whole(folder, identity):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".making-", dir=cache, ignore_cleanup_errors=True) as name:
            scratch, out = Path(name), Path(name) / "out"
            out.mkdir()
            seal(out, {**identity, **build(scratch, out)})
            put(out, folder, identity, aside=scratch / "replaced")
    except OSError as error:
        raise ModelError(
            f"cannot write {folder}: {error}. Free some disk space, or set CTRLGEN_CACHE to another folder."
        ) from error
    return folder


def whole(folder: Path, identity: Mapping[str, object]) -> bool:
    """Whether ``folder`` has this identity and all its files, each with the sha256 that SOURCE.json gives."""
    try:
        source: dict[str, Any] = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
        files: dict[str, str] = source["files"]
        known = all(source.get(key) == value for key, value in identity.items())
        return known and bool(files) and all(sha256(folder / name) == digest for name, digest in files.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def seal(folder: Path, facts: Mapping[str, object]) -> None:
    """Write SOURCE.json: the facts and a hash for every file there is."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): sha256(path) for path in paths}
    write_json(folder / SOURCE, {**facts, "files": files})


def put(built: Path, folder: Path, identity: Mapping[str, object], aside: Path) -> None:
    """Rename ``built`` to ``folder``; another process's whole folder stays, a broken one moves to ``aside``."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(10):
        try:
            built.rename(folder)
            return
        except OSError as error:
            if not folder.exists():
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    continue  # the other process has just moved it aside
                raise
        if whole(folder, identity):
            return
        shutil.rmtree(aside, ignore_errors=True)
        try:
            folder.rename(aside)
        except FileNotFoundError:  # the other process was quicker
            continue
    raise ModelError(f"cannot write {folder}: another process keeps replacing it; wait for it to end and try again.")


def sha256(path: Path) -> str:
    """The file's hash in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def expect(path: Path, digest: str, what: str) -> None:
    """Raise ModelError unless the file has this sha256."""
    found = sha256(path)
    if found != digest:
        raise ModelError(
            f"{what} is not the file this version of ctrlgen knows: sha256 {found}, expected {digest}. Nothing was "
            "installed from it. A cut-off download or a changed mirror does this: clear the package manager's cache "
            "and try again."
        )


def write_json(path: Path, data: object) -> None:
    """Write ``data``, indented, as UTF-8."""
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
