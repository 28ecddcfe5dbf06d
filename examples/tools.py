"""Tool calls with the default model, which was trained on none: functions in, validated calls out.

OMP_NUM_THREADS=1 python examples/tools.py
"""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Literal

from pydantic import Field

import ctrlgen as cg
from ctrlgen import models

Place = Annotated[str, Field(max_length=20)]


def weather(city: Place, days: Annotated[int, Field(ge=1, le=9)] = 1) -> str:
    """The weather of a city for some days."""
    return f"{days} days of sun in {city}"


def book_table(restaurant: Place, day: date, seats: Annotated[int, Field(ge=1, le=20)]) -> str:
    """Book a table in a restaurant."""
    return f"{seats} seats at {restaurant} on {day:%d %B %Y}"


def convert(amount: Annotated[float, Field(ge=0, le=10000)], to: Literal["EUR", "USD", "JPY"]) -> str:
    """Convert an amount of money."""
    return f"{amount} in {to}"


FUNCTIONS = {one.__name__: one for one in (weather, book_table, convert)}
QUESTIONS = (
    "What will the weather be in Paris for 3 days?",
    "Book a table for 4 at Luigi on 2025-03-14.",
    "How much is 250 in USD?",
)


def main() -> None:
    """Ask each question, call what is called."""
    model, tokenizer = models.load(None)
    spec = cg.ToolCalls(list(FUNCTIONS.values()), format="json", choice="required", parallel=False)
    shown = "\n".join(json.dumps(one["function"]) for one in spec.definitions)
    for question in QUESTIONS:
        prompt = f"Functions:\n{shown}\n\nAnswer with a JSON array of calls.\nQuestion: {question}"
        result = cg.generate(model, tokenizer, prompt, spec, chat=True, max_new_tokens=80)
        at_once = cg.call_in_parallel(model, tokenizer, prompt, spec, chat=True, max_argument_tokens=24)
        print(f"\n{question}\n  {result.text}")
        for name, arguments in result.value:
            print(f"  -> {FUNCTIONS[name](**arguments)}")
        print(f"  arguments at once, {at_once.passes} passes for {at_once.tokens} tokens: {at_once.text}")


if __name__ == "__main__":
    main()
