"""Verbatim copies of a long text: how long the automaton takes to build, and a mask and a step.

The text is 128,000 characters of this repository's documentation and code; for copies of tokens its tokens, over and
over, until they are 128,000. Spans are drawn at random from the allowed tokens, the end token as likely as any other;
each step is counted that was not met before (cold). What is emitted is
looked for in the text with ``in``. The tokenizer is the one of --tokenizer (llama3's for the bars), without a model.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import ctrlgen as cg

CHARACTERS = 128_000
ROOT = Path(__file__).resolve().parent.parent


def text_of(characters):
    files = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "ctrlgen").rglob("*.py"))]
    return "".join(file.read_text() for file in files)[:characters]


def bits_of(row):
    return np.unpackbits(row.view(np.uint8), bitorder="little")


def stands_in(ids, text):
    """Whether ids stand in others one after the other; numpy's windows, no automaton."""
    return not ids or bool((np.lib.stride_tricks.sliding_window_view(text, len(ids)) == ids).all(1).any())


def copied(vocabulary, text, runs, seed=0, **units):
    """Seconds to build, microseconds of cold steps, and how many spans are none."""
    rng, known, times, wrong, tokens = np.random.default_rng(seed), set(), [], 0, 0
    begun = time.perf_counter()
    spec = cg.Copy(text, **units) if isinstance(text, str) else cg.CopyTokens(text, **units)
    machine = spec.compile(vocabulary)
    built = time.perf_counter() - begun
    begun = time.perf_counter()
    machine.mask(machine.start)
    first = time.perf_counter() - begun
    for _ in range(runs):
        state, out, ids = machine.start, b"", []
        while True:
            cold = state not in known
            known.add(state)
            begun = time.perf_counter()
            row = machine.mask(state)
            spent = time.perf_counter() - begun
            token = int(rng.choice(np.flatnonzero(bits_of(row))))
            begun = time.perf_counter()
            state = machine.advance(state, token)
            spent += time.perf_counter() - begun
            if cold:
                times.append(spent)
            if token in vocabulary.eos:
                break
            out += vocabulary.tokens[token]
            ids.append(token)
            tokens += 1
        wrong += out.decode(errors="replace") not in text if isinstance(text, str) else not stands_in(ids, text)
    p50, p99 = np.percentile(times[1:], [50, 99]) * 1e6
    return {
        "build_s": round(built, 3),
        "first_mask_ms": round(first * 1e3, 2),
        "step_us": round(float(p50), 1),
        "step_mean_us": round(float(np.mean(times[1:])) * 1e6, 1),
        "step_p99_us": round(float(p99), 1),
        "cold_steps": len(times) - 1,
        "spans": runs,
        "tokens": tokens,
        "not_in_text": wrong,
    }


def copy_part(model, tokenizer, options):
    if options.tokenizer:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    vocabulary, text = cg.Vocabulary.from_tokenizer(tokenizer), text_of(CHARACTERS)
    warm = cg.Copy("first, the kernels are compiled: é", unit="word").compile(vocabulary)
    warm.advance(warm.start, int(np.flatnonzero(bits_of(warm.mask(warm.start)))[0]))
    runs = 50 if options.quick else 1000
    ways = {
        "characters": {"most": 200},
        "words": {"unit": "word", "most": 40},
        "lines": {"unit": "line", "most": 3},
    }
    found = {name: copied(vocabulary, text, runs, **units) for name, units in ways.items()}
    ids = np.array(tokenizer(text, add_special_tokens=False)["input_ids"])
    cg.CopyTokens(ids[:9]).compile(vocabulary)
    found["tokens"] = copied(vocabulary, np.resize(ids, CHARACTERS), runs, most=60)
    print(f"\nCopies of {len(text)} characters, {len(vocabulary.tokens)} ids, {runs} spans each")
    for name, one in found.items():
        print(f"  {name:11} " + ", ".join(f"{key} {value}" for key, value in one.items()))
    build = max(one["build_s"] for one in found.values())
    step = max(one["step_us"] for one in found.values())
    wrong = sum(one["not_in_text"] for one in found.values())
    return found, {
        "copy: build, seconds": [build, 1, build <= 1],
        "copy: cold mask + advance, median us": [step, 50, step <= 50],
        "copy: spans that are not in the text": [wrong, 0, wrong == 0],
    }
