"""The rows of a server's batch, by number, and what they allow applied to its logits in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ctrlgen.engine.masks import expand
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from ctrlgen.serving.row import Row

_MINUS_INF = np.int32(-0x800000)  # its bits


class Member(NamedTuple):
    """A request in a batch."""

    row: Row
    ids: Sequence[int]
    """What was generated; the server's own list, which grows."""


class Asked(NamedTuple):
    """A row of logits and whose it is."""

    number: int
    row: Row
    ids: Sequence[int]
    draft: bool = False
    """Whether the last ids may be taken back."""


class Batch:
    """Requests by the number of their row; requests without a constraint are not in it."""

    def __init__(self) -> None:
        self.members: dict[int, Member] = {}

    def update(
        self,
        removed: Iterable[int],
        added: Iterable[tuple[int, Member | None]],
        moved: Iterable[tuple[int, int, bool]],
    ) -> None:
        """What changed, in this order.

        Args:
            removed: numbers of rows that are gone.
            added: new requests, None for one without a constraint; each replaces what is in its row.
            moved: (from, to, whether the two change places); what was in ``to`` is replaced.
        """
        members = self.members
        for number in removed:
            members.pop(number, None)
        for number, member in added:
            members.pop(number, None)
            if member is not None:
                members[number] = member
        for first, second, swap in moved:
            one, other = members.pop(first, None), members.pop(second, None)
            if one is not None:
                members[second] = one
            if swap and other is not None:
                members[first] = other

    def apply(self, logits: torch.Tensor) -> None:
        """Everything that is not allowed becomes -inf, in place, and steerers add what they add.

        Args:
            logits: float32[B, V].
        """
        apply_rows(logits, [Asked(number, *one) for number, one in self.members.items() if number < len(logits)])


def apply_rows(logits: torch.Tensor, rows: Sequence[Asked]) -> None:
    """The same for rows as they come."""
    found = [(one, allowed) for one in rows if (allowed := one.row.row(one.ids, draft=one.draft)) is not None]
    forbid(logits, [(one.number, allowed) for one, allowed in found])
    refill(logits, [(one.number, one.row) for one, _ in found])
    for number, row, _, _ in rows:
        if row.steers:
            logits[number : number + 1] = row.steer(logits[number : number + 1])


def forbid(logits: torch.Tensor, rows: Sequence[tuple[int, NDArray[np.uint32]]]) -> None:
    """Write -inf wherever a row does not allow the token.

    Args:
        logits: float32[B, V], changed in place.
        rows: numbers and their rows uint32[W]; ids at or past 32 * W are forbidden.
    """
    if not rows:
        return
    if logits.device.type == "cpu" and logits.dtype == torch.float32 and logits.stride(1) == 1:
        from ctrlgen.engine.mask_kernel import forbid as forbid_row

        bits = logits.detach().view(torch.int32).numpy()
        for number, row in rows:
            forbid_row(bits[number], row, _MINUS_INF)
        return
    words = torch.from_numpy(np.stack([row for _, row in rows]).view(np.int32)).to(logits.device, non_blocking=True)
    index = torch.tensor([number for number, _ in rows], device=logits.device)
    logits[index] = logits[index].masked_fill(~expand(words, logits.shape[1]), float("-inf"))


def refill(logits: torch.Tensor, rows: Sequence[tuple[int, Row]]) -> None:
    """End the rows in which others had forbidden all that is allowed: no NaN can come of them."""
    if not rows:
        return
    index = torch.tensor([number for number, _ in rows], device=logits.device)
    lost = logits[index].amax(1) == -torch.inf
    if logits.device.type == "cpu" and not bool(lost.any()):
        return
    for (number, row), gone in zip(rows, lost, strict=True):
        logits[number, row.ends] = torch.where(gone, 0.0, logits[number, row.ends])
        if logits.device.type == "cpu" and bool(gone):  # elsewhere it would have to be waited for
            row.fail(InputError("another processor forbids all that the constraint allows"))
