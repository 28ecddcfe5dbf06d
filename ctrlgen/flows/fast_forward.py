"""The decoding loop of ``generate(..., fast_forward=True)``: the model is not asked for what the constraint forces.

Between two forward passes, everything that the constraint leaves no choice about is appended to each row (see
``fast_forward_tokens``), and read by the model together with the token it chose last. With ``fast_forward="verify"``
forced tokens are drafts only: each is kept if the model chooses it too, so that ids and distribution are those of the
slow path. It is handed to ``model.generate`` of transformers as ``custom_generate``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessor
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria
from transformers.generation.utils import GenerateDecoderOnlyOutput

from ctrlgen.closing import closing_of
from ctrlgen.constraint import DEAD, Constraint
from ctrlgen.engine.masks import apply_masks
from ctrlgen.errors import DeadEndError, InputError
from ctrlgen.flows.fast_forward_reading import CACHE_NAMES, Reader, check_model, empty_cache, is_ragged
from ctrlgen.flows.fast_forward_tokens import Forcing
from ctrlgen.flows.results import Step, Trace
from ctrlgen.phases import in_time, may_swallow
from ctrlgen.processor import dead_end, log_mass
from ctrlgen.rows import ENDED, FREE, step

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from transformers.generation.streamers import BaseStreamer

    from ctrlgen.vocabulary import Vocabulary

_INDIFFERENT = frozenset(
    f"{name}LogitsWarper" for name in ("Temperature", "TopK", "TopP", "MinP", "TopH", "Typical", "Epsilon", "Eta")
)
"""Processors that look at the scores alone, not at the ids so far."""

NOT_FORWARD = ("assistant_model", "prompt_lookup_num_tokens", "custom_generate", "penalty_alpha", "dola_layers")
"""Options of other decoding loops."""


@dataclass(slots=True)
class _Row:
    """A text under way."""

    number: int
    constraint: Constraint | None
    state: int
    prompt: list[int]
    given: list[int]
    """The prompt as it was passed, padding included."""
    ids: list[int] = field(default_factory=list)
    masses: list[float | None] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    """Forced tokens that the model is to confirm."""
    states: list[int] = field(default_factory=list)
    """Before each of them, and after the last."""
    forced: int = 0
    done: bool = False


class Masking(LogitsProcessor):  # type: ignore[misc]
    """Stands among the processors where the mask belongs; told before each call what it is to mask."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self.measure = True
        self.places: list[tuple[_Row, int, int]] = []
        """Of each row of scores the text, the state there, and how many ids it has before."""
        self.masses: list[float | None] = []
        self.seconds = 0.0

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """float[R, V], ``scores`` with everything -inf that the constraint of a place forbids."""
        begun = time.perf_counter()
        rows = [self._row(*place) for place in self.places]
        masked = apply_masks(scores, rows)
        for i, best in enumerate(masked.amax(dim=1).tolist()):
            row, state, _ = self.places[i]
            if best == -torch.inf and row.constraint is not None:
                raise dead_end(row.number, row.constraint, state, rows[i], scores[i], row.ids)
        self.seconds += time.perf_counter() - begun
        free = [one is None for one in rows]
        masses = log_mass(scores, masked).tolist() if self.measure else [None] * len(rows)
        self.masses += [None if no else mass for no, mass in zip(free, masses, strict=True)]
        return masked

    def _row(self, row: _Row, state: int, count: int) -> NDArray[np.uint32] | None:
        if row.constraint is None:
            return None
        return closing_of(row.constraint).row(row.constraint, state, self._budget - count)


