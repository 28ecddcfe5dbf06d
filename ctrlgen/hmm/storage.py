"""HMMs and attributes as files: safetensors with a card, a version and a checksum in the header.

Eight bits: each row of a matrix is stored as uint8 codes and one float32 scale. A code q > 0 stands for the
probability scale * (q / 255) ** 4, for probabilities span orders of magnitude, and 0 for a floor that all such
entries of the row share. Rows are normalised on reading, as Norm-Q (arXiv 2509.25439) does with linear codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.hmm.emission import Dense, Sparse
from ctrlgen.hmm.model import HMM
from ctrlgen.tensors import read, write

if TYPE_CHECKING:
    from collections.abc import Mapping

_POWER = 4


def save(hmm: HMM, path: str | Path, *, bits: int | None = None) -> None:
    """Write ``hmm``, whole or not at all.

    Args:
        hmm: the model.
        path: of the file.
        bits: None keeps every digit; 8 stores dense matrices in bytes.
    """
    if bits not in (None, 8):
        raise InputError(f"bits is {bits!r}; expected 8, or None to keep every digit")
    if bits and not isinstance(hmm.emission, Dense):
        raise InputError("only dense emissions are stored in eight bits; save the sparse one with bits=None")
    matrices = {"transition": hmm.transition}
    if isinstance(hmm.emission, Dense):
        matrices["emission"] = hmm.emission.table.T
    tensors = {"start": hmm.start}
    for name, matrix in matrices.items():
        tensors |= _coded(name, matrix) if bits else {name: matrix}
    if isinstance(hmm.emission, Sparse):
        tensors |= {f"emission.{name}": one for name, one in hmm.emission._asdict().items()}
    write(path, "hmm", tensors, {"eos": list(hmm.eos), "card": dict(hmm.card)})


def load(path: str | Path) -> HMM:
    """Read what ``save`` wrote.

    Raises:
        ModelError: the file is missing, not intact or not an HMM.
    """
    tensors, facts = read(path, "hmm")
    try:
        transition = _decoded("transition", tensors)
        if "emission.starts" in tensors:
            emission: Dense | Sparse = _checked(Sparse(*(tensors[f"emission.{name}"] for name in Sparse._fields)))
        else:
            emission = Dense(_decoded("emission", tensors).T.contiguous())
        return HMM(tensors["start"], transition, emission, tuple(facts["eos"]), facts["card"])
    except (KeyError, TypeError, RuntimeError, IndexError) as error:
        raise ModelError(f"{path} lacks a part of an HMM: {error}") from error


def _coded(name: str, matrix: torch.Tensor) -> dict[str, torch.Tensor]:
    """uint8 codes of rows that sum to 1, and what stands for them."""
    rows = matrix.float()
    scale = rows.amax(1).clamp(min=torch.finfo(torch.float32).tiny)
    codes = ((rows / scale[:, None]) ** (1 / _POWER) * 255).round().to(torch.uint8)
    none = codes == 0
    floor = torch.where(none, rows, 0.0).sum(1) / none.sum(1).clamp(min=1)
    return {f"{name}.codes": codes, f"{name}.scale": scale, f"{name}.floor": floor}


def _decoded(name: str, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    if name in tensors:
        return tensors[name]
    codes, scale, floor = (tensors[f"{name}.{part}"] for part in ("codes", "scale", "floor"))
    rows = (codes.float() / 255) ** _POWER * scale[:, None]
    rows = torch.where(codes == 0, floor[:, None], rows)
    return rows / rows.sum(1, keepdim=True)


def _checked(emission: Sparse) -> Sparse:
    width, states = emission.shape
    count = len(emission.entries)
    bounds = emission.starts.shape == (width + 1,) and int(emission.starts[0]) == 0
    if not bounds or int(emission.starts[-1]) != count or bool((emission.starts.diff() < 0).any()):
        raise ModelError("the sparse emission's starts are not a partition of its entries")
    inside = (emission.states >= 0) & (emission.states < states)
    if len(emission.states) != count or not bool(inside.all()):
        raise ModelError("the sparse emission names states that there are not")
    return emission
