"""draft_then_constrain: let the model write freely first, then hold it to the constraint with its draft in view.

    result = draft_then_constrain(model, tokenizer, "How many eggs are left?", JsonSchema(schema), k=4)
    result.value, result.draft.text, result.trace.projection_tax

A mask takes the model's distribution p to its nearest one within the constraint, and each step costs -log of the
probability that is allowed (the projection tax). A model that has already said what it means in its own words puts
more of its probability on the allowed ones. After "draft-conditioned constrained decoding", arXiv 2603.03305; the
choice among several drafts by that probability is this module's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.closing import check_budget
from ctrlgen.constraint import Constraint, Specification
from ctrlgen.errors import InputError
from ctrlgen.flows.draft_score import Chosen
from ctrlgen.flows.draft_text import EMPTY, THINKING, Draft, controls_of, prepared, second_prompt, spelled
from ctrlgen.flows.generate import compile_each, generate, spread
from ctrlgen.flows.prompts import is_chat, prepare
from ctrlgen.flows.results import Result
from ctrlgen.processor import vocabulary_of

if TYPE_CHECKING:
    from ctrlgen.vocabulary import Vocabulary

    Control = Specification | Constraint | None
    Drafter = tuple[Any, Any] | Callable[[list[Any], int], Sequence[Sequence[str]]]

__all__ = ["Draft", "Drafted", "draft_then_constrain"]

_NOT_HERE = ("num_beams", "num_return_sequences", "stream", "trace", "assistant_model", "prompt_lookup_num_tokens")


@dataclass(frozen=True, slots=True)
class Drafted(Result):
    """A text within the constraint, and the draft it was made from; the other candidates are its ``alternatives``."""

    draft: Draft = EMPTY
    """What the second pass was shown."""
    log_probability: float = 0.0
    """Log of the probability of the text, end token included, before the mask."""
    score: float = 0.0
    """What it was chosen by; more is better."""

    @property
    def log_mass(self) -> float:
        """Sum over the steps: log of the probability that the mask let through; the negative projection tax."""
        return 0.0 if self.trace is None else self.trace.log_mass

    @property
    def spent(self) -> int:
        """Tokens of the draft and of the text: what to compare with the budget of another method."""
        return len(self.draft.token_ids) + len(self.token_ids)


def draft_then_constrain(
    model: Any,
    tokenizer: Any,
    prompts: str | Sequence[Any],
    constraint: Control | Sequence[Control],
    *,
    drafter: Drafter | None = None,
    k: int = 1,
    select: str | Callable[[Drafted], float] = "mass",
    draft_prompt: Callable[[Any], Any] | None = None,
    final_prompt: Callable[[Any, str], Any] = second_prompt,
    max_draft_tokens: int = 256,
    max_new_tokens: int = 200,
    seed: int | None = None,
    chat: bool | None = None,
    thinking: tuple[str, str] | None = THINKING,
    vocabulary: Vocabulary | None = None,
    draft_options: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Write ``k`` free drafts for each prompt, a constrained text after each, and keep the best.

    Args:
        model: a model of transformers with ``generate``; it writes the constrained texts.
        tokenizer: its tokenizer.
        prompts: as for ``generate``.
        constraint: as for ``generate``.
        drafter: who writes the drafts: None for ``model``; another model as ``(model, tokenizer)``, with any
            tokenizer; or a function from the list of prompts and ``k`` to ``k`` texts for each prompt.
        k: drafts for each prompt, written and read as one batch. With k > 1 drafts are sampled, at temperature 0.6
            unless ``draft_options`` says otherwise.
        select: "mass" keeps the candidate whose constrained pass lost least to the mask (the greatest sum of
            log-probabilities of the allowed tokens together); "logprob" the one whose text the model found likeliest
            without the mask; a function is given a ``Drafted`` and returns a number, more being better. A text that
            was cut off never wins over a finished one.
        draft_prompt: from a prompt to the prompt of the draft; None leaves it as it is.
        final_prompt: from a prompt and the text of a draft to the prompt of the second pass. The default leaves a
            prompt with an empty draft as it is.
        max_draft_tokens: the most tokens of a draft; 0 writes none, and is plain constrained decoding.
        max_new_tokens: the most tokens of a constrained text, the end token included.
        seed: makes sampling repeatable, in both passes.
        chat: as for ``generate``.
        thinking: what opens and closes a block of thoughts; one that is still open is closed before the draft is
            shown. None if the model has no such thing.
        vocabulary: of ``tokenizer``, as for ``generate``.
        draft_options: anything ``generate`` takes, for the drafts.
        options: anything ``generate`` takes, for the constrained pass, but beams, several sequences and assistants.

    Returns:
        A Drafted for one prompt, a list for a list. Its alternatives are the other candidates, best first.

    Raises:
        InputError: arguments that do not fit together, a prompt that is too long with its draft.
        BudgetError: ``max_new_tokens`` is too small for the shortest text that satisfies the constraint; raised
            before any draft is written.
        DeadEndError, VocabularyError: as for ``generate``.
    """
    _check(k, select, max_draft_tokens, draft_prompt, final_prompt, options)
    vocabulary = vocabulary_of(tokenizer, model) if vocabulary is None else vocabulary
    single = isinstance(prompts, str) or is_chat(prompts)
    asked = _as_list(prompts, single, chat)
    controls = spread(constraint, len(asked))
    compiled = compile_each(controls, vocabulary)
    check_budget(compiled, [0 if one is None else one.start for one in compiled], max_new_tokens)
    writer = _Writer(drafter or (model, tokenizer), k, max_draft_tokens, seed, thinking, dict(draft_options or {}))
    if drafter is None:
        writer.options.setdefault("vocabulary", vocabulary)
    names = controls_of(tokenizer, vocabulary)
    drafts = _drafts(writer, [draft_prompt(one) if draft_prompt else one for one in asked], names)
    recorder = Chosen()
    before = list(options.pop("logits_processor", None) or [])
    results = generate(
        model,
        tokenizer,
        [final_prompt(one, draft.text) for one, group in zip(asked, drafts, strict=True) for draft in group],
        [one for one in controls for _ in range(k)],
        max_new_tokens=max_new_tokens,
        seed=seed,
        vocabulary=vocabulary,
        logits_processor=[*before, recorder],
        **options,
    )
    flat = [draft for group in drafts for draft in group]
    found = [_drafted(one, flat[row], recorder.log_probability(row, one.token_ids)) for row, one in enumerate(results)]
    best = [_best(found[i * k : (i + 1) * k], select) for i in range(len(asked))]
    return best[0] if single else best


