"""Tiny random models with 12 ids, and what they say without any cache, one row at a time."""

from __future__ import annotations

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

SHAPE = {"vocab_size": 12, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
ENDS = {"bos_token_id": None, "eos_token_id": 0, "pad_token_id": 0}


def tiny(kind, seed=0, **more):
    torch.manual_seed(seed)
    if kind == "gpt2":
        size = {"vocab_size": 12, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64}
        model = GPT2LMHeadModel(GPT2Config(**{**size, **ENDS, "initializer_range": 0.6, **more}))
    elif kind == "mamba":
        model = MambaForCausalLM(MambaConfig(vocab_size=12, hidden_size=16, state_size=4, num_hidden_layers=1, **ENDS))
    else:
        config, cls = {
            "llama": (LlamaConfig, LlamaForCausalLM),
            "mistral": (MistralConfig, MistralForCausalLM),
        }[kind]
        sliding = {"sliding_window": 4} if kind == "mistral" else {}
        model = cls(config(**{**SHAPE, **HEADS, **ENDS, **sliding, "initializer_range": 0.6, **more}))
    return model.eval()


@torch.no_grad()
def logits_after(model, ids, soft=None):
    """float32[D] after the ids of one row, embeddings before them if there are some."""
    inputs = {"input_ids": torch.tensor([list(ids)])}
    if soft is not None:
        embedded = model.get_input_embeddings()(torch.tensor([list(ids)], dtype=torch.long))
        inputs = {"inputs_embeds": torch.cat([soft[None].to(embedded), embedded], 1)}
    return model(**inputs, use_cache=False).logits[0, -1].float()
