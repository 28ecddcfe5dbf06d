r"""Lazy repeats of a token's pattern -> greedy ones that match the same piece of every text.

Where a repeat stops matters to a lexer: of two comments, /\*.*\*/ takes the text between them too. The automata
behind it read all repeats as greedy, so a lazy one is written anew where that changes nothing, and is refused
elsewhere. Exact:

- what is repeated cannot begin as what follows does:      [a-z]*?[0-9]   ->  [a-z]*[0-9]
- nothing has to follow:                                   a+?            ->  a
- a fixed text that ends the token follows characters:     <.*?>          ->  <[^>\n]*>
- strings with escapes, in the two usual spellings:        ".*?(?<!\\)(\\\\)*?"  ->  "(?:[^"\\\n]|\\.)*"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ctrlgen.errors import RegexError
from ctrlgen.grammars import characters as sets
from ctrlgen.grammars.characters import CharacterSet
from ctrlgen.grammars.regex_positions import Positions, bits
from ctrlgen.grammars.regex_syntax import parse_regex

_LONGEST_END = 6  # characters of a fixed text that ends a token; their automaton is written out as a pattern

_BACKSLASH = ord("\\")
_ESCAPED = -1  # the state between a backslash and what it escapes
_ESCAPE: CharacterSet = ((_BACKSLASH, _BACKSLASH),)

_ADVICE = (
    "a lazy repeat here may stop at a place that depends on what comes later: write what is repeated so that it cannot "
    'run over its end, for instance "[^"\\n]*" instead of ".*?"'
)

_PIECE = re.compile(
    r"""
      (?P<single> \\ (?:x[0-9A-Fa-f]{2} | u[0-9A-Fa-f]{4} | U[0-9A-Fa-f]{8} | N\{[^}]*\} | .)
        | \[ \^? \]? (?:\\. | [^\]\\])* \]
      )
    | (?P<skip> \(\?\#[^)]*\) | \(\?[a-zA-Z]+\) | \(\?P=\w+\) )
    | (?P<open> \( (?:\?(?:[:=!>] | <[=!] | P<\w+> | [a-zA-Z]*(?:-[a-zA-Z]+)?:))? )
    | (?P<close> \) )
    | (?P<bar> \| )
    | (?P<repeat> (?:[*+?] | \{(?!\})[0-9]*(?:,[0-9]*)?\}) [?+]? )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)

Kind = Literal["single", "skip", "open", "close", "bar", "repeat", "other"]


