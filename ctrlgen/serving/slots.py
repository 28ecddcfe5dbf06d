"""Requests in slots whose tokens are on a device, as vLLM's V2 runner has them.

A slot is never said to be free: the next request in it replaces the last. What was generated stands in tensors that all
steps share; of each slot only what is new is fetched, the usual one token of all slots at once. With drafts a request
has a row for each of them, after its first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ctrlgen.serving.batch import Asked, apply_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlgen.serving.row import Row


class Slots:
    """The requests with a constraint, by slot.

    Args:
        states: with ``all_token_ids`` int32[slots, length], ``total_len`` int32[slots] and ``prompt_len`` int32[slots],
            the first two with the tensor as ``gpu``, the last with an array as ``np``.
    """

    def __init__(self, states: Any) -> None:
        self._states = states
        self._rows: dict[int, Row] = {}
        self._ids: dict[int, list[int]] = {}

    def prompt_length(self, slot: int) -> int:
        """Number of ids of the prompt."""
        return int(self._states.prompt_len.np[slot])

    def add(self, slot: int, row: Row | None) -> bool:
        """Put a request in a slot, None for one without a constraint; whether it has one."""
        self._rows.pop(slot, None)
        self._ids.pop(slot, None)
        if row is not None:
            self._rows[slot] = row
        return row is not None

    def apply(self, logits: torch.Tensor, context: Any) -> None:
        """Mask and steer in place.

        Args:
            logits: float32[R, V].
            context: which slot each row is of, and in which order.
        """
        slots = context.idx_mapping_np.tolist()
        mine = [slot for slot in slots if slot in self._rows]
        if not mine:
            return
        self._fetch(mine)
        if len(slots) == len(logits):
            rows = [Asked(i, self._rows[slot], self._ids[slot]) for i, slot in enumerate(slots) if slot in self._rows]
        else:
            rows = self._drafts(context)
        apply_rows(logits, rows)

    def _fetch(self, slots: Sequence[int]) -> None:
        """Bring the ids of these slots up to date."""
        tokens, totals = self._states.all_token_ids.gpu, self._states.total_len.gpu
        index = torch.tensor(slots, device=totals.device)
        lengths = totals[index].long()
        last = tokens[index, (lengths - 1).clamp(min=0)].long()
        for slot, length, token in zip(slots, *torch.stack([lengths, last]).tolist(), strict=True):
            start = self.prompt_length(slot)
            known = self._ids.get(slot)
            if known is not None and length == start + len(known) + 1:
                known.append(token)
            elif known is None or length != start + len(known):
                every = tokens[slot, :length].tolist()
                self._ids[slot] = every[start:]
                self._rows[slot].begins_with(every[:start])

    def _drafts(self, context: Any) -> list[Asked]:
        """The rows of requests with drafts: each row's ids end with the drafts before it."""
        slots = context.expanded_idx_mapping.tolist()
        places, tokens = context.expanded_local_pos.tolist(), context.input_ids.tolist()
        rows: list[Asked] = []
        so_far: dict[int, list[int]] = {}
        for number, (slot, place, token) in enumerate(zip(slots, places, tokens, strict=True)):
            if slot not in self._rows:
                continue
            ids = self._ids[slot] if place == 0 else [*so_far[slot], token]
            so_far[slot] = ids
            rows.append(Asked(number, self._rows[slot], ids, place > 0))
        return rows
