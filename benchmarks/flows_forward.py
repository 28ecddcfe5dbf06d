"""JSON with long keys: what the constraint forces appended without asking the model, against all tokens asked for.

Three ways on the same orders, one text at a time and all in one batch: the plain one; ``fast_forward="verify"``, whose
tokens must be the same; and ``fast_forward=True``, in which keys are spelled as the tokenizer spells them and not as
the model would spell them, which changes what it reads and so may change its answers: counted is how often the text is
the same, and how often each is spelled as the tokenizer spells it. In float32, where several tokens read at once give
the logits that they give one by one, but for the last digits. Passes are forward passes, the
one over the prompt included; of a batch, until its last text is done.
"""

from __future__ import annotations

import time

import ctrlgen as cg
from ctrlgen import models

LONG = {
    "type": "object",
    "properties": {
        "customer_identification_number": {"type": "integer", "minimum": 0, "maximum": 999},
        "is_returning_customer_account": {"type": "boolean"},
        "preferred_delivery_time_window": {"enum": ["morning", "afternoon", "evening"]},
        "requested_payment_method_description": {"enum": ["invoice", "credit card", "cash on delivery"]},
        "number_of_separately_packed_boxes": {"type": "integer", "minimum": 1, "maximum": 99},
    },
    "additionalProperties": False,
}
LONG["required"] = list(LONG["properties"])
TOKENS = 150
WHO = ("customer 17, who is new here", "customer 402, a regular", "our old client 9", "number 881")
WHEN = ("in the morning", "after lunch", "in the evening, after six", "whenever it suits")
WHAT = ("Three boxes, paid by card.", "One box, invoice please.", "12 boxes, cash.")


def orders(count):
    return [f"Order from {WHO[i % 4]}, {WHEN[i // 4 % 4]}. {WHAT[i % 3]} As JSON." for i in range(count)]


def measured(model, tokenizer, prompts, spec, **options):
    begun = time.perf_counter()
    results = cg.generate(model, tokenizer, prompts, spec, max_new_tokens=TOKENS, chat=True, **options)
    return results, time.perf_counter() - begun


def forward(model, tokenizer, count, keys=None):
    """Passes and seconds of each way, texts one at a time and in a batch; of the first ``keys`` keys."""
    wanted = LONG["required"][:keys]
    schema = {**LONG, "properties": {key: LONG["properties"][key] for key in wanted}, "required": wanted}
    spec, prompts = cg.JsonSchema(schema), orders(count)
    ways = {"plain": {}, "verify": {"fast_forward": "verify"}, "fast": {"fast_forward": True}}
    measured(model, tokenizer, prompts[:1], spec)  # the first masks
    one = {name: {"passes": 0, "tokens": 0, "seconds": 0.0} for name in ways}
    made = {name: [] for name in ways}
    for prompt in prompts:
        for name, options in ways.items():
            results, seconds = measured(model, tokenizer, [prompt], spec, **options)
            made[name] += results
            one[name]["seconds"] += seconds
            one[name]["tokens"] += len(results[0].token_ids)
            one[name]["passes"] += results[0].trace.passes or len(results[0].token_ids)
    batch = {}
    for name, options in ways.items():
        results, seconds = measured(model, tokenizer, prompts, spec, **options)
        passes = max(r.trace.passes or len(r.token_ids) for r in results)
        batch[name] = {"passes": passes, "seconds": round(seconds, 3)}
    pairs = list(zip(made["plain"], made["fast"], strict=True))
    return {
        "orders": count,
        "one at a time": {name: {**f, "seconds": round(f["seconds"], 3)} for name, f in one.items()},
        "in a batch": batch,
        "verify, same tokens": sum(
            a.token_ids == b.token_ids for a, b in zip(made["plain"], made["verify"], strict=True)
        ),
        "fast, same text": sum(a.text == b.text for a, b in pairs),
        "plain, canonical": sum(canonical(tokenizer, one) for one, _ in pairs),
        "fast, canonical": sum(canonical(tokenizer, one) for _, one in pairs),
        "fast, valid": sum(one.finished and list(one.value) == wanted for _, one in pairs),
    }


def canonical(tokenizer, result):
    return list(result.token_ids[:-1]) == tokenizer(result.text, add_special_tokens=False)["input_ids"]


def forward_part(model, tokenizer, options):
    found = forward(*models.load(None, dtype="float32"), *((1, 2) if options.quick else (12,)))
    count, one, batch = found["orders"], found["one at a time"], found["in a batch"]
    print(f"\n{count} orders as JSON with long keys: passes and seconds, one at a time / in a batch")
    for name in one:
        passes, seconds = (f"{one[name][key]:8} / {batch[name][key]:7}" for key in ("passes", "seconds"))
        print(f"  {name:8} {passes}   {seconds}")
    print("  " + ", ".join(f"{name} {value}" for name, value in found.items() if isinstance(value, int)))
    ratios = {name: round(one["plain"]["passes"] / one[name]["passes"], 2) for name in ("verify", "fast")}
    same, bars = found["verify, same tokens"], {}
    bars["forward: verify, times fewer passes"] = [ratios["verify"], ">= 1.5", ratios["verify"] >= 1.5]
    bars["forward: verify, same tokens"] = [same, f"== {count}", same == count]
    bars["forward: fast, times fewer passes"] = [ratios["fast"], ">= 1.5", ratios["fast"] >= 1.5]
    bars["forward: fast, valid"] = [found["fast, valid"], f"== {count}", found["fast, valid"] == count]
    return found, bars
