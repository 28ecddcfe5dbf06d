"""Prompts of any kind as one left-padded batch of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ctrlgen.errors import InputError


class Batch(NamedTuple):
    """B prompts, padded on the left."""

    ids: torch.Tensor
    """int64[B, P]"""
    attention_mask: torch.Tensor
    """int64[B, P], 0 at padding"""
    prompts: list[list[int]]
    """the ids of each, without padding"""
    single: bool
    """one prompt was given, not a list of them"""


def prepare(tokenizer: Any, prompts: object, chat: bool | None, *, pad: int) -> Batch:
    """Tokenize prompts and pad them on the left, whatever the tokenizer's own settings.

    Args:
        tokenizer: a tokenizer of transformers.
        prompts: a text, a chat (list of messages), or a list of either.
        chat: True makes a chat of each text, False refuses chats.
        pad: the id to pad with.

    Raises:
        InputError: no prompts, an empty one, or something that is no prompt.
    """
    single = isinstance(prompts, str) or is_chat(prompts)
    several = [prompts] if single else prompts
    if not isinstance(several, Sequence):
        raise InputError(f"prompts is {prompts!r}; expected a text, a chat (a list of messages), or a list of these")
    if not several:
        raise InputError("the list of prompts is empty; pass at least one prompt")
    ids = [_encode(tokenizer, prompt, chat, i) for i, prompt in enumerate(several)]
    longest = max(map(len, ids))
    padded = [[pad] * (longest - len(row)) + row for row in ids]
    mask = [[0] * (longest - len(row)) + [1] * len(row) for row in ids]
    return Batch(torch.tensor(padded), torch.tensor(mask), ids, single)


def is_chat(prompt: object) -> bool:
    """Whether a prompt is a list of messages."""
    return isinstance(prompt, (list, tuple)) and bool(prompt) and all(isinstance(one, Mapping) for one in prompt)


def _encode(tokenizer: Any, prompt: object, chat: bool | None, index: int) -> list[int]:
    if isinstance(prompt, str) and chat:
        prompt = [{"role": "user", "content": prompt}]
    if is_chat(prompt):
        if chat is False:
            raise InputError(f"prompt {index} is a chat, but chat=False was given")
        if not getattr(tokenizer, "chat_template", None):
            raise InputError(f"prompt {index} is a chat, but the tokenizer has no chat template; pass a text instead")
        text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    elif isinstance(prompt, str):
        ids = tokenizer(prompt)["input_ids"]
    else:
        raise InputError(f"prompt {index} is {prompt!r}; expected a text or a chat (a list of messages with a role)")
    if not ids:
        raise InputError(f"prompt {index} is empty, and a model needs something to go on; pass at least one character")
    return list(ids)
