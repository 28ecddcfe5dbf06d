"""Patterns and formats as automata over the content of a JSON string."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.formats import ASCII_FORMATS, format_automaton
from ctrlgen.errors import ComplexityError, RegexError, SchemaError
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton
    from ctrlgen.grammars.lowering import Escapes


def pattern_automaton(pattern: str, escapes: Escapes, pointer: str) -> Automaton:
    """The content of JSON strings in which the pattern is found.

    Raises:
        SchemaError: the pattern is wrong.
        ComplexityError: it takes too many states.
    """
    try:
        return found(pattern, escapes)
    except RegexError as error:
        raise SchemaError(str(error), pointer=pointer, keyword="pattern") from error
    except ComplexityError as error:
        raise ComplexityError(f"#{pointer}/pattern: {error}") from error


@lru_cache(1024)
def found(pattern: str, escapes: Escapes) -> Automaton:
    """The same, with the errors of regular expressions."""
    return compile_regex(pattern, dialect="ecma", search=True, json=True, escapes=escapes)


WIDER = {
    "date": r"^\d{4}-\d{2}-\d{2}$",
    "time": r"^\d{2}:\d{2}:\d{2}(\.\d+)?([zZ]|[+-]\d{2}:\d{2})$",
    "date-time": r"^\d{4}-\d{2}-\d{2}[tT]\d{2}:\d{2}:\d{2}(\.\d+)?([zZ]|[+-]\d{2}:\d{2})$",
    "email": "@",
    "idn-email": "@",
    "hostname": "^[A-Za-z0-9.-]*$",
    "uri-template": r"""^[^\x00-\x20"<>\\^`|]*$""",
    "relative-json-pointer": r"^\d+([+-]\d+)?(#|(/.*)?)$",
    "regex": "",
}
"""Where a format's automaton reads only a part of the format: a pattern that finds all of it, and more.

What does not meet such a format is taken to be what this pattern does not find: a part of it, and nothing else.
"""


def language(kind: str, name: str, escapes: Escapes, *, met: bool = True) -> Automaton:
    """The content of the strings of a pattern or format.

    Args:
        kind: "pattern" or "format".
        name: which one.
        escapes: the spellings.
        met: False for a language that leaves nothing out, to be subtracted from others.
    """
    if kind == "format" and (met or name not in WIDER):
        # nobody escapes what needs none in a date, and without such spellings the automaton is an eighth as large
        return format_automaton(name, "canonical" if met and name in ASCII_FORMATS else escapes)
    return found(WIDER[name] if kind == "format" else name, escapes)
