"""More of an attribute: reviews that end well, and reviews that do not.

    python examples/trace.py

The prompts say nothing; the guidance does.
"""

from __future__ import annotations

import ctrlgen as cg
from ctrlgen import models

PROMPTS = ["The film begins with", "I went to see this because", "The acting was"]


def main() -> None:
    model, tokenizer = models.load(dtype="float32")
    hmm = cg.HMM.named("smollm2-135m")
    positive = cg.Attribute.named("smollm2-135m.positive-review.factorised")
    ways = {
        "as it comes": [],
        "positive": [cg.Trace(hmm, positive, a=8.0, tokens=24)],
        "not positive": [cg.Trace(hmm, ~positive, a=8.0, tokens=24)],
    }
    for name, steer in ways.items():
        print(f"# {name}")
        results = cg.generate(model, tokenizer, PROMPTS, steer=steer, max_new_tokens=24, seed=0)
        for prompt, result in zip(PROMPTS, results, strict=True):
            print(f"  {prompt}{result.text!r}")


if __name__ == "__main__":
    main()
