"""What the loop of transformers that called a processor is doing, found on the stack, since it does not say."""

from __future__ import annotations

import sys

import torch
from transformers import LogitsProcessor, LogitsProcessorList

from ctrlgen.errors import InputError

_FRAMES = 6  # how far up is looked


def calling_list() -> LogitsProcessorList | None:
    """The list of transformers on whose behalf the processor runs that calls this, if there is one."""
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        owner = frame.f_locals.get("self")
        if isinstance(owner, LogitsProcessorList):
            return owner
        if frame.f_back is None:
            break
        frame = frame.f_back
    return None


def attention_mask() -> torch.Tensor | None:
    """The mask of the ids, as the loop of transformers that called passes it to a decoder-only model."""
    frame = sys._getframe(4).f_back
    for _ in range(_FRAMES):
        if frame is None:
            break
        arguments = frame.f_locals.get("model_kwargs")
        if isinstance(arguments, dict):
            if "encoder_outputs" in arguments:
                return None  # the mask is that of the encoder
            mask = arguments.get("attention_mask")
            return mask if isinstance(mask, torch.Tensor) and mask.dim() == 2 else None
        frame = frame.f_back
    return None


def is_beam_search() -> bool:
    """Whether a beam search of transformers called, by whatever way; asked rarely, since looking takes time."""
    frame = sys._getframe(3).f_back
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if "beam_search" in frame.f_code.co_name:
            return True
        frame = frame.f_back
    return False


def check_sampling(owner: LogitsProcessorList, processor: LogitsProcessor, name: str) -> None:
    """Refuse whatever would change a distribution that is guaranteed.

    Raises:
        InputError: something comes after ``processor`` in its list; or the loop does not sample, or has beams.
    """
    later = [type(one).__name__ for one in list(owner)[list(owner).index(processor) + 1 :]]
    if later:
        raise InputError(
            f"{name} guarantees what it makes, but {', '.join(later)} would change it afterwards; give temperature, "
            f"top_k and top_p to {name}, and temperature=1.0, top_k=0, top_p=1.0 to generate"
        )
    frame = sys._getframe(3).f_back
    for _ in range(_FRAMES):
        config = None if frame is None else frame.f_locals.get("generation_config")
        if config is not None and (not config.do_sample or (config.num_beams or 1) > 1):
            raise InputError(f"{name} guarantees a distribution: sample from it, with do_sample=True and no beams")
        frame = None if frame is None else frame.f_back
