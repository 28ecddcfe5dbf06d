"""Emission probabilities b(v | z), dense or sparse on a background.

Everything else asks an emission five questions, so that it need not know how it is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch

if TYPE_CHECKING:
    from typing import Self

_ROWS = 8192  # tokens at a time, where a temporary is as wide as the table


class Emission(Protocol):
    """b(v | z) for V tokens and H states."""

    @property
    def shape(self) -> tuple[int, int]:
        """V and H."""
        ...

    def columns(self, tokens: torch.Tensor) -> torch.Tensor:
        """float[..., H]: b(token | z) for each z, tokens int64[...] from 0 to V - 1."""
        ...

    def scores(self, weights: torch.Tensor) -> torch.Tensor:
        """float[..., V]: sum over z of weights[..., z] b(v | z)."""
        ...

    def expected(self, values: torch.Tensor) -> torch.Tensor:
        """float or complex[..., H]: sum over v of b(v | z) values[..., v]."""
        ...

    def sums(self, values: torch.Tensor, classes: torch.Tensor, count: int) -> torch.Tensor:
        """float or complex[count, H]: the sum of b(v | z) values[v] over the tokens of each class int64[V]."""
        ...

    def dense(self) -> torch.Tensor:
        """float[V, H], rows of tokens."""
        ...

    def totals(self) -> torch.Tensor:
        """float64[H]: the sum of b(v | z) over v, which should be 1."""
        ...

    def parts(self) -> tuple[torch.Tensor, ...]:
        """The probabilities it is stored as."""
        ...

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same on another device or in another dtype."""
        ...


class Dense(NamedTuple):
    """b as it is."""

    table: torch.Tensor
    """float[V, H]: b(v | z) at [v, z], so that what an observed token needs is one row."""

    @property
    def shape(self) -> tuple[int, int]:
        """V and H."""
        return self.table.shape[0], self.table.shape[1]

    def columns(self, tokens: torch.Tensor) -> torch.Tensor:
        """float[..., H]: b(token | z)."""
        return torch.nn.functional.embedding(tokens, self.table)  # a sixth of the time of indexing

    def scores(self, weights: torch.Tensor) -> torch.Tensor:
        """float[..., V]: sum over z of weights[..., z] b(v | z)."""
        return product(weights, self.table.T)

    def expected(self, values: torch.Tensor) -> torch.Tensor:
        """float or complex[..., H]: sum over v of b(v | z) values[..., v]."""
        return product(values, self.table)

    def sums(self, values: torch.Tensor, classes: torch.Tensor, count: int) -> torch.Tensor:
        """float or complex[count, H]: the sum of b(v | z) values[v] over the tokens of each class int64[V]."""
        exact = _exact(values)
        out = torch.zeros(count, self.shape[1], dtype=exact.dtype, device=values.device)
        for first in range(0, len(values), _ROWS):
            part = slice(first, first + _ROWS)
            out.index_add_(0, classes[part], self.table[part] * exact[part, None])
        return out.to(values.dtype)

    def dense(self) -> torch.Tensor:
        """float[V, H]."""
        return self.table

    def totals(self) -> torch.Tensor:
        """float64[H]: the sum of b(v | z) over v."""
        return self.table.sum(0, dtype=torch.float64)

    def parts(self) -> tuple[torch.Tensor, ...]:
        """The probabilities it is stored as."""
        return (self.table,)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Dense:
        """The same on another device or in another dtype."""
        return Dense(self.table.to(device=device, dtype=dtype))


