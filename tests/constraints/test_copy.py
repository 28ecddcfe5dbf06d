"""Copies against the parts of a text, one by one."""

from __future__ import annotations

import itertools
import json
import pickle
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.closing import closing_of
from ctrlgen.constraints.copy import Copy, Span
from ctrlgen.constraints.copy_units import units_of
from ctrlgen.errors import ComplexityError, InputError, UnsatisfiableError
from ctrlgen.testing import Enumerated, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

VOCABULARY = toy_vocabulary()
PIECES = [b'":', b'"}', b"ab", b"\\n", b' "', b"b.", b". ", b"a b", b"</", b"</q>", b"b<", b"a</q", b"\\u", b"0a"]
LETTERS = Vocabulary([*[bytes([b]) for b in range(256)], *PIECES, None], eos=256 + len(PIECES))


def plain_units(text: str, unit: str) -> list[tuple[int, int]]:
    """Each unit found by looking at every place."""
    if unit == "character":
        return [(i, i + 1) for i in range(len(text))]
    inside = {"word": r"\w", "line": r"[^\r\n]"}[unit]
    found = [bool(re.match(inside, c)) for c in text] + [False]
    starts = [i for i in range(len(text)) if found[i] and (i == 0 or not found[i - 1])]
    return [(i, next(j for j in range(i, len(found)) if not found[j])) for i in starts]


def parts(texts: list[str], unit: str, least: int, most: int | None) -> set[str]:
    out = {""} if least == 0 else set()
    for text in texts:
        units = units_of(text, "sentence") if unit == "sentence" else plain_units(text, unit)
        for i in range(len(units)):
            for j in range(i, len(units)):
                if j - i + 1 >= least and (most is None or j - i + 1 <= most):
                    out.add(text[units[i][0] : units[j][1]])
    return out


@st.composite
def copies(draw: st.DrawFn, alphabet: str) -> tuple[Copy, set[str]]:
    texts = draw(st.lists(st.text(alphabet, max_size=9), min_size=1, max_size=2))
    unit = draw(st.sampled_from(["character", "word", "sentence", "line"]))
    least = draw(st.integers(0, 3))
    most = draw(st.none() | st.integers(max(least, 1), 4))
    want = parts(texts, unit, least, most)
    if not parts(texts, unit, max(least, 1), None):
        with pytest.raises(UnsatisfiableError):
            Copy(texts, unit=unit, least=least, most=most)
        texts, want = ["ab"], parts(["ab"], "character", 1, None)
        return Copy("ab"), want
    return Copy(texts, unit=unit, least=least, most=most), want


@settings(max_examples=150, deadline=None)
@given(copies("abc é"))
def test_a_copy_is_a_part_of_the_text(case: tuple[Copy, set[str]]) -> None:
    spec, texts = case
    machine = spec.compile(VOCABULARY)
    assert_same_language(machine, Enumerated(VOCABULARY, texts))
    check_laws(machine, max_states=60)
    for text in texts:
        span = spec.parse(text)
        assert span == text
        assert spec.contexts[span.context][span.start : span.end] == text


@settings(max_examples=100, deadline=None)
@given(copies("ab. \n"))
def test_sentences_and_lines(case: tuple[Copy, set[str]]) -> None:
    spec, texts = case
    assert_same_language(spec.compile(LETTERS), Enumerated(LETTERS, texts))


@settings(max_examples=100, deadline=None)
@given(copies("ab"), st.sampled_from([("", "b"), ("a", "a"), ("ab", "ba"), ("b", "")]))
def test_an_end_mark_that_may_go_on_as_the_text_does(case: tuple[Copy, set[str]], marks: tuple[str, str]) -> None:
    spec, texts = case
    before, after = marks
    machine = (before >> spec >> after).compile(VOCABULARY)
    assert_same_language(machine, Enumerated(VOCABULARY, {before + text + after for text in texts}))
    check_laws(machine, max_states=60)


