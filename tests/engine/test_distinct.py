"""Rows are kept once, and let go when they are many."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.engine.distinct import DistinctRows, rows_of
from ctrlgen.testing import toy_vocabulary
from ctrlgen.vocabulary import Vocabulary


class Holder:
    """Keeps every row it is given until told to forget them."""

    def __init__(self):
        self.rows = []

    def forget_rows(self):
        self.rows = []


def row_of(*words):
    return np.array(words, np.uint32)


@settings(deadline=None)  # the kernels may be compiled within
@given(st.lists(st.lists(st.integers(0, 2), min_size=40, max_size=40), min_size=1, max_size=60))
def test_one_array_for_each_content(contents):
    table = DistinctRows(row_of(*[0] * 40))
    firsts = {}
    for content in contents:
        kept = table.share(row_of(*content))
        assert kept.tolist() == content
        assert not kept.flags.writeable
        assert kept is firsts.setdefault(tuple(content), kept)
    assert len(table) == len(firsts)


def test_contents_with_one_fingerprint_stay_apart():
    one, table = DistinctRows(row_of(0)), DistinctRows(row_of(0))
    one.share(row_of(1000))
    fingerprint = one._slots[one._slots[:, 2] >= 0, 0]
    rows = [table.share(row_of(number)) for number in range(50)]
    table._slots[:, 0] = fingerprint  # as if all had that of the next
    assert int(table.share(row_of(1000))[0]) == 1000
    assert [int(row[0]) for row in rows] == list(range(50))


def test_rows_stay_where_they_are_while_more_come():
    table = DistinctRows(row_of(0, 0))
    rows = [table.share(row_of(number, number % 7)) for number in range(100_000)]
    assert all(rows[number].tolist() == [number, number % 7] for number in range(0, 100_000, 997))
    assert table.share(row_of(70_000, 0)) is rows[70_000]


def test_too_many_rows_are_forgotten_by_all():
    table, holders = DistinctRows(row_of(0), budget=64 * 32), [Holder(), Holder()]
    for holder in holders:
        table.held_by(holder)
    for number in range(1000):
        holder = holders[number % 2]
        row = table.share(row_of(number))
        holder.rows.append(row)
        assert int(row[0]) == number
        assert len(table) <= 32
        assert sum(len(each.rows) for each in holders) <= 33


def test_equal_states_of_different_constraints_share_a_row():
    vocabulary = toy_vocabulary()
    first, second = cg.Regex("a(b|c)").compile(vocabulary), cg.Regex("aa(b|c)").compile(vocabulary)
    one, other = first.advance(first.start, 1), second.advance(second.advance(second.start, 1), 1)
    assert first.mask(one) is second.mask(other)
    assert rows_of(Vocabulary(vocabulary.tokens, vocabulary.eos, dict(vocabulary.special))) is rows_of(vocabulary)
