"""Several indexes as one catalogue: what a live index is at one moment.

A state is a state of each part. A prefix that several parts know is one candidate, not several: the score of a
continuation depends on the row and the token only, so the k best of the union are among the k best of each part,
and the same token of the same row is the same continuation. So results equal those of one index over all items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.filters import Filter, RowFilters
from ctrlgen.index.states import Candidates, lost_states

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.index.token_index import TokenIndex
    from ctrlgen.vocabulary import Vocabulary


class Snapshot:
    """One or more indexes with the same end ids and width as one catalogue; immutable, a Constraint.

    Args:
        parts: at least one.
    """

    def __init__(self, parts: Sequence[TokenIndex]) -> None:
        self.parts = tuple(parts)
        self.ends, self.width = parts[0].ends, parts[0].width

    def __len__(self) -> int:
        """Number of items that may come out."""
        return sum(map(len, self.parts))

    def __repr__(self) -> str:
        return f"Snapshot({len(self)} items in {len(self.parts)} parts, width={self.width}, eos={list(self.ends)})"

    # filters

    def filter(self, which: Any) -> tuple[Filter, ...]:
        """A filter for each part; ``which`` as for ``TokenIndex.filter``."""
        chosen = np.asarray(which)
        if chosen.dtype == np.bool_:
            return tuple(part.filter(chosen) for part in self.parts)
        found = [part.item_ids.known_places(chosen.astype(np.int64).ravel()) for part in self.parts]
        nowhere = set.intersection(*({int(i) for i in unknown} for _, unknown in found))
        if nowhere:
            raise InputError(f"no item has the id {min(nowhere)}")
        return tuple(
            Filter.from_places(places, part.layout.count) for (places, _), part in zip(found, self.parts, strict=True)
        )

    def where(self, which: Any) -> Snapshot:
        """Only some of the items; ``which`` as for ``filter``, or what that returned.

        Raises:
            UnsatisfiableError: no item is left.
        """
        filters = which if isinstance(which, tuple) else self.filter(which)
        own = [_own(part, one) for part, one in zip(self.parts, filters, strict=True)]
        left = [part.where(one) for part, one in zip(self.parts, own, strict=True) if one.passing]
        if not left:
            raise UnsatisfiableError(f"the filter lets none of the {len(self)} items pass")
        return Snapshot(left)

    def row_filters(self, filters: Sequence[tuple[Filter, ...] | None], *, beams: int = 1) -> tuple[RowFilters, ...]:
        """The filter (or None) of each query, as ``filter`` made it, for ``beams`` rows a query.

        Raises:
            UnsatisfiableError: a filter lets nothing pass.
        """
        each = [
            [part.passing if one is None else _own(part, one[p]) for one in filters]
            for p, part in enumerate(self.parts)
        ]
        for row in range(len(filters)):
            if all(part[row] is not None and not len(part[row] or ()) for part in each):
                raise UnsatisfiableError(f"the filter of row {row} lets none of the {len(self)} items pass")
        return tuple(RowFilters.of(part, repeat=beams, empty=True) for part in each)

    # batches

    def start_states(self, queries: int = 1, *, beams: int = 1) -> NDArray[np.int64]:
        """int64[queries * beams, P, 4]: the first beam of each query at the start, the others dead."""
        return np.stack([part.start_states(queries, beams=beams) for part in self.parts], 1)

    def beam_step(
        self,
        states: Any,
        scores: Any,
        log_probs: Any,
        *,
        beams: int,
        k: int | None = None,
        filters: tuple[RowFilters, ...] | None = None,
    ) -> Candidates:
        """The k best continuations of each group of rows, as ``TokenIndex.beam_step``, with states int64[R, P, 4].

        Returns:
            Candidates [B, k] with states int64[B, k, P, 4], numpy arrays or tensors as ``log_probs`` is.
        """
        k = beams if k is None else k
        each = filters or (None,) * len(self.parts)
        if not isinstance(log_probs, np.ndarray) and log_probs.device.type != "cpu":
            from ctrlgen.index.device_union import union_step

            on = [part.on(log_probs.device) for part in self.parts]
            return union_step(on, states, scores, log_probs, beams, k, each)
        found = self._union(_host(states), _host(scores), _host(log_probs), beams, k, each)
        if isinstance(log_probs, np.ndarray):
            return found
        import torch

        return Candidates(*map(torch.from_numpy, found[:4]))

    def step(
        self, states: Any, log_probs: Any, k: int, *, scores: Any = None, filters: tuple[RowFilters, ...] | None = None
    ) -> Candidates:
        """The k best continuations of each row, as ``TokenIndex.step``, with states int64[R, P, 4]."""
        if scores is None:
            scores = log_probs[:, 0] * 0
        return self.beam_step(states, scores, log_probs, beams=1, k=k, filters=filters)

    def masks(self, states: Any, *, filters: tuple[RowFilters, ...] | None = None) -> NDArray[np.uint32]:
        """uint32[R, ceil(width / 32)], the allowed tokens of each state int64[R, P, 4]."""
        rows = [
            part.masks(np.ascontiguousarray(states[:, p]), filters=filters[p] if filters else None)
            for p, part in enumerate(self.parts)
        ]
        joined: NDArray[np.uint32] = np.bitwise_or.reduce(rows)
        return joined

    def advance_states(
        self, states: Any, tokens: Any, *, filters: tuple[RowFilters, ...] | None = None
    ) -> NDArray[np.int64]:
        """int64[R, P, 4], the states after one token each; dead in all parts where it is refused."""
        after = [
            part.advance_states(np.ascontiguousarray(states[:, p]), tokens, filters=filters[p] if filters else None)
            for p, part in enumerate(self.parts)
        ]
        return np.stack(after, 1)

    def ids(self, state: Any) -> NDArray[np.int64]:
        """int64[M], the ids of all items below a state int64[P, 4], those of the first part first."""
        return np.concatenate([part.ids(state[p]) for p, part in enumerate(self.parts)])

    # the Constraint protocol

    @property
    def vocabulary(self) -> Vocabulary:
        """That of the parts."""
        return self.parts[0].vocabulary

    @property
    def start(self) -> int:
        """The state of the empty text."""
        return self._joined([part.start for part in self.parts])

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        if state == DEAD:
            return DEAD
        each = zip(self.parts, self._split(state), strict=True)
        return self._joined([part.advance(one, token) for part, one in each])

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(width / 32)], read-only, the tokens that may follow."""
        row: NDArray[np.uint32] = np.bitwise_or.reduce([part.mask(one) for part, one in self._alive(state)])
        row.flags.writeable = False
        return row

    def accepts(self, state: int) -> bool:
        """Whether an item may end here."""
        return any(part.accepts(one) for part, one in self._alive(state))

    def distance(self, state: int) -> int:
        """Tokens to an end, the end included, along the part that is nearest to one."""
        return min(part.distance(one) for part, one in self._alive(state))

    def farthest(self, state: int) -> int:
        """A distance that no token allowed in a state exceeds."""
        return max(part.farthest(one) for part, one in self._alive(state))

    def _alive(self, state: int) -> list[tuple[TokenIndex, int]]:
        return [(part, one) for part, one in zip(self.parts, self._split(state), strict=True) if one != DEAD]

    def _joined(self, states: Sequence[int]) -> int:
        """One number for a state of each part, DEAD if all are."""
        if all(one == DEAD for one in states):
            return DEAD
        number = 0
        for part, one in zip(self.parts, states, strict=True):
            number = number * (part.state_count + 1) + one + 1
        return number

    def _split(self, number: int) -> list[int]:
        states = []
        for part in reversed(self.parts):
            number, one = divmod(number, part.state_count + 1)
            states.append(one - 1)
        return states[::-1]

    # inside

    def _union(
        self,
        states: NDArray[np.int64],
        scores: NDArray[np.float32],
        logs: NDArray[np.float32],
        beams: int,
        k: int,
        filters: Sequence[RowFilters | None],
    ) -> Candidates:
        found = [
            part.beam_step(np.ascontiguousarray(states[:, p]), scores, logs, beams=beams, k=k, filters=filters[p])
            for p, part in enumerate(self.parts)
        ]
        parents, tokens, totals = (np.concatenate(arrays, 1) for arrays in list(zip(*found, strict=True))[:3])
        parents, tokens, totals = _distinct_best(parents, tokens, totals, self.ends, k)
        dead = totals == -np.inf
        after = self.advance_states(
            states[parents.ravel()], np.where(dead, -1, tokens).ravel(),
            filters=None if filters[0] is None else tuple(_of_rows(one, parents.ravel()) for one in filters),
        ).reshape(*parents.shape, len(self.parts), 4)  # fmt: skip
        after[dead] = lost_states()
        return Candidates(np.where(dead, np.arange(len(dead))[:, None] * beams, parents), tokens, totals, after)


