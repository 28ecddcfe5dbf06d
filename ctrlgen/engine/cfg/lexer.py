"""What a grammar's lexer is made of: automata of terminals in order of preference, and which are tried where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.automaton import Automaton
    from ctrlgen.engine.cfg.productions import Productions


@dataclass(frozen=True)
class Renaming:
    """A literal that a match of another terminal becomes when the texts are equal (a keyword among names).

    Args:
        literal: the literal terminal.
        embedded: whether the literal is tried in no other way beside that terminal.
    """

    literal: int
    embedded: bool


@dataclass(frozen=True, eq=False)
class Language:
    """A grammar with its terminals; terminal i is tried before terminal i + 1.

    Args:
        productions: the rules.
        automata: of each terminal, ended by the last accepting state that a text meets.
        ignored: terminals that are dropped wherever they stand.
        renamings: by terminal.
        lexer: "basic" tries all terminals everywhere, "contextual" those that the parser has a use for, the one that
            is preferred; "parallel" follows each of the latter by itself.
        empty: whether the empty text is right although no rule says so.
        names: of terminals, for messages; of nonterminal -1 - i, ``rule_names[i]``.
    """

    productions: Productions
    automata: tuple[Automaton, ...]
    ignored: frozenset[int]
    renamings: dict[int, tuple[Renaming, ...]]
    lexer: Literal["basic", "contextual", "parallel"]
    names: tuple[str, ...]
    rule_names: tuple[str, ...]
    empty: bool = False

    def shown(self, symbol: int) -> str:
        """The name of a symbol."""
        if symbol >= 0:
            return self.names[symbol]
        number = -1 - symbol
        return self.rule_names[number] if number < len(self.rule_names) else f"(part {number})"


_DROPPED = -1
"""The track of a terminal that is ignored, beside that of the same terminal in rules."""


@dataclass
class Lexer:
    """The states of all terminals in one table, and the lists that begin a terminal.

    Attributes:
        table: int32[n, 256], state after a byte, or -1.
        info: int32[n, 3]: what has matched in a state (-1: nothing), the terminal whose track it is on, and 1 for a
            literal that only renames.
        begins: bool[256], the bytes with which terminals begin.
    """

    language: Language
    table: NDArray[np.int32] = field(init=False)
    info: NDArray[np.int32] = field(init=False)
    begins: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        tables: list[NDArray[np.int32]] = []
        infos: list[NDArray[np.int32]] = []
        self._starts: dict[tuple[int, int], int] = {}
        language, used = self.language, 0
        count = language.productions.terminals
        shadows = [(r.literal, track) for track, renamings in language.renamings.items() for r in renamings]
        dropped = [(terminal, _DROPPED) for terminal in sorted(language.ignored)]
        parallel = language.lexer == "parallel"
        for terminal, track in [*((t, t) for t in range(count)), *(dropped if parallel else shadows)]:
            automaton = language.automata[terminal]
            label = terminal
            if track == _DROPPED or (track in language.ignored and not parallel):
                label = count + 1
            # the start is a state of its own, so that a list in it is known to have read nothing
            table = np.vstack([automaton.next[:1], automaton.next])
            table = np.where(table >= 0, table + used + 1, -1).astype(np.int32)
            info = np.empty((len(table), 3), np.int32)
            info[:, 0] = np.where(np.append(False, automaton.accepting), label, -1)
            info[:, 1], info[:, 2] = track, terminal != track != _DROPPED
            tables.append(table)
            infos.append(info)
            self._starts[terminal, track] = used
            used += len(table)
        self.table = np.concatenate(tables) if tables else np.full((1, 256), -1, np.int32)
        self.begins = np.any(self.table[np.fromiter(self._starts.values(), np.intp)] >= 0, axis=0)
        self.info = np.concatenate(infos) if infos else np.full((1, 3), -1, np.int32)

    def start(self, tried: int) -> list[int]:
        """The list that begins a terminal where the terminals with bits in ``tried`` are tried."""
        language = self.language
        here = [t for t in range(language.productions.terminals) if tried >> t & 1]
        if language.lexer == "parallel":
            return [*(self._starts[t, t] for t in here), *(self._starts[t, _DROPPED] for t in sorted(language.ignored))]
        renamed = {t: [r for r in language.renamings.get(t, ()) if tried >> r.literal & 1] for t in here}
        embedded = {r.literal for renamings in renamed.values() for r in renamings if r.embedded}
        members = []
        for terminal in here:
            if terminal not in embedded:
                members += [self._starts[r.literal, terminal] for r in renamed[terminal]]
                members.append(self._starts[terminal, terminal])
        return members
