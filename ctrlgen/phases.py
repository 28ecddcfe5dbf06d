"""When free text is left: where the model would end, where a budget says so, where a brake does.

A constraint with free text has ``phase(state)``, ``leave(state)`` and ``hurry(state)`` beside what every constraint
has (``ctrlgen.engine.phased``). Which state a row is in then is no matter of its ids alone, so what was decided is kept
with the row's states, and a Left for whoever reads the text.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.constraint import DEAD

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ctrlgen.constraint import Constraint


class Left(NamedTuple):
    """A free text that was left by decision."""

    row: int
    """Row of the batch."""
    place: int
    """Number of ids generated before."""
    swallowed: bool
    """Whether the model would have ended here; otherwise a brake was drawn."""


def has_free_text(constraint: Constraint | None) -> bool:
    """Whether a constraint may have states to be left."""
    network = getattr(getattr(constraint, "inner", constraint), "network", None)
    return bool(getattr(network, "phases", None))


def may_swallow(constraint: Constraint | None) -> bool:
    """Whether a constraint may go on where the model would end."""
    network = getattr(getattr(constraint, "inner", None), "network", None)
    return bool(network is not None and network.leaves)


def waits_for_end(constraint: Constraint | None, state: int) -> bool:
    """Whether the row goes on where the model would end."""
    if state < 0 or constraint is None or not hasattr(constraint, "leave") or constraint.accepts(state):
        return False
    return bool(constraint.leave(state) != DEAD)


def in_time(constraint: Constraint | None, state: int, remaining: int | None, budget: int | None) -> int:
    """The state, or that of a free text left: where no more of a budget remains than is for what follows it.

    Args:
        constraint: of the row.
        state: of the row.
        remaining: how many tokens the row may still have, the end token included; None: as many as it takes.
        budget: how many it might have in all.
    """
    phase = getattr(constraint, "phase", None)
    if remaining is None or budget is None or constraint is None or phase is None or state < 0:
        return state
    found = phase(state)
    if found is None or not (found.leaves or found.keep):
        return state
    hurried: int = constraint.hurry(state)  # type: ignore[attr-defined]
    kept = math.ceil(found.keep * budget) if found.keep < 1 else int(found.keep)
    return hurried if remaining <= max(kept, constraint.distance(hurried)) else state


def replayed(
    constraint: Any, ids: Sequence[int], left: Collection[tuple[int, bool]], budget: int | None
) -> tuple[int, tuple[int, ...]]:
    """The state after ids, and before which of them a free text was left where the model would have ended.

    Args:
        constraint: of the row; None for none.
        ids: what was generated.
        left: (place, swallowed) of what was decided for this row.
        budget: ``max_new_tokens``.
    """
    from ctrlgen.rows import FREE, step

    if constraint is None:
        return FREE, ()
    state, swallowed, decided = constraint.start, [], dict(left)
    leaves = hasattr(constraint, "used_up")
    for place, token in enumerate(ids):
        before = state
        state = in_time(constraint, state, None if budget is None else budget - place, budget)
        if place in decided:
            state = constraint.leave(state) if decided[place] else constraint.hurry(state)
        if state != before and leaves and constraint.phase(before).leaves:
            swallowed.append(place)
        if leaves and state >= 0 and constraint.used_up(state, token):
            swallowed.append(place + 1)
        state = step(constraint, state, token)
    return state, tuple(swallowed)
