"""Texts that grow by one drawn token at a time, in a loop of our own: for flows that go back, branch and choose.

Keys and values are those of a Source, so rows can be repeated, dropped and put into another order at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ctrlgen.processor import ControlProcessor
from ctrlgen.steering.following import selected
from ctrlgen.steering.protocol import Prompts
from ctrlgen.steering.source import Reading, Source

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint, Specification
    from ctrlgen.vocabulary import Vocabulary


class Texts(NamedTuple):
    """B rows of one prompt."""

    ids: torch.Tensor
    """int64[B, P + n]: the prompt and what was generated; end tokens after the end."""
    alive: torch.Tensor
    """bool[B]: False after an end token."""
    reading: Reading


class Ancestral:
    """A model within a constraint.

    Args:
        model: a decoder-only model of transformers.
        vocabulary: of its tokenizer, as wide as its logits.
        constraint: specification, compiled constraint, or None.
        prompt: its ids.
        max_new_tokens: texts of a constraint are ended in time.
    """

    def __init__(
        self,
        model: Any,
        vocabulary: Vocabulary,
        constraint: Specification | Constraint | None,
        prompt: list[int],
        max_new_tokens: int,
    ) -> None:
        self.prompt, self.vocabulary = tuple(prompt), vocabulary
        self._source = Source(model)
        self._processor = ControlProcessor(
            constraint, vocabulary=vocabulary, prompt_length=len(prompt), max_new_tokens=max_new_tokens
        )

    def prompts(self, count: int) -> Prompts:
        """``count`` rows, as steerers want them."""
        return Prompts((self.prompt,) * count, self._source.model.device, self.vocabulary)

    def begin(self, count: int) -> Texts:
        """``count`` empty texts."""
        device = self._source.model.device
        ids = torch.tensor([self.prompt] * count, device=device)
        return Texts(ids, torch.ones(count, dtype=torch.bool, device=device), self._source.init(self.prompts(count)))

    def log_p(self, texts: Texts) -> torch.Tensor:
        """float32[B, V]: of the next token, over those that the constraint allows."""
        scores = self._processor(texts.ids, texts.reading.output)
        return scores.float().log_softmax(1)

    def step(self, texts: Texts, tokens: torch.Tensor) -> Texts:
        """One token more; rows that are over get an end token."""
        end = self.vocabulary.eos[0]
        tokens = torch.where(texts.alive, tokens, end)
        ends = torch.tensor(self.vocabulary.eos, device=tokens.device)
        alive = texts.alive & ~torch.isin(tokens, ends)
        reading = self._source.update(texts.reading, tokens, alive)
        return Texts(torch.cat([texts.ids, tokens[:, None]], 1), alive, reading)

    def generated(self, texts: Texts) -> list[tuple[int, ...]]:
        """The ids of each row, up to its first end token."""
        rows = texts.ids[:, len(self.prompt) :].tolist()
        ends = set(self.vocabulary.eos)
        last = [next((i + 1 for i, one in enumerate(row) if one in ends), len(row)) for row in rows]
        return [tuple(row[:stop]) for row, stop in zip(rows, last, strict=True)]


def select(texts: Texts, index: torch.Tensor) -> Texts:
    """Rows of ``texts``, in the order and number of int64 ``index``."""
    ids, alive, reading = selected(texts, index)
    return Texts(ids, alive, Reading(*reading))


def drawn(log_p: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """int64[B]: a token of each row."""
    return torch.multinomial(log_p.exp(), 1, generator=generator)[:, 0]


def generator_of(seed: int | None, device: Any) -> torch.Generator | None:
    """Random numbers of one's own, or torch's global ones."""
    return None if seed is None else torch.Generator(device).manual_seed(seed)
