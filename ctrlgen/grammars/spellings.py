r"""How characters beyond ASCII are spelt in bytes: UTF-8, and \uXXXX in JSON strings.

Every way to spell is a mixed-radix number: in UTF-8 the digits are a lead byte and continuation bytes, in \uXXXX four
hexadecimal digits of either case. A *shape* spells ranges of characters whose targets are open ("labels"); it depends
on the ranges alone, so most patterns share theirs ("everything beyond ASCII leads to one place") and it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Any

Ranges = tuple[tuple[int, int, int], ...]
"""Sorted disjoint ranges (first, last, label), labels counted from 1."""

HEX, ESCAPE, CONTINUATION = range(3)
"""Kinds of states inside a character: which bytes the entries of their rows stand for."""

WIDTHS = (16, 9, 64)
"""Entries of a row, in order of bytes: hexadecimal digits; ``"/\\bfnrtu`` after a backslash; bytes 80 to BF."""

LEADS = 56
"""Entries for the first byte of a character beyond ASCII: C0 to F7."""

_BACKSLASH, _U = 2, 8  # places in the row of an escape

Place = tuple[int, int, int]
"""A digit: the kind of state that reads it, its radix, and the entry of digit 0."""

_TAIL = ((CONTINUATION, 64, 0),)
_NIBBLE: Place = (HEX, 16, 0)
_LOW_SURROGATE = ((ESCAPE, 1, _BACKSLASH), (ESCAPE, 1, _U), (HEX, 1, 13), (HEX, 4, 12), _NIBBLE, _NIBBLE)
_HIGH_SURROGATE = ((HEX, 4, 8), _NIBBLE, _NIBBLE)


@dataclass(frozen=True)
class Shape:
    """How to spell some ranges, given where their labels lead.

    Values are a list: -1, the targets of the labels, then the states of ``steps`` in turn.

    Args:
        steps: for each state its kind, a pattern for continuation bytes, and what takes its row from the values so
            far; with a pattern the row holds each value once, and the pattern says which one each byte leads to.
        leads: takes the LEADS entries for first bytes.
        escapes: takes the entries of the states after ``\\u`` (digits 1 to f), ``\\u0`` (1 to f) and
            ``\\u00`` (8 to f); empty outside JSON.
    """

    steps: tuple[tuple[int, bytes | None, Callable[[Sequence[int]], Any]], ...]
    leads: Callable[[Sequence[int]], Any]
    escapes: tuple[Callable[[Sequence[int]], Any], ...]


@dataclass
class _Shaping:
    """A shape under construction. Numbers are places in its list of values, 0 for nothing."""

    labels: int
    steps: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    number: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    known: dict[tuple[Ranges, tuple[Place, ...]], int] = field(default_factory=dict)

    def state(self, kind: int, row: Sequence[int]) -> int:
        """The state with this row."""
        key = (kind, tuple(row))
        if not any(row):
            return 0
        if key not in self.number:
            self.steps.append(key)
            self.number[key] = self.labels + len(self.steps)
        return self.number[key]

    def spell(self, ranges: Ranges, places: tuple[Place, ...]) -> int:
        """The state that reads numbers in ``ranges``, relative to the digits of ``places``."""
        if not places:
            return ranges[0][2] if ranges else 0
        known = self.known.get((ranges, places))
        if known is None:
            kind = places[0][0]
            known = self.known[ranges, places] = self.state(kind, self.row(ranges, places, WIDTHS[kind]))
        return known

    def row(self, ranges: Ranges, places: tuple[Place, ...], width: int) -> list[int]:
        """The entries for the first digit."""
        _, _, offset = places[0]
        rest = places[1:]
        weight = 1
        for _, radix, _ in rest:
            weight *= radix
        row = [0] * width
        partial: dict[int, list[tuple[int, int, int]]] = {}
        for first, last, label in ranges:
            full_from, full_to = -(-first // weight), (last + 1) // weight
            if full_from < full_to:
                whole = self.spell(((0, weight - 1, label),), rest)
                row[offset + full_from : offset + full_to] = [whole] * (full_to - full_from)
            for digit in {first // weight, last // weight}:
                if not full_from <= digit < full_to:
                    low, high = max(first - digit * weight, 0), min(last - digit * weight, weight - 1)
                    partial.setdefault(digit, []).append((low, high, label))
        for digit, inside in partial.items():
            row[offset + digit] = self.spell(tuple(inside), rest)
        return row


def _within(ranges: Ranges, low: int, high: int, base: int = 0) -> Ranges:
    """The part of the ranges between two characters, counted from ``base``."""
    return tuple(
        (max(first, low) - base, min(last, high) - base, label)
        for first, last, label in ranges
        if first <= high and last >= low
    )


@lru_cache(maxsize=512)
def shape(ranges: Ranges, escaped: bool) -> Shape:
    r"""The shape of characters beyond ASCII.

    Args:
        ranges: the characters.
        escaped: whether \uXXXX spells them too.
    """
    shaping = _Shaping(max((label for _, _, label in ranges), default=0))
    utf8 = [
        shaping.row(_within(ranges, first, last), ((CONTINUATION, radix, offset), *_TAIL * bytes_more), LEADS)
        for first, last, radix, offset, bytes_more in [
            (0x80, 0x7FF, 32, 0, 1), (0x800, 0xFFFF, 16, 32, 2), (0x10000, 0x10FFFF, 8, 48, 3),
        ]
    ]  # fmt: skip
    leads = _joined(utf8)
    rows = _escapes(shaping, ranges) if escaped else []
    steps = tuple(_step(kind, row) for kind, row in shaping.steps)
    return Shape(steps, itemgetter(*leads), tuple(itemgetter(*row) for row in rows))


def _step(kind: int, row: tuple[int, ...]) -> tuple[int, bytes | None, Callable[[Sequence[int]], Any]]:
    if kind != CONTINUATION:
        return kind, None, itemgetter(*row)
    number: dict[int, int] = {}
    pattern = bytes(number.setdefault(entry, len(number)) for entry in row)
    # a second value, which no byte leads to, makes a tuple of one
    return kind, pattern, itemgetter(*(number if len(number) > 1 else (row[0], 0)))


def _escapes(shaping: _Shaping, ranges: Ranges) -> list[list[int]]:
    r"""The entries after \u, \u0 and \u00 that lead beyond ASCII."""
    two = shaping.row(_within(ranges, 0x80, 0xFF), (_NIBBLE,) * 2, 16)
    three = shaping.row(_within(ranges, 0x100, 0xFFF), (_NIBBLE,) * 3, 16)
    four = shaping.row((*_within(ranges, 0x1000, 0xCFFF), *_within(ranges, 0xE000, 0xFFFF)), (_NIBBLE,) * 4, 16)
    before_surrogates = shaping.row(_within(ranges, 0xD000, 0xD7FF, 0xD000), (_NIBBLE,) * 3, 16)
    beyond = _within(ranges, 0x10000, 0x10FFFF, 0x10000)
    surrogates = shaping.row(beyond, (*_HIGH_SURROGATE, *_LOW_SURROGATE), 16)
    four[13] = shaping.state(HEX, _joined([before_surrogates, surrogates]))
    return [four[1:], three[1:], two[8:]]


def _joined(rows: Iterable[Sequence[int]]) -> list[int]:
    """Rows of which at most one has an entry in each place."""
    return [max(entries) for entries in zip(*rows, strict=True)]
