"""Patterns and formats as automata over the content of a JSON string."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

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
