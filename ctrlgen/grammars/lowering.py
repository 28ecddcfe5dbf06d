r"""Automata over code points -> automata over bytes: plain UTF-8, or the content of a JSON string.

Every way to spell characters in bytes is a mixed-radix number: in UTF-8 the digits are a lead byte and continuation
bytes, in \uXXXX four hexadecimal digits of either case. A code tree spells the classes of a partition that way; a state
of the byte automaton is a node of the tree together with where the classes below it lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ctrlgen.automaton import MAX_STATES, Automaton
from ctrlgen.errors import ComplexityError, SpecificationError
from ctrlgen.grammars.characters import character_set
from ctrlgen.grammars.regex_subsets import CharacterAutomaton

if TYPE_CHECKING:
    from numpy.typing import NDArray

Escapes = Literal["all", "canonical"]
Coding = Literal["utf-8", "json", "json canonical"]

Segments = Sequence[tuple[int, int, int]]

Digit = tuple[tuple[int, int], ...]
"""The byte ranges that spell one digit."""


@dataclass(frozen=True)
class Spelling:
    """Code points first..last, written as (code - offset) in digits of the given alphabets, most significant first."""

    first: int
    last: int
    offset: int
    digits: tuple[tuple[Digit, ...], ...]


def _bytes(first: int, last: int) -> tuple[Digit, ...]:
    return tuple(((byte, byte),) for byte in range(first, last + 1))


def _literal(text: str) -> tuple[tuple[Digit, ...], ...]:
    return tuple((((byte, byte),),) for byte in text.encode())


def _hex(digits: str, *, both: bool = True) -> tuple[Digit, ...]:
    cases = [{digit.lower(), digit.upper()} if both else {digit} for digit in digits]
    return tuple(tuple(sorted((ord(letter), ord(letter)) for letter in case)) for case in cases)


_LEAD = tuple(_bytes(0xC0, 0xDF)), tuple(_bytes(0xE0, 0xEF)), tuple(_bytes(0xF0, 0xF7))
_CONTINUATION = _bytes(0x80, 0xBF)
_NIBBLE = _hex("0123456789abcdef")
_SHORT = {'"': 0x22, "\\": 0x5C, "/": 0x2F, "b": 0x08, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09}

_MULTIBYTE = (
    Spelling(0x80, 0x7FF, 0, (_LEAD[0], _CONTINUATION)),
    Spelling(0x800, 0xFFFF, 0, (_LEAD[1], _CONTINUATION, _CONTINUATION)),
    Spelling(0x10000, 0x10FFFF, 0, (_LEAD[2], _CONTINUATION, _CONTINUATION, _CONTINUATION)),
)


@cache
def _spellings(coding: Coding) -> tuple[Spelling, ...]:
    if coding == "utf-8":
        return (Spelling(0, 0x7F, 0, (_bytes(0, 0x7F),)), *_MULTIBYTE)
    raw = [(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)]
    spellings = [Spelling(first, last, first, (_bytes(first, last),)) for first, last in raw] + list(_MULTIBYTE)
    for letter, code in _SHORT.items():
        if coding == "json" or letter != "/":
            spellings.append(Spelling(code, code, code, _literal("\\" + letter)))
    if coding == "json":
        spellings.append(Spelling(0, 0xFFFF, 0, (*_literal("\\u"), _NIBBLE, _NIBBLE, _NIBBLE, _NIBBLE)))
        high = (*_literal("\\u"), _hex("d"), _hex("89ab"), _NIBBLE, _NIBBLE)
        low = (*_literal("\\u"), _hex("d"), _hex("cdef"), _NIBBLE, _NIBBLE)
        spellings.append(Spelling(0x10000, 0x10FFFF, 0x10000, high + low))
    else:
        nibble = _hex("0123456789abcdef", both=False)
        control = (*_literal("\\u00"), _hex("01"), nibble)
        for first, last in [(0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F)]:
            spellings.append(Spelling(first, last, 0, control))
    return tuple(spellings)


@cache
def _byte_runs(alphabet: tuple[Digit, ...], first: int, stop: int) -> tuple[tuple[int, int], ...]:
    """The bytes that spell the digits first..stop-1, as few ranges."""
    return character_set(piece for digit in alphabet[first:stop] for piece in digit)


Edges = tuple[tuple[int, int, int], ...]
"""Sorted disjoint byte ranges (first, last, child); a child is a node, or ~class if a character of the class ends."""


@dataclass
class CodeTree:
    """Nodes that spell the classes of a partition; equal nodes are one.

    Args:
        nodes: the edges of each node.
        classes: for each node the classes that can be spelt below it.
        targets: for each node what takes the targets of these classes from a row.
    """

    nodes: list[Edges] = field(default_factory=list)
    classes: list[tuple[int, ...]] = field(default_factory=list)
    targets: list[Callable[[Sequence[int]], Any]] = field(default_factory=list)
    number: dict[Edges, int] = field(default_factory=dict)

    def node(self, edges: Iterable[tuple[int, int, int]]) -> int | None:
        """The node with these edges, None if there are none."""
        merged: list[tuple[int, int, int]] = []
        for first, last, child in sorted(edges):
            if merged and merged[-1][1] + 1 == first and merged[-1][2] == child:
                merged[-1] = (merged[-1][0], last, child)
            else:
                merged.append((first, last, child))
        if not merged:
            return None
        key = tuple(merged)
        if key not in self.number:
            self.number[key] = len(self.nodes)
            self.nodes.append(key)
            below = {c for _, _, child in key for c in ((~child,) if child < 0 else self.classes[child])}
            self.classes.append(tuple(sorted(below)))
            self.targets.append(itemgetter(*self.classes[-1]))
        return self.number[key]

    def spell(self, spelling: Spelling, segments: Segments) -> int | None:
        """The node that spells all classes this way."""
        clipped = [
            (max(first, spelling.first) - spelling.offset, min(last, spelling.last) - spelling.offset, column)
            for first, last, column in segments
            if first <= spelling.last and last >= spelling.first
        ]
        known: dict[tuple[int, int], int] = {}
        return self._digits(spelling.digits, 0, clipped, known)

    def _digits(
        self, digits: tuple[tuple[Digit, ...], ...], place: int, segments: Segments, known: dict[tuple[int, int], int]
    ) -> int | None:
        """The node for numbers in ``segments``, which are relative to the digits from ``place`` on."""
        if place == len(digits):
            return ~segments[0][2] if segments else None
        weight = 1
        for alphabet in digits[place + 1 :]:
            weight *= len(alphabet)
        edges: list[tuple[int, int, int]] = []
        partial: dict[int, list[tuple[int, int, int]]] = {}
        for first, last, column in segments:
            full_from, full_to = -(-first // weight), (last + 1) // weight
            if full_from < full_to:
                child = self._uniform(digits, place + 1, weight, column, known)
                edges += [(low, high, child) for low, high in _byte_runs(digits[place], full_from, full_to)]
            for digit in {first // weight, last // weight}:
                if not full_from <= digit < full_to:
                    low, high = max(first - digit * weight, 0), min(last - digit * weight, weight - 1)
                    partial.setdefault(digit, []).append((low, high, column))
        for digit, inside in partial.items():
            deeper = self._digits(digits, place + 1, inside, known)
            if deeper is not None:
                edges += [(low, high, deeper) for low, high in digits[place][digit]]
        return self.node(edges)

    def _uniform(
        self,
        digits: tuple[tuple[Digit, ...], ...],
        place: int,
        weight: int,
        column: int,
        known: dict[tuple[int, int], int],
    ) -> int:
        """The node where all remaining digits lead to one class."""
        if (place, column) not in known:
            node = self._digits(digits, place, [(0, weight - 1, column)], known)
            assert node is not None  # no alphabet of digits is empty
            known[place, column] = node
        return known[place, column]

    def merge(self, nodes: Sequence[int]) -> int | None:
        """The union of nodes that never spell two classes with the same bytes."""
        if len(nodes) <= 1:
            return nodes[0] if nodes else None
        cuts = sorted({cut for node in nodes for first, last, _ in self.nodes[node] for cut in (first, last + 1)})
        edges = []
        for first, following in pairwise(cuts):
            children = [
                child for node in nodes for low, high, child in self.nodes[node] if low <= first and first <= high
            ]
            merged = self.merge(list(dict.fromkeys(children)))
            if merged is not None:
                edges.append((first, following - 1, merged))
        return self.node(edges)


@dataclass
class _Lowering:
    """Byte states under construction; the first ones are the character states, the others are inside characters."""

    tree: CodeTree
    limit: int
    states: list[Edges]
    known: dict[tuple[int, object], int] = field(default_factory=dict)
    number: dict[Edges, int] = field(default_factory=dict)

    def enter(self, node: int, row: Sequence[int]) -> int:
        """The byte state of a node below a character state with this row; -1 if it leads nowhere."""
        key = (node, self.tree.targets[node](row))
        known = self.known.get(key)
        if known is None:
            edges = self.edges(node, row)
            if edges and edges not in self.number:
                self.number[edges] = len(self.states)
                self.states.append(edges)
                if len(self.states) > self.limit:
                    raise ComplexityError(
                        f"written in bytes the language has {len(self.states)} or more states, the limit is "
                        f"max_states={self.limit}; raise max_states, or make repeats of wide classes smaller"
                    )
            known = self.known[key] = self.number[edges] if edges else -1
        return known

    def edges(self, node: int, row: Sequence[int]) -> Edges:
        """Where the bytes of a node lead, with equal neighbours merged."""
        merged: list[tuple[int, int, int]] = []
        for first, last, child in self.tree.nodes[node]:
            target = row[~child] if child < 0 else self.enter(child, row)
            if target < 0:
                continue
            if merged and merged[-1][1] + 1 == first and merged[-1][2] == target:
                merged[-1] = (merged[-1][0], last, target)
            else:
                merged.append((first, last, target))
        return tuple(merged)


def lower(automaton: CharacterAutomaton, coding: Coding, max_states: int) -> Automaton:
    """The byte automaton of all spellings of a language of characters.

    Args:
        automaton: the language; it must be minimal and trimmed.
        coding: "utf-8"; or, as the content of a JSON string, "json" (all spellings) or "json canonical" (one each).
        max_states: limit on the states of the result.

    Raises:
        ComplexityError: more than ``max_states`` states are needed.
    """
    tree = CodeTree()
    spelt = [tree.spell(spelling, automaton.segments) for spelling in _spellings(coding)]
    root = tree.merge([node for node in spelt if node is not None])
    count = len(automaton.rows)
    lowering = _Lowering(tree, max_states, [()] * count)
    for state, row in enumerate(automaton.rows):
        lowering.states[state] = lowering.edges(root, row) if root is not None else ()
    starts = np.zeros(len(lowering.states), dtype=bool)
    starts[:count] = True
    accepting = starts.copy()
    accepting[:count] = automaton.accepting
    order, place = _breadth_first(lowering.states)
    # minimal already: equal edges inside a character are one state, and character states are minimal
    return Automaton(_table(lowering.states, order, place), accepting[order], starts[order])


def _breadth_first(states: Sequence[Edges]) -> tuple[list[int], list[int]]:
    """The states in canonical order, and the place of each state in it."""
    place = [-1] * len(states)
    place[0] = 0
    order = [0]
    for state in order:
        for _, _, target in states[state]:
            if place[target] < 0:
                place[target] = len(order)
                order.append(target)
    return order, place


def _table(states: Sequence[Edges], order: Sequence[int], place: Sequence[int]) -> NDArray[np.int32]:
    """Edges as int32[S, 256], -1 where there is none."""
    table = np.full((len(order), 256), -1, dtype=np.int32)
    edges = [
        (number << 8 | low, high - low + 1, place[to]) for number, s in enumerate(order) for low, high, to in states[s]
    ]
    if edges:
        first, width, target = np.array(edges, dtype=np.int64).T
        ends = np.cumsum(width)
        table.reshape(-1)[np.arange(ends[-1]) + np.repeat(first - ends + width, width)] = np.repeat(target, width)
    return table


# JSON strings without a regular expression


def coding_of(*, json: bool, escapes: Escapes) -> Coding:
    """The coding that the options ask for."""
    if not json:
        return "utf-8"
    return "json" if escapes == "all" else "json canonical"


def json_string(text: str, escapes: Escapes = "all") -> Automaton:
    """The content (between the quotes) of JSON strings whose value is ``text``.

    Raises:
        SpecificationError: the text holds a lone surrogate, which UTF-8 cannot write.
    """
    for character in text:
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise SpecificationError(f"{text!r} holds the lone surrogate U+{ord(character):04X}, which is no character")
    alphabet = sorted(set(text))
    column = {character: number for number, character in enumerate(alphabet)}
    rows = [[-1] * len(alphabet) for _ in range(len(text) + 1)]
    for state, character in enumerate(text):
        rows[state][column[character]] = state + 1
    segments = tuple((ord(character), ord(character), number) for character, number in column.items())
    accepting = (*[False] * len(text), True)
    language = CharacterAutomaton(segments, tuple(map(tuple, rows)), accepting)
    return lower(language, coding_of(json=True, escapes=escapes), MAX_STATES)


@cache
def json_body(escapes: Escapes = "all") -> Automaton:
    """The content of any JSON string."""
    everything = CharacterAutomaton(((0, 0xD7FF, 0), (0xE000, 0x10FFFF, 0)), ((0,),), (True,))
    return lower(everything, coding_of(json=True, escapes=escapes), MAX_STATES)
