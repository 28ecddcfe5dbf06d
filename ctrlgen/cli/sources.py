"""What users hand over in files or on standard input: text, JSON, prompts. Errors show the place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ctrlgen.errors import InputError, caret

STDIN = "-"


def shown(name: str) -> str:
    """What to call a source in a message."""
    return "standard input" if name == STDIN else name


def read_bytes(name: str) -> bytes:
    """The content of a file, or of standard input for "-"."""
    if name == STDIN:
        return sys.stdin.buffer.read()
    path = Path(name).expanduser()
    if path.is_dir():
        raise InputError(f"{name} is a folder; expected a file")
    if not path.exists():
        raise InputError(f"there is no file {name}")
    return path.read_bytes()


def read_text(name: str) -> str:
    """The same as text, without a byte order mark.

    Raises:
        InputError: it is not UTF-8; says at which line.
    """
    content = read_bytes(name)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{shown(name)}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8") from error


def read_json(name: str) -> Any:
    """The JSON value in a file.

    Raises:
        InputError: it is not JSON, or an object has a name twice (JSON readers drop one of the two silently).
    """
    return parse_json(read_text(name), shown(name))


def read_schema(name: str) -> dict[str, Any] | bool:
    """The JSON Schema in a file.

    Raises:
        InputError: as for ``read_json``, or it is another value.
    """
    found = read_json(name)
    if not isinstance(found, dict | bool):
        raise InputError(f"{shown(name)} is no JSON Schema: expected an object, true or false at the top")
    return found


def parse_json(text: str, where: str, first_line: int = 1) -> Any:
    """The JSON value of ``text``, which begins at line ``first_line`` of ``where``."""
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = (text.splitlines() or [""])[error.lineno - 1 : error.lineno] or [""]
        raise InputError(
            f"{where} is not JSON: line {first_line + error.lineno - 1}, column {error.colno}: {error.msg}\n"
            f"{caret(line[0], error.colno - 1)}"
        ) from error
    except _Twice as error:
        raise InputError(f"{where}: an object has the name {error.args[0]!r} twice; remove one of the two") from error
    except RecursionError as error:
        raise InputError(f"{where}: nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{where}: {error}") from error


class _Twice(ValueError):
    """An object has a name twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for i, name in enumerate(names) if name in names[:i]))
    return found


def read_json_lines(name: str) -> list[Any]:
    """The JSON values of a file, one a line.

    Raises:
        InputError: as for ``read_json``, or there are none.
    """
    lines = [(number, line) for number, line in enumerate(read_text(name).split("\n"), 1) if line.strip()]
    if not lines:
        raise InputError(f"{shown(name)} is empty; expected JSON lines")
    return [parse_json(line, shown(name), number) for number, line in lines]


def read_prompts(name: str) -> list[str]:
    """Prompts, one a line; or JSON lines, if the first line begins with "{", each an object with "prompt".

    Raises:
        InputError: there are none, or a line is no such object.
    """
    lines = [(number, line) for number, line in enumerate(read_text(name).split("\n"), 1) if line.strip()]
    if not lines:
        raise InputError(f'{shown(name)} has no prompts: expected one a line, or JSON lines with a "prompt"')
    if lines[0][1].lstrip().startswith("{"):
        return [_prompt(line, shown(name), number) for number, line in lines]
    return [line.removesuffix("\r") for _, line in lines]


def _prompt(line: str, where: str, number: int) -> str:
    record = parse_json(line, where, number)
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
        raise InputError(f'{where}, line {number}: expected an object with a text as "prompt"\n{caret(line, 0)}')
    return checked(record["prompt"], f"{where}, line {number}")


def checked(prompt: str, where: str) -> str:
    """``prompt``, which must have something to it and be Unicode."""
    if not prompt:
        raise InputError(f"{where}: the prompt is empty, and a model needs something to go on")
    try:
        prompt.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: character {error.start + 1} of the prompt is half of a surrogate pair") from error
    return prompt
