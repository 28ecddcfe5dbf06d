"""Random catalogues for tests, and short ways to look at an index."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from ctrlgen.index.layout import DONE, LOST, NODE
from ctrlgen.index.token_index import TokenIndex

WIDTH = 9
ENDS = (7, 8)


@st.composite
def catalogues(draw, alphabet=4, longest=5, most=25):
    """Items of 1 to ``longest`` tokens; short alphabets make prefixes and duplicates likely."""
    item = st.lists(st.integers(0, alphabet - 1), min_size=1, max_size=longest)
    return draw(st.lists(item, min_size=1, max_size=most))


@st.composite
def fixed_catalogues(draw, alphabet=4, most=25):
    length = draw(st.integers(1, 5))
    item = st.lists(st.integers(0, alphabet - 1), min_size=length, max_size=length)
    return draw(st.lists(item, min_size=1, max_size=most))


def prefixes(items):
    """All prefixes of all items, the empty one first."""
    return sorted({tuple(item[:n]) for item in items for n in range(len(item) + 1)})


def tokens_of(row):
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


def state_after(index, tokens, **more):
    state = index.start_states(1)
    for token in tokens:
        state = index.advance_states(state, np.array([token]), **more)
    return state


def is_lost(state):
    return int(state.reshape(-1, 4)[0, NODE]) == LOST


def is_done(state):
    return int(state.reshape(-1, 4)[0, NODE]) == DONE


def index_of(items, **more):
    return TokenIndex.from_items(items, **{"eos": ENDS, "width": WIDTH, **more})


unhurried = settings(deadline=None, max_examples=60)
"""The first example of a test may have to wait for the compiler."""
