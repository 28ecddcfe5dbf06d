"""Time of masks: warm and cold steps on a real vocabulary, beside the peers that are installed.

    python benchmarks/masks.py [--quick] [--json] [--tokenizer llama3] [--data FILE] [--soak 10000]

For each schema the tokens of a document that satisfies it are fed one by one, and mask + advance are timed at each.
*Cold*: a constraint compiled anew from a schema never met (names and shapes differ), each step for the first time; only
the vocabulary's own tables are warm. *Warm*: the same document once more. A step is *structural* when its state is not
inside a free string. All times are microseconds of one thread, the lesser of wall and process time, since the machine
may be shared. Peers (llguidance, xgrammar) run in the same process on the same schemas and documents when they are
installed; ``make bench`` puts them into an environment of their own and runs this there.

With ``--data`` real schemas and documents are compared with llguidance too (see real_schemas.py), and the memory is
measured that all of them take together; with ``--soak`` the memory after so many different schemas.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import real_schemas
from rich.console import Console
from rich.table import Table

import ctrlgen as cg
from ctrlgen import models
from ctrlgen.warming import run_every_kernel

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = [
    "order",
    "customer",
    "price",
    "street",
    "city",
    "note",
    "label",
    "unit",
    "weight",
    "colour",
    "status",
    "owner",
    "batch",
    "route",
    "ticket",
    "shelf",
]


def make(seed: int) -> tuple[dict[str, Any], Any]:
    """A record schema of everyday keywords and a document that satisfies it, keys in declared order."""
    rng = random.Random(seed)

    def value(depth: int) -> tuple[dict[str, Any], Any]:
        kind = rng.choice(["string", "integer", "number", "boolean", "enum", "array", "object", "limited", "nullable"])
        if depth > 2 and kind in ("array", "object"):
            kind = "string"
        text = " ".join(rng.choices(WORDS, k=rng.randint(1, 5)))
        if kind == "string":
            return {"type": "string"}, text
        if kind == "limited":
            return {"type": "string", "minLength": 1, "maxLength": rng.randint(60, 200)}, text
        if kind == "integer":
            return {"type": "integer"}, rng.randint(0, 10**6)
        if kind == "number":
            return {"type": "number"}, round(rng.uniform(0, 1000), 2)
        if kind == "boolean":
            return {"type": "boolean"}, rng.random() < 0.5
        if kind == "enum":
            options = rng.sample(WORDS, 4)
            return {"enum": options}, rng.choice(options)
        if kind == "nullable":
            return {"anyOf": [{"type": "string"}, {"type": "null"}]}, rng.choice([None, text])
        if kind == "array":
            schema, item = value(depth + 1)
            return {"type": "array", "items": schema}, [item] * rng.randint(0, 3)
        return record(depth + 1)

    def record(depth: int) -> tuple[dict[str, Any], Any]:
        names = [f"{word}{rng.randint(0, 99)}" for word in rng.sample(WORDS, rng.randint(2, 7))]
        parts = {name: value(depth) for name in names}
        required = [name for name in names if rng.random() < 0.7]
        kept = {name: part[1] for name, part in parts.items() if name in required or rng.random() < 0.5}
        schema: dict[str, Any] = {"type": "object", "properties": {n: p[0] for n, p in parts.items()}}
        schema |= {"required": required} | ({"additionalProperties": False} if rng.random() < 0.5 else {})
        return schema, kept

    return record(0)


def clock(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the call gives and its microseconds."""
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    out = call()
    return out, min(time.perf_counter_ns() - wall, time.process_time_ns() - cpu) / 1000


class Ours:
    """ctrlgen behind the interface of the peers: compile, then (mask, advance) at each token."""

    def __init__(self, tokenizer: Any) -> None:
        self.vocabulary = cg.Vocabulary.from_tokenizer(tokenizer)

    def compile(self, schema: dict[str, Any]) -> Any:
        from ctrlgen.engine.machine import compile_network

        spec = cg.JsonSchema(schema)
        return (
            spec.compile(self.vocabulary)
            if not hasattr(spec, "build")
            else compile_network(self.vocabulary, spec.build)
        )

    def start(self, compiled: Any) -> list[Any]:
        return [compiled, compiled.start]

    def mask(self, run: list[Any]) -> Any:
        return run[0].mask(run[1])

    def advance(self, run: list[Any], token: int) -> bool:
        run[1] = run[0].advance(run[1], token)
        return run[1] >= 0

    def structural(self, row: Any) -> bool:
        """Whether the row is not that of the inside of a free string (which allows a quarter of all ids or more)."""
        return int(np.bitwise_count(row).sum()) < self.vocabulary.width // 4


