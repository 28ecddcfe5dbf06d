r"""Automata over code points -> automata over bytes: plain UTF-8, or the content of a JSON string.

A character state reads the first byte of a character; its other bytes are read by states inside the character. Such a
state is known by its row, where each of its bytes leads, so equal ones are one and the result is minimal.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import numpy as np

from ctrlgen.automaton import MAX_STATES, Automaton
from ctrlgen.errors import ComplexityError, SpecificationError
from ctrlgen.grammars.regex_subsets import CharacterAutomaton
from ctrlgen.grammars.spellings import CONTINUATION, ESCAPE, HEX, LEADS, WIDTHS, Ranges, shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

Escapes = Literal["all", "canonical"]
Coding = Literal["utf-8", "json", "json canonical"]

Targets = tuple[int, ...]

_DEAD = -1
_BACKSLASH = 0x5C

_SHORT = [0x22, 0x2F, 0x5C, 0x08, 0x0C, 0x0A, 0x0D, 0x09]  # what \" \/ \\ \b \f \n \r \t mean
_B, _F = 3, 4  # places in the row of an escape that are hexadecimal digits too

_BYTES = {HEX: np.array(list(b"0123456789abcdefABCDEF")), ESCAPE: np.array(list(b'"/\\bfnrtu'))}
"""The bytes of the entries of a row; the upper case digits repeat entries 10 to 15."""

_NO_ESCAPES = ((_DEAD,) * 15, (_DEAD,) * 15, (_DEAD,) * 8)
_NO_LEADS = (_DEAD,) * LEADS


class _Inside:
    """States inside characters, numbered from ``first`` on as they are met."""

    def __init__(self, coding: Coding, first: int, limit: int) -> None:
        self.coding, self.first, self.limit = coding, first, limit
        self.known: list[dict[Targets, int]] = [{(_DEAD,) * width: _DEAD} for width in WIDTHS[:CONTINUATION]]
        self.tails: dict[tuple[bytes, Targets], int] = {}
        self.moves: list[Targets] = []

    def state(self, kind: int, row: Targets) -> int:
        """The state that reads a hexadecimal digit or an escape, with this row."""
        known = self.known[kind]
        state = known.get(row)
        if state is None:
            state = known[row] = self._new(row)
        return state

    def tail(self, pattern: bytes, targets: Targets) -> int:
        """The state whose row for continuation bytes is ``[targets[place] for place in pattern]``."""
        key = pattern, targets
        state = self.tails.get(key)
        if state is None:
            state = self.tails[key] = self._new(targets)
        return state

    def _new(self, moves: Targets) -> int:
        state = self.first + len(self.moves)
        self.moves.append(moves)
        if state >= self.limit:
            raise _too_many(state + 1, self.limit)
        return state

    def beyond(self, ranges: Ranges, targets: Targets) -> tuple[Targets, tuple[Targets, ...]]:
        r"""Targets of the lead bytes, and of the digits after \u, \u0 and \u00, beyond ASCII."""
        spelt = shape(ranges, self.coding == "json")
        values = [_DEAD, *targets]
        for kind, pattern, row in spelt.steps:
            values.append(self.state(kind, row(values)) if pattern is None else self.tail(pattern, row(values)))
        return spelt.leads(values), tuple([row(values) for row in spelt.escapes]) or _NO_ESCAPES

    def escape(self, ascii: Targets, beyond: tuple[Targets, ...]) -> int:
        """The state after a backslash, given the targets of ASCII characters and of the digits beyond ASCII."""
        four, three, two = beyond
        short = [ascii[code] for code in _SHORT]
        if self.coding == "json":
            rows = [ascii[first : first + 16] for first in range(0, 128, 16)]
            blocks = [self.state(HEX, row) for row in rows]
        else:
            short[1] = _DEAD  # the slash is written as it is
            control = [_DEAD if code in _SHORT else ascii[code] for code in range(16)]
            blocks = [self.state(HEX, tuple(control)), self.state(HEX, ascii[16:32]), *[_DEAD] * 6]
        digits = self.state(HEX, (*blocks, *two))
        digits = self.state(HEX, (digits, *three))
        digits = self.state(HEX, (digits, *four))
        if self.coding != "json" and max(*short[:_B], *short[_F + 1 :], digits) == _DEAD:
            # \b and \f alone read the same bytes as a lower-case digit would
            row = [_DEAD] * 16
            row[0xB], row[0xF] = short[_B], short[_F]
            return self.state(HEX, tuple(row))
        return self.state(ESCAPE, (*short, digits))

    def fill(self, table: NDArray[np.int32], place: NDArray[np.int32]) -> None:
        """Write all states into int32[S, 256], each into the row ``place`` says."""
        for kind, known in enumerate(self.known):
            if len(known) > 1:
                rows = place[_array(known, WIDTHS[kind])[1:]]
                states = place[np.fromiter(known.values(), np.int32, len(known))[1:]]
                if kind == HEX and self.coding == "json":
                    rows = np.concatenate((rows, rows[:, 10:]), axis=1)
                table[states[:, None], _BYTES[kind][: rows.shape[1]]] = rows
        if self.tails:
            patterns = np.frombuffer(b"".join(pattern for pattern, _ in self.tails), np.uint8)
            targets = place[np.fromiter(chain.from_iterable(row for _, row in self.tails), np.int32)]
            starts = np.cumsum([0, *[len(row) for _, row in self.tails]])[:-1, None]
            states = place[np.fromiter(self.tails.values(), np.int32)]
            table[states, 0x80:0xC0] = targets[patterns.reshape(-1, WIDTHS[CONTINUATION]) + starts]


def _array(rows: Collection[Targets], width: int) -> NDArray[np.int32]:
    return np.fromiter(chain.from_iterable(rows), np.int32, len(rows) * width).reshape(-1, width)


def _too_many(count: int, limit: int) -> ComplexityError:
    return ComplexityError(
        f"written in bytes the language has {count} or more states, the limit is max_states={limit}; "
        "raise max_states, or make repeats of wide classes smaller"
    )


def lower(automaton: CharacterAutomaton, coding: Coding, max_states: int) -> Automaton:
    """The byte automaton of all spellings of a language of characters.

    Args:
        automaton: the language; it must be minimal and trimmed.
        coding: "utf-8"; or, as the content of a JSON string, "json" (all spellings) or "json canonical" (one each).
        max_states: limit on the states of the result.

    Raises:
        ComplexityError: more than ``max_states`` states are needed.
    """
    count = len(automaton.rows)
    inside = _Inside(coding, count, max_states)
    ascii = _ascii_columns(automaton)
    ascii_of = itemgetter(*ascii)
    before, after = (list(dict.fromkeys(c for c in part if c != _DEAD)) for part in _written(ascii, coding))
    far = [(max(first, 0x80), last, column) for first, last, column in automaton.segments if last >= 0x80]
    far_columns = list(dict.fromkeys(column for _, _, column in far))
    number: dict[Targets, int] = {}
    known: list[tuple[Targets, Targets, tuple[Targets, ...]]] = []
    leads, escapes, moves = [], [], []
    for row in automaton.rows:
        key = tuple([row[column] for column in far_columns])
        if key not in number:
            number[key] = len(known)
            lead, beyond = _beyond(inside, far, row)
            known.append((lead, tuple(dict.fromkeys(lead)), beyond))
        _, distinct, beyond = known[number[key]]
        escape = _DEAD if coding == "utf-8" else inside.escape(ascii_of((*row, _DEAD)), beyond)
        leads.append(number[key])
        escapes.append(escape)
        moves.append((*[row[column] for column in before], escape, *[row[column] for column in after], *distinct))
    order = _breadth_first(moves + inside.moves)
    place = np.full(len(order) + 1, _DEAD, dtype=np.int32)  # one more, which index -1 finds
    place[order] = np.arange(len(order))
    characters = np.full((count, 256), _DEAD, dtype=np.int32)
    targets = np.full((count, max(map(len, automaton.rows)) + 1), _DEAD, dtype=np.int32)
    targets[:, :-1] = automaton.rows
    characters[:, :128] = targets[:, np.array(ascii)]
    characters[:, 0xC0 : 0xC0 + LEADS] = np.array([lead for lead, _, _ in known], dtype=np.int32)[leads]
    if coding != "utf-8":
        characters[:, :0x20] = characters[:, 0x22] = _DEAD
        characters[:, _BACKSLASH] = escapes
    table = np.full((len(order), 256), _DEAD, dtype=np.int32)
    table[place[:count]] = place[characters]
    inside.fill(table, place)
    # minimal already: states inside characters are known by their rows, and character states are minimal
    accepting = np.zeros(len(order), dtype=bool)
    accepting[place[:count]] = automaton.accepting
    boundary = np.zeros(len(order), dtype=bool)
    boundary[place[:count]] = True
    return Automaton(table, accepting, boundary)


def _written(ascii: list[int], coding: Coding) -> tuple[list[int], list[int]]:
    """The columns of the ASCII characters that are written as they are, before and after the backslash."""
    if coding == "utf-8":
        return ascii, []
    return ascii[0x20:0x22] + ascii[0x23:_BACKSLASH], ascii[_BACKSLASH + 1 :]


def _ascii_columns(automaton: CharacterAutomaton) -> list[int]:
    """The class of each ASCII character, -1 for none."""
    columns = [_DEAD] * 128
    for first, last, column in automaton.segments:
        if first < 128:
            stop = min(last, 127) + 1
            columns[first:stop] = [column] * (stop - first)
    return columns


def _beyond(
    inside: _Inside, far: Sequence[tuple[int, int, int]], row: Sequence[int]
) -> tuple[Targets, tuple[Targets, ...]]:
    """What ``_Inside.beyond`` gives for a character state, with its targets numbered as they are met."""
    labels: dict[int, int] = {}
    ranges: list[tuple[int, int, int]] = []
    for first, last, column in far:
        target = row[column]
        if target == _DEAD:
            continue
        label = labels.setdefault(target, len(labels) + 1)
        if ranges and ranges[-1][2] == label and ranges[-1][1] + 1 == first:
            ranges[-1] = (ranges[-1][0], last, label)
        else:
            ranges.append((first, last, label))
    return inside.beyond(tuple(ranges), tuple(labels)) if ranges else (_NO_LEADS, _NO_ESCAPES)


def _breadth_first(rows: Sequence[Sequence[int]]) -> list[int]:
    """The states in canonical order."""
    seen = [False] * len(rows) + [True]  # the last one, which index -1 finds, is no state
    seen[0] = True
    order = [0]
    for state in order:
        for target in dict.fromkeys(rows[state]):
            if not seen[target]:
                seen[target] = True
                order.append(target)
    return order


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
