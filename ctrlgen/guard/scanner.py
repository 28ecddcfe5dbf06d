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

if TYPE_CHECKING:
    from numpy.typing import NDArray

REFUSED = -1
MAX_STATES = 30_000


@dataclass(frozen=True, eq=False)
class Scanner:
    """S states over bytes; state 0 is the start of a text.

    Attributes:
        after: int32[S, 256], the state after a byte, or REFUSED; in a name, where that is complete.
        within: int32[S, 256], in a name, the state after a byte of a name; REFUSED elsewhere.
        in_name: bool[S].
        url: bool[S], whether the name so far need not be one, since a URL may begin so.
        full_stop: int32[S], of a name the state after it and a full stop.
        fold: int16[256], the byte of a name that each byte stands for, or REFUSED.
        joins: whether runs of ``-``, ``_`` and ``.`` are one ``-``.
        block: the state at the start of a block of requirements.
    """

    after: NDArray[np.int32]
    within: NDArray[np.int32]
    in_name: NDArray[np.bool_]
    url: NDArray[np.bool_]
    full_stop: NDArray[np.int32]
    fold: NDArray[np.int16]
    joins: bool
    block: int

    @property
    def tables(self) -> tuple[NDArray[Any], ...]:
        """What the kernels take for the scanner."""
        return self.after, self.within, self.in_name, self.url, self.full_stop, self.fold


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
        self.block = self._of(arguments.begin(many=True, block=True))

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
        return Scanner(
            np.array(rows, np.int32),
            np.array(within, np.int32),
            np.array([_is_name(state) for state in self.states], np.bool_),
            np.array(
                [isinstance(s, Place) and s.at == "name" and s.more not in ("", "-") for s in self.states], np.bool_
            ),
            np.array(stops, np.int32),
            self.fold,
            joins,
            self.block,
        )

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
            if isinstance(state, Text):
                after = self.heads.step(state, byte)
                row[byte] = self._of(after if isinstance(after, Text) else self.arguments.begin(many=after))
                continue
            following = self.arguments.step(state, byte)
            row[byte] = REFUSED if following is None else self._of(following)
            if _is_name(state) and (self.fold[byte] >= 0 or (state.more not in ("", "-") and byte in b":+")):
                on = self.arguments.goes_on(state, byte)
                inside[byte] = REFUSED if on is None or (self.fold[byte] < 0 and on.at != "url") else self._of(on)
        return row, inside


def _is_name(state: Text | Place) -> bool:
    return isinstance(state, Place) and state.at == "name"
