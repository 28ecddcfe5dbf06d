"""``ctrlgen check``: whether a text satisfies a constraint, and if not, where it leaves it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli import options
from ctrlgen.cli.sources import STDIN, read_bytes
from ctrlgen.errors import InputError, caret

if TYPE_CHECKING:
    from ctrlgen.cli.walk import Walk
    from ctrlgen.constraint import Constraint, Specification

WIDTH = 100
"""Bytes of a completed text that are shown, counted from its end."""

OTHER_SPELLING = (
    "The text is valid JSON for the schema, but spelled in a way that is not generated (white space, order of names, "
    "escapes)."
)


def check(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT|FILE|-", help="A file, a text, or standard input (-, the default).")
    ] = None,
    schema: options.Schema = None,
    pydantic: options.Pydantic = None,
    regex: options.Regex = None,
    choices: options.Choices = None,
    grammar: options.Grammar = None,
    syntax: options.Syntax = None,
    start: options.Start = None,
    lexer: options.Lexer = None,
) -> None:
    """Does a text satisfy a constraint? Needs no model.

    Exit status 0 if it does; 1 if it does not, and then the place and what was expected there are shown. JSON has to be
    spelled the way it is generated. One newline at the end of a file is no part of the text.
    """
    if schema == STDIN and text in (None, STDIN):
        raise InputError("schema and text cannot both come from standard input; give one of them as a file")
    specification = options.required(
        options.specification(schema, pydantic, regex, choices, grammar, syntax=syntax, start=start, lexer=lexer)
    )
    constraint, found = _followed(specification, *_content(text))
    if found.accepted:
        typer.echo("yes")
        return
    typer.echo("\n".join(["no: " + where(found), *hints(constraint, found)]))
    if (schema is not None or pydantic is not None) and _takes(specification, found.text):
        typer.echo(OTHER_SPELLING)
    raise typer.Exit(1)


def _content(text: str | None) -> tuple[bytes, bool]:
    """What to check, and whether it comes from a file, whose last newline does not count."""
    if text is None and sys.stdin.isatty():
        raise InputError("no text to check: give a text or a file, or pipe one in")
    if text is None or text == STDIN or options.is_file(text):
        return read_bytes(text or STDIN), True
    return text.encode(errors="surrogateescape"), False


def _followed(specification: Specification, content: bytes, from_file: bool) -> tuple[Constraint, Walk]:
    from ctrlgen.cli.walk import byte_vocabulary, walk

    constraint = specification.compile(byte_vocabulary())
    found = walk(constraint, content)
    if from_file and not found.accepted and content.endswith(b"\n"):
        found = walk(constraint, content[:-1])
    return constraint, found


def where(found: Walk) -> str:
    """The place that was reached: line and column from 1, what stands there, and a caret."""
    before = found.text[: found.end].decode(errors="replace")
    rest = found.text[found.end :].decode(errors="replace")
    number, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1)
    line = before[len(before) - column :] + rest.split("\n", 1)[0]
    what = f"{rest[0]!r} cannot stand here" if rest else "the text ends too early"
    return f"line {number}, column {column + 1}: {what}\n{caret(line, column)}"


def hints(constraint: Constraint, found: Walk) -> list[str]:
    """What was expected there, and a shortest text that goes on from there."""
    from ctrlgen.cli.expected import expected, visible
    from ctrlgen.cli.walk import completion

    ways = expected(constraint, found.state)
    lines = [f"expected {'one of' if len(ways) > 1 else ''}: {', '.join(ways)}".replace(" :", ":")]
    rest = completion(constraint, found.state)
    if rest is None:
        return [*lines, f"to finish takes {constraint.distance(found.state) - 1} more bytes"]
    text = found.text[: found.end] + rest
    cut = text if len(text) <= WIDTH else text[-WIDTH:]
    return [*lines, f"shortest text from here: {'...' if cut != text else ''}{visible(cut)}"]


def _takes(specification: Any, text: bytes) -> bool:
    """Whether the text is JSON that another validator takes; False where there is none to ask."""
    try:
        if specification.model is not None:
            specification.parse(text.decode())
            return True
        import jsonschema  # type: ignore[import-untyped]
    except (ImportError, ValueError):  # pydantic's ValidationError is a ValueError
        return False
    try:
        jsonschema.validate(json.loads(text), json.loads(specification.text))
    except (ValueError, RecursionError, jsonschema.exceptions.ValidationError, jsonschema.exceptions.SchemaError):
        return False
    return True
