"""Constraints as automata over token classes: tokens that lead alike from every state are one class.

What an HMM sums over a vocabulary depends on the class alone, so that a constraint of S states costs its edges times H
a step of the horizon, whatever the size of the vocabulary (Ctrl-G and Deco-G sum over tokens).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ctrlgen.constraint import DEAD
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint

STATES, MOVES = 4096, 4_000_000
"""Limits on the states of a constraint, and on the moves of all states together."""


@dataclass(frozen=True, eq=False)
class Lifted:
    """A finite automaton over the classes of V tokens; state 0 is the start."""

    classes: torch.Tensor
    """int64[V]: class of each token; the end tokens are one."""
    moves: torch.Tensor
    """int64[S, K]: state after a token of a class, -1 where it is refused; -1 for end tokens."""
    final: torch.Tensor
    """bool[S]: whether an end token may come."""
    end_class: int

    @property
    def states(self) -> int:
        """S."""
        return self.moves.shape[0]

    @property
    def classes_count(self) -> int:
        """K."""
        return self.moves.shape[1]

    @property
    def refuses(self) -> bool:
        """Whether there is a state in which something may not come."""
        return not bool(self.final.all()) or int((self.moves < 0).sum()) > self.states

    def after(self, state: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """int64[B]: the states after one more token each; -1 for ever after one that is refused, or an end."""
        known = tokens < len(self.classes)
        moved = self.moves[state.clamp(min=0), self.classes[tokens.clamp(max=len(self.classes) - 1)]]
        return torch.where((state >= 0) & known, moved, -1)

    def to(self, device: torch.device | str) -> Lifted:
        """The same on another device."""
        if self.classes.device == torch.device(device):
            return self
        return Lifted(self.classes.to(device), self.moves.to(device), self.final.to(device), self.end_class)


def anything(width: int, eos: tuple[int, ...]) -> Lifted:
    """Any text, over at an end token."""
    classes = torch.zeros(width, dtype=torch.long)
    classes[list(eos)] = 1
    return Lifted(classes, torch.tensor([[0, -1]]), torch.tensor([True]), 1)


def lift(constraint: Constraint, width: int, *, states: int = STATES, moves: int = MOVES) -> tuple[Lifted, list[int]]:
    """The part of ``constraint`` that can be reached, and the constraint's own number of each state.

    Args:
        constraint: any, if it has no more than ``states`` states.
        width: V of the HMM; tokens past it lead nowhere.
        states: limit.
        moves: limit on all moves together.

    Raises:
        ComplexityError: a limit was reached.
    """
    ends = np.array([token for token in constraint.vocabulary.eos if token < width], np.int64)
    number, order, moved, spent = {constraint.start: 0}, [constraint.start], [], 0
    for state in order:
        tokens = np.setdiff1d(_allowed(constraint, state, width), ends)
        spent += len(tokens)
        if spent > moves:
            raise ComplexityError(f"the constraint has more than {moves} moves; raise moves=, or use a simpler one")
        reached, place = np.unique(_after(constraint, state, tokens), return_inverse=True)
        numbers = [number.setdefault(one, len(number)) for one in reached.tolist()]
        moved.append((tokens, np.array(numbers, np.int64)[place]))
        order.extend(list(number)[len(order) :])
        if len(order) > states:
            raise ComplexityError(f"the constraint has more than {states} states; raise states=, or use a simpler one")
    final = np.array([constraint.accepts(state) for state in order])
    return _classified(moved, final, ends, width), order


def _allowed(constraint: Constraint, state: int, width: int) -> NDArray[np.int64]:
    bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")[:width]
    return np.flatnonzero(bits)


def _after(constraint: Constraint, state: int, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
    """The states after each of some allowed tokens; all at once where a constraint can."""
    together = getattr(constraint, "advance_each", None)
    if together is not None:
        found: NDArray[np.int64] = together(state, tokens)
        return found
    return np.array([constraint.advance(state, token) for token in tokens.tolist()], np.int64)


def _classified(
    moved: list[tuple[NDArray[np.int64], NDArray[np.int64]]],
    final: NDArray[np.bool_],
    ends: NDArray[np.int64],
    width: int,
) -> Lifted:
    """Tokens that move alike from every state become one class; ``moved`` has the tokens and targets of each state.

    A token's moves are added up as random numbers, so that this takes as long as there are moves; whether equal sums
    are equal moves is then looked at.
    """
    is_end = np.zeros(width, bool)
    is_end[ends] = True
    table, seed = None, 0
    while table is None:  # once; that sums are equal by chance takes some 2 ** 32 tokens
        random = np.random.default_rng(seed).integers(1 << 63, size=(len(moved), 2), dtype=np.uint64, endpoint=True)
        sums = np.where(is_end, np.uint64(1), np.uint64(0))
        for (tokens, targets), factor in zip(moved, random[:, 0] | np.uint64(1), strict=True):
            sums[tokens] += factor * random[targets, 1]
        _, classes = np.unique(sums, return_inverse=True)
        table, seed = _moves(moved, classes, is_end), seed + 1
    if len(ends):
        end_class = int(classes[ends[0]])
    else:  # nobody's class
        end_class, table = table.shape[1], np.hstack([table, np.full((len(table), 1), DEAD)])
    return Lifted(
        torch.from_numpy(classes.astype(np.int64)), torch.from_numpy(table), torch.from_numpy(final), end_class
    )


def _moves(
    moved: list[tuple[NDArray[np.int64], NDArray[np.int64]]], classes: NDArray[np.int64], is_end: NDArray[np.bool_]
) -> NDArray[np.int64] | None:
    """int64[S, K], or None if tokens of a class do not move alike."""
    sizes = np.bincount(classes)
    table = np.full((len(moved), len(sizes)), DEAD, np.int64)
    for row, (tokens, targets) in zip(table, moved, strict=True):
        row[classes[tokens]] = targets
        if not np.array_equal(row[classes[tokens]], targets) or sizes[row != DEAD].sum() != len(tokens):
            return None
    ends = np.unique(classes[is_end])
    return table if len(ends) <= 1 and sizes[ends].sum() == is_end.sum() else None
