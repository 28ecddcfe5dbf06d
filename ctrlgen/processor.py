"""ControlProcessor: a constraint inside ``model.generate`` of transformers.

transformers hands over all ids and the next logits, and says nothing else: not where the prompt ends, not that beams
changed places, not that a new generation began. What is done about it:

- The prompt is what the first call of a generation brings. A generation is known by the LogitsProcessorList that
  transformers makes for it, which lives exactly as long: what happened in an earlier one cannot leak into this one.
- States are found from the ids: see ``ctrlgen.rows``.
- The mask comes last, and it is -inf exactly.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from ctrlgen.callers import attention_mask, calling_list, check_sampling, is_beam_search
from ctrlgen.closing import check_budget, closing_of
from ctrlgen.constraint import DEAD, Constraint, Specification
from ctrlgen.engine.masks import apply_masks
from ctrlgen.errors import DeadEndError, InputError
from ctrlgen.leaving import Leaving
from ctrlgen.phases import has_free_text
from ctrlgen.rows import ENDED, Rows, follow, start
from ctrlgen.steering.following import Followed, begin
from ctrlgen.steering.following import follow as follow_steerers
from ctrlgen.steering.protocol import Prompts, Steerer, is_final, name_of, steerers_of
from ctrlgen.steering.steps import Stepped, steered, step_divergences
from ctrlgen.vocabulary import Vocabulary

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Measurement(NamedTuple):
    """What one call of a processor found."""

    length: int
    """Number of ids generated so far, in each row."""
    log_mass: torch.Tensor
    """float32[B]: log of the probability of all allowed tokens together, before the mask."""
    seconds: float
    """Time spent following the rows, in the constraint and in the mask, without what measuring itself took."""
    divergences: torch.Tensor | None = None
    """float32[S, B]: of each steerer alone, KL in nats from the model's distribution over allowed tokens."""
    steering_seconds: float = 0.0
    """Time spent in steerers."""
    before: tuple[torch.Tensor, torch.Tensor] | None = None
    """The likeliest tokens of the model: float32[B, k] probabilities and int64[B, k] ids."""
    after: tuple[torch.Tensor, torch.Tensor] | None = None
    """The same after masks and steering."""


class Generation(NamedTuple):
    """A generation under way, as of its last call."""

    thread: int
    owner: weakref.ref[LogitsProcessorList] | None
    prompt: torch.Tensor
    """int64[B, P], a copy on the device where the ids are."""
    rows: Rows
    steering: Followed | None = None


