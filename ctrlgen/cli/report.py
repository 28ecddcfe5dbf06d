"""``ctrlgen report``: what of a schema is enforced, and what that costs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.cli import options
from ctrlgen.cli.sources import STDIN, read_schema
from ctrlgen.errors import InputError, SchemaError

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint, Specification
    from ctrlgen.vocabulary import Vocabulary

Entry = dict[str, str | None]
Cost = dict[str, int | float | None]

MAX_BUILT = 20_000
"""Parts of a schema that are built to be counted; each takes about 0.1 ms."""

_ESSENTIAL = ("type", "$ref", "enum", "const", "properties", "items")

_LABELS = {
    "nodes": "nodes",
    "states": "states of automata",
    "compile_seconds": "seconds to compile",
    "shortest_bytes": "shortest output, bytes",
    "shortest_tokens": "shortest output, tokens",
}


def report(
    schema: options.Schema = None,
    pydantic: options.Pydantic = None,
    tokenizer: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="Count tokens of this one; llama3, qwen3 ... or a folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """What of a schema is enforced, and what that costs.

    Exit status 0 if all of it is enforced, 1 if something is refused; then the last column says what to write
    instead, where there is something, or why not.
    """
    document = _document(schema, pydantic)
    vocabulary = None if tokenizer is None else _vocabulary(tokenizer)
    entries, specification = _examined(document)
    refused = any(entry["status"] == "refused" for entry in entries)
    cost = None if refused or specification is None else _cost(specification, vocabulary)
    if as_json:
        typer.echo(json.dumps({"entries": entries, "cost": cost}, ensure_ascii=False, indent=2))
    else:
        _show(entries, cost)
    if refused:
        raise typer.Exit(1)


def _document(schema: str | None, pydantic: str | None) -> Any:
    """The schema, as a value of its own that may be changed."""
    if (schema is None) == (pydantic is None):
        raise InputError("give one schema: --schema FILE or --pydantic MODULE:CLASS")
    return options.model_class(pydantic).model_json_schema() if pydantic is not None else read_schema(schema or STDIN)


def _examined(document: Any) -> tuple[list[Entry], Specification | None]:
    """What becomes of each keyword. A refused one is taken out of ``document`` and the rest looked at again."""
    from ctrlgen.constraints.json_schema import JsonSchema

    refused: list[Entry] = []
    while True:
        try:
            specification = JsonSchema(document)
            rows = [_entry(row.pointer, row.keyword, row.status) for row in specification.report()]
            return [*refused, *rows], specification
        except SchemaError as error:
            refused.append(_entry(error.pointer, error.keyword, "refused", error.rewrite or _reason(error)))
            if not _taken_out(document, error.pointer, error.keyword):
                return refused, None


def _entry(pointer: str, keyword: str | None, status: str, note: str | None = None) -> Entry:
    return {"pointer": f"#{pointer.removeprefix('#')}", "keyword": keyword, "status": status, "note": note}


def _reason(error: SchemaError) -> str:
    """The message without the place that it begins with."""
    return str(error).partition(": ")[2].partition("\n")[0]


def _taken_out(document: Any, pointer: str, keyword: str | None) -> bool:
    """Remove a keyword, unless others would make no sense without it; whether it was removed."""
    place = document
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        try:
            place = place[int(part)] if isinstance(place, list) else place[part]
        except (LookupError, TypeError, ValueError):
            return False
    if not isinstance(place, dict) or keyword not in place or keyword in _ESSENTIAL:
        return False
    del place[keyword]
    return True


def _vocabulary(name: str) -> Vocabulary:
    from ctrlgen import models
    from ctrlgen.models.catalogue import TOKENIZERS
    from ctrlgen.vocabulary import Vocabulary

    if name in TOKENIZERS:
        return Vocabulary.from_tokenizer(models.tokenizer(name))
    if not Path(name).expanduser().exists():
        raise InputError(f"--tokenizer {name}: there is no such folder; known by name are {', '.join(TOKENIZERS)}")
    return Vocabulary.from_tokenizer(Path(name).expanduser())


def _cost(specification: Specification, vocabulary: Vocabulary | None) -> Cost:
    from ctrlgen.cli.walk import byte_vocabulary
    from ctrlgen.engine.machine import Machine  # imported before the clock starts

    begun = time.perf_counter()
    constraint = specification.compile(vocabulary or byte_vocabulary())
    seconds = time.perf_counter() - begun
    network = constraint.network if isinstance(constraint, Machine) else None
    if network is not None:
        network.build_all(MAX_BUILT)  # what a text meets only later is counted too
    return {
        "nodes": None if network is None else network.size,
        "states": None if network is None else len(network.lexicon.shortest),
        "compile_seconds": round(seconds, 4),
        "shortest_bytes": _shortest(specification.compile(byte_vocabulary())),
        "shortest_tokens": None if vocabulary is None else _shortest(constraint),
    }


def _shortest(constraint: Constraint) -> int:
    """Tokens of the shortest output, without the end token."""
    return constraint.distance(constraint.start) - 1


def _show(entries: list[Entry], cost: Cost | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    noted = any(entry["note"] for entry in entries)
    table = Table("where", "keyword", "", *(["write instead, or why"] if noted else []))
    for entry in entries:
        style = {"refused": "red", "annotation": "dim"}.get(entry["status"] or "", "")
        cells = [entry["pointer"], entry["keyword"], entry["status"], *([entry["note"]] if noted else [])]
        table.add_row(*(Text(cell or "", style) for cell in cells))
    console.print(table)
    for name, value in (cost or {}).items():
        if value is not None:
            console.print(f"{_LABELS[name]:24} {value:,}")
