"""Sampled sequences on disk: many small files, each written whole or not at all.

A shard is a safetensors file of N sequences of at most L ids. A folder of shards is a data set; shards can be added
at any time, by several processes with different seeds.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctrlgen.cache import written_whole
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

VERSION = "1"


class Shard(NamedTuple):
    """N sequences."""

    ids: NDArray[np.integer]
    """uint16[N, L], or uint32 where the vocabulary has more than 65,536 ids; what is past ``end`` means nothing."""
    begin: NDArray[np.int32]
    """int32[N]: length of the prompt, which was not sampled."""
    end: NDArray[np.int32]
    """int32[N]: length of prompt and sample together, the end token included."""
    hidden: NDArray[np.float16]
    """float16[R, n, D]: of the first R sequences, the last hidden states from which the n sampled ids were chosen."""


def write_shard(path: str | Path, shard: Shard, about: dict[str, str]) -> None:
    """Write ``shard`` under another name first, so that no reader ever sees half a file.

    Args:
        path: of the file.
        shard: what to write.
        about: goes into the header, next to a checksum.
    """
    from safetensors.numpy import save

    arrays = {name: np.ascontiguousarray(array) for name, array in shard._asdict().items()}
    content = save(arrays, {**about, "version": VERSION, "sha256": _digest(shard)})
    with written_whole(Path(path)) as file:
        file.write(content)


def read_shard(path: str | Path) -> Shard:
    """The sequences of one file.

    Raises:
        InputError: it is not an intact shard of this version.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            about = file.metadata() or {}
            shard = Shard(*(file.get_tensor(name) for name in Shard._fields))
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} is not a shard of sampled sequences: {error}") from error
    if about.get("version") != VERSION or about.get("sha256") != _digest(shard):
        raise InputError(f"{path} is not an intact shard of version {VERSION}: delete it and sample again")
    return shard


def read_width(path: str | Path) -> int:
    """Number of tokens of the model that a shard is of.

    Raises:
        InputError: the shard does not say.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as file:
            return int((file.metadata() or {})["width"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise InputError(f"{path} is not a shard of sampled sequences: {error}") from error


def shard_paths(folders: str | Path | Sequence[str | Path]) -> list[Path]:
    """The shards in one folder or several, in the order of their names.

    Raises:
        InputError: there is none.
    """
    several = [folders] if isinstance(folders, (str, Path)) else list(folders)
    found = sorted(path for folder in several for path in Path(folder).glob("*.safetensors"))
    if not found:
        raise InputError(f"no shards (*.safetensors) in {', '.join(map(str, several))}: run `ctrlgen hmm sample` first")
    return found


def read_shards(paths: Iterable[str | Path]) -> Iterator[Shard]:
    """The shards one after another, never more than one in memory."""
    return (read_shard(path) for path in paths)


def _digest(shard: Shard) -> str:
    digest = hashlib.sha256()
    for name, array in shard._asdict().items():
        digest.update(json.dumps([name, str(array.dtype), array.shape]).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
