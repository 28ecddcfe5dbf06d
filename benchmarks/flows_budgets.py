"""Every flow at every budget from the least it states, and what free text with constrained parts costs a step.

*budgets*: a toy model with random logits over single bytes and some longer tokens writes texts in each flow at each
``max_new_tokens`` from the least that ``BudgetError`` states; counted are texts that did not finish, that are longer
than the budget, or that cannot be read back. One token less must be refused. *phases*: the masks of ``phases.py`` over
the default model's vocabulary.
"""

from __future__ import annotations

import time

import phases

import ctrlgen as cg
from ctrlgen.testing import ToyLM, ToyTokenizer

SOURCE = "Ada wrote the first program in 1843. She lived in London."
PIECES = [
    b'{"',
    b'": ',
    b'"}',
    b"</think>",
    b"</thi",
    b"pip install ",
    b" numpy",
    b"nu",
    b"<q>",
    b"</q>",
    b"Ada ",
    b" in",
]
CALLED = {"name": "time", "parameters": {"properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"]}}


def flows():
    """Name, specification, options of ``generate``."""
    answer = phases.SCHEMA
    copy = cg.Copy(SOURCE, unit="word", most=4)
    return {
        "JSON": (answer, {}),
        "JSON, verify": (answer, {"fast_forward": "verify"}),
        "JSON, fast": (answer, {"fast_forward": True}),
        "until a mark": (cg.Free(until="</think>") >> answer, {}),
        "until EOS": (cg.Thinking(answer, end=cg.EOS), {}),
        "thinking": (cg.Thinking(answer), {}),
        "dispatch": (cg.Dispatch({"<q>": copy >> "</q>"}, least=1, most=3), {}),
        "copy": (copy, {}),
        "quote": (cg.JsonSchema({"type": "array", "items": cg.Quote(SOURCE), "minItems": 1}), {}),
        "guard": (cg.PackageGuard(["numpy", "numba"], context="pip install n"), {}),
        "tool calls": (cg.ToolCalls([CALLED], "hermes", "required"), {}),
    }


def least(ask):
    """The budget that ``BudgetError`` states; 1 where a single token will do."""
    try:
        ask(1)
    except cg.BudgetError as refused:
        return refused.needed
    return 1


def faults(spec, options, vocabulary, more):
    """(texts, faults, least budget) over budgets from the least one on."""
    seed = 0

    def ask(budget):
        model = ToyLM(vocabulary, scale=2.0 + seed % 5)
        options_ = {"vocabulary": vocabulary, "do_sample": True, "seed": seed, "trace": False, **options}
        return cg.generate(model, ToyTokenizer(vocabulary), ["x", "yz"], spec, max_new_tokens=budget, **options_)

    first, count, wrong = least(ask), 0, 0
    if first > 1:
        try:
            ask(first - 1)
            wrong += 1
        except cg.BudgetError:
            pass
    for budget in range(first, first + more):
        seed += 1
        for one in ask(budget):
            count += 1
            wrong += not (one.complete and len(one.token_ids) <= budget and readable(one))
    return count, wrong, first


def readable(result):
    try:
        return result.value is not None
    except cg.CtrlgenError:
        return False


def budgets_part(model, tokenizer, options):
    vocabulary = cg.Vocabulary([*(bytes([b]) for b in range(256)), None, *PIECES], eos=[256])
    found, begun = {}, time.perf_counter()
    for name, (spec, more) in flows().items():
        count, wrong, first = faults(spec, more, vocabulary, 3 if options.quick else 60)
        found[name] = {"least budget": first, "texts": count, "faults": wrong}
    texts, wrong = (sum(one[key] for one in found.values()) for key in ("texts", "faults"))
    print(f"\n{texts} texts of random logits, every flow at every budget: {time.perf_counter() - begun:.0f} s")
    for name, one in found.items():
        print(f"  {name:14} " + ", ".join(f"{key} {value}" for key, value in one.items()))
    return found, {"budgets: texts that do not end validly": [wrong, 0, wrong == 0]}


def phases_part(model, tokenizer, options):
    phases.measured(cg.Vocabulary([*(bytes([b]) for b in range(256)), None], eos=256))  # compiles the kernels
    vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, model=model)
    cg.Regex('"[^"]*"').compile(vocabulary).mask(1)  # what every constraint needs of a vocabulary
    found = phases.measured(vocabulary)
    print(f"\nFree text with constrained parts, {len(vocabulary)} ids: masks and steps")
    for name, one in found.items():
        print(f"  {name:16}" + "".join(f"  {key} {value}" for key, value in one.items()))
    return found, {}
