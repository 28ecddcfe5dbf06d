"""What an HMM has to beat: single tokens, and pairs of them.

The unigram has 0.1 added to each count. The bigram is interpolated with absolute discounting (Ney, Essen and Kneser
1994): p(v | u) = max(c(u, v) - d, 0) / c(u) + d n(u) / c(u) p(v), n(u) the number of different tokens after u, with the
best of a few d for the held-out text itself, which is more than an HMM is granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlgen.hmm.corpus import Batch

DISCOUNTS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_ADDED = 0.1


class Baselines(NamedTuple):
    """Perplexities of held-out samples, given their prompts."""

    unigram: float
    bigram: float


class Pairs(NamedTuple):
    """How often a token came, and a pair of tokens."""

    tokens: torch.Tensor
    """int64[V]"""
    pairs: torch.Tensor
    """int64[P]: u * V + v, ascending."""
    counts: torch.Tensor
    """int64[P]"""

    @property
    def unigram(self) -> torch.Tensor:
        """float64[V]: a distribution without zeros."""
        more = self.tokens.double() + _ADDED
        return more / more.sum()


def tally(batches: Iterable[Batch], width: int) -> Pairs:
    """Counts of a text; memory goes with the number of different pairs."""
    tokens = torch.zeros(width, dtype=torch.long)
    pairs = counts = torch.zeros(0, dtype=torch.long)
    waiting: list[torch.Tensor] = []
    for batch in batches:
        inside = batch.inside
        tokens += torch.bincount(batch.ids[inside], minlength=width)
        waiting.append((batch.ids[:, :-1] * width + batch.ids[:, 1:])[inside[:, 1:]])
        if sum(map(len, waiting)) > len(pairs) + (1 << 20):  # a merge costs about as much as what is merged
            pairs, counts = _merged(pairs, counts, torch.cat(waiting))
            waiting = []
    return Pairs(tokens, *_merged(pairs, counts, torch.cat([pairs[:0], *waiting])))


def perplexities(known: Pairs, held_out: Iterable[Batch]) -> Baselines:
    """Of what was sampled, with at least one token before it."""
    width, unigram = len(known.tokens), known.unigram
    first = known.pairs // width
    followers = torch.bincount(first, minlength=width).double()
    after = torch.zeros(width, dtype=torch.long).index_add_(0, first, known.counts)
    alone, count = 0.0, 0
    paired = torch.zeros(len(DISCOUNTS), dtype=torch.float64)
    discounts = torch.tensor(DISCOUNTS, dtype=torch.float64)[:, None]
    for batch in held_out:
        counts = batch.sampled[:, 1:]
        u, v = batch.ids[:, :-1][counts], batch.ids[:, 1:][counts]
        place = torch.searchsorted(known.pairs, u * width + v).clamp(max=max(0, len(known.pairs) - 1))
        met = known.pairs[place] == u * width + v
        pair = torch.where(met, known.counts[place], 0)
        left = (pair - discounts).clamp(min=0) + discounts * followers[u] * unigram[v]
        likely = torch.where(after[u] > 0, left / after[u].clamp(min=1), unigram[v])
        alone += float(unigram[v].log().sum())
        paired += likely.log().sum(1)
        count += len(v)
    logs = torch.tensor([alone, float(paired.max())], dtype=torch.float64) / max(1, count)
    return Baselines(*(-logs).exp().tolist())


def _merged(pairs: torch.Tensor, counts: torch.Tensor, new: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    keys, place = torch.unique(torch.cat([pairs, new]), return_inverse=True)
    every = torch.cat([counts, torch.ones_like(new)])
    return keys, torch.zeros(len(keys), dtype=torch.long).index_add_(0, place, every)
