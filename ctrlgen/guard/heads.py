"""Commands found in free text, byte by byte, wherever they stand.

The phrases of ``ctrlgen.guard.commands`` are one nondeterministic automaton; a state is the set of places within them.
Small and capital letters are the same; between two words there may be blanks, flags, and a backslash at the line's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ctrlgen.guard.commands import Commands

BLANK, NEWLINE = frozenset(b" \t\r\v\f"), frozenset(b"\n")
_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_FLAG = frozenset(range(0x21, 0x7F)) - frozenset(b";|&`")
_VERSION = frozenset(b"0123456789.")


class Text(NamedTuple):
    """Free text: the places within phrases, and whether a word may begin."""

    places: frozenset[int]
    boundary: bool


class Heads:
    """The phrases as an automaton over bytes: a trie of words, and between words the gaps."""

    def __init__(self, commands: Commands) -> None:
        self._edges: list[list[tuple[frozenset[int], int]]] = []
        self._known: dict[tuple[int, frozenset[int]], int] = {}
        self._gaps: dict[int, int] = {}
        self._flags: set[int] = set()
        self._last: dict[int, bool] = {}
        self._begin = self._node()
        for phrases, many in ((commands.many, True), (commands.one, False)):
            for phrase in phrases:
                self._last[self._phrase(phrase)] = many
        self.start = Text(frozenset(), True)
        self.blocks = commands.blocks

    def step(self, text: Text, byte: int) -> Text | bool:
        """The text after a byte; or that a command begins: True if many names follow, False if one does."""
        if byte in BLANK and (ended := [self._last[place] for place in text.places if place in self._last]):
            return any(ended)
        places = [*text.places, self._begin] if text.boundary else text.places
        after = frozenset(to for place in places for bytes_, to in self._edges[place] if byte in bytes_)
        return Text(after, byte not in _WORD and not after & self._flags)

    def _node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def _phrase(self, phrase: str) -> int:
        """Add a phrase; its last node."""
        node = self._begin
        for number, word in enumerate(phrase.split()):
            node = self._word(self._gap(node) if number else node, word)
        return node

    def _word(self, node: int, word: str) -> int:
        for letter in word.removesuffix("*"):
            node = self._to(node, frozenset((letter.lower() + letter.upper()).encode()))
        if word.endswith("*") and (_VERSION, node) not in self._edges[node]:
            # pip3, pip3.12 and pip.exe: after ".exe" goes on what goes on after "pip"
            self._edges[node].append((_VERSION, node))
            last = node
            for letter in ".ex":
                last = self._to(last, frozenset((letter + letter.upper()).encode()))
            self._edges[last].append((frozenset(b"eE"), node))
        return node

    def _to(self, node: int, bytes_: frozenset[int]) -> int:
        key = node, bytes_
        if key not in self._known:
            self._known[key] = self._node()
            self._edges[node].append((bytes_, self._known[key]))
        return self._known[key]

    def _gap(self, node: int) -> int:
        """Blanks, flags and continued lines, after which the next word begins."""
        if node not in self._gaps:
            gap = self._gaps[node] = self._to(node, BLANK)
            self._edges[gap].append((BLANK, gap))
            flag = self._to(gap, frozenset(b"-"))
            self._flags.add(flag)
            self._edges[flag] += [(_FLAG, flag), (BLANK, gap)]
            for place in (node, gap):
                back = self._to(place, frozenset(b"\\"))
                self._edges[back] += [(frozenset(b"\r"), back), (frozenset(b"\n"), gap)]
        return self._gaps[node]
