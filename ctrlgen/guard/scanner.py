"""The scanner as tables: every place that can be reached, by number, and what each byte leads to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import ComplexityError
from ctrlgen.guard.arguments import Arguments, Place, Policy
from ctrlgen.guard.commands import COMMANDS, Ecosystem
from ctrlgen.guard.heads import Heads, Text
from ctrlgen.guard.lines import ALIKE, ENDINGS, Blocks, blocks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

REFUSED = -1
TEXT, COMMAND, BLOCK, CLOSED = range(4)
"""What a state is in."""
MAX_STATES = 30_000


@dataclass(frozen=True, eq=False)
class Scanner:
    """S states over bytes; state 0 is the start of a text.

    Attributes:
        after: int32[S, 256], the state after a byte, or REFUSED; in a name, where that is complete.
        within: int32[S, 256], in a name, the state after a byte of a name; REFUSED elsewhere.
        in_name: bool[S].
        url: int32[S], of a name that need not be one (a URL may begin so, or the mark that ends a block), how many
            bytes are left of what it may become; 0 of all others.
        full_stop: int32[S], of a name the state after it and a full stop.
        fold: int16[256], the byte of a name that each byte stands for, or REFUSED.
        joins: whether runs of ``-``, ``_`` and ``.`` are one ``-``.
        block: the state at the start of a block of requirements.
        others: by state, what ``url`` counts.
        kind: int8[S], TEXT, COMMAND, BLOCK, or CLOSED behind the fence that ends a block.
        blocks: int32[4], the states in which the blocks of ``ctrlgen.guard.lines.ENDINGS`` begin.
        lines: where blocks begin.
        resume: by state within a block, the state at its next line.
    """

    after: NDArray[np.int32]
    within: NDArray[np.int32]
    in_name: NDArray[np.bool_]
    url: NDArray[np.int32]
    full_stop: NDArray[np.int32]
    fold: NDArray[np.int16]
    joins: bool
    block: int
    others: Mapping[int, bytes]
    kind: NDArray[np.int8]
    blocks: NDArray[np.int32]
    lines: Blocks
    resume: Mapping[int, int]

    @property
    def tables(self) -> tuple[Any, ...]:
        """What the kernels take for the scanner."""
        lines = self.lines
        scanning = self.after, self.within, self.in_name, self.url, self.full_stop, self.fold
        return *scanning, self.kind, self.blocks, lines.after, lines.commanded, lines.behind


@lru_cache(8)
def scanner_of(ecosystem: Ecosystem, policy: Policy) -> Scanner:
    """The scanner of an ecosystem's commands."""
    heads = Heads(COMMANDS[ecosystem])
    arguments = Arguments(COMMANDS[ecosystem], policy, heads)
    fold = _fold(ecosystem)
    exploring = _Exploring(heads, arguments, fold)
    return exploring.scanner(joins=ecosystem == "pypi")


def _fold(ecosystem: Ecosystem) -> NDArray[np.int16]:
    fold = np.full(256, REFUSED, np.int16)
    for byte in b"abcdefghijklmnopqrstuvwxyz0123456789-_.":
        fold[byte] = byte
    for byte in range(0x41, 0x5B):
        fold[byte] = byte + 0x20 if ecosystem == "pypi" else byte
    if ecosystem == "pypi":
        fold[[0x5F, 0x2E]] = 0x2D
    else:
        fold[[0x40, 0x2F, 0x7E]] = 0x40, 0x2F, 0x7E
    return fold


class _Exploring:
    """States met so far, numbered."""

    def __init__(self, heads: Heads, arguments: Arguments, fold: NDArray[np.int16]) -> None:
        self.heads, self.arguments, self.fold = heads, arguments, fold
        self.number: dict[Text | Place, int] = {}
        self.states: list[Text | Place] = []
        self._of(heads.start)
        self.block = self._of(arguments.begin(many=True, block=ENDINGS[0]))
        for ending in ENDINGS[1:] if heads.blocks else ():
            self._of(arguments.begin(many=True, block=ending))

    def scanner(self, *, joins: bool) -> Scanner:
        rows, within, stops = [], [], []
        at = 0
        while at < len(self.states):
            state = self.states[at]
            row, inside = self._row(state)
            rows.append(row)
            within.append(inside)
            stops.append(self._of(state._replace(at="dot", more="")) if isinstance(state, Place) else REFUSED)
            at += 1
        others = self._others(within)
        url = np.zeros(len(self.states), np.int32)
        url[list(others)] = [len(rest) for rest in others.values()]
        return Scanner(
            np.array(rows, np.int32),
            np.array(within, np.int32),
            np.array([_is_name(state) for state in self.states], np.bool_),
            url,
            np.array(stops, np.int32),
            self.fold,
            joins,
            self.block,
            others,
            np.array(list(map(_kind, self.states)), np.int8),
            np.array([self.number.get(self.arguments.begin(many=True, block=e), 0) for e in ENDINGS], np.int32),
            blocks(watched=self.heads.blocks),
            {
                number: self.number[self.arguments.begin(many=True, block=state.block)]
                for number, state in enumerate(self.states)
                if isinstance(state, Place) and state.block
            },
        )

    def _others(self, within: Sequence[Sequence[int]]) -> dict[int, bytes]:
        """Of each name that may become something else, the bytes that are left of the nearest such thing."""
        found: dict[int, bytes] = {}
        todo = {
            number
            for number, state in enumerate(self.states)
            if isinstance(state, Place) and state.at == "name" and state.more not in ("", "-")
        }
        while todo:
            nearer: dict[int, bytes] = {}
            for number in todo:
                for byte, to in enumerate(within[number]):
                    if to >= 0 and (to in found or not _is_name(self.states[to])):
                        nearer[number] = min(
                            (bytes([byte]) + found.get(to, b""), nearer.get(number, b"")),
                            key=lambda way: (not way, len(way)),
                        )
            found |= nearer
            todo = todo - set(nearer) if nearer else set()
        return found

    def _of(self, state: Text | Place) -> int:
        if state not in self.number:
            if len(self.states) >= MAX_STATES:
                raise ComplexityError(f"the commands take more than {MAX_STATES} states")
            self.number[state] = len(self.states)
            self.states.append(state)
        return self.number[state]

    def _row(self, state: Text | Place) -> tuple[list[int], list[int]]:
        row, inside = [REFUSED] * 256, [REFUSED] * 256
        for byte in range(256):
            if byte in ALIKE:
                row[byte], inside[byte] = row[ALIKE[byte]], inside[ALIKE[byte]]
            elif isinstance(state, Text):
                after = self.heads.step(state, byte)
                row[byte] = self._of(after if isinstance(after, Text) else self.arguments.begin(many=after))
            else:
                following = self.arguments.step(state, byte)
                row[byte] = REFUSED if following is None else self._of(following)
                if _is_name(state):
                    inside[byte] = self._inside(state, byte)
        return row, inside

    def _inside(self, state: Place, byte: int) -> int:
        """What follows a byte of a name, or of something that begins like one."""
        if (behind := self.arguments.ends_block(state, byte)) is not None:
            return self._of(behind)
        if self.fold[byte] < 0 and not (state.more not in ("", "-") and byte in b":+"):
            return REFUSED
        on = self.arguments.goes_on(state, byte)
        return REFUSED if on is None or (self.fold[byte] < 0 and on.at != "url") else self._of(on)


def _kind(state: Text | Place) -> int:
    if isinstance(state, Text):
        return TEXT
    return CLOSED if state.at == "closed" else BLOCK if state.block else COMMAND


def _is_name(state: Text | Place) -> bool:
    return isinstance(state, Place) and state.at == "name"
