"""Automata of strings cut to a length."""

from __future__ import annotations

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError

MAX_STATES = 60_000


def of_length(automaton: Automaton, least: int, most: int | None) -> Automaton:
    """The strings of ``automaton`` with between ``least`` and ``most`` characters.

    Raises:
        ComplexityError: it takes too many states.
    """
    if least == 0 and most is None:
        return automaton
    from ctrlgen.automaton_kernel import counted

    limit = least if most is None else most
    rows, state, count = counted(automaton.columns, automaton.boundary, limit, most is None, MAX_STATES)
    if len(state) > MAX_STATES:
        raise ComplexityError(
            f"the pattern together with its length takes more than {MAX_STATES} states (a fixed limit); "
            "write a smaller length, or the length into the pattern: [a-z]{1,40}"
        )
    accepting = automaton.accepting[state] & (count >= least)
    return Automaton.from_table(rows, accepting, automaton.boundary[state], classes=automaton.classes)
