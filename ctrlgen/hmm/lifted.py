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
    number, order, rows, spent = {constraint.start: 0}, [constraint.start], [], 0
    for state in order:
        allowed = np.setdiff1d(_allowed(constraint, state, width), ends)
        spent += len(allowed)
        if spent > moves:
            raise ComplexityError(f"the constraint has more than {moves} moves; raise moves=, or use a simpler one")
        row = np.full(width, DEAD, np.int64)
        for token in allowed.tolist():
            row[token] = number.setdefault(constraint.advance(state, token), len(number))
        order.extend(list(number)[len(order) :])
        if len(order) > states:
            raise ComplexityError(f"the constraint has more than {states} states; raise states=, or use a simpler one")
        rows.append(row)
    table = np.stack(rows)
    final = np.array([constraint.accepts(state) for state in order])
    return _classified(table, final, ends), order


def _allowed(constraint: Constraint, state: int, width: int) -> np.ndarray:
    bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")[:width]
    return np.flatnonzero(bits)


def _classified(table: np.ndarray, final: np.ndarray, ends: np.ndarray) -> Lifted:
    """Equal columns of int64[S, V] become one."""
    is_end = np.zeros(table.shape[1], bool)
    is_end[ends] = True
    columns = np.ascontiguousarray(np.vstack([table, is_end]).T.astype(np.int32))
    keys = columns.view(np.dtype((np.void, columns.shape[1] * 4)))[:, 0]
    _, first, classes = np.unique(keys, return_index=True, return_inverse=True)
    moves = table[:, first]
    if len(ends):
        end_class = int(classes[ends[0]])
    else:  # nobody's class
        end_class, moves = moves.shape[1], np.hstack([moves, np.full((len(moves), 1), DEAD)])
    return Lifted(
        torch.from_numpy(classes.astype(np.int64)), torch.from_numpy(moves), torch.from_numpy(final), end_class
    )
