"""Fewer states of a constraint: those that texts which meet it hardly ever pass through.

What is lost is at most the sum, over the states left out, of the probability to pass through one and still meet the
constraint, the HMM being where it is in the long run. How much was kept is then computed, not estimated.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ctrlgen.errors import UnsatisfiableError
from ctrlgen.hmm import lookahead
from ctrlgen.hmm.horizon import unbounded
from ctrlgen.hmm.lifted import Lifted
from ctrlgen.hmm.lookahead import Question
from ctrlgen.hmm.model import HMM, stationary
from ctrlgen.hmm.terms import constant

_STEPS = 2000  # of walking forward; automata that are still passed through then keep their likeliest states


class Pruned(NamedTuple):
    """What pruning did."""

    states: int
    """Before."""
    left: int
    """After."""
    kept: float
    """Share of the probability to meet the constraint that is still counted."""


def pruned(hmm: HMM, lifted: Lifted, keep: float) -> tuple[Lifted, Pruned]:
    """The automaton without unlikely states, and what that cost.

    Args:
        hmm: with end tokens.
        lifted: a constraint.
        keep: share of the probability that must stay, from 0 to 1.

    Raises:
        UnsatisfiableError: the HMM holds the constraint for impossible.
    """
    question = _question(hmm, lifted)
    accepted = _before_end(question)
    start = stationary(hmm).to(accepted)
    whole = float(start @ accepted[:, 0])
    if not whole > 0:
        raise UnsatisfiableError("the HMM holds texts that meet this constraint for impossible: there is no guidance")
    through = (_visits(question, start) * accepted).sum(0)
    through[0] = torch.inf
    order = through.argsort()
    count = int((through[order].cumsum(0) <= (1 - keep) * whole).sum())
    while True:
        smaller = without(lifted, order[:count])
        left = _before_end(_question(hmm, smaller))
        kept = min(1.0, float(start @ left[:, 0]) / whole)
        if kept >= keep or not count:
            return smaller, Pruned(lifted.states, smaller.states, kept)
        count //= 2


def without(lifted: Lifted, states: torch.Tensor) -> Lifted:
    """The automaton without some states, int64[N]; what led to them is refused."""
    stays = torch.ones(lifted.states, dtype=torch.bool, device=lifted.moves.device)
    stays[states] = False
    number = torch.where(stays, stays.cumsum(0) - 1, -1)
    moves = lifted.moves[stays]
    return Lifted(
        lifted.classes, torch.where(moves >= 0, number[moves.clamp(min=0)], -1), lifted.final[stays], lifted.end_class
    )


def _question(hmm: HMM, lifted: Lifted) -> Question:
    return lookahead.ask(hmm, constant(1.0, hmm.width), lifted)


def _before_end(question: Question) -> torch.Tensor:
    """float64[H, S]: the probability to meet the constraint and end, from before a token on."""
    after = unbounded(question, 1.0, must_end=True)
    return lookahead.before(question, after)[0].T.double()


def _visits(question: Question, start: torch.Tensor) -> torch.Tensor:
    """float64[H, S]: how often a text is in z and s before a token, texts that the constraint refuses being over."""
    matrix, mass = question.transition.to(start), question.mass[0].to(start)
    now = torch.zeros(len(start), question.lifted.states, dtype=start.dtype, device=start.device)
    now[:, 0] = start
    total = now.clone()
    for _ in range(_STEPS):
        moved = torch.zeros_like(now).index_add_(1, question.target, now[:, question.source] * mass.T)
        now = matrix.T @ moved
        total += now
        if float(now.sum()) < 1e-15:
            break
    return total
