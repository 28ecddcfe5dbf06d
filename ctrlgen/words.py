"""The minimal acyclic automaton of a list of byte strings, in time linear in their total length."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class WordGraph:
    """Edges and states, numbered breadth-first in byte order from state 0.

    Args:
        source: intp[E], state an edge leaves.
        byte: intp[E].
        target: intp[E], state it enters.
        accepting: bool[S].
        boundary: bool[S], whether the bytes read so far end on a whole UTF-8 character.
    """

    source: NDArray[np.intp]
    byte: NDArray[np.intp]
    target: NDArray[np.intp]
    accepting: NDArray[np.bool_]
    boundary: NDArray[np.bool_]


def word_graph(strings: Iterable[bytes], max_states: int) -> WordGraph:
    """The minimal automaton of ``strings``.

    The trie of the sorted strings is written as cells (byte, kind of node, first child, next sibling). Equal cells are
    given one number, last cell first, so that two nodes have the same continuations exactly if they have the same kind
    and their first children the same number.

    Raises:
        ComplexityError: more than ``max_states`` states are needed.
    """
    words = sorted(set(strings))
    cells, root = _cells(words)
    accepts_empty = bool(words) and not words[0]
    # a state is (kind, first cell of its children); kind = 2 * accepting + boundary
    number = {(2 * accepts_empty + 1, root): 0}
    order = [(2 * accepts_empty + 1, root)]
    source: list[int] = []
    byte: list[int] = []
    target: list[int] = []
    for state, (_, cell) in enumerate(order):
        while cell >= 0:
            label, kind, child, sibling = cells[cell]
            reached = number.setdefault((kind, child), len(order))
            if reached == len(order):
                order.append((kind, child))
            source.append(state)
            byte.append(label)
            target.append(reached)
            cell = sibling
        if len(order) > max_states:
            raise ComplexityError(
                f"{len(words)} strings need more than max_states={max_states} states (reached {len(order)}); "
                "raise max_states (a state takes 1 KiB) or use an index of token sequences for a catalogue"
            )
    kind_of = np.array([kind for kind, _ in order], dtype=np.intp)
    return WordGraph(
        np.array(source, dtype=np.intp),
        np.array(byte, dtype=np.intp),
        np.array(target, dtype=np.intp),
        accepting=kind_of >= 2,
        boundary=kind_of % 2 == 1,
    )


Cell = tuple[int, int, int, int]


def _cells(words: list[bytes]) -> tuple[list[Cell], int]:
    """Distinct cells and the number of the root's first child, -1 if there is none."""
    flat = np.frombuffer(b"".join(words), dtype=np.uint8).astype(np.intp)
    lengths = np.array([len(word) for word in words], dtype=np.intp)
    if not len(flat):
        return [], -1
    fresh, depth = _new_nodes(flat, lengths)
    kind = _whole(flat, depth).astype(np.intp)
    kind[np.cumsum(lengths)[lengths > 0] - 1] += 2
    label, kind, depth = flat[fresh], kind[fresh], depth[fresh]
    count = len(label)
    child = np.where(np.append(depth[1:], -1) == depth + 1, np.arange(1, count + 1), count)
    # nodes that are first children have their predecessor in preorder as parent, all others a sibling before them
    first = np.concatenate(([True], depth[1:] == depth[:-1] + 1))
    sibling = np.full(count, count, dtype=np.intp)
    by_depth = np.argsort(depth, kind="stable")
    later = np.flatnonzero(~first[by_depth])
    sibling[by_depth[later - 1]] = by_depth[later]
    cells: dict[Cell, int] = {}
    number = [-1] * (count + 1)
    columns = zip(label[::-1].tolist(), kind[::-1].tolist(), child[::-1].tolist(), sibling[::-1].tolist(), strict=True)
    for node, (letter, ends, below, after) in zip(range(count - 1, -1, -1), columns, strict=True):
        cell = (letter, ends, number[below], number[after])
        number[node] = cells.setdefault(cell, len(cells))
    return list(cells), number[0]


def _new_nodes(flat: NDArray[np.intp], lengths: NDArray[np.intp]) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """For every byte of the sorted words: whether it is past the prefix shared with the word before, and its depth."""
    starts = np.cumsum(lengths) - lengths
    depth = np.arange(len(flat)) - np.repeat(starts, lengths)
    previous_length = np.repeat(np.concatenate(([0], lengths[:-1])), lengths)
    previous_start = np.repeat(np.concatenate(([0], starts[:-1])), lengths)
    there = depth < previous_length
    same = there & (flat[np.where(there, previous_start + depth, 0)] == flat)
    different = np.cumsum(~same)
    before_word = np.concatenate(([0], different))[np.repeat(starts, lengths)]
    return different > before_word, depth


def _whole(flat: NDArray[np.intp], depth: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether a UTF-8 character ends at each byte: no lead within three bytes still waits for continuation bytes."""
    width = 1 + (flat >= 0xC2).astype(np.intp) + (flat >= 0xE0) + (flat >= 0xF0)
    width[flat > 0xF4] = 1
    continuation = (flat & 0xC0) == 0x80
    whole: NDArray[np.bool_] = width == 1
    joined = np.ones(len(flat), dtype=bool)
    for back in (1, 2):
        # all of the last `back` bytes continue the same word and the same character
        joined[back:] &= continuation[back:] if back == 1 else (continuation[1:-1] & continuation[2:])
        joined[:back] = False
        waiting = np.zeros(len(flat), dtype=bool)
        waiting[back:] = joined[back:] & (width[:-back] > back + 1) & (depth[back:] >= back)
        whole &= ~waiting
    return whole
