"""Shifts and reductions of each parser state as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ctrlgen.engine.cfg.lookaheads import Automaton
from ctrlgen.errors import ComplexityError, SpecificationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ctrlgen.engine.cfg.productions import Productions

MAX_ENTRIES = 1 << 26


@dataclass(frozen=True, eq=False)
class Tables:
    """A parser of P states, T terminals and N nonterminals; terminal T is the end of the text, T + 1 an ignored piece.

    Attributes:
        shift: int32[P, T], state after a terminal, or -1.
        goto: int32[P, N], state after a nonterminal, or -1.
        acceptable: uint64[P, W], bits of the terminals that are shifted, and of the end where the text is whole.
        reductions: int32[P, 2], the range of each state in the two arrays below.
        rules: int32[R], rule of each reduction.
        followers: uint64[R, W], bits of the terminals after which it happens.
        shape: int32[rules, 2], column in goto of the left side, and number of symbols.
        accepts: for each state the terminals that have any action: what a contextual lexer tries there.
        conflicts: number of shift/reduce conflicts met.
        automaton: what the tables were made from.
    """

    shift: NDArray[np.int32]
    goto: NDArray[np.int32]
    acceptable: NDArray[np.uint64]
    reductions: NDArray[np.int32]
    rules: NDArray[np.int32]
    followers: NDArray[np.uint64]
    shape: NDArray[np.int32]
    accepts: list[int]
    conflicts: int
    automaton: Automaton

    @property
    def terminals(self) -> int:
        """T."""
        return int(self.shift.shape[1])


def tables_of(
    grammar: Productions, *, conflicts: Literal["shift", "all"], shown: Callable[[int], str] = str, empty: bool = False
) -> Tables:
    """The tables of a grammar.

    Args:
        grammar: useful rules only.
        conflicts: "shift" as Lark's LALR parser: a shift wins over a reduction, the reduction of higher priority over
            another; "all": a parser that follows every way.
        shown: name of a symbol, for messages.
        empty: whether the empty text is right although no rule says so.

    Raises:
        SpecificationError: two reductions of equal priority for one terminal, with "shift".
        ComplexityError: too many states.
    """
    automaton = Automaton(grammar)
    count, terminals = len(automaton.moves), grammar.terminals
    end, words = terminals, (terminals + 2 + 63) // 64
    column = automaton.column
    if count * (terminals + len(column)) > MAX_ENTRIES:
        raise ComplexityError(f"parser tables of {count} states and {terminals} terminals are too large")
    shift = np.full((count, terminals), -1, np.int32)
    goto = np.full((count, len(column)), -1, np.int32)
    whole = automaton.moves[0].get(automaton.bodies[0][0], -1)
    lookaheads = automaton.lookaheads(end)
    ranges: list[tuple[int, int]] = []
    rules: list[int] = []
    followers: list[int] = []
    accepts: list[int] = []
    acceptable: list[int] = []
    clashes = 0
    for state, moves in enumerate(automaton.moves):
        shifted = 0
        for symbol, target in moves.items():
            if symbol >= 0:
                shift[state, symbol] = target
                shifted |= 1 << symbol
            else:
                goto[state, column[symbol]] = target
        here = {rule: bits for rule, bits in lookaheads[state].items() if rule}
        if conflicts == "shift":
            here = _without_clashes(here, grammar, shown)
            clashes += sum((bits & shifted).bit_count() for bits in here.values())
            here = {rule: bits & ~shifted for rule, bits in here.items()}
        low = len(rules)
        for rule, bits in here.items():
            rules.append(rule)
            followers.append(bits)
        ranges.append((low, len(rules)))
        accepts.append(shifted | _union(here.values()))
        acceptable.append(shifted | (1 << end if state == whole or (empty and state == 0) else 0))
    return Tables(
        shift,
        goto,
        _bits(acceptable, words),
        np.array(ranges, np.int32),
        np.array(rules, np.int32),
        _bits(followers, words),
        np.array([(column[h], len(b)) for h, b in zip(automaton.heads, automaton.bodies, strict=True)], np.int32),
        accepts,
        clashes,
        automaton,
    )


def _union(sets: object) -> int:
    result = 0
    for bits in sets:  # type: ignore[attr-defined]
        result |= bits
    return result


def _bits(sets: list[int], words: int) -> NDArray[np.uint64]:
    data = b"".join(bits.to_bytes(8 * words, "little") for bits in sets)
    return np.frombuffer(data, "<u8").reshape(-1, words).astype(np.uint64)


def _without_clashes(here: dict[int, int], grammar: Productions, shown: Callable[[int], str]) -> dict[int, int]:
    """One reduction for each terminal: that of the highest priority."""
    if len(here) < 2:
        return here
    seen = 0
    if not any((seen & bits) or (seen := seen | bits) < 0 for bits in here.values()):
        return here
    kept = dict(here)
    rules = sorted(here, key=lambda rule: -grammar.rules[rule - 1].priority)
    taken = 0
    for number, rule in enumerate(rules):
        for other in rules[number + 1 :]:
            both = kept[rule] & kept[other] & ~taken
            if not both:
                continue
            one, two = grammar.rules[rule - 1], grammar.rules[other - 1]
            if one.priority == two.priority:
                terminal = (both & -both).bit_length() - 1
                after = "the end of the text" if terminal == grammar.terminals else shown(terminal)
                said = " and ".join(f"{shown(r.head)}: {' '.join(map(shown, r.body)) or '(empty)'}" for r in (one, two))
                raise SpecificationError(
                    f"before {after} two rules may both have ended: {said}. A parser that looks one terminal ahead "
                    "cannot tell them apart: rewrite them, give one a priority (rule.2: ...), or use lexer='dynamic'"
                )
        taken |= kept[rule]
        for other in rules[number + 1 :]:
            kept[other] &= ~kept[rule]
    return kept
