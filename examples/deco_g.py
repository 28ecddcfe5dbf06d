"""A format that comes naturally: words that end in a verdict, with and without look-ahead.

    python examples/deco_g.py

The mask alone lets a text run on until the budget forces its end; look-ahead makes the model come to the point.
"""

from __future__ import annotations

import ctrlgen as cg
from ctrlgen import models

VERDICT = cg.Template(cg.Regex("[A-Za-z ,.']+"), "Verdict: ", ["good", "bad"], ".")
PROMPTS = ["The film begins with", "I went to see this because", "The acting was"]
BUDGET = 40


def main() -> None:
    model, tokenizer = models.load(dtype="float32")
    hmm = cg.HMM.named("smollm2-135m")
    for name, steer in {"mask": [], "mask and look-ahead": [cg.DecoG(hmm, VERDICT, tokens=BUDGET)]}.items():
        print(f"# {name}")
        results = cg.generate(model, tokenizer, PROMPTS, VERDICT, steer=steer, max_new_tokens=BUDGET, seed=0)
        for prompt, result in zip(PROMPTS, results, strict=True):
            print(f"  {prompt}{result.text!r}")


if __name__ == "__main__":
    main()
