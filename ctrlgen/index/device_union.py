"""Steps over several indexes on a device, as one catalogue; see ``ctrlgen.index.snapshot``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.index.states import Candidates

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from ctrlgen.index.device import DeviceIndex


def union_step(
    parts: Sequence[DeviceIndex],
    states: torch.Tensor,
    scores: torch.Tensor,
    log_probs: torch.Tensor,
    beams: int,
    k: int,
    filters: Sequence[Any],
) -> Candidates:
    """The k best continuations of each group of rows, states int64[R, P, 4]; see ``Snapshot.beam_step``."""
    import torch

    own = [part.filters(one) if one is not None else None for part, one in zip(parts, filters, strict=True)]
    found = [
        part.beam_step(states[:, p], scores, log_probs, beams=beams, k=k, filters=own[p])
        for p, part in enumerate(parts)
    ]
    parents, tokens, totals = (torch.cat([one[field] for one in found], 1) for field in range(3))
    for p in range(1, len(parts)):
        # what an earlier part offers too counts once; empty slots look like rows that have ended
        here, before = slice(p * k, (p + 1) * k), slice(0, p * k)
        same = parents[:, here, None] == parents[:, None, before]
        same &= tokens[:, here, None] == tokens[:, None, before]
        same &= totals[:, None, before] > -torch.inf
        totals[:, here] = torch.where(same.any(2), -torch.inf, totals[:, here])
    totals, chosen = totals.topk(k, 1)
    parents, tokens = parents.gather(1, chosen), tokens.gather(1, chosen)
    dead = totals == -torch.inf
    parents = torch.where(dead, torch.arange(len(dead), device=dead.device)[:, None] * beams, parents)
    tokens = torch.where(dead, -1, tokens)
    rows = parents.flatten()
    moved = [
        part.advance_states(states[rows, p], tokens.flatten(), filters=one and one._replace(which=one.which[rows]))
        for p, (part, one) in enumerate(zip(parts, own, strict=True))
    ]
    after = torch.stack(moved, 1).view(*parents.shape, len(parts), 4)
    after = torch.where(dead[..., None, None], parts[0].lost, after)
    return Candidates(parents, tokens, totals, after)
