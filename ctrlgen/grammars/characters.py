"""Sets of code points as sorted ranges: classes, Unicode categories, letter case, and the partition they induce."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import numpy as np

LAST = 0x10FFFF

CharacterSet = tuple[tuple[int, int], ...]
"""Sorted, disjoint, non-adjacent inclusive ranges of code points."""

NOTHING: CharacterSet = ()
EVERYTHING: CharacterSet = ((0, LAST),)
SURROGATES: CharacterSet = ((0xD800, 0xDFFF),)
DIGITS: CharacterSet = ((0x30, 0x39),)
ASCII_WORD: CharacterSet = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
NEWLINE: CharacterSet = ((0x0A, 0x0A),)
LINE_TERMINATORS: CharacterSet = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
ECMA_SPACE: CharacterSet = (
    (0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F),
    (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip

# no character from here on has case, so maps of letter case need not look further (a test asks Python)
_CASED_BELOW = 0x20000

_LONG_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
    "Punctuation": "P", "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
    "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So",
    "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp",
    "Other": "C", "Control": "Cc", "Format": "Cf", "Private_Use": "Co", "Unassigned": "Cn",
}  # fmt: skip


def character_set(ranges: Iterable[tuple[int, int]]) -> CharacterSet:
    """Any ranges, sorted and merged."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(characters: CharacterSet) -> CharacterSet:
    """All code points that are not in the set."""
    rest = []
    low = 0
    for first, last in characters:
        if first > low:
            rest.append((low, first - 1))
        low = last + 1
    if low <= LAST:
        rest.append((low, LAST))
    return tuple(rest)


def contains(characters: CharacterSet, code_point: int) -> bool:
    """Whether the code point is in the set."""
    place = bisect_right(characters, (code_point, LAST))
    return place > 0 and code_point <= characters[place - 1][1]


@cache
def python_class(letter: str) -> CharacterSet:
    r"""What Python's ``re`` matches with \d, \w or \s in text; asked of ``re`` itself, so they cannot disagree."""
    return tuple((found.start(), found.end() - 1) for found in re.finditer(rf"\{letter}+", _all_characters()))


@cache
def python_ascii_class(letter: str) -> CharacterSet:
    r"""The same under ``re.ASCII``."""
    text = _all_characters()[:128]
    return tuple((found.start(), found.end() - 1) for found in re.finditer(rf"(?a:\{letter}+)", text))


def ecma_class(letter: str) -> CharacterSet:
    r"""What ECMAScript matches with \d, \w or \s: ASCII digits and words, Unicode white space."""
    if letter == "d":
        return DIGITS
    if letter == "w":
        return ASCII_WORD
    return ECMA_SPACE


def unicode_category(name: str) -> CharacterSet | None:
    """A general category, by short or long name ("L", "Lu", "Letter"), "Any" or "ASCII"; None if there is none."""
    if name == "Any":
        return EVERYTHING
    if name == "ASCII":
        return ((0, 0x7F),)
    name = _LONG_NAMES.get(name, name)
    wanted = ("Lu", "Ll", "Lt") if name in ("LC", "L&") else (name,)
    found = [ranges for key, ranges in _categories().items() if key.startswith(wanted)]
    return character_set(piece for ranges in found for piece in ranges) if found and name else None


@cache
def _categories() -> dict[str, list[tuple[int, int]]]:
    ranges: dict[str, list[tuple[int, int]]] = {}
    start = 0
    for category, run in groupby(map(unicodedata.category, _all_characters())):
        stop = start + sum(1 for _ in run)
        ranges.setdefault(category, []).append((start, stop - 1))
        start = stop
    return ranges


@cache
def _all_characters() -> str:
    return np.arange(LAST + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


# Letter case


@dataclass(frozen=True)
class CaseFolding:
    """How a dialect compares letters without case: each character is mapped, then looked up.

    Args:
        mapped: where each character goes, for those that do not stay.
        equivalent: for a mapped character, others that count as the same.
    """

    mapped: dict[int, int]
    equivalent: dict[int, tuple[int, ...]]

    def variants(self, characters: CharacterSet) -> CharacterSet:
        """All characters that count as the same as one of ``characters``."""
        images = [(image, image) for code, image in self.mapped.items() if contains(characters, code)]
        closed = character_set([*_without(characters, self.mapped), *images])
        same = [(code, code) for of, codes in self.equivalent.items() if contains(closed, of) for code in codes]
        closed = character_set([*closed, *same])
        sources = [(code, code) for code, image in self.mapped.items() if contains(closed, image)]
        return character_set([*_without(closed, self.mapped), *sources])


def _without(characters: CharacterSet, codes: Iterable[int]) -> CharacterSet:
    moved = character_set((code, code) for code in codes)
    return complement(character_set((*complement(characters), *moved)))


@cache
def python_folding() -> CaseFolding:
    """``re.IGNORECASE``: compare lower case; lower-case characters with one upper case are the same."""
    text = _all_characters()[:_CASED_BELOW]
    mapped = {code: ord(char.lower()[0]) for code, char in enumerate(text) if char.lower() != char}
    by_upper: dict[str, list[int]] = {}
    for code, char in enumerate(text):
        if code not in mapped and char.upper() != char:
            by_upper.setdefault(char.upper(), []).append(code)
    return CaseFolding(mapped, _pairings(by_upper.values()))


def _pairings(groups: Iterable[Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {
        code: tuple(other for other in group if other != code) for group in groups if len(group) > 1 for code in group
    }


@cache
def ascii_folding() -> CaseFolding:
    """``re.IGNORECASE | re.ASCII``: only A-Z and a-z."""
    return CaseFolding({code: code + 32 for code in range(0x41, 0x5B)}, {})


@cache
def ecma_folding() -> CaseFolding:
    """Unicode simple case folding, which ECMAScript uses in Unicode mode."""
    mapped = {}
    for code, char in enumerate(_all_characters()[:_CASED_BELOW]):
        folded = char.casefold() if len(char.casefold()) == 1 else char.lower()
        if len(folded) == 1 and folded != char:
            mapped[code] = ord(folded)
    return CaseFolding(mapped, {})


# Partition


@dataclass(frozen=True)
class Partition:
    """Code points grouped by the sets they belong to; those in none, and surrogates, are in no class.

    Args:
        segments: sorted disjoint ranges (first, last, class).
        members: for each class, bit i set if the class is inside set i.
    """

    segments: tuple[tuple[int, int, int], ...]
    members: tuple[int, ...]


def partition(sets: Sequence[CharacterSet]) -> Partition:
    """The coarsest partition in which each of ``sets`` is a union of classes."""
    toggles: dict[int, int] = {}
    for index, ranges in enumerate((*sets, SURROGATES)):
        for first, last in ranges:
            toggles[first] = toggles.get(first, 0) ^ (1 << index)
            toggles[last + 1] = toggles.get(last + 1, 0) ^ (1 << index)
    cuts = sorted(cut for cut, change in toggles.items() if change)
    number: dict[int, int] = {}
    segments = []
    inside, surrogate = 0, 1 << len(sets)
    for cut, following in zip(cuts, [*cuts[1:], LAST + 1], strict=True):
        inside ^= toggles[cut]
        if inside and not inside & surrogate:
            segments.append((cut, following - 1, number.setdefault(inside, len(number))))
    return Partition(tuple(segments), tuple(number))
