"""Log-probabilities of continuations, for rows that a search keeps, copies and drops.

One forward pass a step, over the rows that still run and no others. Keys and values are kept where the model takes a
cache of transformers, and follow their rows; where it takes none, whole rows are read anew, with the same result.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.errors import InputError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

_CACHE_NAMES = ("cache", "past_key_values")
"""What the argument is called, in newer and older releases of transformers."""


class Scorer:
    """A model and the rows it is asked about; ``first`` once, then ``extend`` as often as needed.

    Args:
        model: a causal or encoder-decoder model of transformers, in eval mode.
        prompts: the ids of each, not empty.
        use_cache: False reads whole rows at each step.

    Raises:
        InputError: an encoder-decoder model that does not say which id its texts begin with.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], *, use_cache: bool = True) -> None:
        self._model = model
        self._known = set(inspect.signature(model.forward).parameters)
        self._encoded: tuple[torch.Tensor, torch.Tensor] | None = None
        if model.config.is_encoder_decoder:
            # positions of encoders count from the left, and not all of them look at the mask for that
            self._encoded = _encode(model, *_padded(prompts, model.device, left=False))
            self._ids = torch.full((len(prompts), 1), _decoder_start(model), device=model.device)
            self._mask = torch.ones_like(self._ids)
        else:
            self._ids, self._mask = _padded(prompts, model.device, left=True)
        name = next((name for name in _CACHE_NAMES if name in self._known), None)
        self._cache_name = name if use_cache else None
        self._cache: Any = None if self._cache_name is None else _new_cache(model)

    def first(self) -> torch.Tensor:
        """float32[B, V], log-probabilities of what follows each prompt."""
        return self._run()

    def extend(self, parents: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Continue rows of the call before, each as often as it is named.

        Args:
            parents: int64[R], rows of the call before.
            tokens: int64[R], what each is continued with.

        Returns:
            float32[R, V], log-probabilities of what follows.
        """
        self._ids = torch.cat([self._ids[parents], tokens[:, None]], 1)
        self._mask = torch.cat([self._mask[parents], torch.ones_like(tokens)[:, None]], 1)
        if self._encoded is not None:
            hidden, mask = self._encoded
            self._encoded = hidden[parents], mask[parents]
        if self._cache is not None:
            self._cache.reorder_cache(parents)
        return self._run()

    @torch.no_grad()
    def _run(self) -> torch.Tensor:
        seen = 0 if self._cache is None else int(self._cache.get_seq_length())
        output = self._model(**self._inputs(seen))
        if self._cache is not None and int(self._cache.get_seq_length()) != self._ids.shape[1]:
            self._cache = self._cache_name = None  # the model has left it alone
        return _log_probabilities(output.logits[:, -1])

    def _inputs(self, seen: int) -> dict[str, Any]:
        """Arguments of the forward pass over all ids but the first ``seen``, those that the model knows."""
        inputs: dict[str, Any] = {"use_cache": self._cache is not None, "return_dict": True}
        if self._encoded is None:
            positions = (self._mask.cumsum(1) - 1).clamp(min=0)[:, seen:]
            inputs |= {"input_ids": self._ids[:, seen:], "attention_mask": self._mask, "position_ids": positions}
            inputs["logits_to_keep"] = 1
        else:
            from transformers.modeling_outputs import BaseModelOutput

            hidden, mask = self._encoded
            inputs |= {"encoder_outputs": BaseModelOutput(last_hidden_state=hidden), "attention_mask": mask}
            inputs["decoder_input_ids"] = self._ids[:, seen:]
        optional = {"position_ids", "logits_to_keep", "use_cache", "return_dict"} - self._known
        inputs = {name: value for name, value in inputs.items() if name not in optional}
        return inputs if self._cache_name is None else {**inputs, self._cache_name: self._cache}


def _padded(prompts: Sequence[Sequence[int]], device: Any, *, left: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """int64[B, P] ids, 0 where there are none, and int64[B, P] the mask."""
    longest = max(map(len, prompts))
    fill = [[0] * (longest - len(row)) for row in prompts]
    pairs = list(zip(fill, prompts, strict=True))
    ids = [[*gap, *row] if left else [*row, *gap] for gap, row in pairs]
    mask = [[*gap, *([1] * len(row))] if left else [*([1] * len(row)), *gap] for gap, row in pairs]
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@torch.no_grad()
def _encode(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    output = model.get_encoder()(input_ids=ids, attention_mask=mask, return_dict=True)
    return output.last_hidden_state, mask


def _decoder_start(model: Any) -> int:
    for config in (getattr(model, "generation_config", None), model.config):
        if (start := getattr(config, "decoder_start_token_id", None)) is not None:
            return int(start)
    raise InputError("the model does not say which id its texts begin with: set model.config.decoder_start_token_id")


def _new_cache(model: Any) -> Any:
    from transformers import DynamicCache, EncoderDecoderCache

    own = DynamicCache(config=model.config.get_text_config(decoder=True))
    try:
        own.get_seq_length()
    except ValueError:  # recurrent states only, which do not say how much they have read
        return None
    return EncoderDecoderCache(own, DynamicCache()) if model.config.is_encoder_decoder else own


def _log_probabilities(logits: torch.Tensor) -> torch.Tensor:
    """float32, normalised over all columns.

    Raises:
        ModelError: the logits of a row make no distribution.
    """
    logits = logits.float()
    total = logits.logsumexp(-1, keepdim=True)
    if not bool(total.isfinite().all()):  # one NaN or +inf in a row, or nothing but -inf
        raise ModelError("the logits of the model are NaN or infinite: load it in another dtype, or check its weights")
    return logits - total
