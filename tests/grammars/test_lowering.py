"""Spelling: UTF-8 against Python's encoder, JSON string content against json.loads and json.dumps."""

from __future__ import annotations

import json
import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.automaton import Automaton
from ctrlgen.errors import SpecificationError
from ctrlgen.grammars.lowering import json_body, json_string
from ctrlgen.grammars.regex import compile_regex

SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
PIECES = ['"', "\\", "/", "u", "0", "2", "d", "D", "8", "c", "n", "a", "\x1f", "é"]

special = st.sampled_from(['"', "\\", "/", "\n", "\x1f", "\x7f", "é", "😀", "a", "1"])
texts = st.text(st.one_of(special, st.characters(codec="utf-8")), max_size=6)
patterns = st.sampled_from(
    ["a*", r"[^a]+", r".", r"\w+\W", "(?s).{1,3}", r'["\\/]+', r"\n|😀+", "[À-ÿ]*", "[\U00010000-\U0010ffff]",
     r"[\x00-\x1f]", r"(?s)[^\w]*", r"[\x0f\f]|[\x0b\b]a", r"[\f\b]|\x0fa",
     "[\x80\u07ff\u0800\ud7ff\ue000\uffff]a|[\U00010000\U0010ffff]|[\u0100-\u0fff\U00020000-\U000fffff]b"]
)  # fmt: skip


def spellings(character: str) -> list[str]:
    """All ways to write a character in a JSON string (hexadecimal digits in three mixtures of case)."""
    units = [int.from_bytes(pair, "big") for pair in pairs(character.encode("utf-16-be"))]
    written = ["".join(f"\\u{unit:04x}" for unit in units), "".join(f"\\u{unit:04X}" for unit in units)]
    written.append("".join("\\u" + mixed(f"{unit:04x}") for unit in units))
    if character in SHORT:
        written.append("\\" + SHORT[character])
    if character not in '"\\' and ord(character) >= 0x20:
        written.append(character)
    return written


def pairs(data: bytes) -> list[bytes]:
    return [data[i : i + 2] for i in range(0, len(data), 2)]


def mixed(digits: str) -> str:
    return "".join(digit.upper() if place % 2 else digit for place, digit in enumerate(digits))


@st.composite
def written(draw: st.DrawFn) -> tuple[str, str]:
    """A text and one of its spellings."""
    text = draw(texts)
    return text, "".join(draw(st.sampled_from(spellings(character))) for character in text)


@settings(max_examples=80, deadline=None)
@given(patterns, written())
def test_every_spelling_of_a_match(pattern: str, case: tuple[str, str]) -> None:
    text, content = case
    assert json.loads(f'"{content}"') == text
    matches = re.fullmatch(pattern, text) is not None
    assert compile_regex(pattern, json=True).matches(content.encode()) == matches
    only = json.dumps(text, ensure_ascii=False)[1:-1]
    canonical = compile_regex(pattern, json=True, escapes="canonical")
    assert canonical.matches(content.encode()) == (matches and content == only)
    assert compile_regex(pattern).matches(text.encode()) == matches


def value(content: str) -> str | None:
    """What the JSON string means, None if it is not valid or holds a lone surrogate."""
    try:
        text = json.loads(f'"{content}"')
        text.encode()
    except ValueError:
        return None
    return text if isinstance(text, str) else None


def test_all_short_contents() -> None:
    body, canonical = json_body(), json_body("canonical")
    contents = ["".join(pieces) for length in range(4) for pieces in product(PIECES, repeat=length)]
    contents += ["\\u" + "".join(digits) for digits in product("02dD8c", repeat=4)]
    contents += [f"\\ud83d\\u{''.join(digits)}" for digits in product("0dDcC8", repeat=4)]
    for content in contents:
        text = value(content)
        assert body.matches(content.encode()) == (text is not None), content
        only = None if text is None else json.dumps(text, ensure_ascii=False)[1:-1]
        assert canonical.matches(content.encode()) == (content == only), content


@settings(max_examples=60, deadline=None)
@given(texts, written())
def test_one_string(text: str, other: tuple[str, str]) -> None:
    for character_spellings in spellings_of_whole(text):
        assert json_string(text).matches(character_spellings.encode())
    assert json_string(text).matches(other[1].encode()) == (text == other[0])
    only = json.dumps(text, ensure_ascii=False)[1:-1]
    assert json_string(text, "canonical").shortest() == only.encode()
    assert json_string(text, "canonical").signature == exactly(only).signature or "\\" in only


def exactly(text: str) -> Automaton:
    return Automaton.from_strings([text.encode()])


def spellings_of_whole(text: str) -> list[str]:
    per_character = [spellings(character) for character in text]
    return ["".join(options[i % len(options)] for options in per_character) for i in range(5)]


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(SpecificationError, match=r"U\+D800"):
        json_string("a\ud800")
    assert compile_regex(r"\ud800").is_empty
    assert not compile_regex("(?s).", json=True).matches(b"\\ud800")
    assert not json_body().matches(b"\\ud83da")


@settings(deadline=None)
@given(patterns)
def test_lowered_automata_are_canonical(pattern: str) -> None:
    for options in ({}, {"json": True}, {"json": True, "escapes": "canonical"}):
        automaton = compile_regex(pattern, **options)
        again = Automaton.from_table(automaton.next, automaton.accepting, automaton.boundary)
        assert np.array_equal(automaton.next, again.next)
        assert automaton.signature == again.signature


@settings(deadline=None)
@given(written())
def test_boundaries_are_outside_escapes_and_characters(case: tuple[str, str]) -> None:
    text, content = case
    body = json_body()
    ends = {0}
    position = 0
    while position < len(content):
        match = re.compile(r"\\u[dD][89abAB]..\\u....|\\u....|\\.|.", re.DOTALL).match(content, position)
        position = match.end()
        ends.add(len(content[:position].encode()))
    data = content.encode()
    for length in range(len(data) + 1):
        assert body.boundary[body.advance(0, data[:length])] == (length in ends), text


def test_regular_languages_meet_in_bytes() -> None:
    body = json_body()
    two_or_three = compile_regex("(?s).{2,3}", json=True)
    hexadecimal = compile_regex("^[a-f0-9]+$", dialect="ecma", search=True, json=True)
    both = hexadecimal & two_or_three
    for text, expected in [("a0", True), ("bee", True), ("a", False), ("beef", False), ("xy", False)]:
        assert both.matches(text.encode()) == expected
    assert both.matches(b"\\u0061\\u0030")
    assert (both - body).is_empty
    quoted = exactly('"').then(both).then(exactly('"'))
    assert quoted.matches(b'"a0"')