class FastForward:
    """What ``custom_generate`` is given; one for a generation.

    Args:
        constraints: one for each row of the batch as it was passed to ``model.generate``, or None.
        forcing: finds forced tokens.
        budget: most ids of a row.
        verify: keep a forced token only where the model chooses it too.
    """

    def __init__(
        self, constraints: Sequence[Constraint | None], forcing: Forcing, budget: int, *, verify: bool
    ) -> None:
        self._constraints, self._forcing, self._budget, self._verify = constraints, forcing, budget, verify
        self.masking = Masking(budget)
        """Belongs among the processors, as the last."""
        self._streamer: BaseStreamer | None = None
        self._rows: list[_Row] = []
        self._passes: dict[int, int] = {}

    def streaming(self, streamer: BaseStreamer | None, *, measure: bool) -> FastForward:
        """This, which hands ids to a streamer as they come (one row only), and measures steps or not."""
        self._streamer, self.masking.measure = streamer, measure
        return self

    def __call__(
        self,
        model: Any,
        input_ids: torch.Tensor,
        *,
        logits_processor: Any,
        stopping_criteria: Any,
        generation_config: Any,
        **more: Any,
    ) -> GenerateDecoderOnlyOutput:
        """Decode, as ``GenerationMixin._sample`` does; called by transformers with all prepared."""
        self._processors, self._config = logits_processor, generation_config
        own = (MaxLengthCriteria, EosTokenCriteria)
        self._criteria = [one for one in stopping_criteria if not isinstance(one, own)]
        self._ends = set(generation_config._eos_token_tensor.tolist())
        self._indifferent = all(type(one).__name__ in _INDIFFERENT or one is self.masking for one in logits_processor)
        caches = [more.pop(name, None) for name in CACHE_NAMES]
        cache = next((one for one in caches if one is not None), None) if more.get("use_cache", True) else None
        more = {name: more[name] for name in more if name not in ("position_ids", "logits_to_keep", "use_cache")}
        shown = more.pop("attention_mask", None)
        check_model(model, cache)
        each = len(input_ids) // len(self._constraints)
        self._rows = [
            self._row(i, self._constraints[i // each], _real(ids, None if shown is None else shown[i]), ids.tolist())
            for i, ids in enumerate(input_ids)
        ]
        self._passes = {row.number: 0 for row in self._rows}
        self._length = min(self._budget, generation_config.max_length - input_ids.shape[1])
        self._decode(model, cache, more)
        if self._streamer is not None:
            self._streamer.end()
        return GenerateDecoderOnlyOutput(sequences=self._sequences(input_ids))

    def trace(self, row: int, count: int, seconds: float) -> Trace:
        """What happened in a row of which ``count`` ids count."""
        one = self._rows[row]
        steps = [Step(*found) for found in zip(one.ids[:count], one.masses, one.seconds, strict=False)]
        return Trace(tuple(steps), self.masking.seconds, seconds, forced=one.forced, passes=self._passes[row])

    def _row(self, number: int, constraint: Constraint | None, prompt: list[int], given: list[int]) -> _Row:
        state = FREE if constraint is None else constraint.start
        return _Row(number, constraint, state, prompt, given, unread=list(prompt))

    def _decode(self, model: Any, cache: Any, more: dict[str, Any]) -> None:
        if len(self._rows) == 1 or is_ragged(model, cache):
            self._run(self._rows, Reader(model, len(self._rows), cache, more))
            return
        for row in self._rows:  # padding within a row would be seen
            own = None if cache is None else empty_cache(model)
            self._run([row], Reader(model, 1, own, more))

    def _run(self, rows: list[_Row], reader: Reader) -> None:
        """Decode some rows to their ends."""
        while True:
            for row in rows:
                if not row.done:
                    self._force(row)
            if all(row.done for row in rows):
                break
            self._choose(rows, reader)

    def _force(self, row: _Row) -> None:
        """Append what is certain, or note it as drafts to be confirmed."""
        if row.constraint is None or row.state < 0:
            return
        begun = time.perf_counter()
        before = [*row.prompt[-16:], *row.ids][-16:]
        row.state = self._in_time(row.constraint, row.state, len(row.ids))
        found = self._forcing.tokens(row.constraint, row.state, before, self._budget - len(row.ids), self._budget)
        taken = time.perf_counter() - begun
        self.masking.seconds += taken
        if self._verify:
            row.drafts, row.states = list(found.ids), [row.state, *found.states]
            return
        for token in found.ids:
            self._append(row, token, None, taken / len(found.ids))
            row.forced += 1
            if row.done:
                return

    def _choose(self, rows: list[_Row], reader: Reader) -> None:
        """One forward pass, and what comes of it in each row."""
        new = [[] if row.done else self._to_read(row) for row in rows]
        wanted = [0 if row.done else 1 + len(row.drafts) - self._closes(row) for row in rows]
        logits = reader.read(new, max(wanted))
        self._passes |= {row.number: self._passes[row.number] + 1 for row in rows if not row.done}
        places = [(row, i) for row, count in zip(rows, wanted, strict=True) for i in range(count)]
        picked = [(b, logits.shape[1] - count + i) for b, count in enumerate(wanted) for i in range(count)]
        scores = logits[[b for b, _ in picked], [column for _, column in picked]].float()
        begun = self.masking.seconds
        chosen, masses = self._chosen(places, scores)
        seconds = (self.masking.seconds - begun) / len(rows)
        at = 0
        for b, (row, count) in enumerate(zip(rows, wanted, strict=True)):
            if not row.done:
                fed, drafts = len(new[b]) - len(row.unread), row.drafts
                row.unread, row.drafts = [], []
                kept = self._confirm(row, drafts, chosen[at : at + count], masses[at : at + count], seconds)
                reader.forget(b, max(0, fed - kept))
                row.unread = row.unread[min(kept, fed) :]
            at += count

    def _to_read(self, row: _Row) -> list[int]:
        """What the row has not read, and the drafts that lead to further logits."""
        return row.unread + row.drafts[: len(row.drafts) - self._closes(row)]

    def _closes(self, row: _Row) -> int:
        """1 if nothing can follow the last draft, so that it need not be read."""
        if not row.drafts:
            return 0
        return int(row.drafts[-1] in self._ends or len(row.ids) + len(row.drafts) >= self._length)

    def _confirm(
        self, row: _Row, drafts: list[int], chosen: list[int], masses: list[float | None], seconds: float
    ) -> int:
        """Append what was chosen, as long as the drafts were right; returns how many were."""
        for i, (token, mass) in enumerate(zip(chosen, masses, strict=True)):
            right = i < len(drafts) and token == drafts[i]
            row.forced += right
            self._append(row, token, mass, seconds)
            if row.done or not right:
                return i + right
        return len(drafts)

    def _append(self, row: _Row, token: int, mass: float | None, seconds: float) -> None:
        row.state = step(row.constraint, self._in_time(row.constraint, row.state, len(row.ids)), token)
        row.ids.append(token)
        row.unread.append(token)
        row.masses.append(mass)
        row.seconds.append(seconds)
        if row.state == DEAD:
            text = self._forcing.text(row.ids)
            raise DeadEndError(
                "a token was chosen that the constraint had forbidden; a processor or warper must have overridden it",
                row=row.number,
                text=text,
            )
        if self._streamer is not None:
            self._streamer.put(torch.tensor([token]))
        row.done = row.state == ENDED or token in self._ends or len(row.ids) >= self._length or self._stops(row)

    def _stops(self, row: _Row) -> bool:
        """Whether a stopping criterion other than length and end tokens is met."""
        if not self._criteria:
            return False
        ids = self._in_batch(row, row.ids, torch.device("cpu"))
        said = [torch.as_tensor(one(ids, None)).expand(len(self._rows)) for one in self._criteria]
        return any(bool(one[row.number]) for one in said)

    def _in_batch(self, row: _Row, ids: Sequence[int], device: torch.device) -> torch.Tensor:
        """int64[B, n]: a row as often as there are rows, for what knows rows by their place in the batch."""
        return torch.tensor([[*row.given, *ids]], device=device).repeat(len(self._rows), 1)

    def _chosen(self, places: list[tuple[_Row, int]], scores: torch.Tensor) -> tuple[list[int], list[float | None]]:
        """The tokens that greedy decoding or sampling takes, and the log-mass of each mask."""
        self.masking.masses = []
        if self._indifferent:
            ids = torch.zeros(len(places), 1, dtype=torch.int64, device=scores.device)
            scores = self._processed(places, ids, scores)
        else:
            scores = torch.cat([self._one_processed(*place, scores[i]) for i, place in enumerate(places)])
        if self._config.do_sample:
            tokens = torch.multinomial(scores.softmax(-1), 1)[:, 0]
        else:
            tokens = scores.argmax(-1)
        return tokens.tolist(), self.masking.masses

    def _one_processed(self, row: _Row, ahead: int, scores: torch.Tensor) -> torch.Tensor:
        """float[1, V]: what processors that look at the ids make of one row."""
        kept, count = list(self.masking.masses), len(self._rows)
        ids = self._in_batch(row, [*row.ids, *row.drafts[:ahead]], scores.device)
        done = self._processed([(row, ahead)] * count, ids, scores.repeat(count, 1))
        self.masking.masses = [*kept, self.masking.masses[len(kept) + row.number]]
        return done[row.number, None]

    def _processed(self, places: list[tuple[_Row, int]], ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        self.masking.places = [
            (row, self._in_time(row.constraint, row.states[ahead] if row.drafts else row.state, count), count)
            for row, ahead in places
            for count in [len(row.ids) + ahead]
        ]
        done: torch.Tensor = self._processors(ids, scores)
        return done

    def _in_time(self, constraint: Constraint | None, state: int, count: int) -> int:
        """The state, or that of a free text left because of the budget."""
        return in_time(constraint, state, self._budget - count, self._budget)

    def _sequences(self, input_ids: torch.Tensor) -> torch.Tensor:
        """int64[B, P + n], filled up on the right."""
        pad = self._config._pad_token_tensor
        fill = next(iter(self._ends)) if pad is None else int(pad)
        longest = max(len(row.ids) for row in self._rows)
        made = [row.ids + [fill] * (longest - len(row.ids)) for row in self._rows]
        return torch.cat([input_ids, torch.tensor(made, device=input_ids.device)], 1)


def fast_forward_loop(
    wanted: object,
    compiled: Sequence[Constraint | None],
    language: tuple[Vocabulary, Any],
    budget: int,
    controlled: Mapping[str, bool],
    options: Mapping[str, Any],
) -> FastForward | None:
    """The loop that appends what is certain; None where no row has a constraint.

    Args:
        wanted: True or "verify".
        compiled: a constraint for each prompt, or None.
        language: vocabulary and tokenizer.
        budget: ``max_new_tokens``.
        controlled: what does not go with it, by name, and whether it was asked for.
        options: those of ``model.generate``.

    Raises:
        InputError: something was asked for that takes a loop of its own, or sees every step.
    """
    if wanted is not True and wanted != "verify":
        raise InputError(f'fast_forward is {wanted!r}; expected False, True or "verify"')
    others = [name for name, given in controlled.items() if given]
    if others := others + [name for name in NOT_FORWARD if options.get(name) not in (None, False)]:
        raise InputError(f"fast_forward decodes greedily or samples, and does not go with {', '.join(others)}")
    if any(may_swallow(one) for one in compiled):
        raise InputError("fast_forward does not go with a constraint that goes on where the model would end (EOS)")
    if all(one is None for one in compiled):
        return None
    return FastForward(compiled, Forcing(*language), budget, verify=wanted == "verify")


def _real(ids: torch.Tensor, shown: torch.Tensor | None) -> list[int]:
    """The ids of a prompt without padding."""
    kept: list[int] = (ids if shown is None else ids[shown.bool()]).tolist()
    return kept
