r"""Grammars in GBNF, the notation of llama.cpp -> plain rules.

    root  ::= (item "\n")+        # a comment
    item  ::= "- " [^\n]{1,80}

A rule is a name, ::= and alternatives separated by |; an alternative is a sequence of "strings", [classes], names, a
dot for any character, and (groups), each with ?, *, +, {m}, {m,} or {m,n} after it. A rule ends with its line, except
within a group; a line may go on after ::= and |, or begin with |.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ctrlgen.errors import ComplexityError, GrammarError, InputError
from ctrlgen.grammars import characters as sets
from ctrlgen.grammars.characters import CharacterSet
from ctrlgen.grammars.lark_text import error_at
from ctrlgen.grammars.rules import Rule, Rules, Terminal

MAX_CHARACTERS = 200_000
"""Of a grammar's text."""
MAX_DEPTH = 200
"""Groups within groups."""
MAX_RULES = 20_000
"""Rules, with one for each step of a bounded repeat."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_COUNT = re.compile(r"\{[ \t]*([0-9]*)[ \t]*(?:(,)[ \t]*([0-9]*)[ \t]*)?\}")
_BLANK = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_BLANK_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_GOES_ON = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*\|")
_ESCAPES = {"n": 10, "r": 13, "t": 9}
_HEXADECIMAL = {"x": 2, "u": 4, "U": 8}


def read_gbnf(text: str, start: str = "root") -> Rules:
    """The rules of a grammar in GBNF.

    Args:
        text: the grammar.
        start: the rule that a text must match.

    Raises:
        GrammarError: the grammar is wrong; shows the place.
        ComplexityError: it is too long, too deep, or its repeats are too large.
        InputError: an argument of another kind.

    >>> read_gbnf('root ::= [a-z]+').terminals[0].pattern
    '[a-z]'
    """
    if not isinstance(text, str) or not isinstance(start, str):
        raise InputError("a grammar and the name of its start rule must be strings")
    if len(text) > MAX_CHARACTERS:
        raise ComplexityError(
            f"the grammar has {len(text)} characters, the limit is {MAX_CHARACTERS} (no option raises it)"
        )
    reader = _Reader(text)
    reader.read()
    return reader.rules(start)


@dataclass
class _Group:
    """An open group, or a whole rule: finished alternatives, and the names in the one being read."""

    name: str
    opened: int
    alternatives: list[tuple[str, ...]] = field(default_factory=list)
    sequence: list[str] = field(default_factory=list)
    repeatable: bool = False
    """Whether the last name may be repeated."""


@dataclass
class _Reader:
    text: str
    position: int = 0
    found: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    defined: dict[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    terminals: dict[tuple[bool, str], Terminal] = field(default_factory=dict)
    groups: list[_Group] = field(default_factory=list)
    made: int = 0
    """Rules that have no name in the text."""

    def error(self, message: str, position: int | None = None) -> GrammarError:
        return error_at(self.text, self.position if position is None else position, message)

    @property
    def next(self) -> str:
        return self.text[self.position : self.position + 1]

    def shown(self) -> str:
        return "the end of the grammar" if not self.next else "the end of the line" if self.next in "\r\n" else (
            repr(self.next)
        )  # fmt: skip

    def skip(self, *, lines: bool) -> None:
        found = (_BLANK_LINES if lines else _BLANK).match(self.text, self.position)
        self.position = found.end() if found else self.position

    # Rules

    def read(self) -> None:
        self.skip(lines=True)
        while self.position < len(self.text):
            self.read_rule()
            self.skip(lines=True)
        for name, position in self.used.items():
            if name not in self.defined:
                from difflib import get_close_matches

                close = get_close_matches(name, self.defined, 3)
                raise self.error(
                    f"the rule {name} is not defined" + (f"; did you mean {' or '.join(close)}?" if close else ""),
                    position,
                )

    def read_rule(self) -> None:
        begun = self.position
        name = self.read_name("the name of a rule")
        if name in self.defined:
            line = self.text.count("\n", 0, self.defined[name]) + 1
            raise self.error(f"{name} is defined a second time (first in line {line}); join the two with |", begun)
        self.defined[name] = begun
        self.skip(lines=False)
        if not self.text.startswith("::=", self.position):
            raise self.error(f"expected ::= after the name of a rule, found {self.shown()}")
        self.position += 3
        self.skip(lines=True)
        self.groups = [_Group(name, begun)]
        self.read_alternatives()
        if len(self.groups) > 1:
            raise self.error("this ( is never closed", self.groups[-1].opened)
        self.finish(self.groups.pop())

    def read_name(self, expected: str) -> str:
        found = _NAME.match(self.text, self.position)
        if found is None:
            raise self.error(f"expected {expected}, found {self.shown()}")
        self.position = found.end()
        return found[0]

    def finish(self, group: _Group) -> None:
        group.alternatives.append(tuple(group.sequence))
        self.define(group.name, list(dict.fromkeys(group.alternatives)))

    def define(self, name: str, alternatives: list[tuple[str, ...]]) -> None:
        self.found[name] = alternatives
        if len(self.found) > MAX_RULES:
            raise ComplexityError(
                f"with its repeats written out the grammar has more than {MAX_RULES} rules (no option raises this "
                "limit); make {m,n} smaller, or write * or +"
            )

    def new_name(self, kind: str) -> str:
        self.made += 1
        return f"{self.groups[0].name}.{kind}{self.made}"  # names in the text have no dot

    # Alternatives

    def read_alternatives(self) -> None:
        """Everything up to the end of the rule."""
        while True:
            self.skip(lines=len(self.groups) > 1)
            character = self.next
            if not character or character in "\r\n":
                goes_on = _GOES_ON.match(self.text, self.position)
                if goes_on is None:
                    return
                self.position = goes_on.end() - 1
            elif character == "|":
                self.position += 1
                self.skip(lines=True)
                group = self.groups[-1]
                group.alternatives.append(tuple(group.sequence))
                group.sequence, group.repeatable = [], False
            elif character == "(":
                self.open_group()
            elif character == ")":
                self.close_group()
            elif character in "*+?{":
                self.read_repeat()
            else:
                self.add(self.read_item())

    def add(self, name: str) -> None:
        self.groups[-1].sequence.append(name)
        self.groups[-1].repeatable = True

    def open_group(self) -> None:
        if len(self.groups) > MAX_DEPTH:
            raise ComplexityError(f"groups nest more than {MAX_DEPTH} deep (no option raises this limit)")
        self.groups.append(_Group(self.new_name("group"), self.position))
        self.position += 1

    def close_group(self) -> None:
        if len(self.groups) == 1:
            raise self.error('this ) closes nothing; write ")" for the character')
        self.position += 1
        group = self.groups.pop()
        self.finish(group)
        self.add(group.name)

    def read_item(self) -> str:
        character = self.next
        if character == '"':
            return self.read_string()
        if character == "[":
            return self.read_class()
        if character == ".":
            self.position += 1
            return self.terminal("(?s:.)", literal=False)
        if character in "<!":
            raise self.error("single tokens of a vocabulary are not supported: write the text of the token")
        begun = self.position
        name = self.read_name('a "string", a [class], a name, . or (')
        rest = self.position
        self.skip(lines=False)
        if self.text.startswith("::=", self.position):
            raise self.error("a rule begins here within another: expected the end of the line before it", begun)
        self.position = rest
        self.used.setdefault(name, begun)
        return name

    # Repeats

    def read_repeat(self) -> None:
        group, begun = self.groups[-1], self.position
        if not group.repeatable:
            raise self.error(
                f"there is nothing to repeat before this {self.next}; write it in quotes for the character"
            )
        low, high = self.read_counts()
        item = group.sequence.pop()
        if high is not None and high < low:
            raise self.error(f"the upper repeat count {high} is below the lower one {low}", begun)
        self.add(self.repeated(item, low, high))

    def read_counts(self) -> tuple[int, int | None]:
        character = self.next
        if character in "*+?":
            self.position += 1
            return (1 if character == "+" else 0), (1 if character == "?" else None)
        found = _COUNT.match(self.text, self.position)
        if found is None or not found[1]:
            raise self.error("expected a repeat count: {m}, {m,} or {m,n}")
        if max(len(found[1]), len(found[3] or "")) > 9 or max(int(found[1]), int(found[3] or 0)) > MAX_RULES:
            raise ComplexityError(f"the repeat {found[0]:.40} is above the limit of {MAX_RULES}; write * or +")
        self.position = found.end()
        low = int(found[1])
        return low, low if found[2] is None else int(found[3]) if found[3] else None

    def repeated(self, item: str, low: int, high: int | None) -> str:
        """A rule of ``low`` to ``high`` times ``item``; one for each number, so that a parser counts in its state."""
        if high is None:
            name = self.new_name("repeat")
            first = (item,) if low else ()
            self.define(name, [first, (name, item)])
            return name if low < 2 else self.sequence([self.repeated(item, low - 1, low - 1), name])
        name = self.new_name("times0")
        self.define(name, [()])
        counted = [name]
        for count in range(1, high + 1):
            name = self.new_name(f"times{count}_")
            self.define(name, [(counted[-1], item) if count > 1 else (item,)])
            counted.append(name)
        if low == high:
            return counted[-1]
        name = self.new_name("repeat")
        self.define(name, [(one,) for one in counted[low:]])
        return name

    def sequence(self, names: list[str]) -> str:
        name = self.new_name("sequence")
        self.define(name, [tuple(names)])
        return name

    # Strings and classes

    def terminal(self, pattern: str, *, literal: bool, text: str = "") -> str:
        known = self.terminals.get((literal, pattern))
        if known is None:
            # quotes and brackets are in no name of a rule
            name = '"' + (text or pattern) + '"' if literal else f"[{len(self.terminals)}] {pattern}"
            known = self.terminals[literal, pattern] = Terminal(name, pattern, literal)
        return known.name

    def read_string(self) -> str:
        opened = self.position
        self.position += 1
        characters = []
        while self.next != '"':
            if not self.next:
                raise self.error('this string is never closed; write \\" for the character', opened)
            characters.append(chr(self.read_character()))
        self.position += 1
        if not characters:
            return self.sequence([])
        text = "".join(characters)
        return self.terminal(re.escape(text), literal=True, text=text)

    def read_class(self) -> str:
        opened = self.position
        self.position += 1
        negated = self.next == "^"
        self.position += negated
        ranges: list[tuple[int, int]] = []
        while self.next != "]":
            if not self.next:
                raise self.error("this class is never closed; write \\[ for the character", opened)
            low = high = self.read_character()
            dash = self.position
            if self.next == "-" and self.text[dash + 1 : dash + 2] not in ("]", ""):
                self.position += 1
                high = self.read_character()
                if high < low:
                    raise self.error("the ends of this range are in the wrong order", dash)
            ranges.append((low, high))
        self.position += 1
        if not ranges:
            raise self.error("an empty class matches nothing; write . for any character", opened)
        members = sets.character_set(ranges)
        if sets.complement(members) == sets.NOTHING and negated:
            raise self.error("this class excludes every character", opened)
        return self.terminal(_class_pattern(members, negated), literal=False)

    def read_character(self) -> int:
        """A character of a string or class, or an escape."""
        begun = self.position
        if self.next != "\\":
            self.position += 1
            return self.checked(ord(self.text[begun]), begun)
        letter = self.text[begun + 1 : begun + 2]
        self.position += 2
        if letter in _HEXADECIMAL:
            digits = self.text[begun + 2 : begun + 2 + _HEXADECIMAL[letter]]
            if len(digits) < _HEXADECIMAL[letter] or not re.fullmatch("[0-9A-Fa-f]+", digits):
                raise self.error(f"\\{letter} needs {_HEXADECIMAL[letter]} hexadecimal digits", begun)
            self.position += len(digits)
            return self.checked(int(digits, 16), begun)
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter and letter in "\\\"'[]-^/.*+?(){}|$ ":
            return ord(letter)
        raise self.error(
            'this escape means nothing: known are \\n \\r \\t \\x41 \\u0041 \\U00000041, and \\ before \\ " [ ] - ^',
            begun,
        )

    def checked(self, code: int, position: int) -> int:
        if code > sets.LAST or 0xD800 <= code <= 0xDFFF:
            raise self.error("this is no character: expected a code point up to 10FFFF that is no surrogate", position)
        return code

    # The result

    def rules(self, start: str) -> Rules:
        if start not in self.defined:
            names = ", ".join(list(self.defined)[:10])
            raise self.error(
                f"there is no rule {start!r} to start with; "
                + (f"there are {names}: name one with start=" if names else "the grammar has no rules"),
                0,
            )
        seen = {start}
        todo = [start]
        for name in todo:
            for body in self.found.get(name, []):
                for used in body:
                    if used not in seen:
                        seen.add(used)
                        todo.append(used)
        plain = tuple(Rule(name, body) for name in self.found if name in seen for body in self.found[name])
        terminals = tuple(terminal for terminal in self.terminals.values() if terminal.name in seen)
        return Rules(start, plain, terminals, frozenset(), "characters")


def _class_pattern(members: CharacterSet, negated: bool) -> str:
    ranges = (_class_character(low) + (f"-{_class_character(high)}" if high > low else "") for low, high in members)
    return f"[{'^' if negated else ''}{''.join(ranges)}]"


def _class_character(code: int) -> str:
    character = chr(code)
    if character.isascii() and character.isalnum():
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
