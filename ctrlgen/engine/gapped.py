"""Constraints one after the other with gaps of whole tokens between them.

A gap begins and ends between two tokens. Whether a token is one more of the gap or the first of what follows is often
open, so a state is the set of all places where a text may be, each (number of the run, state or count in it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD, Constraint
from ctrlgen.engine.levels import Levels, levels_of, set_bits
from ctrlgen.errors import ComplexityError
from ctrlgen.recent import Numbered, Recent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

    Places = tuple[tuple[int, int], ...]

FINISHED = 0
MAX_STATES = 200_000
_MOST_ROWS = 4096


class Gapped:
    """Runs of text, each a constraint, and gaps (least, most) in tokens; ``most`` None has no limit.

    Args:
        vocabulary: of all.
        runs: in their order.
    """

    def __init__(self, vocabulary: Vocabulary, runs: Sequence[Constraint | tuple[int, int | None]]) -> None:
        self.vocabulary, self.runs = vocabulary, tuple(runs)
        self._ends = np.array(sorted(vocabulary.eos), np.int64)
        self._text = _text_row(vocabulary)
        self._places: Numbered[Places] = Numbered(())
        self._rows: Recent[int, NDArray[np.uint32]] = Recent(_MOST_ROWS)
        fewest = [run[0] if isinstance(run, tuple) else run.distance(run.start) - 1 for run in self.runs]
        self._fewest = [sum(fewest[i:]) for i in range(len(fewest) + 1)]
        self.start = self._state({(0, self._begin(0))})

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        if state < 0 or not 0 <= token < self.vocabulary.width:
            return DEAD
        if token in self.vocabulary.eos:
            return FINISHED if self.accepts(state) else DEAD
        after = {place for one in self._places[state] if (place := self._moved(one, token)) is not None}
        return self._state(after) if after else DEAD

    def advance_each(self, state: int, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The states after each of several tokens, int64[n]."""
        places = self._places[state] if state >= 0 else ()
        inside = np.isin(tokens, self._ends, invert=True) & (tokens >= 0) & (tokens < self.vocabulary.width)
        after = np.full(len(tokens), DEAD, np.int64)
        if not places:
            after[:] = [self.advance(state, token) for token in tokens.tolist()]
            return after
        moved = np.stack([self._moved_each(one, tokens) for one in places], 1)
        kinds, kind = np.unique(moved, axis=0, return_inverse=True)
        states = [
            self._state({(run, sub) for (run, _), sub in zip(places, row, strict=True) if sub >= 0})
            if max(row) >= 0 else DEAD
            for row in kinds.tolist()
        ]  # fmt: skip
        after[inside] = np.array(states, np.int64)[kind.reshape(-1)][inside]
        if self.accepts(state):
            after[np.isin(tokens, self._ends)] = FINISHED
        return after

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        row = self.vocabulary.end_row if state == FINISHED else self._rows.get(state)
        if row is None:
            row = np.zeros_like(self._text)
            for run, sub in self._places[state]:
                if run < len(self.runs):
                    one = self.runs[run]
                    row |= self._text if isinstance(one, tuple) else one.mask(sub)
            row &= ~self.vocabulary.end_row
            if self.accepts(state):
                row |= self.vocabulary.end_row
            row.flags.writeable = False
            self._rows[state] = row
        return row

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        return state == FINISHED or self._places[state][-1][0] == len(self.runs)

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here."""
        return 1 + min(map(self._left, self._places[state]), default=0)

    def levels(self, state: int) -> Levels:
        """How many tokens suffice after each text token that ``state`` allows."""
        tokens = np.setdiff1d(set_bits(self.mask(state)), self._ends)
        states, number = np.unique(self.advance_each(state, tokens), return_inverse=True)
        group = np.zeros(32 * len(self._text), np.uint16)
        group[tokens] = number + 1
        return levels_of([(group, np.array([0, *map(self.distance, states.tolist())], np.int64))], {})

    def _begin(self, run: int) -> int:
        """Where a run starts; of the end, 0."""
        one = self.runs[run] if run < len(self.runs) else (0, 0)
        return 0 if isinstance(one, tuple) else one.start

    def _left(self, place: tuple[int, int]) -> int:
        """Tokens that suffice from a place, without the end token."""
        run, sub = place
        if run == len(self.runs):
            return 0
        one = self.runs[run]
        here = max(one[0] - sub, 0) if isinstance(one, tuple) else one.distance(sub) - 1
        return here + self._fewest[run + 1]

    def _full(self, run: int, sub: int) -> bool:
        one = self.runs[run]
        return isinstance(one, tuple) and sub == one[1]

    def _moved(self, place: tuple[int, int], token: int) -> tuple[int, int] | None:
        sub = int(self._moved_each(place, np.array([token]))[0])
        return None if sub < 0 else (place[0], sub)

    def _moved_each(self, place: tuple[int, int], tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[n]: state or count in the same run after each text token; DEAD where there is none."""
        run, sub = place
        if run == len(self.runs):
            return np.full(len(tokens), DEAD, np.int64)
        one = self.runs[run]
        if not isinstance(one, tuple):
            together = getattr(one, "advance_each", None)
            if together is not None and len(tokens) > 1:
                found: NDArray[np.int64] = together(sub, tokens)
            else:
                found = np.array([one.advance(sub, token) for token in tokens.tolist()], np.int64)
            return np.where(np.isin(tokens, self._ends), DEAD, found)
        least, most = one
        known = tokens.clip(0, 32 * len(self._text) - 1)
        text = (self._text[known >> 5] >> (known & 31).astype(np.uint32) & 1 == 1) & (known == tokens)
        return np.where(text, min(sub + 1, least) if most is None else sub + 1, DEAD)

    def _state(self, places: set[tuple[int, int]]) -> int:
        """The state of these places and of those that follow without a token."""
        found, todo = set(places), list(places)
        while todo:
            run, sub = todo.pop()
            if run < len(self.runs):
                one = self.runs[run]
                over = sub >= one[0] if isinstance(one, tuple) else one.accepts(sub)
                after = run + 1, self._begin(run + 1)
                if over and after not in found:
                    found.add(after)
                    todo.append(after)
        # a gap that is full leads nowhere else
        key = tuple(sorted(one for one in found if one[0] == len(self.runs) or not self._full(*one)))
        if len(self._places) >= MAX_STATES:
            raise ComplexityError(f"the template has more than {MAX_STATES} states: use shorter gaps")
        return self._places.number(key)


def _text_row(vocabulary: Vocabulary) -> NDArray[np.uint32]:
    """uint32[words]: the tokens that are text by themselves."""
    bits = np.zeros(32 * vocabulary.words, np.uint8)
    for token, text in enumerate(vocabulary.tokens[: vocabulary.width]):
        bits[token] = bool(text) and token not in vocabulary.eos and _is_text(text or b"")
    return np.packbits(bits, bitorder="little").view(np.uint32)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
