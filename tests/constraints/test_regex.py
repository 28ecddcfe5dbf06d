"""Regex: whole machines against re, and what a user sees when a pattern is refused."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.regex import Regex
from ctrlgen.errors import ComplexityError, InputError, RegexError, UnsatisfiableError
from ctrlgen.testing import Enumerated, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

TOY = toy_vocabulary()
BYTES = Vocabulary([bytes([b]) for b in range(256)] + [b"ab", b"12", "é".encode(), None], eos=259)

_atoms = st.sampled_from(["a", "b", "c", "é", " ", ".", "[ab]", "[^a]", r"\w", r"\s", "abc"])
patterns = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("(?:{})".format),
        st.tuples(inner, st.sampled_from(["?", "*", "{1,2}", "{2}", "+?"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    ),
    max_leaves=5,
)


@settings(max_examples=60, deadline=None)
@given(patterns)
def test_agrees_with_re_on_short_texts(pattern: str) -> None:
    texts = [
        x for n in range(4) for x in map("".join, itertools.product("abcé ", repeat=n)) if re.fullmatch(pattern, x)
    ]
    constraint = Regex(pattern).compile(BYTES)
    for n in range(4):
        for text in map("".join, itertools.product("abcé ", repeat=n)):
            assert ends(constraint, text) == (text in texts), (pattern, text)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcé ", min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_finite_pattern_is_the_enumeration(options: list[str]) -> None:
    constraint = Regex("|".join(map(re.escape, options))).compile(TOY)
    assert_same_language(constraint, Enumerated(TOY, options))
    check_laws(constraint, max_states=40)


def ends(constraint: Any, text: str) -> bool:
    state = constraint.start
    for byte in text.encode():
        state = constraint.advance(state, byte)
    return state >= 0 and constraint.accepts(state)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (".{2,3}", ["👍👍", "日本語", "éa"], ["👍", "日本語だ", "", "ab\n"]),
        (r"log:\n(main\.c\n)?end\n", ["log:\nend\n", "log:\nmain.c\nend\n"], ["log:\n", "log:\nmainxc\nend\n"]),
        (r"\S+\s\S{1,200}", ["[a b]", "q " + "z" * 200], [" a b", "ab", "q " + "z" * 201]),
        (r"(?!0)\d{2}", ["10", "99"], ["09", "1"]),
    ],
)
def test_published_faults(pattern: str, good: list[str], bad: list[str]) -> None:
    constraint = Regex(pattern).compile(BYTES)
    assert [text for text in good if not ends(constraint, text)] == []
    assert [text for text in bad if ends(constraint, text)] == []
    check_laws(constraint, texts=[text.encode() for text in good[:2]], max_states=40)


def test_tokens_that_lead_nowhere_are_not_offered() -> None:
    few = Vocabulary([None, b"a", b"b", b"d"], eos=0)
    constraint = Regex("a(bc|d)").compile(few)
    assert constraint.advance(constraint.advance(constraint.start, 1), 2) < 0
    check_laws(constraint)


def test_refusals_show_where() -> None:
    with pytest.raises(RegexError) as caught:
        Regex(r"ab(c\1)")
    assert "^" in str(caught.value)
    assert caught.value.position >= 4
    with pytest.raises(RegexError):
        Regex("(")
    with pytest.raises(UnsatisfiableError):
        Regex("a(?!b)b")
    with pytest.raises(ComplexityError):
        Regex("(?:.{1000}){1000}")
    with pytest.raises(InputError):
        Regex(3)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        Regex("a", dialect="perl")  # type: ignore[arg-type]
