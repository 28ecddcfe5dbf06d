"""The ready grammars of the folder grammars/, by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from ctrlgen.errors import InputError
from ctrlgen.resources import folder

_LEXER = re.compile(r'// Use with lexer="(basic|dynamic)"\.')
"""The first line of a grammar that does not use the default lexer."""


@dataclass(frozen=True)
class ReadyGrammar:
    """A grammar of the library: the arguments of ``ctrlgen.Grammar``."""

    text: str
    lexer: Literal["contextual", "basic", "dynamic"]
    start: str = "start"
    syntax: Literal["lark"] = "lark"


def names() -> list[str]:
    """The names of all ready grammars, sorted.

    >>> names()[:3]
    ['arithmetic', 'chess_moves', 'csv_row']
    """
    return sorted(path.stem for path in folder("grammars").glob("*.lark"))


def ready_grammar(name: str) -> ReadyGrammar:
    """The ready grammar ``name``.

    Raises:
        InputError: there is none.

    >>> ready_grammar("sql").lexer
    'basic'
    """
    if name not in names():
        close = get_close_matches(str(name), names(), 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else f"; there are {', '.join(names())}"
        raise InputError(f"there is no ready grammar called {name!r}{hint}")
    text = (folder("grammars") / f"{name}.lark").read_text(encoding="utf-8")
    found = _LEXER.match(text)
    return ReadyGrammar(text, found[1] if found else "contextual")  # type: ignore[arg-type]
