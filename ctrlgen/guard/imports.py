"""Import statements in fenced Python code, byte by byte: a scanner like that of commands, for the names of modules.

Watched are ``import x``, ``import x as y, z`` and ``from x.y import z`` at the start of a line, indented or not, in
blocks that begin with three backticks and ``python``, ``python3``, ``py`` or ``py3``. Only within the first part of a
module's name is anything refused, and letters that are not ASCII where such a name may stand.
"""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctrlgen.errors import InputError
from ctrlgen.guard.heads import BLANK
from ctrlgen.guard.lines import blocks
from ctrlgen.guard.scanner import REFUSED, TEXT, Scanner
from ctrlgen.index.name_index import NameIndex

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE_ENDS = frozenset(b"\n\r")
_SPACE = BLANK - _LINE_ENDS
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_WORD = _LETTERS | frozenset(b"0123456789")
_INFO = ("python", "python3", "py", "py3")
_INFO_BEGINS = frozenset(word[:n] for word in _INFO for n in range(len(word) + 1))


class _Spot(NamedTuple):
    """Where in a line of prose (``code`` False) or of a block of Python."""

    at: str = "line"
    code: bool = False
    read: str = ""
    """What has been read of a word, or of the backticks."""
    many: bool = False
    """Whether more modules may follow after a comma."""


def _step(spot: _Spot, byte: int) -> _Spot | None:
    """What follows a byte; in a name, what follows it where the name is complete; None if it is refused."""
    if byte in _LINE_ENDS:
        if spot.at == "back":  # a continued line; \r\n is one end
            return spot if byte == 0x0D else spot._replace(at=spot.read, read="")
        return _Spot(code=spot.code if spot.at != "opened" else True)
    return _STEPS[spot.at](spot, byte)


def _line(spot: _Spot, byte: int) -> _Spot | None:
    if byte in _SPACE and not spot.read:
        return spot
    read = spot.read + chr(byte)
    if "```".startswith(read):
        return spot._replace(at="ticks" if read == "```" else "line", read=read)
    if spot.code and ("import".startswith(read) or "from".startswith(read)):
        return spot._replace(read=read)
    if spot.code and spot.read in ("import", "from") and (byte in _SPACE or byte == 0x5C):
        expecting = spot._replace(at="expect", read="", many=spot.read == "import")
        return _expect(expecting, byte)
    return spot._replace(at="rest", read="")


def _ticks(spot: _Spot, byte: int) -> _Spot | None:
    """After three backticks: in code these end it, in prose the language may follow."""
    if spot.code:
        return _Spot("rest")
    if byte == 0x60 and spot.read == "```":
        return spot
    word = spot.read.strip("`")
    if byte in _SPACE and not word:
        return spot
    letter = chr(byte).lower()
    if word + letter in _INFO_BEGINS:
        return spot._replace(read=word + letter)
    return _Spot("opened" if word in _INFO and byte not in _WORD and byte != 0x60 else "rest")


def _expect(spot: _Spot, byte: int) -> _Spot | None:
    """Where the name of a module may begin."""
    if byte in _SPACE or byte == 0x2C:
        return spot
    if byte == 0x5C:
        return spot._replace(at="back", read="expect")
    if byte in _LETTERS:
        return spot._replace(at="name")
    return None if byte >= 0x80 else spot._replace(at="rest")


def _name(spot: _Spot, byte: int) -> _Spot | None:
    return None if byte >= 0x80 or byte in _WORD else _skip(spot._replace(at="skip"), byte)


def _skip(spot: _Spot, byte: int) -> _Spot | None:
    """Behind the first part of a module's name: the others, an alias, what is imported from it."""
    if byte == 0x5C:
        return spot._replace(at="back", read="skip")
    if byte == 0x2C and spot.many:
        return spot._replace(at="expect")
    if byte == 0x3B:
        return _Spot(code=True)
    return spot._replace(at="rest") if byte == 0x23 else spot


def _back(spot: _Spot, byte: int) -> _Spot | None:
    return _STEPS[spot.read](spot._replace(at=spot.read, read=""), byte)


def _stay(spot: _Spot, byte: int) -> _Spot | None:
    return spot


_STEPS = {
    "line": _line, "ticks": _ticks, "expect": _expect, "name": _name, "skip": _skip, "back": _back, "rest": _stay,
    "opened": _stay,
}  # fmt: skip


def _after_end(spot: _Spot) -> _Spot:
    """The language may end with its line."""
    opens = spot.at == "ticks" and not spot.code and spot.read.strip("`") in _INFO
    closes = spot.at == "ticks" and spot.code
    return _Spot(code=opens or (spot.code and not closes) or spot.at == "opened")


@lru_cache(1)
def import_scanner() -> Scanner:
    """The scanner of import statements; states as in ``ctrlgen.guard.scanner``."""
    number, spots, rows, within = {_Spot(): 0}, [_Spot()], [], []

    def of(spot: _Spot) -> int:
        if spot not in number:
            number[spot] = len(spots)
            spots.append(spot)
        return number[spot]

    at = 0
    while at < len(spots):
        spot = spots[at]
        found = [_after_end(spot) if b in _LINE_ENDS and spot.at == "ticks" else _step(spot, b) for b in range(256)]
        rows.append([REFUSED if one is None else of(one) for one in found])
        within.append([at if spot.at == "name" and byte in _WORD else REFUSED for byte in range(256)])
        at += 1
    in_name = np.array([spot.at == "name" for spot in spots], np.bool_)
    none = np.zeros(len(spots), np.int32)
    stops = np.full(len(spots), REFUSED, np.int32)
    kind, no_blocks = np.full(len(spots), TEXT, np.int8), blocks(watched=False)
    return Scanner(
        np.array(rows, np.int32), np.array(within, np.int32), in_name, none, stops, _fold(), True, 0, {}, kind,
        np.zeros(1, np.int32), no_blocks, {},
    )  # fmt: skip


def _fold() -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    """A module's bytes as those of a package's normal form."""
    fold = np.full(256, REFUSED, np.int16)
    for byte in _WORD:
        fold[byte] = 0x2D if byte == 0x5F else ord(chr(byte).lower())
    return fold


@lru_cache(4)
def modules_of(names: NameIndex, packages: tuple[tuple[str, str], ...]) -> NameIndex:
    """What may be imported: packages by their own name, modules whose package is on the list, the standard library."""
    known = [module for module, package in packages if _normal(package) in names]
    return NameIndex.from_names([*names, *map(_normal, known), *map(_normal, sys.stdlib_module_names)])


def pairs_of(imports: bool | Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Module and package, sorted.

    Raises:
        InputError: they are neither a bool nor names by name.
    """
    if isinstance(imports, bool):
        return ()
    try:
        pairs = sorted(dict(imports).items())
        if all(isinstance(one, str) and one for pair in pairs for one in pair):
            return tuple(pairs)
    except (TypeError, ValueError):
        pass
    raise InputError(f"imports is {imports!r}; expected True, or packages by module, such as {{'yaml': 'pyyaml'}}")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
