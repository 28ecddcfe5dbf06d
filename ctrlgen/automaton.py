"""Byte automata: regular languages as one table, always minimal, always the same table for the same language.

An ``Automaton`` is a value. It is trimmed (every state is reachable and can still finish), minimised, and its states
are numbered breadth-first in byte order, so two automata of the same language have equal arrays and equal signatures.
Algorithms work on columns merged into byte classes (``classes``, ``columns``); most tables have 5 to 50 of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import ComplexityError
from ctrlgen.words import word_graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BYTES = np.arange(256)
MAX_STATES = 250_000
"""Default limit on the states of a result; a state takes one kilobyte."""


@dataclass(frozen=True, eq=False)
class Automaton:
    """A deterministic automaton over bytes; build one with the class methods, the operators or ``compile_regex``.

    Args:
        next: int32[S, 256], state after a byte, -1 where no continuation is in the language; state 0 is the start.
        accepting: bool[S], whether the bytes read so far are in the language.
        boundary: bool[S], whether they end on a whole character (in JSON strings also: on a whole escape).
    """

    next: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    boundary: NDArray[np.bool_]

    def __post_init__(self) -> None:
        for array in (self.next, self.accepting, self.boundary):
            array.setflags(write=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # arrays come back writable from a pickle: go through a constructor again
        return Automaton.from_columns, (self.columns, self.classes, self.accepting, self.boundary)

    def __len__(self) -> int:
        """The number of states."""
        return len(self.accepting)

    def __repr__(self) -> str:
        return f"Automaton(states={len(self)}, signature={self.signature})"

    def fold(self) -> None:
        """Keep the table as ``columns`` only, a fifth of it or less; it is made again when it is asked for."""
        self.__dict__["_merged"] = self._merged
        self.__dict__.pop("next", None)

    def __getattr__(self, name: str) -> Any:
        if name != "next" or "_merged" not in self.__dict__:
            raise AttributeError(f"Automaton has no attribute {name!r}")
        columns, classes = self._merged
        table = np.ascontiguousarray(columns[:, classes])
        table.setflags(write=False)
        self.__dict__["next"] = table
        return table

    # Construction

    @classmethod
    def from_table(
        cls,
        columns: NDArray[np.int32],
        accepting: NDArray[np.bool_],
        boundary: NDArray[np.bool_],
        *,
        classes: NDArray[np.intp] | None = None,
        minimal: bool = False,
    ) -> Automaton:
        """The canonical automaton of any deterministic table.

        Args:
            columns: int32[S, K], state after a byte of class k, negative where there is none; state 0 is the start.
            accepting: bool[S].
            boundary: bool[S].
            classes: intp[256], class of each byte, all of 0..K-1 in use; by default K is 256 and the classes are bytes.
            minimal: True if no two states are equivalent, which saves looking for them.
        """
        from ctrlgen.minimal_kernel import canonical

        if classes is None:
            columns, classes = _merge(columns, _BYTES)
        else:
            _, first = np.unique(classes, return_index=True)
            order = np.argsort(first)  # breadth-first numbers follow byte order, so columns must
            columns, classes = np.ascontiguousarray(columns[:, order], dtype=np.int32), np.argsort(order)[classes]
        kept, number = canonical(columns, accepting * np.uint8(2) + boundary, minimal)
        if not len(kept):
            return cls.empty()
        columns = columns[kept]
        columns[columns >= 0] = number[columns[columns >= 0]]
        return cls.from_columns(*_merge(columns, classes), accepting[kept], boundary[kept])

    @classmethod
    def from_columns(
        cls,
        columns: NDArray[np.int32],
        classes: NDArray[np.intp],
        accepting: NDArray[np.bool_],
        boundary: NDArray[np.bool_],
    ) -> Automaton:
        """An automaton that is canonical already, which is not checked, by its ``columns`` and ``classes``.

        Args:
            columns: int32[S, K], no two of them equal, in order of their first byte.
            classes: intp[256], the column of each byte.
            accepting: bool[S].
            boundary: bool[S].
        """
        result = cls.__new__(cls)
        result.__dict__.update(accepting=accepting, boundary=boundary, _merged=(columns, classes))
        for array in (columns, classes, accepting, boundary):
            array.setflags(write=False)
        return result

    @classmethod
    def from_strings(cls, strings: Iterable[bytes], *, max_states: int = 4 * MAX_STATES) -> Automaton:
        """Exactly the given byte strings.

        Raises:
            ComplexityError: more than ``max_states`` states are needed.
        """
        graph = word_graph(strings, max_states)
        used, column = np.unique(graph.byte, return_inverse=True)
        columns = np.full((len(graph.accepting), len(used) + 1), -1, dtype=np.int32)
        columns[graph.source, column] = graph.target
        classes = np.full(256, len(used))  # the last: bytes that no string has
        classes[used] = np.arange(len(used))
        return cls.from_columns(*_merge(columns, classes), graph.accepting, graph.boundary)

    @classmethod
    def empty(cls) -> Automaton:
        """The language without any string: one state that does not accept."""
        return cls(np.full((1, 256), -1, dtype=np.int32), np.zeros(1, dtype=bool), np.ones(1, dtype=bool))

    @classmethod
    def epsilon(cls) -> Automaton:
        """The language of the empty string alone."""
        return cls(np.full((1, 256), -1, dtype=np.int32), np.ones(1, dtype=bool), np.ones(1, dtype=bool))

    @classmethod
    def anything(cls) -> Automaton:
        """Any valid UTF-8 text: no overlong forms, no surrogates, nothing past U+10FFFF."""
        return _utf8()

    # What it is

    @property
    def is_empty(self) -> bool:
        """Whether the language has no string at all."""
        return len(self) == 1 and not self.accepting[0] and bool((self.columns < 0).all())

    @cached_property
    def signature(self) -> str:
        """16 hexadecimal digits, the same for the same language and different for different ones."""
        digest = hashlib.blake2b(digest_size=8)
        for array in (self.columns, self.classes, self.accepting, self.boundary):
            digest.update(array.tobytes())
        return digest.hexdigest()

    @cached_property
    def _merged(self) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        columns, classes = _merge(self.next, _BYTES)
        columns.setflags(write=False)  # always, since kernels are compiled for either
        classes.setflags(write=False)
        return columns, classes

    @property
    def columns(self) -> NDArray[np.int32]:
        """int32[S, K]: the table with equal columns merged, in order of their first byte."""
        return self._merged[0]

    @property
    def classes(self) -> NDArray[np.intp]:
        """intp[256]: the column of ``columns`` that a byte belongs to."""
        return self._merged[1]

    def advance(self, state: int, data: bytes) -> int:
        """The state after ``data``, -1 as soon as no continuation is in the language."""
        columns, classes = self._merged
        for byte in data:
            if state < 0:
                break
            state = int(columns[state, classes[byte]])
        return state

    def matches(self, data: bytes) -> bool:
        """Whether ``data`` is in the language."""
        state = self.advance(0, data)
        return state >= 0 and bool(self.accepting[state])

    def shortest(self) -> bytes:
        """The shortest string, the first in byte order among equally short ones.

        Raises:
            ValueError: the language is empty.
        """
        if self.is_empty:
            raise ValueError("the empty language has no shortest string")
        from ctrlgen.automaton_kernel import shortest

        _, first = np.unique(self.classes, return_index=True)
        return bytes(first[shortest(self.columns, self.accepting)].tolist())

    @property
    def class_sizes(self) -> NDArray[np.intp]:
        """intp[K], the number of bytes of each class."""
        return np.bincount(self.classes, minlength=self.columns.shape[1])

    def endings(self, limit: int) -> NDArray[np.int64]:
        """int64[S], how many strings lead from each state to acceptance, at most ``limit``; -1: without end."""
        from ctrlgen.automaton_kernel import endings

        found: NDArray[np.int64] = endings(self.columns, self.class_sizes, self.accepting, limit)
        return found

    # Algebra

    def __and__(self, other: Automaton) -> Automaton:
        return self.intersection(other)

    def __or__(self, other: Automaton) -> Automaton:
        return self.union(other)

    def __sub__(self, other: Automaton) -> Automaton:
        return self.difference(other)

    def intersection(self, other: Automaton, *, max_states: int = MAX_STATES) -> Automaton:
        """Strings in both; also ``a & b``. Raises ComplexityError past ``max_states``."""
        return _product(self, other, "intersection", max_states)

    def union(self, other: Automaton, *, max_states: int = MAX_STATES) -> Automaton:
        """Strings in either; also ``a | b``. Raises ComplexityError past ``max_states``."""
        return _product(self, other, "union", max_states)

    def difference(self, other: Automaton, *, max_states: int = MAX_STATES) -> Automaton:
        """Strings in this and not in the other; also ``a - b``. Raises ComplexityError past ``max_states``."""
        return _product(self, other, "difference", max_states)

    def then(self, other: Automaton, *, max_states: int = MAX_STATES) -> Automaton:
        """A string of this followed by one of the other.

        Raises:
            ComplexityError: more than ``max_states`` states are needed.
        """
        if self.is_empty or other.is_empty:
            return Automaton.empty()
        size = len(self)
        left, right, classes = _joint(self, other)
        rows = np.concatenate((left, np.where(right < 0, np.int32(-1), right + np.int32(size))))
        enters = np.full(len(rows), -1, np.int32)
        enters[:size][self.accepting] = size
        accepting = np.concatenate((np.zeros(size, bool), other.accepting))
        boundary = np.concatenate((self.boundary, other.boundary))
        return _determinise(rows, enters, [0], accepting, boundary, classes, "concatenation", max_states)

    def repeat(self, low: int, high: int | None, *, max_states: int = MAX_STATES) -> Automaton:
        """Between ``low`` and ``high`` strings of this, one after the other; no upper limit if ``high`` is None.

        Raises:
            ValueError: ``low`` is negative or above ``high``.
            ComplexityError: more than ``max_states`` states are needed.
        """
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"repeat({low}, {high}) needs 0 <= low <= high")
        if high == 0 or self.is_empty:
            return Automaton.empty() if low > 0 else Automaton.epsilon()
        copies, size = high or max(low, 1), len(self)
        if copies * size > 4 * max_states:
            raise _too_many("repetition", copies * size, max_states)
        shifts = np.arange(0, copies * size, size, dtype=np.int32)[:, None, None]
        columns = self.columns
        rows = np.where(columns < 0, np.int32(-1), columns + shifts).reshape(copies * size, -1)
        following = np.append(shifts[1:, 0, 0], -1 if high is not None else (copies - 1) * size)
        enters = np.where(self.accepting, following[:, None], -1).astype(np.int32).ravel()
        accepting = (self.accepting & (np.arange(1, copies + 1) >= low)[:, None]).ravel()
        boundary, start = np.tile(self.boundary, copies), [0]
        if low == 0:  # a state of its own accepts the empty string: the first copy's start may be entered again
            start.append(len(rows))
            rows = np.vstack((rows, np.full((1, rows.shape[1]), -1, np.int32)))
            enters, accepting, boundary = (
                np.append(enters, np.int32(-1)),
                np.append(accepting, True),
                np.append(boundary, True),
            )
        return _determinise(rows, enters, start, accepting, boundary, self.classes, "repetition", max_states)

    def optional(self) -> Automaton:
        """This or the empty string."""
        return self | Automaton.epsilon()


def _too_many(what: str, count: int, limit: int) -> ComplexityError:
    return ComplexityError(
        f"the {what} reached {count} states, the limit is max_states={limit}; "
        "raise max_states (a state takes 1 KiB) or make the language simpler"
    )


def _merge(columns: NDArray[np.int32], classes: NDArray[np.intp]) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
    """Equal columns merged, in order of their first byte, and the merged column of each byte."""
    from ctrlgen.automaton_kernel import equal_columns

    same = equal_columns(np.ascontiguousarray(columns, dtype=np.int32))[classes]
    _, first, merged = np.unique(same, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.ascontiguousarray(columns[:, same[first[order]]], dtype=np.int32), np.argsort(order)[merged]


def _joint(a: Automaton, b: Automaton) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.intp]]:
    """Both tables over one set of byte classes."""
    pairs = a.classes * 256 + b.classes
    _, first, classes = np.unique(pairs, return_index=True, return_inverse=True)
    # columns picked from a table come in the other order of memory, for which kernels would be compiled again
    left, right = a.columns[:, a.classes[first]], b.columns[:, b.classes[first]]
    return np.ascontiguousarray(left), np.ascontiguousarray(right), classes


def _product(a: Automaton, b: Automaton, what: str, max_states: int) -> Automaton:
    from ctrlgen import automaton_kernel as kernels

    left, right, classes = _joint(a, b)
    number = {"intersection": kernels.INTERSECTION, "union": kernels.UNION, "difference": kernels.DIFFERENCE}[what]
    rows, x, y = kernels.product(left, right, number, max_states)
    if len(x) > max_states:
        raise _too_many(what, len(x), max_states)
    # the last ones, which index -1 finds, are those of the state outside
    in_a, in_b = np.append(a.accepting, False)[x], np.append(b.accepting, False)[y]
    accepting = in_a & ~in_b if what == "difference" else in_a | in_b if what == "union" else in_a & in_b
    boundary = np.append(a.boundary, True)[x] & np.append(b.boundary, True)[y]
    return Automaton.from_table(rows, accepting, boundary, classes=classes)


def _determinise(
    rows: NDArray[np.int32],
    enters: NDArray[np.int32],
    start: list[int],
    accepting: NDArray[np.bool_],
    boundary: NDArray[np.bool_],
    classes: NDArray[np.intp],
    what: str,
    max_states: int,
) -> Automaton:
    """Subset construction where being in state q also means being in ``enters[q]``, unless that is -1."""
    from ctrlgen.automaton_kernel import subsets

    table, members, starts = subsets(np.ascontiguousarray(rows), enters, np.array(start, np.int32), max_states)
    if len(starts) - 1 > max_states:
        raise _too_many(what, len(starts) - 1, max_states)
    ends = np.logical_or.reduceat(accepting[members], starts[:-1])
    whole = np.logical_and.reduceat(boundary[members], starts[:-1])
    return Automaton.from_table(table, ends, whole, classes=classes)


@cache
def _utf8() -> Automaton:
    """Eight states: a character's start, 1 to 3 bytes to come, and four leads with a restricted second byte."""
    start, one, two, three, e0, ed, f0, f4 = range(8)
    edges = [
        (start, 0x00, 0x7F, start), (start, 0xC2, 0xDF, one), (start, 0xE0, 0xE0, e0), (start, 0xE1, 0xEF, two),
        (start, 0xED, 0xED, ed), (start, 0xF0, 0xF0, f0), (start, 0xF1, 0xF3, three), (start, 0xF4, 0xF4, f4),
        (one, 0x80, 0xBF, start), (two, 0x80, 0xBF, one), (three, 0x80, 0xBF, two),
        (e0, 0xA0, 0xBF, one), (ed, 0x80, 0x9F, one), (f0, 0x90, 0xBF, two), (f4, 0x80, 0x8F, two),
    ]  # fmt: skip
    table = np.full((8, 256), -1, dtype=np.int32)
    for source, low, high, target in edges:
        table[source, low : high + 1] = target
    at_start = np.arange(8) == start
    return Automaton.from_table(table, at_start, at_start)
