"""Binary search in the sorted items, without any index: a baseline of catalogue.py."""

from __future__ import annotations

import numpy as np
import torch


class Searched:
    """Sorted items int[N, L]; two binary searches say whether a prefix with one more token begins any of them."""

    def __init__(self, items, width):
        self.width = width
        # as bytes, most significant first, prefixes compare as tokens do; one extra byte keeps trailing NULs
        self.keys = self._bytes(items)

    @staticmethod
    def _bytes(rows):
        big = rows.astype(">u2")
        packed = np.concatenate([big.view(np.uint8).reshape(len(rows), -1), np.ones((len(rows), 1), np.uint8)], 1)
        return np.ascontiguousarray(packed).view(f"S{packed.shape[1]}").ravel()

    def step(self, prefixes, scores, log_probs, beams):
        """All tokens of all rows are looked up."""
        rows, depth = prefixes.shape
        length = (self.keys.dtype.itemsize - 1) // 2
        tokens = np.arange(self.width, dtype=np.uint16)
        asked = np.zeros((rows, self.width, length), np.uint16)
        asked[:, :, :depth] = prefixes[:, None]
        asked[:, :, depth] = tokens
        asked = asked.reshape(-1, length)
        low = np.searchsorted(self.keys, self._bytes(asked))
        asked[:, depth + 1 :] = 0xFFFF
        high = np.searchsorted(self.keys, self._bytes(asked), side="right")
        found = torch.from_numpy((high > low).reshape(rows, self.width))
        totals = torch.where(found, log_probs + scores[:, None], -torch.inf)
        return totals.view(rows // beams, -1).topk(beams, 1)
