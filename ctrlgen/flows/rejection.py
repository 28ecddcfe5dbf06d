"""Exact samples from a product of density ratios of whole texts, by rejection (MPG, arXiv 2511.01891).

    target(y) proportional to p(y) * prod_i (p_i(y) / p(y))^w_i

Texts are drawn from the same product normalised at each token. Such a text is too likely by 1 / prod_t Z_t, with Z_t
the sum that was normalised away at token t (1 after the end), so it is kept with probability prod_t Z_t / bound, over
all ``max_new_tokens`` tokens. With weights of at least 0 and a sum of at most 1 every Z_t is at most 1 (Hoelder), and
the bound is 1. The factors are drawn for a chunk of tokens at a time: a text that fails in its first chunk is never
finished, and begins anew, since a chunk that were replaced alone would follow another distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.flows.ancestral import Ancestral, drawn, generator_of, select
from ctrlgen.flows.generate import vocabulary_for
from ctrlgen.flows.prompts import prepare
from ctrlgen.steering.following import selected
from ctrlgen.steering.mixture import MPG
from ctrlgen.steering.protocol import Moment
from ctrlgen.steering.sourced import number, whole

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint, Specification
    from ctrlgen.vocabulary import Vocabulary


class Sample(NamedTuple):
    """One text from the target."""

    text: str
    token_ids: tuple[int, ...]
    """With the end token."""
    finished: bool
    """False: it was cut off at ``max_new_tokens``."""


class Exact(NamedTuple):
    """Independent samples."""

    samples: tuple[Sample, ...]
    attempts: int
    """Texts that were begun."""
    tokens: int
    """Tokens that were drawn, those of rejected texts included."""


def sample_exactly(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    steer: MPG,
    constraint: Specification | Constraint | None = None,
    *,
    n: int = 1,
    max_new_tokens: int = 50,
    chunk: int = 4,
    parallel: int = 16,
    bound: float | None = None,
    attempts: int = 10_000,
    seed: int | None = None,
    chat: bool | None = None,
    vocabulary: Vocabulary | None = None,
) -> Exact:
    """Draw from the product of density ratios of whole texts, not of tokens.

    All models are restricted to the tokens that the constraint allows and normalised over these, at each step; texts
    are those of up to ``max_new_tokens`` tokens.

    Args:
        model: p.
        tokenizer: its tokenizer.
        prompt: one prompt.
        steer: the ratios.
        constraint: a constraint, or None.
        n: number of samples.
        max_new_tokens: the most tokens of a text.
        chunk: tokens between two decisions.
        parallel: texts under way at once.
        bound: the largest Z_t there is, at least 1; 1 where the weights guarantee it, else it must be given. A text is
            kept with a probability of the order of bound ** -max_new_tokens.
        attempts: texts to begin at most.
        seed: makes it repeatable.
        chat: as for ``generate``.
        vocabulary: as for ``generate``.

    Raises:
        InputError: arguments that do not fit together; or too few of ``attempts`` texts were kept.
        ModelError: a Z_t is above the bound: the samples would be wrong.
    """
    if not isinstance(steer, MPG):
        raise InputError(f"steer is {steer!r}; expected ctrlgen.MPG or ctrlgen.MOD")
    for name, value in (("n", n), ("max_new_tokens", max_new_tokens), ("chunk", chunk), ("parallel", parallel)):
        whole(name, value)
    if bound is None and not steer.bounded:
        raise InputError("with these weights Z_t has no bound of its own: give bound=, the largest that can occur")
    largest = 1.0 if bound is None else number("bound", bound, least=1)
    vocabulary = vocabulary_for(model, tokenizer, vocabulary)
    batch = prepare(tokenizer, [prompt], chat, pad=vocabulary.eos[0])
    loop = Ancestral(model, vocabulary, constraint, batch.prompts[0], max_new_tokens)
    run = _Run(loop, steer, max_new_tokens, chunk, float(torch.tensor(largest).log()), generator_of(seed, model.device))
    found: list[tuple[int, ...]] = []
    begun = tokens = 0
    while len(found) < n:
        if begun >= attempts:
            raise InputError(f"{len(found)} of {begun} texts were kept, {n} are wanted; give more attempts")
        kept, count = _attempt(run, parallel)
        found, begun, tokens = found + kept, begun + parallel, tokens + count
    ends = set(vocabulary.eos)
    texts = [Sample(vocabulary.decode(ids).decode(errors="replace"), ids, ids[-1] in ends) for ids in found[:n]]
    return Exact(tuple(texts), begun, tokens)


class _Run(NamedTuple):
    loop: Ancestral
    steer: MPG
    length: int
    chunk: int
    log_bound: float
    generator: torch.Generator | None


def _attempt(run: _Run, count: int) -> tuple[list[tuple[int, ...]], int]:
    """Texts that were kept of ``count``, and how many tokens it took."""
    loop, steer = run.loop, run.steer
    texts = loop.begin(count)
    state = steer.init(loop.prompts(count))
    odds = torch.zeros(count, dtype=torch.float64, device=texts.ids.device)
    tokens = 0
    for length in range(run.length):
        moment = Moment(loop.log_p(texts), texts.alive, length)
        log_q = moment.log_p + steer.delta(state, moment)
        log_z = log_q.masked_fill(moment.log_p == -torch.inf, -torch.inf).double().logsumexp(1)
        if bool((log_z[texts.alive] > run.log_bound + 1e-5).any()):
            raise ModelError(f"Z_t is {float(log_z.max().exp()):.4f}, above the bound: give a larger bound")
        # a text that is over goes on with certainty (Z = 1), under the same bound: else short texts would be favoured
        odds += torch.where(texts.alive, log_z, 0.0).clamp(max=run.log_bound) - run.log_bound
        log_q = torch.where(texts.alive[:, None], log_q.masked_fill(moment.log_p == -torch.inf, -torch.inf), 0.0)
        tokens += int(texts.alive.sum())
        texts = loop.step(texts, drawn(log_q.log_softmax(1), run.generator))
        over = not bool(texts.alive.any()) or length + 1 == run.length
        if over or (length + 1) % run.chunk == 0:
            odds -= run.log_bound * (run.length - length - 1) if over else 0.0
            kept = _kept(odds, run.generator)
            texts, state, odds = select(texts, kept), selected(state, kept), torch.zeros_like(odds[kept])
            if over or not len(kept):
                break
        state = steer.update(state, texts.ids[:, -1], texts.alive)
    return loop.generated(texts), tokens


def _kept(odds: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """The rows that are kept, each with the probability exp(odds)."""
    lot = torch.rand(len(odds), dtype=torch.float64, device=odds.device, generator=generator)
    return (lot < odds.exp()).nonzero()[:, 0]
