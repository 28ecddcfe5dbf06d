"""What ``generate`` hands back, and how it is read from the ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from ctrlgen.closing import may_be_cut
from ctrlgen.constraint import DEAD, Constraint, Specification
from ctrlgen.constraints.combined import Combinable
from ctrlgen.constraints.marked import Marked
from ctrlgen.errors import CtrlgenError, DeadEndError
from ctrlgen.phases import replayed
from ctrlgen.rows import ENDED, FREE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    import torch

    from ctrlgen.phases import Left
    from ctrlgen.processor import Measurement
    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Step:
    """One generated token."""

    token: int
    log_mass: float | None
    """Log of the probability that the model gave to all allowed tokens together; None without a constraint."""
    seconds: float
    """Time in constraints and masks, for all rows of the batch together."""
    divergences: tuple[float, ...] = ()
    """Of each steerer alone: KL in nats from the model's distribution over the allowed tokens."""
    before: tuple[tuple[int, float], ...] = ()
    """With ``likeliest``: the model's likeliest tokens and their probabilities."""
    after: tuple[tuple[int, float], ...] = ()
    """The same after masks and steering."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What control cost, in probability and in time."""

    steps: tuple[Step, ...]
    mask_seconds: float
    """All the time in constraints and masks: every row, drafts and lost beams included."""
    total_seconds: float
    """The time in ``model.generate``."""
    steering_seconds: float = 0.0
    """All the time in steerers."""
    forced: int = 0
    """With ``fast_forward``, tokens of this text that took no forward pass of their own."""
    passes: int | None = None
    """With ``fast_forward``, forward passes until this text was done, the one over the prompt included."""
    steerers: tuple[str, ...] = ()
    """What the steerers are called."""
    pieces: Mapping[int, str] = field(default_factory=dict, repr=False)
    """The text of each token that occurs above."""

    def to_html(self, path: str | Path) -> None:
        """Write a page that shows each token with the mass removed, the KL and the alternatives."""
        from ctrlgen.flows.trace_page import write_page

        write_page(path, [self])

    @property
    def mask_share(self) -> float:
        """The part of the time that went into constraints and masks, from 0 to 1."""
        return self.mask_seconds / self.total_seconds if self.total_seconds else 0.0

    @property
    def log_mass(self) -> float:
        """Sum over the steps: log of the probability the mask let through; 0 means it never got in the way."""
        return sum(one.log_mass for one in self.steps if one.log_mass is not None)

    @property
    def projection_tax(self) -> float:
        """Sum over the steps: -log of the probability the mask let through; 0 means it never got in the way."""
        return 0.0 - self.log_mass


@dataclass(frozen=True, slots=True)
class Result:
    """One generated text."""

    text: str
    """What was generated, without the prompt and the end token."""
    value: object
    """What ``parse`` of the specification makes of the text; None if it is incomplete or nothing can parse it."""
    finished: bool
    """The text ended with an end token, where the constraint lets it end; False if it was cut off."""
    token_ids: tuple[int, ...]
    """The ids generated, with the end token, without padding."""
    complete: bool
    """The text satisfies the constraint as it stands: it is finished, or was cut off where free text may be."""
    trace: Trace | None = field(default=None, repr=False)
    """None if ``trace=False`` was asked for."""
    alternatives: tuple[Result, ...] = ()
    """With ``num_return_sequences``, the other results for the same prompt, in the order of transformers."""
    problem: str | None = None
    """Why a complete text has no value: a Python type may refuse what its JSON Schema admits, by validators say."""


class Reading(NamedTuple):
    """What is needed to read rows of ids."""

    vocabulary: Vocabulary
    ends: Collection[int]
    pad: int
    measured: Sequence[Measurement] | None
    seconds: float
    beams: bool
    left: Sequence[Left] = ()
    """Free texts that were left by decision."""
    budget: int | None = None
    """``max_new_tokens``, where it ends texts in time."""
    steerers: tuple[str, ...] = ()
    """What the steerers are called."""
    traced: Callable[[int, int, float], Trace] | None = None
    """For a decoding loop that traces by itself: from a row, the number of its ids and the seconds it all took."""