class Guidance:
    """llguidance."""

    def __init__(self, tokenizer: Any) -> None:
        import llguidance
        import llguidance.hf
        import llguidance.torch

        self.library, self.tokens = llguidance, llguidance.hf.from_tokenizer(tokenizer)
        self.fill = llguidance.torch.fill_next_token_bitmask
        self.row = llguidance.torch.allocate_token_bitmask(1, self.tokens.vocab_size)
        self.ends = (self.tokens.eos_token,)

    def compile(self, schema: dict[str, Any]) -> Any:
        grammar = self.library.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = self.library.LLMatcher(self.tokens, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, compiled: Any) -> Any:
        return compiled.deep_copy()

    def mask(self, run: Any) -> Any:
        self.fill(run, self.row, 0)
        return self.row

    def allows(self, row: Any, token: int) -> bool:
        return bool(int(row[0, token >> 5]) >> (token & 31) & 1)

    def advance(self, run: Any, token: int) -> bool:
        return bool(run.consume_token(token))


class XGrammar:
    """xgrammar, undeclared properties allowed as JSON Schema has it."""

    def __init__(self, tokenizer: Any) -> None:
        import xgrammar

        self.library = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(tokenizer)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.row = xgrammar.allocate_token_bitmask(1, info.vocab_size)

    def compile(self, schema: dict[str, Any]) -> Any:
        return self.compiler.compile_json_schema(json.dumps(schema), strict_mode=False)

    def start(self, compiled: Any) -> Any:
        return self.library.GrammarMatcher(compiled)

    def mask(self, run: Any) -> Any:
        run.fill_next_token_bitmask(self.row, 0)
        return self.row

    def advance(self, run: Any, token: int) -> bool:
        return bool(run.accept_token(token))


def walk(engine: Any, compiled: Any, tokens: list[int], times: list[tuple[float, bool]]) -> None:
    """Feed the tokens; append (microseconds of mask + advance, structural) for each."""
    run = engine.start(compiled)
    for token in tokens:
        row, mask_us = clock(lambda: engine.mask(run))
        structural = engine.structural(row) if isinstance(engine, Ours) else False
        fine, advance_us = clock(lambda token=token: engine.advance(run, token))
        if not fine:
            raise SystemExit(f"{type(engine).__name__} refuses a token of a valid document")
        times.append((mask_us + advance_us, structural))


def measure(engine: Any, cases: list[tuple[dict[str, Any], list[int]]]) -> dict[str, list[float]]:
    """Times over all cases: first mask (compile + start + mask), cold and warm steps."""
    cold: list[tuple[float, bool]] = []
    warm: list[tuple[float, bool]] = []
    first = []
    for schema, tokens in cases:
        compiled, compile_us = clock(lambda schema=schema: engine.compile(schema))
        _, mask_us = clock(lambda compiled=compiled: engine.mask(engine.start(compiled)))
        first.append(compile_us + mask_us)
        walk(engine, compiled, tokens, cold)
        walk(engine, compiled, tokens, warm)
    return {
        "cold": [t for t, _ in cold],
        "cold structural": [t for t, structural in cold if structural],
        "warm": [t for t, _ in warm],
        "first mask": first,
    }


def summary(times: list[float]) -> dict[str, float]:
    """Median, mean and 99th percentile."""
    ordered = sorted(times)
    return {
        "median": round(statistics.median(ordered), 2),
        "mean": round(statistics.fmean(ordered), 2),
        "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 2),
        "n": len(ordered),
    }


