"""Steps over a catalogue on a CUDA device: checked against the host, then timed, by Triton and by torch.

    python benchmarks/gpu.py [--items 20000000] [--json] [--device cuda]

140 rows in two groups of 70 beams, 2048 tokens, items of 8. All methods must give the same scores, tokens and states
as the host; then each is timed as it is called and in a CUDA graph, where the host plays no part. STATIC's step, of
our own writing, is timed in a graph beside them. Figures are microseconds a step, median (minimum), the mean over
depths 2 to 7. The last line with --json holds them, and each bar as [value, limit, met]. With --device cpu it checks
itself, Triton too where TRITON_INTERPRET=1 (take --small 2000 --items 2000): nothing that it times then means anything.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]

from baselines.static_trie import StaticTrie  # noqa: E402
from catalogue import BEAMS, DEPTHS, GROUPS, LENGTH, ROWS, WIDTH, clustered, uniform  # noqa: E402

from ctrlgen.index import triton_step  # noqa: E402
from ctrlgen.index.token_index import TokenIndex  # noqa: E402

ROUNDS, REPLAYS = 30, 50


def states_at(index, items, depth, rng):
    """int64[ROWS, 4], behind prefixes of random items."""
    prefixes = items[rng.integers(0, len(items), ROWS), :depth]
    states = index.start_states(ROWS)
    for column in range(depth):
        states = index.advance_states(states, prefixes[:, column])
    return states


def equal(got, expected, what):
    """Raise unless two results are the same: scores everywhere, the rest wherever they are not equal."""
    scores = expected.scores
    np.testing.assert_array_equal(got.scores.cpu().numpy(), scores, err_msg=what)
    # of equal scores torch may choose another
    single = np.ones(scores.shape, bool)
    single[:, 1:] &= scores[:, 1:] != scores[:, :-1]
    single[:, :-1] &= scores[:, :-1] != scores[:, 1:]
    single[:, -1] = False
    for name in ("parents", "tokens", "states"):
        mine, theirs = getattr(got, name).cpu().numpy(), getattr(expected, name)
        np.testing.assert_array_equal(mine[single], theirs[single], err_msg=f"{what}: {name}")
    assert not bool(got.overflow), what


def called(step, wait):
    """Microseconds of calls that are waited for, one by one."""
    taken = []
    for _ in range(ROUNDS):
        wait()
        start = time.perf_counter()
        step()
        wait()
        taken.append(1e6 * (time.perf_counter() - start))
    return statistics.median(taken), min(taken)


def in_a_graph(step, check):
    """Microseconds of a step in a graph, by events around many replays; ``check`` sees what a replay wrote."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = step()
    graph.replay()
    torch.cuda.synchronize()
    check(out)
    taken = []
    for _ in range(ROUNDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(REPLAYS):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        taken.append(1e3 * start.elapsed_time(end) / REPLAYS)
    return statistics.median(taken), min(taken)


def measure(items, rng, device):
    """{method: (median, minimum)} and whether all results were those of the host."""
    index = TokenIndex.from_items(items, width=WIDTH)
    kept = index.where(rng.random(len(items)) < 0.05)
    plain = replace(index.on(device), fused=False)
    methods = {"torch": plain}
    if triton_step.installed() and (torch.device(device).type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"):
        methods["triton"] = replace(plain, fused=True)
    filters = plain.filters(index.row_filters([kept.passing] * GROUPS, beams=BEAMS))
    static = StaticTrie(items, WIDTH) if len(items) <= 1_000_000 else None
    cuda = torch.device(device).type == "cuda"
    wait = torch.cuda.synchronize if cuda else lambda: None
    found = {}
    for depth in DEPTHS:
        states = states_at(index, items, depth, rng)
        logs = torch.log_softmax(torch.from_numpy(rng.standard_normal((ROWS, WIDTH), np.float32)), 1)
        scores = torch.from_numpy(-np.sort(rng.random(ROWS, np.float32)))
        there = [part.to(device) for part in (torch.from_numpy(states), scores, logs)]
        width = plain.width_of(there[0])
        host = index.beam_step(states, scores.numpy(), logs.numpy(), beams=BEAMS)
        filtered = kept.beam_step(states, scores.numpy(), logs.numpy(), beams=BEAMS)
        for name, on in methods.items():
            for passing, expected, how in ((None, host, name), (filters, filtered, f"{name}, filtered")):

                def step(on=on, there=there, width=width, passing=passing):
                    return on.beam_step(*there, beams=BEAMS, width=width, filters=passing)

                def check(out, expected=expected, how=how, depth=depth):
                    equal(out, expected, f"{how} at depth {depth}")

                check(step())
                found.setdefault(f"{how}, called", []).append(called(step, wait))
                if cuda:
                    found.setdefault(f"{how}, in a graph", []).append(in_a_graph(step, check))
        if static is not None and cuda:
            found.setdefault("STATIC, in a graph", []).append(static_time(static, items, depth, there, rng))
    return {name: tuple(np.mean(times, 0).round(1).tolist()) for name, times in found.items()}


def static_time(static, items, depth, there, rng):
    """STATIC's step on the device, from random states of its own."""
    on = StaticTrie.__new__(StaticTrie)
    on.__dict__.update(static.__dict__)
    device = there[2].device
    on.tokens, on.begin, on.columns = (
        [part.to(device) for part in parts] for parts in (static.tokens, static.begin, static.columns)
    )
    states = torch.from_numpy(rng.integers(0, len(on.begin[depth]) - 1, ROWS)).to(device)
    return in_a_graph(lambda: on.step(depth, states, there[1], there[2], BEAMS), lambda out: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=20_000_000, help="of the large catalogue")
    parser.add_argument("--small", type=int, default=1_000_000, help="of those compared with STATIC")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", action="store_true", help="figures and bars as the last line")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        sys.exit("there is no CUDA device; --device cpu checks the script itself")
    rng = np.random.default_rng(0)
    name = torch.cuda.get_device_name() if options.device != "cpu" else "cpu"
    figures = {"device": name, "triton": triton_step.installed(), "rows": ROWS, "width": WIDTH, "length": LENGTH}
    for kind, make, count in (
        ("uniform", uniform, options.small),
        ("clustered", clustered, options.small),
        ("large", uniform, options.items),
    ):
        figures[kind] = measure(make(count, rng), rng, options.device)
        print(f"\n{count:,} items, {kind}: microseconds a step, median (minimum); all equal to the host's")
        for method, (median, least) in figures[kind].items():
            print(f"  {method:32} {median:10.1f} ({least:.1f})")
    best = min((times[0] for method, times in figures["large"].items() if method.endswith("graph")), default=None)
    if best is not None:
        figures["bars"] = {"step of 140 rows, us": [best, 15, best <= 15]}
        print("\n  step of 140 rows in a graph:", figures["bars"])
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
