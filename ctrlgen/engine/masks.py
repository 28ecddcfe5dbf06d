"""Rows of a batch applied to logits: everything not allowed becomes exactly -inf."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# the bit pattern of -inf, by width of the element
_MINUS_INF = {
    torch.float32: (torch.int32, np.int32(-0x800000)),
    torch.bfloat16: (torch.int16, np.int16(-0x80)),
    torch.float16: (torch.int16, np.int16(-0x400)),
    torch.float64: (torch.int64, np.int64(-0x10000000000000)),
}


def apply_masks(scores: torch.Tensor, rows: Sequence[NDArray[np.uint32] | None]) -> torch.Tensor:
    """A copy of ``scores`` where everything that its row does not allow is -inf.

    Args:
        scores: float[B, V], any floating dtype and device; not changed.
        rows: B rows uint32[W], or None for a row that stays as it is. Ids at or past 32 * W are forbidden.

    Returns:
        float[B, V], same dtype and device.

    Raises:
        InputError: shapes or dtypes that do not fit.
    """
    if scores.dim() != 2 or len(rows) != scores.shape[0]:
        raise InputError(f"scores must have shape [{len(rows)}, V], one row a mask; got {list(scores.shape)}")
    if scores.dtype not in _MINUS_INF:
        raise InputError(f"scores must be of a floating dtype, not {scores.dtype}")
    out = scores.detach().clone(memory_format=torch.contiguous_format)
    if out.device.type == "cpu":
        _apply_on_host(out, rows)
    else:
        _apply_on_device(out, rows)
    return out


def _apply_on_host(out: torch.Tensor, rows: Sequence[NDArray[np.uint32] | None]) -> None:
    from ctrlgen.engine.mask_kernel import forbid

    integer, pattern = _MINUS_INF[out.dtype]
    bits = out.view(integer).numpy()
    for row, scores in zip(rows, bits, strict=True):
        if row is not None:
            forbid(scores, row, pattern)


def _apply_on_device(out: torch.Tensor, rows: Sequence[NDArray[np.uint32] | None]) -> None:
    masked = [i for i, row in enumerate(rows) if row is not None]
    if not masked:
        return
    words = np.stack([row for row in rows if row is not None]).view(np.int32)
    allowed = expand(torch.from_numpy(words).to(out.device, non_blocking=True), out.shape[1])
    if len(masked) == len(rows):
        out.masked_fill_(~allowed, float("-inf"))
    else:
        index = torch.tensor(masked, device=out.device)
        out[index] = out[index].masked_fill(~allowed, float("-inf"))


def expand(words: torch.Tensor, width: int) -> torch.Tensor:
    """bool[R, width] of int32[R, W] packed rows; ids at or past 32 * W are False."""
    shifts = torch.arange(32, dtype=torch.int32, device=words.device)
    bits = (words[:, :, None] >> shifts & 1).bool().flatten(1)[:, :width]
    return torch.nn.functional.pad(bits, (0, width - bits.shape[1]))
