"""Where the words, sentences and lines of a text begin and end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Unit = Literal["character", "word", "sentence", "line"]

MAX_COUNT = (1 << 31) - 1
_WORD = re.compile(r"\w+")
_LINE = re.compile(r"[^\r\n]+")
_CLOSERS = "\"'”’»)\\]」』"
_END = re.compile(rf"[.!?…]+[{_CLOSERS}]*(?=\s|\Z)|[。！？]+[{_CLOSERS}]*")
_BLANKS = re.compile(r"\s*")


def check_counts(least: object, most: object, what: str) -> None:
    """Raise InputError if ``least`` and ``most`` are no limits of a number of ``what``."""
    if not _is_count(least) or not (most is None or _is_count(most)):
        raise InputError(f"least and most count {what}: whole numbers from 0, not {least!r} and {most!r}")
    if most is not None and (most < least or most == 0):  # type: ignore[operator]
        raise InputError(f"least={least}, most={most}: the most must be at least 1 and not below the least")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT


def units_of(text: str, unit: Unit) -> Sequence[tuple[int, int]] | None:
    """The (start, end) of the units of a text, in characters; None where each character is one.

    Whether a word, sentence or line ends somewhere depends on the next character and on what stands before, as
    ``spans_of`` wants it.

    >>> units_of("It is. Is it?", "sentence")
    [(0, 6), (7, 13)]
    """
    if unit == "character":
        return None
    if unit == "sentence":
        return _sentences(text)
    return [found.span() for found in (_WORD if unit == "word" else _LINE).finditer(text)]


def _sentences(text: str) -> list[tuple[int, int]]:
    """A sentence ends after a full stop, question or exclamation mark and what closes it, before a blank or the end.

    What is left at the end of the text is one as well.
    """
    found: list[tuple[int, int]] = []
    start = _after_blanks(text, 0)
    for end in _END.finditer(text):
        if end.end() > start:
            found.append((start, end.end()))
            start = _after_blanks(text, end.end())
    last = len(text.rstrip())
    if last > start:
        found.append((start, last))
    return found


def _after_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    assert blanks is not None  # it matches anywhere
    return blanks.end()
