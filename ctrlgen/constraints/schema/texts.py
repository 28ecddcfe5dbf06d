"""Strings: patterns, formats and lengths, and what they are not."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema import quotes
from ctrlgen.constraints.schema.facts import any_content, content
from ctrlgen.constraints.schema.lengthened import of_length
from ctrlgen.constraints.schema.patterns import language
from ctrlgen.errors import SchemaError
from ctrlgen.grammars.lowering import json_body
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from ctrlgen.grammars.lowering import Escapes

MAX_COUNT = (1 << 31) - 1
MAX_STATES = 60_000
_QUOTE = ord('"')

Language = tuple[bool, Literal["pattern", "format", "x-quote"], str]
"""Whether it must be met or must not, what it is, and how it is called."""


@dataclass(frozen=True)
class String:
    """Strings of some languages and a length, or some given ones.

    Args:
        languages: patterns and formats, which must all be met, or not met.
        least: fewest code points.
        most: most code points, None for no limit.
        excluded: values they are not.
        values: the only ones there are; the rest then is as at first.
    """

    kind: ClassVar[int] = 3

    languages: frozenset[Language] = frozenset()
    least: int = 0
    most: int | None = None
    excluded: frozenset[str] = frozenset()
    values: tuple[str, ...] | None = None

    def meet(self, other: String) -> String | None:
        """The values of both, None where there is none for sure."""
        if self is other:
            return self
        if self.values is not None or other.values is not None:
            listed, rest = (self, other) if self.values is not None else (other, self)
            values = tuple([value for value in listed.values or () if rest.admits(value)])
            return String(values=values) if values else None
        limits = [most for most in (self.most, other.most) if most is not None]
        least, most = max(self.least, other.least), min(limits, default=None)
        if most is not None and least > most:
            return None
        languages = self.languages | other.languages
        if any((not sign, kind, name) in languages for sign, kind, name in languages):
            return None
        return String(languages, least, most, self.excluded | other.excluded)

    @cached_property
    def _members(self) -> frozenset[str]:
        return frozenset(self.values or ())

    def admits(self, value: str) -> bool:
        """Whether ``value`` is one of these."""
        if self.values is not None:
            return value in self._members
        if len(value) < self.least or (self.most is not None and len(value) > self.most) or value in self.excluded:
            return False
        text = content(value)
        return all(self._is_in(language, value, text) for language in self.languages)

    @staticmethod
    def _is_in(one: Language, value: str, text: bytes) -> bool:
        sign, kind, name = one
        if kind == quotes.KEYWORD:
            return any(True for _ in quotes.copy_of(name).places(value)) is sign
        return language(kind, name, "all", met=sign).matches(text) is sign

    @property
    def plain(self) -> bool:
        """Whether nothing but the length counts."""
        return not self.languages and not self.excluded and self.values is None

    @property
    def quote(self) -> str | None:
        """What they are parts of (see ``quotes``), if nothing else counts."""
        if len(self.languages) != 1 or self.least or self.most is not None or self.excluded:
            return None
        ((met, kind, name),) = self.languages
        return name if met and kind == quotes.KEYWORD else None

    def automaton(self, escapes: Escapes) -> Automaton:
        """The content, when the values are not listed.

        Raises:
            ComplexityError: it takes too many states.
            SchemaError: they are parts of a text.
        """
        if any(kind == quotes.KEYWORD for _, kind, _ in self.languages):
            raise SchemaError(
                "a quote stands by itself: not with other keywords about strings, negated, in propertyNames, or as an "
                "item of unique ones",
                keyword=quotes.KEYWORD,
            )
        return _automaton(self, escapes)


@lru_cache(1024)
def _automaton(shape: String, escapes: Escapes) -> Automaton:
    result: Automaton | None = None
    for sign, kind, name in sorted(shape.languages, reverse=True):
        part = language(kind, name, escapes, met=sign)
        if result is None:
            result = part if sign else json_body(escapes).difference(part, max_states=MAX_STATES)
        elif sign:
            result = result.intersection(part, max_states=MAX_STATES)
        else:
            result = result.difference(part, max_states=MAX_STATES)
    result = json_body(escapes) if result is None else result
    if shape.excluded:
        result = result.difference(listed(tuple(sorted(shape.excluded)), escapes), max_states=MAX_STATES)
    return of_length(result, shape.least, None if shape.most is None else min(shape.most, MAX_COUNT))


def listed(values: tuple[str, ...], escapes: Escapes) -> Automaton:
    """The content of exactly these strings, in all their spellings or in one."""
    if escapes == "canonical":
        return Automaton.from_strings([content(value) for value in values])
    pattern = "^(?:" + "|".join(map(_escaped, values)) + ")$"
    return compile_regex(pattern, dialect="ecma", search=True, json=True, max_states=MAX_STATES)


def _escaped(text: str) -> str:
    return re.sub(r"[\^$\\.*+?()\[\]{}|/]", lambda found: "\\" + found[0], text)


def spellings(value: str) -> list[bytes]:
    r"""A listed string in JSON: as it is, all in ASCII, and with \/ for /.

    >>> spellings("é")
    [b'"\xc3\xa9"', b'"\\u00e9"']
    """
    plain = json.dumps(value, ensure_ascii=False).encode()
    if plain.isascii() and b"/" not in plain:
        return [plain]
    ascii = json.dumps(value).encode()
    return list(dict.fromkeys([plain, ascii, plain.replace(b"/", b"\\/"), ascii.replace(b"/", b"\\/")]))


def closed(content: Automaton) -> Automaton:
    """Strings of ``content``, in which no quote stands by itself, with the closing quote.

    States differ in the quote where they differed in accepting, so they stay minimal; the new one is a leaf, which is
    met first from the first state that accepts, and all later states move up by one.
    """
    from ctrlgen.automaton_kernel import with_end

    apart = content.classes.copy()
    apart[_QUOTE] = content.columns.shape[1]  # a column of its own
    _, at, classes = np.unique(apart, return_index=True, return_inverse=True)
    order = np.argsort(at)
    columns = np.ascontiguousarray(content.columns[:, content.classes[at[order]]])
    classes = np.argsort(order)[classes]
    first, end = int(content.accepting.argmax()), int(classes[_QUOTE])
    place = 1 + max(int(columns[:first].max(initial=0)), int(columns[first, classes[:_QUOTE]].max(initial=0)))
    columns = with_end(columns, content.accepting, end, place)
    boundary = np.insert(content.boundary, place, True)
    return Automaton.from_columns(columns, classes, np.arange(len(columns)) == place, boundary)


@lru_cache(256)
def quoted(shape: String) -> Automaton:
    """The content of a shape with the closing quote, all spellings; of any length if nothing else counts."""
    if shape.plain:
        return _any_quoted()
    automaton = shape.automaton("all")
    return automaton if automaton.is_empty else closed(automaton)


@lru_cache(1)
def _any_quoted() -> Automaton:
    return closed(any_content())


@lru_cache(1)
def ascii_bytes() -> Automaton:
    """Any ASCII bytes."""
    table = np.full((1, 256), -1, dtype=np.int32)
    table[0, :128] = 0
    return Automaton.from_table(table, np.ones(1, dtype=bool), np.ones(1, dtype=bool))
