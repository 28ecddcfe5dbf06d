"""Who decides, while tokens are drawn, that a free text is over: the model that would end, or a brake.

ControlProcessor(spec, tokenizer, leaving=Leaving(temperature=0.7))
ctrlgen.generate(..., brake=Brake(threshold=0.25))
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from ctrlgen.callers import is_beam_search
from ctrlgen.errors import InputError
from ctrlgen.phases import Left, in_time, waits_for_end

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.rows import Rows

    Constraints = Sequence[Constraint | None]


SENTENCE_ENDS = (".", "!", "?", "\n")


class Brake:
    """Leaves a free text at the end of a sentence where the model is nearly ready to leave it itself.

    It is left if log p(likeliest token) - log p(first token of what the text waits for) < threshold. Of a text that
    waits for the end token, that is the likelihood of the end token.

    Args:
        threshold: in nats; 0 never leaves before the model does.
        after: what a token must end with for a sentence to be over.
        least: fewest tokens of a row before it is asked.

    Reference: ThinkBrake (see docs/phases.md).
    """

    def __init__(self, threshold: float = 0.25, *, after: Sequence[str] = SENTENCE_ENDS, least: int = 0) -> None:
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or not threshold >= 0:
            raise InputError(f"threshold is {threshold!r}; expected a number of nats, 0 or more")
        if isinstance(least, bool) or not isinstance(least, int) or least < 0:
            raise InputError(f"least is {least!r}; expected a number of tokens")
        self.threshold, self.least = float(threshold), least
        self.after = tuple(text.encode() for text in ([after] if isinstance(after, str) else after))
        if not self.after or not all(self.after):
            raise InputError("after must name at least one text, none of them empty")

    def rows(self, constraints: Constraints, rows: Rows, scores: torch.Tensor) -> list[int]:
        """The rows whose free text is to be left now; scores: float[B, V] of the next token."""
        count = rows.ids.shape[1]
        if count < max(self.least, 1):
            return []
        found = []
        for row, (constraint, path) in enumerate(zip(constraints, rows.paths, strict=True)):
            if constraint is None or path[-1] < 0 or not hasattr(constraint, "way_out"):
                continue
            tokens, last = constraint.vocabulary.tokens, int(rows.ids[row, -1])
            text = (tokens[last] if last < len(tokens) else None) or b""
            if text.rstrip(b" ").endswith(self.after) and (ways := constraint.way_out(path[-1])):
                gap = scores[row].max() - scores[row, list(ways)].max()
                if float(gap) < self.threshold:
                    found.append(row)
        return found


class Leaving:
    """Moves the rows of a generation on whose free text is over.

    Args:
        temperature: how tokens are drawn after the processor, 0 for greedily. Needed where free text waits for the end
            token (EOS): whether the model would end is then drawn here, with the probability that the end tokens have
            among all that may come. Top-k and top-p, which come later, are not looked at: with these, use
            ``ctrlgen.generate``, which draws the token itself.
        brake: leaves free text early.
        on_leave: called with a Left at each decision.
    """

    def __init__(
        self,
        temperature: float | None = None,
        *,
        brake: Brake | None = None,
        on_leave: Callable[[Left], object] | None = None,
    ) -> None:
        if temperature is not None and not (isinstance(temperature, (int, float)) and temperature >= 0):
            raise InputError(f"temperature is {temperature!r}; expected a number, 0 for greedy")
        self.temperature, self.brake, self._on_leave = temperature, brake, on_leave

    def move(self, constraints: Constraints, rows: Rows, scores: torch.Tensor, budget: int | None) -> tuple[int, ...]:
        """Put the last states of the rows on; the rows whose end tokens are to be let through.

        Args:
            constraints: B of them.
            rows: B rows; the last states are replaced in place.
            scores: float[B, V] of the next token.
            budget: most ids of a row.
        """
        left = None if budget is None else budget - rows.ids.shape[1]
        for constraint, path in zip(constraints, rows.paths, strict=True):
            path[-1] = in_time(constraint, path[-1], left, budget)
        if self.brake is not None:
            for row in self.brake.rows(constraints, rows, scores):
                self.decide(constraints, rows, row, swallowed=False)
        waiting = [row for row, path in enumerate(rows.paths) if waits_for_end(constraints[row], path[-1])]
        if waiting and is_beam_search():
            raise InputError("beam search cannot go on where the model would end (EOS); decode greedily or sample")
        return self._ends(constraints, rows, scores, waiting)

    def decide(self, constraints: Constraints, rows: Rows, row: int, *, swallowed: bool) -> None:
        """Leave the free text of a row."""
        constraint, path = constraints[row], rows.paths[row]
        path[-1] = constraint.leave(path[-1]) if swallowed else constraint.hurry(path[-1])  # type: ignore[union-attr]
        if self._on_leave is not None:
            self._on_leave(Left(row, rows.ids.shape[1], swallowed))

    def _ends(
        self, constraints: Constraints, rows: Rows, scores: torch.Tensor, waiting: Sequence[int]
    ) -> tuple[int, ...]:
        """Draw which of the waiting rows would end; none is let through."""
        if waiting and self.temperature is None:
            raise InputError(
                "the constraint goes on where the model would end (EOS), so whether it would must be drawn: pass "
                "leaving=Leaving(temperature=...), 0 for greedy decoding, or use ctrlgen.generate"
            )
        for row in waiting:
            constraint = constraints[row]
            allowed = _open(constraint, rows.paths[row][-1], scores.shape[1])  # type: ignore[arg-type]
            row_scores = scores[row].float().masked_fill(~allowed.to(scores.device), -torch.inf)
            ends = list(constraint.vocabulary.eos)  # type: ignore[union-attr]
            if self.temperature:
                share = (row_scores / self.temperature).softmax(0)[ends].sum()
                ended = bool(np.random.default_rng([number_from_state(scores.device), row]).random() < float(share))
            else:
                ended = bool(row_scores.argmax() in ends)
            if ended:
                self.decide(constraints, rows, row, swallowed=True)
        return ()


def _open(constraint: Constraint, state: int, width: int) -> torch.Tensor:
    """bool[width]: what may come in a free text, the end tokens with it."""
    bits = np.zeros(width, bool)
    row = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")[: constraint.vocabulary.width]
    bits[: len(row)] = row
    bits[list(constraint.vocabulary.eos)] = True
    return torch.from_numpy(bits)


def state_of_random_numbers(device: torch.device) -> torch.Tensor:
    """The state of the generator that torch draws from on a device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def number_from_state(device: torch.device) -> int:
    """A number that depends on that state, without drawing from it: what else is drawn stays what it would be."""
    digest = hashlib.blake2b(state_of_random_numbers(device).numpy().tobytes(), digest_size=7).digest()
    return int.from_bytes(digest, "little")
