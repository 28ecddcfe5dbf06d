"""Texts sampled from a language model, from which an HMM is fitted.

Sampling is plain: temperature 1, the whole distribution. What is sampled depends on the seed and the number of the
shard alone, so a run that was cut off goes on where it stopped, and processes with different seeds share a folder.
"""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from ctrlgen.errors import InputError
from ctrlgen.hmm.shards import Shard, write_shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CACHE_NAMES = ("cache", "past_key_values")  # of releases of transformers, the newest first
_BLOCK = 256  # columns summed before the first of two draws


class Progress(NamedTuple):
    """Where a run is."""

    shard: int
    shards: int
    tokens: int
    """Sampled by this run."""
    seconds: float


def sample(
    model: Any,
    prompts: Sequence[Sequence[int]],
    folder: str | Path,
    *,
    tokens: int,
    new_tokens: int = 48,
    batch: int = 256,
    eos: Sequence[int] = (),
    seed: int = 0,
    hidden_rows: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> None:
    """Sample continuations of prompts into shards of ``batch`` sequences; shards that are there are left alone.

    Args:
        model: a causal language model of transformers, on any device, in any dtype.
        prompts: ids; each row takes one at random. For an unconditional sample, the id that begins a text.
        folder: for the shards; made if missing.
        tokens: how many tokens to sample at least, if no text ends early.
        new_tokens: the most tokens to sample for a prompt.
        batch: rows at a time, which are a shard.
        eos: ids that end a text.
        seed: of this process.
        hidden_rows: of the first so many rows of each shard the last hidden states are kept.
        progress: called after each shard.

    Raises:
        InputError: no prompt, an empty prompt, or an id that the model does not have.
    """
    width = model.config.get_text_config().vocab_size
    _check(prompts, width, new_tokens, batch)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards, done, begun = -(-tokens // (batch * new_tokens)), 0, time.perf_counter()
    for number in range(shards):
        path = folder / f"seed{seed}-{number:05d}.safetensors"
        if path.exists():
            continue
        generator = np.random.default_rng((seed, number))
        chosen = [prompts[i] for i in generator.integers(len(prompts), size=batch)]
        shard = sample_batch(model, chosen, new_tokens, eos, int(generator.integers(2**62)), hidden_rows)
        write_shard(path, _narrow(shard, width), {"seed": str(seed), "shard": str(number), "width": str(width)})
        done += int((shard.end - shard.begin).sum())
        if progress is not None:
            progress(Progress(number + 1, shards, done, time.perf_counter() - begun))


@torch.inference_mode()
def sample_batch(
    model: Any, prompts: Sequence[Sequence[int]], new_tokens: int, eos: Sequence[int], seed: int, hidden_rows: int = 0
) -> Shard:
    """Continuations of ``prompts``, one each, which end with an id of ``eos`` or after ``new_tokens``."""
    device = model.device
    generator = torch.Generator(device).manual_seed(seed)
    ids, mask = _left_padded(prompts, device)
    ends = torch.tensor(list(eos), dtype=torch.long, device=device)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    known = inspect.signature(model.base_model.forward).parameters
    cache_name = next(name for name in _CACHE_NAMES if name in known)
    step, cache, chosen, states = ids, None, [], []
    for _ in range(new_tokens):
        placed = {"position_ids": positions} if "position_ids" in known else {}
        out = model.base_model(input_ids=step, attention_mask=mask, use_cache=True, **placed, **{cache_name: cache})
        last, cache = out.last_hidden_state[:, -1], out.past_key_values
        states.append(last[:hidden_rows].to(torch.float16).cpu())
        step = draw(model.get_output_embeddings()(last), generator)[:, None]
        chosen.append(step)
        mask = torch.cat([mask, torch.ones_like(step)], 1)
        positions = positions[:, -1:] + 1
    sampled = torch.cat(chosen, 1).cpu().numpy()
    ended = np.isin(sampled, ends.cpu().numpy())
    lengths = np.where(ended.any(1), ended.argmax(1) + 1, new_tokens)
    return _joined(prompts, sampled, lengths, torch.stack(states, 1).numpy())


def draw(logits: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """int64[B]: one token of each row, chosen with the probability that it has.

    A uniform number is looked up in the cumulative sums, first of blocks of columns and then within one: a fifth of
    the time that an exponential race takes, which needs V random numbers a row, and exact to the rounding of float32
    within a block.

    Args:
        logits: float[B, V].
        generator: on the same device.
    """
    rows, width = logits.shape
    values = torch.nn.functional.pad(logits.float(), (0, -width % _BLOCK), value=-torch.inf)
    weights = (values - values.amax(1, keepdim=True)).exp_().view(rows, -1, _BLOCK)
    block = _look_up(weights.sum(2, dtype=torch.float32), generator)
    inside = _look_up(weights[torch.arange(rows, device=logits.device), block], generator)
    return block * _BLOCK + inside


def _look_up(weights: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """int64[B]: columns chosen in proportion to the weights float32[B, N]; never one of weight 0."""
    sums = weights.double().cumsum(1)
    uniform = torch.rand(len(weights), 1, dtype=torch.float64, device=weights.device, generator=generator)
    # right=True: the first column whose sum is above the number, so one of weight 0 is passed over
    return torch.searchsorted(sums, uniform * sums[:, -1:], right=True)[:, 0].clamp(max=weights.shape[1] - 1)


def _check(prompts: Sequence[Sequence[int]], width: int, new_tokens: int, batch: int) -> None:
    if not prompts:
        raise InputError("no prompts: pass at least one list of ids, such as the id that begins a text")
    for number, prompt in enumerate(prompts):
        if not len(prompt) or not all(0 <= token < width for token in prompt):
            shown = list(prompt)[:20]
            raise InputError(f"prompt {number} is {shown}; expected ids from 0 to {width - 1}, at least one")
    if min(new_tokens, batch) < 1:
        raise InputError(f"new_tokens is {new_tokens} and batch {batch}; both must be at least 1")


def _left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    longest = max(map(len, prompts))
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def _joined(prompts: Sequence[Sequence[int]], sampled: np.ndarray, lengths: np.ndarray, hidden: np.ndarray) -> Shard:
    begin = np.array([len(prompt) for prompt in prompts], np.int32)
    end = begin + lengths.astype(np.int32)
    ids = np.zeros((len(prompts), int(end.max())), np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : begin[row]] = prompt
        ids[row, begin[row] : end[row]] = sampled[row, : lengths[row]]
    return Shard(ids, begin, end, hidden)


def _narrow(shard: Shard, width: int) -> Shard:
    return shard._replace(ids=shard.ids.astype(np.uint16 if width <= 1 << 16 else np.uint32))
