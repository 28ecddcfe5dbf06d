"""A machine with free text that is limited in tokens, or left where the model would end.

Both are no matter of bytes. A state is that of the machine and the number of tokens of the free text it is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.constraint import DEAD

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ctrlgen.engine.levels import Levels
    from ctrlgen.engine.machine import Machine
    from ctrlgen.engine.network import Phase


class Phased:
    """The constraint of a machine whose network has free texts with limits, or that are left by LEAVE.

    A token counts if it begins in a free text and does not end it. After as many as the limit says, the text goes on
    with the nearest of what the free text waits for.

    ``distance`` counts no token for leaving a free text that waits for the end token: who decodes may leave it at any
    time (``leave``).
    """

    def __init__(self, machine: Machine) -> None:
        self.inner, self.vocabulary = machine, machine.vocabulary
        limits = [phase.limit for phase in machine.network.phases.values() if phase.limit is not None]
        self._size = max(limits, default=0) + 1
        self.start = self._settled(machine.start, 0)

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        before, count = divmod(state, self._size)
        after = self.inner.advance(before, token) if state >= 0 else DEAD
        if after == DEAD:
            return DEAD
        was, now = self.inner.phase(before), self.inner.phase(after)
        if was is None or now is None or was.number != now.number:
            return self._settled(after, 0)
        return self._settled(after, 0 if now.limit is None else count + 1)

    def _settled(self, state: int, count: int) -> int:
        phase = self.inner.phase(state)
        while phase is not None and phase.limit is not None and count >= phase.limit:
            state, number = self.inner.hurry(state), phase.number
            phase, count = self.inner.phase(state), 0
            if phase is not None and phase.number == number:
                break
        return state * self._size + count

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only."""
        return self.inner.mask(state // self._size)

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return self.inner.accepts(state // self._size)

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here."""
        return self.inner.distance(state // self._size)

    def levels(self, state: int) -> Levels:
        """How many tokens suffice after each text token that ``state`` allows."""
        # a free text that has reached its limit is as far from the end as it was: the nearest way out is what is left
        return self.inner.levels(state // self._size)

    @property
    def worn(self) -> bool:
        """As of the machine."""
        return self.inner.worn

    def entered(self, machine_state: int) -> int:
        """The state of a machine's that has just been reached by what does not count."""
        return self._settled(machine_state, 0)

    def machine_state(self, state: int) -> int:
        """The state of the machine, without the count."""
        return state // self._size

    # free text

    def phase(self, state: int) -> Phase | None:
        """The free text that a state is in."""
        return self.inner.phase(state // self._size)

    def leave(self, state: int) -> int:
        """The state after free text that waits for the end token has been left; DEAD where there is none."""
        after = self.inner.leave(state // self._size)
        return DEAD if after == DEAD else self._settled(after, 0)

    def way_out(self, state: int) -> tuple[int, ...]:
        """The ids that stand for the end of the free text a state is in; none elsewhere."""
        return self.inner.way_out(state // self._size)

    def used_up(self, state: int, token: int) -> bool:
        """Whether a token is the last that fits into a free text that waits for the end token, which is then left."""
        before, after = state // self._size, self.inner.advance(state // self._size, token)
        phase = self.inner.phase(after) if after > 0 else None
        if phase is None or not phase.leaves:
            return False
        left = self.phase(self.advance(state, token))
        return self.inner.phase(before) is not None and (left is None or left.number != phase.number)

    def hurry(self, state: int) -> int:
        """The state in which free text goes on with nothing but the nearest end of it; elsewhere the state itself."""
        inner = state // self._size
        return state if self.inner.phase(inner) is None else self._settled(self.inner.hurry(inner), 0)
