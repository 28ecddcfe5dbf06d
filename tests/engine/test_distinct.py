"""Rows are kept once, and let go when they are many."""

import gc

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.engine.distinct import DistinctRows, rows_of
from ctrlgen.engine.kernel_rows import equal, fingerprint
from ctrlgen.testing import toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

words = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9)


class Holder:
    """Keeps every row it is given until told to forget them."""

    def __init__(self):
        self.rows = []

    def forget_rows(self):
        self.rows = []


@settings(deadline=None)  # the kernels may be compiled within
@given(words, words)
def test_rows_are_equal_exactly_if_their_words_are(one, other):
    first, second = np.array(one, np.uint32), np.array(other, np.uint32)
    assert equal(first, first.copy())
    assert fingerprint(first) == fingerprint(first.copy())
    if len(one) == len(other):
        assert equal(first, second) == (one == other)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_one_array_for_each_content(numbers):
    table = DistinctRows(4)
    firsts = {}
    kept = []
    for number in numbers:
        row = np.array([number], np.uint32)
        kept.append(table.share(row))
        assert kept[-1][0] == number
        assert not kept[-1].flags.writeable
        firsts.setdefault(number, kept[-1])
        assert kept[-1] is firsts[number]


def test_contents_with_one_fingerprint_stay_apart(monkeypatch):
    monkeypatch.setattr("ctrlgen.engine.distinct.fingerprint", lambda row: 7)
    table = DistinctRows(4)
    rows = [table.share(np.array([number], np.uint32)) for number in (1, 2, 3, 1, 2, 3)]
    assert [int(row[0]) for row in rows] == [1, 2, 3, 1, 2, 3]


def test_rows_go_with_who_holds_them():
    table, holder = DistinctRows(4), Holder()
    for number in range(10):
        holder.rows.append(table.share(np.array([number], np.uint32)))
    assert len(table) == 10
    holder.forget_rows()
    gc.collect()
    assert len(table) == 0


def test_too_many_rows_are_forgotten_by_all():
    table, holders = DistinctRows(4, budget=4 * 32), [Holder(), Holder()]
    for holder in holders:
        table.held_by(holder)
    for number in range(1000):
        holder = holders[number % 2]
        holder.rows.append(table.share(np.array([number], np.uint32)))
        assert len(table) <= 33


def test_equal_states_of_different_constraints_share_a_row():
    vocabulary = toy_vocabulary()
    first, second = cg.Regex("a(b|c)").compile(vocabulary), cg.Regex("aa(b|c)").compile(vocabulary)
    one, other = first.advance(first.start, 1), second.advance(second.advance(second.start, 1), 1)
    assert first.mask(one) is second.mask(other)
    assert rows_of(Vocabulary(vocabulary.tokens, vocabulary.eos, dict(vocabulary.special))) is rows_of(vocabulary)
