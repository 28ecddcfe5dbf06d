"""``ctrlgen hmm attribute fit``: weights of tokens from labelled texts."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

from ctrlgen.errors import InputError

_LONGEST = 1 << 24  # characters of a cell of a table
_AT_ONCE = 500  # texts cut into tokens, so that no more of their other properties are in memory

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@commands.callback()
def attribute() -> None:
    """Attributes of texts, for cg.Trace."""


@commands.command()
def fit(
    table: Annotated[Path, typer.Argument(metavar="CSV", help="Labelled texts, with names of columns at the top.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="The attribute; whole, or not there at all.")],
    tokenizer: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="llama3, qwen3 ... or a folder; default: SmolLM2's.")
    ] = None,
    text: Annotated[str, typer.Option(metavar="NAME", help="The column of texts.")] = "text",
    label: Annotated[str, typer.Option(metavar="NAME", help="The column of labels.")] = "label",
    positive: Annotated[str, typer.Option(metavar="VALUE", help="The label of texts that have the attribute.")] = "1",
    kind: Annotated[str, typer.Option(metavar="KIND", help="logistic or factorised.")] = "logistic",
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Texts are cut into pieces so long.")] = 32,
    penalty: Annotated[float, typer.Option(metavar="X", min=0, help="Larger keeps weights smaller.")] = 1.0,
    largest: Annotated[float, typer.Option(metavar="X", min=1e-3, help="Bound on logistic weights.")] = 1.0,
    width: Annotated[int | None, typer.Option(metavar="N", min=1, help="Columns of the model's logits.")] = None,
) -> None:
    """Fit an attribute to labelled texts. Each tenth text is kept to measure with.

    A text is cut into pieces of the length that texts will be steered over; each has the label of the whole.
    """
    from ctrlgen import models
    from ctrlgen.cli.index import tokenizer_of
    from ctrlgen.hmm.classifier import examples, fit_attribute

    cut, vocabulary = tokenizer_of(str(models.default_model()) if tokenizer is None else tokenizer, None, width)
    rows = list(_rows(table, text, label))
    if all(mark != positive for _, mark in rows):
        seen = ", ".join(sorted({mark for _, mark in rows})[:5])
        raise InputError(f"no text of {table} has the label {positive!r}, but {seen or 'none'}: see --positive")
    read = _read(rows, cut, tokens)
    made = fit_attribute(
        examples(read.texts, vocabulary.width), [mark == positive for mark in read.marks], kind=kind, penalty=penalty,
        largest=largest, held_out=np.array(read.apart),
        card={"table": table.name, "positive": positive, "tokens": tokens},
    )  # fmt: skip
    made.save(out)
    typer.echo(json.dumps({"weights": int((made.weights != 0).sum())} | dict(made.card)))


@commands.command()
def each(
    table: Annotated[Path, typer.Argument(metavar="CSV", help="Labelled texts, with names of columns at the top.")],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="For an attribute of each label; made if missing.")],
    tokenizer: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="llama3, qwen3 ... or a folder; default: SmolLM2's.")
    ] = None,
    text: Annotated[str, typer.Option(metavar="NAME", help="The column of texts.")] = "text",
    label: Annotated[str, typer.Option(metavar="NAME", help="The column of labels, such as who wrote it.")] = "label",
    kind: Annotated[str, typer.Option(metavar="KIND", help="logistic or factorised.")] = "logistic",
    tokens: Annotated[int, typer.Option(metavar="N", min=1, help="Texts are cut into pieces so long.")] = 32,
    penalty: Annotated[float, typer.Option(metavar="X", min=0, help="Larger keeps weights smaller.")] = 1.0,
    largest: Annotated[float, typer.Option(metavar="X", min=1e-3, help="Bound on logistic weights.")] = 1.0,
    least: Annotated[int, typer.Option(metavar="N", min=1, help="Pieces that a label needs.")] = 20,
    width: Annotated[int | None, typer.Option(metavar="N", min=1, help="Columns of the model's logits.")] = None,
) -> None:
    """Fit an attribute for each label, against all other texts: writers, characters, topics. One HMM serves them all.

    A line of JSON says which file belongs to which label.
    """
    from ctrlgen import models
    from ctrlgen.cli.index import tokenizer_of
    from ctrlgen.hmm.classifier import examples, fit_each

    cut, vocabulary = tokenizer_of(str(models.default_model()) if tokenizer is None else tokenizer, None, width)
    read = _read(list(_rows(table, text, label)), cut, tokens)
    made = fit_each(
        examples(read.texts, vocabulary.width), read.marks, least=least, kind=kind, penalty=penalty, largest=largest,
        held_out=np.array(read.apart), card={"table": table.name, "tokens": tokens},
    )  # fmt: skip
    out.mkdir(parents=True, exist_ok=True)
    for number, (mark, attribute) in enumerate(made.items()):
        path = out / f"{number:04d}.safetensors"
        attribute.save(path)
        facts = {"label": mark, "file": path.name, "held_out_auc": attribute.card["held_out_auc"]}
        typer.echo(json.dumps(facts))


class _Read(NamedTuple):
    """Pieces of texts."""

    texts: list[list[int]]
    marks: list[str]
    apart: list[bool]
    """Whether it is kept to measure with; all pieces of a text alike."""


def _read(rows: list[tuple[str, str]], cut: Callable[[list[str]], list[list[int]]], tokens: int) -> _Read:
    from ctrlgen.hmm.classifier import pieces

    read = _Read([], [], [])
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        for (body, mark), ids in zip(some, cut([body for body, _ in some]), strict=True):
            parts = [part for part in pieces(ids, tokens) if part]
            read.texts.extend(parts)
            read.marks.extend([mark] * len(parts))
            read.apart.extend([zlib.crc32(body.encode()) % 10 == 9] * len(parts))
    return read


def _rows(table: Path, text: str, label: str) -> Iterator[tuple[str, str]]:
    """Text and label of each row."""
    csv.field_size_limit(_LONGEST)
    with table.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        for name in (text, label):
            if name not in (reader.fieldnames or ()):
                raise InputError(f"{table} has no column {name!r}; it has {', '.join(reader.fieldnames or ())}")
        try:
            for row in reader:
                yield row[text] or "", (row[label] or "").strip()
        except csv.Error as error:
            raise InputError(f"{table}, line {reader.line_num}: {error}") from error