class _Writer(NamedTuple):
    """Who writes drafts, and how."""

    drafter: Drafter
    k: int
    max_tokens: int
    seed: int | None
    thinking: tuple[str, str] | None
    options: dict[str, Any]


def _drafts(writer: _Writer, prompts: list[Any], names: set[str]) -> list[list[Draft]]:
    """k drafts for each prompt."""
    if writer.max_tokens == 0:
        return [[EMPTY] * writer.k for _ in prompts]
    if not isinstance(writer.drafter, tuple):
        texts = writer.drafter(prompts, writer.k)
        _check_texts(texts, len(prompts), writer.k)
        return [[prepared(one, names, thinking=writer.thinking) for one in group] for group in texts]
    model, tokenizer = writer.drafter
    sampled = writer.k > 1 and not writer.options.keys() & {"temperature", "do_sample"}
    options: dict[str, Any] = {"temperature": 0.6} if sampled else {}
    options |= {"max_new_tokens": writer.max_tokens, "seed": writer.seed, "trace": False, **writer.options}
    vocabulary = options["vocabulary"] = options.get("vocabulary") or vocabulary_of(tokenizer, model)
    if writer.k > 1:
        options["num_return_sequences"] = writer.k
    results = generate(model, tokenizer, prompts, **options)
    shown: Sequence[str] = writer.thinking or ()
    drafts = []
    for ids, result in zip(prepare(tokenizer, prompts, None, pad=0).prompts, results, strict=True):
        thinks = bool(shown) and spelled(vocabulary, ids[-8:], shown).rstrip().endswith(shown[0])
        more = {"thinking": writer.thinking, "thinks": thinks}
        drafts.append([_draft(vocabulary, one, names, shown, more) for one in (result, *result.alternatives)])
    return drafts