@settings(max_examples=60, deadline=None)
@given(copies("abc é×"), st.sampled_from([("", ""), ("a", "a"), ("", "bb")]), st.integers(0, 6), st.data())
def test_every_budget_is_kept(
    case: tuple[Copy, set[str]], marks: tuple[str, str], more: int, data: st.DataObject
) -> None:
    spec, texts = case
    before, after = marks
    machine = (before >> spec >> after).compile(LETTERS)
    closing, state, out, token = closing_of(machine), machine.start, b"", -1
    for remaining in range(closing.needed(machine, state, 0) + more, 0, -1):
        row = closing.row(machine, state, remaining)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        assert allowed
        token = data.draw(st.sampled_from(allowed))
        state = machine.advance(state, token)
        if token in LETTERS.eos:
            break
        out += LETTERS.tokens[token] or b""
    assert token in LETTERS.eos
    assert out.decode() in {before + text + after for text in texts}


def test_a_character_is_not_begun_when_no_unit_is_left() -> None:
    spec = Copy("aé×a", most=1)
    machine = spec.compile(LETTERS)
    check_laws(machine, max_states=60)
    assert not machine.mask(machine.advance(machine.start, ord("a")))[0xC3 >> 5] >> np.uint32(0xC3 & 31) & 1
    # one byte begins both a letter, which goes on with the word, and a sign, which would need another one
    words = Copy("aé b× aé", unit="word", most=1)
    check_laws(words.compile(LETTERS), max_states=200)


def test_many_tokens_within_a_budget() -> None:
    text = "".join(a + b + c for a in "abc" for b in "cab" for c in "bca") * 3
    tokens = [a + b + c for a in "abc" for b in "abc" for c in "abc"]
    vocabulary = Vocabulary(
        [*[bytes([b]) for b in range(256)], *[t.encode() for t in tokens], None], eos=256 + len(tokens)
    )
    rng = np.random.default_rng(0)
    for least, spec in ((1, Copy(text)), (20, Copy(text, least=20)), (70, Copy(text, least=70, most=75))):
        machine = ("<" >> spec >> ">").compile(vocabulary)
        closing = closing_of(machine)
        needed = closing.needed(machine, machine.start, 0)
        for given_ in (needed, needed + 3, needed + 40):
            state, out = machine.start, b""
            for remaining in range(given_, 0, -1):
                row = closing.row(machine, state, remaining)
                allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                token = int(rng.choice(allowed))
                state = machine.advance(state, token)
                out += vocabulary.tokens[token] or b""
                if token in vocabulary.eos:
                    break
            assert token in vocabulary.eos
            assert out[1:-1].decode() in text
            assert len(out) - 2 >= least


def test_tokens_that_hold_the_end_of_a_part_and_the_mark_after_it() -> None:
    machine = ("<q>" >> Copy("a b<a") >> "</q>").compile(LETTERS)
    assert_same_language(machine, Enumerated(LETTERS, {f"<q>{t}</q>" for t in parts(["a b<a"], "character", 1, None)}))


def test_every_part_of_a_repetitive_text_and_no_other() -> None:
    text = "abaabaaab" * 60
    machine = Copy(text, least=2, most=7).compile(VOCABULARY)
    assert_same_language(machine, Enumerated(VOCABULARY, parts([text], "character", 2, 7)), max_states=4000)
    check_laws(machine, max_states=300)


@settings(max_examples=60, deadline=None)
@given(st.text('ab"\\\n/é😀\x00', min_size=1, max_size=6), st.booleans())
def test_the_content_of_a_json_string(text: str, ascii: bool) -> None:
    from ctrlgen.spans import spans_of

    spans = spans_of([text], "ascii json" if ascii else "json")
    found: set[str] = set()
    todo = [(spans.start, b"")]
    while todo:
        state, content = todo.pop()
        if spans.states[state, 2]:
            assert not ascii or content.isascii()
            found.add(json.loads(b'"' + content + b'"'))
        low, high = spans.states[state, :2]
        todo += [(target, content + bytes([label & 255])) for label, target in spans.edges[low:high].tolist()]
    assert found == parts([text], "character", 0, None)
    machine = Copy(text)
    assert machine.parse(text).end == len(text)


