"""A step within a catalogue of a million items, building, filtering and changing one of ten million.

    OMP_NUM_THREADS=1 python benchmarks/catalogue.py [--quick] [--json]

One process, one thread; the methods take turns, so that other work on the machine meets all of them. Each figure is
shown as median (minimum). 140 rows in two groups of 70 beams stand behind prefixes of random items, at depths 2 to 7
of 8 tokens; the time of one step includes the choice of the best 70 of each group. The last line with --json holds
all figures, and each bar as [value, limit, met]. --quick takes smaller catalogues and shows the bars all the same,
though they are meant for the sizes of a full run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]

from baselines.searched import Searched  # noqa: E402
from baselines.static_trie import StaticTrie  # noqa: E402

from ctrlgen.index.filters import Filter  # noqa: E402
from ctrlgen.index.live import LiveIndex  # noqa: E402
from ctrlgen.index.token_index import TokenIndex  # noqa: E402

WIDTH, LENGTH, GROUPS, BEAMS = 2048, 8, 2, 70
ROWS = GROUPS * BEAMS
DEPTHS = range(2, LENGTH)


def uniform(count, rng):
    """Sorted distinct items of uniform tokens."""
    return distinct(rng.integers(0, WIDTH, (count, LENGTH), dtype=np.uint16))


def clustered(count, rng):
    """Sorted distinct items whose tokens follow a Zipf law of exponent 1.05 at each level."""
    shares = np.arange(1, WIDTH + 1) ** -1.05
    bounds = np.cumsum(shares / shares.sum())
    return distinct(np.searchsorted(bounds, rng.random((count, LENGTH))).clip(max=WIDTH - 1).astype(np.uint16))


def distinct(items):
    """The rows sorted, each once; four tokens at a time as one number, most significant first."""
    halves = np.ascontiguousarray(items.astype(">u2")).view(">u8").astype(np.uint64)
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    halves = halves[order]
    new = np.append(True, (halves[1:] != halves[:-1]).any(1))
    return items[order[new]]


class DictTrie:
    """Nested dictionaries, walked anew from the root at each step, as trie-constrained decoding is often written."""

    def __init__(self, items):
        self.root = {}
        for item in items.tolist():
            node = self.root
            for token in item:
                node = node.setdefault(token, {})

    def allowed(self, prefix):
        node = self.root
        for token in prefix:
            node = node[token]
        return list(node)

    def step(self, prefixes, scores, log_probs):
        """A dense mask of all rows, then the best of each group."""
        mask = np.full((ROWS, WIDTH), -np.inf, np.float32)
        for row, prefix in enumerate(prefixes):
            mask[row, self.allowed(prefix)] = 0
        return best(torch.from_numpy(mask) + log_probs + scores[:, None])

    def step_by_function(self, prefixes, scores, log_probs):
        """The pattern of prefix_allowed_tokens_fn: tensors of prefixes in, lists of tokens out, row by row."""
        mask = torch.full((ROWS, WIDTH), -torch.inf)
        for row, prefix in enumerate(torch.tensor(prefixes)):
            mask[row, self.allowed(prefix.tolist())] = 0
        return best(log_probs + mask + scores[:, None])


def best(totals):
    return totals.view(GROUPS, -1).topk(BEAMS, 1)


class Spot:
    """140 rows at one depth, as each method wants them."""

    def __init__(self, items, depth, index, static, rng):
        self.depth = depth
        picked = rng.integers(0, len(items), ROWS)
        self.prefixes = items[picked, :depth]
        self.lists = self.prefixes.tolist()
        self.log_probs = torch.log_softmax(torch.from_numpy(rng.standard_normal((ROWS, WIDTH), np.float32)), 1)
        self.scores = torch.from_numpy(-np.sort(rng.random(ROWS, np.float32)))
        self.states = index.start_states(ROWS)
        for column in range(depth):
            self.states = index.advance_states(self.states, self.prefixes[:, column])
        changed = (items[1:, :depth] != items[:-1, :depth]).any(1)
        self.static_states = torch.from_numpy(np.append(0, np.cumsum(changed))[picked])
        self.logs, self.values = self.log_probs.numpy(), self.scores.numpy()


def methods(index, static, trie, searched):
    """Name and one step of each, to be compared."""
    return {
        "index": lambda s: index.beam_step(s.states, s.values, s.logs, beams=BEAMS).scores,
        "index, torch": lambda s: (
            index.on("cpu").beam_step(torch.from_numpy(s.states), s.scores, s.log_probs, beams=BEAMS).scores
        ),
        "STATIC": lambda s: static.step(s.depth, s.static_states, s.scores, s.log_probs, BEAMS)[2],
        "binary search": lambda s: searched.step(s.prefixes, s.scores, s.log_probs, BEAMS)[0],
    } | (
        {}
        if trie is None
        else {
            "dict trie": lambda s: trie.step(s.lists, s.scores, s.log_probs)[0],
            "prefix_allowed_tokens_fn": lambda s: trie.step_by_function(s.lists, s.scores, s.log_probs)[0],
        }
    )


SLOW = {"index, torch", "binary search", "dict trie", "prefix_allowed_tokens_fn"}


def compare(items, rng, rounds, with_trie):
    """Microseconds a step, by method: median and minimum of each depth, averaged over the depths."""
    index, static = TokenIndex.from_items(items, width=WIDTH), StaticTrie(items, WIDTH)
    steps = methods(index, static, DictTrie(items) if with_trie else None, Searched(items, WIDTH))
    found = {name: [] for name in steps}
    for depth in DEPTHS:
        spot = Spot(items, depth, index, static, rng)
        expected = steps["STATIC"](spot).numpy()
        taken = {name: [] for name in steps}
        for name, step in steps.items():
            got = np.asarray(step(spot))
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5, err_msg=f"{name} at depth {depth}")
        for turn in range(rounds):
            for name in rng.permutation(list(steps)):
                if name not in SLOW or turn % 8 == 0:
                    start = time.perf_counter()
                    steps[name](spot)
                    taken[name].append(1e6 * (time.perf_counter() - start))
        for name, times in taken.items():
            found[name].append((statistics.median(times), min(times)))
    return {name: tuple(np.mean(times, 0).round(1).tolist()) for name, times in found.items()}


def timed(function, times=1):
    """(median, minimum) in seconds, and what the function returned last."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        result = function()
        taken.append(time.perf_counter() - start)
    return (statistics.median(taken), min(taken)), result


