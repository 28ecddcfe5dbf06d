"""States as interned sets of configurations, whose rows and moves are remembered.

What a configuration is, and how it reads bytes, is up to the machine. A step met before is a dictionary look-up. A
state is never forgotten, its row may be (it is computed again when needed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.engine.distinct import rows_of
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    import threading

    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary

FINISHED = 0
"""The state after an EOS id: it allows the EOS ids and nothing else."""

WORN_STATES, WORN_STACKS = 200_000, 1_000_000
"""A constraint that has met more is replaced by a fresh one for new requests."""

Configurations = tuple[tuple[int, int], ...]
_MAX_MOVES = 1 << 20


class States:
    """The part of a constraint that remembers; a machine adds how configurations step, fill rows and end.

    Args:
        vocabulary: whose tokens.
        lock: held while anything new is computed.
        max_states: ComplexityError beyond it.
    """

    def __init__(self, vocabulary: Vocabulary, lock: threading.RLock, *, max_states: int) -> None:
        self.vocabulary, self.lock, self.max_states = vocabulary, lock, max_states
        self._shift = max(len(vocabulary.tokens) - 1, 1).bit_length()
        self._eos = frozenset(vocabulary.eos)
        self._end_row = vocabulary.end_row
        self._distinct = rows_of(vocabulary)
        self._distinct.held_by(self)
        self._atoms: frozenset[int] = frozenset()
        self._forget()

    def _forget(self) -> None:
        """Start with no state met."""
        self._sets: list[Configurations] = [()]
        self._ids: dict[Configurations, int] = {}
        self._moves: dict[int, int] = {}
        self._accepts: dict[int, bool] = {FINISHED: True}
        self._distance: dict[int, int] = {FINISHED: 1}
        self.forget_rows()

    def forget_rows(self) -> None:
        """Let go of all rows; they are computed again when needed."""
        self._rows: dict[int, NDArray[np.uint32]] = {FINISHED: self._end_row}

    # the constraint

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        move = self._moves.get(state << self._shift | token)
        return self._advance(state, token) if move is None else move

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(V / 32)], read-only; bit t % 32 of word t // 32 is set if token t is allowed."""
        row = self._rows.get(state)
        return self._mask(state) if row is None else row

    def accepts(self, state: int) -> bool:
        """Whether the text may end here."""
        known = self._accepts.get(state)
        if known is None:
            with self.lock:
                known = self._accepts[state] = any(self._accepting(s, k) for s, k in self._sets[state])
        return known

    def distance(self, state: int) -> int:
        """Number of tokens, EOS included, that is certain to suffice to end legally from here.

        It is the number of tokens of a short text to an end, longest token first, plus one.
        """
        known = self._distance.get(state)
        if known is None:
            with self.lock:
                known = self._distance[state] = self._measure(state)
        return known

    @property
    def size(self) -> int:
        """Number of states met so far."""
        return len(self._sets)

    # what a machine adds; the lock is held

    def _step(self, configurations: Configurations, text: NDArray[np.uint8]) -> Configurations:
        """The live configurations after the bytes of a token, sorted."""
        raise NotImplementedError

    def _spell(self, configurations: Configurations, token: int, text: bytes) -> Configurations:
        """The same after a token, whose bytes are ``text``."""
        return self._step(configurations, np.frombuffer(text, np.uint8))

    def _read(self, configurations: Configurations, token: int) -> Configurations:
        """The same after a control token, one of ``_atoms``."""
        raise NotImplementedError

    def _accepting(self, symbol: int, stack: int) -> bool:
        """Whether the text may end at a configuration."""
        raise NotImplementedError

    def _new_row(self, state: int) -> NDArray[np.uint32]:
        """The row of a state, EOS ids included, as ``_shared`` gives it."""
        raise NotImplementedError

    def _measure(self, state: int) -> int:
        """The distance of a state."""
        raise NotImplementedError

    # cold steps

    def _advance(self, state: int, token: int) -> int:
        if state < 0 or not 0 <= token < self.vocabulary.width:
            return DEAD
        if token in self._eos:
            return FINISHED if self.accepts(state) else DEAD
        text = self.vocabulary.tokens[token] if token < len(self.vocabulary.tokens) else None
        if state == FINISHED or not (text or token in self._atoms):
            return DEAD
        with self.lock:
            before = self._sets[state]
            after = self._spell(before, token, text) if text else self._read(before, token)
            move = self._state(after) if after else DEAD
            if len(self._moves) >= _MAX_MOVES:
                self._moves.clear()
            self._moves[state << self._shift | token] = move
        return move

    def _mask(self, state: int) -> NDArray[np.uint32]:
        with self.lock:
            row = self._rows[state] = self._new_row(state)
        return row

    def _shared(self, row: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The one array with the content of ``row``."""
        return self._distinct.share(row)

    def _state(self, configurations: Configurations) -> int:
        state = self._ids.get(configurations)
        if state is None:
            if len(self._sets) >= self.max_states:
                raise ComplexityError(f"more than max_states={self.max_states} states were met; start a new constraint")
            state = self._ids[configurations] = len(self._sets)
            self._sets.append(configurations)
        return state