def test_both_spellings_of_an_escape() -> None:
    from ctrlgen.spans import spans_of

    spans = spans_of(["\né"], "json")
    for spelling in (rb"\n", rb"\u000a", rb"\u000A", "é".encode(), rb"\n\u00e9", rb"\u000a\u00E9"):
        state = spans.start
        for byte in spelling:
            state, _ = spans.step(state, byte)
        assert state >= 0
        assert spans.states[state, 2]


def test_where_parts_stand() -> None:
    spec = Copy(["one two", "two one"], unit="word")
    assert list(spec.places("one")) == [(0, 0), (1, 4)]
    assert list(spec.places("ne")) == []
    span = spec.parse("two")
    assert (span, span.context, span.start, span.end) == ("two", 0, 4, 7)
    again = pickle.loads(pickle.dumps(span))
    assert isinstance(again, Span)
    assert (again, again.start) == ("two", 4)
    with pytest.raises(InputError, match="not what"):
        spec.parse("two two")


def test_sentences() -> None:
    text = 'He left. "Why?" Nobody knows… 3.5 km away。そう。 the end '
    found = [text[a:b] for a, b in units_of(text, "sentence") or ()]
    assert found == ["He left.", '"Why?"', "Nobody knows…", "3.5 km away。", "そう。", "the end"]


def test_a_copy_is_a_value() -> None:
    spec = Copy("a b", unit="word", most=1)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert repr(spec) == "Copy('a b', unit='word', least=1, most=1)"
    assert spec.compile(VOCABULARY) is Copy("a b", unit="word", most=1).compile(VOCABULARY)


@pytest.mark.parametrize(
    "arguments",
    [
        {"context": 1},
        {"context": []},
        {"context": ["a", 1]},
        {"context": b"a"},
        {"context": {"a": 1}},
        {"context": {"a", "b"}},
        {"context": "\ud800"},
        {"context": "a", "unit": "page"},
        {"context": "a", "least": -1},
        {"context": "a", "least": True},
        {"context": "a", "least": 3, "most": 2},
        {"context": "a", "least": 0, "most": 0},
    ],
)
def test_what_makes_no_sense(arguments: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Copy(**arguments)  # type: ignore[arg-type]


def test_nothing_to_copy() -> None:
    for context, unit, least in (("", "character", 1), (" .", "word", 1), ("ab", "character", 3), ([], "word", 1)):
        with pytest.raises((UnsatisfiableError, InputError)):
            Copy(context, unit=unit, least=least)  # type: ignore[arg-type]
    with pytest.raises(UnsatisfiableError, match="has no word in its context"):
        Copy(" .", unit="word", least=0)
    with pytest.raises(UnsatisfiableError, match="at most 2"):
        Copy("ab", least=3)


def test_what_is_no_text_is_not_read() -> None:
    for what in (None, 3, b"a"):
        for spec in (Copy("a"), cg.JsonSchema({}), cg.Dispatch({"[": Copy("a") >> "]"})):
            if not (what == b"a" and isinstance(spec, cg.JsonSchema)):
                with pytest.raises(InputError, match="to be read"):
                    spec.parse(what)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "ab", "ab" * 1000])
def test_what_never_ends_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlgen.spans.MAX_CHARACTERS", 5000)
    with pytest.raises(ComplexityError, match="more than 5000 characters"):
        Copy(itertools.repeat(text))


