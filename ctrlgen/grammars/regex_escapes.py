r"""What follows a backslash in a regular expression: \n, \x41, \d, \p{Lu}, \b ..."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from ctrlgen.errors import RegexError
from ctrlgen.grammars import characters as sets
from ctrlgen.grammars.characters import CharacterSet

Dialect = Literal["python", "ecma"]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the escapes of a pattern mean: its dialect, and whether Python's classes are ASCII only."""

    dialect: Dialect
    ascii: bool

    def letter_class(self, letter: str) -> CharacterSet:
        r"""The set of \d, \w or \s."""
        if self.dialect == "ecma":
            return sets.ecma_class(letter)
        return sets.python_ascii_class(letter) if self.ascii else sets.python_class(letter)


@dataclass(frozen=True, slots=True)
class Escape:
    """An escape that was read: where it ends and what it means."""

    end: int
    members: CharacterSet = ()
    single: bool = False
    edge: Literal["start", "end", "word", "not word"] | None = None


_CONTROL = {"n": 0x0A, "t": 0x09, "r": 0x0D, "f": 0x0C, "v": 0x0B}
_HEX = {
    "x": re.compile(r"x([0-9A-Fa-f]{2})"),
    "u": re.compile(r"u([0-9A-Fa-f]{4})"),
    "U": re.compile(r"U([0-9A-Fa-f]{8})"),
}
_BRACED = re.compile(r"u\{([0-9A-Fa-f]{1,8})\}")
_LOW_SURROGATE = re.compile(r"\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_PROPERTY = re.compile(r"[pP](?:\{(\^?)([^{}]*)\}|([A-Z]))")


def read_escape(pattern: str, position: int, rules: Rules, *, inside_class: bool) -> Escape:
    """The escape whose backslash is at ``position``.

    Raises:
        RegexError: it means nothing, or something that is not supported.
    """
    letter = pattern[position + 1 : position + 2]
    end = position + 2
    if not letter:
        raise RegexError("a backslash at the end: write \\\\ for the character", pattern, position)
    if letter in "dwsDWS":
        members = rules.letter_class(letter.lower())
        return Escape(end, members if letter.islower() else sets.complement(members))
    if letter in "pP":
        return _property(pattern, position)
    if letter in "bBAZz":
        return _place(pattern, position, rules, inside_class)
    if letter in _CONTROL:
        return _single(end, _CONTROL[letter])
    if letter in "xuUcN0123456789ak" or (letter.isascii() and letter.isalpha()):
        return _code(pattern, position, rules)
    return _single(end, ord(letter))


def _single(end: int, code: int) -> Escape:
    return Escape(end, ((code, code),), single=True)


def _place(pattern: str, position: int, rules: Rules, inside_class: bool) -> Escape:
    letter, end = pattern[position + 1], position + 2
    if inside_class:
        if letter == "b":
            return _single(end, 0x08)
        raise RegexError(f"\\{letter} means nothing inside a class", pattern, position)
    if letter in "bB":
        return Escape(end, edge="word" if letter == "b" else "not word")
    if rules.dialect == "ecma":
        raise RegexError(f"\\{letter} is not an anchor in ECMAScript: write ^ or $", pattern, position)
    return Escape(end, edge="start" if letter == "A" else "end")


def _code(pattern: str, position: int, rules: Rules) -> Escape:
    """A character by number or name, or an error that says what the letter would have been."""
    letter, ecma = pattern[position + 1], rules.dialect == "ecma"
    if letter.isdigit():
        return _digit(pattern, position)
    if ecma and (braced := _BRACED.match(pattern, position + 1)):
        if int(braced[1], 16) > sets.LAST:
            raise RegexError("there is no code point above 10FFFF", pattern, position)
        return _single(braced.end(), int(braced[1], 16))
    if letter in ("xu" if ecma else "xuU"):
        return _hexadecimal(pattern, position, pair=ecma)
    if letter == "a" and not ecma:
        return _single(position + 2, 0x07)
    if ecma and (control := re.compile(r"c([A-Za-z])").match(pattern, position + 1)):
        return _single(control.end(), ord(control[1]) % 32)
    if not ecma and (named := re.compile(r"N\{([^}]+)\}").match(pattern, position + 1)):
        try:
            return _single(named.end(), ord(unicodedata.lookup(named[1])))
        except (KeyError, TypeError):
            raise RegexError(f"there is no character named {named[1]!r}", pattern, position) from None
    if letter == "k":
        raise RegexError("back references are not supported: no automaton matches a text twice", pattern, position)
    raise RegexError(f"the escape \\{letter} means nothing in the {rules.dialect} dialect", pattern, position)


def _digit(pattern: str, position: int) -> Escape:
    digits = re.compile(r"[0-9]+").match(pattern, position + 1)
    if digits is None or digits[0] == "0":
        return _single(position + 2, 0)
    if digits[0].startswith("0"):
        raise RegexError("octal escapes are not supported: write \\x and two hex digits", pattern, position)
    raise RegexError("back references and octal escapes are not supported", pattern, position)


def _hexadecimal(pattern: str, position: int, *, pair: bool) -> Escape:
    letter = pattern[position + 1]
    found = _HEX[letter].match(pattern, position + 1)
    if found is None:
        digits = {"x": 2, "u": 4, "U": 8}[letter]
        raise RegexError(f"\\{letter} needs {digits} hexadecimal digits", pattern, position)
    code, end = int(found[1], 16), found.end()
    if code > sets.LAST:
        raise RegexError("there is no code point above 10FFFF", pattern, position)
    if pair and 0xD800 <= code < 0xDC00 and (low := _LOW_SURROGATE.match(pattern, end)):
        return _single(low.end(), 0x10000 + (code - 0xD800) * 0x400 + int(low[1], 16) - 0xDC00)
    return _single(end, code)


def _property(pattern: str, position: int) -> Escape:
    found = _PROPERTY.match(pattern, position + 1)
    if found is None:
        raise RegexError("a Unicode property is written \\p{Lu} or \\pL", pattern, position)
    name = found[3] or found[2]
    for prefix in ("General_Category=", "gc="):
        name = name.removeprefix(prefix)
    if "=" in name:
        raise RegexError(
            f"{name.split('=')[0]} properties are not supported: write the ranges of the script, e.g. "
            "[\\u0370-\\u03ff] for Greek",
            pattern,
            position,
        )
    members = sets.unicode_category(name)
    if members is None:
        raise RegexError(f"{name!r} is not a general category such as L, Lu, Nd or P", pattern, position)
    negated = (pattern[position + 1] == "P") != bool(found[1])
    return Escape(found.end(), sets.complement(members) if negated else members)
