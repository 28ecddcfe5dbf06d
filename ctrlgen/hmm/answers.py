"""What an HMM answers in a step of decoding: how much of what is wanted is left, whichever token comes next.

A token of class c leads from state s of the automaton to d(s, c), and is worth

    b(v | z) phi(v) h(z, d(s, c)), summed over z with p(z_t | x_<t)

so what a token needs of the tables is one row h(., d). An end token has a row of ones in a final state, and what is
refused one of zeros. A token costs H for each product, however many states there are: where few edges leave a state
(one, without a constraint), their rows are multiplied with all tokens at once, else each token with its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ctrlgen.hmm.emission import product
from ctrlgen.hmm.horizon import table_after

if TYPE_CHECKING:
    from ctrlgen.hmm.horizon import Ahead
    from ctrlgen.hmm.lookahead import Question

GROUPED = 32
"""Rows of the tables, of all edges of a state and all products, up to which they are multiplied with all tokens."""

_ROOM = 1 << 23  # numbers of a temporary


class Answers(NamedTuple):
    """A question and its tables, as a step reads them."""

    question: Question
    total: int | None
    """Tokens of the whole text, or None where the number to come is always the same."""
    rows: torch.Tensor
    """float or complex[N, S + 2, M, H]: h scaled to 1 at most, of the dtype of the HMM; then ones, then zeros."""
    scale: torch.Tensor
    """float[N, S + 2, M]: what they are to be multiplied with."""
    moves: torch.Tensor
    """int64[S + 1, K]: the row after a token of a class, from each state and, last, from state -1."""
    targets: torch.Tensor
    """int64[S + 1, D]: the different ones of them that go on, filled up with the last."""
    slot: torch.Tensor
    """int64[S + 1, K]: which of ``targets``, counted from 1; 0 for ends and what is refused."""


class Place(NamedTuple):
    """Where B rows are."""

    prior: torch.Tensor
    """float[B, H]: p(z_t | x_<t)."""
    past: torch.Tensor
    """float or complex[B, M]: sum of the weights of the tokens that count so far."""
    state: torch.Tensor
    """int64[B]: of the automaton; -1 for one that refused a token."""
    length: int
    """Tokens generated."""


def answers(question: Question, ahead: Ahead) -> Answers:
    """The tables made ready to be read."""
    lifted, (_, states, _) = question.lifted, question.shape
    ended, refused = states, states + 1
    tables = ahead.tables.transpose(1, 2)  # [N, S, M, H]
    top = tables.abs().amax(3)
    top = torch.where(top > 0, top, 1.0)
    kind = tables.to(question.mass.dtype).dtype if tables.is_complex() else question.hmm.dtype
    rows = (tables / top[..., None]).to(kind)
    edge = torch.ones_like(rows[:, :1])
    scale = torch.cat([top, torch.ones_like(top[:, :1]), torch.zeros_like(top[:, :1])], 1)
    moves = torch.where(lifted.moves >= 0, lifted.moves, refused)
    moves[lifted.final, lifted.end_class] = ended
    moves = torch.cat([moves, torch.full_like(moves[:1], refused)])
    degree = int(question.slot.max()) if question.slot.numel() else 0
    targets = torch.full((states + 1, max(1, degree)), refused, device=moves.device)
    place, class_ = question.slot.nonzero(as_tuple=True)
    targets[place, question.slot[place, class_] - 1] = lifted.moves[place, class_]
    slot = torch.cat([question.slot, torch.zeros_like(question.slot[:1])])
    return Answers(question, ahead.total, torch.cat([rows, edge, 0 * edge], 1), scale, moves, targets, slot)


def value(answers: Answers, place: Place, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What is wanted, expected by the HMM if each of some tokens comes next.

    Args:
        answers: of a question.
        place: of B rows.
        tokens: int64[B, K], from 0 to V - 1.

    Returns:
        float[B, K]: p(wanted and x_t = v | x_<t), and p(x_t = v | x_<t); both up to the rounding of the HMM's dtype.
    """
    hmm, count = answers.question.hmm, 1 if _grouped(answers) else answers.rows.shape[2]
    room = max(1, _ROOM // max(1, len(place.prior) * hmm.states * count))
    parts = [_value(answers, place, part) for part in torch.split(tokens, room, 1)]
    return torch.cat([one for one, _ in parts], 1), torch.cat([one for _, one in parts], 1)


def average(answers: Answers, place: Place) -> torch.Tensor:
    """float[B, K]: the same, as a ratio, for a token of class c of which no more is known; 0 for refused classes."""
    question, moves = answers.question, answers.moves[place.state]
    sums = question.averages  # [M, K, H]
    if _grouped(answers):
        rows = _towards(answers, place).to(sums.dtype)  # [B, D, M, H]
        ends = place.prior[:, None, None].to(sums.dtype).expand(-1, 1, rows.shape[2], -1)
        joint = torch.einsum("bdmh,mkh->bdmk", torch.cat([ends, rows], 1), sums)
        joint = _chosen(joint, answers.slot[place.state])
    else:
        room = max(1, _ROOM // max(1, len(place.prior) * sums.shape[0] * sums.shape[2]))
        columns = sums.transpose(0, 1)[None]  # [1, K, M, H]
        parts = zip(torch.split(columns, room, 1), torch.split(moves, room, 1), strict=True)
        joint = torch.cat([_one_by_one(answers, place, one, some) for one, some in parts], 1)
    scale = place.past[:, None].exp() * question.coefficients * _scale(answers, place.length)[moves]
    likely = product(place.prior, question.shares.T).clamp(min=torch.finfo(place.prior.dtype).tiny)
    return ((scale * joint).sum(2).real / likely).clamp(min=0)


def staying(answers: Answers, place: Place) -> torch.Tensor:
    """float[B]: what is expected after a token that says nothing and counts for nothing; the automaton stays."""
    question = answers.question
    row = torch.where(place.state >= 0, place.state, question.shape[1] + 1)
    ahead = answers.rows[_number(answers, place.length), row]  # [B, M, H]
    worth = torch.einsum("bh,bmh->bm", place.prior.to(question.mass.dtype), ahead.to(question.mass.dtype))
    scale = place.past.exp() * question.coefficients * _scale(answers, place.length)[row]
    return (worth * scale).sum(1).real


def _value(answers: Answers, place: Place, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    question = answers.question
    columns = question.hmm.emission.columns(tokens).to(question.hmm.dtype)  # [B, K, H]
    classes = question.lifted.classes[tokens]
    moves = answers.moves[place.state[:, None], classes]
    prior = place.prior[:, None]
    if _grouped(answers):
        rows = _towards(answers, place)
        # the prior alone is what an end token needs, and how likely each token is
        together = torch.cat([prior.to(rows.dtype), rows.flatten(1, 2)], 1)
        both = product(together, columns.transpose(1, 2))
        likely, worth = both[:, 0].real, both[:, 1:].view(*rows.shape[:3], -1)  # [B, D, M, K]
        ends = likely[:, None, None].expand(-1, 1, rows.shape[2], -1).to(worth.dtype)
        joint = _chosen(torch.cat([ends, worth], 1), answers.slot[place.state[:, None], classes])
    else:
        likely = product(prior, columns.transpose(1, 2))[:, 0]
        joint = _one_by_one(answers, place, columns[:, :, None], moves)
    phi = (place.past[:, None] + torch.nn.functional.embedding(tokens, question.weights)).exp()
    scale = phi * question.coefficients * _scale(answers, place.length)[moves]
    return (scale * joint).sum(2).real, likely


def _grouped(answers: Answers) -> bool:
    return answers.targets.shape[1] * answers.rows.shape[2] <= GROUPED or answers.targets.shape[1] == 1


def _towards(answers: Answers, place: Place) -> torch.Tensor:
    """float or complex[B, D, M, H]: prior times the row of each target."""
    rows = answers.rows[_number(answers, place.length)][answers.targets[place.state]]
    return place.prior[:, None, None] * rows


def _chosen(worth: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
    """float or complex[B, K, M]: of [B, 1 + D, M, K] what each token takes, int64[B, K]."""
    index = slot[:, None, None].expand(-1, 1, worth.shape[2], -1)
    return worth.gather(1, index)[:, 0].transpose(1, 2)


def _one_by_one(answers: Answers, place: Place, columns: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
    """float or complex[B, K, M]: columns [B or 1, K, M or 1, H], each times the row that int64[B, K] says."""
    table = answers.rows[_number(answers, place.length)]
    rows = table.index_select(0, moves.flatten()).view(*moves.shape, *table.shape[1:])  # [B, K, M, H]

    def summed(parts: torch.Tensor) -> torch.Tensor:
        return product(place.prior[:, None], parts.flatten(1, 2).transpose(1, 2)).view(parts.shape[:3])

    parts = rows * columns.to(rows.dtype)
    return torch.complex(summed(parts.real), summed(parts.imag)) if parts.is_complex() else summed(parts)


def _number(answers: Answers, length: int) -> int:
    return table_after(length, len(answers.rows), answers.total)


def _scale(answers: Answers, length: int) -> torch.Tensor:
    """float[S + 2, M]"""
    return answers.scale[_number(answers, length)]
