"""JSON lines on disk that are whole, or readable as far as they go.

Rows go to FILE.part as they come; when all are there it is renamed to FILE. Whatever stops the run in between leaves
FILE.part, from which ``--resume`` goes on.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ctrlgen.errors import InputError

Row = dict[str, object]
Write = Callable[[Row], None]


def part_of(out: Path) -> Path:
    """Where rows go until all are there."""
    return out.with_name(out.name + ".part")


def prepare(out: Path, prompts: Sequence[str], *, resume: bool) -> int:
    """Make FILE.part ready; the number of prompts that need no work because their rows are there.

    Raises:
        InputError: nothing can be written there, or there are rows of an earlier run that do not belong or were not
            asked for.
    """
    if out.is_dir():
        raise InputError(f"cannot write {out}: it is a folder")
    if not out.parent.is_dir():
        raise InputError(f"cannot write {out}: there is no folder {out.parent}")
    part = part_of(out)
    if not resume:
        if part.exists():
            raise InputError(f"{part} is left of a run that was stopped: go on with --resume, or delete it")
        return 0
    if not part.exists() and out.exists():
        shutil.copyfile(out, part)
    return _kept(part, prompts) if part.exists() else 0


def _kept(part: Path, prompts: Sequence[str]) -> int:
    """Cut off a last row that is not whole, and count the others."""
    content = part.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    rows = whole.splitlines()
    if len(rows) > len(prompts):
        raise InputError(f"{part} has {len(rows)} rows for {len(prompts)} prompts: it belongs to other prompts")
    for number, (row, prompt) in enumerate(zip(rows, prompts, strict=False), 1):
        if _prompt_of(row) != prompt:
            raise InputError(f"{part}, line {number}: this row is of another prompt; move the file away")
    if whole != content:
        part.write_bytes(whole)
    return len(rows)


def _prompt_of(row: bytes) -> object:
    try:
        return json.loads(row)["prompt"]
    except (ValueError, LookupError, TypeError):
        return None


@contextlib.contextmanager
def rows_to(out: Path | None) -> Iterator[Write]:
    """A function that writes a row, at once, to standard output or to FILE.part, which is renamed if all went well."""
    if out is None:
        yield lambda row: print(line_of(row), file=sys.stdout, flush=True)
        return
    part = part_of(out)
    with part.open("a", encoding="utf-8", newline="\n") as file:

        def write(row: Row) -> None:
            file.write(line_of(row) + "\n")
            file.flush()

        yield write
    part.replace(out)


def line_of(row: Row) -> str:
    """A row as one line of JSON."""
    return json.dumps(row, ensure_ascii=False)
