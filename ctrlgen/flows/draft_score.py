"""How likely a model found the tokens that were chosen, before any mask."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor


class Chosen(LogitsProcessor):  # type: ignore[misc]
    """Sums log-probabilities of what was chosen; changes nothing, and stands right before the constraint.

    For greedy decoding and sampling, where each call brings one id more for each row.
    """

    def __init__(self) -> None:
        self._taken: list[torch.Tensor] = []
        self._last: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Note the id that the scores of the last call led to.

        Args:
            input_ids: int64[B, T].
            scores: float[B, V], returned as they are.
        """
        if self._last is not None:
            self._taken.append(self._last.gather(1, input_ids[:, -1:])[:, 0])
        self._last = scores.float().log_softmax(1)
        return scores

    def log_probability(self, row: int, ids: Sequence[int]) -> float:
        """Log of the probability of the ids of a row, end token included, had there been no constraint."""
        if self._last is None or not ids:
            return 0.0
        total = sum(float(taken[row]) for taken in self._taken[: len(ids)])
        return total + (float(self._last[row, ids[-1]]) if len(ids) > len(self._taken) else 0.0)
