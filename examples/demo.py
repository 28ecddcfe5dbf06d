"""The main job: prompts in, records out that validate against a Pydantic model.

A 135M-parameter model answers ten prompts twice: freely, and held to the model's schema. The same weights, the
same prompts; what changes is which tokens it may choose.
"""

from __future__ import annotations

import json
import os
import time
from enum import Enum
from typing import Annotated

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads cost dear on a shared machine

import transformers
from pydantic import BaseModel, Field, ValidationError
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ctrlgen as cg
from ctrlgen import models


class Urgency(Enum):
    low = "low"
    normal = "normal"
    high = "high"


class Ticket(BaseModel):
    """What a help desk files."""

    customer: Annotated[str, Field(min_length=1, max_length=40)]
    summary: Annotated[str, Field(min_length=1, max_length=120)]
    urgency: Urgency
    refund: bool
    items: Annotated[list[Annotated[str, Field(max_length=30)]], Field(max_length=3)]
    amount: Annotated[int, Field(ge=0, le=5000)]


MESSAGES = [
    "Hello, this is Maria Lopez. The kettle I bought last week does not heat. I want my 35 euros back.",
    "Tom here. When will my order of two desk lamps arrive? No hurry.",
    "URGENT! Your charger smokes! Take it back and refund me 20 dollars! - Ken Sato",
    "Dear team, the invoice for 3 chairs (450 EUR) has the wrong address. Thank you, Anna Berg",
    "My headphones broke after a day. I'd like a new pair, no refund needed. Priya",
    "This is Lars Holm. I was charged twice for the same toaster, 60 each. Please pay one back.",
    'Hi, I am Chloé. Can I still add a "gift wrap" to the blue mug I ordered?',
    "The washing machine leaks and the kitchen is under water! Send someone now! Ahmed, unit 4",
    "Good morning, Mei Chen. The book and the pen arrived, thank you, all is fine.",
    "I, Otto Kranz, return the drill and the saw. Refund 210 as agreed.",
]


def ask(message: str) -> list[dict[str, str]]:
    fields = ", ".join(Ticket.model_fields)
    return [{"role": "user", "content": f"Write a JSON object with the keys {fields} for this message.\n\n{message}"}]


def bare(text: str) -> str:
    """From the first brace to the last: a free model may put its JSON between other words, and gets away with it."""
    return text[text.find("{") : text.rfind("}") + 1]


def is_valid(text: str) -> bool:
    """Judged by pydantic, which knows nothing of ctrlgen."""
    try:
        Ticket.model_validate_json(text)
    except ValidationError:
        return False
    return True


def main() -> None:
    console = Console(width=118)
    begun = time.perf_counter()
    transformers.utils.logging.disable_progress_bar()
    model, tokenizer = models.load(None)
    prompts = [ask(message) for message in MESSAGES]
    console.print(f"SmolLM2-135M-Instruct on {model.device}, loaded in {time.perf_counter() - begun:.1f} s")
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("generating", total=2)
        free = cg.generate(model, tokenizer, prompts, max_new_tokens=200)
        progress.advance(task)
        held = cg.generate(model, tokenizer, prompts, constraint=cg.JsonSchema(Ticket), max_new_tokens=200)
        progress.advance(task)
    table = Table("message", "valid\nbefore", "valid\nafter", "tokens", "masks'\nshare", "record")
    for message, before, after in zip(MESSAGES, free, held, strict=True):
        table.add_row(
            message[:34] + "…",
            _mark(is_valid(bare(before.text))),
            _mark(is_valid(after.text)),
            str(len(after.token_ids)),
            f"{after.trace.mask_share:.1%}",
            json.dumps(after.value.model_dump(mode="json"), ensure_ascii=False) if after.value else after.text,
        )
    console.print(table)
    console.print(
        f"valid before: {sum(is_valid(bare(r.text)) for r in free)} of {len(free)}, "
        f"after: {sum(is_valid(r.text) for r in held)} of {len(held)}; "
        f"greedy, one batch, {time.perf_counter() - begun:.0f} s in all"
    )


def _mark(yes: bool) -> str:
    return "[green]yes[/green]" if yes else "[red]no[/red]"


if __name__ == "__main__":
    main()
