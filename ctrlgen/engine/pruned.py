"""A constraint for vocabularies that lack some bytes: dead ends are found on tokens, before they are offered.

Where every byte is a token of its own, a text that can go on in bytes can go on in tokens. Elsewhere (a vocabulary
of whole words, say) a token may lead to a place that no further token continues. Here all states are visited
beforehand, and only those that reach an end are kept. That takes a finite number of states.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import ComplexityError, UnsatisfiableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint

MAX_MOVES = 1_000_000
MAX_STATES = 10_000


class Pruned:
    """``constraint`` without its dead ends; ``distance`` is exact.

    Args:
        constraint: any constraint; its masks may lead to states that no token continues.
        max_moves: limit on (state, token) pairs visited.

    Raises:
        UnsatisfiableError: no sequence of tokens satisfies it.
        ComplexityError: ``max_moves`` reached.
    """

    def __init__(self, constraint: Constraint, *, max_moves: int = MAX_MOVES) -> None:
        self.vocabulary, self.start = constraint.vocabulary, constraint.start
        self._constraint = self.inner = constraint
        moves = _explore(constraint, max_moves)
        self._distance = _distances(constraint, moves)
        if self.start not in self._distance:
            raise UnsatisfiableError(
                "no sequence of this vocabulary's tokens satisfies the constraint: "
                "some of the bytes that it needs are in no token, or not in one that fits"
            )
        self._rows = {state: self._row(state, moves) for state in self._distance}

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        if state not in self._distance:
            return DEAD
        after = self._constraint.advance(state, token)
        return after if after in self._distance else DEAD

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only."""
        return self._rows[state]

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return self._constraint.accepts(state)

    def distance(self, state: int) -> int:
        """Fewest tokens to a legal end, EOS included."""
        return self._distance[state]

    def _row(self, state: int, moves: dict[int, list[tuple[int, int]]]) -> NDArray[np.uint32]:
        bits = np.zeros(32 * self.vocabulary.words, np.uint8)
        bits[[token for token, after in moves[state] if after in self._distance]] = 1
        row = np.packbits(bits, bitorder="little").view(np.uint32)
        row.flags.writeable = False
        return row


def _explore(constraint: Constraint, max_moves: int) -> dict[int, list[tuple[int, int]]]:
    moves: dict[int, list[tuple[int, int]]] = {}
    todo, count = [constraint.start], 0
    while todo:
        state = todo.pop()
        if state in moves:
            continue
        moves[state] = here = []
        try:
            row = constraint.mask(state)
        except UnsatisfiableError:
            continue
        for token in np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist():
            here.append((token, constraint.advance(state, token)))
        count += len(here)
        if count > max_moves or len(moves) > MAX_STATES:
            raise ComplexityError(
                "this vocabulary lacks bytes that the constraint needs, so its dead ends must be looked for; that "
                f"takes more than {max_moves} steps or {MAX_STATES} states: use a tokenizer with all 256 bytes, "
                "or a smaller constraint"
            )
        todo += [after for _, after in here]
    return moves


def _distances(constraint: Constraint, moves: dict[int, list[tuple[int, int]]]) -> dict[int, int]:
    sources: dict[int, list[int]] = {}
    for state, here in moves.items():
        for _, after in here:
            sources.setdefault(after, []).append(state)
    # after an EOS id: itself accepting, one more EOS
    distance = {state: 1 for state in moves if constraint.accepts(state)}
    front = list(distance)
    while front:
        following = []
        for state in front:
            for source in sources.get(state, ()):
                if source not in distance:
                    distance[source] = distance[state] + 1
                    following.append(source)
        front = following
    return distance
