"""Filters against Python sets; weights against sums over lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.filters import Filter, RowFilters
from ctrlgen.index.prior import Prior

from .catalogues import catalogues, index_of, prefixes, state_after, unhurried
from .plain import PlainCatalogue

sizes = st.sampled_from([1, 5, 63, 64, 65, 128, 200])


@st.composite
def two_sets(draw):
    size = draw(sizes)
    members = st.sets(st.integers(0, size - 1))
    return size, draw(members), draw(members)


def of(places, size):
    return Filter.from_places(np.array(sorted(places), np.int64), size)


@unhurried
@given(two_sets())
def test_algebra_is_that_of_sets(sets):
    size, left, right = sets
    a, b, everything = of(left, size), of(right, size), set(range(size))
    for one, members in ((a & b, left & right), (a | b, left | right), (a - b, left - right), (~a, everything - left)):
        assert one.places().tolist() == sorted(members)
        assert len(one) == len(members)
        flags = np.isin(np.arange(size), sorted(members))
        assert np.array_equal(one.flags(), flags)
        assert np.array_equal(Filter.from_flags(flags).words, one.words)
        assert one.rank(np.arange(size + 1)).tolist() == [sum(m < i for m in members) for i in range(size + 1)]
        for place in range(size):
            assert one.first_from(place) == min((m for m in members if m >= place), default=size)


@unhurried
@given(catalogues(), st.data())
def test_ids_and_booleans_say_the_same(items, data):
    names = data.draw(st.permutations(range(len(items))))
    ids = data.draw(st.sets(st.sampled_from(names)))
    for index in (index_of(items, ids=names), index_of(items, ids=[100 + i for i in names])):
        shift = int(index.item_ids.ids.min())
        flags = np.isin(np.arange(shift + len(items)) - shift, sorted(ids))
        by_id, by_flag = index.filter([shift + i for i in ids]), index.filter(flags)
        assert np.array_equal(by_id.words, by_flag.words)
        assert len(by_id) == len(ids)


def test_several_items_may_have_one_id():
    index = index_of([[1], [2], [3]], ids=[7, 7, 8])
    assert index.filter([7]).places().tolist() == [0, 1]


def test_refuses():
    index = index_of([[1], [2]])
    with pytest.raises(InputError, match="no item has the id 2"):
        index.filter([2])
    with pytest.raises(InputError, match="do not reach the largest id, 1"):
        index.filter([True])
    with pytest.raises(InputError, match="not of float64"):
        index.filter([0.5])
    with pytest.raises(UnsatisfiableError, match="none of the 2 items"):
        index.where([])
    with pytest.raises(UnsatisfiableError, match="none of the 1 items"):
        index.where([0]).where([1])
    with pytest.raises(InputError, match="not one of this index"):
        index.where(of([0], 3))
    with pytest.raises(InputError, match="2 and 3 items"):
        _ = of([0], 2) & of([0], 3)
    with pytest.raises(InputError, match="not with set"):
        _ = of([0], 2) & {0}
    with pytest.raises(InputError, match="several indexes"):
        RowFilters.of([of([0], 2), of([0], 3)])
    with pytest.raises(InputError, match=r"0\.\.1"):
        of([2], 2)


@unhurried
@given(catalogues(), st.data())
def test_mass_is_the_sum_of_weights(items, data):
    weights = data.draw(st.lists(st.integers(0, 5), min_size=len(items), max_size=len(items)))
    weights[0] += 1
    index, plain = index_of(items, weights=weights), PlainCatalogue(items)
    for one, total in ((index, sum(weights)), (index.where([0]), weights[0])):
        prior = Prior(one)
        for prefix in prefixes(items):
            below = sum(weights[i] for i in plain.ids_below(prefix) if one is index or i == 0)
            assert prior.mass(state_after(index, prefix))[0] == pytest.approx(below / total)
    assert prior.mass(index.start_states(1, beams=2)).tolist() == [1, 0]


def test_samples_follow_the_weights():
    index = index_of([[1, 1], [1, 2], [2], [3]], weights=[1, 3, 0, 4])
    prior, rng = Prior(index), np.random.default_rng(0)
    drawn = prior.sample(np.repeat(index.start_states(), 20_000, 0), rng)
    shares = np.bincount(index.item_ids.at(drawn), minlength=4) / 20_000
    assert shares == pytest.approx([1 / 8, 3 / 8, 0, 1 / 2], abs=0.015)
    below = prior.sample(np.repeat(state_after(index, [1]), 20_000, 0), rng)
    assert np.bincount(index.item_ids.at(below), minlength=4) / 20_000 == pytest.approx([1 / 4, 3 / 4, 0, 0], abs=0.015)
    with pytest.raises(InputError, match="row 0"):
        prior.sample(state_after(index, [2]), rng)
    with pytest.raises(UnsatisfiableError, match="no weight"):
        Prior(index.where([2]))


def test_without_weights_all_items_are_alike():
    index = index_of([[1, 1], [1, 2], [2]])
    assert Prior(index).mass(state_after(index, [1])).tolist() == [pytest.approx(2 / 3)]