def test_a_long_part_is_refused_at_once_within_a_small_budget() -> None:
    machine = Copy("abcd efgh" * 3000, least=20_000).compile(LETTERS)
    begun = time.perf_counter()
    needed = closing_of(machine).needed(machine, machine.start, 200)
    assert 200 < needed <= machine.distance(machine.start)
    assert time.perf_counter() - begun < 5  # it took minutes


def test_repeated_copies_and_choices_between_texts() -> None:
    spec = (Copy("ab") >> " ").repeat(1, 2)
    texts = {a + " " + b for a in ("a ", "b ", "ab ") for b in ("", "a ", "b ", "ab ")}
    assert_same_language(spec.compile(VOCABULARY), Enumerated(VOCABULARY, {t.replace("  ", " ") for t in texts}))
    either = Copy("aa") | Copy("bb")
    assert_same_language(either.compile(VOCABULARY), Enumerated(VOCABULARY, {"a", "aa", "b", "bb"}))


def test_within_free_text() -> None:
    text = "a bc a"
    words = Copy(text, unit="word")
    spec = cg.Dispatch({"[": words >> "]"})
    machine = spec.compile(LETTERS)
    for document, whole in (("ab", True), ("b[a bc]a[bc]", True), ("[a", False), ("[b]", False), ("[bc a]", True)):
        state = machine.start
        for byte in document.encode():
            state = machine.advance(state, byte)
            if state == cg.DEAD:
                break
        assert (state != cg.DEAD and machine.accepts(state)) == whole
    value = spec.parse("b[a bc]a[bc]")
    assert isinstance(value, cg.Parts)
    assert [(span, span.start) for span in value.values] == [("a bc", 0), ("bc", 2)]
    check_laws((cg.Free(until=":") >> words).compile(LETTERS), max_states=40)


@pytest.mark.model
def test_generation_in_a_batch_with_a_text_each(smollm2: Any) -> None:
    model, tokenizer = smollm2
    texts = ["Ada wrote it in 1843. She lived in London.", "Die Käserei öffnet um 9 Uhr 😀. Montags ist sie zu."]
    specs = [Copy(text, unit=unit) for text in texts for unit in ("word", "character")]
    for budget in (6, 12):
        made = cg.generate(model, tokenizer, ["Quote:"] * 4, specs, max_new_tokens=budget, temperature=1.0, seed=3)
        for one, spec in zip(made, specs, strict=True):
            assert one.finished
            assert spec.contexts[0][one.value.start : one.value.end] == one.text


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "llama3"])
@pytest.mark.parametrize(
    "text",
    [
        "The cat sat. The cat sat on the mat, the catastrophe! Über “Käse”. " * 5,
        "a" * 100 + "b",
        "ab" * 60,
        "e\u0301e\u0301 👩‍👩‍👧👩‍👧 中中文中 \u0301e" * 4,
    ],
)
def test_masks_of_a_real_vocabulary_against_a_scan(
    smollm2_folder: object, tokenizer_folder: Callable[[str], object], name: str, text: str
) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(smollm2_folder if name == "smollm2" else tokenizer_folder(name))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    data = text.encode()
    machine = Copy(text).compile(vocabulary)
    rng = np.random.default_rng(0)
    for _ in range(6):
        state, so_far = machine.start, b""
        for _ in range(4):
            row = machine.mask(state)
            for token in rng.choice(len(vocabulary.tokens), 300).tolist() + tokenizer.encode(text[:40]):
                piece = vocabulary.tokens[token]
                # from the first whole character on
                want = bool(piece) and so_far + (piece or b"") in data and not 0x80 <= (so_far + piece)[0] < 0xC0
                assert bool(row[token >> 5] >> np.uint32(token & 31) & 1) == want, (so_far, piece)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            allowed = allowed[~np.isin(allowed, list(vocabulary.eos))]
            if not len(allowed):
                break
            token = int(rng.choice(allowed))
            so_far += vocabulary.tokens[token] or b""
            state = machine.advance(state, token)
