"""TokenIndex: a catalogue of token sequences as a constraint, for one text or a batch of beams.

The catalogue is a compressed trie whose edges are intervals of the sorted items (see ``ctrlgen.index.layout``). A
step costs what the rows of this batch have in children, whatever other parts of the catalogue look like.

Reference: STATIC (arXiv 2602.22647) decodes within a catalogue by sparse matrices padded to the largest number of
children of a level; intervals, filters, ends and updates are what this index does differently.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index import step_kernels, walk_kernels
from ctrlgen.index.build import build, read_ids, read_weights
from ctrlgen.index.compiled import compiled
from ctrlgen.index.filters import Filter, RowFilters
from ctrlgen.index.item_ids import ItemIds
from ctrlgen.index.items import end_ids, meaningless_ids, read_items, refuse_tokens
from ctrlgen.index.layout import DEPTH, DONE, HI, LEAF, LO, LOST, NODE, Layout
from ctrlgen.index.numbering import number_of, state_count, state_of
from ctrlgen.index.states import FLOAT32, INT64, Candidates, check_step, kernel_array, lost_states
from ctrlgen.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ctrlgen.index.device import DeviceIndex

_KEPT_BYTES = 16 << 20  # of masks, which a sampling loop asks for again and again


class TokenIndex:
    """A catalogue of token sequences; immutable. Made by ``from_items`` or ``ctrlgen.index.storage.open_index``.

    As a Constraint it needs end ids: an item is followed by one of them. Without any, an item ends where its tokens
    do, as semantic ids of one length usually are decoded.

    Args:
        layout: the arrays.
        ends: the ids that end an item, ascending; () for none.
        width: number of columns of masks.
        vocabulary: of the tokens, if there is one.
        passing: the items that may come out; all of them if None.
        whole: with ``passing``, the index without it, whose arrays on devices are shared.
    """

    def __init__(
        self,
        layout: Layout,
        ends: tuple[int, ...],
        width: int,
        vocabulary: Vocabulary | None = None,
        passing: Filter | None = None,
        whole: TokenIndex | None = None,
    ) -> None:
        self.layout, self.ends, self.width, self.passing = layout, ends, width, passing
        self.item_ids = ItemIds(layout.ids, layout.count)
        self.given_vocabulary, self._whole = vocabulary, whole or self
        self._devices: dict[str, DeviceIndex] = {}
        self._which: dict[int, NDArray[np.int64]] = {}
        self._rows: dict[int, NDArray[np.uint32]] = {}
        self._trie = (
            layout.tokens, layout.offsets, layout.length, layout.symbol, layout.lo, layout.child, layout.branch,
            np.array(ends, np.int64),
        )  # fmt: skip
        self._one_row = RowFilters.of([passing])

    @classmethod
    def from_items(
        cls,
        items: Any,
        *,
        offsets: Any = None,
        pad: int | None = None,
        ids: Any = None,
        weights: Any = None,
        vocabulary: Vocabulary | None = None,
        eos: int | Iterable[int] | None = None,
        width: int | None = None,
    ) -> TokenIndex:
        """The index of a catalogue, in any order; sorted input is built several times as fast.

        Args:
            items: integer[N, L], a list of N sequences of token ids, or integer[T] with ``offsets``.
            offsets: integer[N + 1], where each item begins in ``items``, and where the last one ends.
            pad: with integer[N, L], the value that fills up shorter items on the right.
            ids: integer[N], what an item is called in results; its position by default. Items with the same tokens
                keep all their ids.
            weights: float[N], see ``ctrlgen.index.prior``.
            vocabulary: whose ids the tokens are; its end ids end an item, and its width is that of masks.
            eos: ids that end an item, instead of the vocabulary's. Not needed if no item begins another one.
            width: number of columns of the logits; by default one more than the largest id there is.

        Raises:
            UnsatisfiableError: there are no items.
            InputError: what is given is no catalogue of this vocabulary; the message names the item.
        """
        given = end_ids(vocabulary, eos)
        width = vocabulary.width if vocabulary is not None and width is None else width
        read = read_items(items, offsets=offsets, pad=pad, width=width)
        refuse_tokens(read, given, "an end id; items are given without it")
        if vocabulary is not None:
            refuse_tokens(read, meaningless_ids(vocabulary), "neither text nor a control token of the vocabulary")
        layout = build(read, read_ids(ids, len(read)), read_weights(weights, len(read)))
        if not given and bool((layout.symbol[1:] == 0).any()):
            raise InputError("an item is the beginning of another one, so ends must be told apart: pass eos=")
        needed = max((int(layout.tokens.max()), *given)) + 1
        if width is not None and needed > width:
            raise InputError(f"end id {needed - 1} does not lie below the width {width}")
        return cls(layout, given, needed if width is None else width, vocabulary)

    def __len__(self) -> int:
        """Number of items that may come out."""
        return self.layout.count if self.passing is None else self.passing.passing

    def __repr__(self) -> str:
        of = "" if self.passing is None else f" of {self.layout.count}"
        return (
            f"TokenIndex({len(self)}{of} items of up to {self.layout.longest} tokens, {self.layout.edges} edges, "
            f"{self.layout.nbytes / 1e6:.1f} MB, width={self.width}, eos={list(self.ends)})"
        )

    # filters

    def filter(self, which: Any) -> Filter:
        """The filter that lets some items pass.

        Args:
            which: integer[M], their ids; or bool[...], read at each item's id: ``index.filter(price < 10)``.

        Raises:
            InputError: an id that no item has, or too few booleans.
        """
        chosen = np.asarray(which)
        if chosen.dtype == np.bool_:
            return Filter.from_flags(self.item_ids.flags_at(chosen))
        if chosen.dtype.kind not in "iu" and len(chosen):
            raise InputError(f"a filter is made of integers (ids) or booleans (one an id), not of {chosen.dtype}")
        return Filter.from_places(self.item_ids.places(chosen.astype(np.int64).ravel()), self.layout.count)

    def where(self, which: Filter | Any) -> TokenIndex:
        """The same index with only some of its items, sharing all arrays.

        Args:
            which: a filter, or what ``filter`` takes. An index that is filtered already is filtered further.

        Raises:
            UnsatisfiableError: no item is left.
        """
        passing = which if isinstance(which, Filter) else self.filter(which)
        if passing.size != self.layout.count:
            raise InputError(f"a filter of {passing.size} items is not one of this index of {self.layout.count}")
        passing = passing if self.passing is None else self.passing & passing
        if not passing.passing:
            raise UnsatisfiableError(f"the filter lets none of the {len(self)} items pass")
        return TokenIndex(self.layout, self.ends, self.width, self.given_vocabulary, passing, self._whole)

    def row_filters(self, filters: Sequence[Filter | None], *, beams: int = 1) -> RowFilters:
        """One filter (or None) for each query of a batch of ``beams`` rows a query, for ``step`` and the like."""
        if self.passing is not None:
            filters = [self.passing if one is None else self.passing & one for one in filters]
        return RowFilters.of(filters, repeat=beams)

    # batches

    def start_states(self, queries: int = 1, *, beams: int = 1) -> NDArray[np.int64]:
        """int64[queries * beams, 4]: the first beam of each query at the start, the others dead."""
        states = lost_states(queries, beams)
        states[:, 0] = self._root
        return states.reshape(-1, 4)

    def step(
        self, states: Any, log_probs: Any, k: int, *, scores: Any = None, filters: RowFilters | None = None
    ) -> Candidates:
        """The k best continuations of each row.

        Args:
            states: int64[R, 4], made by this index; no others may be passed.
            log_probs: floating[R, V], on any device; logits do as well where only the order within a row counts.
            k: how many; a row with fewer has dead slots: score -inf, token -1.
            scores: float32[R], added to each row's; 0 by default.
            filters: of each row, from ``row_filters``.

        Returns:
            Candidates [R, k], numpy arrays or tensors as ``log_probs`` is. Of equal scores the first in row and
            token order comes first on the host; on other devices their order is not defined. -inf and NaN are
            no candidates. An ended row continues as itself.

        Raises:
            InputError: shapes that do not fit.
        """
        if scores is None:
            scores = np.zeros(len(log_probs), np.float32) if isinstance(log_probs, np.ndarray) else None
        return self._best(states, scores, log_probs, 1, k, filters)

    def beam_step(
        self,
        states: Any,
        scores: Any,
        log_probs: Any,
        *,
        beams: int,
        k: int | None = None,
        filters: RowFilters | None = None,
    ) -> Candidates:
        """The k best continuations of each group of ``beams`` rows: one step of a beam search.

        Args:
            states: int64[B * beams, 4].
            scores: float32[B * beams], log-probability of each beam so far; -inf for one that is dead.
            log_probs: floating[B * beams, V].
            beams: rows a group.
            k: ``beams`` by default.
            filters: of each row, from ``row_filters``.

        Returns:
            Candidates [B, k]; ``parents`` number the rows of the whole batch. Fewer live continuations than k are
            followed by dead slots (score -inf, token -1, a state without continuation), never by invalid ones.

        Raises:
            InputError: shapes that do not fit.
        """
        return self._best(states, scores, log_probs, beams, beams if k is None else k, filters)

    def masks(self, states: Any, *, filters: RowFilters | None = None) -> NDArray[np.uint32]:
        """uint32[R, ceil(width / 32)], the allowed tokens of each state int64[R, 4]; no bit for a dead one."""
        states = kernel_array(states, INT64)
        rows = np.zeros((len(states), -(-self.width // 32)), np.uint32)
        compiled(walk_kernels.fill_masks)(*self._trie, *self._filters(len(states), filters), states, rows)
        return rows

    def advance_states(self, states: Any, tokens: Any, *, filters: RowFilters | None = None) -> NDArray[np.int64]:
        """int64[R, 4], the states after one token each; dead where it is refused. An ended row takes -1."""
        states = kernel_array(states, INT64)
        taken = kernel_array(tokens, INT64)
        if taken.shape != states.shape[:1]:
            raise InputError(f"{len(states)} states need as many tokens, not {list(taken.shape)}")
        after = np.empty((len(states), 4), np.int64)
        compiled(walk_kernels.move)(*self._trie, *self._filters(len(states), filters), states, taken, after)
        return after

    def on(self, device: Any) -> DeviceIndex:
        """The same index with its arrays on a torch device, copied there once."""
        from ctrlgen.index.device import DeviceIndex

        key = str(device)
        if key not in self._devices:
            alone = self._whole is self
            self._devices[key] = DeviceIndex.of(self, device) if alone else self._whole.on(device).where(self._one_row)
        return self._devices[key]

    # items

    def ids(self, state: Any) -> NDArray[np.int64]:
        """int64[M], the ids of all items below a state int64[4], in the order of their tokens."""
        lo, hi = int(state[LO]), int(state[HI])
        if int(state[NODE]) == LOST:
            return np.zeros(0, np.int64)
        places = np.arange(lo, hi)
        if self.passing is not None:
            places = places[self.passing.rank(places + 1) > self.passing.rank(places)]
        return self.item_ids.at(places)

    def tokens_at(self, place: int) -> NDArray[np.int64]:
        """int64[L], the tokens of the sorted item at ``place``, without an end."""
        layout = self.layout
        if layout.length:
            return layout.tokens[place * layout.length : (place + 1) * layout.length].astype(np.int64)
        return layout.tokens[int(layout.offsets[place]) : int(layout.offsets[place + 1])].astype(np.int64)

    # the Constraint protocol

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary given, or one that writes token 7 as ``<7>``."""
        if self.given_vocabulary is not None:
            return self.given_vocabulary
        if not self.ends:
            raise InputError("an index without end ids is not a constraint on texts: pass eos= to from_items")
        return Vocabulary([b"<%d>" % token for token in range(self.width)], eos=self.ends, width=self.width)

    @cached_property
    def start(self) -> int:
        """The state of the empty text."""
        return number_of(self.layout, self._root)

    def advance(self, state: int, token: int) -> int:
        """The state after ``token``, or DEAD when it is refused."""
        if state == DEAD or token < 0:
            return DEAD
        after = self.advance_states(self.state(state)[None], np.array([token], np.int64))
        return number_of(self.layout, after[0])

    def mask(self, state: int) -> NDArray[np.uint32]:
        """uint32[ceil(width / 32)], read-only, the tokens that may follow."""
        row = self._rows.get(state)
        if row is None:
            row = self.masks(self.state(state)[None])[0]
            row.flags.writeable = False
            if len(self._rows) * row.nbytes > _KEPT_BYTES:
                self._rows.clear()
            self._rows[state] = row
        return row

    def accepts(self, state: int) -> bool:
        """Whether an item may end here."""
        here = self.state(state)
        return bool(here[NODE] == DONE or self._shortest(here) == here[DEPTH])

    def distance(self, state: int) -> int:
        """Tokens, the end included, of the shortest way to an end; in a filtered index, of the first item's."""
        here = self.state(state)
        return 1 if here[NODE] == DONE else self._shortest(here) - int(here[DEPTH]) + 1

    def farthest(self, state: int) -> int:
        """A distance that no token allowed in a state exceeds."""
        return self.distance(state) - 1 if self.layout.length else self.layout.longest + 1

    def state(self, number: int) -> NDArray[np.int64]:
        """int64[4], the state of a batch that a state of the Constraint protocol stands for."""
        return state_of(self.layout, number)

    @property
    def state_count(self) -> int:
        """States of the Constraint protocol are smaller than this."""
        return state_count(self.layout)

    # inside

    @cached_property
    def _root(self) -> NDArray[np.int64]:
        node = 0 if self.layout.edges > 1 else LEAF
        return np.array([0, self.layout.count, 0, node], np.int64)

    def _shortest(self, state: NDArray[np.int64]) -> int:
        """Length of the shortest item below; where some are filtered out, of the first one that passes."""
        layout = self.layout
        if layout.length:
            return layout.length
        if self.passing is None and state[NODE] >= 0:
            return int(layout.shortest[state[NODE]])
        lo = int(state[LO])
        if self.passing is not None:
            lo = self.passing.first_from(lo)
        return int(layout.offsets[lo + 1]) - int(layout.offsets[lo])

    def _filters(self, rows: int, filters: RowFilters | None) -> tuple[Any, Any, Any]:
        if filters is None:
            one = self._one_row
            if rows not in self._which:
                self._which[rows] = np.repeat(one.which, rows)
            return one.words, one.counts, self._which[rows]
        if len(filters.which) != rows:
            raise InputError(f"filters for {len(filters.which)} rows do not fit {rows} states")
        return filters.words, filters.counts, filters.which

    def _best(self, states: Any, scores: Any, logs: Any, beams: int, k: int, filters: RowFilters | None) -> Candidates:
        if isinstance(logs, np.ndarray):
            return self._best_on_host(states, scores, logs, beams, k, filters)
        if logs.device.type != "cpu":
            return self.on(logs.device).beam_step(states, scores, logs, beams=beams, k=k, filters=filters)
        import torch

        scores = torch.zeros(len(logs)) if scores is None else scores
        found = self._best_on_host(
            np.asarray(states), scores.float().numpy(), logs.detach().float().numpy(), beams, k, filters
        )
        return Candidates(*map(torch.from_numpy, found[:4]))

    def _best_on_host(
        self, states: Any, scores: Any, logs: Any, beams: int, k: int, filters: RowFilters | None
    ) -> Candidates:
        check_step(states, scores, logs, k, beams, self.width)
        rows = len(states)
        shape = (rows // beams, k)
        out = Candidates(
            np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape, np.float32),
            np.empty((*shape, 4), np.int64),
        )  # fmt: skip
        compiled(step_kernels.beam_step)(
            *self._trie, *self._filters(rows, filters), kernel_array(states, INT64), kernel_array(scores, FLOAT32),
            kernel_array(logs, FLOAT32), out.parents, out.tokens, out.scores, out.states,
        )  # fmt: skip
        return out
