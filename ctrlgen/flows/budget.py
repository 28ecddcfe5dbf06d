"""How many tokens a constraint needs at least, or close to that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint

_MANY = 2048


def tokens_needed(constraint: Constraint, enough: int) -> int:
    """A number of tokens, the end token included, with which a text can be finished; small, if not the smallest.

    ``distance`` promises what is certain to suffice, which is often one token for each byte. Only if that is more than
    ``enough`` does it pay to look for longer tokens: from state to state, the one that leaves the least distance.
    """
    state, most = constraint.start, constraint.distance(constraint.start)
    if most <= enough:
        return most
    for spent in range(most):
        if constraint.accepts(state):
            return spent + 1
        after = (constraint.advance(state, token) for token in _candidates(constraint, state))
        state = min(after, key=constraint.distance)
        if spent + 1 + constraint.distance(state) <= enough:
            return spent + 1 + constraint.distance(state)
    return most


def _candidates(constraint: Constraint, state: int) -> list[int]:
    """Allowed text tokens; of very many, the shortest (which close what is open) and the longest."""
    bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")
    allowed: list[int] = np.flatnonzero(bits).tolist()
    if len(allowed) <= 2 * _MANY:
        return allowed
    tokens = constraint.vocabulary.tokens
    allowed.sort(key=lambda token: len(tokens[token] or b""))
    return allowed[:_MANY] + allowed[-_MANY:]
