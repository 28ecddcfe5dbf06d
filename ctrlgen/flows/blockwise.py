"""The best of several blocks, again and again, for one objective or for the worst off of several (RMOD)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.flows.ancestral import Ancestral, Texts, drawn, generator_of, select
from ctrlgen.flows.generate import vocabulary_for
from ctrlgen.flows.prompts import prepare
from ctrlgen.steering.maximin import maximin_weights
from ctrlgen.steering.sourced import number, whole

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint, Specification
    from ctrlgen.vocabulary import Vocabulary

    Objective = Callable[[list[str]], Sequence[float]]


class Choice(NamedTuple):
    """One block that was chosen."""

    values: tuple[tuple[float, ...], ...]
    """Of each candidate under each objective."""
    weights: tuple[float, ...]
    """Of the objectives."""
    chosen: int


class Blocks(NamedTuple):
    """A text and how it came about."""

    text: str
    token_ids: tuple[int, ...]
    """With the end token."""
    finished: bool
    choices: tuple[Choice, ...]


def best_of_blocks(
    model: Any,
    tokenizer: Any,
    prompt: Any,
    objectives: Sequence[Objective],
    constraint: Specification | Constraint | None = None,
    *,
    block: int = 16,
    candidates: int = 8,
    strength: float = 1.0,
    max_new_tokens: int = 200,
    seed: int | None = None,
    chat: bool | None = None,
    vocabulary: Vocabulary | None = None,
) -> Blocks:
    """Draw several blocks, keep the best, go on from it (arXiv 2503.08796, sec. 4).

    A candidate is worth sum_g w_g V_g of the text up to its end, with the weights w of ``maximin_weights`` over the
    candidates; with one objective that is blockwise best-of-K. ``candidates=1`` is plain sampling.

    Args:
        model: a model of transformers.
        tokenizer: its tokenizer.
        prompt: one prompt.
        objectives: functions from texts, as generated so far, to as many numbers, on scales that can be compared.
        constraint: a constraint, or None.
        block: tokens of a block.
        candidates: blocks to choose from.
        strength: lam of the weights.
        max_new_tokens: the most tokens of the text.
        seed: makes it repeatable.
        chat: as for ``generate``.
        vocabulary: as for ``generate``.

    Raises:
        InputError: arguments that do not fit together.
        ModelError: an objective gives NaN or infinity.
    """
    for name, value in (("block", block), ("candidates", candidates), ("max_new_tokens", max_new_tokens)):
        whole(name, value)
    strength = number("strength", strength, least=0)
    if not objectives or not all(callable(one) for one in objectives):
        raise InputError("objectives: expected at least one function from texts to numbers")
    vocabulary = vocabulary_for(model, tokenizer, vocabulary)
    batch = prepare(tokenizer, [prompt], chat, pad=vocabulary.eos[0])
    loop = Ancestral(model, vocabulary, constraint, batch.prompts[0], max_new_tokens)
    generator = generator_of(seed, model.device)
    texts, choices = loop.begin(1), []
    for first in range(0, max_new_tokens, block):
        texts = select(texts, torch.zeros(candidates, dtype=torch.int64, device=texts.ids.device))
        for _ in range(min(block, max_new_tokens - first)):
            if not bool(texts.alive.any()):
                break
            log_p = torch.where(texts.alive[:, None], loop.log_p(texts), 0.0).log_softmax(1)
            texts = loop.step(texts, drawn(log_p, generator))
        choices.append(_choice(loop, texts, objectives, strength))
        texts = select(texts, torch.tensor([choices[-1].chosen], device=texts.ids.device))
        if not bool(texts.alive.any()):
            break
    (ids,) = loop.generated(texts)
    return Blocks(_text(vocabulary, ids), ids, ids[-1] in vocabulary.eos, tuple(choices))


def _choice(loop: Ancestral, texts: Texts, objectives: Sequence[Objective], strength: float) -> Choice:
    several = [_text(loop.vocabulary, ids) for ids in loop.generated(texts)]
    columns = [torch.as_tensor(one(several), dtype=torch.float64).reshape(-1) for one in objectives]
    if any(len(one) != len(several) for one in columns):
        raise InputError(f"an objective gave {[len(one) for one in columns]} values for {len(several)} texts")
    values = torch.stack(columns, 1)
    if not bool(values.isfinite().all()):
        raise ModelError("an objective is NaN or infinite")
    weights = maximin_weights(values[None], strength)[0]
    return Choice(tuple(map(tuple, values.tolist())), tuple(weights.tolist()), int((values @ weights).argmax()))


def _text(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    return vocabulary.decode(ids).decode(errors="replace")
