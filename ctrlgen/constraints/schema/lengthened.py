"""Automata of strings cut to a length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_STATES = 60_000


def of_length(automaton: Automaton, least: int, most: int | None) -> Automaton:
    """The strings of ``automaton`` with between ``least`` and ``most`` characters.

    Raises:
        ComplexityError: it takes too many states.
    """
    if least == 0 and most is None:
        return automaton
    columns, boundary = automaton.columns, automaton.boundary.astype(np.int64)
    limit = least if most is None else most
    number, codes, rows, done = {0: 0}, [0], [], 0
    while done < len(codes):
        frontier = np.array(codes[done : done + 4096], np.int64)
        done += len(frontier)
        state, count = frontier // (limit + 1), frontier % (limit + 1)
        target = columns[state].astype(np.int64)
        after = count[:, None] + boundary[target]
        dead = target < 0
        if most is None:
            after = np.minimum(after, limit)
        else:
            dead |= after > limit
        rows.append(_numbered(np.where(dead, -1, target * (limit + 1) + after), number, codes))
        if len(codes) > MAX_STATES:
            raise ComplexityError(
                f"the pattern together with its length takes more than {MAX_STATES} states (a fixed limit); "
                "write a smaller length, or the length into the pattern: [a-z]{1,40}"
            )
    reached = np.array(codes, np.int64)
    state, count = reached // (limit + 1), reached % (limit + 1)
    accepting = automaton.accepting[state] & (count >= least)
    return Automaton.from_table(np.concatenate(rows), accepting, automaton.boundary[state], classes=automaton.classes)


def _numbered(codes: NDArray[np.int64], number: dict[int, int], order: list[int]) -> NDArray[np.int32]:
    """Codes as numbers, new ones in the order they are met; -1 stays."""
    unique, where = np.unique(codes, return_inverse=True)
    numbers = []
    for code in unique.tolist():
        if code >= 0 and code not in number:
            number[code] = len(order)
            order.append(code)
        numbers.append(number.get(code, -1))
    return np.array(numbers, np.int32)[where.reshape(codes.shape)]
