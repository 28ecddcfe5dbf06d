"""What flows cost and what they gain: each bar of the flows, with the default model.

    OMP_NUM_THREADS=1 python benchmarks/flows.py [--quick] [--json] [--only PART] [--results FOLDER]
        [--names FILE] [--bfcl FOLDER] [--tokenizer FOLDER]

*guard*: the package guard with the names of --names, one a line, gzip or not (``guard.py``).
*drafts*: small word problems, made up from a seed, each answered in six ways with the same budget of 64 tokens:
freely; under a JSON schema; under the schema after a free draft of 48 tokens in a chat turn of its own; under the
schema at the end of the free text itself (think first, then close in the format); in one text, free until the model
would end, then under the schema (In-Writing); and plainly, with the prompt of the first way. *Strict* accuracy counts
an answer that parses and is right; the free text counts by its last number. Intervals are those of 95 % by bootstrap
over the items.
*phases*: masks of free text with constrained parts; *budgets*: every flow at every budget (``flows_budgets.py``).
*copy*: verbatim copies of a long text (``flows_copy.py``); --tokenizer takes another vocabulary for it.
*forward*: JSON with long keys, forced tokens appended against all tokens asked for (``flows_forward.py``).
*calls*: function calls of bfcl-eval, from --bfcl (``flows_calls.py``).

Results of items are kept in --results as they come, and are not computed again. A part whose data is not given is
skipped, and said to be. One process, one thread. The last line with --json holds all figures, and each bar as
[value, limit, met]. --quick takes few items and less than a minute on an idle core.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from flows_budgets import budgets_part, phases_part
from flows_calls import calls_part, kept
from flows_copy import copy_part
from flows_forward import forward_part
from guard import guard_part

import ctrlgen as cg
from ctrlgen import models

BATCH, TOKENS, DRAFT_TOKENS = 32, 64, 48
WISH = ' Answer with JSON: {"answer": <number>}'
SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer", "minimum": 0, "maximum": 999}},
    "required": ["answer"],
    "additionalProperties": False,
}
PEOPLE = ("Tom", "Anna", "Ben", "Mia", "Sam", "Lily", "Max", "Eva")
THINGS = ("apples", "books", "pens", "coins", "cards", "eggs", "stamps", "shells")


# drafts


def problems(count, seed=0):
    """Distinct questions and their answers."""
    rng, found = random.Random(seed), {}
    while len(found) < count:
        who, what, a, b = rng.choice(PEOPLE), rng.choice(THINGS), rng.randint(2, 9), rng.randint(2, 9)
        found[f"{who} has {a} {what}. {who} gets {b} more. How many {what} does {who} have now?"] = a + b
    return list(found.items())


def user(text):
    return [{"role": "user", "content": text}]


def last_number(text):
    numbers = re.findall(r"\d+", text.replace(",", ""))
    return int(numbers[-1]) if numbers else None


class Answers:
    """The ways to answer; each takes a batch of questions and gives a record for each."""

    def __init__(self, model, tokenizer):
        self.model, self.tokenizer = model, tokenizer
        self.vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, model=model)
        self.schema = cg.JsonSchema(SCHEMA)

    def free(self, questions, free):
        results = cg.generate(self.model, self.tokenizer, [user(q) for q in questions], max_new_tokens=TOKENS)
        return [
            {"text": one.text, "answer": last_number(one.text), "tokens": len(one.token_ids), "ids": one.token_ids}
            for one in results
        ]

    def plain(self, questions, free):
        prompts = [user(q + WISH) for q in questions]
        return self._records(cg.generate(self.model, self.tokenizer, prompts, self.schema, max_new_tokens=TOKENS))

    def plain_same_prompt(self, questions, free):
        prompts = [user(q) for q in questions]
        return self._records(cg.generate(self.model, self.tokenizer, prompts, self.schema, max_new_tokens=TOKENS))

    def draft(self, questions, free):
        def asked(prompt, draft):
            return [*prompt, {"role": "assistant", "content": draft}, *user("Give only the final answer." + WISH)]

        return self._after_draft(questions, free, asked)

    def close(self, questions, free):
        def asked(prompt, draft):
            return self.tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True) + draft + "\n"

        return self._after_draft(questions, free, asked)

    def writing(self, questions, free):
        """Free text until the model would end, or until 16 tokens are left, then the schema: one text."""
        spec = cg.Thinking(self.schema, end=cg.EOS, keep=TOKENS - DRAFT_TOKENS)
        results = cg.generate(self.model, self.tokenizer, [user(q) for q in questions], spec, max_new_tokens=TOKENS)
        return self._records(results, lambda value: value.answer["answer"])

    def _after_draft(self, questions, free, asked):
        """The draft is the beginning of the free answer: greedy decoding would write the same again."""
        drafts = [self.vocabulary.decode(one["ids"][:DRAFT_TOKENS]).decode(errors="ignore") for one in free]
        results = cg.draft_then_constrain(
            self.model,
            self.tokenizer,
            [user(q) for q in questions],
            self.schema,
            drafter=lambda prompts, k: [[draft] for draft in drafts],
            final_prompt=asked,
            max_new_tokens=TOKENS - DRAFT_TOKENS,
        )
        records = self._records(results)
        return [
            {**r, "tokens": r["tokens"] + min(f["tokens"], DRAFT_TOKENS)} for r, f in zip(records, free, strict=True)
        ]

    def _records(self, results, answer=lambda value: value["answer"]):
        return [
            {
                "text": one.text,
                "answer": answer(one.value) if one.finished else None,
                "tokens": len(one.token_ids),
                "tax": one.trace.projection_tax,
            }
            for one in results
        ]


METHODS = ("free", "plain", "draft", "close", "writing", "plain_same_prompt")


def drafts(answers, count, path):
    """Figures of each method over ``count`` problems."""
    known = {(r["method"], r["item"]): r for r in kept(path)}
    items = problems(count)
    for first in range(0, count, BATCH):
        batch = range(first, min(first + BATCH, count))
        for method in METHODS:
            if all((method, i) in known for i in batch):
                continue
            free = [known.get(("free", i)) for i in batch]
            begun = time.perf_counter()
            made = getattr(answers, method)([items[i][0] for i in batch], free)
            seconds = (time.perf_counter() - begun) / len(batch)
            for i, record in zip(batch, made, strict=True):
                more = {"method": method, "item": i, "right": record["answer"] == items[i][1], "seconds": seconds}
                known[method, i] = json.loads(json.dumps({**record, **more}))
            if path:
                with path.open("a") as file:
                    file.writelines(json.dumps(known[method, i]) + "\n" for i in batch)
    return compared({m: [known[m, i] for i in range(count)] for m in METHODS})


def compared(records):
    """Accuracy, tax, tokens and seconds an item, and the gain over the plain way, item by item."""
    right = {method: np.array([r["right"] for r in rows], float) for method, rows in records.items()}
    figures = {}
    for method, rows in records.items():
        seconds = np.mean([r["seconds"] for r in rows])
        if method in ("draft", "close"):  # the draft was written by the free way, 48 of at most 64 tokens
            seconds += np.mean([f["seconds"] * min(1, DRAFT_TOKENS / f["tokens"]) for f in records["free"]])
        figures[method] = {
            "accuracy": interval(right[method]),
            "tokens": round(float(np.mean([r["tokens"] for r in rows])), 1),
            "seconds": round(float(seconds), 3),
        }
        if method != "free":
            figures[method]["tax"] = interval(np.array([r["tax"] for r in rows]))
    for method in ("draft", "close", "writing"):
        figures[method]["gain over plain"] = interval(right[method] - right["plain"])
        figures[method]["lost from free"] = interval(right["free"] - right[method])
    return {"items": len(right["free"]), **figures}


def interval(values, rounds=4000, seed=0):
    """Mean, and the bounds of its 95 % interval by bootstrap."""
    picked = np.random.default_rng(seed).integers(0, len(values), (rounds, len(values)))
    low, high = np.percentile(values[picked].mean(1), [2.5, 97.5])
    return [round(float(v), 3) for v in (values.mean(), low, high)]


def show_drafts(found):
    print(f"\n{found['items']} word problems, {TOKENS} tokens each: accuracy [95 %], projection tax, tokens, seconds")
    for method in METHODS:
        one = found[method]
        mean, low, high = one["accuracy"]
        tax = f"{one['tax'][0]:6.1f}" if "tax" in one else "     -"
        gain = f"  gain over plain {one['gain over plain']}" if "gain over plain" in one else ""
        print(
            f"  {method:18} {mean:.3f} [{low:.3f}, {high:.3f}]  {tax} {one['tokens']:6.1f} {one['seconds']:7.3f}{gain}"
        )


# the whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=sorted(PARTS))
    parser.add_argument("--results", type=Path, help="folder where results of items are kept")
    parser.add_argument("--names", help="names of all packages, for the guard")
    parser.add_argument("--bfcl", type=Path, help="the data of bfcl-eval, for the calls")
    parser.add_argument("--tokenizer", help="of the copies")
    options = parser.parse_args()
    if options.results:
        options.results.mkdir(parents=True, exist_ok=True)
    model, tokenizer = models.load(None)
    figures, bars = {}, {}
    for name, part in PARTS.items():
        if options.only in (None, name):
            figures[name], met = part(model, tokenizer, options)
            bars |= met
    for name, (value, limit, met) in bars.items():
        print(f"{'met ' if met else 'MISSED'} {name}: {value} ({limit})")
    if options.json:
        print(json.dumps({"figures": figures, "bars": bars}))


def drafts_part(model, tokenizer, options):
    path = options.results / "drafts.jsonl" if options.results else None
    found = drafts(Answers(model, tokenizer), 2 if options.quick else 512, path)
    show_drafts(found)
    count = found["items"]
    return found, {} if options.quick else {"drafts: problems": [count, ">= 500", count >= 500]}


PARTS = {
    "guard": guard_part,
    "drafts": drafts_part,
    "phases": phases_part,
    "budgets": budgets_part,
    "copy": copy_part,
    "forward": forward_part,
    "calls": calls_part,
}
"""Of each: from model, tokenizer and options to figures and bars."""


if __name__ == "__main__":
    main()
