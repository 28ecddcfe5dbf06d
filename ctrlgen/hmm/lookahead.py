"""How an HMM expects a text to go on: sums over all futures, one table for each number of tokens to come.

The question is a product over tokens (``terms``), together with an automaton over token classes (``lifted``), whose
states are s and whose moves are d(s, c) for a token of class c. With phi_m(v) = exp(weight_m(v)) and the class sums

    r_m(c, z) = sum over v in c of b(v | z) phi_m(v)

the values of a text from z and s on are (m is left out; for one state of s this is
TRACE, arXiv 2504.18535, and for one product with phi = 1 it is Ctrl-G, arXiv 2406.13892)

    g(z, s) = end(z, s) + sum over c of r(c, z) h(z, d(s, c))
    end(z, s) = sum over end tokens v of b(v | z) phi(v), if s is final
    h(z, s) = sum over z' of A(z, z') g(z', s), or what it is worth to stop there.

h is what follows a token, and what a step of decoding multiplies its tokens with: see ``value``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ctrlgen.errors import ComplexityError
from ctrlgen.hmm.emission import product

if TYPE_CHECKING:
    from ctrlgen.hmm.lifted import Lifted
    from ctrlgen.hmm.model import HMM
    from ctrlgen.hmm.terms import Terms

LIMIT = 1 << 28
"""Numbers that the class sums of a question may take."""


class Question(NamedTuple):
    """An HMM, what is wanted of a text, and the class sums of both."""

    hmm: HMM
    lifted: Lifted
    coefficients: torch.Tensor
    """float or complex[M]"""
    weights: torch.Tensor
    """float or complex[V, M]: log phi, a row for each token of the HMM."""
    ending: torch.Tensor
    """float or complex[M, H]: sum over ends v of b(v | z) phi(v)."""
    mass: torch.Tensor
    """float or complex[M, E, H]: of each edge of the automaton."""
    source: torch.Tensor
    """int64[E]"""
    target: torch.Tensor
    """int64[E]"""
    averages: torch.Tensor
    """float or complex[M, K, H]: r(c, z)."""
    shares: torch.Tensor
    """float[K, H]: sum over v in c of b(v | z)."""
    transition: torch.Tensor
    """float[H, H]: A, of the precision in which it is looked ahead."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, S and H."""
        return len(self.coefficients), self.lifted.states, self.hmm.states


def ask(hmm: HMM, terms: Terms, lifted: Lifted) -> Question:
    """The question with its sums, which take one pass over b for each product.

    Raises:
        ComplexityError: the sums would not fit into memory.
    """
    lifted = lifted.to(hmm.device)
    exact = hmm.start.dtype
    kind = exact if not terms.weights.is_complex() else torch.complex128 if exact == torch.float64 else torch.complex64
    weights = terms.weights[:, : hmm.width].to(hmm.device, kind)
    source, target, class_, edge = _edges(lifted)
    size = (len(source) + lifted.classes_count) * hmm.states * terms.size
    if size > LIMIT:
        raise ComplexityError(
            f"the automaton has {len(source)} edges: with {hmm.states} hidden states and {terms.size} products that "
            f"makes {size} numbers, more than {LIMIT}; use a simpler constraint or a smaller HMM"
        )
    classes, count = lifted.classes[: hmm.width], lifted.classes_count
    phi = weights.exp()
    averages = torch.stack([hmm.emission.sums(one, classes, count) for one in phi])
    shares = hmm.emission.sums(torch.ones_like(phi[0].real), classes, count)
    mass = torch.zeros(terms.size, len(source), hmm.states, dtype=kind, device=hmm.device)
    mass.index_add_(1, edge, averages[:, class_])
    ending = averages[:, lifted.end_class]
    coefficients = terms.coefficients.to(hmm.device, kind)
    log_phi = weights.T.contiguous()
    edges = (mass, source, target)
    return Question(hmm, lifted, coefficients, log_phi, ending, *edges, averages, shares, hmm.transition)


def before(question: Question, after: torch.Tensor) -> torch.Tensor:
    """g from h, both float or complex[M, S, H]: one token is summed over."""
    ends = question.ending[:, None] * question.lifted.final[:, None]
    parts = question.mass * after[:, question.target]
    return ends.contiguous().index_add_(1, question.source, parts)


def through(question: Question, values: torch.Tensor) -> torch.Tensor:
    """h from g: A is applied."""
    return product(values, question.transition.T)


def stopped(question: Question, *, must_end: bool) -> torch.Tensor:
    """h where no token may follow: 1 in every state or, if texts must end by an end token, 0."""
    shape = question.shape
    return question.mass.new_zeros(shape) if must_end else question.mass.new_ones(shape)


def finite(question: Question, count: int, *, must_end: bool) -> torch.Tensor:
    """float or complex[count + 1, M, S, H]: h for 0 ... count tokens to come, or fewer if the text ends."""
    after = stopped(question, must_end=must_end)
    out = [after]
    for _ in range(count):
        after = through(question, before(question, after))
        out.append(after)
    return torch.stack(out)


