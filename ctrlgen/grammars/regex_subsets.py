"""Positions of a pattern -> minimal automaton over classes of code points, by subset construction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.regex_escapes import Rules
from ctrlgen.grammars.regex_lookahead import Conditional
from ctrlgen.grammars.regex_positions import END, Positions
from ctrlgen.grammars.regex_reader import NOTHING, Reader

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True)
class CharacterAutomaton:
    """A minimal automaton over code points; state 0 is the start, also of the empty language.

    Args:
        segments: sorted disjoint ranges (first, last, class); other code points lead nowhere.
        rows: for each state and class the next state, -1 for none.
        accepting: whether each state ends a match.
    """

    segments: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, ...], ...]
    accepting: tuple[bool, ...]


PlainState = tuple[int, int, int]
"""Kind of the character before (if it matters), length of the bit set, bit set of positions.

The length is there for hashing: Python's hash of 1 << n takes only 61 values.
"""


class _Plain:
    """States of patterns without look-ahead."""

    def __init__(self, reader: Reader, first: int) -> None:
        self.reader = reader
        self.start: PlainState = (NOTHING, first.bit_length(), first)

    def accepts(self, state: PlainState) -> bool:
        return bool(self.reader.close(state[2], state[0], NOTHING) & END)

    def row(self, state: PlainState) -> list[PlainState | None]:
        reader = self.reader
        before, _, members = state
        closed = [members] * 4
        if members & reader.edges:
            closed = [reader.close(members, before, after) for after in range(4)]
        row: list[PlainState | None] = []
        for column, kind in enumerate(reader.kinds):
            if not closed[kind] & reader.readers[column]:
                row.append(None)
                continue
            reached = reader.read(closed[kind], column)
            known_before = kind if reached & reader.edges else NOTHING
            row.append((known_before, reached.bit_length(), reached) if reached else None)
        return row


def character_automaton(positions: Positions, rules: Rules, max_states: int) -> CharacterAutomaton:
    """The minimal automaton of a pattern.

    Raises:
        ComplexityError: more than ``max_states`` states before minimising, or too much work.
    """
    reader = Reader(positions, rules)
    if reader.looks:
        conditional = Conditional(reader, positions.first)
        return explored(reader.segments, conditional.start, conditional.row, conditional.accepts, max_states)
    plain = _Plain(reader, positions.first)
    return explored(reader.segments, plain.start, plain.row, plain.accepts, max_states)


def explored(
    segments: tuple[tuple[int, int, int], ...],
    start: State,
    row: Callable[[State], Sequence[State | None]],
    accepts: Callable[[State], bool],
    max_states: int = 20_000,
) -> CharacterAutomaton:
    """The minimal automaton of everything reachable from ``start``.

    Args:
        segments: sorted disjoint ranges (first, last, class), every class in use.
        start: any value that can be hashed.
        row: the states after a character of each class, None where there is none.
        accepts: whether a text may end in a state.
        max_states: limit on the states before minimising.

    Raises:
        ComplexityError: more than ``max_states`` states.
    """
    return _minimal(segments, *_explore(start, row, accepts, max_states))


def _explore(
    start: State, row: Callable[[State], Sequence[State | None]], accepts: Callable[[State], bool], max_states: int
) -> tuple[list[list[int]], list[bool]]:
    number: dict[State | None, int] = {None: -1, start: 0}
    order = [start]
    rows = []
    for state in order:
        numbers = []
        for target in row(state):
            reached = number.setdefault(target, len(order))
            if reached == len(order) and target is not None:
                order.append(target)
            numbers.append(reached)
        rows.append(numbers)
        if len(order) > max_states:
            raise ComplexityError(
                f"the regular expression reached {len(order)} states, the limit is max_states={max_states}; "
                "raise max_states, or make repeats of overlapping parts smaller"
            )
    return rows, [accepts(state) for state in order]


def _minimal(
    segments: tuple[tuple[int, int, int], ...], rows: list[list[int]], accepting: list[bool]
) -> CharacterAutomaton:
    from ctrlgen.minimal_kernel import canonical

    columns = np.array(rows, np.int32).reshape(len(rows), -1)
    order, number = canonical(columns, np.array(accepting, np.uint8) * np.uint8(2), False)
    if not len(order):
        return CharacterAutomaton((), ((),), (False,))
    narrow = columns[order]
    narrow[narrow >= 0] = number[narrow[narrow >= 0]]
    table: list[list[int]] = narrow.T.tolist()
    # classes that no state tells apart are one; those that lead nowhere are none
    known: dict[tuple[int, ...], int] = {(-1,) * len(order): -1}
    merged = [known.setdefault(tuple(column), len(known) - 1) for column in table]
    joined: list[tuple[int, int, int]] = []
    for first, last, column in segments:
        if merged[column] < 0:
            continue
        if joined and joined[-1][1] + 1 == first and joined[-1][2] == merged[column]:
            joined[-1] = (joined[-1][0], last, merged[column])
        else:
            joined.append((first, last, merged[column]))
    kept = list(known)[1:]
    narrowed = tuple(zip(*kept, strict=True)) if kept else ((),) * len(order)
    return CharacterAutomaton(tuple(joined), narrowed, tuple([accepting[state] for state in order.tolist()]))
