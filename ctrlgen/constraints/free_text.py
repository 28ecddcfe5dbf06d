"""Automata of free text: any bytes, up to the first place where one of some strings ends (Aho and Corasick 1975)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ctrlgen.automaton import Automaton
from ctrlgen.errors import ComplexityError, InputError

MAX_BYTES = 4096
"""Most bytes of all strings that a free text watches for."""


@lru_cache(256)
def text_until(ends: tuple[bytes, ...], never: tuple[bytes, ...] = ()) -> Automaton:
    """Any bytes up to and with the first of ``ends``, in which none of ``never`` has come before."""
    table, found = _watching((*ends, *never))
    over = len(table)
    stops = np.flatnonzero((found >= 0) & (found < len(ends)))
    gone = np.flatnonzero(found >= len(ends))
    table = np.where(np.isin(table, stops), np.int32(over), np.where(np.isin(table, gone), np.int32(-1), table))
    table = np.vstack([table, np.full((1, 256), -1, np.int32)])
    accepting = np.arange(over + 1) == over
    return Automaton.from_table(table.astype(np.int32), accepting, np.ones(over + 1, bool))


@lru_cache(256)
def text_without(never: tuple[bytes, ...] = ()) -> Automaton:
    """Any bytes in which none of ``never`` comes."""
    table, found = _watching(never)
    table = np.where(np.isin(table, np.flatnonzero(found >= 0)), np.int32(-1), table)
    everywhere = np.ones(len(table), bool)
    return Automaton.from_table(table.astype(np.int32), everywhere, everywhere)


def check_strings(strings: tuple[bytes, ...]) -> None:
    """Raise unless each of the strings can be the first to be found.

    Raises:
        InputError: one is empty, or found within another, which then can never come or never counts.
        ComplexityError: they have more than MAX_BYTES bytes.
    """
    for number, one in enumerate(strings):
        if not one:
            raise InputError("free text cannot wait for an empty string; give it at least one character")
        for other_number, other in enumerate(strings):
            if number != other_number and one in other:
                same = "is given twice" if one == other else f"occurs within {_shown(other)}"
                raise InputError(
                    f"{_shown(one)} {same}: free text is left, or may not go on, at the first of its strings, "
                    "so the other could never be told; make them differ, or leave one out"
                )
    if sum(map(len, strings)) > MAX_BYTES:
        raise ComplexityError(f"free text can watch for strings of {MAX_BYTES} bytes in all; give it fewer or shorter")


def _shown(text: bytes) -> str:
    return repr(text.decode(errors="replace"))


def _watching(strings: tuple[bytes, ...]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """int32[S, 256]: the state after a byte, never refused; int64[S]: the string that ends in a state, or -1."""
    children: list[dict[int, int]] = [{}]
    found = [-1]
    for number, text in enumerate(strings):
        state = 0
        for byte in text:
            if byte not in children[state]:
                children[state][byte] = len(children)
                children.append({})
                found.append(-1)
            state = children[state][byte]
        found[state] = number
    table = np.zeros((len(children), 256), np.int32)
    falls = [0] * len(children)
    queue = list(children[0].items())
    for byte, child in queue:
        table[0, byte] = child
    order = [child for _, child in queue]
    for state in order:
        table[state] = table[falls[state]]
        if found[state] < 0:
            found[state] = found[falls[state]]
        for byte, child in children[state].items():
            falls[child] = int(table[falls[state], byte])
            table[state, byte] = child
            order.append(child)
    return table, np.array(found, np.int64)