def large(count, rng, quick):
    """Building from sorted input, filtering and changing a large catalogue."""
    items = uniform(count, rng)
    (build, _), index = timed(lambda: TokenIndex.from_items(items, width=WIDTH))
    flags = rng.random(len(items)) < 0.05
    ids = np.flatnonzero(flags)
    wanted = index.filter(rng.random(len(items)) < 0.5)
    states = index.start_states(ROWS)
    logs = rng.standard_normal((ROWS, WIDTH), np.float32)
    index.where(index.filter(flags)).step(states, logs, 1)
    by_flags, part = timed(lambda: index.where(index.filter(flags)), 31)
    by_ids, _ = timed(lambda: index.where(index.filter(ids)), 31)
    combined, _ = timed(lambda: part.passing & wanted, 31)
    added = rng.integers(0, WIDTH, (10_000, LENGTH), dtype=np.uint16)
    additions, removals = [], []
    for _ in range(5):
        live = LiveIndex(index)
        took, names = timed(lambda live=live: live.add(added))
        additions.append(took[0])
        # visible at once: the snapshot knows the last of them
        state = live.snapshot.start_states()
        for token in added[-1]:
            state = live.snapshot.advance_states(state, np.array([token]))
        assert names[-1] in live.snapshot.ids(state[0])
        removals.append(timed(lambda live=live: live.remove(ids[:1000]))[0][0])
    assert isinstance(part.passing, Filter)
    return {
        "items": len(items),
        "build, seconds": round(build, 2),
        "bytes an item": round(index.layout.nbytes / len(items), 1),
        "switch to 5 % by booleans, ms": [round(1e3 * t, 2) for t in by_flags],
        "switch to 5 % by ids, ms": [round(1e3 * t, 2) for t in by_ids],
        "and of two filters, ms": [round(1e3 * t, 2) for t in combined],
        "add 10,000, ms": [round(1e3 * statistics.median(additions), 1), round(1e3 * min(additions), 1)],
        "remove 1,000, ms": [round(1e3 * statistics.median(removals), 1), round(1e3 * min(removals), 1)],
    }


def names():
    """Package names as a catalogue of texts: nothing is measured yet."""
    return {}


def bars(figures):
    """Each bar as [value, limit, met]: ratios of medians, since the methods take turns; of single times the minimum.

    A median of times alone says as much about what else runs on the machine; it is shown beside the minimum.
    """

    def ratio(kind):
        step = figures[kind]
        return round(step["index"][0] / step["STATIC"][0], 3)

    ten = figures["large"]
    values = {
        "uniform: step / STATIC": (ratio("uniform"), 0.35),
        "clustered: step / STATIC": (ratio("clustered"), 0.1),
        "build, seconds": (ten["build, seconds"], 10),
        "bytes an item": (ten["bytes an item"], 32),
        "switch to 5 %, ms": (max(ten["switch to 5 % by booleans, ms"][1], ten["switch to 5 % by ids, ms"][1]), 5),
        "add 10,000, ms": (ten["add 10,000, ms"][1], 50),
    }
    return {name: [value, limit, value <= limit] for name, (value, limit) in values.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller catalogues, under a minute")
    parser.add_argument("--json", action="store_true", help="figures and bars as the last line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)
    rng = np.random.default_rng(0)
    small, many, rounds = (200_000, 1_000_000, 40) if options.quick else (1_000_000, 10_000_000, 120)
    figures = {"threads": 1, "rows": ROWS, "width": WIDTH, "length": LENGTH}
    for kind, make in (("uniform", uniform), ("clustered", clustered)):
        items = make(small, rng)
        print(f"\n{len(items):,} {kind} items: microseconds a step, median (minimum)")
        figures[kind] = compare(items, rng, rounds, with_trie=True)
        base, floor = figures[kind]["STATIC"]
        for name, (median, least) in figures[kind].items():
            print(f"  {name:26} {median:10.1f} ({least:.1f})   {median / base:.3f} ({least / floor:.3f}) of STATIC")
    figures["large"] = large(many, rng, options.quick)
    print(f"\n{figures['large']['items']:,} uniform items")
    for name, value in figures["large"].items():
        print(f"  {name:32} {value}")
    figures["names"] = names()
    figures["bars"] = bars(figures)
    print()
    for name, (value, limit, met) in figures["bars"].items():
        print(f"  {'met ' if met else 'MISSED'} {name}: {value} (at most {limit})")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
