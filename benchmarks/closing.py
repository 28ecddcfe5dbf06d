"""What ending in time costs a step: the levels of states not met before, and rows within a budget.

    python benchmarks/closing.py --tokenizer FOLDER [--walks 60]

Walks at random within budgets of 60, of 120, and of the least number of tokens and three. Times are in milliseconds.
"""

from __future__ import annotations

import argparse
import random
import time

import numpy as np

import ctrlgen as cg
from ctrlgen.closing import Closing

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
ITEM = {
    "type": "object",
    "properties": {"sku": {**STRING, "pattern": "^[A-Z]{3}-[0-9]+$"}, "n": {**INTEGER, "minimum": 1}},
    "required": ["sku", "n"],
    "additionalProperties": False,
}
SCHEMAS = {
    "open, counted strings": {
        "type": "object",
        "properties": {
            "name": {**STRING, "minLength": 3},
            "tags": {"type": "array", "items": {**STRING, "maxLength": 20}},
        },
        "required": ["name", "tags"],
    },
    "closed": {
        "type": "object",
        "properties": {"id": INTEGER, "kind": {"enum": ["a", "b"]}, "items": {"type": "array", "items": ITEM}},
        "required": ["id", "kind", "items"],
        "additionalProperties": False,
    },
    "open, alternatives": {
        "type": "object",
        "properties": {"a": {"anyOf": [STRING, {"type": "number"}, {"type": "array", "items": STRING}]}},
        "required": ["a"],
    },
    "any JSON": {},
}


def walk(constraint, closing, budget, rng, times):
    """One text; notes the time of each new mask, of new levels, and of each row that a budget limits."""
    state, left = constraint.start, budget
    while True:
        new = state not in closing._farthest
        begun = time.perf_counter()
        mask = constraint.mask(state)
        masked = time.perf_counter()
        closing.farthest(constraint, state)
        found = time.perf_counter()
        row = closing.row(constraint, state, left)
        done = time.perf_counter()
        if new:
            times["mask"].append(masked - begun)
            times["levels"].append(found - masked)
        if row is not mask:
            times["limited row"].append(done - found)
        ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        token = int(rng.choice(ids))
        if token in constraint.vocabulary.eos and len(ids) > 1:
            token = int(rng.choice(ids))
        if token in constraint.vocabulary.eos:
            return
        state, left = constraint.advance(state, token), left - 1


def main():
    """Print a table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--tokenizer", required=True)
    arguments.add_argument("--walks", type=int, default=60)
    given = arguments.parse_args()
    vocabulary = cg.Vocabulary.from_tokenizer(given.tokenizer)
    for name, schema in SCHEMAS.items():
        rng = random.Random(0)
        for round_ in ("warm-up", "measured"):  # the first fills what the vocabulary keeps for all constraints
            constraint, closing = cg.JsonSchema({**schema, "title": round_}).compile(vocabulary), Closing()
            times = {"mask": [], "levels": [], "limited row": []}
            for _ in range(given.walks):
                walk(constraint, closing, rng.choice([constraint.distance(constraint.start) + 3, 60, 120]), rng, times)
        for what, one in times.items():
            p50, p90, p99, most = np.quantile(one, [0.5, 0.9, 0.99, 1]) * 1e3
            print(f"{name:22} {what:12} n {len(one):5}  p50 {p50:.3f}  p90 {p90:.3f}  p99 {p99:.3f}  max {most:.3f}")


if __name__ == "__main__":
    main()
