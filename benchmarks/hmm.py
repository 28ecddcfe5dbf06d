"""HMM control against its bars: exactness, speed, and what TRACE does to sentiment.

    python benchmarks/hmm.py --json out.json [--quick] [--only exact,speed,em,sentiment] [--work FOLDER --reviews CSV]

Each bar is [value, limit, met]; None where it was not measured. The sentiment experiment samples thousands of texts: it
keeps them in --work, and goes on when called again. Set OMP_NUM_THREADS=1; figures of a busy machine are only good as
the ratios that they are given as.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

import ctrlgen as cg
from ctrlgen import models
from ctrlgen.hmm import Window
from ctrlgen.hmm.classifier import examples, fit_attribute, pieces
from ctrlgen.hmm.em import count, no_counts
from ctrlgen.hmm.emission import Dense
from ctrlgen.steering.protocol import Moment, Prompts

ROOT = Path(__file__).resolve().parent.parent
WIDTH, NEW = 49152, 32


def at_most(value, limit):
    return [value, limit, value <= limit]


def at_least(value, limit):
    return [value, limit, value >= limit]


# exactness


def exact(_):
    """Tests that write out every path and every text."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/hmm"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(done.stdout.splitlines()[-1])
    return {"failing tests of queries by enumeration": at_most(float(done.returncode != 0), 0.0)}


# speed


def random_hmm(states, dtype):
    torch.manual_seed(0)
    start = torch.full((states,), 1 / states)
    transition = torch.rand(states, states) ** 4
    table = torch.rand(WIDTH, states) ** 8
    hmm = cg.HMM(start, transition / transition.sum(1, keepdim=True), Dense(table / table.sum(0)), (0, 2))
    return hmm.to(dtype=dtype)


@torch.inference_mode()
def speed(given):
    """A step of the model and a step of steering, by turns."""
    model, tokenizer = models.load(None, dtype="bfloat16")
    model.eval()
    hmm = random_hmm(1024, torch.bfloat16)
    weights = -torch.rand(WIDTH)
    steerer = cg.Trace(hmm, cg.Attribute.factorised(weights), a=2.0, tokens=NEW)
    deco = cg.DecoG(hmm, cg.Regex("[a-z ]+(yes|no)"), tokens=NEW)
    vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, model=model)
    prompts = Prompts(tuple((1, 2, 3, 4, i + 5) for i in range(8)), torch.device("cpu"), vocabulary)
    ids = torch.tensor(prompts.rows)
    out = model(ids, use_cache=True)
    cache, logits, alive = out.past_key_values, out.logits[:, -1], torch.ones(8, dtype=torch.bool)
    states = {one.name: one.init(prompts) for one in (steerer, deco)}
    times = {"model": [], "Trace": [], "DecoG": []}
    for length in range(6 if given.quick else NEW - 1):
        log_p = logits.float().log_softmax(1)
        tokens = log_p.exp().multinomial(1)[:, 0]
        begun = time.perf_counter()
        out = model(tokens[:, None], past_key_values=cache, use_cache=True)
        cache, logits = out.past_key_values, out.logits[:, -1]
        times["model"].append(time.perf_counter() - begun)
        for one in (steerer, deco):
            begun = time.perf_counter()
            one.delta(states[one.name], Moment(log_p, alive, length))
            states[one.name] = one.update(states[one.name], tokens, alive)
            times[one.name].append(time.perf_counter() - begun)
    medians = {name: statistics.median(several[1:]) for name, several in times.items()}
    print({name: f"{1000 * median:.1f} ms" for name, median in medians.items()})
    return {
        f"{name} step / model step, H=1024, batch 8, bf16": at_most(medians[name] / medians["model"], 0.10)
        for name in ("Trace", "DecoG")
    }


# expectation maximisation


def em(given):
    """Tokens a second of one process, and how memory grows from one batch to many."""
    bars = {}
    for states, limit in ((256, 20_000), (1024, 5_000)):
        hmm = random_hmm(states, torch.bfloat16)
        counts, length = no_counts(hmm), torch.full((256,), 48)
        ids, seen = torch.randint(0, WIDTH, (256, 48)), torch.ones(256, 48, dtype=torch.bool)
        count(hmm, ids, seen, length, counts)
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        rounds = 2 if given.quick else 8
        for _ in range(rounds):
            count(hmm, ids, seen, length, counts)
        speed = rounds * ids.numel() / (time.perf_counter() - begun)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        bars[f"EM tokens a second, H={states}, one thread, bf16"] = at_least(speed, limit)
        bars[f"MB more after {rounds} more batches, H={states}"] = at_most(grown, 64.0)
    return bars


# sentiment


def part(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 10


def labelled(table, parts, tokenizer):
    """Pieces of NEW ids of the reviews in these parts, and their labels."""
    csv.field_size_limit(10**9)
    with table.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if part(row["text"]) in parts]
    cut = [(tokenizer(r["text"].replace("<br />", " "), add_special_tokens=False)["input_ids"], r) for r in rows]
    return [(piece, row["label"] == "1") for ids, row in cut for piece in pieces(ids, NEW) if piece]


def methods(hmm, attribute, strengths):
    """Name and steerers: look-ahead, the same classifier without, a plain token bias, and nothing."""
    yield "none", 0.0, []
    for a in strengths:
        yield "look-ahead", a, [cg.Trace(hmm, attribute, a=a, tokens=NEW)]
        yield "no look-ahead", a, [cg.Trace(hmm, attribute, a=a, horizon=Window(0))]
        yield "token bias", a, [Bias(a * attribute.weights)]


