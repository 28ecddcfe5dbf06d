"""One step of several steerers: their deltas added to log-probabilities, and nothing that was forbidden back."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from ctrlgen.errors import InputError, ModelError
from ctrlgen.steering.following import Followed, recorded
from ctrlgen.steering.protocol import Moment, Recording, Steerer, is_final, name_of

if TYPE_CHECKING:
    from collections.abc import Sequence


class Stepped(NamedTuple):
    """What a step made."""

    scores: torch.Tensor
    """float[B, V], of the dtype of the scores before."""
    followed: Followed
    deltas: tuple[torch.Tensor, ...]
    """float32[B, V] of each steerer; 0 in rows that are over and for forbidden tokens."""
    log_p: torch.Tensor
    """float32[B, V] that they were added to."""


def steered(steerers: Sequence[Steerer], followed: Followed, scores: torch.Tensor, ended: torch.Tensor) -> Stepped:
    """Add the deltas of all steerers.

    The result is log(mass of the allowed tokens) + log p'(v), with p' the steered distribution over these, up to what
    the scores were off being log-probabilities: deltas of 0 leave them as they are.

    Args:
        steerers: in any order, but for those that own the last word.
        followed: their states.
        scores: float[B, V], after the mask.
        ended: bool[B], rows that are over.

    Raises:
        InputError: a delta of the wrong shape.
        ModelError: the scores or a delta are NaN or +inf.
    """
    moment = first = _moment(scores, ended, followed.ids.shape[1])
    forbidden = (moment.log_p == -torch.inf) | ~moment.alive[:, None]
    deltas: list[torch.Tensor] = []
    tracks = []
    for steerer, track in zip(steerers, followed.tracks, strict=True):
        state = track.points[-1].ready
        if is_final(steerer) and deltas:
            moment = first._replace(log_p=_added(first.log_p, deltas))
        delta = _checked(steerer, steerer.delta(state, moment), forbidden, moment.log_p)
        deltas.append(delta)
        if isinstance(steerer, Recording):
            track = recorded(track, steerer.record(state, moment, delta))
        tracks.append(track)
    effect = torch.stack(deltas).sum(0)
    left = (first.log_p + effect).logsumexp(1, keepdim=True)
    effect = (effect - left).masked_fill(forbidden | (left == -torch.inf), 0.0)
    # a row in which the steerers left nothing keeps only -inf, for the caller to see
    nothing = (left == -torch.inf) & moment.alive[:, None]
    out = (scores.float() + effect).masked_fill(nothing, -torch.inf).to(scores.dtype)
    # 16 bits may round to -inf, never from it
    return Stepped(out, followed._replace(tracks=tuple(tracks)), tuple(deltas), first.log_p)


def _added(log_p: torch.Tensor, deltas: Sequence[torch.Tensor]) -> torch.Tensor:
    """The distribution that the deltas make; rows in which they leave nothing stay as they are."""
    total = log_p + torch.stack(tuple(deltas)).sum(0)
    left = total.logsumexp(1, keepdim=True)
    return torch.where(left == -torch.inf, log_p, total - left)


def log_ratio(log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """log q - log p where p is positive, else 0: what to add to ``log_p`` to make it ``log_q``.

    Args:
        log_q: float32[B, V]; may be -inf anywhere.
        log_p: float32[B, V]; -inf where q is 0 too.
    """
    return torch.where(log_p == -torch.inf, 0.0, log_q - log_p)


def divergence(log_q: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    """float32[B]: KL(q || p) in nats; inf where q is positive and p is not.

    Args:
        log_q: float32[B, V], normalised.
        log_p: float32[B, V], normalised.
    """
    apart = torch.where(log_q == -torch.inf, 0.0, log_q.exp() * (log_q - log_p))
    return apart.sum(1).clamp(min=0.0)


def step_divergences(stepped: Stepped) -> torch.Tensor:
    """float32[S, B]: KL of what each steerer alone makes of the model's distribution, from that distribution."""
    moved = [(stepped.log_p + delta).log_softmax(1) for delta in stepped.deltas]
    return torch.stack([divergence(log_q, stepped.log_p) for log_q in moved])


def _moment(scores: torch.Tensor, ended: torch.Tensor, length: int) -> Moment:
    """Log-probabilities over the allowed tokens, uniform in rows that are over or have nothing left."""
    values = scores.float()
    total = values.logsumexp(1, keepdim=True)
    if bool((total.isnan() | (total == torch.inf)).any()):
        raise ModelError("the scores of the model are NaN or infinite: load it in another dtype, or check its weights")
    alive = ~ended & (total[:, 0] != -torch.inf)
    log_p = torch.where(alive[:, None], values - total, -torch.tensor(float(scores.shape[1])).log().to(values))
    return Moment(log_p, alive, length)


def _checked(steerer: Steerer, delta: torch.Tensor, unused: torch.Tensor, log_p: torch.Tensor) -> torch.Tensor:
    if delta.shape != log_p.shape:
        raise InputError(
            f"the delta of {name_of(steerer)} has shape {list(delta.shape)}; expected that of the scores, "
            f"{list(log_p.shape)}"
        )
    delta = delta.to(log_p).masked_fill(unused, 0.0)
    if bool((delta.isnan() | (delta == torch.inf)).any()):
        raise ModelError(f"the delta of {name_of(steerer)} is NaN or +inf where a token is allowed")
    return delta
