"""Rows of free text that waits for strings, without a walk of the whole trie for each state.

Such an automaton is in its first state nearly always. From there only tokens with one of a few bytes can go anywhere
else (``<``, say); they are a small trie, made once for these bytes and walked instead. From another state most tokens
soon lead to where they lead from the first state; the trie is walked only as far as they differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.engine.columns import BOUNDARY, DEPTH, FINAL, LO

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.engine.lexicon import Lexicon

    Found = tuple[NDArray[np.uint32], NDArray[np.int32]]

MOST_BYTES = 64
"""Bytes that may lead out of the first state."""
_NO_EXITS = np.zeros((0, 3), np.int32)


class Watching:
    """Rows and exits of the automata of a lexicon that wait for strings; whoever calls holds its lock."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._without: dict[bytes, tuple[NDArray[np.uint32], int]] = {}
        self._first: dict[int, Found] = {}
        self._fits: dict[int, bool] = {}

    def fits(self, state: int) -> bool:
        """Whether a state is of such an automaton."""
        first, count = self._lexicon.span(state)
        known = self._fits.get(first)
        if known is None:
            states, step = self._lexicon.arrays[4][first : first + count], self._lexicon.arrays[3]
            staying = int((step[first] == first).sum())
            known = self._fits[first] = bool(states[:, BOUNDARY].all()) and staying >= 256 - MOST_BYTES
        return known

    def ends_anywhere(self, state: int) -> bool:
        """Whether the automaton accepts in every state, so that exits are everywhere."""
        first, count = self._lexicon.span(state)
        return bool(self._lexicon.arrays[4][first : first + count, FINAL].all())

    def walked(self, state: int) -> Found:
        """The row of tokens that stay inside from ``state``, and the exits: none where it ends anywhere."""
        from ctrlgen.engine.kernel_watching import walk_beside

        first, _ = self._lexicon.span(state)
        if first not in self._first:
            self._first[first] = self._from_the_first(first)
        row, exits = self._first[first]
        if state == first:
            return row.copy(), exits
        trie, tokens, _, step, states = self._lexicon.arrays[:5]
        room = 1024
        while True:
            mine, new, changed = row.copy(), np.empty((room, 3), np.int32), np.empty((room, 2), np.int32)
            n, m = walk_beside(trie, tokens, step, states, state, first, mine, new, changed)
            if max(n, m) <= room:
                break
            room = 2 * max(n, m)
        if self.ends_anywhere(state):
            return mine, _NO_EXITS
        kept = np.ones(len(exits) + 1, bool)
        low = np.searchsorted(exits[:, 0], changed[:m, 0])
        high = np.searchsorted(exits[:, 0], changed[:m, 1])
        for a, b in zip(low[low < high].tolist(), high[low < high].tolist(), strict=True):
            kept[a:b] = False
        return mine, np.concatenate([exits[kept[:-1]], new[:n]])

    def _from_the_first(self, first: int) -> Found:
        lexicon = self._lexicon
        leading = np.flatnonzero(lexicon.arrays[3][first] != first).astype(np.uint8).tobytes()
        row, others = self._tokens_without(leading)
        row = row.copy()
        anywhere = self.ends_anywhere(first)
        exits = lexicon.walk(others, first, row, exits=not anywhere)
        return row, _NO_EXITS if anywhere else self._in_the_whole_trie(exits)

    def _in_the_whole_trie(self, exits: NDArray[np.int32]) -> NDArray[np.int32]:
        """Exits in a part of the trie as exits in the whole, by node."""
        from ctrlgen.engine.kernel_watching import along

        trie, flat, children = self._lexicon.arrays[:3]
        moved = exits.copy()
        for place, node in enumerate(exits[:, 0].tolist()):
            text = self._lexicon.tokens[int(flat[trie[node, LO]])] or b""
            moved[place, 0] = along(trie, children, np.frombuffer(text[: int(trie[node, DEPTH])], np.uint8))
        return moved[np.argsort(moved[:, 0], kind="stable")]

    def _tokens_without(self, leading: bytes) -> tuple[NDArray[np.uint32], int]:
        """Row of the tokens that have none of some bytes; root of the trie of all others."""
        if leading not in self._without:
            table = np.zeros((1, 256), np.int32)
            table[0, list(leading)] = -1
            always = np.ones(1, bool)
            row = np.zeros(self._lexicon.words, np.uint32)
            self._lexicon.walk(0, self._lexicon.enter(Automaton(table, always, always)), row, exits=False)
            self._without[leading] = row, self._lexicon.trie_without(row)
        return self._without[leading]