class Bias:
    """Weights of tokens, added."""

    def __init__(self, weights):
        self.weights = weights

    def init(self, prompts):
        return ()

    def delta(self, state, moment):
        return self.weights.expand_as(moment.log_p)

    def update(self, state, tokens, alive):
        return ()


def sentiment(given):
    """Score by a judge that shares no text with the guide, at the same perplexity under the model."""
    if given.reviews is None or given.work is None:
        print("sentiment: give --reviews and --work")
        return {"TRACE look-ahead over none at equal perplexity": None}
    given.work.mkdir(parents=True, exist_ok=True)
    model, tokenizer = models.load(None, dtype="bfloat16")
    judge = _judge(given, tokenizer)
    hmm = cg.HMM.named("smollm2-135m")
    attribute = cg.Attribute.named("smollm2-135m.positive-review.factorised")
    strengths = (8.0,) if given.quick else (2.0, 4.0, 8.0, 16.0)
    curves = {}
    for split, size in (("tune", 32 if given.quick else 128), ("test", 64 if given.quick else 1024)):
        prompts = _prompts(given.reviews, tokenizer, 8 if split == "tune" else 9, size)
        for name, a, steer in methods(hmm, attribute, strengths):
            rows = _sampled(given, model, tokenizer, prompts, f"{split}-{size}-{name}-{a}", steer)
            scores = judge.probability(_counts([ids for ids, _ in rows])).numpy()
            loss = np.array([nats / max(1, len(ids)) for ids, nats in rows])
            curves[split, name, a] = scores, loss
            print(split, name, a, f"score {scores.mean():.3f} perplexity {np.exp(loss.mean()):.1f}", flush=True)
    return _bars(curves, strengths)


def _judge(given, tokenizer):
    path = given.work / "judge.safetensors"
    if not path.exists():
        known = labelled(given.reviews, range(4, 8), tokenizer)
        fit_attribute(examples([ids for ids, _ in known], WIDTH), [label for _, label in known]).save(path)
    return cg.Attribute.load(path)


def _prompts(table, tokenizer, of_part, size):
    csv.field_size_limit(10**9)
    with table.open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file) if part(row["text"]) == of_part]
    texts = sorted(texts, key=lambda text: hashlib.sha256(text.encode()).digest())[:size]
    return [tokenizer(text.replace("<br />", " ")[:200], add_special_tokens=False)["input_ids"][:8] for text in texts]


@torch.inference_mode()
def _sampled(given, model, tokenizer, prompts, name, steer):
    """(ids, -log p under the model) of a text for each prompt; what is there is not sampled again."""
    path = given.work / f"{name.replace(' ', '_')}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with path.open("a") as file:
        for first in range(len(rows), len(prompts), 32):
            some = prompts[first : first + 32]
            torch.manual_seed(first)
            longest = max(map(len, some))
            ids = torch.tensor([[0] * (longest - len(one)) + one for one in some])
            mask = torch.tensor([[0] * (longest - len(one)) + [1] * len(one) for one in some])
            processors = [cg.ControlProcessor(None, tokenizer, steer=steer)] if steer else []
            out = model.generate(
                ids, attention_mask=mask, do_sample=True, top_k=0, max_new_tokens=NEW, logits_processor=processors
            )
            seen = torch.cat([mask, torch.ones_like(out[:, longest:])], 1)
            places = (seen.cumsum(1) - 1).clamp(min=0)
            logs = model(out, attention_mask=seen, position_ids=places).logits[:, longest - 1 : -1].float()
            logs = logs.log_softmax(2).gather(2, out[:, longest:, None])[..., 0]
            for text, nats in zip(out[:, longest:].tolist(), (-logs).tolist(), strict=True):
                length = next((i for i, token in enumerate(text) if token in (0, 2)), len(text))
                rows.append([text[:length], sum(nats[:length])])
                file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    return rows


def _counts(texts):
    return torch.from_numpy(examples(texts, WIDTH).counts.toarray())


def _bars(curves, strengths):
    """The strength of each rival that on tuning prompts comes nearest to the perplexity of look-ahead."""
    loss = {key: value[1].mean() for key, value in curves.items()}
    best = max(strengths, key=lambda a: curves["tune", "look-ahead", a][0].mean())
    mine = curves["test", "look-ahead", best][0]
    bars = {}
    for rival in ("no look-ahead", "token bias", "none"):
        near = [0.0] if rival == "none" else strengths
        a = min(near, key=lambda a: abs(loss["tune", rival, a] - loss["tune", "look-ahead", best]))
        apart = mine - curves["test", rival, a][0]
        rng = np.random.default_rng(0)
        draws = [apart[rng.integers(len(apart), size=len(apart))].mean() for _ in range(1000)]
        low, high = np.quantile(draws, [0.025, 0.975])
        ratio = np.exp(loss["test", rival, a] - loss["test", "look-ahead", best])
        print(f"look-ahead a={best} over {rival} a={a}: {apart.mean():.3f} [{low:.3f}, {high:.3f}], ppl x {ratio:.2f}")
        bars[f"lower bound of TRACE's gain over {rival}"] = at_least(float(low), 0.0)
    return bars


SECTIONS = {"exact": exact, "speed": speed, "em": em, "sentiment": sentiment}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--reviews", type=Path)
    given = parser.parse_args()
    bars = {"Deco-G on a labelled task, and against rejection sampling": None}
    for name in given.only.split(","):
        bars |= SECTIONS[name](given)
    for name, bar in bars.items():
        print(f"{name}: {bar}")
    if given.json is not None:
        given.json.write_text(json.dumps(bars, indent=2) + "\n")


if __name__ == "__main__":
    main()
