"""``ctrlgen hmm attribute fit``: weights of tokens from labelled texts."""

from __future__ import annotations

import csv
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

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
    from ctrlgen.hmm.classifier import examples, fit_attribute, pieces

    cut, vocabulary = tokenizer_of(str(models.default_model()) if tokenizer is None else tokenizer, None, width)
    rows = list(_rows(table, text, label))
    if all(mark != positive for _, mark in rows):
        seen = ", ".join(sorted({mark for _, mark in rows})[:5])
        raise InputError(f"no text of {table} has the label {positive!r}, but {seen or 'none'}: see --positive")
    texts, labels, apart = [], [], []
    for first in range(0, len(rows), _AT_ONCE):
        some = rows[first : first + _AT_ONCE]
        for (body, mark), ids in zip(some, cut([body for body, _ in some]), strict=True):
            parts = [part for part in pieces(ids, tokens) if part]
            texts += parts
            labels += [mark == positive] * len(parts)
            apart += [zlib.crc32(body.encode()) % 10 == 9] * len(parts)
    import numpy as np

    made = fit_attribute(
        examples(texts, vocabulary.width), labels, kind=kind, penalty=penalty, largest=largest,
        held_out=np.array(apart), card={"table": table.name, "positive": positive, "tokens": tokens},
    )  # fmt: skip
    made.save(out)
    typer.echo(json.dumps({"weights": int((made.weights != 0).sum())} | dict(made.card)))


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
