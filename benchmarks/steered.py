"""Texts sampled under steerers, kept on disk, and compared at the same perplexity under the model itself.

What several experiments share: reviews dealt out by their hash (parts 0 to 3 guide, 4 to 7 judge, 8 chooses strengths,
9 tests), prompts, sampling that goes on where it was cut off, and curves of a score over strengths.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import time
from typing import NamedTuple

import numpy as np
import torch

import ctrlgen as cg
from ctrlgen.hmm.classifier import examples, fit_attribute, pieces

WIDTH, BEGINNING = 49152, 8
ENDS = (0, 2)


def part(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 10


def reviews(table, parts):
    """(text, whether it is positive) of the reviews in these parts, in an order that their hash says."""
    csv.field_size_limit(10**9)
    with table.open(encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["label"] == "1") for row in csv.DictReader(file) if part(row["text"]) in parts]
    rows.sort(key=lambda row: hashlib.sha256(row[0].encode()).digest())
    return [(text.replace("<br />", " "), label) for text, label in rows]


def labelled(table, parts, tokenizer, length, most=None):
    """Pieces of ``length`` ids of reviews, and the label of each."""
    rows = reviews(table, parts)[:most]
    cut = tokenizer([text for text, _ in rows], add_special_tokens=False)["input_ids"]
    pairs = [(p, label) for ids, (_, label) in zip(cut, rows, strict=True) for p in pieces(ids, length) if p]
    return [p for p, _ in pairs], [label for _, label in pairs]


def beginnings(table, tokenizer, of_part, size):
    """The first ids of reviews that nothing was fitted to."""
    cut = tokenizer([text[:200] for text, _ in reviews(table, [of_part])], add_special_tokens=False)["input_ids"]
    return [ids[:BEGINNING] for ids in cut if len(ids) >= BEGINNING][:size]


class Texts(NamedTuple):
    """N texts."""

    ids: list[list[int]]
    nats: np.ndarray
    """float64[N]: -log p of each under the model."""
    seconds: float
    """Of sampling."""

    @property
    def perplexity(self):
        return float(np.exp(self.nats.sum() / self.lengths.sum()))

    @property
    def lengths(self):
        return np.array([max(1, len(one)) for one in self.ids])

    @property
    def distinct(self):
        """The share of pairs of neighbouring tokens that are different ones."""
        pairs = [pair for one in self.ids for pair in itertools.pairwise(one)]
        return len(set(pairs)) / max(1, len(pairs))


@torch.inference_mode()
def sampled(folder, name, model, tokenizer, prompts, steer, new, *, batch=64):
    """A text for each prompt; what ``folder`` holds already is not sampled again."""
    path = folder / f"{name.replace(' ', '_')}.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with path.open("a") as file:
        for first in range(len(rows), len(prompts), batch):
            some, begun = prompts[first : first + batch], time.perf_counter()
            out, nats = decoded(model, tokenizer, some, steer, new, first)
            seconds = (time.perf_counter() - begun) / len(some)
            for text, each in zip(out.tolist(), nats.tolist(), strict=True):
                length = next((i for i, token in enumerate(text) if token in ENDS), len(text))
                rows.append([text[:length], sum(each[:length]), seconds])
                file.write(json.dumps(rows[-1]) + "\n")
            file.flush()
    rows = rows[: len(prompts)]
    return Texts([r[0] for r in rows], np.array([r[1] for r in rows]), sum(r[2] for r in rows))


def decoded(model, tokenizer, prompts, steer, new, seed):
    """Plain sampling at temperature 1: ids int64[B, n] and -log p under the model float[B, n].

    A loop of its own, since drawing by ``torch.multinomial`` takes longer than the model. Prompts are equally long.
    """
    control = cg.ControlProcessor(None, tokenizer, steer=steer) if steer else None
    generator, ids = torch.Generator().manual_seed(seed), torch.tensor(prompts)
    new_ids, cache, nats, done = ids, None, [], torch.zeros(len(ids), dtype=torch.bool)
    for _ in range(new):
        out = model(new_ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache, logits = out.past_key_values, out.logits[:, -1].float()
        scores = logits if control is None else control(ids, logits.clone())
        new_ids = torch.where(done[:, None], ENDS[1], drawn(scores, generator))
        nats.append(logits.logsumexp(1) - logits.gather(1, new_ids)[:, 0])
        ids = torch.cat([ids, new_ids], 1)
        done |= torch.isin(new_ids[:, 0], torch.tensor(ENDS))
        if bool(done.all()):
            break
    return ids[:, len(prompts[0]) :], torch.stack(nats, 1)


def drawn(scores, generator):
    """int64[B, 1]: a token of each row, never one of probability 0."""
    mass = scores.softmax(1).cumsum(1)
    place = torch.rand(len(mass), 1, generator=generator) * mass[:, -1:]
    token = torch.searchsorted(mass, place, right=True)
    last = (mass < mass[:, -1:]).sum(1, keepdim=True)
    return torch.minimum(token, last)


class Judge:
    """A logistic classifier of tokens, of texts that no guide has seen."""

    def __init__(self, folder, table, tokenizer, length):
        path = folder / f"judge-{length}.safetensors"
        if not path.exists():
            texts, labels = labelled(table, range(4, 8), tokenizer, length)
            fit_attribute(examples(texts, WIDTH), labels).save(path)
        self.attribute = cg.Attribute.load(path)

    @property
    def auc(self):
        return self.attribute.card["held_out_auc"]

    def __call__(self, texts):
        counts = torch.from_numpy(examples(texts.ids, WIDTH).counts.toarray()).float()
        return self.attribute.probability(counts).double().numpy()


def reached(curve, most, chosen=slice(None)):
    """The best score of a curve at a loss of at most ``most`` nats a token, between its points in straight lines.

    Args:
        curve: (score float[N], Texts) of the same prompts at rising strengths.
        chosen: which of the prompts count, for bootstrap.
    """
    points = [
        (float(texts.nats[chosen].sum() / texts.lengths[chosen].sum()), float(score[chosen].mean()))
        for score, texts in curve
    ]
    best = [score for loss, score in points if loss <= most]
    for (one, here), (two, there) in itertools.pairwise(points):
        if (one - most) * (two - most) < 0:
            best.append(here + (there - here) * (most - one) / (two - one))
    return max(best) if best else min(points)[1]


def gain(mine, curve, draws=1000):
    """Mean and 95 % interval of how much more ``mine``, a point, scores than a curve at the same loss or less."""
    score, texts = mine
    rng, each = np.random.default_rng(0), []
    for i in range(draws + 1):
        chosen = rng.integers(len(score), size=len(score)) if i else np.arange(len(score))
        most = float(texts.nats[chosen].sum() / texts.lengths[chosen].sum())
        each.append(float(score[chosen].mean()) - reached(curve, most, chosen))
    return (each[0], *(float(x) for x in np.quantile(each[1:], [0.025, 0.975])))
