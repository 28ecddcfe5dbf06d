"""Lines of a text as they are written: fences, and where what follows is a file of requirements, a name a line.

Such a block begins after

- the opening line of a fence which names the file (```` ```requirements.txt ````), or is called ``requirements``;
- that of a fence without a language, or of plain text, where the last line before that is not blank names one;
- the first line of such a fence, where that is ``# requirements.txt``;
- a line of code that names one and has a here-document up to EOF (``cat > requirements.txt <<EOF``).

A name of such a file begins with ``requirements``, perhaps behind other words and a hyphen or the like, and ends with
``.txt``. Lines with a command that installs name none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FENCE = "`"
"""What ends a block within a fence; a block of a here-document ends with its mark on a line of its own."""
MARKS = ("EOF",)
"""Of here-documents; each takes a block of its own. Others are not seen."""
ALIKE = {byte: 0x01 for byte in range(0x02, 0x20) if byte not in b"\t\n\v\f\r"} | dict.fromkeys(range(0x81, 256), 0x80)
"""Bytes with which everything goes on as with another, lower one."""
_FILE, _TYPE = "requirements", ".txt"
_NAME = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./")
_WORD = _NAME - frozenset(b"./-_")
_SPACE = frozenset(b" \t\r\v\f")
_PLAIN = ("", "text", "txt", "plaintext", "plain")
_FILES = ("requirements", "pip-requirements", "requirements-txt")


class Lines(NamedTuple):
    """Where in the lines of a text."""

    code: bool = False
    """Whether this is within a fence."""
    named: bool = False
    """Whether the last line that is not blank names a file; in a fence, whether this is the first of a plain one."""
    now: bool = False
    """Whether this line names one."""
    mark: str = ""
    """The mark of a here-document on this line."""
    at: str = "begin"
    """"begin": only blanks so far; "comment": of a first line; "ticks", "info": of a fence; or "rest"."""
    read: str = ""
    """What has been read of a name, a mark, the backticks; "-" within another word."""
    info: str | None = ""
    """Of a fence the letters of its language; None if it is no plain one."""


def step(lines: Lines, byte: int) -> Lines | str:
    """What follows a byte; or what ends the block that begins behind it."""
    if byte == 0x0A:
        return _line(lines)
    if lines.at == "begin":
        return _begin(lines, byte)
    if lines.at == "ticks":
        return _ticks(lines, byte)
    if lines.at == "info":
        lines = lines._replace(info=_info(lines.info, byte))
    return _rest(lines, byte)


def _line(lines: Lines) -> Lines | str:
    """A new line."""
    lines = _marked(lines, 0x0A)
    if lines.at in ("ticks", "info"):
        return _fenced(lines) if lines.at == "info" or lines.read == "```" else Lines(lines.code)
    if lines.code:
        if lines.at == "comment" and lines.now:
            return FENCE
        return lines.mark if lines.now and lines.mark else Lines(code=True)
    return Lines(named=lines.named if lines.at == "begin" else lines.now)


def _fenced(lines: Lines) -> Lines | str:
    """After the line of a fence."""
    info = None if lines.info is None else lines.info.strip()
    if lines.now or info in _FILES:
        return FENCE
    if not info and info is not None and lines.code:
        return Lines()
    if info in _PLAIN:
        return FENCE if lines.named and not lines.code else Lines(code=True, named=True)
    return Lines(code=True)


def _begin(lines: Lines, byte: int) -> Lines:
    if byte in _SPACE:
        return lines
    if byte == 0x60:
        return lines._replace(at="ticks", read="`", named=lines.named and not lines.code)
    if lines.code:
        first, lines = lines.named, lines._replace(named=False)
        return lines._replace(at="comment") if first and byte == 0x23 else _rest(lines._replace(at="rest"), byte)
    return _rest(lines._replace(at="rest", named=False), byte)


def _ticks(lines: Lines, byte: int) -> Lines:
    if byte == 0x60:
        return lines._replace(read=(lines.read + "`")[:3])
    if lines.read != "```":
        return _rest(lines._replace(at="rest", read="", named=False), byte)
    return _rest(lines._replace(at="info", read="", info=_info("", byte)), byte)


def _info(info: str | None, byte: int) -> str | None:
    """The language of a fence with a letter more, None if it is none of those that matter."""
    if info is None or (byte in _SPACE and (not info or info.endswith(" "))):
        return info
    if byte in _SPACE:
        return info + " " if info in (*_PLAIN, *_FILES) else None
    info += chr(byte).lower()
    return info if any(one.startswith(info) for one in (*_PLAIN, *_FILES)) else None


def _rest(lines: Lines, byte: int) -> Lines:
    """Watches for names and marks."""
    if lines.read.startswith("<") or (byte == 0x3C and lines.code):
        return _here(lines, byte)
    read = _name(lines.read, byte)
    return lines._replace(now=True, read="") if read is None else lines._replace(read=read)


def _name(read: str, byte: int) -> str | None:
    """What has been read of a name; None if it is whole."""
    letters = read + chr(byte).lower()
    if not read.startswith(_FILE):
        return letters if _FILE.startswith(letters) else "-" if byte in _WORD else ""
    ends = letters[len(_FILE) :]
    if byte not in _NAME or ends == _TYPE:
        return None if ends == _TYPE else ""
    return _FILE + (ends if _TYPE.startswith(ends) else "." if byte == 0x2E else "")


def _here(lines: Lines, byte: int) -> Lines:
    """Within ``<<EOF``, ``<< 'EOF'`` and kin."""
    read = lines.read
    if not read.startswith("<<"):
        return lines._replace(read="<<" if read == "<" and byte == 0x3C else "<" if byte == 0x3C else "")
    if byte in b"- \t'\"\\" and read == "<<":
        return lines
    letters = read[2:] + chr(byte)
    if any(mark.startswith(letters) for mark in MARKS):
        return lines._replace(read="<<" + letters)
    return _marked(lines, byte)


def _marked(lines: Lines, byte: int) -> Lines:
    """Behind a mark."""
    if lines.at in ("ticks", "info") or not lines.read.startswith("<"):
        return lines
    found = lines.read[2:] in MARKS and byte not in _WORD
    return lines._replace(read="", mark=lines.read[2:] if found else lines.mark)


class Blocks(NamedTuple):
    """The same as tables, of which state 0 is the start of a text.

    Attributes:
        after: int32[L, 256], the state after a byte; -1 - n where the block begins that ``ENDINGS[n]`` ends.
        commanded: int32[L], the state on the next line, after a command.
        behind: the state behind a mark that ends a block; behind a fence that does it is the start.
    """

    after: NDArray[np.int32]
    commanded: NDArray[np.int32]
    behind: int


ENDINGS = (FENCE, *MARKS)


@lru_cache(2)
def blocks(*, watched: bool) -> Blocks:
    """The tables of all states; of one that watches nothing if no blocks are watched."""
    if not watched:
        return Blocks(np.zeros((1, 256), np.int32), np.zeros(1, np.int32), 0)
    states = [Lines(), Lines(code=True)]
    number = {one: i for i, one in enumerate(states)}
    rows: list[list[int]] = []
    while len(rows) < len(states):
        row: list[int] = []
        for byte in range(256):
            if byte in ALIKE:
                row.append(row[ALIKE[byte]])
                continue
            found = step(states[len(rows)], byte)
            if not isinstance(found, str) and found not in number:
                number[found] = len(states)
                states.append(found)
            row.append(-1 - ENDINGS.index(found) if isinstance(found, str) else number[found])
        rows.append(row)
    return Blocks(np.array(rows, np.int32), np.array([int(one.code) for one in states], np.int32), 1)
