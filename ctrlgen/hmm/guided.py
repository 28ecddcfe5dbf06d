"""What steerers that ask an HMM have in common: they follow its states, and what has counted so far.

The state of a row is p(z_t | x_<t), the sums of the weights of the tokens generated so far, the state of the automaton
and the number of tokens. A prompt moves the hidden state and counts for nothing else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm import answers, lookahead
from ctrlgen.hmm.answers import Answers, Place
from ctrlgen.hmm.model import after_texts, step
from ctrlgen.steering.sourced import tokens_or_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.hmm.horizon import Ahead, Horizon
    from ctrlgen.hmm.lifted import Lifted
    from ctrlgen.hmm.lookahead import Question
    from ctrlgen.hmm.model import HMM
    from ctrlgen.hmm.terms import Terms
    from ctrlgen.steering.protocol import Moment, Prompts

_LEAST, _SMALL = 1e-280, 1e-25  # for double and for single precision, with room for what they are multiplied with

TOP = 256
"""Likeliest tokens of a row that are looked at one by one."""


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


class Expected(NamedTuple):
    """How likely it is that what is wanted comes true, for each next token: e exp(shared), e from 0 to 1."""

    tokens: torch.Tensor
    """int64[B, T]: that were looked at one by one."""
    found: torch.Tensor
    """float[B, T]: e of these."""
    others: torch.Tensor
    """float[B, K]: e of all others of a class."""
    unknown: torch.Tensor
    """float[B, 1]: e of tokens that the HMM does not know."""
    classes: torch.Tensor
    """int64[V of both]: of the tokens that the HMM knows."""
    width: int
    """V of the model."""
    shared: torch.Tensor
    """float[B, 1]: the probability of a long text may be too small a number."""

    def spread(self, worth: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """float32[B, V]: ``worth`` of each token's e, computed before it is spread over the vocabulary."""
        found, others, unknown = (worth(one).float() for one in (self.found, self.others, self.unknown))
        out = others.index_select(1, self.classes).scatter_(1, self.tokens, found)
        if self.width > len(self.classes):
            out = torch.cat([out, unknown.expand(-1, self.width - len(self.classes))], 1)
        return out


def guide(hmm: HMM, terms: Terms, lifted: Lifted, horizon: Horizon) -> Answers:
    """The tables of all look-ahead, computed once.

    Raises:
        InputError: an attribute for fewer tokens than the HMM has.
    """
    if terms.weights.shape[1] < hmm.width:
        raise InputError(f"the attribute is for {terms.weights.shape[1]} tokens, the HMM for {hmm.width}: fit it anew")
    question = lookahead.ask(hmm, terms, lifted)
    return answers.answers(question, _solved(question, horizon))


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


def begin(guide: Answers, prompts: Prompts) -> Followed:
    """Rows of which nothing is generated yet."""
    question = guide.question
    count, device = len(prompts.rows), question.hmm.device
    nothing = torch.zeros(count, dtype=torch.long, device=device)
    past = torch.zeros(count, question.shape[0], dtype=question.mass.dtype, device=device)
    return Followed(after_texts(question.hmm, prompts.rows), past, nothing, nothing.clone())


def move(guide: Answers, rows: Followed, tokens: torch.Tensor, alive: torch.Tensor) -> Followed:
    """One more token in each row that is alive; past the length that was given, nothing counts any more."""
    hmm, weights = guide.question.hmm, guide.question.weights
    counts = alive & (tokens < hmm.width)
    if guide.total is not None:
        counts = counts & (rows.counted < guide.total)
    new = weights[tokens.clamp(max=hmm.width - 1)] * counts[:, None]
    prior = torch.where(alive[:, None], step(hmm, rows.prior, tokens), rows.prior)
    state = torch.where(alive, guide.question.lifted.after(rows.state, tokens), rows.state)
    return Followed(prior, rows.past + new, state, rows.counted + counts)


def expected(guide: Answers, rows: Followed, moment: Moment, top: int | None) -> Expected:
    """How likely it is that what is wanted comes true, for each next token.

    The ``top`` likeliest tokens of each row are looked at one by one. Of the others all of one class have the average
    of their class, and those that the HMM does not know tell it nothing.

    Args:
        guide: of the same device.
        rows: as ``begin`` or ``move`` left them.
        moment: what the language model says.
        top: None for all.
    """
    shared = rows.past.real.amax(1, keepdim=True)
    place = Place(rows.prior, rows.past - shared, rows.state, moment.length)
    lifted, (count, width) = guide.question.lifted, moment.log_p.shape
    known = min(width, guide.question.hmm.width)
    if top is None or top >= known:
        chosen = torch.arange(known, device=moment.log_p.device).expand(count, -1)
    else:
        chosen = moment.log_p[:, :known].topk(top, 1, sorted=False).indices
    wanted, likely = answers.value(guide, place, chosen)
    others = answers.average(guide, place)
    found = torch.where(
        likely > 0, wanted / torch.where(likely > 0, likely, 1.0), others.gather(1, lifted.classes[chosen])
    )
    unknown = answers.staying(guide, place)[:, None] if width > known else others[:, :1]
    several = [one.clamp(min=0.0) for one in (found, others, unknown)]
    best = torch.cat([one.amax(1, keepdim=True) for one in several], 1).amax(1, keepdim=True)
    best = torch.where(best > 0, best, 1.0)
    found, others, unknown = (one / best for one in several)
    classes = lifted.classes[:known]
    return Expected(chosen, found, others, unknown, classes, width, shared + best.log())


class Guided:
    """A steerer that asks an HMM; a subclass says what, and what it makes of the answers.

    Args:
        hmm: the model.
        top: tokens that are looked at one by one, None for all.
    """

    def __init__(self, hmm: HMM, top: int | None) -> None:
        self.hmm, self.top = hmm, tokens_or_all("top", top)
        self._guides: dict[torch.device, Answers] = {}
        self._lock = threading.RLock()

    def update(self, state: tuple[Any, ...], tokens: torch.Tensor, alive: torch.Tensor) -> tuple[Any, ...]:
        """One more token in each row."""
        return tuple(move(self._guide(tokens.device), Followed(*state), tokens, alive))

    def _guide(self, device: torch.device) -> Answers:
        """The tables on a device; computed where they are first needed."""
        with self._lock:
            if device not in self._guides:
                self._guides[device] = self._made(self.hmm.to(device))
            return self._guides[device]

    def _made(self, hmm: HMM) -> Answers:
        """The tables for the model as it is on a device."""
        raise NotImplementedError
