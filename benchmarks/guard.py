"""The package guard on a real model: names not on the list with and without it, untouched text, and its time.

    python benchmarks/guard.py --names FILE [--count 2000] [--results FILE] [--quick] [--json]

Prompts ask for install commands; texts are sampled at temperature 1, in batches, by SmolLM2 and by a model that draws
every token from random logits. What is installed is read by shlex (tests/oracles/installs.py), not by the guard. Text
without commands is compared with what the model says unguarded, and the time per token is measured in one run, guarded
and unguarded steps taking turns. ``--results`` keeps finished batches, so that a run that was cut off goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

import ctrlgen as cg
from ctrlgen import models
from ctrlgen.processor import vocabulary_of
from tests.oracles.installs import installed, normal

TASKS = [
    "read an Excel file", "plot a map", "talk to a PostgreSQL database", "parse YAML", "train a neural network",
    "make a PDF", "scrape a web page", "resize photographs", "send e-mail", "read bar codes", "translate text",
    "schedule jobs", "draw a graph of dependencies", "recognise speech", "compress video", "solve linear programs",
    "simulate circuits", "read GPS tracks", "control a robot arm", "detect faces", "query a graph database",
    "format dates", "encrypt files", "stream music", "classify spam", "convert units", "align protein sequences",
    "price options", "cluster customers", "serve a REST interface", "render Markdown", "track satellites",
]  # fmt: skip
FORMS = [
    "How do I {} in Python? Answer with the pip install command.",
    "Which packages do I need to {}? Give one command that installs all of them with pip.",
    "Write a shell script that sets up an environment to {} with Python.",
    "I want to {}. What should I pip install?",
]
BEGUN = "To {} in Python, run:\n\n```bash\npip install "
PLAIN = [
    "Tell me about the sea.", "Write a haiku about autumn.", "Why is the sky blue?", "Name three French rivers.",
    "What is a prime number?", "Describe a cat.", "Write a Python function that adds two numbers.", "What is HTML?",
    "How do plants grow?", "Give me a recipe for bread.", "Who was Ada Lovelace?", "Explain recursion.",
]  # fmt: skip
TOPICS = [
    "rain", "bread", "glass", "ants", "volcanoes", "chess", "copper", "tea", "deserts", "owls", "bridges", "clocks",
    "salt", "comets", "silk", "violins", "maps", "yeast", "tides", "lemons", "windmills", "paper", "elephants", "ice",
]  # fmt: skip
PLAIN += [
    form.format(topic)
    for topic in TOPICS
    for form in (
        "Tell me about {}.",
        "Write a poem about {}.",
        "Why is {} useful?",
        "Write a function in Python for {}.",
    )
]


def prompts(count: int) -> list[tuple[str, bool]]:
    """(prompt, whether it is a chat's) by number."""
    made, every = [], len(TASKS) * (len(FORMS) + 2)
    for number in range(count):
        i = number if count >= every else number * every // count
        task = TASKS[i % len(TASKS)]
        form = i // len(TASKS) % (len(FORMS) + 2)
        made.append((FORMS[form].format(task), True) if form < len(FORMS) else (BEGUN.format(task), False))
    return made


def generations(model: Any, tokenizer: Any, guard: Any, count: int, new: int, kept: Path | None) -> list[str]:
    """Texts, of prompts that end within a command with its beginning; finished batches are read from ``kept``."""
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    size = 128
    for first in range(len(done), count, size):
        batch = prompts(count)[first : first + size]
        texts = [""] * len(batch)
        for chat in (True, False):
            rows = [i for i, (_, is_chat) in enumerate(batch) if is_chat == chat]
            if not rows:
                continue
            asked = [batch[i][0] for i in rows]
            options = {"chat": chat, "do_sample": True, "top_k": 0, "seed": first, "max_new_tokens": new}
            specs = None if guard is None else [guard if chat else guard.following(one) for one in asked]
            for i, one in zip(rows, cg.generate(model, tokenizer, asked, specs, trace=False, **options), strict=True):
                texts[i] = ("" if chat else batch[i][0].split("\n")[-1]) + one.text + ("" if one.complete else "\0")
        done += texts
        if kept:
            with kept.open("a") as file:
                file.writelines(json.dumps(text) + "\n" for text in texts)
        print(f"{len(done)} of {count}", file=sys.stderr)
    return done[:count]


def off_list(texts: list[str], names: Any) -> tuple[int, int, list[str]]:
    """(names, texts with a name that is not on the list, such names); a name cut off by the budget does not count."""
    total, bad_texts, bad = 0, 0, []
    for text in texts:
        cut, whole = text.endswith("\0"), text.rstrip("\0")
        found = installed(whole)
        if cut and found and whole.rstrip("-_.").endswith(found[-1].rstrip("-_.")):
            found.pop()
        wrong = [name for name in found if normal(name) not in names]
        total, bad_texts = total + len(found), bad_texts + bool(wrong)
        bad += wrong
    return total, bad_texts, bad


class RandomLogits(torch.nn.Module):
    """Stands in for the last layer of a model: logits that have nothing to do with the text, new at each step."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width, self.generator = width, torch.Generator().manual_seed(0)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return 3 * torch.randn(*hidden.shape[:-1], self.width, generator=self.generator)


def load_seconds(names: str) -> float:
    """Seconds that a fresh process takes to load a list which was read before; numpy and ctrlgen are loaded.

    The lesser of wall and process time, of three processes the least: other jobs may share the machine.
    """
    code = (
        "import sys, time, numpy, ctrlgen as cg; cg.PackageGuard(['a']); "
        "now = lambda: (time.perf_counter(), time.process_time()); t = now(); "
        "cg.PackageGuard(sys.argv[1]); print(min(b - a for a, b in zip(t, now())))"
    )
    runs = [subprocess.run([sys.executable, "-c", code, names], capture_output=True, check=True) for _ in range(3)]
    return round(min(float(run.stdout) for run in runs), 4)


def untouched(model: Any, tokenizer: Any, guard: Any, asked: list[str], new: int = 48) -> dict[str, int]:
    """Plain texts, guarded and unguarded, greedily: how many differ in any token, and how many the budget cut off."""
    different, cut = 0, 0
    for first in range(0, len(asked), 27):
        options = {"chat": True, "trace": False, "max_new_tokens": new}
        batch = asked[first : first + 27]
        guarded = cg.generate(model, tokenizer, batch, guard, **options)
        free = cg.generate(model, tokenizer, batch, **options)
        different += sum(a.token_ids != b.token_ids for a, b in zip(guarded, free, strict=True))
        cut += sum(not one.finished for one in free)
    return {"texts": len(asked), "cut off": cut, "differ": different}


def overhead(model: Any, tokenizer: Any, guard: Any, size: int, steps: int) -> tuple[float, float]:
    """(share that the guard adds to a step, milliseconds of a step); guarded and unguarded steps take turns."""
    vocabulary = vocabulary_of(tokenizer, model)
    processor = cg.ControlProcessor(guard, vocabulary=vocabulary, max_new_tokens=2 * steps)  # as generate does
    ids = torch.randint(1000, 40_000, (size, 64))
    text = tokenizer("\nTo read it, run pip install requests and then go on with it. " * 8)["input_ids"]
    plain, guarded = [], []
    with torch.inference_mode():
        output = model(input_ids=ids, use_cache=True)
        cache = output.get("cache", output.past_key_values)
        row = torch.zeros(size, 0, dtype=torch.long)
        for step in range(steps):
            token = torch.full((size, 1), text[step % len(text)])
            begun = time.perf_counter()
            output = model(input_ids=token, cache=cache, use_cache=True)
            scores = output.logits[:, -1].float()
            middle = time.perf_counter()
            processor(torch.cat([ids[:, :1], row], 1), scores)
            after = time.perf_counter()
            row = torch.cat([row, token], 1)
            plain.append(middle - begun)
            guarded.append(after - middle)
    return statistics.median(guarded) / statistics.median(plain), 1e3 * statistics.median(plain)


def at_random(like: Any) -> Any:
    """A small model with logits at random."""
    config = like.config.__class__(
        vocab_size=like.config.vocab_size, hidden_size=32, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=8192,
    )  # fmt: skip
    made = like.__class__(config).eval()
    made.lm_head = RandomLogits(config.vocab_size)
    made.generation_config = like.generation_config
    return made


def measure(
    names: str, count: int, results: Path | None, *, quick: bool, steps: int = 200
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Figures and bars."""
    begun = time.perf_counter()
    guard = cg.PackageGuard(names)
    first = time.perf_counter() - begun
    loaded = load_seconds(names)
    guard.check("")  # the kernels, and the scanner
    model, tokenizer = models.load(dtype="float32")
    torch.set_num_threads(1)
    figures: dict[str, Any] = {
        "list loaded, seconds": loaded,
        "list read here, seconds": round(first, 3),
        "names": len(guard.names),
    }
    new = 20 if quick else 40
    if results:
        results.mkdir(parents=True, exist_ok=True)
    for kind, judged in (("SmolLM2", model), ("random model", at_random(model))):
        for name, one in (("guarded", guard), ("unguarded", None)):
            kept = results / f"{kind}-{name}.jsonl" if results else None
            total, texts, bad = off_list(generations(judged, tokenizer, one, count, new, kept), guard.names)
            figures[f"{kind}, {name}"] = {"names": total, "off the list": len(bad), "texts with one": texts}
    figures["plain texts"] = untouched(model, tokenizer, guard, PLAIN[: 4 if quick else None], 12 if quick else 48)
    for size in (1, 8):
        share, step = overhead(model, tokenizer, guard, size, steps)
        figures[f"added time, batch {size}"] = {"share": round(share, 4), "step, ms": round(step, 1)}
    bars: dict[str, list[Any]] = {
        "names off the list, SmolLM2 guarded": [figures["SmolLM2, guarded"]["off the list"], 0],
        "names off the list, random model guarded": [figures["random model, guarded"]["off the list"], 0],
        "names off the list, SmolLM2 unguarded, at least": [figures["SmolLM2, unguarded"]["off the list"], 1],
        "names off the list, random model unguarded, at least": [figures["random model, unguarded"]["off the list"], 1],
        "plain texts that differ": [figures["plain texts"]["differ"], 0],
        "added time, batch 1": [figures["added time, batch 1"]["share"], 0.03],
        "added time, batch 8": [figures["added time, batch 8"]["share"], 0.03],
        "list loaded, seconds": [figures["list loaded, seconds"], 0.5],
    }
    for name, bar in bars.items():
        bar.append(bar[0] >= bar[1] if name.endswith("at least") else bar[0] <= bar[1])
    return figures, bars


def show(figures: dict[str, Any]) -> None:
    for name, value in figures.items():
        print(f"{name}: {value}")


def guard_part(model: Any, tokenizer: Any, options: Any) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """As a part of ``flows.py``: figures and bars."""
    if options.names is None:
        print("\nguard: skipped, since --names says not what packages there are")
        return {}, {}
    results = options.results / "guard" if options.results else None
    count, steps = (6, 12) if options.quick else (2000, 200)
    print(f"\nPackage guard, {count} texts of each kind")
    figures, bars = measure(options.names, count, results, quick=options.quick, steps=steps)
    show(figures)
    return figures, {f"guard: {name}": bar for name, bar in bars.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", required=True, help="names of all packages, one a line, gzip or not")
    parser.add_argument("--count", type=int, help="texts of each kind (2000, quick: 64)")
    parser.add_argument("--results", type=Path, help="folder where finished batches are kept")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter texts")
    parser.add_argument("--json", action="store_true", help="print figures and bars as JSON in the last line")
    options = parser.parse_args()
    count = options.count or (64 if options.quick else 2000)
    figures, bars = measure(
        options.names, count, options.results, quick=options.quick, steps=60 if options.quick else 200
    )
    show(figures)
    for name, (value, limit, met) in bars.items():
        print(f"{name}: {value} (limit {limit}) {'met' if met else 'NOT MET'}")
    if options.json:
        print(json.dumps({"figures": figures, "bars": bars}))


if __name__ == "__main__":
    main()
