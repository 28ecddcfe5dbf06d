"""Rows of a batch that take in different numbers of tokens at a time.

Keys and values of a batch have one length, so a row that takes in less gets padding, and the attention mask keeps it
out of sight. Positions count real tokens only.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch
from transformers import DynamicCache

from ctrlgen.errors import InputError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

CACHE_NAMES = ("cache", "past_key_values")
"""What the argument is called, in newer and older releases of transformers."""


class Reader:
    """A causal model that reads rows bit by bit.

    Args:
        model: of transformers, not an encoder-decoder model.
        count: number of rows.
        cache: an empty cache for them, or None to read whole rows each time.
        more: further arguments of each forward pass.
    """

    def __init__(self, model: Any, count: int, cache: Any, more: dict[str, Any]) -> None:
        known = set(inspect.signature(model.forward).parameters)
        self._model, self._cache = model, cache
        self._cache_name = next((name for name in CACHE_NAMES if name in known), None)
        self._more = {name: value for name, value in more.items() if name in known}
        self._optional = known & {"position_ids", "logits_to_keep", "use_cache", "return_dict"}
        self._seen = torch.zeros(count, 0, dtype=torch.int64, device=model.device)
        self._rows: list[list[int]] = [[] for _ in range(count)]
        self._anew = False
        self.passes = 0

    @torch.no_grad()
    def read(self, new: Sequence[Sequence[int]], keep: int) -> torch.Tensor:
        """Take in tokens and say what follows.

        Args:
            new: ids for each row; a row may have none.
            keep: for how many ids, from the end, the logits are wanted.

        Returns:
            float[B, keep, V]: the logits after each of the last ``keep`` ids of a row, on its right side; what stands
            before the first new id of a row means nothing.
        """
        for row, part in zip(self._rows, new, strict=True):
            row.extend(part)
        if self._cache is None or self._anew:
            self._seen = self._seen[:, :0]
            self._cache = None if self._cache is None else empty_cache(self._model)
            self._anew, new = False, self._rows
        longest = max(map(len, new))
        device = self._seen.device
        ids = torch.tensor([[0] * (longest - len(part)) + list(part) for part in new], device=device)
        shown = torch.tensor([[0] * (longest - len(part)) + [1] * len(part) for part in new], device=device)
        self._seen = torch.cat([self._seen, shown], 1)
        positions = (self._seen.cumsum(1) - 1).clamp(min=0)[:, -longest:]
        wanted = {"position_ids": positions, "logits_to_keep": keep, "use_cache": self._cache is not None}
        inputs = {name: value for name, value in (wanted | {"return_dict": True}).items() if name in self._optional}
        if self._cache is not None and self._cache_name is not None:
            inputs[self._cache_name] = self._cache
        output = self._model(input_ids=ids, attention_mask=self._seen, **{**self._more, **inputs})
        self.passes += 1
        return self._checked(output.logits[:, -keep:])

    def forget(self, row: int, count: int) -> None:
        """Take back the last ids of a row.

        Where windows slide they have pushed out keys that are wanted again, so all is read anew in the next pass.
        """
        if not count:
            return
        del self._rows[row][-count:]
        self._anew = slides(self._cache)
        columns = torch.nonzero(self._seen[row])[-count:, 0]
        self._seen[row, columns] = 0

    def _checked(self, logits: torch.Tensor) -> torch.Tensor:
        if self._cache is not None and int(self._cache.get_seq_length()) != self._seen.shape[1]:
            raise ModelError(
                "the model did not keep what it read in the cache it was given, so tokens cannot be appended to it; "
                "pass use_cache=False, or go without fast_forward"
            )
        return logits


def is_ragged(model: Any, cache: Any) -> bool:
    """Whether padding between the tokens of a row does no harm: positions are given, and no key is dropped."""
    if "position_ids" not in inspect.signature(model.forward).parameters:
        return False
    return not slides(cache)


def slides(cache: Any) -> bool:
    """Whether a cache drops keys."""
    return any(getattr(cache, "is_sliding", ()) or ())


def empty_cache(model: Any) -> DynamicCache:
    """A cache for a model that has read nothing."""
    return DynamicCache(config=model.config.get_text_config(decoder=True))


def check_model(model: Any, cache: Any) -> None:
    """Refuse models that cannot take in several tokens behind what they have read.

    Raises:
        InputError: an encoder-decoder model, or one that keeps recurrent states.
    """
    if model.config.is_encoder_decoder:
        raise InputError("fast_forward works with causal models; this is an encoder-decoder model")
    linear = getattr(cache, "is_linear", ()) or ()
    if "attention_mask" not in inspect.signature(model.forward).parameters or any(linear):
        raise InputError("fast_forward needs a model of attention layers only; this one keeps recurrent states")
