"""HMM control against its bars: exactness, speed, and what TRACE does to sentiment.

    python benchmarks/hmm.py [--json] [--quick] [--only exact,speed,em,personal,sentiment,deco_g]
                             [--work FOLDER --reviews CSV]

Each bar is [value, limit, met]; None where it was not measured. The sentiment experiment samples thousands of texts: it
keeps them in --work, and goes on when called again. Set OMP_NUM_THREADS=1; figures of a busy machine are only good as
the ratios that they are given as.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import formats
import numpy as np
import steered
import torch

import ctrlgen as cg
from ctrlgen import models
from ctrlgen.hmm import Window
from ctrlgen.hmm.classifier import examples, fit_attribute
from ctrlgen.hmm.em import count, no_counts
from ctrlgen.hmm.emission import Dense
from ctrlgen.steering.protocol import Moment, Prompts

ROOT = Path(__file__).resolve().parent.parent
WIDTH, NEW = 49152, 32
LENGTH, STRENGTHS = 20, (8.0, 16.0, 32.0)


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


# personalisation


def personal(given):
    """76 attributes in one process, which share an HMM: the slowest fit, and the slowest switch to another one."""
    writers, each, length = 76, 40, 32
    rng = np.random.default_rng(0)
    tastes = rng.dirichlet(np.full(2000, 0.02), writers) * 0.3 + np.full(2000, 0.7 / 2000)
    texts = [rng.choice(2000, length, p=tastes[w]).tolist() for w in range(writers) for _ in range(each)]
    known, marks = examples(texts, WIDTH), np.repeat(np.arange(writers), each)
    hmm = cg.HMM.named("smollm2-135m")
    prompts = Prompts(((1, 2, 3),), torch.device("cpu"))
    fits, switches, areas = [], [], []
    for writer in range(6 if given.quick else writers):
        begun = time.perf_counter()
        made = fit_attribute(known, marks == writer, kind="factorised")
        fits.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        cg.Trace(hmm, made, a=4.0, tokens=NEW).init(prompts)
        switches.append(time.perf_counter() - begun)
        areas.append(made.card["held_out_auc"])
    print(f"fits {statistics.median(fits):.2f} s, switches {statistics.median(switches):.2f} s, "
          f"area under the curve {statistics.mean(areas):.2f}")  # fmt: skip
    return {
        f"seconds, slowest fit of {len(fits)} attributes": at_most(max(fits), 5.0),
        "seconds, slowest switch to another attribute": at_most(max(switches), 2.0),
    }


# sentiment


def arms(hmm, attribute):
    """Makers of steerers for a strength: look-ahead, the same where end tokens end, none, and a plain token bias."""
    return {
        "look-ahead": lambda a: [cg.Trace(hmm, attribute, a=a, tokens=LENGTH, endless=True)],
        "look-ahead with ends": lambda a: [cg.Trace(hmm, attribute, a=a, tokens=LENGTH)],
        "no look-ahead": lambda a: [cg.Trace(hmm, attribute, a=a, horizon=Window(0))],
        "token bias": lambda a: [Bias(a * attribute.weights)],
    }


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
    """Score by a judge that shares no text with the guide, at the same perplexity under the model.

    The strength is what scores best on tuning prompts without more perplexity than unsteered texts have. Test prompts
    come 128 at a time, all arms in turn, so that a run that is cut off has a result for as many as it reached.
    """
    if given.reviews is None or given.work is None:
        print("sentiment: give --reviews and --work")
        return {"TRACE look-ahead over none at equal perplexity": None}
    given.work.mkdir(parents=True, exist_ok=True)
    model, tokenizer = models.load(None, dtype="bfloat16")
    judge = steered.Judge(given.work, given.reviews, tokenizer, LENGTH)
    makers = arms(cg.HMM.named("smollm2-135m"), cg.Attribute.named("smollm2-135m.positive-review.factorised"))
    strengths = (16.0,) if given.quick else STRENGTHS

    def point(split, name, a, prompts):
        steer = makers[name](a) if name in makers else []
        texts = steered.sampled(given.work, f"{split}-{name}-{a:g}", model.eval(), tokenizer, prompts, steer, LENGTH)
        scores = judge(texts)
        print(
            f"{split} {len(prompts)} {name} {a:g}: score {scores.mean():.3f} perplexity {texts.perplexity:.1f} "
            f"tokens {texts.lengths.mean():.1f} distinct pairs {texts.distinct:.3f}", flush=True,
        )  # fmt: skip
        return scores, texts

    tuning = steered.beginnings(given.reviews, tokenizer, 8, 32 if given.quick else 128)
    most = point("tune", "none", 0.0, tuning)[1].perplexity
    tuned = {a: point("tune", "look-ahead", a, tuning) for a in strengths}
    fair = {a: scores.mean() for a, (scores, texts) in tuned.items() if texts.perplexity <= most}
    best = max(fair, key=fair.get) if fair else min(strengths)
    prompts = steered.beginnings(given.reviews, tokenizer, 9, 64 if given.quick else given.prompts)
    for size in range(128, len(prompts) + 128, 128):
        some = prompts[:size]
        mine, none = point("test", "look-ahead", best, some), point("test", "none", 0.0, some)
        curves = {"none": [none]}
        for rival in ("no look-ahead", "token bias"):
            curves[rival] = [none, *(point("test", rival, a, some) for a in strengths)]
        curves["look-ahead with ends"] = [none, point("test", "look-ahead with ends", best, some)]
        bars = _gains(mine, curves, best)
    return bars


def _gains(mine, curves, a):
    bars = {}
    for rival, curve in curves.items():
        mean, low, high = steered.gain(mine, curve)
        print(f"look-ahead a={a:g} over {rival} at its perplexity: {mean:.3f} [{low:.3f}, {high:.3f}]", flush=True)
        bars[f"lower bound of TRACE's gain over {rival}, {len(mine[0])} prompts"] = at_least(low, 0.0)
    return bars


# formats


def deco_g(given):
    """Distance from rejection sampling, and a labelled task."""
    if given.reviews is None or given.work is None:
        print("deco_g: give --reviews and --work")
        return {"Deco-G beside rejection sampling, and on a labelled task": None}
    given.work.mkdir(parents=True, exist_ok=True)
    model, tokenizer = models.load(None, dtype="bfloat16")
    far = {name: statistics.mean(each) for name, each in formats.distances(given, model.eval(), tokenizer).items()}
    table = formats.verdicts(formats.labels(given, model, tokenizer))
    print({name: round(value, 3) for name, value in far.items()})
    for name, (right, met, seconds) in table.items():
        print(f"{name}: right {right:.3f}, with a verdict {met:.3f}, {seconds:.2f} s a text")
    return {
        "KL of Deco-G / of the mask alone, to rejection sampling": at_most(far["KL Deco-G"] / far["KL mask only"], 1.0),
        "TV of Deco-G / of the mask alone, to rejection sampling": at_most(far["TV Deco-G"] / far["TV mask only"], 1.0),
        "Deco-G on a labelled task: compliance": at_least(table["Deco-G"][1], 1.0),
    }


SECTIONS = {"exact": exact, "speed": speed, "em": em, "personal": personal, "sentiment": sentiment, "deco_g": deco_g}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true", help="figures and bars as JSON in the last line")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--reviews", type=Path)
    parser.add_argument("--prompts", type=int, default=1024, help="of the test of sentiment")
    given = parser.parse_args()
    bars = {}
    for name in given.only.split(","):
        bars |= SECTIONS[name](given)
    for name, bar in bars.items():
        print(f"{name}: {bar}")
    if given.json:
        print(json.dumps({"bars": bars}))


if __name__ == "__main__":
    main()
