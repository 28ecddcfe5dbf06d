"""The kernel of canonical forms against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.minimal_kernel import canonical
from tests.oracles.minimal import canonical_order, coarsest_partition, live_states

Table = tuple[list[list[int]], list[int]]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Moves, and a colour of each state; some tables without cycles, some with many equivalent states."""
    size, width = draw(st.integers(1, 10)), draw(st.integers(0, 3))
    forward = draw(st.booleans())
    rows = [
        draw(st.lists(st.integers(-1, size - 1), min_size=width, max_size=width).map(
            lambda row, state=state: [t if not forward or t > state else -1 for t in row]
        ))
        for state in range(size)
    ]  # fmt: skip
    return rows, draw(st.lists(st.sampled_from([0, 1, 3, 3]), min_size=size, max_size=size))


@settings(max_examples=400, deadline=None)
@given(tables())
def test_canonical(table: Table) -> None:
    rows, colours = table
    columns = np.array(rows, np.int32).reshape(len(rows), -1)
    order, number = canonical(columns, np.array(colours, np.uint8), False)
    keep = live_states(rows, [colour >= 2 for colour in colours])
    if not keep[0]:
        assert len(order) == 0
        return
    expected = canonical_order(rows, coarsest_partition(rows, colours, keep), keep)
    assert (order.tolist(), number.tolist()) == expected


@settings(max_examples=100, deadline=None)
@given(tables())
def test_a_minimal_table_is_only_put_in_order(table: Table) -> None:
    rows, colours = table
    columns = np.array(rows, np.int32).reshape(len(rows), -1)
    order, number = canonical(columns, np.array(colours, np.uint8), False)
    if len(order):
        narrow = columns[order]
        narrow = np.where(narrow < 0, -1, number[narrow]).astype(np.int32)
        shuffled = np.array([0, *range(len(order) - 1, 0, -1)])
        moved = np.where(narrow < 0, -1, shuffled[narrow]).astype(np.int32)[shuffled]
        again, _ = canonical(moved, np.array(colours, np.uint8)[order][shuffled], True)
        assert shuffled[again].tolist() == list(range(len(order)))
