"""States of patterns with look-ahead: each way to go on carries what it promised about the rest of the text.

A run is a set of threads, a thread a bit set of positions with the obligations it met on its way, and an obligation a
run of the look-ahead's own pattern, which must (or, if negative, must not) come to its end somewhere before the text
does. This is an alternating automaton made deterministic; it is exact wherever a look-ahead stands, loops included.
"""

from __future__ import annotations

from ctrlgen.grammars.regex_positions import END, LookAhead, bits
from ctrlgen.grammars.regex_reader import NOTHING, Reader

Obligation = tuple[bool, "Run"]  # negative, run
Obligations = frozenset[Obligation]
Run = frozenset[tuple[int, Obligations]]
ConditionalState = tuple[int, Run]

_NONE: Obligations = frozenset()
_MATCHED: Run = frozenset({(END, _NONE)})
_FAILED: Run = frozenset()


class Conditional:
    """States (kind of the character before, run)."""

    def __init__(self, reader: Reader, first: int) -> None:
        self.reader = reader
        self.start: ConditionalState = (NOTHING, frozenset({(first, _NONE)}))
        self.known: dict[tuple[Run, int, int, bool], Run] = {}

    def accepts(self, state: ConditionalState) -> bool:
        """Whether the text may end here."""
        return self.ends(state[1], state[0])

    def row(self, state: ConditionalState) -> list[ConditionalState | None]:
        """The states after a character of each class."""
        before, run = state
        row: list[ConditionalState | None] = []
        for column, kind in enumerate(self.reader.kinds):
            reached = self.step(run, before, column, prefix=False)
            row.append((kind if self.reader.edges else NOTHING, reached) if reached else None)
        return row

    def ends(self, run: Run, before: int) -> bool:
        """Whether a run is at its end when the text is."""
        return any(
            members & END and all(self.ends(inner, before) != negative for negative, inner in obligations)
            for obligations, members in self.resolve(run, before, NOTHING).items()
        )

    def resolve(self, run: Run, before: int, after: int) -> dict[Obligations, int]:
        """The run's threads past all edges that hold here and all look-aheads, which become obligations."""
        threads: dict[Obligations, int] = {}
        todo = list(run)
        while todo:
            members, obligations = todo.pop()
            self.reader.budget.spend(5 + 2 * len(obligations))
            closed = self.reader.close(members, before, after) | threads.get(obligations, 0)
            if closed == threads.get(obligations):
                continue
            for position in bits(closed & self.reader.looks & ~threads.get(obligations, 0)):
                item = self.reader.items[position]
                assert isinstance(item, LookAhead)
                promise = (item.negative, frozenset({(item.first, _NONE)}))
                todo.append((self.reader.follow[position], obligations | {promise}))
            threads[obligations] = closed
        return threads

    def step(self, run: Run, before: int, column: int, *, prefix: bool) -> Run:
        """The run after a character; a run of a look-ahead (``prefix``) stays at its end once it has reached it."""
        key = (run, before, column, prefix)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._step(run, before, column, prefix)
        return known

    def _step(self, run: Run, before: int, column: int, prefix: bool) -> Run:
        resolved = self.resolve(run, before, self.reader.kinds[column])
        if prefix and resolved.get(_NONE, 0) & END:
            return _MATCHED
        threads: dict[Obligations, int] = {}
        for obligations, members in resolved.items():
            reached = self.reader.read(members, column) | (END if prefix and members & END else 0)
            kept = self._keep(obligations, before, column) if reached else None
            if kept is not None:
                threads[kept] = threads.get(kept, 0) | reached
        if prefix and threads.get(_NONE, 0) & END:
            return _MATCHED
        return _without_weaker(threads)

    def _keep(self, obligations: Obligations, before: int, column: int) -> Obligations | None:
        """What is left of the obligations after a character; None if one is broken."""
        kept = set()
        self.reader.budget.spend(5 * len(obligations))
        for negative, run in obligations:
            reached = self.step(run, before, column, prefix=True)
            if reached == (_MATCHED if negative else _FAILED):
                return None
            if reached != (_FAILED if negative else _MATCHED):
                kept.add((negative, reached))
        return frozenset(kept)


def _without_weaker(threads: dict[Obligations, int]) -> Run:
    """Drop positions that another thread holds with fewer obligations."""
    run = set()
    for obligations, members in threads.items():
        for fewer, others in threads.items() if len(threads) <= 16 else ():
            if fewer < obligations:
                members &= ~others
        if members:
            run.add((members, obligations))
    return frozenset(run)
