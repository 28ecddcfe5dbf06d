"""One constraint after another: a network first, then any constraint of texts, such as a grammar or a list of names.

Where the first text may be over, the second begins; until it is told which of both goes on, both do. A token may end
the one and begin the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.engine.levels import Levels, levels_of, set_bits
from ctrlgen.engine.states import WORN_STATES
from ctrlgen.errors import ComplexityError
from ctrlgen.recent import Numbered, Recent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Phase

FINISHED = 0
_MOST_ROWS = 4096


class Place(NamedTuple):
    """Where a text is."""

    first: int
    """State of the first constraint, DEAD where it is over."""
    loose: int
    """State of the same one with any text behind it."""
    then: frozenset[int]
    """States of the second."""


class Concatenated:
    """The constraint of two.

    Args:
        first: of a network: a Machine, or what stands for one.
        loose: the same, with any text behind: finds the tokens that reach beyond the first.
        then: what comes next; a token is allowed in it exactly if its bytes are.

    Raises:
        ComplexityError: the vocabulary lacks single bytes.
    """

    def __init__(self, first: Any, loose: Any, then: Constraint) -> None:
        self.first, self.loose, self.then, self.vocabulary = first, loose, then, then.vocabulary
        self.inner = getattr(first, "inner", first)
        """The network's machine, in which free text is looked for."""
        if not self.vocabulary.has_byte.all():
            raise ComplexityError(
                "a grammar or a list of names behind something else needs tokens for all single bytes"
            )
        self._byte = [self.vocabulary.encode_greedy(bytes([byte]))[0] for byte in range(256)]
        self._eos = frozenset(self.vocabulary.eos)
        self._places = Numbered(Place(DEAD, DEAD, frozenset()))
        self._moves: dict[tuple[int, int], int] = {}
        self._rows: Recent[int, NDArray[np.uint32]] = Recent(_MOST_ROWS)
        self._crossed: Recent[int, tuple[int, ...]] = Recent(_MOST_ROWS)
        self.start = self._state(first.start, loose.start, frozenset())

    @property
    def worn(self) -> bool:
        """Whether so many states were met that new requests do better with a fresh one."""
        parts = self.first, self.loose, self.then
        return len(self._places) > WORN_STATES or any(getattr(part, "worn", False) for part in parts)

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        known = self._moves.get((state, token))
        if known is None:
            known = self._advance(state, token)
            if len(self._moves) > 1 << 18:
                self._moves = {}
            self._moves[state, token] = known
        return known

    def _advance(self, state: int, token: int) -> int:
        if state < 0 or token in self._eos:
            return FINISHED if state >= 0 and self.accepts(state) else DEAD
        place = self._places[state]
        ways = (self.then.advance(one, token) for one in place.then)
        then = {one for one in ways if one != DEAD}
        first = loose = DEAD
        if place.first != DEAD:
            first, loose = self.first.advance(place.first, token), self.loose.advance(place.loose, token)
            text = self.vocabulary.tokens[token] if 0 <= token < len(self.vocabulary.tokens) else None
            if loose != DEAD and text and token not in self.vocabulary.special.values():
                then |= self._behind(place.first, text)
        return self._state(first, loose, frozenset(then))

    def _behind(self, first: int, text: bytes) -> set[int]:
        """States of the second after a token of which the first bytes end the first constraint's text."""
        found, state = set(), self._within(first)
        for place, byte in enumerate(text[:-1], 1):
            state = self.inner.advance(state, self._byte[byte])
            if state == DEAD:
                break
            if self.inner.accepts(state):
                after = self.then.start
                for later in text[place:]:
                    after = self.then.advance(after, self._byte[later])
                    if after == DEAD:
                        break
                else:
                    found.add(after)
        return found

    def _within(self, first: int) -> int:
        """The state of the network's machine."""
        return first if self.inner is self.first else self.first.machine_state(first)

    def _state(self, first: int, loose: int, then: frozenset[int]) -> int:
        if first != DEAD and self.first.accepts(first):
            then |= {self.then.start}
            if not (self.first.mask(first) & ~self.vocabulary.end_row).any():
                first = loose = DEAD
        if first == DEAD:
            loose = DEAD
            if not then:
                return DEAD
        return self._places.number(Place(first, loose, then))

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = self._row(state)
        return row

    def _row(self, state: int) -> NDArray[np.uint32]:
        ends = self.vocabulary.end_row
        if state == FINISHED:
            return ends
        row = self._plain(state)
        for token in self._crossing(state):
            row[token >> 5] |= np.uint32(1 << (token & 31))
        row = row | ends if self.accepts(state) else row
        row.flags.writeable = False
        return row

    def _plain(self, state: int) -> NDArray[np.uint32]:
        """The tokens that one of both takes whole."""
        place, row = self._places[state], np.zeros(self.vocabulary.words, np.uint32)
        for one in place.then:
            row |= self.then.mask(one)
        if place.first != DEAD:
            row |= self.first.mask(place.first)
        return row & ~self.vocabulary.end_row

    def _crossing(self, state: int) -> tuple[int, ...]:
        """The tokens that end the first text and begin the second, and are allowed for nothing else."""
        known = self._crossed.get(state)
        if known is None:
            place, found = self._places[state], []
            if place.first != DEAD:
                row = self.loose.mask(place.loose) & ~self._plain(state) & ~self.vocabulary.end_row
                tokens, inner = self.vocabulary.tokens, self._within(place.first)
                begins = {b for b in range(256) if self.inner.advance(inner, self._byte[b]) != DEAD}
                for token in set_bits(row).tolist():
                    text = tokens[token]
                    if text and text[0] in begins and self._behind(place.first, text):
                        found.append(token)
            known = self._crossed[state] = tuple(found)
        return known

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return state == FINISHED or any(map(self.then.accepts, self._places[state].then))

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here."""
        if state == FINISHED:
            return 1
        place = self._places[state]
        each = [self.then.distance(one) for one in place.then]
        if place.first != DEAD:
            each.append(self.first.distance(place.first) - 1 + self.then.distance(self.then.start))
        return min(each)

    def tells(self, state: int) -> bool:
        """Whether ``levels`` can say how many tokens suffice after each token."""
        place = self._places[state]
        if place.first == DEAD:
            return len(place.then) == 1 and hasattr(self.then, "levels")
        return not place.then

    def levels(self, state: int) -> Levels:
        """How many tokens suffice after each text token that ``state`` allows; only where that ``tells``."""
        place = self._places[state]
        if place.first == DEAD:
            found: Levels = self.then.levels(next(iter(place.then)))  # type: ignore[attr-defined]
            return found
        told, more = self.first.levels(place.first), self.then.distance(self.then.start) - 1
        alone = dict(zip(told.tokens.tolist(), (told.distances + more).tolist(), strict=True))
        alone |= {token: self.distance(self.advance(state, token)) for token in self._crossing(state)}
        return levels_of([(group, distances + more) for group, distances in told.groups], alone)

    # free text

    def phase(self, state: int) -> Phase | None:
        """The free text that a state is in."""
        place = self._places[state]
        found: Phase | None = None if place.first == DEAD or place.then else self.first.phase(place.first)
        return found

    def leave(self, state: int) -> int:
        """The state after free text that waits for the end token has been left; DEAD where there is none."""
        place = self._places[state]
        if place.first == DEAD or (first := self.first.leave(place.first)) == DEAD:
            return DEAD
        return self._state(first, self.loose.leave(place.loose), frozenset())

    def hurry(self, state: int) -> int:
        """The state in which free text goes on with nothing but the nearest end of it; elsewhere the state itself."""
        if self.phase(state) is None:
            return state
        place = self._places[state]
        return self._state(self.first.hurry(place.first), self.loose.hurry(place.loose), frozenset())

    def way_out(self, state: int) -> tuple[int, ...]:
        """The ids that stand for the end of the free text a state is in; none elsewhere."""
        found: tuple[int, ...] = () if self.phase(state) is None else self.first.way_out(self._places[state].first)
        return found

    def used_up(self, state: int, token: int) -> bool:
        """Whether a token is the last that fits into a free text that waits for the end token, which is then left."""
        find = getattr(self.first, "used_up", None)
        return find is not None and self.phase(state) is not None and bool(find(self._places[state].first, token))