def value(question: Question, prior: torch.Tensor, past: torch.Tensor, state: torch.Tensor, after: torch.Tensor,
          tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """What is wanted, expected by the HMM if each of some tokens comes next.

    Args:
        question: as ``ask`` returned it.
        prior: float[B, H]: p(z_t | x_<t).
        past: float or complex[B, M]: sum of the weights of the tokens that count so far.
        state: int64[B]: of the automaton; -1 for one that was refused.
        after: float or complex[B or 1, M, S, H]: h.
        tokens: int64[B, K], from 0 to V - 1.

    Returns:
        float[B, K]: p(wanted and x_t = v | x_<t), and p(x_t = v | x_<t); both up to the rounding of the HMM's dtype.
    """
    room = max(1, (1 << 23) // max(1, len(prior) * question.hmm.states * len(question.coefficients)))
    parts = [_value(question, prior, past, state, after, part) for part in torch.split(tokens, room, 1)]
    return torch.cat([one for one, _ in parts], 1), torch.cat([one for _, one in parts], 1)


def average(
    question: Question, prior: torch.Tensor, past: torch.Tensor, state: torch.Tensor, after: torch.Tensor
) -> torch.Tensor:
    """float[B, K]: the same, as a ratio, for a token of class c of which no more is known; 0 for refused classes."""
    lifted = question.lifted
    moves = lifted.moves[state.clamp(min=0)]  # [B, K]
    rows = torch.arange(len(after), device=state.device).expand(len(prior))
    ahead = after[rows[:, None], :, moves.clamp(min=0)]  # [B, K, M, H]
    ahead = _with_ends(question, ahead, moves, lifted.end_class, state)
    joint = torch.einsum("bh,mkh,bkmh->bmk", prior.to(ahead.dtype), question.averages, ahead)
    scale = (past[:, :, None].exp() * question.coefficients[:, None]).to(joint.dtype)
    likely = product(prior, question.shares.T).clamp(min=torch.finfo(prior.dtype).tiny)
    return ((scale * joint).sum(1).real / likely).clamp(min=0)


def _value(question: Question, prior: torch.Tensor, past: torch.Tensor, state: torch.Tensor, after: torch.Tensor,
           tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    lifted = question.lifted
    columns = question.hmm.emission.columns(tokens)  # [B, K, H]
    free = lifted.states == 1 and not lifted.refuses
    if free and len(question.coefficients) == 1 and not after.is_complex():
        return _value_of_one(question, prior, past, after, tokens, columns)
    columns = columns.to(prior.dtype)
    joint = columns * prior[:, None]
    likely = joint.sum(2)
    classes = lifted.classes[tokens]
    scale = (past[:, None] + question.weights[tokens]).exp() * question.coefficients  # [B, K, M]
    if free:
        ahead = torch.einsum("bkh,bmh->bkm", joint.to(after.dtype), after[:, :, 0].expand(len(prior), -1, -1))
        ahead = torch.where((classes == lifted.end_class)[..., None], likely[..., None].to(ahead.dtype), ahead)
    else:
        moves = lifted.moves[state.clamp(min=0)[:, None], classes]  # [B, K]
        rows = torch.arange(len(after), device=state.device).expand(len(prior))
        following = after[rows[:, None], :, moves.clamp(min=0)]  # [B, K, M, H]
        following = _with_ends(question, following, moves, classes, state)
        ahead = torch.einsum("bkh,bkmh->bkm", joint.to(after.dtype), following)
    return (scale * ahead).sum(2).real, likely


def _value_of_one(question: Question, prior: torch.Tensor, past: torch.Tensor, after: torch.Tensor,
                  tokens: torch.Tensor, columns: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The same for one real product without a constraint: two products with the columns, in the HMM's dtype."""
    ahead = after[:, 0, 0]
    top = ahead.amax(1, keepdim=True)  # which keeps small numbers out of the HMM's dtype
    top = torch.where(top > 0, top, 1.0)
    both = torch.stack([prior, prior * (ahead / top).to(prior.dtype)], 2).to(columns.dtype)
    likely, worth = (columns @ both).to(prior.dtype).unbind(2)
    is_end = question.lifted.classes[tokens] == question.lifted.end_class
    worth = torch.where(is_end, likely.to(ahead.dtype), worth.to(ahead.dtype) * top)
    scale = (past + question.weights[tokens][..., 0]).exp() * question.coefficients
    return scale * worth, likely


def _with_ends(
    question: Question, ahead: torch.Tensor, moves: torch.Tensor, classes: torch.Tensor | int, state: torch.Tensor
) -> torch.Tensor:
    """Nothing follows what is refused; an end token is worth 1 in a final state."""
    final = question.lifted.final[state.clamp(min=0)].to(ahead.dtype)
    ahead = ahead * ((moves >= 0) & (state >= 0)[:, None])[..., None, None]
    every = torch.arange(moves.shape[1], device=moves.device).expand_as(moves)
    is_end = (every if isinstance(classes, int) else classes) == question.lifted.end_class
    worth = (final * (state >= 0))[:, None, None, None].expand_as(ahead)
    return torch.where(is_end[..., None, None], worth, ahead)


def _edges(lifted: Lifted) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources and targets int64[E], and for each move its class and its edge: classes that go the same way are one."""
    source, class_ = (lifted.moves >= 0).nonzero(as_tuple=True)
    target = lifted.moves[source, class_]
    pairs, edge = torch.unique(source * lifted.states + target, return_inverse=True)
    return pairs // lifted.states, pairs % lifted.states, class_, edge
