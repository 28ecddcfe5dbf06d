"""A language model whose next-token distribution is a plain function, and the tokenizer that goes with it.

Both are for tests: small enough to enumerate what they do, real enough for every mode of ``model.generate``.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ctrlgen.vocabulary import Vocabulary

    Distribution = Callable[[tuple[int, ...]], Sequence[float]]


class ToyConfig(PretrainedConfig):  # type: ignore[misc]
    """The few figures that generation asks a model's config for."""

    model_type = "ctrlgen-toy"

    def __init__(self, vocab_size: int = 12, max_position_embeddings: int = 4096, **more: Any) -> None:
        self.vocab_size, self.max_position_embeddings = vocab_size, max_position_embeddings
        self.num_hidden_layers, self.hidden_size, self.num_attention_heads = 1, 1, 1
        super().__init__(**more)


class ToyLM(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A causal model for which the logits are ``distribution(ids of the row so far, without padding)``.

    It keeps the ids themselves in the key-value cache, so that reordering and cropping the cache is put to the test.

    Args:
        vocabulary: gives the end ids and, as its width, the number of columns of the logits.
        distribution: log-probabilities (or logits), ``width`` of them, after the given ids. By default they are
            drawn from a normal distribution seeded with the ids.
        scale: standard deviation of that normal distribution.
        pad: id used for padding; the lowest end id by default.
        context: the longest row the config claims to allow.
    """

    config_class = ToyConfig
    main_input_name = "input_ids"
    _supports_sdpa = True

    def __init__(
        self,
        vocabulary: Vocabulary,
        distribution: Distribution | None = None,
        *,
        scale: float = 2.0,
        pad: int | None = None,
        context: int = 4096,
    ) -> None:
        pad = vocabulary.eos[0] if pad is None else pad
        super().__init__(
            ToyConfig(vocabulary.width, context, eos_token_id=list(vocabulary.eos), pad_token_id=pad, bos_token_id=None)
        )
        self.distribution = distribution or noise(vocabulary.width, scale)
        self.weight = torch.nn.Parameter(torch.zeros(1), requires_grad=False)
        self.generation_config = GenerationConfig(eos_token_id=list(vocabulary.eos), pad_token_id=pad)

    @classmethod
    def from_table(
        cls, vocabulary: Vocabulary, table: Mapping[str, Mapping[str, float]], *, prompt: int = 1, **more: Any
    ) -> ToyLM:
        """A model given by ``{text so far: {token: probability}}``, where ``""`` as a token means the end.

        Args:
            vocabulary: whose tokens; names in the table must be whole tokens.
            table: texts that are missing are followed by every token alike.
            prompt: number of ids of the prompt, which are no part of the text so far.
            more: as for the class.
        """
        names = {piece.decode(errors="replace"): token for token, piece in enumerate(vocabulary.tokens) if piece}
        names[""] = vocabulary.eos[0]

        def distribution(ids: tuple[int, ...]) -> list[float]:
            row = table.get(vocabulary.decode(ids[prompt:]).decode(errors="replace"))
            if row is None:
                return [0.0] * vocabulary.width
            logs = [-math.inf] * vocabulary.width
            for name, probability in row.items():
                logs[names[name]] = math.log(probability)
            # an unlikely way out, so that a row is never without any token
            return [max(value, -60.0) for value in logs]

        return cls(vocabulary, distribution, **more)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        cache: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        **_: Any,
    ) -> CausalLMOutputWithPast:
        """The logits of the last ``logits_to_keep`` ids (0: of all of them), as in any causal model."""
        history = input_ids
        if cache is not None:
            kept = input_ids[:, None, :, None].to(torch.float32)
            history = cache.update(kept, kept, 0)[0][:, 0, :, 0].to(torch.int64)
        count = logits_to_keep or input_ids.shape[1]
        shown = torch.ones_like(history) if attention_mask is None else attention_mask[:, -history.shape[1] :]
        rows = [
            [self._after(ids, seen, history.shape[1] - count + 1 + i) for i in range(count)]
            for ids, seen in zip(history.tolist(), shown.bool().tolist(), strict=True)
        ]
        logits = torch.tensor(np.array(rows), dtype=self.weight.dtype, device=input_ids.device)
        output = CausalLMOutputWithPast(logits=logits)
        if cache is not None:
            output["cache"] = cache
        return output

    def _after(self, ids: list[int], seen: list[bool], length: int) -> Sequence[float]:
        return self.distribution(tuple(i for i, s in zip(ids[:length], seen[:length], strict=True) if s))


def noise(width: int, scale: float) -> Distribution:
    """Logits drawn from a normal distribution, the same ones whenever the ids are the same."""

    def distribution(ids: tuple[int, ...]) -> Sequence[float]:
        rng = np.random.default_rng(zlib.crc32(np.array(ids, np.int64).tobytes()))
        row: Sequence[float] = (scale * rng.standard_normal(width)).tolist()
        return row

    return distribution


class ToyTokenizer:
    """Longest-match spelling with the tokens of a vocabulary; as much of a tokenizer as generation needs."""

    chat_template = None

    def __init__(self, vocabulary: Vocabulary, pad: int | None = None) -> None:
        self.vocabulary = vocabulary
        self.eos_token_id = vocabulary.eos[0]
        self.pad_token_id = vocabulary.eos[0] if pad is None else pad

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        """``{"input_ids": ids}``."""
        del add_special_tokens  # there are none to add
        return {"input_ids": self.vocabulary.encode_greedy(text.encode())}

    def __len__(self) -> int:
        return len(self.vocabulary)
