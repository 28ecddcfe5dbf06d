"""A network in which other constraints are filled in: grammars and lists of names, anywhere in it, any number of times.

The network reads a letter that no token has where something else is to be read. A state holds all ways in which a text
may be read: each is in the network alone, or in what is filled in, with the place in the network to go on at. Where
what is filled in may be over, the network goes on as well, until it is told which of both does. A token may end the
one and begin the other (``crossing``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.engine.crossing import Crossed, Crossing
from ctrlgen.engine.levels import Levels, levels_of
from ctrlgen.engine.states import WORN_STATES
from ctrlgen.recent import Numbered, Recent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Phase

FINISHED = 0
NONE = -1
_MOST_MOVES, _MOST_ROWS, _MOST_CROSSED = 1 << 18, 4096, 64

Way = tuple[int, int, int]
"""State of the network, number of what is filled in or NONE, and state of that."""


class Filled:
    """The constraint of a network with what is filled in.

    Args:
        outer: the network's: a Machine or a Phased.
        fillings: what is filled into each hole; a token is allowed in it exactly if its bytes are.
    """

    def __init__(self, outer: Any, fillings: tuple[Constraint, ...]) -> None:
        self.outer, self.fillings, self.vocabulary = outer, fillings, outer.vocabulary
        self.inner = getattr(outer, "inner", outer)
        """The network's machine, in which free text is looked for."""
        self._limited = outer is not self.inner
        self._crossing = Crossing(self.inner, fillings, self.vocabulary)
        self._eos = frozenset(self.vocabulary.eos)
        self._special = frozenset(self.vocabulary.special.values())
        self._places: Numbered[tuple[Way, ...]] = Numbered(())
        self._moves: dict[tuple[int, int], int] = {}
        self._rows: Recent[int, NDArray[np.uint32]] = Recent(_MOST_ROWS)
        self._crossed: Recent[frozenset[Way], Crossed] = Recent(_MOST_CROSSED)
        self.start = self._state({(outer.start, NONE, 0)})

    @property
    def worn(self) -> bool:
        """Whether so many states were met that new requests do better with a fresh one."""
        parts = self.outer, *self.fillings
        return len(self._places) > WORN_STATES or any(getattr(part, "worn", False) for part in parts)

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        known = self._moves.get((state, token))
        if known is None:
            known = self._advance(state, token)
            if len(self._moves) > _MOST_MOVES:
                self._moves = {}
            self._moves[state, token] = known
        return known

    def _advance(self, state: int, token: int) -> int:
        if state < 0 or token in self._eos:
            return FINISHED if state >= 0 and self.accepts(state) else DEAD
        ways = self._places[state]
        moved = {(o, k, self.fillings[k].advance(i, token)) for o, k, i in ways if k != NONE}
        after = {way for way in moved if way[2] != DEAD}
        after |= {(self.outer.advance(o, token), NONE, 0) for o, k, _ in ways if k == NONE} - {(DEAD, NONE, 0)}
        text = self.vocabulary.tokens[token] if 0 <= token < len(self.vocabulary.tokens) else None
        if text and token not in self._special:
            after |= self._entered(self._crossing.over(self._bare(ways), text))
        return self._state(after)

    def _bare(self, ways: Iterable[Way]) -> frozenset[Way]:
        """The ways with states of the network's machine, that count no tokens."""
        if not self._limited:
            return frozenset(ways)
        return frozenset((self.outer.machine_state(o) if k == NONE else o, k, i) for o, k, i in ways)

    def _entered(self, ways: Iterable[Way]) -> set[Way]:
        """The inverse, where a count begins anew."""
        if not self._limited:
            return set(ways)
        return {(self.outer.entered(o) if k == NONE else o, k, i) for o, k, i in ways}

    def _state(self, ways: set[Way]) -> int:
        if not ways:
            return DEAD
        new = self._crossing.closed(self._bare(ways)) - self._bare(ways)
        kept = sorted(way for way in ways | self._entered(new) if self._goes_on(way))
        return self._places.number(tuple(kept)) if kept else DEAD

    def _goes_on(self, way: Way) -> bool:
        """Whether a way has tokens of its own, or may end: not if it is only where another begins."""
        o, k, i = way
        if k != NONE:
            filling = self.fillings[k]
            return not filling.accepts(i) or bool((filling.mask(i) & ~self.vocabulary.end_row).any())
        return bool(self.outer.accepts(o)) or bool(self.outer.mask(o).any())

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        known = self._rows.get(state)
        if known is None:
            known = self._rows[state] = self._row(state)
        return known

    def _row(self, state: int) -> NDArray[np.uint32]:
        ends: NDArray[np.uint32] = self.vocabulary.end_row
        if state == FINISHED:
            return ends
        row, crossed = self._plain(state), self._crossing_of(state)
        if len(crossed.tokens):
            bits = np.zeros(32 * len(row), bool)
            bits[crossed.tokens] = True
            row |= np.packbits(bits, bitorder="little").view(np.uint32)
        if self.accepts(state):
            row |= ends
        row.flags.writeable = False
        return row

    def _plain(self, state: int) -> NDArray[np.uint32]:
        """The tokens that one of the ways takes whole."""
        row = np.zeros(self.vocabulary.words, np.uint32)
        for o, k, i in self._places[state]:
            row |= self.outer.mask(o) if k == NONE else self.fillings[k].mask(i)
        row &= ~self.vocabulary.end_row
        return row

    def _crossing_of(self, state: int) -> Crossed:
        """The tokens that lead from one into another, and are allowed for nothing else."""
        ways = self._bare(self._places[state])
        known = self._crossed.get(ways)
        if known is None:
            known = self._crossed[ways] = self._crossing.tokens(ways, self._plain(state))
        return known

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return state == FINISHED or any(k == NONE and self.outer.accepts(o) for o, k, _ in self._places[state])

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here."""
        return 1 if state == FINISHED else self._nearest(self._places[state])

    def _nearest(self, ways: Iterable[Way]) -> int:
        return min(
            self.outer.distance(o) if k == NONE else self.fillings[k].distance(i) + self._after(o) for o, k, i in ways
        )

    def _after(self, machine_state: int) -> int:
        """How many tokens the network takes from a state on, without the end token."""
        return int(self.inner.distance(machine_state)) - 1

    def beside(self, state: int) -> tuple[list[tuple[Constraint, int, int]], Levels]:
        """What a state is made of: (constraint, state of it, tokens that suffice behind it) of each way.

        And the levels of the tokens that lead from one into another, which none of these allows.
        """
        if state == FINISHED:
            return [], levels_of((), {})
        ways = self._places[state]
        alone = Levels((), self._crossing_of(state).tokens, self._distances(state))
        return [(self.outer, o, 0) if k == NONE else (self.fillings[k], i, self._after(o)) for o, k, i in ways], alone

    def _distances(self, state: int) -> NDArray[np.int64]:
        """int64[n]: how many tokens suffice after each of those that lead from one into another."""
        crossed = self._crossing_of(state)
        each = [self._nearest(self._entered(ways)) for ways in crossed.ways]
        return np.array(each, np.int64)[crossed.number] if each else np.zeros(0, np.int64)

    # free text

    def phase(self, state: int) -> Phase | None:
        """The free text that a state is in."""
        found = [self.outer.phase(o) for o, k, _ in self._places[state] if k == NONE]
        return max((one for one in found if one), key=lambda one: one.leaves, default=None)

    def leave(self, state: int) -> int:
        """The state after free text that waits for the end token has been left; DEAD where there is none."""
        left = {(self.outer.leave(o), NONE, 0) for o, k, _ in self._places[state] if k == NONE}
        return self._state(left - {(DEAD, NONE, 0)})

    def hurry(self, state: int) -> int:
        """The state in which free text goes on with nothing but the nearest end of it; elsewhere the state itself."""
        if self.phase(state) is None:
            return state
        return self._state({(self.outer.hurry(o), k, i) if k == NONE else (o, k, i) for o, k, i in self._places[state]})

    def way_out(self, state: int) -> tuple[int, ...]:
        """The ids that stand for the end of the free text a state is in; none elsewhere."""
        ways = [self.outer.way_out(o) for o, k, _ in self._places[state] if k == NONE]
        return next((one for one in ways if one), ())

    def used_up(self, state: int, token: int) -> bool:
        """Whether a token is the last that fits into a free text that waits for the end token, which is then left."""
        ways, find = self._places[state], getattr(self.outer, "used_up", None)
        return find is not None and len(ways) == 1 and ways[0][1] == NONE and bool(find(ways[0][0], token))
