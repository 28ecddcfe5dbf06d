"""Generation under a PackageGuard, with a report of each step where it changed what the model would have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import LogitsProcessor

from ctrlgen.errors import InputError
from ctrlgen.flows.generate import Result, generate, vocabulary_for
from ctrlgen.flows.prompts import is_chat

if TYPE_CHECKING:
    from ctrlgen.guard.constraint import GuardConstraint
    from ctrlgen.guard.package_guard import PackageGuard
    from ctrlgen.vocabulary import Vocabulary


class Intervention(NamedTuple):
    """A step at which the model's likeliest token would have led off the list."""

    step: int
    """Number of tokens generated before."""
    start: int
    """Offset in the text, in characters, of the token."""
    wanted: str
    """The name as the model would have gone on with it, as far as its likeliest token tells; or that token."""
    got: str
    """The token that was chosen instead."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A text with what the guard did to it."""

    result: Result
    interventions: tuple[Intervention, ...]
    alternatives: tuple[Guarded, ...] = ()
    """With ``num_return_sequences``, the others for the same prompt."""

    @property
    def text(self) -> str:
        """What was generated."""
        return self.result.text


class _Likeliest(LogitsProcessor):  # type: ignore[misc]
    """Notes the likeliest token of each row at each step, before the mask."""

    supports_continuous_batching = False

    def __init__(self) -> None:
        self.steps: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.steps.append(scores.argmax(dim=1))
        return scores


def guarded(
    model: Any,
    tokenizer: Any,
    prompts: str | Sequence[Any],
    guard: PackageGuard,
    *,
    vocabulary: Vocabulary | None = None,
    **options: Any,
) -> Any:
    """Generate under a guard and say where it intervened.

    Args:
        model, tokenizer, prompts, options: as for ``ctrlgen.generate``; no beams, no drafts of an assistant. A prompt
            that is a plain text counts as what stands before, so a command that it begins is watched too.
        guard: which packages there are.
        vocabulary: as for ``ctrlgen.generate``.

    Returns:
        A Guarded for one prompt, a list of them for a list.

    Raises:
        InputError: as ``ctrlgen.generate``, or an option with which steps are no tokens of the text.
        BudgetError, DeadEndError, VocabularyError: as ``ctrlgen.generate``.
    """
    if int(options.get("num_beams") or 1) > 1 or options.get("assistant_model") is not None:
        raise InputError("guarded generation works without beams and without an assistant model")
    vocabulary = vocabulary_for(model, tokenizer, vocabulary)
    single = isinstance(prompts, str) or is_chat(prompts)
    each: list[Any] = [prompts] if single else list(prompts)
    plain = not options.get("chat")
    constraints = [
        (guard.following(one) if plain and isinstance(one, str) else guard).compile(vocabulary) for one in each
    ]
    likeliest = _Likeliest()
    processors = [*(options.pop("logits_processor", None) or []), likeliest]
    results = generate(
        model, tokenizer, each, list(constraints), vocabulary=vocabulary, logits_processor=processors, **options
    )
    wanted = torch.stack(likeliest.steps, dim=1).tolist()
    reports, row = [], 0
    for result, constraint in zip(results, constraints, strict=True):
        several = [result, *result.alternatives]
        made = [
            Guarded(one, tuple(_interventions(constraint, one.token_ids, wanted[row + i])))
            for i, one in enumerate(several)
        ]
        row += len(several)
        reports.append(Guarded(made[0].result, made[0].interventions, tuple(made[1:])))
    return reports[0] if single else reports


def _interventions(constraint: GuardConstraint, ids: Sequence[int], wanted: Sequence[int]) -> list[Intervention]:
    found, state, vocabulary = [], constraint.start, constraint.vocabulary
    text = b""
    for step, (token, likeliest) in enumerate(zip(ids, wanted, strict=False)):
        if likeliest != token and constraint.advance(state, likeliest) < 0:
            start = len(text.decode(errors="replace"))
            name = constraint.name_before(text, state) + (vocabulary.decode([likeliest]) or b"")
            shown = (name or vocabulary.decode([likeliest])).decode(errors="replace").strip() or "the end"
            found.append(Intervention(step, start, shown, vocabulary.decode([token]).decode(errors="replace")))
        state = constraint.advance(state, token)
        text += vocabulary.decode([token])
    return found
