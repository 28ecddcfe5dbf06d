"""Citations that are real: prose with quotes, and JSON with evidence, copied from a text.

    python examples/citations.py

Whatever a small model claims, what it quotes stands in the text, and the place is known.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel

import ctrlgen as cg
from ctrlgen import models

SOURCE = (
    "The lighthouse was built in 1891. Its lamp was lit with oil until 1924, when electricity came to the island. "
    'The last keeper, Ruth Ellis, left in 1978 and wrote: "Nobody waves back any more."'
)


class Claim(BaseModel):
    """An answer with its evidence."""

    answer: Annotated[str, cg.Quote(SOURCE, unit="word", most=4)]
    evidence: Annotated[str, cg.Quote(SOURCE, unit="sentence", most=1)]


QUESTIONS = ["When was the lighthouse built?", "Who was the last keeper?"]
WAYS = {
    "a sentence": cg.Copy(SOURCE, unit="sentence", most=1),
    "prose that ends with a quote": cg.Free(until='"', max_tokens=20) >> cg.Copy(SOURCE, unit="word", most=8) >> '"',
    "an answer with evidence": cg.JsonSchema(Claim),
}


def main() -> None:
    model, tokenizer = models.load(dtype="float32")
    prompts = [[{"role": "user", "content": f"{SOURCE}\n\n{question}"}] for question in QUESTIONS]
    for name, spec in WAYS.items():
        print(f"# {name}")
        results = cg.generate(model, tokenizer, prompts, spec, max_new_tokens=80)
        for question, made in zip(QUESTIONS, results, strict=True):
            print(f"{question} {made.text.strip()}")
            for span in spans(made.value):
                assert SOURCE[span.start : span.end] == span
                print(f"    {span.start}-{span.end}: {span!r}")
        print()


def spans(value: object) -> list[cg.Span]:
    """What a result quotes."""
    if isinstance(value, Claim):
        return [part for part in (value.answer, value.evidence) if isinstance(part, cg.Span)]
    parts = value.values if isinstance(value, cg.Parts) else [value]
    return [part for part in parts if isinstance(part, cg.Span)]


if __name__ == "__main__":
    main()