class ControlProcessor(LogitsProcessor):  # type: ignore[misc]
    """Allow each row of a generation only what its constraint does.

        model.generate(**inputs, logits_processor=[ControlProcessor(spec, tokenizer)])

    Works with greedy decoding, sampling, beams, several sequences per prompt, assisted generation, both padding
    sides, any dtype and device. The same object may be used again, and by several threads at once.

    Args:
        constraint: a Specification, a compiled Constraint, None (rows are left alone), or a list of these, one for
            each prompt. The rows that beams or ``num_return_sequences`` make of a prompt share its constraint.
        tokenizer: a tokenizer of transformers; needed, or else ``vocabulary``, to compile specifications.
        vocabulary: instead of ``tokenizer``, e.g. ``Vocabulary.from_tokenizer(tokenizer, model=model)``, which
            knows the end ids of the model's generation config too. The width is read from the logits.
        prompt_length: number of ids that are not part of the text, when this is not what the first call brings, for
            instance to go on with a text that was cut off.
        on_step: called with a Measurement at each call; measuring costs two more passes over the logits.
        likeliest: how many tokens before and after control a Measurement shows, which costs four more passes.
        steer: steerers, whose deltas are added to the log-probabilities of the allowed tokens (``ctrlgen.steering``).
        attention_mask: [N, P], 0 where the prompts are padding, for steerers. By default what transformers passes
            to the model; in a loop of one's own, all ones.
        max_new_tokens: the most ids of a text, the end token included: what ``generate`` is told. Each text is then
            ended in time (``ctrlgen.closing``). Without it, a text that reaches the limit is cut off.
        leaving: who decides that free text is over, beside what it waits for (``ctrlgen.leaving``).

    Raises:
        InputError: arguments that do not fit together.
        BudgetError: at the first call, where ``max_new_tokens`` is too small for a text of the constraint.

    A row for which other processors forbid all that the constraint allows raises DeadEndError; in beam search it is
    left with nothing but -inf, so that the beam is given up. A row that holds a token its constraint refused may only
    end: such rows are drafts about to be rejected, beams of probability zero, or the work of a later processor that
    overrode the mask.
    """

    supports_continuous_batching = False

    def __init__(
        self,
        constraint: Specification | Constraint | Sequence[Specification | Constraint | None] | None,
        tokenizer: Any = None,
        *,
        vocabulary: Vocabulary | None = None,
        prompt_length: int | None = None,
        on_step: Callable[[Measurement], None] | None = None,
        likeliest: int = 0,
        steer: Sequence[Steerer] | None = None,
        attention_mask: torch.Tensor | None = None,
        max_new_tokens: int | None = None,
        leaving: Leaving | None = None,
    ) -> None:
        self._leaving = Leaving() if leaving is None else leaving
        if max_new_tokens is not None and (not isinstance(max_new_tokens, int) or max_new_tokens < 1):
            raise InputError(f"max_new_tokens is {max_new_tokens!r}; expected a number of at least 1")
        self._budget = max_new_tokens
        self._constraints = _checked(constraint)
        self._steerers = steerers_of(steer)
        self._attention_mask = attention_mask
        if prompt_length is not None and (not isinstance(prompt_length, int) or prompt_length < 0):
            raise InputError(f"prompt_length is {prompt_length!r}; expected a number of ids")
        self._prompt_length = prompt_length
        self._on_step, self._likeliest = on_step, likeliest
        self._vocabulary = _vocabulary_for(self._constraints, tokenizer, vocabulary)
        self._compiled: dict[int, tuple[Constraint | None, ...]] = {}
        self._generations: dict[int, Generation] = {}
        if self._steerers and self._vocabulary is None and all(c is None for c in self._constraints):
            raise InputError("steerers need a tokenizer, to know where rows end: ControlProcessor(..., tokenizer)")

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """The scores with -inf wherever the constraint forbids the token.

        Args:
            input_ids: int64[B, T], prompts and what was generated.
            scores: float[B, V], logits or log-probabilities of the next token; not changed.

        Returns:
            float[B, V], a new tensor of the same dtype on the same device.

        Raises:
            DeadEndError: a row has no token left.
            InputError: shapes that do not fit the list of constraints.
        """
        begun = time.perf_counter()
        constraints = self._per_row(*scores.shape)
        key, generation = self._follow(constraints, input_ids, calling_list())
        rows = generation.rows
        left = None if self._budget is None else self._budget - rows.ids.shape[1]
        free = any(map(has_free_text, constraints))
        open_rows = self._leaving.move(constraints, rows, scores, self._budget) if free else ()
        masks = [self._mask(one, path[-1], left) for one, path in zip(constraints, rows.paths, strict=True)]
        for row in open_rows:
            masks[row] = masks[row] | constraints[row].vocabulary.end_row  # type: ignore[operator, union-attr]
        masked = apply_masks(scores, masks)
        if -torch.inf in (best := masked.amax(dim=1).tolist()):
            self._refill(masked, best, scores, constraints, rows, masks)
        seconds = time.perf_counter() - begun
        stepped = self._steer(key, generation, masked) if self._steerers else None
        if self._on_step is not None:
            steering = time.perf_counter() - begun - seconds
            apart = None if stepped is None else step_divergences(stepped)
            one = Measurement(rows.ids.shape[1], log_mass(scores, masked), seconds, apart, steering)
            if self._likeliest:
                last = masked if stepped is None else stepped.scores
                shown = [likeliest_of(each, self._likeliest) for each in (scores, last)]
                one = one._replace(before=shown[0], after=shown[1])
            self._on_step(one)
        return masked if stepped is None else stepped.scores

    def _steer(self, key: int, generation: Generation, masked: torch.Tensor) -> Stepped:
        """One step of the steerers, whose states are kept for the next call."""
        assert generation.steering is not None
        rows, ends = generation.rows, self._ends_from()
        followed = follow_steerers(self._steerers, generation.steering, rows.ids, ends)
        over = np.isin(rows.ids, ends).any(axis=1) | np.array([p[-1] in (DEAD, ENDED) for p in rows.paths])
        stepped = steered(self._steerers, followed, masked, torch.from_numpy(over).to(masked.device))
        self._generations[key] = generation._replace(steering=stepped.followed)
        lost = (stepped.scores == -torch.inf).all(1) & (masked != -torch.inf).any(1)
        if bool(lost.any()) and not is_beam_search():
            self._abandon()
            row = int(lost.nonzero()[0])
            names = ", ".join(name_of(steerer) for steerer in self._steerers)
            raise DeadEndError(f"steering ({names}) forbids every allowed token", row=row, text=self._text(rows, row))
        return stepped

    def _ends_from(self) -> tuple[int, ...]:
        """The ids after which a row is over."""
        known = [c.vocabulary for c in self._constraints if isinstance(c, Constraint)]
        known += [] if self._vocabulary is None else [self._vocabulary]
        return tuple(sorted({end for vocabulary in known for end in vocabulary.eos}))

    def _known_vocabulary(self) -> Vocabulary:
        return self._vocabulary or next(c.vocabulary for c in self._constraints if isinstance(c, Constraint))

    def _text(self, rows: Rows, row: int) -> str:
        return self._known_vocabulary().decode(rows.ids[row].tolist()).decode(errors="replace")

    def _per_row(self, count: int, width: int) -> tuple[Constraint | None, ...]:
        """The constraint of each row; compiled when logits of this width are first seen."""
        compiled = self._compiled.get(width)
        if compiled is None:
            compiled = self._compiled[width] = tuple(_compiled(c, self._vocabulary, width) for c in self._constraints)
        if len(compiled) == count:
            return compiled
        if count % len(compiled):
            raise InputError(
                f"{len(compiled)} constraints for {count} rows: pass one constraint, or a list of one for each prompt"
            )
        return tuple(c for c in compiled for _ in range(count // len(compiled)))

    def _mask(self, constraint: Constraint | None, state: int, left: int | None) -> NDArray[np.uint32] | None:
        if constraint is None:
            return None
        if state < 0:
            return constraint.vocabulary.end_row
        return constraint.mask(state) if left is None else closing_of(constraint).row(constraint, state, left)

    def _follow(
        self, constraints: tuple[Constraint | None, ...], ids: torch.Tensor, owner: LogitsProcessorList | None
    ) -> tuple[int, Generation]:
        """Bring the rows up to ``ids`` and keep them for the next call, under the key that is returned too."""
        # a loop of one's own has no list, and is known by its thread
        key = -threading.get_ident() if owner is None else id(owner)
        known = self._generations.get(key)
        begins = known is None or not self._continues(known, ids, owner)
        if known is None or begins:
            known = self._begun(constraints, ids, owner)
        # a copy, since a caller may use the memory again
        generated = np.array(ids.numpy(force=True)[:, known.prompt.shape[1] :], np.int64)
        drafts = known.rows.ids.shape[1] > 0
        rows = follow(constraints, known.rows, generated)
        if begins and not drafts and self._budget is not None:
            check_budget(constraints, [path[-1] for path in rows.paths], self._budget, rows.ids.shape[1])
        self._generations[key] = known._replace(rows=rows)
        return key, self._generations[key]

    def _continues(self, known: Generation, ids: torch.Tensor, owner: LogitsProcessorList | None) -> bool:
        """Whether this call belongs to the same generation as the last one with the same key."""
        if owner is not None:
            # the list of a generation that is over may have left its id to another
            return known.owner is not None and known.owner() is owner
        return _extends(known, ids)

    def _begun(
        self, constraints: tuple[Constraint | None, ...], ids: torch.Tensor, owner: LogitsProcessorList | None
    ) -> Generation:
        """The start of a generation, or of a draft within one."""
        thread = threading.get_ident()
        length = ids.shape[1] if self._prompt_length is None else min(self._prompt_length, ids.shape[1])
        if owner is not None:
            # assisted generation lets the assistant generate drafts, each with a list that dies before the outer one
            for outer in self._generations.copy().values():
                if outer.thread == thread and outer.owner and outer.owner() and _extends(outer, ids):
                    rows = Rows(outer.rows.ids, [list(path) for path in outer.rows.paths])
                    return outer._replace(owner=self._tied_to(owner), rows=rows)
        prompt = ids[:, :length].clone()
        if owner is not None and self._steerers and is_final(self._steerers[-1]):
            check_sampling(owner, self, name_of(self._steerers[-1]))
        steering = begin(self._steerers, self._prompts(prompt)) if self._steerers else None
        return Generation(thread, self._tied_to(owner), prompt, start(constraints), steering)

    def _prompts(self, ids: torch.Tensor) -> Prompts:
        """The prompts without padding."""
        mask = attention_mask() if self._attention_mask is None else self._attention_mask
        if mask is None:
            mask = torch.ones_like(ids)
        count, length = ids.shape
        if mask.dim() != 2 or mask.shape[1] < length or not mask.shape[0] or count % mask.shape[0]:
            raise InputError(
                f"the attention mask has shape {list(mask.shape)}, which does not fit {count} x {length} ids"
            )
        mask = mask[:, :length].bool().repeat_interleave(count // mask.shape[0], 0)
        pairs = zip(ids.tolist(), mask.tolist(), strict=True)
        rows = tuple(tuple(token for token, seen in zip(*pair, strict=True) if seen) for pair in pairs)
        return Prompts(rows, ids.device, self._known_vocabulary())

    def _tied_to(self, owner: LogitsProcessorList | None) -> weakref.ref[LogitsProcessorList] | None:
        """A reference that takes the rows with it when it dies."""
        if owner is None:
            return None
        generations, key = self._generations, id(owner)

        def forget(dead: weakref.ref[LogitsProcessorList]) -> None:
            if key in generations and generations[key].owner is dead:
                del generations[key]

        return weakref.ref(owner, forget)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_generations": {}, "_compiled": {}}  # generations under way belong to this process

    def _refill(
        self,
        masked: torch.Tensor,
        best: Sequence[float],
        scores: torch.Tensor,
        constraints: tuple[Constraint | None, ...],
        rows: Rows,
        masks: Sequence[NDArray[np.uint32] | None],
    ) -> None:
        """See to the rows in which nothing but -inf is left, so that no NaN can come of them."""
        for row, (constraint, path) in enumerate(zip(constraints, rows.paths, strict=True)):
            if best[row] != -torch.inf or constraint is None:
                continue
            if path[-1] < 0:
                masked[row, list(constraint.vocabulary.eos)] = 0.0  # over: what is chosen here goes unused
            elif not is_beam_search():
                self._abandon()
                raise dead_end(row, constraint, path[-1], masks[row], scores[row], rows.ids[row].tolist())

    def _abandon(self) -> None:
        """Forget the generations of this thread: a traceback can keep them alive when they are over."""
        for key, generation in self._generations.copy().items():
            if generation.thread == threading.get_ident():
                self._generations.pop(key, None)


def _extends(known: Generation, ids: torch.Tensor) -> bool:
    """Whether ``ids`` can come next: the same prompts, and at most one id more than before."""
    count, length = known.prompt.shape
    return (
        ids.shape[0] == count
        and length <= ids.shape[1] <= length + known.rows.ids.shape[1] + 1
        and torch.equal(ids[:, :length], known.prompt.to(ids.device))
    )


def likeliest_of(scores: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """float32[B, k] probabilities and int64[B, k] ids of the likeliest tokens, falling."""
    log_p, tokens = scores.float().log_softmax(1).topk(min(count, scores.shape[1]), 1)
    return log_p.exp().nan_to_num(nan=0.0), tokens


def log_mass(scores: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
    """Log of the share of probability that a mask leaves, per row.

    Args:
        scores: float[B, V] before the mask.
        masked: float[B, V] after it.

    Returns:
        float32[B], at most 0; on the same device.
    """
    left = masked.float().logsumexp(dim=1) - scores.float().logsumexp(dim=1)
    return left.clamp(max=0.0).nan_to_num(nan=-torch.inf, neginf=-torch.inf)


def _checked(constraint: object) -> tuple[Specification | Constraint | None, ...]:
    """One constraint, or one for each prompt."""
    several: list[Any] = list(constraint) if isinstance(constraint, (list, tuple)) else [constraint]
    if not several:
        raise InputError("the list of constraints is empty; pass one for each prompt, or None to leave rows alone")
    for one in several:
        if one is not None and not isinstance(one, (Constraint, Specification)):
            raise InputError(
                f"constraint is {one!r}; expected a specification such as ctrlgen.Regex(...), what its compile() "
                "returns, None, or a list of these"
            )
    return tuple(several)


def _vocabulary_for(
    constraints: Sequence[Specification | Constraint | None], tokenizer: Any, vocabulary: Vocabulary | None
) -> Vocabulary | None:
    if vocabulary is not None:
        return vocabulary
    if tokenizer is not None:
        return vocabulary_of(tokenizer)
    if any(c is not None and not isinstance(c, Constraint) for c in constraints):
        raise InputError("a specification needs a tokenizer: ControlProcessor(spec, tokenizer)")
    return None


def _compiled(
    constraint: Specification | Constraint | None, vocabulary: Vocabulary | None, width: int
) -> Constraint | None:
    if constraint is None:
        return None
    if isinstance(constraint, Constraint):
        if constraint.vocabulary.width > width:
            raise InputError(
                f"the constraint was compiled for logits of width {constraint.vocabulary.width}, these have {width}; "
                f"compile it with vocabulary.with_width({width}), or pass the specification itself"
            )
        return constraint
    if vocabulary is None:
        raise InputError("a specification needs a tokenizer: ControlProcessor(spec, tokenizer)")
    return constraint.compile(vocabulary.with_width(width))


_VOCABULARIES: weakref.WeakKeyDictionary[Any, dict[object, Vocabulary]] = weakref.WeakKeyDictionary()


def vocabulary_of(tokenizer: Any, model: Any = None) -> Vocabulary:
    """``Vocabulary.from_tokenizer``, remembered for as long as the tokenizer lives and keeps its tokens.

    Raises:
        VocabularyError: the tokenizer cannot be turned into bytes, or no end token is known.
    """
    try:
        known = _VOCABULARIES.setdefault(tokenizer, {})
    except TypeError:  # a path, or an object that cannot be referred to weakly
        return Vocabulary.from_tokenizer(tokenizer, model=model)
    configs = [getattr(model, name, None) for name in ("config", "generation_config")]
    ends = [getattr(one, "eos_token_id", None) for one in (tokenizer, *configs)]
    key = (_size(tokenizer), repr(ends), getattr(configs[0], "vocab_size", None))
    if key not in known:
        known[key] = Vocabulary.from_tokenizer(tokenizer, model=model)
    return known[key]


def _size(tokenizer: Any) -> int:
    return len(tokenizer) if hasattr(tokenizer, "__len__") else -1


def dead_end(
    row: int,
    constraint: Constraint,
    state: int,
    mask: NDArray[np.uint32] | None,
    scores: torch.Tensor,
    generated: Sequence[int],
) -> DeadEndError:
    """Say whose fault it is: ours can only be an empty mask."""
    bits = np.unpackbits((constraint.mask(state) if mask is None else mask).view(np.uint8), bitorder="little")
    allowed: list[int] = np.flatnonzero(bits).tolist()
    text = constraint.vocabulary.decode(generated).decode(errors="replace")
    if not allowed:
        message = f"{type(constraint).__name__} allows no token in state {state}"
    elif bool((scores == -torch.inf).all()):
        message = "all scores were -inf already before the constraint: look at the model and at other processors"
    elif set(allowed) <= set(constraint.vocabulary.eos):
        message = (
            "the text is complete, but the end tokens had been set to -inf: likely min_new_tokens, min_length, "
            "suppress_tokens or a processor placed before this one"
        )
    else:
        shown = ", ".join(repr(constraint.vocabulary.decode([token])) for token in allowed[:5])
        message = (
            f"the constraint allows {len(allowed)} token(s) ({shown}{', ...' if len(allowed) > 5 else ''}), but all of "
            "them had been set to -inf: likely bad_words_ids, suppress_tokens, no_repeat_ngram_size, min_new_tokens "
            "or a processor placed before this one"
        )
    return DeadEndError(message, row=row, text=text)
