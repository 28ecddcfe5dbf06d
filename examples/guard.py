"""A model that may only name packages there are.

    python examples/guard.py [names.txt.gz]

Without a list, a short one shows how the guard steers a model away from what it would have made up.
"""

from __future__ import annotations

import sys

import ctrlgen as cg
from ctrlgen import models

NAMES = ["numpy", "pandas", "openpyxl", "requests", "pillow", "pyyaml", "matplotlib", "scipy", "flask"]
PROMPTS = [
    "How do I read an Excel file in Python? Give me the pip install command first.",
    "Which packages do I need to plot a map? One pip install line, please.",
    "What is the capital of France?",
]


def main() -> None:
    model, tokenizer = models.load(dtype="float32")
    guard = cg.PackageGuard(sys.argv[1] if len(sys.argv) > 1 else NAMES)
    for prompt, made in zip(
        PROMPTS,
        cg.guarded(model, tokenizer, PROMPTS, guard, chat=True, max_new_tokens=48, trace=False),
        strict=True,
    ):
        print(f"> {prompt}\n{made.text}")
        for one in made.interventions:
            print(f"  at character {one.start} the model wanted {one.wanted!r} and got {one.got!r}")
        print(f"  not on the list: {[found.text for found in guard.check(made.text)]}\n")


if __name__ == "__main__":
    main()
