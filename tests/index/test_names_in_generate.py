"""Names of an index come out of transformers' generate in all its modes, with processors used again and in threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.testing import ToyLM, ToyTokenizer, toy_vocabulary
from tests.threads import at_once

VOCABULARY = toy_vocabulary()
NAMES = ["abc", "ab", "cab", "cabbac", "b", "ccc", "é"]
MODES = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 2.0},
    "beams": {"num_beams": 4},
    "samples": {"do_sample": True, "num_return_sequences": 5},
    "best beams": {"num_beams": 7, "num_return_sequences": 7},
}


def text_of(ids: list[int], vocabulary: cg.Vocabulary) -> str:
    return b"".join(vocabulary.tokens[i] or b"" for i in ids if i not in vocabulary.eos).decode()


def generated(
    model: Any, tokenizer: Any, vocabulary: cg.Vocabulary, prompts: list[str], processor: Any, **mode: Any
) -> list[str]:
    """The texts after padded prompts."""
    made = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    longest = max(map(len, made))
    pad = model.config.pad_token_id
    ids = torch.tensor([[pad] * (longest - len(one)) + one for one in made])
    mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in made])
    torch.manual_seed(0)
    out = model.generate(
        ids, attention_mask=mask, max_new_tokens=24, logits_processor=[processor], **({"do_sample": False} | mode)
    )
    return [text_of(row[longest:], vocabulary) for row in out.tolist()]


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_every_mode(mode: dict[str, Any]) -> None:
    model, tokenizer = ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY)
    processor = cg.ControlProcessor(cg.PackageNames(NAMES), tokenizer, vocabulary=VOCABULARY)
    first = generated(model, tokenizer, VOCABULARY, ["ab", "c", "cabba"], processor, **mode)
    assert set(first) <= set(NAMES)
    # used again, it gives the same
    assert generated(model, tokenizer, VOCABULARY, ["ab", "c", "cabba"], processor, **mode) == first


def test_several_names_between_words() -> None:
    model, tokenizer = ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY)
    spec = cg.PackageNames(NAMES, before="a ", separator=" ")
    result = cg.generate(model, tokenizer, "ab", spec, vocabulary=VOCABULARY, max_new_tokens=60)
    assert set(result.value) <= set(NAMES)


def test_threads_share_a_constraint() -> None:
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("abc"), length)) for length in rng.integers(1, 9, 3000)]
    constraint = cg.PackageNames(names).compile(VOCABULARY)
    known = set(names)
    wrong: list[Any] = []

    def walk(seed: int) -> None:
        own = np.random.default_rng(seed)
        for _ in range(150):
            state, ids = constraint.start, []
            while True:
                bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")
                token = int(own.choice(np.flatnonzero(bits)))
                if token in VOCABULARY.eos:
                    break
                state = constraint.advance(state, token)
                ids.append(token)
            if text_of(ids, VOCABULARY) not in known:
                wrong.append(ids)

    at_once(walk, 6)
    assert wrong == []


@pytest.mark.model
@pytest.mark.parametrize("mode", ["greedy", "sampling", "beams"])
def test_with_a_model_in_half_precision(smollm2: Any, mode: str) -> None:
    rng = np.random.default_rng(0)
    syllables = ["py", "torch", "data", "-", "lab", "x", "num", "flow"]
    names = {"".join(rng.choice(syllables, size)) for size in rng.integers(2, 6, 5000)}
    vocabulary = cg.Vocabulary.from_tokenizer(smollm2.tokenizer)
    processor = cg.ControlProcessor(cg.Choice(sorted(names)), smollm2.tokenizer)
    model = smollm2.model
    kind = model.dtype
    try:
        model.to(torch.bfloat16)
        prompts = ["Install", "The library for arrays is called"]
        found = generated(model, smollm2.tokenizer, vocabulary, prompts, processor, **MODES[mode])
    finally:
        model.to(kind)
    assert set(found) <= names
