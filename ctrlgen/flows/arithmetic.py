"""Arithmetic sampling: several samples of one prompt that are spread evenly (arXiv 2210.15458).

Each text is a number in [0, 1), its code: the first token is the one whose share of [0, 1) holds the code, and so on
within that share. With N codes evenly spaced from a random start, each text alone is a fair sample, but together they
cover the distribution: of N texts, a beginning with probability P comes N * P times, up to less than one.

    generate(model, tokenizer, prompt, spec, num_return_sequences=8, do_sample=True, custom_generate=arithmetic(seed=0))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import LogitsProcessorList

from ctrlgen.errors import InputError

_DIGITS = 2.0**-53


class Coded(LogitsProcessorList):  # type: ignore[misc]
    """The processors of a generation, warpers included, which leave only the token that the code says."""

    def __init__(self, processors: LogitsProcessorList, codes: torch.Tensor, generator: torch.Generator) -> None:
        super().__init__(processors)
        self._codes, self._generator = codes, generator

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """float[B, V]: 0 at one token of each row, -inf elsewhere."""
        final: torch.Tensor = super().__call__(input_ids, scores, **kwargs)
        tokens, self._codes = decoded(self._codes, final, self._generator)
        return torch.full_like(final, -torch.inf).scatter_(1, tokens[:, None], 0.0)


def decoded(
    codes: torch.Tensor, scores: torch.Tensor, generator: torch.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The token that each code says, and the code of what follows it.

    Args:
        codes: float64[B], in [0, 1).
        scores: float[B, V], logits; -inf is never chosen.
        generator: for digits that come after those that a token has used up.

    Returns:
        int64[B] and float64[B].
    """
    p = scores.double().softmax(1)
    upper = p.cumsum(1)
    upper = upper / upper[:, -1:]
    # the first share that ends above the code; shares without width end where the one before does
    tokens = torch.searchsorted(upper, codes[:, None], right=True).clamp(max=p.shape[1] - 1)
    share = p.gather(1, tokens)
    start = (upper.gather(1, tokens) - share).clamp(min=0.0)
    fresh = torch.rand(codes.shape, dtype=torch.float64, generator=generator).to(codes.device)
    rest = (codes - start[:, 0] + fresh * _DIGITS) / share[:, 0].clamp(min=1e-300)
    return tokens[:, 0], rest.clamp(min=0.0, max=1 - _DIGITS)


def spaced_codes(prompts: int, count: int, generator: torch.Generator | None = None) -> torch.Tensor:
    """float64[prompts * count]: i / count + u modulo 1, one u for each prompt."""
    start = torch.rand(prompts, 1, dtype=torch.float64, generator=generator)
    steps = torch.arange(count, dtype=torch.float64) / count
    return ((start + steps) % 1.0).flatten()


def arithmetic(seed: int | None = None) -> Callable[..., Any]:
    """What ``generate`` and ``model.generate`` take as ``custom_generate``.

    Args:
        seed: of the starts; without one, from torch's random numbers.

    Raises:
        InputError: when it runs, with beams or without sampling.
    """

    def decode(model: Any, input_ids: torch.Tensor, logits_processor: Any, generation_config: Any, **rest: Any) -> Any:
        if not generation_config.do_sample or (generation_config.num_beams or 1) > 1:
            raise InputError("arithmetic sampling samples: do_sample=True and no beams")
        generator = torch.Generator()
        generator.manual_seed(int(torch.randint(2**62, (1,))) if seed is None else seed)
        count = generation_config.num_return_sequences or 1
        codes = spaced_codes(len(input_ids) // count, count, generator).to(input_ids.device)
        coded = Coded(logits_processor, codes, generator)
        return model._sample(input_ids, logits_processor=coded, generation_config=generation_config, **rest)

    return decode
