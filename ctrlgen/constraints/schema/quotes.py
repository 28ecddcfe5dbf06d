"""Quotes: strings of a schema that are parts of a text, under a keyword of our own."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from ctrlgen.constraints.copy import UNITS, Copy

KEYWORD = "x-quote"
_ARGUMENTS = frozenset(("context", "unit", "least", "most"))


def is_quote(value: Any) -> bool:
    """Whether the value of the keyword has the form it must have."""
    if not isinstance(value, dict) or "context" not in value or not value.keys() <= _ARGUMENTS:
        return False
    context = value["context"]
    texts = [context] if isinstance(context, str) else context
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return False
    counts = [value[name] for name in ("least", "most") if value.get(name) is not None]
    return value.get("unit", UNITS[0]) in UNITS and all(isinstance(n, int) and not isinstance(n, bool) for n in counts)


def quote_text(value: dict[str, Any]) -> str:
    """The value of the keyword as text, by which a schema knows the quote."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


@lru_cache(16)
def copy_of(text: str) -> Copy:
    """What may be quoted, of what ``quote_text`` wrote.

    Raises:
        InputError: the numbers make no sense.
        UnsatisfiableError: the longest part is too short.
    """
    value = json.loads(text)
    arguments = {name: argument for name, argument in value.items() if name != "context" and argument is not None}
    return Copy(value["context"], **arguments)


def length(text: str, ascii: bool) -> int:
    """Bytes of the shortest quote, with the quotation marks."""
    return len(copy_of(text).shortest("ascii json" if ascii else "json")) + 2
