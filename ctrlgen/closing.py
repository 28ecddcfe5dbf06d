"""Ending in time: of the tokens a constraint allows, those after which the rest of a budget certainly suffices.

A token is offered if 1 + distance(after it) is at most what remains. ``distance`` is an upper bound that comes with a
witness (law 6 in ``ctrlgen.constraint``), so while distance(state) is at most what remains there always is such a
token, the next state is within its budget too, and the last token is an end token.

Text that is only watched needs no end token: a constraint with ``may_be_cut`` has texts that are whole wherever they
may end, so that one token more is left for each, and a budget cuts them off as it does a text without a constraint.

Reference: TruncProof, arXiv 2605.13076, for the rule; here for any constraint, on tokens.

Far from the end nothing is left out, and nothing is looked at but ``farthest``, a bound on the distance after any
token. Constraints may bring that bound (``farthest(state)``) or the distances themselves (``levels(state)``), or say
what they are made of (``beside(state)``); others
are followed token by token where they allow few. Where they allow many, it is taken for granted that a token raises
the distance to no more than twice its value and ``RISE``; closer to the end than that, only so many of the shortest
tokens are offered.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.engine.levels import Levels, levels_one_by_one, set_bits
from ctrlgen.errors import BudgetError
from ctrlgen.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

FEW = 1024
"""A constraint that says nothing more than the protocol is followed token by token up to so many tokens."""
RISE = 32
SEEN, SEEN_AT_MOST = 1 << 18, 1 << 22
"""Sum of the distances along the way up to which it pays to look for how few tokens suffice; the second while the
number asked for is not spent. What is left then counts with its distance."""
KEPT_LEVELS, KEPT_ROWS, KEPT_BOUNDS = 16, 256, 100_000

_closings: dict[int, tuple[weakref.ref[Constraint], Closing]] = {}


class Closing:
    """What is known of how far from the end the states of one constraint are; kept as long as the constraint."""

    def __init__(self) -> None:
        self._levels: Recent[int, Levels] = Recent(KEPT_LEVELS)
        self._rows: Recent[tuple[int, int], NDArray[np.uint32]] = Recent(KEPT_ROWS)
        self._farthest: dict[int, int] = {}
        self._paths: dict[int, tuple[int, int]] = {}

    def row(self, constraint: Constraint, state: int, remaining: int) -> NDArray[np.uint32]:
        """The tokens allowed in a state with so many tokens to come, the end token included where a text needs one.

        Args:
            constraint: the one this was made for.
            state: a state of it.
            remaining: at least ``needed(constraint, state)``; if it is less, which only other processors can bring
                about, the tokens are those that lead nearest to an end.

        Returns:
            uint32[ceil(V / 32)], read-only, with at least one bit set.
        """
        remaining += may_be_cut(constraint)
        if self.farthest(constraint, state) < remaining:
            return constraint.mask(state)
        known = self._rows.get((state, remaining))
        if known is None:
            known = self._rows[state, remaining] = self._filtered(constraint, state, remaining)
        return known

    def needed(self, constraint: Constraint, state: int, enough: int) -> int:
        """A number of tokens, the end token included, with which a text ends in time; small, if not the smallest.

        0 where a text may be cut off. ``distance`` may count one token for each byte. Only if that is more than
        ``enough`` does it pay to look for longer tokens: from state to state, the one that leaves the least distance.
        That way is kept, to be offered.
        """
        spare = may_be_cut(constraint)
        return self._needed(constraint, state, enough + spare) - spare

    def _needed(self, constraint: Constraint, state: int, enough: int) -> int:
        """The same with the end token in any case."""
        most = constraint.distance(state)
        if most <= enough:
            return most
        if state in self._paths:
            return min(most, self._paths[state][1])
        path: list[tuple[int, int]] = []
        left, seen = most, 0
        while len(path) < most and not constraint.accepts(state):
            seen += left
            if seen > (SEEN if len(path) >= enough else SEEN_AT_MOST):
                break
            ways = ((constraint.advance(state, token), token) for token in _candidates(constraint, state))
            after, token = min(ways, key=lambda way: constraint.distance(way[0]))
            path.append((state, token))
            state, left = after, constraint.distance(after)
            if len(path) + left <= enough:
                break
        needed = len(path) + (1 if constraint.accepts(state) else left)
        if needed < most:
            self._rows.clear()
            self._paths.update((one, (token, needed - spent)) for spent, (one, token) in enumerate(path))
        return min(needed, most)

    def farthest(self, constraint: Constraint, state: int) -> int:
        """A distance that no text token allowed in a state exceeds."""
        known = self._farthest.get(state)
        if known is None:
            if len(self._farthest) >= KEPT_BOUNDS:
                self._farthest.clear()
            known = self._farthest[state] = self._bound(constraint, state)
        return known

    def _bound(self, constraint: Constraint, state: int) -> int:
        bound = getattr(constraint, "farthest", None)
        if bound is not None:
            return int(bound(state))
        if hasattr(constraint, "beside"):
            ways, alone = constraint.beside(state)
            farthest: int = max([alone.most, *(closing_of(one).farthest(one, at) + more for one, at, more in ways)])
            return farthest
        if not _tells(constraint, state) and _count(constraint.mask(state)) > FEW:
            return 2 * constraint.distance(state) + RISE
        return self.levels(constraint, state).most

    def levels(self, constraint: Constraint, state: int) -> Levels:
        """The distances after the tokens of a state, or after some of them, with one that is nearer to an end."""
        known = self._levels.get(state)
        if known is None:
            known = self._levels[state] = _levels(constraint, state)
        return known

    def _filtered(self, constraint: Constraint, state: int, remaining: int) -> NDArray[np.uint32]:
        mask, levels = constraint.mask(state), self.levels(constraint, state)
        ends = mask & constraint.vocabulary.end_row
        row = (levels.within(remaining - 1, len(mask)) & mask) | ends
        token, left = self._paths.get(state, (0, remaining + 1))
        if left <= remaining:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        if not row.any():
            row = levels.within(levels.least, len(mask)) & mask
        row.flags.writeable = False
        return row


def may_be_cut(constraint: Constraint | None) -> bool:
    """Whether a text is whole wherever it may end, with an end token or without."""
    return bool(getattr(constraint, "may_be_cut", False))


def closing_of(constraint: Constraint) -> Closing:
    """What is known of a constraint; the same for all who ask, while the constraint lives."""
    key = id(constraint)
    known = _closings.get(key)
    if known is not None and known[0]() is constraint:
        return known[1]

    def forget(dead: weakref.ref[Constraint]) -> None:
        if key in _closings and _closings[key][0] is dead:
            del _closings[key]

    made = Closing()
    _closings[key] = weakref.ref(constraint, forget), made
    return made


def check_budget(constraints: Sequence[Constraint | None], states: Sequence[int], given: int, used: int = 0) -> None:
    """Raise unless every row can end within a budget.

    Args:
        constraints: one for each row; None for a row that may be cut off.
        states: where each row is; negative ones are over.
        given: the most tokens of a row, the end token included.
        used: how many tokens the rows have already.

    Raises:
        BudgetError: a row needs more; says which, and how many.
    """
    for row, (constraint, state) in enumerate(zip(constraints, states, strict=True)):
        if constraint is not None and state >= 0:
            needed = used + closing_of(constraint).needed(constraint, state, given - used)
            if needed > given:
                raise BudgetError(needed=needed, given=given, row=row if len(states) > 1 else None)


def _tells(constraint: Constraint, state: int) -> bool:
    """Whether a constraint brings the distances after the tokens of a state itself."""
    tells = getattr(constraint, "tells", None)
    return hasattr(constraint, "levels") if tells is None else bool(tells(state))


def _levels(constraint: Constraint, state: int) -> Levels:
    if _tells(constraint, state):
        found: Levels = constraint.levels(state)  # type: ignore[attr-defined]
        return found
    if hasattr(constraint, "beside"):
        return _levels_of_all(*constraint.beside(state))
    mask = constraint.mask(state)
    if _count(mask) <= FEW or hasattr(constraint, "farthest"):
        return levels_one_by_one(constraint, state, set_bits(mask).tolist())
    return levels_one_by_one(constraint, state, _shortest_with_a_nearer(constraint, state, mask))


def _levels_of_all(ways: list[tuple[Constraint, int, int]], alone: Levels) -> Levels:
    """Of a constraint that is made of others, with so many tokens behind each: a token counts where it counts least."""
    groups, tokens, distances = list(alone.groups), [alone.tokens], [alone.distances]
    for one, at, more in ways:
        told = closing_of(one).levels(one, at)
        groups += [(group, beyond + more) for group, beyond in told.groups]
        tokens.append(told.tokens)
        distances.append(told.distances + more)
    return Levels(tuple(groups), np.concatenate(tokens), np.concatenate(distances))


def _shortest_with_a_nearer(constraint: Constraint, state: int, mask: NDArray[np.uint32]) -> Iterator[int]:
    """The shortest tokens of a mask, at least until one of them leads nearer to an end."""
    distance, ends, found = constraint.distance(state), constraint.vocabulary.eos, constraint.accepts(state)
    first = _witness(constraint, state)
    if first is not None:
        yield first
        found = found or constraint.distance(constraint.advance(state, first)) < distance
    number = 0
    for token in _by_length(constraint.vocabulary):
        if token == first or token in ends or not mask[token >> 5] >> (token & 31) & 1:
            continue
        number += 1
        if number > FEW and found:
            return
        after = constraint.advance(state, token)
        found = found or (after != DEAD and constraint.distance(after) < distance)
        yield token


def _candidates(constraint: Constraint, state: int) -> list[int]:
    """Allowed text tokens; of very many, the shortest (which close what is open) and the longest."""
    ends = constraint.vocabulary.eos
    allowed = [token for token in set_bits(constraint.mask(state)).tolist() if token not in ends]
    if len(allowed) <= 2 * FEW:
        return allowed
    tokens = constraint.vocabulary.tokens
    allowed.sort(key=lambda token: len(tokens[token] or b""))
    return allowed[:FEW] + allowed[-FEW:]


def _witness(constraint: Constraint, state: int) -> int | None:
    """The first token of a short text to the end, where the constraint can tell."""
    find = getattr(constraint, "witness", None)
    path = constraint.vocabulary.encode_greedy(find(state)) if find is not None else []
    return path[0] if path else None


@lru_cache(8)
def _by_length(vocabulary: Vocabulary) -> tuple[int, ...]:
    tokens = vocabulary.tokens[: vocabulary.width]
    return tuple(sorted((i for i, text in enumerate(tokens) if text), key=lambda i: len(tokens[i] or b"")))


def _count(row: NDArray[np.uint32]) -> int:
    return int(np.bitwise_count(row).sum())
