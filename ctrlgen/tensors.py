"""Tensors and facts in one safetensors file, with a kind, a version and a checksum in its header."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlgen.cache import written_whole
from ctrlgen.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

VERSION = "1"


def write(path: str | Path, kind: str, tensors: Mapping[str, torch.Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts under another name first, so that no reader ever sees half a file."""
    from safetensors.torch import save as packed

    whole = {name: one.detach().cpu().contiguous() for name, one in tensors.items()}
    text = json.dumps(dict(facts))
    head = {"kind": kind, "version": VERSION, "facts": text, "sha256": _digest(whole, text)}
    with written_whole(Path(path)) as file:
        file.write(packed(whole, head))


def read(path: str | Path, kind: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors and facts of a file.

    Raises:
        ModelError: it is missing, not intact, of another kind or version.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            head = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise ModelError(f"cannot read {path}: {error}") from error
    if head.get("kind") != kind or head.get("version") != VERSION:
        raise ModelError(f"{path} holds {head.get('kind')!r} of version {head.get('version')}; expected {kind!r}, 1")
    if head.get("sha256") != _digest(tensors, head.get("facts", "")):
        raise ModelError(f"{path} is damaged: its checksum is not that of its content; fetch or make it again")
    return tensors, json.loads(head["facts"])


def _digest(tensors: Mapping[str, torch.Tensor], text: str) -> str:
    import torch

    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        one = tensors[name].contiguous()
        digest.update(json.dumps([name, str(one.dtype), list(one.shape)]).encode())
        digest.update(one.flatten().view(torch.uint8).numpy().tobytes() if one.numel() else b"")
    return digest.hexdigest()
