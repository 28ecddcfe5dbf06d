"""Going on where the model would end: an end token that is drawn in free text is not kept, and drawn again.

``model.generate`` draws, and this looks ahead: with a copy of the state of torch's random numbers it finds out which
token transformers is about to draw. A row that is about to draw the end token is moved on by its constraint, and
another token is drawn under the new mask with random numbers of its own. All other rows and steps draw what they would
draw without any of this, token for token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from transformers import LogitsProcessorList

from ctrlgen.leaving import Brake, Leaving, number_from_state, state_of_random_numbers
from ctrlgen.phases import Left, waits_for_end

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.rows import Rows


class Opening(Leaving):
    """Lets end tokens through in free text that waits for them; ``Drawing`` sees to it that none is kept."""

    def __init__(self, brake: Brake | None, on_leave: Callable[[Left], object]) -> None:
        super().__init__(brake=brake, on_leave=on_leave)
        self._last: tuple[Sequence[Constraint | None], Rows] | None = None

    def _ends(
        self, constraints: Sequence[Constraint | None], rows: Rows, scores: torch.Tensor, waiting: Sequence[int]
    ) -> tuple[int, ...]:
        self._last = constraints, rows
        return tuple(waiting)

    def waiting(self) -> dict[int, list[int]]:
        """The rows of the last call that wait for an end token, with the ids of it."""
        if self._last is None:
            return {}
        constraints, rows = self._last
        return {
            row: list(constraint.vocabulary.eos)
            for row, (constraint, path) in enumerate(zip(constraints, rows.paths, strict=True))
            if constraint is not None and waits_for_end(constraint, path[-1])
        }

    def leave(self, row: int) -> None:
        """Move a row on."""
        if self._last is not None:
            self.decide(*self._last, row, swallowed=True)


class Drawing(LogitsProcessorList):  # type: ignore[misc]
    """The processors of a generation, warpers included, with what is done about end tokens in free text."""

    def __init__(self, processors: LogitsProcessorList, opening: Opening, sample: bool) -> None:
        super().__init__(processors)
        self._opening, self._sample = opening, sample

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        """float[B, V]: the scores to draw from, in which no row that waits for an end token can draw one."""
        raw = scores.clone()
        final: torch.Tensor = super().__call__(input_ids, scores, **kwargs)
        if not self._opening.waiting():
            return final
        drawn, turn = self._drawn(final), 0
        final = final.clone()
        redrawn = torch.zeros(len(final), dtype=torch.bool, device=final.device)
        # each turn leaves one more free text of these rows, of which a text has only so many
        while ended := [row for row, ends in self._opening.waiting().items() if int(drawn[row]) in ends]:
            for row in ended:
                self._opening.leave(row)
            final[ended] = super().__call__(input_ids, raw.clone(), **kwargs)[ended]
            drawn[ended] = self._anew(final[ended], turn)
            redrawn[ended] = True
            turn += 1
        if self._sample:
            only = torch.full_like(final, -torch.inf).scatter_(1, drawn[:, None], 0.0)
            final = torch.where(redrawn[:, None], only, final)
        for row, ends in self._opening.waiting().items():
            final[row, ends] = -torch.inf
        return final

    def _drawn(self, scores: torch.Tensor) -> torch.Tensor:
        """int64[B]: what transformers is about to draw."""
        if not self._sample:
            return scores.argmax(dim=-1)
        generator = torch.Generator(scores.device)
        generator.set_state(state_of_random_numbers(scores.device))
        return torch.multinomial(scores.softmax(dim=-1), 1, generator=generator).squeeze(1)

    def _anew(self, scores: torch.Tensor, turn: int) -> torch.Tensor:
        """int64[n]: tokens drawn with random numbers that nothing else uses."""
        if not self._sample:
            return scores.argmax(dim=-1)
        generator = torch.Generator(scores.device).manual_seed(number_from_state(scores.device) + turn)
        return torch.multinomial(scores.softmax(dim=-1), 1, generator=generator).squeeze(1)


def drawing(opening: Opening, streamer: Any = None) -> Callable[..., Any]:
    """What ``model.generate`` takes as ``custom_generate``: its own loop for one sequence a row, with a Drawing.

    It hands a custom loop no streamer, so that has to come along.
    """

    def decode(model: Any, input_ids: torch.Tensor, logits_processor: Any, generation_config: Any, **rest: Any) -> Any:
        processors = Drawing(logits_processor, opening, bool(generation_config.do_sample))
        rest["streamer"] = streamer
        return model._sample(input_ids, logits_processor=processors, generation_config=generation_config, **rest)

    return decode