def _draft(vocabulary: Vocabulary, one: Result, names: set[str], shown: Sequence[str], more: dict[str, Any]) -> Draft:
    text = spelled(vocabulary, one.token_ids, shown)
    return prepared(text, names, token_ids=one.token_ids, finished=one.finished, **more)


def _drafted(result: Result, draft: Draft, log_probability: float) -> Drafted:
    given = {one.name: getattr(result, one.name) for one in fields(Result)}
    return Drafted(**given, draft=draft, log_probability=log_probability)


def _best(candidates: Sequence[Drafted], select: str | Callable[[Drafted], float]) -> Drafted:
    """The best candidate with the others as its alternatives."""
    scored = [replace(one, score=_score(one, select)) for one in candidates]
    scored.sort(key=lambda one: (one.finished, one.score), reverse=True)
    return replace(scored[0], alternatives=tuple(scored[1:]))


def _score(one: Drafted, select: str | Callable[[Drafted], float]) -> float:
    if not callable(select):
        return one.log_mass if select == "mass" else one.log_probability
    score = select(one)
    if not isinstance(score, (int, float)) or math.isnan(score):
        raise InputError(f"select returned {score!r} for the text {one.text!r:.100}; expected a number")
    return float(score)


def _check(k: Any, select: Any, max_draft_tokens: Any, draft_prompt: Any, final_prompt: Any, options: Any) -> None:
    if not isinstance(k, int) or k < 1:
        raise InputError(f"k is {k!r}; expected a number of drafts of at least 1")
    if not callable(select) and select not in ("mass", "logprob"):
        raise InputError(f'select is {select!r}; expected "mass", "logprob" or a function of a Drafted')
    if not isinstance(max_draft_tokens, int) or max_draft_tokens < 0:
        raise InputError(f"max_draft_tokens is {max_draft_tokens!r}; expected a number of at least 0")
    if not callable(final_prompt) or not (draft_prompt is None or callable(draft_prompt)):
        raise InputError("draft_prompt and final_prompt are functions: of a prompt, and of a prompt and a draft's text")
    refused = [name for name in _NOT_HERE if options.get(name) not in (None, False)]
    if refused or (getattr(options.get("generation_config"), "num_beams", None) or 1) > 1:
        raise InputError(
            f"draft_then_constrain takes no {', '.join(refused) or 'num_beams'}: the constrained pass is one text for "
            "each draft, always traced; ask for several with k="
        )


def _check_texts(texts: Any, prompts: int, k: int) -> None:
    groups = texts if isinstance(texts, Sequence) and not isinstance(texts, str) else ()
    whole = all(isinstance(g, Sequence) and len(g) == k and all(isinstance(t, str) for t in g) for g in groups)
    if len(groups) != prompts or not whole or any(isinstance(g, str) for g in groups):
        raise InputError(f"drafter returned {texts!r:.100}; expected {k} text(s) for each of {prompts} prompt(s)")


def _as_list(prompts: Any, single: bool, chat: bool | None) -> list[Any]:
    """The prompts, texts made chats where that is asked for."""
    if not single and not isinstance(prompts, Sequence):
        raise InputError(f"prompts is {prompts!r}; expected a text, a chat (a list of messages), or a list of these")
    several = [prompts] if single else list(prompts)
    if chat is False and any(map(is_chat, several)):
        raise InputError("chat=False was given, but a prompt is a chat")
    return [[{"role": "user", "content": one}] if chat and isinstance(one, str) else one for one in several]