@dataclass(frozen=True)
class _Piece:
    kind: Kind
    text: str
    start: int
    flags: str
    partner: int = -1
    """Index of the other parenthesis."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def lazy(self) -> bool:
        return self.kind == "repeat" and len(self.text) > 1 and self.text.endswith("?")

    @property
    def looks(self) -> bool:
        """Whether it opens a look-ahead or look-behind."""
        return self.text.startswith(("(?=", "(?!", "(?<=", "(?<!"))

    @property
    def one_character(self) -> bool:
        return self.kind == "single" or (self.kind == "other" and self.text not in "^$")


def without_lazy_repeats(pattern: str) -> str:
    r"""A pattern without lazy repeats that matches the same pieces of a text, leftmost-first.

    Raises:
        RegexError: there is no such pattern that can be found.

    >>> without_lazy_repeats(r"<.*?>")
    '<(?:[^\\\\x0a>])*>'
    """
    while True:
        pieces = _pieces(pattern)
        found = next((number for number in reversed(range(len(pieces))) if pieces[number].lazy), None)
        if found is None:
            return pattern
        if "x" in pieces[found].flags:
            raise RegexError("a lazy repeat is not supported together with the flag x", pattern, pieces[found].start)
        pattern = _Place(pattern, pieces, found).rewritten()


def _pieces(pattern: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    opened: list[tuple[int, str]] = []
    flags = ""
    for found in _PIECE.finditer(pattern):
        kind, text = found.lastgroup, found[0]
        partner = -1
        if kind == "skip" and text[2:-1].isalpha():
            flags = "".join(sorted({*flags, *text[2:-1]}))
        if kind == "open":
            opened.append((len(pieces), flags))
        if kind == "close" and opened:
            partner, flags = opened.pop()
            before = pieces[partner]
            pieces[partner] = _Piece("open", before.text, before.start, before.flags, len(pieces))
        pieces.append(_Piece(kind, text, found.start(), flags, partner))  # type: ignore[arg-type]
        if kind == "open" and text.endswith(":"):
            on, _, off = text[2:-1].partition("-")
            flags = "".join(sorted({*flags, *on} - {*off}))
    return pieces


@dataclass(frozen=True)
class _Part:
    """What a piece of a pattern can read."""

    first: CharacterSet
    nullable: bool
    single: bool
    """Whether it reads exactly one character, any of ``first``."""


def _part(text: str, flags: str) -> _Part:
    wrapped = f"(?{flags}:{text})" if flags else f"(?:{text})"
    instructions, _ = parse_regex(wrapped, "python", search=False, ascii=False)
    positions = Positions(20_000)
    positions.evaluate(instructions, search=False)
    first: list[tuple[int, int]] = []
    for position in bits(positions.first & ~1):
        item = positions.items[position]
        first += item if isinstance(item, tuple) else sets.EVERYTHING
    places = range(1, len(positions.items))
    single = positions.first == sum(1 << place for place in places) and all(
        isinstance(positions.items[place], tuple) and positions.follow[place] == 1 for place in places
    )
    return _Part(sets.character_set(first), bool(positions.first & 1), single and len(places) > 0)


class _Place:
    """A lazy repeat within a pattern."""

    def __init__(self, pattern: str, pieces: list[_Piece], number: int) -> None:
        self.pattern, self.pieces, self.number = pattern, pieces, number
        self.repeat = pieces[number]
        last = pieces[number - 1]
        self.atom = last.partner if last.kind == "close" else number - 1
        self.text = pattern[pieces[self.atom].start : last.end]
        self.flags = self.repeat.flags

    def rewritten(self) -> str:
        repeated = _part(self.text, self.flags)
        if repeated.nullable:
            raise RegexError("a lazy repeat of what may be empty is not supported", self.pattern, self.repeat.start)
        found = self.escaped_string()
        if found is None:
            first, free = self.following(self.number + 1)
            if free:
                found = self.replaced(self.text + f"{{{self.low}}}" if self.low else "", self.number + 1)
            elif not _overlap(repeated.first, first):
                found = self.replaced(self.text + self.repeat.text[:-1], self.number + 1)
            elif repeated.single and self.high is None:
                found = self.up_to_text(repeated.first)
        if found is None:
            raise RegexError(_ADVICE, self.pattern, self.repeat.start)
        return found

    @property
    def low(self) -> int:
        text = self.repeat.text
        return {"*": 0, "?": 0, "+": 1}[text[0]] if text[0] in "*?+" else int(text[1:-2].split(",")[0] or 0)

    @property
    def high(self) -> int | None:
        text = self.repeat.text
        if text[0] in "*+":
            return None
        if text[0] == "?":
            return 1
        low, comma, high = text[1:-2].partition(",")
        return int(high) if high else None if comma else int(low)

    def replaced(self, text: str, following: int) -> str:
        """The pattern with ``text`` for everything from the repeated part up to the piece ``following``."""
        end = self.pieces[following].start if following < len(self.pieces) else len(self.pattern)
        return self.pattern[: self.pieces[self.atom].start] + text + self.pattern[end:]

    def following(self, number: int) -> tuple[CharacterSet, bool]:
        """What can come right after the piece before ``number``, and whether the token may end there in any case."""
        first: list[tuple[int, int]] = []
        while number < len(self.pieces):
            stop = self.end_of_alternative(number)
            if stop > number:
                text = self.pattern[self.pieces[number].start : self.pieces[stop - 1].end]
                rest = _part(text, self.pieces[number].flags)
                first += rest.first
                if not rest.nullable:
                    return sets.character_set(first), False
            if stop == len(self.pieces):
                break
            close = stop if self.pieces[stop].kind == "close" else self.end_of_group(stop)
            number = close + 1
            after = self.pieces[number : number + 1]
            if self.pieces[self.pieces[close].partner].looks or (after and after[0].kind == "repeat"):
                return sets.EVERYTHING, False
        return sets.character_set(first), True

    def end_of_alternative(self, number: int) -> int:
        while number < len(self.pieces) and self.pieces[number].kind not in ("close", "bar"):
            number = self.pieces[number].partner + 1 if self.pieces[number].kind == "open" else number + 1
        return number

    def end_of_group(self, number: int) -> int:
        while self.pieces[number].kind != "close":
            number = self.pieces[number].partner + 1 if self.pieces[number].kind == "open" else number + 1
            if number >= len(self.pieces):
                raise RegexError("alternatives with a lazy repeat need a group around them", self.pattern, 0)
        return number

    def ending(self, number: int) -> tuple[list[_Part], int]:
        """The single characters from piece ``number`` on, and the number of the piece after them."""
        found = []
        while number < len(self.pieces) and self.pieces[number].one_character:
            piece = self.pieces[number]
            if number + 1 < len(self.pieces) and self.pieces[number + 1].kind == "repeat":
                break
            part = _part(piece.text, piece.flags)
            if not part.single:
                break
            found.append(part)
            number += 1
        return found, number

    def up_to_text(self, repeated: CharacterSet) -> str | None:
        """x*?END, where END ends the token."""
        text, after = self.ending(self.number + 1)
        if not text or len(text) > _LONGEST_END or not self.following(after)[1]:
            return None
        shortest = _shortest(repeated, [part.first for part in text])
        return self.replaced((self.text + f"{{{self.low}}}" if self.low else "") + shortest, after)

    def escaped_string(self) -> str | None:
        r""".*?(?<!\\)(\\\\)*?END and .*?(?<!\\)" after the opening quotes; this repeat is the last lazy one."""
        pairs = self.text in (r"(\\\\)", r"(?:\\\\)") and self.repeat.text == "*?"
        # the pieces of the look-behind, and those of .*? where this repeat is that of the pairs
        number, after = (self.atom - 5, self.number + 1) if pairs else (self.number - 1, self.number + 4)
        if number < 1 or after >= len(self.pieces):
            return None
        known = r".*?(?<!\\)" + (self.text + "*?" if pairs else "")
        begin = self.pieces[number].start
        text, closing = self.ending(after)
        spelled = self.pattern[begin : self.pieces[after].start]
        if spelled != known or not text or not self.not_after_backslash(number) or not self.following(closing)[1]:
            return None
        if len(text) > (_LONGEST_END if pairs else 1) or any(sets.contains(part.first, _BACKSLASH) for part in text):
            return None
        end = self.pieces[closing].start if closing < len(self.pieces) else len(self.pattern)
        breaks = sets.NOTHING if "s" in self.flags else sets.NEWLINE
        if pairs:
            shortest = _shortest(sets.complement(breaks), [part.first for part in text], escapes=True)
        else:
            plain = _class_text(sets.complement(sets.character_set((*text[0].first, *_ESCAPE, *breaks))))
            escaped = _class_text(sets.complement(sets.character_set((*_ESCAPE, *breaks))))
            shortest = f"(?:{plain}|\\\\+{escaped})*{_class_text(text[0].first)}"
        return self.pattern[:begin] + shortest + self.pattern[end:]

    def not_after_backslash(self, number: int) -> bool:
        """Whether the character before piece ``number`` is certain not to be a backslash."""
        number -= 1
        if number >= 0 and self.pieces[number].kind == "close" and self.pieces[self.pieces[number].partner].looks:
            number = self.pieces[number].partner - 1
        if number < 0 or not self.pieces[number].one_character:
            return False
        piece = self.pieces[number]
        return not sets.contains(_part(piece.text, piece.flags).first, _BACKSLASH)


