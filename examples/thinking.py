"""Think freely, then answer in a format: three ways to end the thinking.

    python examples/thinking.py

The answer is valid JSON each time, and the thinking is what the model says anyway.
"""

from __future__ import annotations

import ctrlgen as cg
from ctrlgen import models

SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "integer", "minimum": 0, "maximum": 999}},
    "required": ["answer"],
    "additionalProperties": False,
}
QUESTIONS = [
    "Tom has 3 apples. Tom gets 4 more. How many apples does Tom have now?",
    "A box holds 6 eggs. How many eggs are in 2 boxes?",
]
ANSWER = cg.JsonSchema(SCHEMA)
WAYS = {
    # any model: where it would end, it answers instead
    "where the model would end": cg.Thinking(ANSWER, end=cg.EOS, keep=16),
    # what thinking models write; this one does not, so the budget sees to it
    "at a mark, in time": cg.Thinking(ANSWER, end="</think>", keep=0.3),
    # free text in which every equals sign is followed by a number
    "at every equals sign": cg.Dispatch({"=": cg.Regex(" [0-9]{1,3}")}),
}


def main() -> None:
    model, tokenizer = models.load(dtype="float32")
    prompts = [[{"role": "user", "content": question}] for question in QUESTIONS]
    for name, spec in WAYS.items():
        print(f"# {name}")
        for made in cg.generate(model, tokenizer, prompts, spec, max_new_tokens=64, temperature=0.7, seed=0):
            for part in made.value.parts:
                print(f"  {'free' if part.free else 'held'} after {part.trigger!r}: {part.text.strip()!r}")
            print(f"  -> {made.value.answer!r}, {len(made.token_ids)} tokens\n")


if __name__ == "__main__":
    main()
