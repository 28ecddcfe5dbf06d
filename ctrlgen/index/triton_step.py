"""The step of ``ctrlgen.index.device`` fused by Triton, for CUDA devices; optional, torch does the same.

Where the candidates of a group are few, a whole step is one kernel: it looks up what follows, sorts in registers and
writes the states after. Where they are many, a first kernel writes a number for each candidate, torch chooses the
greatest ones, and a last kernel writes what they stand for. Both give what the host's kernels give, equal scores in the
same order. Nothing waits for the device unless ``width`` is left out.

Kernels are compiled at their first call for dtypes, for the number of end ids and for powers of two of sizes.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import TYPE_CHECKING, Any

from ctrlgen.index.states import Candidates

if TYPE_CHECKING:
    import torch

    from ctrlgen.index.device import DeviceFilters, DeviceIndex

    Tensor = torch.Tensor

SORTED = 4096
"""Candidates of a group that one program sorts; of more torch chooses."""

_BLOCK = 256


@cache
def installed() -> bool:
    """Whether Triton can be imported; it comes with torch for CUDA."""
    return importlib.util.find_spec("triton") is not None


def fused_step(
    index: DeviceIndex,
    states: Tensor,
    scores: Tensor,
    log_probs: Tensor,
    *,
    beams: int,
    k: int,
    width: int,
    filters: DeviceFilters | None,
) -> Candidates:
    """The k best continuations of each group of rows: ``DeviceIndex.beam_step`` for arguments that have been checked.

    Args:
        index: on the device of the tensors.
        states: int64[B * beams, 4].
        scores: floating[B * beams].
        log_probs: floating[B * beams, V].
        beams: rows a group.
        k: how many a group.
        width: children a row may have.
        filters: of each row, or None.

    Returns:
        Candidates [B, k]; of equal scores the first in row and token order comes first.
    """
    import torch

    states, scores = states.contiguous(), scores.contiguous()
    log_probs = log_probs if log_probs.stride(1) == 1 else log_probs.contiguous()
    groups, device = len(states) // beams, log_probs.device
    found = Candidates(
        torch.empty(groups, k, dtype=torch.int64, device=device),
        torch.empty(groups, k, dtype=torch.int64, device=device),
        torch.empty(groups, k, dtype=torch.float32, device=device),
        torch.empty(groups, k, 4, dtype=torch.int64, device=device),
        torch.empty(groups, dtype=torch.bool, device=device),
    )
    if _power(max(beams * width, k)) <= SORTED:
        overflow = _in_one(index, states, scores, log_probs, filters, found, beams, width)
    else:
        overflow = _in_three(index, states, scores, log_probs, filters, found, beams, width)
    return found._replace(overflow=overflow.any())


def _in_one(
    index: DeviceIndex, states: Tensor, scores: Tensor, logs: Tensor, filters: DeviceFilters | None,
    found: Candidates, beams: int, width: int,
) -> Tensor:  # fmt: skip
    """Write a step to ``found``; bool[B], whether a group has a row that is too wide."""
    from ctrlgen.index.triton_kernels import best_kernel

    groups, k = found.parents.shape
    room = _power(max(beams * width, k))
    best_kernel[(groups,)](
        *_trie(index), *_passing(index, filters), states, scores, logs, logs.stride(0), beams, width, k, *found,
        **_bits(index), FILTERED=filters is not None, ROOM=room, num_warps=max(1, min(8, room // 128)),
    )  # fmt: skip
    return _tensor(found.overflow)


def _in_three(
    index: DeviceIndex, states: Tensor, scores: Tensor, logs: Tensor, filters: DeviceFilters | None,
    found: Candidates, beams: int, width: int,
) -> Tensor:  # fmt: skip
    """Write a step to ``found``; bool[R], whether a row is too wide."""
    import torch

    from ctrlgen.index.triton_kernels import follow_kernel, keys_kernel

    groups, k = found.parents.shape
    keys = torch.empty(groups, beams * width, dtype=torch.int64, device=logs.device)
    overflow = torch.empty(len(states), dtype=torch.bool, device=logs.device)
    block = min(_BLOCK, _power(width))
    keys_kernel[(len(states), -(-width // block))](
        *_trie(index), *_passing(index, filters), states, scores, logs, logs.stride(0), beams, width, keys, overflow,
        **_bits(index), FILTERED=filters is not None, ROOM=block,
    )  # fmt: skip
    chosen = keys.topk(min(k, keys.shape[1]), 1).values
    nothing = torch.iinfo(torch.int64).min
    chosen = torch.nn.functional.pad(chosen, (0, k - chosen.shape[1]), value=nothing).contiguous()
    follow_kernel[(-(-groups * k // _BLOCK),)](
        *_trie(index), states, logs, logs.stride(0), chosen, groups * k, beams, width, k, *found[:4],
        **_bits(index), ROOM=_BLOCK,
    )  # fmt: skip
    return overflow


def _trie(index: DeviceIndex) -> tuple[Any, ...]:
    # a kernel takes no empty array: what stands in for one is never read
    offsets = index.offsets.values if len(index.offsets.values) else index.lost
    ends = index.ends if len(index.ends) else index.lost
    return (
        index.tokens.values, offsets, index.length, index.symbol.values, index.lo.values, index.child.values,
        index.branch.values, ends,
    )  # fmt: skip


def _passing(index: DeviceIndex, filters: DeviceFilters | None) -> tuple[Any, ...]:
    if filters is None:
        return index.lost, index.lost, index.lost, 1
    return filters.words, filters.counts, filters.which.contiguous(), filters.words.shape[1]


def _bits(index: DeviceIndex) -> dict[str, Any]:
    """What is fixed when the kernels are compiled."""
    columns = {
        "TOKEN_BITS": index.tokens, "OFFSET_BITS": index.offsets, "SYMBOL_BITS": index.symbol, "LO_BITS": index.lo,
        "CHILD_BITS": index.child, "BRANCH_BITS": index.branch,
    }  # fmt: skip
    masks = {name: -1 if column.bits is None else column.bits for name, column in columns.items()}
    return masks | {"FIXED": index.length > 0, "ENDS": len(index.ends)}


def _power(number: int) -> int:
    """The least power of two that is not smaller, at least 2."""
    return 1 << max(number - 1, 1).bit_length()


def _tensor(value: Any) -> Tensor:
    kept: Tensor = value
    return kept