def _overlap(one: CharacterSet, other: CharacterSet) -> bool:
    return sum(high - low + 1 for low, high in sets.character_set((*one, *other))) < sum(
        high - low + 1 for low, high in (*one, *other)
    )


def _shortest(repeated: CharacterSet, text: list[CharacterSet], *, escapes: bool = False) -> str:
    """A pattern of the texts x...x END without END before their end, from the automaton that looks for END.

    With ``escapes`` a backslash and the character after it are one x.
    """
    cuts = {0, sets.LAST + 1, *(edge for members in (repeated, *text, _ESCAPE) for low, high in members
                                for edge in (low, high + 1))}  # fmt: skip
    moves: dict[tuple[int, int], list[tuple[int, int]]] = {}
    start, final = frozenset({0}), frozenset({len(text)})
    numbers = {start: 0}
    todo = [start]
    for state in todo:
        for low, high in pairwise(sorted(cuts)):
            reached = {place + 1 for place in state if 0 <= place < len(text) and sets.contains(text[place], low)}
            if sets.contains(repeated, low) and (0 in state or _ESCAPED in state):
                reached.add(_ESCAPED if escapes and low == _BACKSLASH and _ESCAPED not in state else 0)
            if not reached:
                continue
            # whatever else was reached, the token ends here
            target = final if len(text) in reached else frozenset(reached)
            if target not in numbers:
                numbers[target] = len(numbers)
                if target != final:
                    todo.append(target)
            moves.setdefault((numbers[state], numbers[target]), []).append((low, high - 1))
    edges = {pair: _class_text(sets.character_set(ranges)) for pair, ranges in moves.items()}
    return _without_states(edges, numbers[final], len(numbers))


def _without_states(edges: dict[tuple[int, int], str], final: int, count: int) -> str:
    """The pattern of an automaton with start 0, by taking away its states one after the other."""
    edges[-1, 0] = ""
    for state in [number for number in reversed(range(count)) if number != final]:
        loop = edges.pop((state, state), None)
        around = "" if loop is None else f"(?:{loop})*"
        into = [(source, text) for (source, target), text in edges.items() if target == state]
        out = [(target, text) for (source, target), text in edges.items() if source == state]
        edges = {pair: text for pair, text in edges.items() if state not in pair}
        for source, before in into:
            for target, after in out:
                old = edges.get((source, target))
                new = before + around + after
                edges[source, target] = new if old is None else f"(?:{old}|{new})"
    return edges[-1, final]


def _class_text(members: CharacterSet) -> str:
    """A character class, or one character."""
    if len(members) == 1 and members[0][0] == members[0][1]:
        return _character(members[0][0])
    negated = members[-1][1] == sets.LAST
    shown = sets.complement(members) if negated else members
    ranges = (_character(low) + (f"-{_character(high)}" if high > low else "") for low, high in shown)
    return f"[{'^' if negated else ''}{''.join(ranges)}]" if shown else r"[\s\S]"


def _character(code: int) -> str:
    character = chr(code)
    if character.isascii() and (character.isalnum() or character in " _<>/\"'"):
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
