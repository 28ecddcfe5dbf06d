"""Choice: texts as they are, one the beginning of another, thousands of them."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.choice import FEW, Choice
from ctrlgen.errors import InputError
from ctrlgen.index.name_constraint import NameConstraint
from ctrlgen.testing import Enumerated, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

TOY = toy_vocabulary()
BYTES = Vocabulary([bytes([b]) for b in range(256)] + [b"v1", b".2", b"ok", None], eos=259)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcé ", min_size=1, max_size=5), min_size=1, max_size=8, unique=True))
def test_is_the_enumeration(options: list[str]) -> None:
    constraint = Choice(options).compile(TOY)
    assert_same_language(constraint, Enumerated(TOY, options))
    check_laws(constraint, max_states=40)


@pytest.mark.parametrize("text", ["v1.2", "a+b", "(ok)", "1.5", "v1.25", ""])
def test_options_are_no_patterns(text: str) -> None:
    constraint = Choice(["v1.2", "a+b", "(ok)", "1.5", "v1.25", ""]).compile(BYTES)
    assert ends(constraint, text)
    for wrong in ("v1x2", "aab", "ok", "v1.", "v1.255", " "):
        assert not ends(constraint, wrong)


def ends(constraint: Any, text: str) -> bool:
    state = constraint.start
    for byte in text.encode():
        state = constraint.advance(state, byte)
    return state >= 0 and constraint.accepts(state)


def test_thousands_of_options() -> None:
    rng = random.Random(3)
    options = sorted({"".join(rng.choices("abcdefgh-/", k=rng.randint(1, 24))) for _ in range(3000)})
    constraint = Choice(options).compile(BYTES)
    assert all(ends(constraint, option) for option in options)
    taken = set(options)
    assert not any(ends(constraint, option[:-1] + "z") for option in options if option[:-1] + "z" not in taken)
    assert constraint.distance(constraint.start) == 1 + min(map(len, options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (None, "NoneType"),
        (["\ud800"], "lone surrogate"),
        ([], "at least one"),
        ("yes", "not one string"),
        (["a", 1], "option 1"),
        (["a", "b", "a"], "'a' is given twice"),
    ],
)
def test_says_what_is_wrong(options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Choice(options)


def test_is_a_value() -> None:
    assert Choice(["a", "b"]) == Choice(("a", "b"))
    assert hash(Choice(["a"])) == hash(Choice(["a"]))
    assert pickle.loads(pickle.dumps(Choice(["a"]))) == Choice(["a"])
    assert repr(Choice(["a", "b"])) == "Choice(['a', 'b'])"
    assert repr(Choice(map(str, range(10)))) == "Choice(10 options)"
    assert Choice(["a"]).parse("a") == "a"
    assert Choice(["a", "b"]).compile(TOY) is Choice(["a", "b"]).compile(TOY)


def test_very_many_options_go_through_an_index() -> None:
    rng = random.Random(4)
    options = sorted({"".join(rng.choices("abc é", k=rng.randint(1, 7))) for _ in range(900)})
    assert len(options) > FEW
    constraint = Choice(options).compile(TOY)
    assert isinstance(constraint, NameConstraint)
    assert constraint is Choice(options).compile(TOY)
    assert_same_language(constraint, Enumerated(TOY, options))
    check_laws(constraint, max_states=20)