def apply_cost(width: int) -> float:
    """Microseconds a row to mask fp32 logits on the CPU, the copy included; the least of several runs."""
    import torch

    from ctrlgen.engine.masks import apply_masks

    torch.set_num_threads(1)
    scores = torch.randn(8, width)
    rows = list(np.random.default_rng(0).integers(0, 2**32, (8, (width + 31) // 32), dtype=np.uint32))
    apply_masks(scores, rows)
    return round(min(clock(lambda: apply_masks(scores, rows))[1] for _ in range(30)) / 8, 1)


def import_seconds() -> float:
    """Seconds that ``import ctrlgen`` adds to a fresh interpreter; the least of five."""
    code = "import time; t = time.perf_counter(); import ctrlgen; print(time.perf_counter() - t)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(5)]
    return round(min(float(run.stdout) for run in runs), 3)


def real(path: str, tokenizer: Any, most: int | None) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Figures and bars on real schemas beside llguidance."""
    engines = {
        "ctrlgen": real_schemas.Declared(tokenizer),
        "ctrlgen any order": real_schemas.AnyOrder(tokenizer),
        "llguidance": Guidance(tokenizer),
    }
    run_every_kernel()  # a process that serves has done so
    for engine in engines.values():
        real_schemas.watch(engine, {"schema": {"type": "string"}}, [(tokenizer.encode('"up"'), True)], clock)
    seen = real_schemas.compare(path, tokenizer, engines, clock, most)
    declared = real_schemas.shares(seen, "ctrlgen", "llguidance")
    free = real_schemas.shares(seen, "ctrlgen any order", "llguidance")
    judged = {
        name: {"right": sum(s.right for s in each), "invalid accepted": sum(s.accepted for s in each)}
        for name, each in seen.items()
    }
    count = len(seen["ctrlgen"])
    bars: dict[str, list[Any]] = {
        "any order: share of schemas right, at least": [judged["ctrlgen any order"]["right"] / count, 0.99],
        "any order: invalid documents accepted": [judged["ctrlgen any order"]["invalid accepted"], 0],
        "mean / llguidance": [declared["ctrlgen mean"] / declared["llguidance mean"], 0.3],
        "p99 / llguidance": [declared["ctrlgen p99"] / declared["llguidance p99"], 0.6],
        "p99.9, us": [declared["ctrlgen p99.9"], 1000],
        "any order: mean / llguidance": [free["ctrlgen any order mean"] / free["llguidance mean"], 0.4],
        "first mask, median / llguidance": [
            declared["ctrlgen first mask median"] / declared["llguidance first mask median"],
            0.5,
        ],
        "first mask, p99, us": [declared["ctrlgen first mask p99"], 10_000],
    }
    return {"declared": declared, "any order": free, "judged": judged, "schemas": count}, bars


def apart(*arguments: str) -> dict[str, float]:
    """Figures of a process of its own, for memory."""
    run = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer schemas: under a minute")
    parser.add_argument("--json", action="store_true", help="print figures and bars as JSON in the last line")
    parser.add_argument("--tokenizer", default="llama3", help="one of ctrlgen.models' tokenizers, or a folder")
    parser.add_argument("--schemas", type=int, help="number of schemas (300, quick: 60)")
    parser.add_argument("--data", help="JSON lines of real schemas with their documents; needs llguidance")
    parser.add_argument("--soak", type=int, help="measure the memory after so many different schemas")
    parser.add_argument("--memory", choices=["held", "soak"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    from transformers import AutoTokenizer

    folder = options.tokenizer if os.path.isdir(options.tokenizer) else models.tokenizer(options.tokenizer)  # noqa: PTH112
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if options.memory:
        held = options.memory == "held"
        print(
            json.dumps(
                real_schemas.held(options.data, tokenizer) if held else real_schemas.soak(options.soak, tokenizer, make)
            )
        )
        return
    cases = []
    for seed in range(options.schemas or (60 if options.quick else 300)):
        schema, document = make(seed)
        cases.append((schema, tokenizer.encode(json.dumps(document), add_special_tokens=False)))
    figures: dict[str, Any] = {}
    console = Console(stderr=options.json)
    table = Table("engine", "steps", "median", "mean", "p99", "n", title=f"µs a step, {options.tokenizer}")
    engines: dict[str, type] = {"ctrlgen": Ours}
    engines |= {n: e for n, e in (("llguidance", Guidance), ("xgrammar", XGrammar)) if importlib.util.find_spec(n)}
    for name, engine_type in engines.items():
        engine = engine_type(tokenizer)
        measure(engine, [(make(-1)[0], tokenizer.encode(json.dumps(make(-1)[1]), add_special_tokens=False))])
        for kind, times in measure(engine, cases).items():
            if not times or (kind == "cold structural" and name != "ctrlgen"):
                continue
            figures[f"{name} {kind}"] = numbers = summary(times)
            table.add_row(name, kind, *(str(numbers[k]) for k in ("median", "mean", "p99", "n")))
    figures["apply to fp32 logits, us a row"] = apply_cost(len(tokenizer))
    figures["import seconds"] = import_seconds()
    console.print(table)
    ours = Ours(tokenizer)
    warm = real_schemas.batch_cost(
        [ours.compile(schema) for schema, _ in cases[:32]], [tokens for _, tokens in cases[:32]], ours.vocabulary
    )
    figures["warm batch of 256, us a request and step"] = warm
    bars: dict[str, list[Any]] = {
        "warm mask + advance, median us": [figures["ctrlgen warm"]["median"], 5.0],
        "cold structural state, median us": [figures["ctrlgen cold structural"]["median"], 60.0],
        "import ctrlgen, seconds": [figures["import seconds"], 0.3],
        "warm batch of 256, us a request and step": [warm, 5.0],
        "applied to fp32 logits, us a row": [figures["apply to fp32 logits, us a row"], 80.0],
    }
    if options.data:
        figures["real schemas"], more = real(options.data, tokenizer, 60 if options.quick else None)
        bars |= more
        figures["memory"] = apart("--memory", "held", "--data", options.data, "--tokenizer", options.tokenizer)
        bars["memory with all real schemas held, MB"] = [figures["memory"]["MB"], 300]
    if options.soak:
        figures["soak"] = apart("--memory", "soak", "--soak", str(options.soak), "--tokenizer", options.tokenizer)
    for name, bar in bars.items():
        bar[0] = round(bar[0], 4)
        bar.append(bar[0] >= bar[1] if name.endswith("at least") else bar[0] <= bar[1])
        console.print(f"{name}: {bar[0]} (at most {bar[1]}) {'met' if bar[2] else 'NOT MET'}")
    console.print(f"mask applied to fp32 logits: {figures['apply to fp32 logits, us a row']} µs a row, copy included")
    if options.json:
        print(json.dumps({"figures": figures, "bars": bars}))


if __name__ == "__main__":
    main()
