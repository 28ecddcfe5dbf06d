"""One request on a server: the state that its text is in, whatever the server does with its rows.

A server hands over the ids that it has generated so far. They may be one more than before, many at once (a request that
was preempted and comes back), fewer (tokens that were taken back), or end with placeholders for tokens that are not
known yet.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.closing import check_budget, closing_of
from ctrlgen.constraint import DEAD
from ctrlgen.errors import CtrlgenError, DeadEndError, InputError
from ctrlgen.phases import has_free_text, in_time
from ctrlgen.rows import ENDED, FREE, step
from ctrlgen.steering.following import begin, follow
from ctrlgen.steering.protocol import Prompts
from ctrlgen.steering.steps import steered

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from concurrent.futures import Future

    import torch
    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.serving.compiling import Compiled, Compiler
    from ctrlgen.steering.following import Followed

_log = logging.getLogger("ctrlgen.serving")


class Row:
    """The text of one request.

    Where something goes wrong with it (its constraint takes too long, a limit is reached, another processor forbids all
    that it may say), the others go on: it is logged, ``fault`` says what, and the row may only end.

    Args:
        compiler: of the server.
        begun: what the request asks for.
        ends: the ids at which the server ends this request.
        budget: the most ids that it may have, the end token included; None if nobody knows.
        prompt: the ids before the text, if they are known.
    """

    def __init__(
        self,
        compiler: Compiler,
        begun: Future[Compiled],
        *,
        ends: Collection[int],
        budget: int | None = None,
        prompt: Sequence[int] | None = None,
    ) -> None:
        self.fault: Exception | None = None
        self._compiler, self._begun = compiler, begun
        self._until = time.monotonic() + compiler.registry.limits.seconds
        self._prompt, self._budget = prompt, budget
        vocabulary = compiler.vocabulary
        usable = [end for end in vocabulary.eos if end in ends]
        # the server would go on after these
        self._closed = (
            None if len(usable) == len(vocabulary.eos) else ~vocabulary.row(set(vocabulary.eos) - set(usable))
        )
        self.ends = usable or list(vocabulary.eos)
        self._end_row = vocabulary.row(usable) if usable else vocabulary.end_row
        self._ready: Compiled | None = None
        self._constraint: Constraint | None = None
        self._free = self._in_time = False
        self._path = [FREE]
        self._ids: list[int] = []
        self._steering: Followed | None = None

    @property
    def steers(self) -> bool:
        """Whether the request has steerers; known once ``row`` was asked for."""
        return self._ready is not None and bool(self._ready.steerers) and self.fault is None

    def begins_with(self, prompt: Sequence[int]) -> None:
        """The prompt, where it is not known from the start."""
        self._prompt = prompt

    def row(self, ids: Sequence[int], *, draft: bool = False) -> NDArray[np.uint32] | None:
        """What may come after ``ids``.

        Args:
            ids: all that was generated.
            draft: whether the last of them may be taken back, so that they need not be allowed.

        Returns:
            uint32[ceil(V / 32)], read-only, with at least one bit set; None where everything may come.
        """
        try:
            return self._row(ids, draft)
        except Exception as error:  # whatever it is, it must not end the server and all its other requests
            self.fail(error)
        return self._end_row

    def fail(self, error: Exception) -> None:
        """Nothing but the end may come any more."""
        if self.fault is None:
            self.fault = error
            known = isinstance(error, CtrlgenError)
            _log.error("a request is ended: %s", error, exc_info=None if known else error)

    def steer(self, scores: torch.Tensor) -> torch.Tensor:
        """The scores with what the steerers add.

        Args:
            scores: float32[1, V] after the mask.

        Returns:
            float32[1, V], a new tensor.
        """
        try:
            return self._steer(scores)
        except Exception as error:
            self.fail(error)
        return scores

    def start(self) -> None:
        """Wait until it is compiled; called by the first ``row``."""
        self._ready = self._compiler.finish(self._begun, self._until - time.monotonic())
        self._constraint = self._ready.constraint
        if self._constraint is None:
            return
        self._free = has_free_text(self._constraint)
        self._in_time = self._ready.in_time and self._budget is not None
        self._path = [self._constraint.start]
        if self._in_time and self._budget is not None:
            check_budget([self._constraint], self._path, self._budget)

    def _row(self, ids: Sequence[int], draft: bool) -> NDArray[np.uint32] | None:
        if self.fault is not None:
            return self._end_row
        if self._ready is None:
            self.start()
        self._follow(ids)
        constraint = self._constraint
        if constraint is None:
            return None
        state = self._settled(self._path[-1])
        if state == DEAD and not draft:
            text = constraint.vocabulary.decode(self._ids).decode(errors="replace")
            raise DeadEndError("the server chose a token that the constraint forbids", row=0, text=text)
        if state < 0:
            return self._end_row
        row = self._allowed(constraint, state)
        if self._closed is not None:
            row = row & self._closed
            if not row.any():
                raise InputError("the text is complete, but the server does not stop at its end tokens")
        return row

    def _allowed(self, constraint: Constraint, state: int) -> NDArray[np.uint32]:
        if not self._in_time or self._budget is None:
            return constraint.mask(state)
        # a server may ask once more than it uses
        return closing_of(constraint).row(constraint, state, max(self._budget - len(self._ids), 1))

    def _settled(self, state: int) -> int:
        """The state, or that of a free text which the budget leaves."""
        if not self._free or not self._in_time or self._budget is None:
            return state
        return in_time(self._constraint, state, self._budget - len(self._ids), self._budget)

    def _follow(self, ids: Sequence[int]) -> None:
        known = len(self._ids)
        if len(ids) < known or (known and ids[known - 1] != self._ids[-1]):  # tokens were taken back
            shared = next(
                (i for i, pair in enumerate(zip(ids, self._ids, strict=False)) if pair[0] != pair[1]), len(ids)
            )
            del self._ids[shared:], self._path[shared + 1 :]
        for token in ids[len(self._ids) :]:
            if token < 0:  # not known yet, nor what comes after it
                return
            self._path.append(step(self._constraint, self._settled(self._path[-1]), token))
            self._ids.append(token)

    def _steer(self, scores: torch.Tensor) -> torch.Tensor:
        import torch

        assert self._ready is not None
        if self._prompt is None:
            raise InputError("the prompt is not known as ids, which steerers need")
        steerers, vocabulary = self._ready.steerers, self._compiler.vocabulary
        if self._steering is None:
            self._steering = begin(steerers, Prompts((tuple(self._prompt),), scores.device, vocabulary))
        ids = np.array([self._ids], np.int64).reshape(1, -1)
        followed = follow(steerers, self._steering, ids, vocabulary.eos)
        over = torch.tensor([self._path[-1] in (DEAD, ENDED)], device=scores.device)
        done = steered(steerers, followed, scores, over)
        self._steering = done.followed
        if bool((done.scores == -torch.inf).all()):
            raise DeadEndError("steering forbids every allowed token", row=0, text="")
        return done.scores
