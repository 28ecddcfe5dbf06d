"""Real schemas and documents through ctrlgen and llguidance, schema after schema: the strictly cold case.

Called by masks.py with ``--data FILE``: JSON lines (or gzip), each {"schema": ..., "tests": [{"text", "valid"}, ...]}.
Each engine in turn sees each schema anew; what it may keep is what any process keeps, tables of its vocabulary. Times
are compared on schemas whose first valid document both engines take, over the steps of that document.
"""

from __future__ import annotations

import gc
import gzip
import json
import random
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import ctrlgen as cg
from ctrlgen.constraints.schema.compiling import language
from ctrlgen.warming import run_every_kernel

if TYPE_CHECKING:
    from collections.abc import Callable


class Seen(NamedTuple):
    """What an engine made of one schema."""

    first: float
    """Microseconds to the first mask, compilation included."""
    steps: list[float]
    """Microseconds of mask and advance at each token of the first valid document."""
    right: bool
    """Whether it compiled and judged every document rightly."""
    accepted: int
    """Number of invalid documents it took."""
    took: bool
    """Whether it took the first valid document."""


def records(path: str) -> list[dict[str, Any]]:
    """The lines of a file."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Declared:
    """ctrlgen, members in declared order."""

    order = "declared"

    def __init__(self, tokenizer: Any) -> None:
        self.vocabulary = cg.Vocabulary.from_tokenizer(tokenizer)
        self.ends = self.vocabulary.eos

    def compile(self, schema: Any) -> Any:
        return cg.JsonSchema(schema, key_order=self.order).compile(self.vocabulary)

    def start(self, compiled: Any) -> list[Any]:
        return [compiled, compiled.start]

    def mask(self, run: list[Any]) -> Any:
        return run[0].mask(run[1])

    def allows(self, row: Any, token: int) -> bool:
        return bool(row[token >> 5] >> (token & 31) & 1)

    def advance(self, run: list[Any], token: int) -> bool:
        run[1] = run[0].advance(run[1], token)
        return bool(run[1] >= 0)


class AnyOrder(Declared):
    """ctrlgen, members in any order: JSON's own meaning."""

    order = "any"


def watch(
    engine: Any, record: dict[str, Any], documents: list[tuple[list[int], bool]], clock: Callable[..., Any]
) -> Seen:
    """Compile a schema and feed all its documents."""
    try:
        compiled, compile_us = clock(lambda: engine.compile(record["schema"]))
        _, mask_us = clock(lambda: engine.mask(engine.start(compiled)))
    except Exception:  # whatever an engine raises, it does not handle the schema
        return Seen(0.0, [], False, 0, False)
    steps: list[float] = []
    right, accepted, took, timed = True, 0, False, False
    for tokens, valid in documents:
        times: list[float] = []
        verdict = feed(engine, compiled, tokens, times, clock)
        if valid and not timed:
            timed, took, steps = True, verdict, times
        right &= verdict == valid
        accepted += verdict and not valid
    return Seen(compile_us + mask_us, steps, right, accepted, took)


def feed(engine: Any, compiled: Any, tokens: list[int], times: list[float], clock: Callable[..., Any]) -> bool:
    """Whether all tokens and then an end are allowed."""
    run = engine.start(compiled)
    for token in tokens:
        row, mask_us = clock(lambda: engine.mask(run))
        if not engine.allows(row, token):
            return False
        fine, advance_us = clock(lambda token=token: engine.advance(run, token))
        if not fine:
            return False
        times.append(mask_us + advance_us)
    row = engine.mask(run)
    return any(engine.allows(row, end) for end in engine.ends)


def compare(
    path: str, tokenizer: Any, engines: dict[str, Any], clock: Callable[..., Any], most: int | None
) -> dict[str, Any]:
    """{engine: [Seen of each schema]}, the engines taking turns."""
    seen: dict[str, Any] = {name: [] for name in engines}
    gc.collect()
    gc.freeze()
    gc.disable()
    for number, record in enumerate(records(path)[:most]):
        documents = [
            (tokenizer.encode(test["text"], add_special_tokens=False), bool(test["valid"])) for test in record["tests"]
        ]
        names = list(engines)
        random.Random(number).shuffle(names)
        for name in names:
            language.cache_clear()  # what one order has read of a schema must not help the other
            seen[name].append(watch(engines[name], record, documents, clock))
        gc.collect()
    gc.enable()
    return seen


