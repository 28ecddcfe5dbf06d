"""Catalogues that change: always as if built anew, visible at once, safe beside readers and compaction."""

import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.layout import LOST, NODE
from ctrlgen.index.live import LiveIndex
from ctrlgen.index.token_index import TokenIndex
from ctrlgen.testing import check_laws

from .catalogues import ENDS, WIDTH, catalogues, index_of, prefixes, state_after, tokens_of, unhurried
from .plain import PlainCatalogue
from .test_steps import search


def follow(snapshot, prefix):
    state = snapshot.start_states()
    for token in prefix:
        state = snapshot.advance_states(state, np.array([token]))
    return state


class Union:
    """A snapshot for ``search``, which looks at states of one part: the first one alive."""

    def __init__(self, snapshot, beams, device=None, filters=None):
        self.snapshot, self.beams, self.device, self.filters = snapshot, beams, device, filters
        self.states = None

    def __call__(self, states, scores, logs):
        states = (
            self.snapshot.start_states(len(logs) // self.beams, beams=self.beams)
            if self.states is None
            else self.states
        )
        if self.device:
            from ctrlgen.index.device_union import union_step

            parts = [part.on(self.device) for part in self.snapshot.parts]
            each = self.filters or [None] * len(parts)
            got = union_step(parts, *map(torch.tensor, (states, scores, logs)), self.beams, self.beams, each)
            got = type(got)(*(np.asarray(part) for part in got))
        else:
            got = self.snapshot.beam_step(states, scores, logs, beams=self.beams, filters=self.filters)
        self.states = got.states.reshape(-1, *got.states.shape[2:])
        alive = (got.states[..., NODE] != LOST).argmax(-1)
        return got._replace(states=np.take_along_axis(got.states, alive[..., None, None], -2)[..., 0, :])


@unhurried
@given(catalogues(most=12), st.lists(catalogues(most=6), max_size=3), st.data())
def test_as_if_built_anew(base, additions, data):
    live, items, ids = LiveIndex(index_of(base)), list(base), list(range(len(base)))
    for added in additions:
        ids += live.add(added).tolist()
        items += added
        gone = data.draw(st.sets(st.sampled_from(ids), max_size=len(ids) - 1))
        if gone:
            assert live.remove(sorted(gone)) == len(gone)
        items = [item for item, i in zip(items, ids, strict=True) if i not in gone]
        ids = [i for i in ids if i not in gone]
        if data.draw(st.booleans()):
            live.compact()
    plain, snapshot = PlainCatalogue(items, ids, ENDS), live.snapshot
    assert len(live) == len(snapshot) == len(items)
    check_laws(snapshot, max_states=60)
    for prefix in prefixes(items):
        state = follow(snapshot, prefix)
        assert tokens_of(snapshot.masks(state)[0]) == plain.mask(prefix)
        assert sorted(snapshot.ids(state[0]).tolist()) == plain.ids_below(prefix)
    for device in (None, "cpu"):
        search(Union(snapshot, 3, device), np.zeros((6, 4), np.int64), 2, 3, 6, plain=[plain] * 2)
    few = data.draw(st.sets(st.sampled_from(ids), min_size=1))
    filters = snapshot.row_filters([snapshot.filter(sorted(few)), None], beams=3)
    for device in (None, "cpu"):
        search(Union(snapshot, 3, device, filters), np.zeros((6, 4), np.int64), 2, 3, 6, plain=[plain.only(few), plain])
    some = snapshot.where(sorted(few))
    assert sorted(some.ids(some.start_states()[0]).tolist()) == sorted(few)


def test_a_snapshot_stays_as_it_is():
    live = LiveIndex(index_of([[1], [2, 3]]))
    before = live.snapshot
    assert live.add([[1, 2], [1]]).tolist() == [2, 3]
    live.remove([0])
    assert (len(before), len(live)) == (2, 3)
    assert before.ids(follow(before, [1])[0]).tolist() == [0]
    assert live.snapshot.ids(follow(live.snapshot, [1])[0]).tolist() == [3, 2]


def test_changes_during_a_compaction_are_kept(monkeypatch):
    live = LiveIndex(index_of([[1], [2]]))
    live.add([[3]])
    merge, entered, may_go_on = live._merged, threading.Event(), threading.Event()

    def slow(parts):
        entered.set()
        assert may_go_on.wait(60)
        return merge(parts)

    monkeypatch.setattr(live, "_merged", slow)
    thread = live.compact_in_background()
    assert entered.wait(60)
    live.add([[4]])
    live.remove([0, 2])
    assert sorted(live.snapshot.ids(live.snapshot.start_states()[0]).tolist()) == [1, 3]
    may_go_on.set()
    thread.join(60)
    assert sorted(live.snapshot.ids(live.snapshot.start_states()[0]).tolist()) == [1, 3]
    assert live.snapshot.parts[0].layout.count == 3


def test_a_compaction_that_fails_changes_nothing(monkeypatch):
    live = LiveIndex(index_of([[1], [2]]))

    def broken(parts):
        raise MemoryError

    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(live, "_merged", broken)
        live.compact()
    live.add([[3]])
    live.compact()
    assert len(live) == 3


def test_weights_come_with_items():
    live = LiveIndex(index_of([[1], [2]], weights=[1, 2]))
    live.add([[0]], weights=[5])
    live.compact()
    assert live.snapshot.parts[0].layout.weights.tolist() == [5, 1, 2]
    with pytest.raises(InputError, match="weights must be given for all"):
        live.add([[0]])


def test_refuses():
    live = LiveIndex(index_of([[1], [2]]))
    for items, message in (([[7]], "end id"), ([[WIDTH]], "outside"), ([[]], "no tokens")):
        with pytest.raises(InputError, match=message):
            live.add(items)
    with pytest.raises(UnsatisfiableError, match="empty"):
        live.add([])
    with pytest.raises(InputError, match="no item has the id 5"):
        live.remove([5])
    live.remove([0])
    with pytest.raises(InputError, match="no item has the id 0"):
        live.remove([0])
    with pytest.raises(UnsatisfiableError, match="leave no item"):
        live.remove([1])
    assert len(live) == 1
    with pytest.raises(UnsatisfiableError, match="filter"):
        live.snapshot.where([])
    with pytest.raises(UnsatisfiableError, match="row 1"):
        live.snapshot.row_filters([None, live.snapshot.filter([])])
    with pytest.raises(InputError, match="no item has the id 9"):
        live.snapshot.filter([9])
    with pytest.raises(InputError, match="pass eos="):
        LiveIndex(TokenIndex.from_items([[1, 2], [3]]))
    fixed = LiveIndex(TokenIndex.from_items([[1, 2]], width=9))
    with pytest.raises(InputError, match="must have 2 tokens"):
        fixed.add([[1]])
    fixed.add([[1, 3]])
    assert len(fixed) == 2


def test_removed_items_leave_other_rows_alone():
    index = index_of([[1], [1, 2], [3]])
    live = LiveIndex(index)
    live.remove([1])
    assert tokens_of(live.snapshot.masks(follow(live.snapshot, [1]))[0]) == set(ENDS)
    assert tokens_of(index.masks(state_after(index, [1]))[0]) == {2, *ENDS}
