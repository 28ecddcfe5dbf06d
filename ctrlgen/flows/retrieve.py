"""retrieve: prompts in, the best items of a catalogue out, by beam search along its index.

    hits = retrieve(model, "blue running shoes", index, k=10, tokenizer=tokenizer)
    [(hit.id, hit.score) for hit in hits[0]]

The search is a loop of its own: beams are chosen among what the index allows, never masked afterwards, so a beam is
always the beginning of an item, and one that has nowhere to go is dead instead of filled up with anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ctrlgen.errors import InputError
from ctrlgen.flows.prompts import prepare
from ctrlgen.flows.scoring import Scorer
from ctrlgen.index.filters import Filter
from ctrlgen.index.layout import DONE, LO, LOST, NODE
from ctrlgen.index.live import LiveIndex
from ctrlgen.index.snapshot import Snapshot
from ctrlgen.index.token_index import TokenIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.index.states import Candidates

    Catalogue = TokenIndex | Snapshot
    Filters = list[Any] | None

__all__ = ["Hit", "retrieve"]


class Hit(NamedTuple):
    """An item that was found.

    Attributes:
        id: what the item is called.
        score: sum of the log-probabilities of its tokens, and of its end where the index has end ids.
        rank: 1 for the best.
        tokens: its tokens, without an end.
    """

    id: int
    score: float
    rank: int
    tokens: tuple[int, ...]


def retrieve(
    model: Any,
    prompts: Any,
    index: TokenIndex | Snapshot | LiveIndex,
    *,
    k: int = 10,
    beams: int | None = None,
    filter: Any = None,
    attention_mask: Any = None,
    tokenizer: Any = None,
    use_cache: bool = True,
) -> list[list[Hit]]:
    """The best items for each prompt, by a beam search that never leaves the catalogue.

    Exact where ``beams`` is at least the number of items (distinct sequences of tokens); with fewer the best item may
    be pruned, as in any beam search.

    Args:
        model: a causal or encoder-decoder model of transformers, in eval mode.
        prompts: int64[P] or int64[B, P] as a tensor or array; a list of B lists of ids, of any lengths; or, with
            ``tokenizer``, a text, a chat or a list of either. Padding on any side is fine and changes nothing.
        index: its tokens are those of the model. A LiveIndex is used as it is when the call begins.
        k: hits a prompt, at most. Items with the same tokens are hits of their own, in the order of the index.
        beams: kept at each step, k by default.
        filter: items that may come out: what ``index.filter`` takes or gives, or a list of these (or None), one for
            each prompt.
        attention_mask: bool or int[B, P], 0 at padding, for prompts given as one tensor or array.
        tokenizer: of the model, for prompts that are texts.
        use_cache: False never keeps keys and values; slower, with the same result.

    Returns:
        A list for each prompt, best first. It is shorter than k where the search found fewer items: because the
        catalogue or filter has no more, or because all but a few have probability 0.

    Raises:
        InputError: arguments that do not fit together, a prompt that is empty or too long.
        UnsatisfiableError: a filter lets no item pass.
        ModelError: the model's logits are NaN or infinite.
    """
    catalogue = index.snapshot if isinstance(index, LiveIndex) else index
    if not isinstance(catalogue, (TokenIndex, Snapshot)):
        raise InputError(f"index is {index!r:.200}; expected a TokenIndex, a LiveIndex or a snapshot of one")
    if not callable(model) or not hasattr(model, "config"):
        raise InputError(f"model is {model!r:.200}; expected a model of transformers")
    beams = _checked_beams(k, beams)
    rows = _rows(prompts, attention_mask, tokenizer)
    _check_model(model, catalogue, rows)
    filters = _filters(catalogue, filter, len(rows))
    # more beams than items would stay dead from the first step to the last
    found = _search(Scorer(model, rows, use_cache=use_cache), catalogue, filters, len(rows), min(beams, len(catalogue)))
    scores, states = found.scores.tolist(), found.states.cpu().numpy()
    return [
        _hits(catalogue, filters[row] if filters else None, scores[row], states[row], k) for row in range(len(rows))
    ]


# the search


def _search(scorer: Scorer, index: Catalogue, filters: Filters, prompts: int, beams: int) -> Candidates:
    """The best ``beams`` items of each prompt, as Candidates [B, beams] that have ended or are dead."""
    logs = scorer.first()
    device = logs.device
    start = torch.from_numpy(index.start_states(prompts)).to(device)
    found = _step(index, start, torch.zeros(prompts, device=device), logs, 1, beams, _row_filters(index, filters, 1))
    obeyed = _row_filters(index, filters, beams)
    row_of = torch.arange(prompts, device=device)  # of each beam, among those that the model reads
    while True:
        states, scores = found.states.flatten(0, 1), found.scores.flatten()
        running = torch.nonzero((scores > -torch.inf) & ~_ended(states))[:, 0]
        if not len(running):
            return found
        parents, tokens = found.parents.flatten()[running], found.tokens.flatten()[running]
        read = scorer.extend(row_of[parents], tokens)
        row_of = torch.zeros(prompts * beams, dtype=torch.int64, device=device)
        row_of[running] = torch.arange(len(running), device=device)
        found = _step(index, states, scores, _spread(read, running, len(states)), beams, beams, obeyed)


def _spread(read: torch.Tensor, running: torch.Tensor, count: int) -> torch.Tensor:
    """[count, V], ``read`` in the rows ``running``; nothing is looked up in the others."""
    if len(running) == count:
        return read
    logs = read.new_zeros(count, read.shape[1])
    logs[running] = read
    return logs


def _step(
    index: Catalogue, states: torch.Tensor, scores: torch.Tensor, logs: torch.Tensor, beams: int, k: int, filters: Any
) -> Candidates:
    return index.beam_step(states, scores, logs, beams=beams, k=k, filters=filters)


def _row_filters(index: Catalogue, filters: Filters, beams: int) -> Any:
    return None if filters is None else index.row_filters(filters, beams=beams)


def _ended(states: torch.Tensor) -> torch.Tensor:
    """bool[R], whether the item of each state int64[R, 4] or [R, P, 4] is whole."""
    return (states.reshape(len(states), -1, 4)[..., NODE] == DONE).any(1)


# what was found


def _hits(index: Catalogue, passing: Any, scores: Sequence[float], states: NDArray[np.int64], k: int) -> list[Hit]:
    """Up to k hits from the beams of one prompt, best first."""
    hits: list[Hit] = []
    for score, state in zip(scores, states, strict=True):
        if score == -np.inf or len(hits) >= k:
            break
        tokens, ids = _item(index, passing, state)
        hits += [Hit(name, score, len(hits) + i + 1, tokens) for i, name in enumerate(ids[: k - len(hits)])]
    return hits


def _item(index: Catalogue, passing: Any, state: NDArray[np.int64]) -> tuple[tuple[int, ...], list[int]]:
    """The tokens of the item that a state has reached, and its ids, those that pass the filter of the row."""
    parts = _parts(index)
    each = (passing,) if isinstance(index, TokenIndex) else passing or (None,) * len(parts)
    states = state.reshape(len(parts), 4)
    tokens: tuple[int, ...] = ()
    ids: list[int] = []
    for part, one, here in zip(parts, each, states, strict=True):
        if here[NODE] == LOST:
            continue
        tokens = tuple(part.tokens_at(int(here[LO])).tolist())
        ids += (part if one is None else part.where(one)).ids(here).tolist()
    return tokens, ids


def _parts(index: Catalogue) -> tuple[TokenIndex, ...]:
    return (index,) if isinstance(index, TokenIndex) else index.parts


# what was given


def _checked_beams(k: object, beams: object) -> int:
    for name, value in (("k", k), ("beams", k if beams is None else beams)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"{name} is {value!r}; expected a number of at least 1")
    if isinstance(beams, int) and isinstance(k, int) and beams < k:
        raise InputError(f"{beams} beams cannot end in k={k} hits; raise beams or lower k")
    return int(k if beams is None else beams)  # type: ignore[call-overload, no-any-return]


def _rows(prompts: Any, attention_mask: Any, tokenizer: Any) -> list[list[int]]:
    """The ids of each prompt, without padding."""
    if isinstance(prompts, (torch.Tensor, np.ndarray)):
        rows = _unpadded(torch.as_tensor(prompts), attention_mask)
    elif attention_mask is not None:
        raise InputError("attention_mask goes with prompts that are one tensor or array; lists need none")
    elif _is_ids(prompts):
        rows = [list(map(int, row)) for row in prompts]
    elif tokenizer is None:
        raise InputError("prompts are no ids: pass a tensor, a list of lists of ids, or texts together with tokenizer=")
    else:
        rows = prepare(tokenizer, prompts, None, pad=0).prompts
    if not rows:
        raise InputError("there are no prompts; pass at least one")
    if not all(rows):
        raise InputError(f"prompt {rows.index([])} is empty, and a model needs something to go on")
    return rows


def _is_ids(prompts: Any) -> bool:
    return isinstance(prompts, (list, tuple)) and all(
        isinstance(row, (list, tuple, np.ndarray, torch.Tensor)) and all(_is_id(one) for one in row) for row in prompts
    )


def _is_id(one: Any) -> bool:
    whole = one.dtype.kind in "iu" if isinstance(one, (np.ndarray, np.generic)) else isinstance(one, int)
    if isinstance(one, torch.Tensor):
        whole = one.ndim == 0 and not one.is_floating_point()
    return whole and not isinstance(one, bool)


def _unpadded(ids: torch.Tensor, mask: Any) -> list[list[int]]:
    if ids.ndim not in (1, 2) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise InputError(f"prompts must be integers [P] or [B, P], not {ids.dtype} of shape {list(ids.shape)}")
    try:
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else torch.as_tensor(mask).bool()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"attention_mask cannot be read as an array of numbers: {error}") from error
    if real.shape != ids.shape:
        raise InputError(f"attention_mask has the shape {list(real.shape)}, prompts have {list(ids.shape)}")
    table, shown = (ids[None], real[None]) if ids.ndim == 1 else (ids, real)
    return [row[seen].tolist() for row, seen in zip(table.cpu(), shown.cpu(), strict=True)]


def _check_model(model: Any, index: Catalogue, rows: Sequence[Sequence[int]]) -> None:
    config = model.config.get_text_config()
    width, limit = getattr(config, "vocab_size", None), getattr(config, "max_position_embeddings", None)
    if width is not None and index.width > width:
        raise InputError(f"the index has ids up to {index.width - 1}, but the model only those below {width}")
    # the last token, or the end, is not read any more
    steps = max(part.layout.longest for part in _parts(index)) - (0 if index.ends else 1)
    for row, ids in enumerate(rows):
        if width is not None and not 0 <= min(ids) <= max(ids) < width and not model.config.is_encoder_decoder:
            raise InputError(f"prompt {row} has ids from {min(ids)} to {max(ids)}; the model's are 0..{width - 1}")
        needed = max(len(ids), steps + 1) if model.config.is_encoder_decoder else len(ids) + steps
        if limit and needed > limit:
            raise InputError(
                f"prompt {row} has {len(ids)} tokens and the longest item takes {steps} more to read: "
                f"the model was made for {limit}; shorten the prompt"
            )


def _filters(index: Catalogue, given: Any, count: int) -> Filters:
    """A filter of the index (or None) for each prompt; None if there are none at all."""
    if given is None:
        return None
    each = given if _is_list_of_filters(given) else [given] * count
    if len(each) != count:
        raise InputError(f"{len(each)} filters for {count} prompts; pass one, or one for each prompt")
    made: dict[int, Any] = {id(one): _filter(index, one) for one in each if one is not None}
    filters = [None if one is None else made[id(one)] for one in each]
    return filters if made else None


def _is_list_of_filters(given: Any) -> bool:
    """Whether a list holds filters; one of ids or booleans is a filter itself."""
    return isinstance(given, list) and any(one is None or not np.isscalar(one) for one in given)


def _filter(index: Catalogue, one: Any) -> Any:
    whole = isinstance(one, Filter) or (isinstance(one, tuple) and any(isinstance(part, Filter) for part in one))
    if not whole:
        return index.filter(_chosen(one))
    parts = one if isinstance(one, tuple) else (one,)
    sizes = [part.layout.count for part in _parts(index)]
    if isinstance(one, tuple) != isinstance(index, Snapshot) or [part.size for part in parts] != sizes:
        raise InputError(f"the filter {one!r} was not made by this index; make it with index.filter(...)")
    return one


def _chosen(one: Any) -> NDArray[Any]:
    """What a filter is made of, as an array."""
    try:
        array = np.asarray(one)
    except (TypeError, ValueError):  # lists within lists, tensors on other devices
        array = np.asarray("")
    if array.ndim != 1 or (array.dtype.kind not in "iub" and array.size):
        raise InputError(f"filter is {one!r:.200}; expected index.filter(...), ids, booleans, or a list of these")
    return array
