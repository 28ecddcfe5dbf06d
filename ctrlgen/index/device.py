"""Steps over an index with torch, on any device; the host's kernels do the same.

Nothing here depends on data but shapes: with a given ``width`` a step can be captured in a CUDA graph or compiled.
Without one the batch's own widest row, rounded up to a power of two, decides, which waits for the device once a
step. Padding to the widest row of this batch, and not of the whole level as in STATIC (arXiv 2602.22647), is what
keeps skewed catalogues cheap. Where Triton is installed, it does the steps on CUDA devices (see
``ctrlgen.index.triton_step``), and what is here is the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.errors import InputError
from ctrlgen.index.layout import DONE, LEAF, LOST, NODE
from ctrlgen.index.states import Candidates, check_step
from ctrlgen.index.triton_step import fused_step, installed

if TYPE_CHECKING:
    import torch

    from ctrlgen.index.filters import RowFilters
    from ctrlgen.index.token_index import TokenIndex

    Tensor = torch.Tensor

_SIGNED: dict[type[Any], tuple[type[Any], int]] = {
    np.uint8: (np.uint8, 0xFF),
    np.uint16: (np.int16, 0xFFFF),
    np.uint32: (np.int32, 0xFFFFFFFF),
    np.int64: (np.int64, -1),
}
"""torch has hardly any operations on unsigned integers: the signed dtype of each, and what undoes the sign."""


@dataclass(frozen=True, eq=False)
class Column:
    """An array of unsigned integers as torch can hold it."""

    values: Tensor
    bits: int | None

    def __getitem__(self, places: Tensor) -> Tensor:
        """int64, the values at the places."""
        found = self.values[places].long()
        return found if self.bits is None else found & self.bits


class DeviceFilters(NamedTuple):
    """RowFilters on a device: int64[F, W] twice and int64[R]."""

    words: Tensor
    counts: Tensor
    which: Tensor


class Expansion(NamedTuple):
    """What may follow each row, in columns; see ``DeviceIndex._expand``."""

    place: Tensor
    symbol: Tensor
    valid: Tensor
    fan: Tensor
    branching: Tensor


@dataclass(frozen=True, eq=False)
class DeviceIndex:
    """The arrays of a TokenIndex on a torch device; made by ``TokenIndex.on``.

    Attributes:
        tokens, offsets, symbol, lo, child, branch: as in Layout.
        length: the length all items have, or 0.
        ends: int64[E], the end ids.
        end_row: int32[W], the mask of the end ids.
        width: how many columns logits must have at least.
        widest: the greatest number of children there is; a width that is always enough.
        device: where all this lies.
        lost: int64[4], the state from which nothing follows.
        passing: the filter of all rows, or None.
        fused: whether Triton does the steps, as it does on CUDA devices where it is installed.
    """

    tokens: Column
    offsets: Column
    symbol: Column
    lo: Column
    child: Column
    branch: Column
    length: int
    ends: Tensor
    end_row: Tensor
    width: int
    widest: int
    device: torch.device
    lost: Tensor
    passing: DeviceFilters | None
    fused: bool = False

    @classmethod
    def of(cls, index: TokenIndex, device: Any) -> DeviceIndex:
        """The arrays of ``index``, copied to ``device``."""
        import torch

        layout = index.layout

        def column(name: str) -> Column:
            array = getattr(layout, name)
            signed, bits = _SIGNED[array.dtype.type]
            fits = not array.size or int(array.max()) <= np.iinfo(signed).max
            return Column(torch.tensor(array.view(signed), device=device), None if fits else bits)

        row = np.zeros(-(-index.width // 32), np.uint32)
        for end in index.ends:
            row[end // 32] |= np.uint32(1 << end % 32)
        return cls(
            tokens=column("tokens"),
            offsets=column("offsets"),
            symbol=column("symbol"),
            lo=column("lo"),
            child=column("child"),
            branch=column("branch"),
            length=layout.length,
            ends=torch.tensor(index.ends, dtype=torch.int64, device=device),
            end_row=torch.tensor(row.view(np.int32), device=device),
            width=index.width,
            widest=int(np.diff(layout.child.astype(np.int64)).max()),
            device=torch.device(device),
            lost=torch.tensor([0, 0, 0, LOST], device=device),
            passing=None,
            fused=torch.device(device).type == "cuda" and installed(),
        )

    def where(self, passing: RowFilters) -> DeviceIndex:
        """The same arrays with a filter, of one row, for all rows."""
        return replace(self, passing=self.filters(passing))

    def filters(self, filters: RowFilters) -> DeviceFilters:
        """Filters of each row, on this device; to be made once and used for many steps."""
        import torch

        parts = (filters.words.view(np.int64), filters.counts, filters.which)
        return DeviceFilters(*(torch.tensor(part, device=self.device) for part in parts))

    def width_of(self, states: Tensor) -> int:
        """The width that a step from these states needs: a power of two. Waits for the device."""
        most = int(self._fan(states)[1].max())
        return 1 << max(most - 1, 0).bit_length()

    def beam_step(
        self,
        states: Tensor,
        scores: Tensor | None,
        log_probs: Tensor,
        *,
        beams: int = 1,
        k: int | None = None,
        width: int | None = None,
        filters: RowFilters | DeviceFilters | None = None,
    ) -> Candidates:
        """The k best continuations of each group of ``beams`` rows, as ``TokenIndex.beam_step``.

        Args:
            states: int64[B * beams, 4].
            scores: float32[B * beams]; None for 0.
            log_probs: floating[B * beams, V].
            beams: rows a group.
            k: ``beams`` by default.
            width: how many children a row may have, to be safe within CUDA graphs and torch.compile. If a row has
                more, ``overflow`` of the result is True and the result must not be used.
            filters: of each row; ``filters()`` makes what is safe within a graph.

        Returns:
            Candidates [B, k].

        Raises:
            InputError: shapes that do not fit.
        """
        scores = log_probs.new_zeros(len(log_probs)) if scores is None else scores
        k = beams if k is None else k
        check_step(states, scores, log_probs, k, beams, self.width)
        width = self.width_of(states) if width is None else width
        own = self._own(filters, len(states))
        if self.fused and not _compiling():
            return fused_step(self, states, scores, log_probs, beams=beams, k=k, width=width, filters=own)
        found = self._expand(states, width, own)
        totals, token = self._scores(states, scores.float(), log_probs, found)
        return self._chosen(states, found, totals, token, beams, k, width)

    def masks(self, states: Tensor, *, width: int | None = None, filters: Any = None) -> Tensor:
        """int32[R, W], the bits of the allowed tokens of each state; ``width`` as for ``beam_step``."""
        import torch

        width = self.width_of(states) if width is None else width
        found = self._expand(states, width, self._own(filters, len(states)))
        rows = torch.zeros(len(states), len(self.end_row), dtype=torch.int32, device=self.device)
        ended = (found.valid & (found.symbol == 0)).any(1)
        token = (found.symbol - 1).clamp(min=0)
        bit = torch.ones_like(token, dtype=torch.int32) << (token & 31).int()
        # tokens of a row differ, so adding their bits is setting them
        rows.scatter_add_(1, token >> 5, torch.where(found.valid & (found.symbol > 0), bit, 0))
        return rows | torch.where(ended[:, None], self.end_row, 0)

    def advance_states(self, states: Tensor, tokens: Tensor, *, filters: Any = None) -> Tensor:
        """int64[R, 4], the states after one token each; dead where it is refused."""
        import torch

        lo, hi, node = states[:, 0], states[:, 1], states[:, NODE]
        ending = (tokens[:, None] == self.ends).any(1)
        wanted = torch.where(ending, 0, tokens + 1)
        first, fan, branching = self._fan(states)
        place = self._search(first, fan, wanted)
        single = self._single(states)
        found = torch.where(branching, self.symbol[place] == wanted, single == wanted) & (fan > 0)
        found = torch.where(tokens >= 0, found, node == DONE)
        if not len(self.ends):
            found |= node == DONE
        low, high = self._interval(lo, hi, branching, place, place + 1 == first + fan)
        after = self._after(states, torch.where(branching, place, -1), low, high, ending | (node == DONE))
        own = self._own(filters, len(states))
        if own is not None:
            which = own.which
            alive = _rank(own, which, after[:, 1]) > _rank(own, which, after[:, 0])
            found &= alive | (which < 0)
        return torch.where(found[:, None], after, self.lost)

    # inside

    def _own(self, filters: RowFilters | DeviceFilters | None, rows: int) -> DeviceFilters | None:
        if filters is None:
            if self.passing is None:
                return None
            return self.passing._replace(which=self.passing.which.expand(rows))
        if not isinstance(filters, DeviceFilters):
            filters = self.filters(filters)
        if len(filters.which) != rows:
            raise InputError(f"filters for {len(filters.which)} rows do not fit {rows} states")
        return filters

    def _fan(self, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """int64[R] the first edge, int64[R] how many continuations, bool[R] whether they are edges."""
        import torch

        depth, node = states[:, 2], states[:, NODE]
        edge = node.clamp(min=0)
        branching = (node >= 0) & (self.branch[edge] == depth)
        first = self.child[edge]
        fan = torch.where(branching, self.child[edge + 1] - first, (node != LOST).long())
        return first, fan, branching

    def _single(self, states: Tensor) -> Tensor:
        """int64[R], the symbol that follows without choice, 0 for the end."""
        import torch

        lo, _, depth, node = states.unbind(1)
        at, full = self._item(lo)
        over = ((node == LEAF) & (depth == full)) | (node == DONE)
        token = self.tokens[(at + depth).clamp(max=len(self.tokens.values) - 1)]
        return torch.where(over, 0, token + 1)

    def _item(self, lo: Tensor) -> tuple[Tensor, Tensor]:
        """int64[R] twice: where the tokens of an item begin, and how many it has."""
        import torch

        if self.length:
            return lo * self.length, torch.full_like(lo, self.length)
        at = self.offsets[lo]
        return at, self.offsets[lo + 1] - at

    def _expand(self, states: Tensor, width: int, filters: DeviceFilters | None) -> Expansion:
        """The continuations of each row in ``width`` columns: edge, symbol, whether there is one."""
        import torch

        first, fan, branching = self._fan(states)
        column = torch.arange(width, device=self.device)
        edges = len(self.lo.values)
        place = (first[:, None] + column).clamp(max=edges - 1)
        valid = column < fan[:, None]
        single = self._single(states)
        symbol = torch.where(branching[:, None], self.symbol[place], single[:, None])
        if filters is not None:
            which = filters.which[:, None]
            last = column + 1 == fan[:, None]
            lo, hi = self._interval(states[:, :1], states[:, 1:2], branching[:, None], place, last)
            valid = valid & ((_rank(filters, which, hi) > _rank(filters, which, lo)) | (which < 0))
        return Expansion(place, symbol, valid, fan, branching)

    def _interval(
        self, lo: Tensor, hi: Tensor, branching: Tensor, place: Tensor, last: Tensor
    ) -> tuple[Tensor, Tensor]:
        """int64 twice, the items below an edge; those of the state itself where it does not branch."""
        import torch

        behind = self.lo[(place + 1).clamp(max=len(self.lo.values) - 1)]
        return torch.where(branching, self.lo[place], lo), torch.where(branching & ~last, behind, hi)

    def _scores(self, states: Tensor, scores: Tensor, logs: Tensor, found: Expansion) -> tuple[Tensor, Tensor]:
        """float32[R, width], the score of each continuation, -inf for none, and int64[R, width] its token."""
        import torch

        token = (found.symbol - 1).clamp(min=0)
        if len(self.ends):
            ending = logs[:, self.ends]
            best = self.ends[torch.where(ending.isnan(), -torch.inf, ending).argmax(1)]
            token = torch.where(found.symbol == 0, best[:, None], token)
        done = states[:, NODE, None] == DONE
        added = torch.where(done, 0.0, logs.gather(1, torch.where(found.valid, token, 0)).float())
        totals = scores[:, None] + added
        # NaN compares false and so is no candidate
        totals = torch.where(found.valid & (totals > -torch.inf), totals, -torch.inf)
        return totals, torch.where(done, -1, token)

    def _chosen(
        self, states: Tensor, found: Expansion, totals: Tensor, token: Tensor, beams: int, k: int, width: int
    ) -> Candidates:
        import torch

        groups = totals.view(-1, beams * width)
        values, flat = groups.topk(min(k, beams * width), 1)
        missing = k - values.shape[1]
        values = torch.nn.functional.pad(values, (0, missing), value=-torch.inf)
        flat = torch.nn.functional.pad(flat, (0, missing))
        parents = flat // width + torch.arange(len(groups), device=self.device)[:, None] * beams
        row, column = parents.flatten(), (flat % width).flatten()
        symbol, branching, place = found.symbol[row, column], found.branching[row], found.place[row, column]
        origin = states[row]
        lo, hi = self._interval(origin[:, 0], origin[:, 1], branching, place, column + 1 == found.fan[row])
        after = self._after(origin, torch.where(branching, place, -1), lo, hi, symbol == 0)
        dead = values == -torch.inf
        after = torch.where(dead.view(-1, 1), self.lost, after)
        base = torch.arange(len(groups), device=self.device)[:, None] * beams
        overflow = (found.fan > width).any()
        return Candidates(
            torch.where(dead, base, parents),
            torch.where(dead, -1, token[row, column].view_as(flat)),
            values,
            after.view(*flat.shape, 4),
            overflow,
        )

    def _after(self, states: Tensor, edge: Tensor, lo: Tensor, hi: Tensor, ended: Tensor) -> Tensor:
        """int64[R, 4], the states after an edge each, or (-1) after a token without choice."""
        import torch

        depth, node = states[:, 2], states[:, NODE]
        inner = edge.clamp(min=0)
        below = torch.where(self.child[inner + 1] > self.child[inner], inner, LEAF)
        after = torch.where(edge >= 0, below, node)
        depth = torch.where(ended, depth, depth + 1)
        if not len(self.ends):
            ended = ended | ((after == LEAF) & (depth == self._item(lo)[1]))
        return torch.stack([lo, hi, depth, torch.where(ended, DONE, after)], 1)

    def _search(self, first: Tensor, fan: Tensor, wanted: Tensor) -> Tensor:
        """int64[R], the first edge of each row whose symbol is at least the wanted one, or the last."""
        import torch

        low, high = first, first + (fan - 1).clamp(min=0)
        for _ in range(self.widest.bit_length()):
            middle = (low + high) >> 1
            less = self.symbol[middle.clamp(max=len(self.symbol.values) - 1)] < wanted
            low, high = torch.where(less & (low < high), middle + 1, low), torch.where(less, high, middle)
        return low.clamp(max=len(self.symbol.values) - 1)


def _compiling() -> bool:
    """Whether torch.compile is reading this: it fuses the operations itself."""
    import torch

    return torch.compiler.is_compiling()


def _rank(filters: DeviceFilters, which: Tensor, places: Tensor) -> Tensor:
    """int64, how many items pass the row's filter before each place."""
    line = which.clamp(min=0)
    word = (places >> 6).clamp(max=filters.words.shape[1] - 1)
    ones = filters.words[line, word] & ((1 << (places & 63)) - 1)
    # counts bits in pairs, fours and bytes, then sums the bytes; masks undo the sign that >> drags along
    ones = ones - ((ones >> 1) & 0x5555555555555555)
    ones = (ones & 0x3333333333333333) + ((ones >> 2) & 0x3333333333333333)
    ones = (ones + (ones >> 4)) & 0x0F0F0F0F0F0F0F0F
    return filters.counts[line, word] + ((ones * 0x0101010101010101) >> 56)