def _distinct_best(
    parents: NDArray[np.int64],
    tokens: NDArray[np.int64],
    totals: NDArray[np.float32],
    ends: tuple[int, ...],
    k: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """The k best of each line [B, P * k], each (parent, token) once, ties in row and token order, ends first."""
    symbols = np.where(np.isin(tokens, ends), -1, tokens)
    order = np.lexsort((symbols, parents, -totals), axis=1)
    parents, tokens = np.take_along_axis(parents, order, 1), np.take_along_axis(tokens, order, 1)
    totals = np.take_along_axis(totals, order, 1)
    again = np.zeros(tokens.shape, bool)
    again[:, 1:] = (parents[:, 1:] == parents[:, :-1]) & (tokens[:, 1:] == tokens[:, :-1])
    again |= totals == -np.inf
    first = np.argsort(again, axis=1, kind="stable")[:, :k]
    parents, tokens = np.take_along_axis(parents, first, 1), np.take_along_axis(tokens, first, 1)
    totals, again = np.take_along_axis(totals, first, 1), np.take_along_axis(again, first, 1)
    return parents, np.where(again, -1, tokens), np.where(again, np.float32(-np.inf), totals)


def _own(part: TokenIndex, one: Filter) -> Filter:
    return one if part.passing is None else part.passing & one


def _of_rows(filters: RowFilters | None, rows: NDArray[np.int64]) -> RowFilters:
    if filters is None:
        raise InputError("filters must be given for all parts or for none")
    return RowFilters(filters.words, filters.counts, filters.which[rows])


def _host(array: Any) -> NDArray[Any]:
    if isinstance(array, np.ndarray):
        return array
    tensor = array.detach().cpu()
    return np.asarray(tensor.float() if tensor.is_floating_point() else tensor)
