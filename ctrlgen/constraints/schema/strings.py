"""How strings are read: a list of texts, or an automaton and limits on the length."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.shapes import content
from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.constraints.schema.shapes import String

MAX_STATES = 60_000
MAX_COUNT = (1 << 31) - 1


@dataclass(frozen=True)
class StringLexeme:
    """How a string shape is read.

    Args:
        texts: the whole texts, quotes included, if the values are listed.
        automaton: else the content with the closing quote.
        least: characters before the closing quote, to be counted along with the automaton.
        most: the same, None for no limit.
        shortest: bytes of the shortest text, both quotes included; None if there is none.
    """

    texts: tuple[bytes, ...] = ()
    automaton: Automaton | None = None
    least: int = 0
    most: int | None = None
    shortest: int | None = None


@lru_cache(4096)
def string_lexeme(shape: String) -> StringLexeme:
    """How a string shape is read.

    Raises:
        ComplexityError: a pattern together with a length takes too many states.
    """
    if shape.values is not None:
        texts = tuple(text for value in shape.values for text in spellings(value))
        return StringLexeme(texts, shortest=min(map(len, texts)))
    most = None if shape.most is None else min(shape.most, MAX_COUNT)
    if shape.automaton is None:
        return StringLexeme((), _any(), shape.least, most, shape.least + 2)
    automaton = of_length(shape.automaton, shape.least, most)
    if automaton.is_empty:
        return StringLexeme()
    return StringLexeme((), automaton.then(_quote()), shortest=len(automaton.shortest()) + 2)


def spellings(value: str) -> list[bytes]:
    r"""A listed string in JSON: as it is, all in ASCII, and with \/ for /.

    >>> spellings("a/é")
    [b'"a/\xc3\xa9"', b'"a/\\u00e9"', b'"a\\/\xc3\xa9"']
    """
    plain = b'"' + content(value) + b'"'
    return list(dict.fromkeys([plain, json.dumps(value).encode(), plain.replace(b"/", b"\\/")]))


@lru_cache(1)
def _quote() -> Automaton:
    return Automaton.from_strings([b'"'])


@lru_cache(1)
def _any() -> Automaton:
    return json_body("all").then(_quote())


def of_length(automaton: Automaton, least: int, most: int | None) -> Automaton:
    """The strings of ``automaton`` with between ``least`` and ``most`` characters.

    Raises:
        ComplexityError: it takes too many states.
    """
    if least == 0 and most is None:
        return automaton
    columns, boundary = automaton.columns, automaton.boundary.astype(np.int64)
    limit = least if most is None else most
    number, codes, rows, done = {0: 0}, [0], [], 0
    while done < len(codes):
        frontier = np.array(codes[done : done + 4096], np.int64)
        done += len(frontier)
        state, count = frontier // (limit + 1), frontier % (limit + 1)
        target = columns[state].astype(np.int64)
        after = count[:, None] + boundary[target]
        dead = target < 0
        if most is None:
            after = np.minimum(after, limit)
        else:
            dead |= after > limit
        rows.append(_numbered(np.where(dead, -1, target * (limit + 1) + after), number, codes))
        if len(codes) > MAX_STATES:
            raise ComplexityError(
                f"the pattern together with its length takes more than {MAX_STATES} states (a fixed limit); "
                "write a smaller length, or the length into the pattern: [a-z]{1,40}"
            )
    reached = np.array(codes, np.int64)
    state, count = reached // (limit + 1), reached % (limit + 1)
    accepting = automaton.accepting[state] & (count >= least)
    return Automaton.from_table(np.concatenate(rows), accepting, automaton.boundary[state], classes=automaton.classes)


def _numbered(codes: NDArray[np.int64], number: dict[int, int], order: list[int]) -> NDArray[np.int32]:
    """Codes as numbers, new ones in the order they are met; -1 stays."""
    unique, where = np.unique(codes, return_inverse=True)
    numbers = []
    for code in unique.tolist():
        if code >= 0 and code not in number:
            number[code] = len(order)
            order.append(code)
        numbers.append(number.get(code, -1))
    return np.array(numbers, np.int32)[where.reshape(codes.shape)]
