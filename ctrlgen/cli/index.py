"""``ctrlgen index build | info | query``: catalogues as files."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.cli.item_files import Tokenize
    from ctrlgen.index.storage import Header
    from ctrlgen.index.token_index import TokenIndex
    from ctrlgen.vocabulary import Vocabulary

    Progress = Callable[[str, int, int], None]

FORMATS = "npy, jsonl, text or parquet"

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@commands.callback()
def index() -> None:
    """Catalogues as files: token sequences for ctrlgen.TokenIndex, texts for ctrlgen.NameIndex."""


File = Annotated[str, typer.Argument(metavar="FILE", help="An index.")]
Named = Annotated[str | None, typer.Option("--tokenizer", metavar="NAME|PATH", help="llama3, qwen3 ..., or a folder.")]


@commands.command()
def build(
    source: Annotated[str, typer.Argument(metavar="SOURCE|-", help="The items; - is standard input, one a line.")],
    out: Annotated[Path, typer.Argument(metavar="FILE", help="The index; whole, or not there at all.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="NAME|PATH", help="Items are texts, to be cut by this: llama3, qwen3 ... or a folder."),
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help=f"{FORMATS}; default: what the name says.")
    ] = None,
    eos: Annotated[
        list[int] | None, typer.Option(metavar="ID", help="An id that ends an item; may be repeated.")
    ] = None,
    pad: Annotated[int | None, typer.Option(metavar="N", help="What fills up short rows of a .npy.")] = None,
    width: Annotated[int | None, typer.Option(metavar="N", min=1, help="Columns of the model's logits.")] = None,
    names: Annotated[
        bool, typer.Option("--names", help="Items are texts, a line each, to be cut by any tokenizer later.")
    ] = False,
    normalise: Annotated[
        str | None, typer.Option(metavar="FORM", help="With --names: pep503, the form of Python's package names.")
    ] = None,
) -> None:
    """Build the index of a catalogue, of any size.

    A .npy holds integers [items, tokens]. In a .txt each line is an item: token ids, or a text with --tokenizer. A line
    of a .jsonl is a list of ids, a text, or {"id": ..., "tokens": [...]} or {"id": ..., "text": ...}; a .parquet has
    such columns. Both kinds of lines may be compressed (.gz). Without ids of their own, items are counted from 0.

    With --names the index is one of texts, which serves all tokenizers: see ctrlgen.NameIndex and ctrlgen.PackageNames.
    """
    if names or normalise is not None:
        others = {"--tokenizer": tokenizer, "--format": form, "--eos": eos, "--pad": pad, "--width": width}
        _build_names(source, out, names, normalise, [name for name, value in others.items() if value])
        return
    from ctrlgen.cli.item_files import chunks_of, format_of
    from ctrlgen.index.external import build_file

    _check_target(out)
    kind = format_of(source) if form is None else _format(form)
    tokenize, vocabulary = (None, None) if tokenizer is None else tokenizer_of(tokenizer, eos, width)
    with _bar() as progress:
        build_file(
            out,
            chunks_of(source, kind, tokenize),
            vocabulary=vocabulary,
            eos=eos or None if vocabulary is None else None,
            width=width,
            pad=pad,
            progress=progress,
        )
    from ctrlgen.index.storage import read_header

    typer.echo(f"{out}: {read_header(out).count} items, {out.stat().st_size} bytes")


@commands.command()
def info(
    file: File,
    verify: Annotated[bool, typer.Option("--verify", help="Read all of it, and check each byte.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """What an index holds."""
    from ctrlgen.index import storage

    header = storage.read_header(file)
    facts = (_facts if header.kind == "tokens" else _name_facts)(header, Path(file).stat().st_size)
    if verify:
        storage.verify(file)
        facts["verified"] = True
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name:16} {_told(value)}")


@commands.command()
def query(
    file: File,
    prefix: Annotated[
        list[str] | None,
        typer.Argument(metavar="PREFIX", help="Token ids; a text with --tokenizer or an index of names."),
    ] = None,
    tokenizer: Named = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Items to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="For programs: one JSON object a line.")] = False,
) -> None:
    """The items that begin with a prefix, in the order of their tokens: id and tokens, or id and text.

    Exit status 1 if there are none. A prefix that is a text is cut into tokens by itself, and items begin with it only
    if they are cut at the same places.
    """
    from ctrlgen.index.storage import open_index, read_header

    if read_header(file).kind == "names":
        _query_names(file, " ".join(prefix or []), tokenizer, limit, as_json)
        return
    if tokenizer is None:
        vocabulary, tokens = None, _ids(prefix or [])
        opened = open_index(file)
    else:
        header = read_header(file)
        tokenize, vocabulary = tokenizer_of(tokenizer, header.ends or None, header.width)
        opened = open_index(file, vocabulary if header.ends else None)
        tokens = tokenize([" ".join(prefix)])[0] if prefix else []
    lo, hi = _below(opened, tokens)
    for place in range(lo, min(hi, lo + limit)):
        typer.echo(_row(opened, place, vocabulary, as_json))
    _closing(hi - lo, limit, f"no item begins with {tokens}")


# names


def _build_names(source: str, out: Path, names: bool, normalise: str | None, others: Sequence[str]) -> None:
    from ctrlgen.cli.sources import STDIN, shown
    from ctrlgen.index.name_files import read_lines, split_lines
    from ctrlgen.index.name_index import NameIndex

    if not names:
        raise InputError("--normalise goes with --names")
    if others:
        raise InputError(f"{others[0]} does not go with --names, which are texts that no tokenizer has cut")
    if normalise not in (None, "pep503"):
        raise InputError(f"--normalise {normalise}: expected pep503")
    _check_target(out)
    with _bar() as progress:
        if source == STDIN:
            lines = split_lines(sys.stdin.buffer.read(), shown(STDIN))
        else:
            lines = read_lines(source, progress=progress)
        index = NameIndex.from_lines(lines, normalise, progress)  # type: ignore[arg-type]
    index.save(out)
    typer.echo(f"{out}: {len(index)} names, {out.stat().st_size} bytes")


def _query_names(file: str, prefix: str, tokenizer: str | None, limit: int, as_json: bool) -> None:
    from ctrlgen.index.name_index import NameIndex

    if tokenizer is not None:
        raise InputError(f"{file} holds names, which no tokenizer has cut: leave out --tokenizer")
    found = NameIndex.open(file).starting_with(prefix)
    for name in islice(found, limit):
        typer.echo(json.dumps({"name": name}, ensure_ascii=False) if as_json else name)
    _closing(len(found), limit, f"no name begins with {prefix!r}")


def _closing(count: int, limit: int, nothing: str) -> None:
    """Say what was not shown; exit status 1 if there was nothing to show."""
    if count > limit:
        typer.echo(f"... {count - limit} more; --limit shows more of them", err=True)
    if not count:
        typer.echo(nothing, err=True)
        raise typer.Exit(1)


# what was given


def _format(name: str) -> Any:
    from ctrlgen.cli.item_files import Format

    if name not in {one.value for one in Format}:
        raise InputError(f"--format {name}: expected {FORMATS}")
    return Format(name)


def _check_target(out: Path) -> None:
    """Raise rather than replace what is no index, for instance because the arguments were swapped."""
    if out.is_dir():
        raise InputError(f"cannot write {out}: it is a folder")
    if not out.parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}")
    if out.exists():
        from ctrlgen.index.storage import MAGIC

        with out.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(f"{out} is there and no index: delete it, or choose another name")


def tokenizer_of(name: str, eos: Sequence[int] | None, width: int | None) -> tuple[Tokenize, Vocabulary]:
    """What cuts texts into tokens, and their vocabulary."""
    from tokenizers import Tokenizer

    from ctrlgen import models
    from ctrlgen.models.catalogue import TOKENIZERS
    from ctrlgen.vocabulary import Vocabulary

    folder = models.tokenizer(name) if name in TOKENIZERS else Path(name).expanduser()
    if not folder.exists():
        raise InputError(f"--tokenizer {name}: there is no such folder; known by name are {', '.join(TOKENIZERS)}")
    vocabulary = Vocabulary.from_tokenizer(folder, eos=eos or None, width=width)
    backend = Tokenizer.from_file(str(folder / "tokenizer.json" if folder.is_dir() else folder))
    backend.no_truncation()
    backend.no_padding()

    def tokenize(texts: Sequence[str]) -> list[list[int]]:
        return [one.ids for one in backend.encode_batch(list(texts), add_special_tokens=False)]

    return tokenize, vocabulary


def _ids(words: Sequence[str]) -> list[int]:
    parts = [part for word in words for part in word.replace(",", " ").split()]
    if wrong := [part for part in parts if not (part.isascii() and part.isdigit())]:
        raise InputError(f"{wrong[0]!r} is no token id; to look for a text, give --tokenizer")
    return [int(part) for part in parts]


# what is shown


def _facts(header: Header, size: int) -> dict[str, Any]:
    return {
        "items": header.count,
        "longest": header.longest,
        "same_length": bool(header.length),
        "edges": header.arrays["lo"]["size"],
        "width": header.width,
        "eos": list(header.ends),
        "own_ids": bool(header.arrays["ids"]["size"]),
        "weights": bool(header.arrays["weights"]["size"]),
        "vocabulary": header.fingerprint,
        "bytes": size,
        "bytes_per_item": round(size / header.count, 1),
    }


def _name_facts(header: Header, size: int) -> dict[str, Any]:
    return {
        "names": header.count,
        "longest": header.longest,
        "edges": header.arrays["lo"]["size"],
        "normalise": header.normalise,
        "fingerprint": header.names_fingerprint,
        "bytes": size,
        "bytes_per_name": round(size / header.count, 1),
    }


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _below(opened: TokenIndex, tokens: Sequence[int]) -> tuple[int, int]:
    """Where the items that begin with ``tokens`` lie among the sorted ones."""
    import numpy as np

    from ctrlgen.index.layout import HI, LO

    state = opened.start_states()
    for token in tokens:
        if token >= opened.width or token in opened.ends:
            return 0, 0
        state = opened.advance_states(state, np.array([token]))
    return int(state[0, LO]), int(state[0, HI])


def _row(opened: TokenIndex, place: int, vocabulary: Vocabulary | None, as_json: bool) -> str:
    import numpy as np

    name = int(opened.item_ids.at(np.array([place]))[0])
    tokens = opened.tokens_at(place).tolist()
    text = None if vocabulary is None else vocabulary.decode(tokens).decode(errors="replace")
    if as_json:
        return json.dumps(
            {"id": name, "tokens": tokens, **({} if text is None else {"text": text})}, ensure_ascii=False
        )
    return f"{name}\t{' '.join(map(str, tokens)) if text is None else text}"


@contextlib.contextmanager
def _bar() -> Iterator[Progress | None]:
    """A progress bar on stderr, one line a stage, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:6}"), BarColumn(), TextColumn("{task.completed:,}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks: dict[str, Any] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage, total=total or None)
            shown.update(tasks[stage], completed=done)

        yield progress
