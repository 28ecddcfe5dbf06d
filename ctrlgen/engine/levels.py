"""How many tokens each allowed token leaves to the end: what a budget needs to know of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctrlgen.constraint import DEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint


class Levels(NamedTuple):
    """The text tokens that a state allows, with the tokens that certainly suffice after each, EOS included."""

    groups: tuple[tuple[NDArray[np.uint16], NDArray[np.int64]], ...]
    """(uint16[ids], int64[G]): the group of each token (0: none), the distance after a token of each group."""
    tokens: NDArray[np.int64]
    """int64[n]: tokens that are looked at one by one."""
    distances: NDArray[np.int64]
    """int64[n]: the distance after each of them."""

    @property
    def most(self) -> int:
        """The largest of the distances; 0 if there is none."""
        each = [self.distances, *(distances[1:] for _, distances in self.groups)]
        return max((int(one.max()) for one in each if len(one)), default=0)

    @property
    def least(self) -> int:
        """The smallest of the distances; 0 if there is none."""
        each = [self.distances]
        for group, distances in self.groups:
            present = np.bincount(group, minlength=len(distances)) > 0
            each.append(distances[1:][present[1:]])
        return min((int(one.min()) for one in each if len(one)), default=0)

    def within(self, most: int, words: int) -> NDArray[np.uint32]:
        """uint32[words]: the tokens after which at most so many tokens suffice."""
        bits = np.zeros(32 * words, bool)
        for group, distances in self.groups:
            fitting = distances <= most
            fitting[0] = False
            bits[: len(group)] |= fitting[group]
        bits[self.tokens[self.distances <= most]] = True
        return np.packbits(bits, bitorder="little").view(np.uint32)


def levels_one_by_one(constraint: Constraint, state: int, tokens: Iterable[int]) -> Levels:
    """The levels of a state as far as they concern some tokens, one by one: for any constraint."""
    ends = frozenset(constraint.vocabulary.eos)
    known: dict[int, int] = {}
    alone: dict[int, int] = {}
    for token in tokens:
        after = DEAD if token in ends else constraint.advance(state, token)
        if after == DEAD:
            continue
        if after not in known:
            known[after] = constraint.distance(after)
        alone[token] = known[after]
    return levels_of((), alone)


def set_bits(row: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The ids whose bit is set, ascending."""
    words = np.flatnonzero(row)
    bits = np.unpackbits(np.ascontiguousarray(row[words]).view(np.uint8).reshape(-1, 4), axis=1, bitorder="little")
    word, bit = np.nonzero(bits)
    found: NDArray[np.int64] = words[word] * 32 + bit
    return found


def levels_of(groups: Iterable[tuple[NDArray[np.uint16], NDArray[np.int64]]], alone: Mapping[int, int]) -> Levels:
    """Levels of groups, and of tokens that stand alone with their distance."""
    size = len(alone)
    return Levels(
        tuple(groups),
        np.fromiter(alone, np.int64, size),
        np.fromiter(alone.values(), np.int64, size),
    )
