"""Regular expressions as text -> a flat list of instructions in postfix order.

Postfix instead of a tree: nothing here or later recurses, so no nesting is too deep.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from ctrlgen.errors import RegexError
from ctrlgen.grammars import characters as sets
from ctrlgen.grammars.characters import CharacterSet
from ctrlgen.grammars.regex_escapes import Dialect, Escape, Rules, read_escape

EdgeKind = Literal["start", "end", "line start", "line end", "word", "not word"]


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    members: CharacterSet


@dataclass(frozen=True, slots=True)
class Edge:
    """A condition on the characters on both sides of a place."""

    kind: EdgeKind


@dataclass(frozen=True, slots=True)
class Join:
    """The last ``count`` results one after the other; with 0 the empty string."""

    count: int


@dataclass(frozen=True, slots=True)
class Either:
    """Any of the last ``count`` results."""

    count: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """The last result, ``low`` to ``high`` times; no limit if ``high`` is None.

    ``lazy`` prefers fewer, which matters only where the first match counts: ``regex_ordered``.
    """

    low: int
    high: int | None
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Ahead:
    """The rest of the text starts, or if ``negative`` does not start, with the last result."""

    negative: bool
    position: int


Instruction = Characters | Edge | Join | Either | Repeat | Ahead

_MAX_LOOKS = 8  # states of nested look-aheads nest, and so do the calls that follow them

_COUNTS = {
    "python": re.compile(r"\{(?!\})([0-9]*)(?:(,)([0-9]*))?\}"),
    "ecma": re.compile(r"\{([0-9]+)(?:(,)([0-9]*))?\}"),
}
_REFUSED_GROUPS = {
    "?<=": "look-behind is not supported: write what comes before as part of the pattern",
    "?<!": "look-behind is not supported: exclude the characters before with a class such as [^x]",
    "?P=": "back references are not supported: no finite automaton matches the same text twice",
    "?>": "atomic groups are not supported: write (?:...), which matches at least as much",
    "?(": "conditional groups are not supported: write both cases as alternatives",
    "?R": "recursion is not supported: use a grammar",
    "?&": "recursion is not supported: use a grammar",
    "*": "control verbs are not supported",
}


@dataclass
class _Group:
    """An open group: its place, what it becomes, the flags to go back to, and how much it holds so far."""

    opened: int
    look: Literal["", "=", "!"]
    flags: frozenset[str]
    alternatives: int = 1
    items: int = 0


@dataclass
class _Parser:
    pattern: str
    dialect: Dialect
    search: bool
    ascii: bool
    position: int = 0
    flags: frozenset[str] = frozenset()
    output: list[Instruction] = field(default_factory=list)
    groups: list[_Group] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    # what a quantifier would apply to
    last: Literal["", "item", "edge", "repeat"] = ""

    def error(self, message: str, position: int | None = None) -> RegexError:
        return RegexError(message, self.pattern, self.position if position is None else position)

    @property
    def rules(self) -> Rules:
        return Rules(self.dialect, self.ascii)

    def parse(self) -> list[Instruction]:
        self.groups.append(_Group(0, "", self.flags))
        self.read_global_flags()
        special: dict[str, Callable[[], None]] = {
            "(": self.open_group, ")": self.close_group, "|": self.next_alternative, "[": self.read_class,
            "\\": self.read_backslash, "*": self.read_quantifier, "+": self.read_quantifier,
            "?": self.read_quantifier, "{": self.read_brace, "^": self.read_caret, "$": self.read_dollar,
            ".": self.read_dot,
        }  # fmt: skip
        while self.position < len(self.pattern):
            character = self.pattern[self.position]
            if "x" in self.flags and (character in " \t\n\r\v\f" or character == "#"):
                self.skip_blank(character)
            elif character in special:
                special[character]()
            else:
                self.position += 1
                self.add_set(((ord(character), ord(character)),))
        if len(self.groups) > 1:
            raise self.error("this group is never closed", self.groups[-1].opened)
        self.finish(self.groups[0])
        return self.output

    def add(self, instruction: Instruction, last: Literal["item", "edge"] = "item") -> None:
        self.output.append(instruction)
        self.groups[-1].items += 1
        self.last = last

    def add_set(self, members: CharacterSet, negated: bool = False) -> None:
        if "i" in self.flags:
            members = _ignore_case(members, self.dialect, self.ascii)
        self.add(Characters(sets.complement(members) if negated else members))

    def skip_blank(self, character: str) -> None:
        end = self.pattern.find("\n", self.position) if character == "#" else self.position
        self.position = len(self.pattern) if end < 0 else end + 1

    # Groups

    def read_global_flags(self) -> None:
        while found := re.compile(r"\(\?([a-zA-Z]+)\)").match(self.pattern, self.position):
            self.set_flags(found[1], "", scoped=False)
            self.position = found.end()
        self.groups[-1].flags = self.flags

    def set_flags(self, on: str, off: str, *, scoped: bool) -> None:
        for letter in on + off:
            if letter not in "imsxau" or (letter in "au" and scoped and on + off != "u"):
                raise self.error(f"the flag {letter!r} is not supported {'here' if letter in 'au' else ''}".rstrip())
        self.ascii = self.ascii or ("a" in on and self.dialect == "python")
        self.flags = (self.flags | set(on)) - set(off)

    def open_group(self) -> None:
        opened = self.position
        rest = self.pattern[opened + 1 : opened + 4]
        for prefix, message in _REFUSED_GROUPS.items():
            if rest.startswith(prefix):
                raise self.error(message)
        if rest.startswith("?#"):
            end = self.pattern.find(")", opened)
            if end < 0:
                raise self.error("this comment is never closed")
            self.position = end + 1
            return
        group = _Group(opened, "", self.flags)
        if rest.startswith(("?=", "?!")):
            group.look = "=" if rest[1] == "=" else "!"
            if sum(bool(outer.look) for outer in self.groups) >= _MAX_LOOKS:
                raise self.error(f"look-ahead inside more than {_MAX_LOOKS} others")
            self.position += 3
        elif rest.startswith("?"):
            self.open_extension()
        else:
            self.position += 1
        self.groups.append(group)
        self.last = ""

    def open_extension(self) -> None:
        if named := re.compile(r"\(\?P?<([^\W\d]\w*)>").match(self.pattern, self.position):
            if named[1] in self.names:
                raise self.error(f"there is already a group named {named[1]!r}")
            self.names.add(named[1])
            self.position = named.end()
            return
        flagged = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])").match(self.pattern, self.position)
        if flagged is None:
            raise self.error(
                "unknown kind of group: known are (...), (?:...), (?P<name>...), (?=...), (?!...), (?i:...)"
            )
        if flagged[3] == ")":
            raise self.error("flags for the whole pattern must be at its start; write (?i:...) for a part")
        self.set_flags(flagged[1], flagged[2] or "", scoped=True)
        self.position = flagged.end()

    def next_alternative(self) -> None:
        self.end_alternative()
        self.groups[-1].alternatives += 1
        self.groups[-1].items = 0
        self.position += 1

    def end_alternative(self) -> None:
        if self.groups[-1].items != 1:
            self.output.append(Join(self.groups[-1].items))
        self.last = ""

    def close_group(self) -> None:
        if len(self.groups) == 1:
            raise self.error("this parenthesis closes nothing; write \\) for the character")
        group = self.groups[-1]
        self.finish(group)
        self.groups.pop()
        self.flags = group.flags
        if group.look:
            self.output.append(Ahead(group.look == "!", group.opened))
        self.groups[-1].items += 1
        self.last = "item"
        self.position += 1

    def finish(self, group: _Group) -> None:
        self.end_alternative()
        if group.alternatives > 1:
            self.output.append(Either(group.alternatives))

    # Quantifiers

    def read_quantifier(self) -> None:
        low, high = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self.pattern[self.position]]
        self.repeat(low, high, self.position + 1)

    def read_brace(self) -> None:
        found = _COUNTS[self.dialect].match(self.pattern, self.position)
        if found is None:
            self.position += 1
            self.add_set(((ord("{"), ord("{")),))
            return
        if max(len(found[1]), len(found[3] or "")) > 9:
            raise self.error("a repeat count of more than nine digits")
        low = int(found[1] or 0)
        high = low if found[2] is None else int(found[3]) if found[3] else None
        if high is not None and high < low:
            raise self.error(f"the upper repeat count {high} is below the lower one {low}")
        self.repeat(low, high, found.end())

    def repeat(self, low: int, high: int | None, end: int) -> None:
        if self.last in ("", "edge"):
            raise self.error("there is nothing to repeat before this quantifier; escape it to mean the character")
        if self.last == "repeat":
            raise self.error("a quantifier after a quantifier: put what it repeats in a group, (?:...)")
        if self.pattern[end : end + 1] == "+":
            raise self.error("possessive quantifiers are not supported: without the + it matches at least as much", end)
        lazy = self.pattern[end : end + 1] == "?"
        self.position = end + lazy
        self.output.append(Repeat(low, high, lazy))
        self.last = "repeat"

    # Single characters and places

    def read_dot(self) -> None:
        self.position += 1
        breaks = sets.NEWLINE if self.dialect == "python" else sets.LINE_TERMINATORS
        self.add(Characters(sets.EVERYTHING if "s" in self.flags else sets.complement(breaks)))

    def read_caret(self) -> None:
        self.position += 1
        self.add(Edge("line start" if "m" in self.flags else "start"), "edge")

    def read_dollar(self) -> None:
        self.position += 1
        if "m" in self.flags:
            self.add(Edge("line end"), "edge")
            return
        self.add(Edge("end"), "edge")
        following = self.pattern[self.position : self.position + 1]
        ends_full_match = not self.search and len(self.groups) == 1 and following in ("", "|")
        if self.dialect == "python" and not ends_full_match:
            # in Python $ also holds before a line feed that ends the text
            self.output += [Characters(sets.NEWLINE), Edge("end"), Join(2), Ahead(False, self.position - 1), Either(2)]

    def read_backslash(self) -> None:
        escape = read_escape(self.pattern, self.position, self.rules, inside_class=False)
        self.position = escape.end
        if escape.edge is not None:
            self.add(Edge(escape.edge), "edge")
        elif escape.single:
            self.add_set(escape.members)
        else:
            # a class is closed under case up to the dialect's own rules, which (?i) does not change
            self.add(Characters(escape.members))

    # Bracketed classes

    def read_class(self) -> None:
        opened = self.position
        self.position += 1
        negated = self.pattern.startswith("^", self.position)
        self.position += negated
        first = self.position
        ranges: list[tuple[int, int]] = []
        classes: list[tuple[int, int]] = []
        while True:
            if self.position >= len(self.pattern):
                raise self.error("this class is never closed; write \\[ for the character", opened)
            if self.pattern[self.position] == "]" and (self.position > first or self.dialect == "ecma"):
                break
            low = self.read_member()
            if (
                self.pattern.startswith("-", self.position)
                and self.pattern[self.position + 1 : self.position + 2] != "]"
            ):
                self.read_range(low, ranges, classes)
            else:
                (ranges if low.single else classes).extend(low.members)
        self.position += 1
        self.add_class(sets.character_set(ranges), sets.character_set(classes), negated)

    def add_class(self, ranges: CharacterSet, classes: CharacterSet, negated: bool) -> None:
        if "i" in self.flags:
            ranges = _ignore_case(ranges, self.dialect, self.ascii)
        members = sets.character_set((*ranges, *classes)) if classes else ranges
        self.add(Characters(sets.complement(members) if negated else members))

    def read_range(self, low: Escape, ranges: list[tuple[int, int]], classes: list[tuple[int, int]]) -> None:
        dash = self.position
        self.position += 1
        if self.position >= len(self.pattern):
            return  # the caller reports the class that is never closed
        high = self.read_member()
        if low.single and high.single:
            first, last = low.members[0][0], high.members[0][0]
            if last < first:
                raise self.error("the ends of this range are in the wrong order", dash)
            ranges.append((first, last))
        elif self.dialect == "python":
            raise self.error("a range needs a single character at both ends; write \\- for the character", dash)
        else:
            # ECMAScript outside Unicode mode: a dash beside a class is a dash
            for end in (low, high):
                (ranges if end.single else classes).extend(end.members)
            ranges.append((ord("-"), ord("-")))

    def read_member(self) -> Escape:
        character = self.pattern[self.position]
        if character == "\\":
            escape = read_escape(self.pattern, self.position, self.rules, inside_class=True)
            self.position = escape.end
            return escape
        if posix := re.compile(r"\[:\^?([a-z]+):\]").match(self.pattern, self.position):
            raise self.error(f"POSIX classes are not supported: write what [:{posix[1]}:] stands for, e.g. a-z")
        self.position += 1
        return Escape(self.position, ((ord(character), ord(character)),), single=True)


@cache
def _ignore_case(members: CharacterSet, dialect: Dialect, ascii: bool) -> CharacterSet:
    if dialect == "ecma":
        return sets.ecma_folding().variants(members)
    return (sets.ascii_folding() if ascii else sets.python_folding()).variants(members)


def parse_regex(pattern: str, dialect: Dialect, *, search: bool, ascii: bool) -> tuple[list[Instruction], Rules]:
    """The instructions of a pattern, and the rules that hold for all of it (its own flags included).

    Raises:
        RegexError: the syntax is wrong or asks for something an automaton cannot do.
    """
    parser = _Parser(pattern, dialect, search, ascii)
    return parser.parse(), parser.rules
