"""Function calls of bfcl-eval (``pip download --no-deps bfcl-eval``, unpack it, ``--bfcl FOLDER`` with BFCL_v4_*.json).

*Validity*: for every item of every category a walk through the constraint that draws any allowed token, the end
included, within a budget; what comes out must parse, and validate under the item's schemas by an independent
validator (jsonschema). *Accuracy* with the default model, on the first items of each category, the same prompt and
budget: freely, with a lenient reading of the text (any JSON in it that looks like calls), and under the constraint.
A call is right if its name is, and every argument is one of the accepted ones; several calls in any order. Strings are
compared as the collection does: in lower case, without blanks and punctuation. Accuracy stops after ``MINUTES``.
"""

from __future__ import annotations

import json
import random
import re
import time

import numpy as np
from jsonschema import Draft202012Validator

import ctrlgen as cg
from ctrlgen.closing import closing_of
from ctrlgen.constraints.tools.python_types import with_json_types
from ctrlgen.engine.levels import set_bits

CATEGORIES = {"simple_python": 1, "multiple": 1, "parallel": None, "parallel_multiple": None}
"""Calls at most of each."""
BUDGET = {1: 96, None: 192}
MINUTES, BATCH = 10, 4
PROMPT = "You can call these functions:\n{}\nAnswer with a JSON array of calls and nothing else, such as {}."
SHOWN = '[{"name": "function", "arguments": {"parameter": "value"}}]'


def items_of(folder, category):
    answers = map(json.loads, (folder / "possible_answer" / f"BFCL_v4_{category}.json").read_text().splitlines())
    truth = {one["id"]: one["ground_truth"] for one in answers}
    items = map(json.loads, (folder / f"BFCL_v4_{category}.json").read_text().splitlines())
    return [{**one, "truth": truth[one["id"]]} for one in items]


def spec_of(item, most):
    return cg.ToolCalls(item["function"], "json", "required", most or True, python_types=True)


# validity


def walked(constraint, budget, rng):
    """The text of any tokens that are allowed, within a budget."""
    state, ids, closing = constraint.start, [], closing_of(constraint)
    for left in range(budget, 0, -1):
        token = int(rng.choice(set_bits(closing.row(constraint, state, left))))
        if token in constraint.vocabulary.eos:
            return constraint.vocabulary.decode(ids).decode()
        ids.append(token)
        state = constraint.advance(state, token)
    raise AssertionError("a walk did not end in time")


def valid(text, item, most):
    """Whether a text is calls that the item's functions can take, by json and jsonschema alone."""
    schemas = {one["name"]: with_json_types(one["parameters"]) for one in item["function"]}
    calls = json.loads(text)
    return 1 <= len(calls) <= (most or len(calls)) and all(
        set(call) == {"name", "arguments"} and Draft202012Validator(schemas[call["name"]]).is_valid(call["arguments"])
        for call in calls
    )


def validity(folder, vocabulary, quick):
    rng, found = np.random.default_rng(0), {}
    for category, most in CATEGORIES.items():
        items, good, begun = items_of(folder, category)[: 5 if quick else None], 0, time.perf_counter()
        for item in items:
            spec = spec_of(item, most)
            text = walked(spec.compile(vocabulary), BUDGET[most], rng)
            good += valid(text, item, most) and len(spec.parse(text)) >= 1
        found[category] = [good, len(items)]
        print(f"  {category:18} {good} of {len(items)} valid, {time.perf_counter() - begun:.0f} s", flush=True)
    return found


# accuracy


def kept(path):
    """Results of an earlier run."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def loose(value):
    """A value as the collection compares it."""
    if isinstance(value, str):
        return re.sub(r"[ \,\.\/\-\_\*\^]", "", value).lower().replace("'", '"')
    if isinstance(value, list):
        return [loose(one) for one in value]
    return value


def same(value, wanted):
    if isinstance(wanted, dict) and isinstance(value, dict):
        return right_arguments(value, wanted)
    if isinstance(wanted, list) and isinstance(value, list) and any(isinstance(one, dict) for one in wanted):
        return len(value) == len(wanted) and all(map(same, value, wanted))
    if isinstance(value, bool) != isinstance(wanted, bool):
        return False
    return loose(value) == loose(wanted)


def right_arguments(arguments, wanted):
    """Every argument one of the accepted ones; "" among these says that it may be left out."""
    return set(arguments) <= set(wanted) and all(
        any(same(arguments[name], one) for one in accepted if one != "" or arguments[name] == "")
        if name in arguments
        else "" in accepted
        for name, accepted in wanted.items()
    )


def right(calls, item):
    """Whether calls are the wanted ones, in any order: as bfcl-eval's ast_checker judges them."""
    left, functions = list(calls), {one["name"]: one["parameters"] for one in item["function"]}
    for wanted in item["truth"]:
        ((name, accepted),) = wanted.items()
        found = next((one for one in left if one["name"] == name and takes(functions[name], one["arguments"])
                      and right_arguments(one["arguments"], accepted)), None)  # fmt: skip
        if found is None:
            return False
        left.remove(found)
    return not left


