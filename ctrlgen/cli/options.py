"""The options that say what a text must satisfy, shared by the commands."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli.sources import read_schema, read_text, shown
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.constraint import Specification

Schema = Annotated[str | None, typer.Option("--schema", metavar="FILE|-", help="A JSON Schema; - is standard input.")]
Pydantic = Annotated[
    str | None, typer.Option("--pydantic", metavar="MODULE:CLASS", help="A Pydantic model, e.g. shop.models:Order.")
]
Regex = Annotated[
    str | None, typer.Option("--regex", metavar="PATTERN", help="A regular expression that the whole text matches.")
]
Choices = Annotated[
    str | None, typer.Option("--choices", metavar="FILE|A,B,...", help="A file of texts, one a line, or a list.")
]
Grammar = Annotated[
    str | None,
    typer.Option("--grammar", metavar="FILE|NAME", help="A grammar, or one of the ready ones: json, sql, python ..."),
]
Syntax = Annotated[
    str | None,
    typer.Option("--syntax", metavar="lark|gbnf", help="Of --grammar; default: gbnf for FILE.gbnf, else lark."),
]
Start = Annotated[
    str | None, typer.Option("--start", metavar="RULE", help="Of --grammar; default: start, and root in GBNF.")
]
Lexer = Annotated[
    str | None,
    typer.Option(
        "--lexer",
        metavar="contextual|basic|dynamic",
        help="Of a --grammar of Lark's; default: what a ready one asks for.",
    ),
]

NAMES = "--schema, --pydantic, --regex, --choices or --grammar"


def specification(
    schema: str | None = None,
    pydantic: str | None = None,
    regex: str | None = None,
    choices: str | None = None,
    grammar: str | None = None,
    **of_grammar: str | None,
) -> Specification | None:
    """The specification that the options ask for, or None.

    Args:
        schema, pydantic, regex, choices, grammar: the values of those options.
        of_grammar: syntax, start and lexer, which say more about ``grammar``.

    Raises:
        InputError: two options are given, or a file or class cannot be read.
        SpecificationError: what it holds cannot be enforced.
    """
    options = {
        "--schema": schema, "--pydantic": pydantic, "--regex": regex, "--choices": choices, "--grammar": grammar
    }  # fmt: skip
    given = [(name, value) for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{' and '.join(name for name, _ in given)} are given; a text can be held to one: choose")
    for name, value in of_grammar.items():
        if value is not None and grammar is None:
            raise InputError(f"--{name} says more about --grammar, which is not given")
    if not given:
        return None
    ((name, value),) = given
    return _grammar(value, **of_grammar) if name == "--grammar" else _BUILDERS[name](value)


def required(specification: Specification | None) -> Specification:
    """``specification``, which must be there."""
    if specification is None:
        raise InputError(f"nothing to hold the text to: give one of {NAMES}")
    return specification


def _schema(name: str) -> Specification:
    from ctrlgen.constraints.json_schema import JsonSchema

    return JsonSchema(read_schema(name))


def _regex(pattern: str) -> Specification:
    from ctrlgen.constraints.regex import Regex

    return Regex(pattern)


def _choices(value: str) -> Specification:
    from ctrlgen.constraints.choice import Choice

    texts = _lines(value) if is_file(value) else [text.strip() for text in value.split(",")]
    if not all(texts):
        raise InputError(f"--choices {value!r} names an empty text; write yes,no")
    return Choice(texts)


def _grammar(
    value: str, syntax: str | None = None, start: str | None = None, lexer: str | None = None
) -> Specification:
    """A grammar from a file, or a ready one by name, with what the options say otherwise."""
    from ctrlgen.constraints.grammar import Grammar
    from ctrlgen.grammars.library import ready_grammar

    if not is_file(value) and Path(value).name == value and not Path(value).suffix:
        ready = ready_grammar(value)
        found: dict[str, Any] = {"text": ready.text, "syntax": "lark", "start": ready.start, "lexer": ready.lexer}
    else:
        notation = syntax or ("gbnf" if value.endswith(".gbnf") else "lark")
        found = {"text": read_text(value), "syntax": notation, "start": "root" if notation == "gbnf" else "start"}
    given = {"syntax": syntax, "start": start, "lexer": lexer}
    return Grammar(**(found | {name: text for name, text in given.items() if text is not None}))


def is_file(value: str) -> bool:
    """Whether an argument that is a file's name or a text itself is the name of a file."""
    try:
        return Path(value).is_file()
    except (OSError, ValueError):  # too long for a name, or with a NUL
        return False


def _lines(name: str) -> list[str]:
    texts = [line for line in read_text(name).splitlines() if line]
    if not texts:
        raise InputError(f"{shown(name)} has no choices: expected one a line")
    return texts


def _pydantic(value: str) -> Specification:
    from ctrlgen.constraints.json_schema import JsonSchema

    return JsonSchema(model_class(value))


def model_class(value: str) -> Any:
    """The Pydantic model at ``module:Class``, looked for in the working folder too."""
    from pydantic import BaseModel

    module, separator, name = value.partition(":")
    if not separator or not module or not name:
        raise InputError(f"--pydantic {value}: expected MODULE:CLASS, for instance shop.models:Order")
    found: Any = _module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, BaseModel)):
        raise InputError(f"--pydantic {value}: {module} has no Pydantic model {name}")
    return found


def _module(name: str) -> object:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module of the user may raise anything
        raise InputError(f"--pydantic: cannot import {name}: {type(error).__name__}: {error}") from error


_BUILDERS = {"--schema": _schema, "--pydantic": _pydantic, "--regex": _regex, "--choices": _choices}
