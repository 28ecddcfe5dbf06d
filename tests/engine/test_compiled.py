"""Compiled constraints are shared, bounded in number, and replaced when worn."""

from __future__ import annotations

import pytest

from ctrlgen.engine import compiled as cache
from ctrlgen.engine import machine as machines
from ctrlgen.engine.compiled import KEPT, compiled
from ctrlgen.engine.network import END, Network
from ctrlgen.testing import toy_vocabulary

TOY = toy_vocabulary()


def letters(network: Network) -> int:
    return network.literal(b"abcabc", END)


def test_the_same_specification_and_vocabulary_share_one() -> None:
    assert compiled("letters", TOY, letters) is compiled("letters", toy_vocabulary(), letters)
    assert compiled("letters", TOY, letters) is not compiled("others", TOY, letters)
    assert compiled("letters", TOY, letters) is not compiled("letters", TOY.with_width(16), letters)


def test_the_number_kept_is_bounded_and_the_unused_go_first() -> None:
    first = compiled("first", TOY, letters)
    for i in range(KEPT + 5):
        compiled(("many", i), TOY, letters)
        compiled("first", TOY, letters)
    assert len(cache._kept) == KEPT
    assert compiled("first", TOY, letters) is first
    assert (("many", 0), TOY) not in cache._kept


def test_a_worn_one_is_replaced_and_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    old = compiled("worn", TOY, letters)
    state = old.advance(old.start, 1)
    monkeypatch.setattr(machines, "WORN_STATES", 1)
    new = compiled("worn", TOY, letters)
    assert new is not old
    assert old.advance(state, 5) >= 0


def test_a_network_that_fails_leaves_nothing_behind() -> None:
    def fails(network: Network) -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        compiled("fails", TOY, fails)
    assert ("fails", TOY) not in cache._kept