def takes(parameters, arguments):
    """Whether all arguments are declared, and those that are required there."""
    return set(parameters["required"]) <= set(arguments) <= set(parameters["properties"])


def read_leniently(text):
    """Calls from any JSON in a text."""
    decoder, at, calls = json.JSONDecoder(), 0, []
    while (found := re.compile(r"[\[{]").search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, found.start())
        except ValueError:
            at = found.start() + 1
            continue
        for one in value if isinstance(value, list) else [value]:
            one = one.get("function", one) if isinstance(one, dict) else one
            arguments = one.get("arguments", one.get("parameters")) if isinstance(one, dict) else None
            if isinstance(arguments, dict) and isinstance(one.get("name"), str):
                calls.append({"name": one["name"], "arguments": arguments})
    return calls


def asked(item):
    functions = "\n".join(json.dumps(one) for one in item["function"])
    return [{"role": "system", "content": PROMPT.format(functions, SHOWN)}, *item["question"][0]]


def accuracy(model, tokenizer, folder, path, minutes, per_category):
    known = {(r["way"], r["id"]): r for r in kept(path)}
    begun = time.perf_counter()
    every = {name: items_of(folder, name)[:per_category] for name in CATEGORIES}
    for first in range(0, per_category, BATCH):
        for category, most in CATEGORIES.items():
            batch = every[category][first : first + BATCH]
            if all((way, item["id"]) in known for item in batch for way in ("free", "constrained")):
                continue
            if time.perf_counter() - begun > 60 * minutes:
                break
            prompts = [asked(item) for item in batch]
            limits = {"free": [None] * len(batch), "constrained": [spec_of(item, most) for item in batch]}
            for way, specs in limits.items():
                started = time.perf_counter()
                results = cg.generate(model, tokenizer, prompts, specs, max_new_tokens=BUDGET[most])
                seconds = (time.perf_counter() - started) / len(batch)
                for item, one in zip(batch, results, strict=True):
                    made = json.loads(one.text) if way == "constrained" else read_leniently(one.text)
                    record = {"way": way, "id": item["id"], "category": category, "text": one.text}
                    record |= {"right": right(made, item), "calls": len(made), "seconds": seconds}
                    record["valid"] = way == "constrained" and valid(one.text, item, most)
                    known[way, item["id"]] = record
                    if path:
                        with path.open("a") as file:
                            file.write(json.dumps(record) + "\n")
    return summed(known.values(), every)


def summed(records, every):
    wanted = {item["id"] for items in every.values() for item in items}
    figures = {}
    for category in CATEGORIES:
        rows = [one for one in records if one["category"] == category and one["id"] in wanted]
        for way in ("free", "constrained"):
            part = [one for one in rows if one["way"] == way]
            figures[f"{category}, {way}"] = {
                "n": len(part),
                "right": sum(one["right"] for one in part),
                "calls read": sum(one["calls"] > 0 for one in part),
                "valid": sum(one["valid"] for one in part),
                "seconds": round(sum(one["seconds"] for one in part) / max(1, len(part)), 2),
            }
    return figures


def calls_part(model, tokenizer, options):
    if options.bfcl is None:
        print("\ncalls: skipped, since --bfcl says not where the data is")
        return {}, {}
    random.seed(0)
    print("\nFunction calls: validity of walks")
    vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, model=model)
    found = {"validity": validity(options.bfcl, vocabulary, options.quick)}
    path = options.results / "calls.jsonl" if options.results else None
    minutes, items = (0, 0) if options.quick else (MINUTES, 200)
    found["accuracy"] = accuracy(model, tokenizer, options.bfcl, path, minutes, items)
    print("Accuracy: right, of which calls could be read, valid, of n; seconds an item")
    for name, one in found["accuracy"].items():
        print(f"  {name:32} {one['right']:4} {one['calls read']:4} {one['valid']:4} {one['n']:4} {one['seconds']:8}")
    good, count = map(sum, zip(*found["validity"].values(), strict=True))
    held = [one for name, one in found["accuracy"].items() if name.endswith("constrained")]
    good_texts, asked_for = sum(one["valid"] for one in held), sum(one["n"] for one in held)
    bars = {"calls: walks valid": [good, f"== {count}", good == count]}
    if asked_for:
        bars["calls: texts of the model valid"] = [good_texts, f"== {asked_for}", good_texts == asked_for]
    return found, bars
