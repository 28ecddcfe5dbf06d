"""The text of a Lark grammar, looked through before Lark reads it: its strings, regular expressions and brackets.

Lark finds strings with regular expressions that take exponential time where a quote is missing, and its transformers
recurse into brackets. Both are found here, in one pass, with the place.
"""

from __future__ import annotations

from ctrlgen.errors import ComplexityError, GrammarError

MAX_CHARACTERS = 200_000
"""Of a grammar's text; Lark reads some 30,000 in a second."""

MAX_DEPTH = 60
"""Brackets within brackets."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def check_text(text: str) -> None:
    """Look through the text of a grammar.

    Raises:
        GrammarError: a string, a regular expression or a bracket is never closed, or the text is not Unicode.
        ComplexityError: it is too long or nests too deeply.
    """
    if len(text) > MAX_CHARACTERS:
        raise ComplexityError(
            f"the grammar has {len(text)} characters, the limit is {MAX_CHARACTERS} (no option raises it)"
        )
    position = 0
    brackets: list[int] = []
    while position < len(text):
        character = text[position]
        if "\ud800" <= character <= "\udfff":
            raise error_at(text, position, "half of a surrogate pair is no character; expected Unicode text")
        if character == "#" or text.startswith("//", position):
            position = _end_of_line(text, position)
        elif character in "\"'":
            position = _end_of_string(text, position)
        elif character == "/":
            position = _end_of_regexp(text, position)
        else:
            _follow_brackets(text, position, brackets)
            position += 1
    if brackets:
        raise error_at(text, brackets[-1], f"this {text[brackets[-1]]} is never closed")


def error_at(text: str, position: int, message: str) -> GrammarError:
    """An error that shows the place ``position``, an index into ``text``."""
    line = text.count("\n", 0, position) + 1
    return GrammarError(message, text, line, position - text.rfind("\n", 0, position))


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _end_of_string(text: str, opened: int) -> int:
    if text[opened] == "'":
        raise error_at(text, opened, 'Lark writes strings with double quotes, "..."')
    position = opened + 1
    while position < len(text) and text[position] != "\n":
        if text[position] == '"':
            return position + 1
        position += 2 if text.startswith(('\\"', "\\\\"), position) else 1
    raise error_at(
        text, opened, 'this string is never closed: expected " in the same line; write \\" for the character'
    )


def _end_of_regexp(text: str, opened: int) -> int:
    position = opened + 1
    while position < len(text):
        if text[position] == "/":
            return position + 1
        position += 2 if text.startswith(("\\/", "\\\\"), position) else 1
    raise error_at(text, opened, "this regular expression is never closed: expected /; write \\/ for the character")


def _follow_brackets(text: str, position: int, brackets: list[int]) -> None:
    character = text[position]
    if character in _CLOSING:
        brackets.append(position)
        if len(brackets) > MAX_DEPTH:
            raise ComplexityError(
                f"brackets nest more than {MAX_DEPTH} deep (no option raises this limit); give inner ones a rule"
            )
    elif character in _CLOSING.values():
        if not brackets:
            raise error_at(text, position, f"this {character} closes nothing")
        expected = _CLOSING[text[brackets[-1]]]
        if character != expected:
            raise error_at(text, position, f"this {character} does not close the {text[brackets[-1]]} before it")
        brackets.pop()
