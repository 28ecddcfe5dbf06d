"""A step within a catalogue of a million items, building, filtering and changing one of ten million; names as texts.

    OMP_NUM_THREADS=1 python benchmarks/catalogue.py [--quick] [--json] [--only steps|large|names] [--names FILE]

One process, one thread; the methods take turns, so that other work on the machine meets all of them. Each figure is
shown as median (minimum). 140 rows in two groups of 70 beams stand behind prefixes of random items, at depths 2 to 7
of 8 tokens; the time of one step includes the choice of the best 70 of each group. The last line with --json holds
all figures, and each bar as [value, limit, met]. --quick takes fewer rounds, leaves out the trie of dictionaries, and
builds and filters one million items only; it shows the bars all the same.

Names are texts, cut by qwen3's tokenizer if it can be had, else by one made here; --names takes a file of one a line,
otherwise 886,323 are made up. The masks are those along the tokenizer's own cuts of random names. *Cold* is a state's
first mask with a constraint made anew, the least of three such constraints; *warm* the same mask once more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT.parent)]

from baselines.named import peers  # noqa: E402
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


def made_up_names(count, rng):
    """Distinct names of one to six syllables, some with a hyphen or a number, a fifth of them beginning alike."""
    syllables = np.array([a + b + c for a in "bcdfghjklmnprstvwz" for b in "aeiou" for c in ("", "n", "r", "s")])
    joins = np.array(["", "", "", "", "-", "2", "-py", "lab"])
    made = set()
    while len(made) < count:
        parts = rng.choice(syllables, (count, 6))
        between = rng.choice(joins, (count, 6))
        lengths = rng.integers(1, 7, count)
        first = np.where(rng.random(count) < 0.2, rng.choice(["py", "django-", "open", "data"], count), "")
        for row in range(count):
            pieces = [p + j for p, j in zip(parts[row, : lengths[row]], between[row], strict=False)]
            made.add((first[row] + "".join(pieces)).strip("-"))
    return sorted(made)[:count] if len(made) == count else sorted(made)[:: len(made) // count][:count]


def tokenizer_of(names, rng):
    """(what it is called, tokenizers.Tokenizer, Vocabulary); one trained here if qwen3's cannot be had."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
    from tokenizers.models import BPE

    from ctrlgen import models
    from ctrlgen.errors import ModelError
    from ctrlgen.vocabulary import Vocabulary

    try:
        folder = models.tokenizer("qwen3")
        return "qwen3", Tokenizer.from_file(str(folder / "tokenizer.json")), Vocabulary.from_tokenizer(folder)
    except ModelError as error:
        print(f"qwen3's tokenizer cannot be had ({str(error).splitlines()[0]}); one is made of the names")
    made = Tokenizer(BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    some = [names[i] for i in rng.integers(0, len(names), 50_000)]
    made.train_from_iterator(
        some, trainers.BpeTrainer(vocab_size=30_000, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens(["<end>"])
    return "one made of the names", made, Vocabulary.from_tokenizer(made, eos="<end>")


def first_masks(index, vocabulary, cuts):
    """Seconds of the first mask of each state along the cuts (the least of three), of warm masks, of moves."""
    from ctrlgen.index.name_constraint import NameConstraint

    cold, warm, moves = {}, [], []
    for _ in range(3):
        constraint, met = NameConstraint(index, vocabulary), set()
        for ids in cuts:
            state = constraint.start
            for token in [*ids, None]:
                if state not in met:
                    met.add(state)
                    took = seconds_of(constraint.mask, state)
                    cold[state] = min(took, cold.get(state, took))
                    warm.append(seconds_of(constraint.mask, state))
                if token is not None:
                    moves.append(seconds_of(constraint.advance, state, token))
                    state = constraint.advance(state, token)
    return list(cold.values()), warm, moves


def seconds_of(function, *arguments):
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def spread(seconds):
    """Median, 99th percentile and maximum, in microseconds."""
    return [round(1e6 * float(np.percentile(seconds, p)), 2) for p in (50, 99, 100)]


def names(path, quick, rng):
    """Package names, or others like them, as a catalogue of texts."""
    from ctrlgen.index.name_index import NameIndex

    made = made_up_names(50_000 if quick else 886_323, rng) if path is None else None
    (build, _), index = timed(lambda: NameIndex.from_names(made) if path is None else NameIndex.from_file(path))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "names.index"
        index.save(file)
        load, opened = timed(lambda: NameIndex.open(file), 5)
        every = list(opened)
        called, tokenizer, vocabulary = tokenizer_of(every, rng)
        cuts = [one.ids for one in tokenizer.encode_batch([every[i] for i in rng.integers(0, len(every), 1000)])]
        (compiling, _), _ = timed(lambda: opened.compile(vocabulary))
        cold, warm, moves = first_masks(opened, vocabulary, cuts)
        # of every state after one character and after two
        short = sorted({name[:n] for name in every for n in (1, 2)})
        top, _, _ = first_masks(opened, vocabulary, [vocabulary.encode_greedy(one.encode()) for one in short])
        megabytes = file.stat().st_size / 1e6
    return {
        "names": len(every),
        "tokenizer": called,
        "build, seconds": round(build, 2),
        "load, ms": [round(1e3 * t, 2) for t in load],
        "megabytes": round(megabytes, 1),
        "compile, ms": round(1e3 * compiling, 1),
        "cold mask, us: median, p99, max": spread(cold),
        "cold mask after 1 or 2 characters": spread(top),
        "warm mask, us: median, p99, max": spread(warm),
        "advance, us: median, p99, max": spread(moves),
        "others": {peer.name: other(peer, every, tokenizer, vocabulary, quick, rng) for peer in peers()},
    }


def other(peer, every, tokenizer, vocabulary, quick, rng, patience=60):
    """The same with another library, on as many names as it takes, trying ten times as many while it is quick."""
    made = peer(tokenizer, vocabulary.width, vocabulary.eos[0])
    found, count = {"names": 0}, 1000
    while True:
        some = every if count >= len(every) else [every[i] for i in sorted(rng.choice(len(every), count, False))]
        try:
            took = seconds_of(made.take, some)
            first, again = [], []
            for i in rng.integers(0, len(some), 200):
                for mask in made.rows(tokenizer.encode(some[i], add_special_tokens=False).ids):
                    first.append(seconds_of(mask))
                    again.append(seconds_of(mask))
        except Exception as error:
            found["more"] = f"{len(some)} names: {str(error)[:80]}"
            return found
        found |= {
            "names": len(some),
            "build, seconds": round(took, 2),
            "first mask, us: median, p99, max": spread(first),
            "again, us: median, p99, max": spread(again),
        }
        if len(some) == len(every) or took * 10 > patience / (10 if quick else 1):
            if len(some) < len(every):
                found["more"] = f"not tried: {len(some)} took {took:.1f} s"
            return found
        count *= 10


def bars(figures):
    """Each bar as [value, limit, met]: ratios of medians, since the methods take turns; of single times the minimum.

    A median of times alone says as much about what else runs on the machine; it is shown beside the minimum.
    """

    def ratio(kind):
        step = figures[kind]
        return round(step["index"][0] / step["STATIC"][0], 3)

    values = {}
    if "uniform" in figures:
        values |= {
            "uniform: step / STATIC": (ratio("uniform"), 0.35),
            "clustered: step / STATIC": (ratio("clustered"), 0.1),
        }
    if "large" in figures:
        values |= large_bars(figures["large"])
    if "names" in figures:
        values |= name_bars(figures["names"])
    return {name: [value, limit, value <= limit] for name, (value, limit) in values.items()}


def large_bars(ten):
    return {
        "build, seconds": (ten["build, seconds"], 10),
        "bytes an item": (ten["bytes an item"], 32),
        "switch to 5 %, ms": (max(ten["switch to 5 % by booleans, ms"][1], ten["switch to 5 % by ids, ms"][1]), 5),
        "add 10,000, ms": (ten["add 10,000, ms"][1], 50),
    }


def name_bars(found):
    return {
        "names: load, seconds": (found["load, ms"][0] / 1e3, 0.5),
        "names: megabytes": (found["megabytes"], 40),
        "names: cold mask, us": (
            max(found["cold mask, us: median, p99, max"][2], found["cold mask after 1 or 2 characters"][2]), 1000,
        ),
        "names: warm mask, us": (found["warm mask, us: median, p99, max"][1], 10),
    }  # fmt: skip


def steps(kind, items, rng, rounds, quick):
    """Compare the methods on one catalogue, and show it; building the trie of dictionaries takes too long for quick."""
    print(f"\n{len(items):,} {kind} items: microseconds a step, median (minimum)")
    found = compare(items, rng, rounds, with_trie=not quick)
    base, floor = found["STATIC"]
    for name, (median, least) in found.items():
        print(f"  {name:26} {median:10.1f} ({least:.1f})   {median / base:.3f} ({least / floor:.3f}) of STATIC")
    return found


def show(title, figures):
    print(f"\n{title}")
    for name, value in figures.items():
        if isinstance(value, dict):
            for inner, facts in value.items():
                print(f"  {inner:32} {facts}")
        else:
            print(f"  {name:36} {value}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller catalogues, under a minute")
    parser.add_argument("--json", action="store_true", help="figures and bars as the last line")
    parser.add_argument("--only", choices=("steps", "large", "names"), help="one part; all by default")
    parser.add_argument("--names", metavar="FILE", help="names, one a line (.gz too); made up by default")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):
        torch.set_num_interop_threads(1)
    rng = np.random.default_rng(0)
    many, rounds = (1_000_000, 40) if options.quick else (10_000_000, 120)
    figures = {"threads": 1, "rows": ROWS, "width": WIDTH, "length": LENGTH}
    if options.only in (None, "steps"):
        for kind, make in (("uniform", uniform), ("clustered", clustered)):
            figures[kind] = steps(kind, make(1_000_000, rng), rng, rounds, options.quick)
    if options.only in (None, "large"):
        figures["large"] = large(many, rng, options.quick)
        show(f"{figures['large']['items']:,} uniform items", figures["large"])
    if options.only in (None, "names"):
        figures["names"] = names(options.names, options.quick, rng)
        show("names", figures["names"])
    figures["bars"] = bars(figures)
    print()
    for name, (value, limit, met) in figures["bars"].items():
        print(f"  {'met ' if met else 'MISSED'} {name}: {value} (at most {limit})")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
