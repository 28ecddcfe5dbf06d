"""How much text is to come: one look-ahead table for each length, or the limit for texts of any length.

Finite(n), Window(n)   n tokens in all, or always n more; ``must_end`` asks for an end token within them
UntilEnd()             until an end token, whenever it comes
Geometric(mean)        a text stops after each token with probability 1 / mean
Stationary()           texts that never end: the Perron vector of A diag(r)
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch

from ctrlgen.errors import ComplexityError, InputError
from ctrlgen.hmm import lookahead
from ctrlgen.hmm.lookahead import Question

BLOCK = 4096
"""Unknowns up to which states that lead to each other are solved for at once; more are iterated."""

_PASSES, _CLOSE = 20_000, 1e-13


class Ahead(NamedTuple):
    """h for each number of tokens to come, as far as it depends on that."""

    tables: torch.Tensor
    """float or complex[N, M, S, H]: for 0 ... N - 1 tokens to come; the last for any more."""
    total: int | None
    """Tokens of the whole text, or None where the number to come is always the same."""

    def after(self, length: int) -> torch.Tensor:
        """float or complex[1, M, S, H]: h after the next token, ``length`` tokens having been generated before it."""
        index = table_after(length, len(self.tables), self.total)
        return self.tables[index : index + 1]


def table_after(length: int, tables: int, total: int | None) -> int:
    """Which of the tables holds after the next token, ``length`` tokens having been generated before it."""
    last = tables - 1
    return last if total is None else min(max(total - length - 1, 0), last)


class Horizon(Protocol):
    """Says what is to come."""

    def solve(self, question: Question) -> Ahead:
        """The tables for a question."""
        ...


class Finite(NamedTuple):
    """``total`` generated tokens, or fewer if the text ends; past them nothing more is expected to come."""

    total: int
    must_end: bool = False

    def solve(self, question: Question) -> Ahead:
        """The tables for 0 ... total - 1 tokens to come."""
        _check_count(self.total)
        return Ahead(lookahead.finite(question, self.total - 1, must_end=self.must_end), self.total)


class Window(NamedTuple):
    """Always ``ahead`` tokens to come after the next one, or fewer if the text ends."""

    ahead: int

    def solve(self, question: Question) -> Ahead:
        """One table."""
        _check_count(self.ahead + 1)
        return Ahead(lookahead.finite(question, self.ahead, must_end=False)[-1:], None)


class UntilEnd(NamedTuple):
    """Until an end token. With ``total`` the last tokens of a budget are finite: what does not end in time fails.

    Args:
        total: number of tokens of the whole text, or None.
        near: when fewer tokens than this are left, finite tables are used.
    """

    total: int | None = None
    near: int = 64

    def solve(self, question: Question) -> Ahead:
        """The limit, after finite tables if there is a budget.

        Raises:
            InputError: texts of the HMM never end.
        """
        if not bool(question.ending.any()):
            raise InputError("texts of this HMM never end, so there is no limit: use Finite, Window or Geometric")
        limit = unbounded(question, 1.0, must_end=True)[None]
        if self.total is None:
            return Ahead(limit, None)
        _check_count(self.total)
        tables = lookahead.finite(question, min(self.total - 1, self.near), must_end=True)
        return Ahead(torch.cat([tables, limit]) if self.total - 1 > self.near else tables, self.total)


class Geometric(NamedTuple):
    """A text stops after each token with probability 1 / mean, or ends by an end token."""

    mean: float

    def solve(self, question: Question) -> Ahead:
        """One table."""
        if not self.mean > 1:
            raise InputError(f"the mean number of tokens to come is {self.mean}; expected more than 1")
        return Ahead(unbounded(question, 1 - 1 / self.mean, must_end=False)[None], None)


class Stationary(NamedTuple):
    """Texts that never end. What is wanted has probability 0 in the long run; what counts is who lasts longer.

    h is the right eigenvector of A diag(r) of the largest eigenvalue, scaled to 1 where the model is in the long run:
    the h-transform of Doob.
    """

    def solve(self, question: Question) -> Ahead:
        """One table.

        Raises:
            InputError: the question is not one real product over unconstrained texts.
        """
        count, states, _ = question.shape
        if count != 1 or states != 1 or question.mass.is_complex() or question.lifted.refuses:
            raise InputError("the stationary horizon is for one factorised attribute without a constraint")
        matrix = question.transition.double() * question.mass[0, 0].double()
        after = torch.ones(len(matrix), dtype=torch.float64, device=matrix.device)
        for _ in range(_PASSES):
            new = matrix @ after + 1e-3 * after  # the shift keeps cycles from turning
            new = new / new.amax()
            if bool((new - after).abs().max() < _CLOSE):
                break
            after = new
        from ctrlgen.hmm.model import stationary

        scaled = after / (stationary(question.hmm) @ after)
        return Ahead(scaled.to(question.mass.dtype)[None, None, None], None)


def unbounded(question: Question, goes_on: float, *, must_end: bool) -> torch.Tensor:
    """h for texts of any length, float or complex[M, S, H]; each token is followed by more with ``goes_on``.

    h(s) = (1 - goes_on) stop + goes_on A (end(s) + sum over d of q(s, d) h(d)), solved for groups of states that lead
    to each other, those that lead nowhere else first (Tarjan 1972). A state that leads to itself is a system of H
    equations; a group whose system is too large is iterated.

    Raises:
        InputError: there is no limit.
        ComplexityError: the iteration does not settle.
    """
    exact = torch.complex128 if question.mass.is_complex() else torch.float64
    solver = _Solver(question, goes_on, lookahead.stopped(question, must_end=must_end).to(exact))
    for group in components(question):
        solver.solve(group)
    found = solver.found.to(question.mass.dtype)
    if not bool(found.isfinite().all()):
        raise InputError("texts of this HMM need not end, so there is no limit: use Finite, Window or Geometric")
    return found


class _Solver:
    """h so far, in double precision."""

    def __init__(self, question: Question, goes_on: float, stop: torch.Tensor) -> None:
        self.mass = question.mass.to(stop.dtype)
        self.source, self.target = question.source, question.target
        self.transition = question.transition.to(stop.dtype)
        ends = question.ending.to(stop.dtype)[:, None] * question.lifted.final[:, None]
        self.goes_on = goes_on
        self.fixed = (1 - goes_on) * stop + goes_on * ends @ self.transition.T
        self.found = torch.zeros_like(stop)

    def solve(self, group: torch.Tensor) -> None:
        """The states of a group, all that it leads to being solved."""
        inner = torch.isin(self.source, group) & torch.isin(self.target, group)
        outer = torch.isin(self.source, group) & ~inner
        right = self.fixed.clone().index_add_(
            1, self.source[outer],
            self.goes_on * (self.mass[:, outer] * self.found[:, self.target[outer]]) @ self.transition.T,
        )[:, group]  # fmt: skip
        if not bool(inner.any()):
            self.found[:, group] = right
        elif right[0].numel() <= BLOCK:
            self.found[:, group] = self._at_once(group, inner, right)
        else:
            self.found[:, group] = self._iterated(group, inner, right)

    def _at_once(self, group: torch.Tensor, inner: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        place = torch.full((self.found.shape[1],), -1, device=group.device)
        place[group] = torch.arange(len(group), device=group.device)
        count, size, states = right.shape
        matrix = torch.zeros(count, size, states, size, states, dtype=right.dtype, device=right.device)
        for edge in inner.nonzero()[:, 0].tolist():
            block = self.goes_on * self.transition * self.mass[:, edge, None]
            matrix[:, place[self.source[edge]], :, place[self.target[edge]]] += block
        left = torch.eye(size * states, dtype=right.dtype, device=right.device) - matrix.view(
            count, size * states, size * states
        )
        solved, info = torch.linalg.solve_ex(left, right.reshape(count, -1, 1))
        residual = (left @ solved - right.reshape(count, -1, 1)).abs().amax()
        if bool((info > 0).any()) or not bool(residual < 1e-6) or bool((solved.abs() > 1e6).any()):
            raise InputError("texts of this HMM need not end, so there is no limit: use Finite, Window or Geometric")
        out: torch.Tensor = solved.view_as(right)
        return out

    def _iterated(self, group: torch.Tensor, inner: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        place = torch.full((self.found.shape[1],), -1, device=group.device)
        place[group] = torch.arange(len(group), device=group.device)
        source, target, mass = place[self.source[inner]], place[self.target[inner]], self.mass[:, inner]
        now = right
        for _ in range(_PASSES):
            sums = torch.zeros_like(right).index_add_(1, source, mass * now[:, target])
            new = right + self.goes_on * sums @ self.transition.T
            if bool((new - now).abs().max() <= _CLOSE * new.abs().max()):
                return new
            now = new
        raise ComplexityError(
            f"a group of {len(group)} states of the constraint does not settle in {_PASSES} passes: give a budget"
        )


def components(question: Question) -> list[torch.Tensor]:
    """Groups of states that lead to each other, int64 each, those before which all that they lead to has come."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    states = question.lifted.states
    source, target = question.source.cpu().numpy(), question.target.cpu().numpy()
    graph = coo_matrix(([1] * len(source), (source, target)), (states, states))
    count, label = connected_components(graph, connection="strong")
    labels = torch.from_numpy(label.astype("int64")).to(question.source.device)
    return [(labels == group).nonzero()[:, 0] for group in _last_first(labels, question, count)]


def _last_first(labels: torch.Tensor, question: Question, count: int) -> list[int]:
    """Numbers of groups, each after all that it leads to."""
    from graphlib import TopologicalSorter

    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(count), ()))
    for one, other in set(zip(labels[question.source].tolist(), labels[question.target].tolist(), strict=True)):
        if one != other:
            sorter.add(one, other)
    return list(sorter.static_order())


def _check_count(count: int) -> None:
    if count < 1:
        raise InputError(f"the horizon has {count} tokens; expected at least 1")
