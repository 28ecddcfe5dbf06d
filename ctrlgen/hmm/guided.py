"""What steerers that ask an HMM have in common: they follow its states, and what has counted so far.

The state of a row is p(z_t | x_<t), the sums of the weights of the tokens generated so far, the state of the automaton
and the number of tokens. A prompt moves the hidden state and counts for nothing else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm import lookahead
from ctrlgen.hmm.model import after_texts, step
from ctrlgen.steering.sourced import tokens_or_all

if TYPE_CHECKING:
    from ctrlgen.hmm.horizon import Ahead, Horizon
    from ctrlgen.hmm.lifted import Lifted
    from ctrlgen.hmm.lookahead import Question
    from ctrlgen.hmm.model import HMM
    from ctrlgen.hmm.terms import Terms
    from ctrlgen.steering.protocol import Moment, Prompts

_LEAST, _SMALL = 1e-280, 1e-25  # for double and for single precision, with room for what they are multiplied with

TOP = 256
"""Likeliest tokens of a row that are looked at one by one."""


class Guide(NamedTuple):
    """A question and its answers, on one device."""

    question: Question
    ahead: Ahead

    @property
    def hmm(self) -> HMM:
        """The model."""
        return self.question.hmm


class Followed(NamedTuple):
    """B rows."""

    prior: torch.Tensor
    """float[B, H]: p(z_t | x_<t)."""
    past: torch.Tensor
    """float or complex[B, M]"""
    state: torch.Tensor
    """int64[B]: of the automaton, -1 where it refused a token."""
    counted: torch.Tensor
    """int64[B]: tokens that counted."""


def guide(hmm: HMM, terms: Terms, lifted: Lifted, horizon: Horizon) -> Guide:
    """The tables of all look-ahead, computed once.

    Raises:
        InputError: an attribute for fewer tokens than the HMM has.
    """
    if terms.weights.shape[1] < hmm.width:
        raise InputError(f"the attribute is for {terms.weights.shape[1]} tokens, the HMM for {hmm.width}: fit it anew")
    question = lookahead.ask(hmm, terms, lifted)
    return Guide(question, _solved(question, horizon))


def _solved(question: Question, horizon: Horizon) -> Ahead:
    """The tables, solved in double precision and kept in it where numbers are too small for less."""
    exact = torch.complex128 if question.mass.is_complex() else torch.float64
    matrix = question.transition.double()
    mass, ending = question.mass.to(exact), question.ending.to(exact)
    sharper = question._replace(mass=mass, ending=ending, transition=matrix / matrix.sum(1, keepdim=True))
    ahead = horizon.solve(sharper)
    largest = ahead.tables.abs().amax(dim=(1, 3))  # of each number of tokens to come, and each state of the automaton
    some = largest[largest > 0]
    budget = ahead.total is not None and len(largest) == 1  # nothing may follow the one token of a budget
    if not bool((some > _LEAST).all()) or (not len(some) and not budget):
        raise InputError(
            "what is wanted is too unlikely for numbers, or impossible for the HMM: let it look ahead over fewer "
            "tokens, or take the stationary horizon"
        )
    small = len(some) > 0 and bool((some < _SMALL).any())
    return ahead if small else ahead._replace(tables=ahead.tables.to(question.mass.dtype))


def begin(guide: Guide, prompts: Prompts) -> Followed:
    """Rows of which nothing is generated yet."""
    count, device = len(prompts.rows), guide.hmm.device
    nothing = torch.zeros(count, dtype=torch.long, device=device)
    past = torch.zeros(count, guide.question.shape[0], dtype=guide.question.mass.dtype, device=device)
    return Followed(after_texts(guide.hmm, prompts.rows), past, nothing, nothing.clone())


def move(guide: Guide, rows: Followed, tokens: torch.Tensor, alive: torch.Tensor) -> Followed:
    """One more token in each row that is alive; past the length that was given, nothing counts any more."""
    hmm, weights = guide.hmm, guide.question.weights
    counts = alive & (tokens < hmm.width)
    if guide.ahead.total is not None:
        counts = counts & (rows.counted < guide.ahead.total)
    new = weights[tokens.clamp(max=hmm.width - 1)] * counts[:, None]
    prior = torch.where(alive[:, None], step(hmm, rows.prior, tokens), rows.prior)
    state = torch.where(alive, guide.question.lifted.after(rows.state, tokens), rows.state)
    return Followed(prior, rows.past + new, state, rows.counted + counts)


def expected(guide: Guide, rows: Followed, moment: Moment, top: int | None) -> tuple[torch.Tensor, torch.Tensor]:
    """How likely it is that what is wanted comes true, for each next token.

    The ``top`` likeliest tokens of each row are looked at one by one. Of the others all of one class have the average
    of their class, and those that the HMM does not know tell it nothing.

    Args:
        guide: of the same device.
        rows: as ``begin`` or ``move`` left them.
        moment: what the language model says.
        top: None for all.

    Returns:
        e, float[B, V] from 0 to 1, and s, float[B, 1]: the probability is e exp(s). What all tokens share is in s,
        since the probability of a long text may be too small a number.
    """
    shared = rows.past.real.amax(1, keepdim=True)
    rows = rows._replace(past=rows.past - shared)
    question, (count, width) = guide.question, moment.log_p.shape
    known = min(width, guide.hmm.width)
    after = guide.ahead.after(moment.length)
    where = (rows.prior, rows.past, rows.state, after)
    if top is None or top >= known:
        chosen = torch.arange(known, device=moment.log_p.device).expand(count, -1)
    else:
        chosen = moment.log_p[:, :known].topk(top, 1).indices
    wanted, likely = lookahead.value(question, *where, chosen)
    others = lookahead.average(question, *where)[:, question.lifted.classes[:known]]
    found = torch.where(likely > 0, wanted / torch.where(likely > 0, likely, 1.0), others.gather(1, chosen))
    out = others.scatter(1, chosen, found.to(others.dtype))
    if width > known:
        out = torch.cat([out, _unknown(guide, rows, after)[:, None].expand(-1, width - known)], 1)
    out = out.clamp(min=0.0)
    best = out.amax(1, keepdim=True)
    best = torch.where(best > 0, best, 1.0)
    return out / best, shared + best.log()


def _unknown(guide: Guide, rows: Followed, after: torch.Tensor) -> torch.Tensor:
    """float[B]: what is expected after a token that says nothing and counts for nothing; the automaton stays."""
    question = guide.question
    ahead = after[0][:, rows.state.clamp(min=0)]  # [M, B, H]
    worth = torch.einsum("bh,mbh->bm", rows.prior.to(ahead.dtype), ahead)
    return (worth * rows.past.exp() * question.coefficients).sum(1).real * (rows.state >= 0)


class Guided:
    """A steerer that asks an HMM; a subclass says what, and what it makes of the answers.

    Args:
        hmm: the model.
        top: tokens that are looked at one by one, None for all.
    """

    def __init__(self, hmm: HMM, top: int | None) -> None:
        self.hmm, self.top = hmm, tokens_or_all("top", top)
        self._guides: dict[torch.device, Guide] = {}
        self._lock = threading.RLock()

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """One more token in each row."""
        return tuple(move(self._guide(tokens.device), Followed(*state), tokens, alive))

    def _guide(self, device: torch.device) -> Guide:
        """The tables on a device; computed where they are first needed."""
        with self._lock:
            if device not in self._guides:
                self._guides[device] = self._made(self.hmm.to(device))
            return self._guides[device]

    def _made(self, hmm: HMM) -> Guide:
        """The tables for the model as it is on a device."""
        raise NotImplementedError
