"""Masks on logits: the kernel and the device path against the plain definition, in every dtype."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ctrlgen.engine.masks import apply_masks, expand
from ctrlgen.errors import InputError

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def plain(scores: torch.Tensor, rows: list[np.ndarray | None]) -> torch.Tensor:
    out = scores.clone()
    for b, row in enumerate(rows):
        for t in range(scores.shape[1]):
            allowed = row is None or (t < 32 * len(row) and bool(row[t >> 5] >> (t & 31) & 1))
            if not allowed:
                out[b, t] = float("-inf")
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 31, 32, 33, 64, 100, 131])
def test_is_the_definition(dtype: torch.dtype, width: int) -> None:
    random = np.random.default_rng(width)
    scores = torch.randn(5, width).to(dtype)
    scores[0, 0] = float("inf")
    before = scores.clone()
    words = random.integers(0, 2**32, (3, 3), dtype=np.uint32)
    rows = [words[0], None, words[1] & words[2], np.zeros(3, np.uint32), np.full(3, 2**32 - 1, np.uint32)]
    got = apply_masks(scores, rows)
    assert torch.equal(got, plain(before, rows))
    assert torch.equal(scores, before), "scores are never changed"
    assert got.dtype == dtype
    assert got.data_ptr() != scores.data_ptr()


def test_strided_and_gradient_scores() -> None:
    scores = torch.randn(8, 40, requires_grad=True).T[:, ::2][:3]
    rows = [np.array([0b1010], np.uint32)] * 3
    assert torch.equal(apply_masks(scores, rows), plain(scores.detach(), rows))


def test_the_device_path_expands_as_the_kernel_does() -> None:
    words = np.random.default_rng(0).integers(0, 2**32, (4, 3), dtype=np.uint32)
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little").astype(bool)
    for width in (1, 50, 96, 120):
        want = np.zeros((4, width), bool)
        want[:, : min(width, 96)] = bits[:, :width]
        assert np.array_equal(expand(torch.from_numpy(words.view(np.int32)), width).numpy(), want)


def test_says_what_does_not_fit() -> None:
    with pytest.raises(InputError, match=r"shape \[2, V\]"):
        apply_masks(torch.randn(3, 5), [None, None])
    with pytest.raises(InputError, match="floating"):
        apply_masks(torch.ones(1, 5, dtype=torch.int64), [None])
