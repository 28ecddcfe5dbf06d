"""What the positions of a pattern do with each class of characters.

Conditions between two characters are decided when the second one is read: a state remembers the kind of the character
before it, and a column knows the kind of the character it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from ctrlgen.grammars.characters import LINE_TERMINATORS, NEWLINE, CharacterSet, partition
from ctrlgen.grammars.regex_escapes import Rules
from ctrlgen.grammars.regex_positions import END, LookAhead, Positions, bits
from ctrlgen.grammars.regex_syntax import Edge, EdgeKind

NOTHING, _WORD, _BREAK, _OTHER = range(4)
"""Kinds of neighbours: the edge of the text, a word character, a line break, any other character."""

# Python before 3.14 says that \B does not match in an empty text
_PYTHON_EMPTY_NOT_WORD = re.search(r"\B", "") is not None


class Reader:
    """The moves of a pattern.

    Args:
        positions: the pattern.
        rules: what a word character and a line break are.
    """

    """What the positions of a pattern do with each class of characters."""

    def __init__(self, positions: Positions, rules: Rules) -> None:
        self.budget = positions.budget
        self.follow, self.tail, self.items = positions.follow, positions.tail, positions.items
        by_set: dict[CharacterSet, int] = {}
        by_edge: dict[EdgeKind, int] = {}
        self.looks = 0
        for position, item in enumerate(positions.items[1:], start=1):
            if isinstance(item, Edge):
                by_edge[item.kind] = by_edge.get(item.kind, 0) | 1 << position
            elif isinstance(item, LookAhead):
                self.looks |= 1 << position
            elif item is not None:
                by_set[item] = by_set.get(item, 0) | 1 << position
        self.edges = sum(by_edge.values())
        sets = list(by_set)
        if self.edges:  # tell word characters and line breaks apart in every set
            sets += [rules.letter_class("w"), NEWLINE if rules.dialect == "python" else LINE_TERMINATORS]
        found = partition(sets)
        self.segments = found.segments
        self.readers = [_union(by_set[sets[i]] for i in bits(inside) if i < len(by_set)) for inside in found.members]
        self.kinds = [
            _WORD if inside >> len(by_set) & 1 else _BREAK if inside >> len(by_set) & 2 else _OTHER
            for inside in found.members
        ]
        holding = _holding(rules.dialect == "python")
        self.open = [[_union(by_edge[kind] for kind in by_edge if kind in kinds) for kinds in row] for row in holding]
        self.unions: dict[tuple[int, int], int] = {}  # with the bit length, for hashing

    def close(self, members: int, before: int, after: int) -> int:
        """With everything that is reached through edges that hold here."""
        open_ = self.open[before][after]
        todo = seen = members & open_
        while todo:
            low = todo & -todo
            following = self.follow[low.bit_length() - 1]
            members |= following
            fresh = following & open_ & ~seen
            seen |= fresh
            todo = (todo ^ low) | fresh
        return members

    def read(self, members: int, column: int) -> int:
        """The positions that may come after one of ``members`` has read a character of the class."""
        hit = members & self.readers[column]
        if not hit:
            return 0
        reached = self.unions.get((hit.bit_length(), hit))
        if reached is None:
            self.budget.spend(hit.bit_count() + 1)
            reached = _union(self.follow[position] for position in bits(hit))
            if reached & self.tail:  # whatever follows, the match is made
                reached = self.tail | END
            self.unions[hit.bit_length(), hit] = reached
        return reached


@cache
def _holding(python: bool) -> list[list[frozenset[EdgeKind]]]:
    """The edges that hold between two kinds of neighbours."""
    return [[frozenset(_between(before, after, python)) for after in range(4)] for before in range(4)]


def _between(before: int, after: int, python: bool) -> Iterator[EdgeKind]:
    if before == NOTHING:
        yield "start"
    if after == NOTHING:
        yield "end"
    if before in (NOTHING, _BREAK):
        yield "line start"
    if after in (NOTHING, _BREAK):
        yield "line end"
    inside = (before == _WORD) == (after == _WORD)
    if not inside:
        yield "word"
    if _PYTHON_EMPTY_NOT_WORD if python and before == after == NOTHING else inside:
        yield "not word"


def _union(members: Iterable[int]) -> int:
    result = 0
    for member in members:
        result |= member
    return result
