"""Masks of programming languages: context-free grammars on a real vocabulary, beside llguidance where it is installed.

    python benchmarks/grammars.py [--quick] [--json] [--tokenizer llama3] [--lexer contextual]

The grammars are in benchmarks/languages (where they come from stands there), with a few programs of each. The tokens of
each program are fed one by one, and the mask and the step are timed at each. *Fresh*: the grammar's text has never been
met, compile included, each step for the first time. *Known*: lexer states and walks of the vocabulary are there, as
after a first request, but what the parser remembers is forgotten before each program. *Warm*: the same program again.
Times are those of one thread, the lesser of wall and process time, as the machine may be shared. llguidance gets the
same text without priorities, which it does not know, and with its limits raised; its first pass over a new matcher is
beside *fresh*, its second one beside *known*.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import statistics
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from rich.console import Console
from rich.table import Table

import ctrlgen as cg
from ctrlgen import models
from ctrlgen.constraint import DEAD

if TYPE_CHECKING:
    from collections.abc import Callable

LANGUAGES = Path(__file__).parent / "languages"
Times = dict[str, list[float]]


def lesser(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call gives, and its time in microseconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, 1e6 * min(time.perf_counter() - wall, time.process_time() - cpu)


class Ours:
    """ctrlgen."""

    def __init__(self, tokenizer: Any, lexer: str) -> None:
        self.vocabulary, self.lexer = cg.Vocabulary.from_tokenizer(tokenizer), lexer

    def compile(self, text: str) -> Any:
        return cg.Grammar(text, lexer=self.lexer).compile(self.vocabulary)

    def run(self, constraint: Any, tokens: list[int], masks: list[float], steps: list[float]) -> None:
        state = constraint.start
        for token in tokens:
            row, took = lesser(lambda: constraint.mask(state))  # noqa: B023
            masks.append(took)
            assert int(row[token >> 5]) >> (token & 31) & 1
            state, took = lesser(lambda: constraint.advance(state, token))  # noqa: B023
            steps.append(took)
            assert state != DEAD
        assert constraint.accepts(state)

    def known(self, constraint: Any) -> Any:
        run = constraint.renewed()
        for array in run.store.arrays:
            array.sum()  # copied just now: as near to the processor as in a constraint that is in use
        return run


class Guidance:
    """llguidance."""

    def __init__(self, tokenizer: Any, lexer: str) -> None:
        import llguidance
        import llguidance.hf
        import llguidance.torch

        self.library, self.tokens = llguidance, llguidance.hf.from_tokenizer(tokenizer)
        self.fill = llguidance.torch.fill_next_token_bitmask
        self.row = llguidance.torch.allocate_token_bitmask(1, self.tokens.vocab_size)
        self.limits = llguidance.LLParserLimits(
            max_items_in_row=2_000_000,
            step_max_items=50_000_000,
            step_lexer_fuel=50_000_000,
            initial_lexer_fuel=50_000_000,
        )

    def compile(self, text: str) -> Any:
        text = re.sub(r"^([A-Za-z_]+)\.[0-9]+( *:)", r"\1\2", text, flags=re.MULTILINE)
        matcher = self.library.LLMatcher(self.tokens, text, log_level=0, limits=self.limits)
        if matcher.is_error():
            raise ValueError(matcher.get_error()[:300])
        return matcher

    def run(self, compiled: Any, tokens: list[int], masks: list[float], steps: list[float]) -> None:
        run = compiled.deep_copy()
        for token in tokens:
            masks.append(lesser(lambda: self.fill(run, self.row, 0))[1])
            ok, took = lesser(lambda: run.consume_token(token))  # noqa: B023
            steps.append(took)
            if not ok:
                raise ValueError(run.get_error()[:300])

    def known(self, compiled: Any) -> Any:
        return compiled


def measure(engine: Any, text: str, programs: list[list[int]]) -> Times:
    """Milliseconds of ``compile``, microseconds of the rest."""
    times: Times = {"compile": [], "fresh": [], "known": [], "warm": [], "advance": []}
    for number, program in enumerate(programs):
        new = f"{text}\n// {engine.__class__.__name__} {number} {time.time_ns()}\n"
        constraint, took = lesser(lambda: engine.compile(new))  # noqa: B023
        times["compile"].append(took / 1000)
        engine.run(constraint, program, times["fresh"], [])
    for program in programs:  # the last one has now met them all
        engine.run(constraint, program, [], [])
    for program in programs:
        run = engine.known(constraint)
        engine.run(run, program, times["known"], times["advance"])
        engine.run(run, program, times["warm"], [])
    return times


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median": round(statistics.median(ordered), 2),
        "mean": round(statistics.fmean(ordered), 2),
        "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
        "n": len(ordered),
    }


def bars_of(figures: dict[str, Any], languages: list[str]) -> dict[str, list[Any]]:
    bars: dict[str, list[Any]] = {}
    for name in languages:
        ours, theirs = figures[f"ctrlgen {name}"], figures.get(f"llguidance {name}")
        bars[f"{name}: compile a fresh grammar, median ms"] = [ours["compile"]["median"], 150.0]
        if theirs:
            limit = 0.6 if name == "calc" else 0.2
            bars[f"{name}: mask mean, known grammar, x llguidance"] = [
                round(ours["known"]["mean"] / theirs["known"]["mean"], 3), limit,
            ]  # fmt: skip
            bars[f"{name}: mask mean, first pass, x llguidance"] = [
                round(ours["fresh"]["mean"] / theirs["fresh"]["mean"], 3), 1.0,
            ]  # fmt: skip
    for bar in bars.values():
        bar.append(bar[0] <= bar[1])
    return bars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two programs of each language")
    parser.add_argument("--json", action="store_true", help="figures and bars as JSON in the last line")
    parser.add_argument("--tokenizer", default="llama3", help="a folder, or a name that ctrlgen knows")
    parser.add_argument("--lexer", default="contextual", choices=["contextual", "basic"])
    parser.add_argument("--languages", default="calc,c,sql,python,go")
    options = parser.parse_args()
    from transformers import AutoTokenizer

    folder = options.tokenizer if Path(options.tokenizer).is_dir() else models.tokenizer(options.tokenizer)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    languages = options.languages.split(",")
    programs = tomllib.loads((LANGUAGES / "programs.toml").read_text())
    figures: dict[str, Any] = {}
    console = Console(stderr=options.json)
    table = Table("engine", "language", "compile ms", "fresh", "known", "p99", "warm", "advance", title="mask, mean µs")
    engines: dict[str, type] = {"ctrlgen": Ours}
    if importlib.util.find_spec("llguidance"):
        engines["llguidance"] = Guidance
    for label, engine_type in engines.items():
        engine = engine_type(tokenizer, options.lexer)
        for name in languages:
            text = (LANGUAGES / f"{name}.lark").read_text()
            tokens = [tokenizer.encode(one, add_special_tokens=False) for one in programs[name]]
            measure(engine, text, tokens[:1])  # numba, Lark's own tables
            found = measure(engine, text, tokens[: 2 if options.quick else None])
            figures[f"{label} {name}"] = numbers = {kind: summary(times) for kind, times in found.items()}
            table.add_row(
                label, name, str(numbers["compile"]["median"]), *(str(numbers[k]["mean"]) for k in ("fresh", "known")),
                str(numbers["known"]["p99"]), *(str(numbers[k]["mean"]) for k in ("warm", "advance")),
            )  # fmt: skip
    console.print(table)
    bars = bars_of(figures, languages)
    for name, bar in bars.items():
        console.print(f"{name}: {bar[0]} (at most {bar[1]}) {'met' if bar[2] else 'NOT MET'}")
    if options.json:
        print(json.dumps({"figures": figures, "bars": bars}))


if __name__ == "__main__":
    main()
