"""The loops do the same as plain Python, as which they can be debugged."""

import numpy as np
import pytest

from ctrlgen.index import build as builder
from ctrlgen.index import compiled as compiler
from ctrlgen.index import filters, integrity, merge, numbering, token_index
from ctrlgen.index.token_index import TokenIndex

ITEMS = [[1, 2], [1, 2], [1], [3, 3, 3], [3, 3, 2], [0], [5, 1]]


def outcome():
    index = TokenIndex.from_items(ITEMS, eos=[6, 7]).where([0, 2, 3, 4, 6])
    states, scores = index.start_states(1, beams=4), np.zeros(4, np.float32)
    logs = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    seen = []
    for _ in range(4):
        found = index.beam_step(states, scores, logs, beams=4)
        seen += [index.masks(states), *found[:4], index.advance_states(states, found.tokens[0])]
        states, scores = found.states.reshape(-1, 4), found.scores.reshape(-1)
    return [array.tolist() for array in seen]


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_compiled_or_not(monkeypatch):
    expected = outcome()
    for module in (builder, filters, integrity, merge, numbering, token_index):
        assert module.compiled is compiler.compiled
        monkeypatch.setattr(module, "compiled", lambda kernel: kernel)
    assert outcome() == expected
