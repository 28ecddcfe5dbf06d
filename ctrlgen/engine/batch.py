"""Steps of a whole batch: many requests, each with a constraint of its own, over one vocabulary.

    engine = MaskEngine(vocabulary)
    rows = engine.rows(constraints, states)              # uint32[B, W], for a bitmask kernel of any host
    states = engine.advance(constraints, states, tokens)

A warm step is a look-up for each request, and one copy of its row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import CtrlgenError, InputError

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary


class MaskEngine:
    """Rows and moves of the requests of a batch.

    Args:
        vocabulary: which all constraints are compiled for.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._everything = np.full(vocabulary.words, 0xFFFFFFFF, np.uint32)
        self._nothing = np.zeros(vocabulary.words, np.uint32)

    def rows(
        self,
        constraints: Sequence[Constraint | None],
        states: Sequence[int],
        out: NDArray[np.uint32] | None = None,
        faults: MutableMapping[int, CtrlgenError] | None = None,
    ) -> NDArray[np.uint32]:
        """The row of each request.

        Args:
            constraints: B constraints; None for a request that may say anything.
            states: their B states; a dead one has an empty row.
            out: uint32[>= B, W] to write to, instead of a new array.
            faults: where the error of a request goes that cannot go on; its row is empty, the others are right.
                Without it, the first error is raised.

        Returns:
            uint32[B, W]; bit t % 32 of word t // 32 is set if token t is allowed.

        Raises:
            InputError: lengths, widths or ``out`` do not fit.
            CtrlgenError: what a constraint raises.
        """
        if len(constraints) != len(states):
            raise InputError(f"{len(constraints)} constraints and {len(states)} states; expected one state for each")
        try:
            found = [
                self._everything if c is None else c.mask(s) if s >= 0 else self._nothing
                for c, s in zip(constraints, states, strict=True)
            ]
        except CtrlgenError:
            if faults is None:
                raise
            found = [self._row(*one, faults) for one in zip(range(len(states)), constraints, states, strict=True)]
        return self._packed(found, out)

    def advance(
        self,
        constraints: Sequence[Constraint | None],
        states: Sequence[int],
        tokens: Sequence[int],
        faults: MutableMapping[int, CtrlgenError] | None = None,
    ) -> list[int]:
        """The state of each request after its token; DEAD where it is refused.

        Args:
            constraints: B constraints; None keeps its state.
            states: their B states.
            tokens: B ids.
            faults: as for ``rows``; the state of such a request is DEAD.
        """
        after = []
        for row, (constraint, state, token) in enumerate(zip(constraints, states, tokens, strict=True)):
            try:
                after.append(state if constraint is None or state < 0 else constraint.advance(state, token))
            except CtrlgenError as error:
                if faults is None:
                    raise
                faults[row] = error
                after.append(DEAD)
        return after

    def _row(
        self, row: int, constraint: Constraint | None, state: int, faults: MutableMapping[int, CtrlgenError]
    ) -> NDArray[np.uint32]:
        if constraint is None or state < 0:
            return self._everything if constraint is None else self._nothing
        try:
            return constraint.mask(state)
        except CtrlgenError as error:
            faults[row] = error
            return self._nothing

    def _packed(self, found: list[NDArray[np.uint32]], out: NDArray[np.uint32] | None) -> NDArray[np.uint32]:
        count, words = len(found), self.vocabulary.words
        if any(len(row) != words for row in found):
            raise InputError(
                f"a constraint was compiled for another width than the {self.vocabulary.width} of this engine"
            )
        if out is None:
            out = np.empty((count, words), np.uint32)
        elif out.dtype != np.uint32 or out.ndim != 2 or out.shape[0] < count or out.shape[1] != words:
            raise InputError(f"out must be uint32[{count} or more, {words}], not {out.dtype}{list(out.shape)}")
        if found:
            np.stack(found, out=out[:count])
        return out[:count]
