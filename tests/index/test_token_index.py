"""TokenIndex against the plain catalogue: what may follow, ends, ids, laws, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ctrlgen.constraint import DEAD, Constraint
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.token_index import TokenIndex
from ctrlgen.testing import check_laws
from ctrlgen.vocabulary import Vocabulary

from .catalogues import (
    ENDS,
    WIDTH,
    catalogues,
    fixed_catalogues,
    index_of,
    is_done,
    is_lost,
    prefixes,
    state_after,
    tokens_of,
    unhurried,
)
from .plain import PlainCatalogue


@unhurried
@given(catalogues())
def test_follows_every_prefix(items):
    index, plain = index_of(items), PlainCatalogue(items, ends=ENDS)
    for prefix in prefixes(items):
        state = state_after(index, prefix)
        allowed = tokens_of(index.masks(state)[0])
        assert allowed == plain.mask(prefix)
        assert sorted(index.ids(state[0]).tolist()) == plain.ids_below(prefix)
        for token in range(WIDTH):
            assert is_lost(state_after(index, (*prefix, token))) == (token not in allowed)


@unhurried
@given(catalogues())
def test_ends_carry_the_ids_of_equal_items(items):
    index = index_of(items)
    for item in items:
        for end in ENDS:
            state = state_after(index, (*item, end))
            assert is_done(state)
            assert index.ids(state[0]).tolist() == [i for i, other in enumerate(items) if other == item]
            assert tokens_of(index.masks(state)[0]) == set(ENDS)


@unhurried
@given(fixed_catalogues())
def test_items_of_one_length_end_by_themselves(items):
    index, plain = index_of(items, eos=None), PlainCatalogue(items)
    for prefix in prefixes(items):
        state = state_after(index, prefix)
        assert tokens_of(index.masks(state)[0]) == plain.mask(prefix) - {-1}
        assert is_done(state) == (len(prefix) == len(items[0]))


@unhurried
@given(catalogues(longest=4, most=12))
def test_laws(items):
    index, plain = index_of(items), PlainCatalogue(items, ends=ENDS)
    assert isinstance(index, Constraint)
    check_laws(index)
    for prefix in prefixes(items):
        state = index.start
        for token in prefix:
            state = index.advance(state, token)
        assert index.distance(state) == plain.shortest(prefix) + 1
        assert index.accepts(state) == (-1 in plain.following(prefix))
    assert index.advance(index.start, WIDTH - 1) == DEAD
    assert index.advance(DEAD, 0) == DEAD


@unhurried
@given(catalogues(), st.data())
def test_laws_of_a_filtered_index(items, data):
    ids = data.draw(st.sets(st.integers(0, len(items) - 1), min_size=1))
    index, plain = index_of(items).where(list(ids)), PlainCatalogue(items, ends=ENDS).only(ids)
    check_laws(index, max_states=100)
    for prefix in prefixes(items):
        state = state_after(index, prefix)
        assert is_lost(state) == (not plain.ids_below(prefix))
        assert tokens_of(index.masks(state)[0]) == plain.mask(prefix)
        assert sorted(index.ids(state[0]).tolist()) == plain.ids_below(prefix)


@unhurried
@given(catalogues())
def test_a_state_is_one_number(items):
    index = index_of(items)
    for prefix in prefixes(items):
        state = state_after(index, prefix)[0]
        number = index.start
        for token in prefix:
            number = index.advance(number, token)
        assert index.state(number).tolist() == state.tolist()


@unhurried
@given(catalogues(), st.randoms())
def test_order_and_form_of_the_input_do_not_matter(items, random):
    index = index_of(items)
    flat = [token for item in items for token in item]
    offsets = np.cumsum([0] + [len(item) for item in items])
    longest = max(map(len, items))
    padded = np.array([item + [-1] * (longest - len(item)) for item in items])
    shuffled = list(range(len(items)))
    random.shuffle(shuffled)
    forms = [
        index_of(np.array(flat), offsets=offsets),
        index_of(padded, pad=-1),
        index_of([torch.tensor(item) for item in items]),
        index_of([items[i] for i in shuffled], ids=shuffled),
    ]
    for other in forms:
        for name in ("tokens", "offsets", "symbol", "lo", "child", "branch", "shortest"):
            assert np.array_equal(getattr(other.layout, name), getattr(index.layout, name)), name
        for item in items:
            ended = state_after(index, (*item, ENDS[0]))[0]
            assert sorted(other.ids(ended)) == sorted(index.ids(ended))


@unhurried
@given(catalogues(most=60))
def test_fewer_than_two_edges_an_item(items):
    assert index_of(items).layout.edges <= 2 * len({tuple(item) for item in items})


def test_wide_tokens_and_long_items():
    items = [[70_000, 3], [70_000] * 300, [70_000] * 299 + [1]]
    index = TokenIndex.from_items(items, eos=2)
    assert index.width == 70_001
    assert (index.layout.tokens.dtype, index.layout.branch.dtype) == (np.uint32, np.uint16)
    assert tokens_of(index.masks(state_after(index, [70_000] * 299))[0]) == {1, 70_000}
    assert index.tokens_at(0).tolist() == [70_000, 3]


def test_a_catalogue_of_everything():
    items = np.stack(np.meshgrid(*[np.arange(4)] * 4), -1).reshape(-1, 4)
    index = TokenIndex.from_items(items, width=4)
    for prefix in [(), (1,), (3, 3), (0, 1, 2)]:
        assert tokens_of(index.masks(state_after(index, prefix))[0]) == {0, 1, 2, 3}


def test_vocabulary_gives_ends_and_width():
    vocabulary = Vocabulary([b"a", b"b", None, None, None], eos=3, special={"<item>": 2}, width=64)
    index = TokenIndex.from_items([[2, 0], [2, 1, 1]], vocabulary=vocabulary)
    assert (index.ends, index.width, index.vocabulary) == ((3,), 64, vocabulary)
    check_laws(index, controls=[2])


@pytest.mark.parametrize(
    ("items", "more", "error", "message"),
    [
        ([], {}, UnsatisfiableError, "empty"),
        (np.zeros((0, 4), int), {}, UnsatisfiableError, "empty"),
        ([[1], []], {}, InputError, "item 1 has no tokens"),
        ([[1], [2, -3]], {}, InputError, "item 1 holds the token -3"),
        ([[1], [2, 9]], {"width": 9}, InputError, "item 1 holds the token 9"),
        ([[1], [2, 7]], {"eos": 7}, InputError, "item 1 holds the token 7, which is an end id"),
        ([[1], [1, 2]], {}, InputError, "pass eos="),
        ([[1], "ab"], {}, InputError, "item 1 is 'ab'"),
        ([[1], 3], {}, InputError, "item 1 is 3"),
        ([[0.5]], {}, InputError, "float64"),
        ([[1], [[2]]], {}, InputError, "cannot be read"),
        (np.zeros(3, int), {}, InputError, "2 dimension"),
        (np.zeros((3, 2)), {}, InputError, "float64"),
        (np.array([1, 2]), {"offsets": [0, 1]}, InputError, "rise from 0"),
        (np.array([1, 2]), {"offsets": [0, 2, 1, 2]}, InputError, "rise from 0"),
        (np.array([[1, -1, 2]]), {"pad": -1}, InputError, "item 0 goes on after its first padding"),
        (np.array([[1, 2], [-1, -1]]), {"pad": -1}, InputError, "item 1 has no tokens"),
        ([[1]], {"ids": [1, 2]}, InputError, "ids must be 1 integers"),
        ([[1]], {"ids": [-1]}, InputError, "-1 stands for no item"),
        ([[1]], {"weights": [-1]}, InputError, "not negative"),
        ([[1]], {"weights": [float("nan")]}, InputError, "finite"),
        ([[1]], {"weights": [0]}, InputError, "not all zero"),
        ([[1]], {"eos": -1}, InputError, "-1 in eos"),
        ([[1]], {"eos": 8, "width": 8}, InputError, "below the width 8"),
    ],
)
def test_refuses(items, more, error, message):
    with pytest.raises(error, match=message):
        TokenIndex.from_items(items, **more)


def test_refuses_ids_without_meaning():
    vocabulary = Vocabulary([b"a", None, None], eos=2)
    with pytest.raises(InputError, match="item 0 holds the token 1, which is neither text nor"):
        TokenIndex.from_items([[1]], vocabulary=vocabulary)
    with pytest.raises(InputError, match="differs from the end ids of the vocabulary"):
        TokenIndex.from_items([[0]], vocabulary=vocabulary, eos=1)


def test_without_ends_it_is_no_constraint():
    with pytest.raises(InputError, match="pass eos="):
        _ = TokenIndex.from_items([[1]]).vocabulary


def test_arrays_cannot_be_changed():
    index = index_of([[1, 2], [1, 3]])
    with pytest.raises(ValueError, match="read-only"):
        index.layout.tokens[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        index.mask(index.start)[0] = 0


def test_says_what_it_is():
    index = index_of([[1, 2], [1, 3], [2]])
    assert repr(index).startswith("TokenIndex(3 items of up to 2 tokens, 5 edges")
    assert len(index.where([0])) == 1
    assert repr(index.where([0])).startswith("TokenIndex(1 of 3 items")