def shares(seen: dict[str, list[Seen]], ours: str, theirs: str) -> dict[str, float]:
    """Figures on schemas whose first valid document both take."""
    pairs = [(a, b) for a, b in zip(seen[ours], seen[theirs], strict=True) if a.took and b.took]
    mine, other = (np.array([t for pair in pairs for t in pair[i].steps]) for i in (0, 1))
    first, first_other = (np.array([pair[i].first for pair in pairs]) for i in (0, 1))
    figures: dict[str, float] = {"schemas both take": len(pairs)}
    for name, times in ((ours, mine), (theirs, other)):
        figures[f"{name} median"] = float(np.median(times))
        figures[f"{name} mean"] = float(times.mean())
        figures[f"{name} p99"] = float(np.quantile(times, 0.99))
        figures[f"{name} p99.9"] = float(np.quantile(times, 0.999))
    for name, times in ((ours, first), (theirs, first_other)):
        figures[f"{name} first mask median"] = float(np.median(times))
        figures[f"{name} first mask p99"] = float(np.quantile(times, 0.99))
    return {name: round(value, 2) for name, value in figures.items()}


def batch_cost(compiled: list[Any], documents: list[list[int]], vocabulary: Any, size: int = 256) -> float:
    """Microseconds a request and step of a warm batch: advance and row of ``size`` requests; least of 20 steps."""
    engine = cg.MaskEngine(vocabulary)
    constraints = [compiled[i % len(compiled)] for i in range(size)]
    paths = []
    for i, constraint in enumerate(constraints):
        states = [constraint.start]
        for token in documents[i % len(documents)]:
            states.append(constraint.advance(states[-1], token))
            constraint.mask(states[-1])
        paths.append(states)
    out, best = np.empty((size, vocabulary.words), np.uint32), float("inf")
    for step in range(20):
        states = [path[step % (len(path) - 1)] for path in paths]
        tokens = [documents[i % len(documents)][step % (len(path) - 1)] for i, path in enumerate(paths)]
        begun = time.perf_counter()
        engine.rows(constraints, engine.advance(constraints, states, tokens), out)
        best = min(best, time.perf_counter() - begun)
    return round(1e6 * best / size, 2)


def memory_mb() -> float:
    """Resident memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else None
    if pages is None:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 1e6


def held(path: str, tokenizer: Any) -> dict[str, float]:
    """Memory that the vocabulary and all schemas of a file take, each compiled, held and fed its first document."""
    run_every_kernel()  # their code, about 125 MB, is no memory of schemas
    before = memory_mb()
    engine = Declared(tokenizer)
    kept = []
    for record in records(path):
        try:
            compiled = engine.compile(record["schema"])
        except cg.CtrlgenError:
            continue
        feed(engine, compiled, tokenizer.encode(record["tests"][0]["text"], add_special_tokens=False), [], untimed)
        kept.append(compiled)
    gc.collect()
    return {"schemas held": len(kept), "MB": round(memory_mb() - before, 1)}


def soak(count: int, tokenizer: Any, make: Callable[[int], tuple[Any, Any]]) -> dict[str, float]:
    """Memory after each fifth of ``count`` different schemas, none of them held by who asked for it."""
    run_every_kernel()
    engine, figures = Declared(tokenizer), {}
    before = memory_mb()
    for number in range(count):
        schema, document = make(1_000_000 + number)
        compiled = engine.compile(schema)
        feed(engine, compiled, tokenizer.encode(json.dumps(document), add_special_tokens=False), [], untimed)
        if (number + 1) % max(count // 5, 1) == 0:
            gc.collect()
            figures[f"MB after {number + 1}"] = round(memory_mb() - before, 1)
    return figures


def untimed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What the call gives, and no time."""
    return call(), 0.0
