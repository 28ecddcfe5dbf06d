"""Lists of the packages there are: a file of names, or what a package index says."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlgen.cache import cache_folder
from ctrlgen.constraints.package_names import index_of_names
from ctrlgen.errors import CtrlgenError, InputError
from ctrlgen.index.name_index import NameIndex

if TYPE_CHECKING:
    from ctrlgen.index.name_files import Normal

_ACCEPT = "application/vnd.pypi.simple.v1+json"
_MOST_BYTES = 1 << 30
_WORTH_KEEPING = 1 << 18  # bytes of a file of names


def read_names(source: str | os.PathLike[str], normalise: Normal | None) -> NameIndex:
    """The names in a file: one a line, packed by gzip or not; a saved NameIndex; or the JSON of a simple index.

    Raises:
        InputError: the file cannot be read.
    """
    path = Path(source)
    if path.is_file() and _begins_with(path, b"{"):
        return index_of_names(projects(path.read_bytes(), str(source)), normalise)
    return index_of_names(source, normalise, _remembered)


def _begins_with(path: Path, mark: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(mark)


def _remembered(source: str | os.PathLike[str], normalise: Normal | None) -> NameIndex:
    """The index of a text file, kept in the cache so that it is read and sorted once."""
    path = Path(source)
    if path.stat().st_size < _WORTH_KEEPING:
        return NameIndex.from_file(path, normalise=normalise)
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()
    kept = cache_folder() / "names" / f"{content[:40]}-{normalise or 'as-is'}.names"
    with contextlib.suppress(CtrlgenError, OSError):
        return NameIndex.open(kept)
    index = NameIndex.from_file(path, normalise=normalise)
    with contextlib.suppress(OSError):  # without a cache it is read anew each time
        kept.parent.mkdir(parents=True, exist_ok=True)
        index.save(kept)
    return index


def projects(content: bytes, where: str) -> list[str]:
    """The names of the projects in the JSON of a simple index (PEP 691).

    Raises:
        InputError: it is something else.
    """
    try:
        found: Any = json.loads(content)
        return [str(project["name"]) for project in found["projects"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f'{where} is not the JSON of a simple index: expected {{"projects": [{{"name": ...}}, ...]}}'
        ) from error


def fetch_names(url: str | None = None, *, timeout: float = 60.0) -> list[str]:
    """The names that a package index lists, by its simple API in JSON (PEP 691).

    Args:
        url: of the index; by default the one that pip is configured to use.
        timeout: seconds to wait for it.

    Raises:
        InputError: no index is configured, it does not answer, or not in JSON.
    """
    url = url or pip_index()
    if not url.startswith(("http://", "https://")):
        raise InputError(f"{url!r} is no URL of a package index; expected https://... ending in /simple/")
    request = urllib.request.Request(url.rstrip("/") + "/", headers={"Accept": _ACCEPT})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            content = answer.read(_MOST_BYTES)
    except (urllib.error.URLError, OSError, ValueError) as error:
        raise InputError(f"the package index {url} cannot be read: {error}") from error
    return projects(content, url)


def pip_index() -> str:
    """The URL of the index that pip is configured to use.

    Raises:
        InputError: none is; there is no default.
    """
    if found := os.environ.get("PIP_INDEX_URL"):
        return found
    if pip := shutil.which("pip"):
        run = subprocess.run([pip, "config", "get", "global.index-url"], capture_output=True, text=True, check=False)
        if run.returncode == 0 and run.stdout.strip():
            return run.stdout.strip()
    raise InputError(
        "no package index is configured: give its URL, or set one with pip config set global.index-url URL"
    )
