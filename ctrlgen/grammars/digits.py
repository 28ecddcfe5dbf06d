"""Automata of number texts, built from the end: equal states are one from the start, so nothing has to be minimised."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError

DEAD = -1

_BYTES = b"+-.0123456789Ee"
_COLUMNS = np.array([0, 1, 2, *range(3, 13), 13, 13])
NO_DIGITS = (DEAD,) * 10

Row = tuple[int, ...]
"""Targets after + - . 0 1 ... 9 e."""


class DigitStates:
    """States numbered as they are made; a state may only lead to earlier ones."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.accepting: list[bool] = []
        self._number: dict[tuple[bool, Row], int] = {}

    def add(
        self,
        accepting: bool,
        digits: Sequence[int] = NO_DIGITS,
        *,
        point: int = DEAD,
        exponent: int = DEAD,
        minus: int = DEAD,
        plus: int = DEAD,
    ) -> int:
        """The state with these moves, DEAD if it leads nowhere."""
        return self.add_row(accepting, (plus, minus, point, *digits, exponent))

    def add_row(self, accepting: bool, row: Row) -> int:
        """The same, all moves given."""
        key = (accepting, row)
        state = self._number.get(key)
        if state is None:
            if not accepting and max(row) == DEAD:
                return DEAD
            state = self._number[key] = len(self.rows)
            self.rows.append(row)
            self.accepting.append(accepting)
        return state

    def intersection(self, start: int, other: Automaton, max_states: int) -> Automaton:
        """The texts from a state that are in ``other`` too; raises ComplexityError past ``max_states`` pairs."""
        if start == DEAD:
            return Automaton.empty()
        moves = other.next[:, list(_BYTES[:-1])].tolist()
        pairs = {(start, 0): None}
        todo = [(start, 0)]
        for state, place in todo:
            for pair in zip(self.rows[state], moves[place], strict=True):
                if pair[0] >= 0 <= pair[1] and pair not in pairs:
                    pairs[pair] = None
                    todo.append(pair)
            if len(pairs) > max_states:
                raise ComplexityError(
                    f"the numbers reached {len(pairs)} states, the limit is max_states={max_states}; raise max_states"
                )
        both = DigitStates()
        number: dict[tuple[int, int], int] = {}
        for state, place in sorted(pairs):  # a state only leads to earlier ones
            row = tuple([number.get(pair, DEAD) for pair in zip(self.rows[state], moves[place], strict=True)])
            number[state, place] = both.add_row(self.accepting[state] and bool(other.accepting[place]), row)
        return both.automaton(number[start, 0])

    def automaton(self, start: int) -> Automaton:
        """The automaton from a state, every state reachable from it."""
        if start == DEAD:
            return Automaton.empty()
        place = {start: 0}
        order = [start]
        for state in order:
            for target in self.rows[state]:
                if target >= 0 and target not in place:
                    place[target] = len(order)
                    order.append(target)
        place[DEAD] = DEAD
        columns = np.array([[place[target] for target in self.rows[state]] for state in order], dtype=np.int32)
        table = np.full((len(order), 256), DEAD, dtype=np.int32)
        table[:, list(_BYTES)] = columns[:, _COLUMNS]
        accepting = np.array([self.accepting[state] for state in order], dtype=bool)
        return Automaton(table, accepting, np.ones(len(order), dtype=bool))
