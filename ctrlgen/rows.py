"""The states of the rows of a batch, found from their ids alone.

A row's parent is the row of the last call that it extends by one id; a row without a parent is replayed from where it
parts with the row that stood in its place. So beams that change places, drafts that are tried and taken back, and
rows that are over need no bookkeeping by whoever decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctrlgen.constraint import DEAD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint

ENDED = -2
"""State of a row after an end token; whatever follows is padding."""
FREE = -3
"""State of a row without a constraint."""


class Rows(NamedTuple):
    """B rows with the states along them."""

    ids: NDArray[np.int64]
    """int64[B, n]: what was generated."""
    paths: list[list[int]]
    """B lists of n + 1 states: before each id, and after the last; DEAD, ENDED and FREE are for ever."""


def start(constraints: Sequence[Constraint | None]) -> Rows:
    """Rows in which nothing is generated yet; None stands for a row without a constraint."""
    return Rows(np.empty((len(constraints), 0), np.int64), [[FREE if c is None else c.start] for c in constraints])


def follow(constraints: Sequence[Constraint | None], before: Rows, ids: NDArray[np.int64]) -> Rows:
    """The rows ``ids``, with the states along them.

    Args:
        constraints: B constraints, None for a free row.
        before: the rows at an earlier call; must not be used afterwards.
        ids: int64[B, n], in any relation to those; must not change afterwards.

    Returns:
        Rows of n ids.
    """
    paths = before.paths
    if ids.shape[1] == before.ids.shape[1] + 1:  # one id more in each row: the usual step
        if ids[:, :-1].tobytes() != before.ids.tobytes():
            parents = _parents(constraints, before.ids, ids)
            paths = [list(paths[parent]) for parent in parents] if parents else []
        if paths:
            triples = zip(constraints, paths, ids[:, -1].tolist(), strict=True)
            last = [step(constraint, path[-1], token) for constraint, path, token in triples]
            for path, state in zip(paths, last, strict=True):
                path.append(state)
            return Rows(ids, paths)
    both = zip(constraints, before.paths, before.ids, ids, strict=True)
    return Rows(ids, [_replay(*one) for one in both])


def step(constraint: Constraint | None, state: int, token: int) -> int:
    """The state after ``token``; rows that are refused, over or free stay so."""
    if state < 0 or constraint is None:
        return state
    after = constraint.advance(state, token)
    return ENDED if after != DEAD and token in constraint.vocabulary.eos else after


def _parents(
    constraints: Sequence[Constraint | None], before: NDArray[np.int64], now: NDArray[np.int64]
) -> list[int] | None:
    """For each row the earlier row, under the same constraint, that it extends by one id; None if one has none."""
    row_of = {(id(constraints[row]), ids.tobytes()): row for row, ids in enumerate(before)}
    found = [row_of.get((id(constraints[row]), ids.tobytes()), -1) for row, ids in enumerate(now[:, :-1])]
    return None if -1 in found else found


def _replay(
    constraint: Constraint | None, path: list[int], before: NDArray[np.int64], now: NDArray[np.int64]
) -> list[int]:
    """The states along ``now``, of which those along the ids it shares with ``before`` are known."""
    length = min(len(before), len(now))
    different = before[:length] != now[:length]
    shared = int(different.argmax()) if different.any() else length
    states = path[: shared + 1]
    for token in now[shared:].tolist():
        states.append(step(constraint, states[-1], token))
    return states
