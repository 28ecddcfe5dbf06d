"""How an HMM expects a text to go on: sums over all futures, one table for each number of tokens to come.

The question is a product over tokens (``terms``), together with an automaton over token classes (``lifted``), whose
states are s and whose moves are d(s, c) for a token of class c. With phi_m(v) = exp(weight_m(v)) and the class sums

    r_m(c, z) = sum over v in c of b(v | z) phi_m(v)

the values of a text from z and s on are (m is left out; for one state of s this is
TRACE, arXiv 2504.18535, and for one product with phi = 1 it is Ctrl-G, arXiv 2406.13892)

    g(z, s) = end(z, s) + sum over c of r(c, z) h(z, d(s, c))
    end(z, s) = sum over end tokens v of b(v | z) phi(v), if s is final
    h(z, s) = sum over z' of A(z, z') g(z', s), or what it is worth to stop there.

h is what follows a token, and what a step of decoding multiplies its tokens with: see ``ctrlgen.hmm.answers``.
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
    slot: torch.Tensor
    """int64[S, K]: of all edges from a state the one that a class takes, counted from 1; 0 if there is none."""
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
    source, target, slot = _edges(lifted)
    state, class_ = slot.nonzero(as_tuple=True)
    edge = _first(source, lifted.states)[state] + slot[state, class_] - 1
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
    edges = (mass, source, target, slot)
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


def _edges(lifted: Lifted) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sources and targets int64[E], and slots int64[S, K]: classes that go the same way are one edge."""
    state, class_ = (lifted.moves >= 0).nonzero(as_tuple=True)
    pairs, edge = torch.unique(state * lifted.states + lifted.moves[state, class_], return_inverse=True)
    source, target = pairs // lifted.states, pairs % lifted.states
    slot = torch.zeros_like(lifted.moves)
    slot[state, class_] = edge - _first(source, lifted.states)[state] + 1
    return source, target, slot


def _first(source: torch.Tensor, states: int) -> torch.Tensor:
    """int64[S]: the number of each state's first edge, edges being sorted by their sources."""
    counts = torch.bincount(source, minlength=states)
    return counts.cumsum(0) - counts