class Sparse(NamedTuple):
    """b(v | z) = share(z) background(v) + entries(v, z), with few entries: for large V times H."""

    starts: torch.Tensor
    """int64[V + 1]: entries of token v are those from starts[v] to starts[v + 1]."""
    states: torch.Tensor
    """int64[N]: z of each entry."""
    entries: torch.Tensor
    """float[N]."""
    background: torch.Tensor
    """float[V]: a distribution."""
    share: torch.Tensor
    """float[H]: the probability left to the background."""

    @property
    def shape(self) -> tuple[int, int]:
        """V and H."""
        return self.background.shape[0], self.share.shape[0]

    def columns(self, tokens: torch.Tensor) -> torch.Tensor:
        """float[..., H]: b(token | z)."""
        flat = tokens.reshape(-1)
        counts = self.starts[flat + 1] - self.starts[flat]
        rows = torch.repeat_interleave(torch.arange(len(flat), device=flat.device), counts)
        within = torch.arange(len(rows), device=flat.device) - (counts.cumsum(0) - counts)[rows]
        entry = self.starts[flat][rows] + within
        out = self.background[flat][:, None] * self.share
        out.index_put_((rows, self.states[entry]), self.entries[entry], accumulate=True)
        return out.view(*tokens.shape, -1)

    def scores(self, weights: torch.Tensor) -> torch.Tensor:
        """float[..., V]: sum over z of weights[..., z] b(v | z)."""
        flat = weights.reshape(-1, weights.shape[-1])
        parts = flat[:, self.states] * self.entries
        out = product(flat, self.share[:, None]) * self.background
        out = out.index_add(1, self._tokens(), parts.to(out.dtype))
        return out.view(*weights.shape[:-1], -1)

    def expected(self, values: torch.Tensor) -> torch.Tensor:
        """float or complex[..., H]: sum over v of b(v | z) values[..., v]."""
        flat = values.reshape(-1, values.shape[-1])
        parts = flat[:, self._tokens()] * self.entries
        out = product(flat, self.background[:, None]) * self.share
        out = out.index_add(1, self.states, parts.to(out.dtype))
        return out.view(*values.shape[:-1], -1)

    def sums(self, values: torch.Tensor, classes: torch.Tensor, count: int) -> torch.Tensor:
        """float or complex[count, H]: the sum of b(v | z) values[v] over the tokens of each class int64[V]."""
        exact = _exact(values)
        spread = torch.zeros(count, dtype=exact.dtype, device=values.device)
        out = spread.index_add_(0, classes, exact * self.background)[:, None] * self.share
        tokens = self._tokens()
        out.index_put_((classes[tokens], self.states), exact[tokens] * self.entries, accumulate=True)
        return out.to(values.dtype)

    def dense(self) -> torch.Tensor:
        """float[V, H]."""
        out = self.background[:, None] * self.share
        out.index_put_((self._tokens(), self.states), self.entries, accumulate=True)
        return out

    def totals(self) -> torch.Tensor:
        """float64[H]: the sum of b(v | z) over v."""
        shared = self.share.double() * self.background.sum(dtype=torch.float64)
        return shared.index_add(0, self.states, self.entries.double())

    def parts(self) -> tuple[torch.Tensor, ...]:
        """The probabilities it is stored as."""
        return (self.entries, self.background, self.share)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Sparse:
        """The same on another device or in another dtype."""
        starts, states = self.starts.to(device=device), self.states.to(device=device)
        return Sparse(starts, states, *(one.to(device=device, dtype=dtype) for one in self[2:]))

    def _tokens(self) -> torch.Tensor:
        """int64[N]: v of each entry."""
        every = torch.arange(self.shape[0], device=self.starts.device)
        return torch.repeat_interleave(every, self.starts.diff())


def sparse(table: torch.Tensor, background: torch.Tensor, least: float) -> Sparse:
    """``table`` with a background for all that is not well above it.

    The share of a state is the largest that its own probabilities leave room for on the tokens it gives up; what a
    token has above the background stays an entry. Then states sum to 1 as before.

    Args:
        table: float[V, H].
        background: float[V], positive where ``table`` is; a distribution such as that of single tokens.
        least: entries are kept for tokens with b(v | z) at least so many times background(v).
    """
    kept = (table >= least * background[:, None]) & (table > 0)
    given_up = torch.where(kept, 0.0, table).sum(0)
    room = torch.where(kept, 0.0, background[:, None]).sum(0)
    share = torch.where(room > 0, given_up / room.clamp(min=torch.finfo(table.dtype).tiny), 0.0)
    # tokens that are kept lose what the background gives them; where it gives more than they have, nothing stays
    entries = torch.where(kept, (table - background[:, None] * share).clamp(min=0), 0.0)
    total = entries.sum(0) + share * background.sum()
    entries, share = entries / total, share / total
    tokens, states = entries.nonzero(as_tuple=True)
    starts = torch.zeros(len(table) + 1, dtype=torch.long, device=table.device)
    starts[1:] = torch.bincount(tokens, minlength=len(table)).cumsum(0)
    return Sparse(starts, states, entries[tokens, states], background, share)


def _exact(values: torch.Tensor) -> torch.Tensor:
    """In double precision: a sum over a vocabulary in float32 is off in the fourth digit."""
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """left @ right in the dtype of ``right`` (complex if ``left`` is), at least in float32 on return."""
    if left.is_complex():
        return torch.complex(product(left.real, right), product(left.imag, right))
    out = left.to(right.dtype) @ right
    return out if out.dtype == torch.float64 else out.float()