def read_prompt(
    reading: Reading,
    index: int,
    given: Specification | Constraint | None,
    compiled: Constraint | None,
    rows: Sequence[tuple[int, list[int], list[int] | None]],
) -> Result:
    """The results for one prompt, the first with the others as its alternatives.

    Args:
        reading: how to read.
        index: of the prompt, for messages.
        given: what the user passed.
        compiled: the constraint made of it.
        rows: of each sequence its row in the batch, its ids, and the row of the batch each id came from (beams).

    Raises:
        DeadEndError: no row satisfies the constraint.
    """
    found: list[Result] = []
    for number, row, beam in rows:
        ids = _trimmed(row, reading)
        left = [(one.place, one.swallowed) for one in reading.left if one.row == number]
        state, swallowed = replayed(compiled, ids, left, reading.budget)
        lost = state == DEAD or not ids
        if lost and not reading.beams:
            raise _overridden(index, reading, ids)
        if lost or (reading.beams and any(one.token_ids == ids for one in found)):
            continue  # beam search fills up with beams of probability zero when there are too few texts
        finished = bool(ids) and ids[-1] in reading.ends and state in (ENDED, FREE)
        complete = finished or state == FREE or _may_stop(compiled, state)
        text = reading.vocabulary.decode(ids).decode(errors="replace")
        marked = (ids, swallowed, reading.vocabulary)
        value, problem = _value(given, text, marked) if complete else (None, None)
        trace = _trace(reading, ids, compiled, number, beam)
        found.append(Result(text, value, finished, ids, complete, trace, problem=problem))
    if not found:
        raise _overridden(index, reading, _trimmed(rows[0][1], reading))
    return replace(found[0], alternatives=tuple(found[1:]))


def _may_stop(constraint: Constraint | None, state: int) -> bool:
    """Whether a text that was cut off is whole."""
    return constraint is not None and state >= 0 and may_be_cut(constraint) and constraint.accepts(state)


def _value(
    given: object, text: str, marked: tuple[Sequence[int], Sequence[int], Vocabulary]
) -> tuple[object, str | None]:
    """What the specification makes of a text, or why it makes nothing of it."""
    parse = getattr(given, "parse", None)
    if parse is None:
        return None, None
    try:
        if isinstance(given, Combinable):
            return given.parse_marked(Marked.of(*marked)), None
        return parse(text), None
    except (ValueError, ArithmeticError, CtrlgenError) as error:  # pydantic's ValidationError is a ValueError
        return None, str(error)


def _trimmed(row: Sequence[int], reading: Reading) -> tuple[int, ...]:
    """The ids up to the first end token; without one, less the padding that follows another kind of stop."""
    for i, token in enumerate(row):
        if token in reading.ends:
            return tuple(row[: i + 1])
    last = len(row)
    while last and row[last - 1] == reading.pad and not reading.vocabulary.decode([reading.pad]):
        last -= 1
    return tuple(row[:last])


def _trace(
    reading: Reading, ids: Sequence[int], constraint: Constraint | None, row: int, beam: Sequence[int] | None
) -> Trace | None:
    if reading.traced is not None:
        traced = reading.traced(row, len(ids), reading.seconds)
        return replace(traced, pieces=_pieces(reading, traced.steps))
    if reading.measured is None:
        return None
    # of several calls at one length, the last is the one that counted: those before were drafts
    at = {one.length: one for one in reading.measured}
    steps = []
    for i, token in enumerate(ids):
        one = at.get(i)
        place = row if beam is None else beam[i]
        mass = None if one is None or constraint is None or place < 0 else float(one.log_mass[place])
        apart: tuple[float, ...] = ()
        if one is not None and one.divergences is not None and place >= 0:
            apart = tuple(one.divergences[:, place].tolist())
        shown = [_shown(each, place) for each in ((None, None) if one is None else (one.before, one.after))]
        steps.append(Step(token, mass, 0.0 if one is None else one.seconds, apart, *shown))
    seconds, steering = (
        sum(getattr(one, name) for one in reading.measured) for name in ("seconds", "steering_seconds")
    )
    pieces = _pieces(reading, steps)
    return Trace(tuple(steps), seconds, reading.seconds, steering, steerers=reading.steerers, pieces=pieces)


def _shown(likeliest: tuple[torch.Tensor, torch.Tensor] | None, place: int) -> tuple[tuple[int, float], ...]:
    if likeliest is None or place < 0:
        return ()
    p, tokens = likeliest
    return tuple(zip(tokens[place].tolist(), p[place].tolist(), strict=True))


def _pieces(reading: Reading, steps: Sequence[Step]) -> dict[int, str]:
    tokens = {token for one in steps for token in (one.token, *(t for t, _ in (*one.before, *one.after)))}
    return {token: reading.vocabulary.decode([token]).decode(errors="replace") for token in sorted(tokens)}


def _overridden(index: int, reading: Reading, ids: Sequence[int]) -> DeadEndError:
    text = reading.vocabulary.decode(ids).decode(errors="replace")
    if reading.beams:
        message = "beam search ended without a text that satisfies the constraint; other processors forbid all of them"
    else:
        message = "a token was chosen that the constraint had forbidden; a processor or warper must have overridden it"
    return DeadEndError(message, row=index, text=text)
