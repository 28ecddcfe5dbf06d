"""The lexicon's rows and rest tries against a walk of each token, byte by byte."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.automaton import Automaton
from ctrlgen.engine.lexicon import UNLIMITED, Lexicon, lexicon_of
from ctrlgen.grammars.regex import compile_regex
from ctrlgen.vocabulary import Vocabulary

ALPHABET = b'ab"'
TOKENS = [bytes([a]) for a in range(256)] + [b"ab", b"aab", b'a"', b'"', b'ba"b', b'"a', b'""', b"bbbb", b"abab", None]
VOCABULARY = Vocabulary([*TOKENS, None], (len(TOKENS),))
WORDS = sorted({"".join(t).encode() for n in (2, 3) for t in itertools.product("ab/x0é ", repeat=n)})
WIDE_VOCABULARY = Vocabulary([*TOKENS[:256], *WORDS, None], (256 + len(WORDS),))


def automaton(language: frozenset[bytes]) -> Automaton:
    return Automaton.from_strings(language)


def run(step: np.ndarray, state: int, text: bytes) -> int:
    for byte in text:
        state = int(step[state, byte]) if state >= 0 else -1
    return state


@settings(max_examples=60, deadline=None)
@given(st.frozensets(st.text('ab"', min_size=0, max_size=4).map(str.encode), min_size=1, max_size=6))
def test_rows_and_rests_are_what_walking_each_token_gives(language: frozenset[bytes]) -> None:
    lexicon = Lexicon(VOCABULARY)
    start = lexicon.enter(automaton(language))
    step, final = lexicon._step.array, lexicon._states.array[:, 0]
    for state in range(start, start + lexicon._step.n):
        lexicon.provide_row(state, UNLIMITED)
        lexicon.provide_rest(state)
        row = lexicon._inside.array[lexicon._row_of.array[state, 0]]
        allowed = {t for t in range(len(TOKENS)) if row[t >> 5] >> (t & 31) & 1}
        assert allowed == {t for t, x in enumerate(TOKENS) if x and run(step, state, x) >= 0}
        want = {
            (x[n:], t)
            for t, x in enumerate(TOKENS)
            if x
            for n in range(1, len(x) + 1)
            if (q := run(step, state, x[:n])) >= 0 and final[q]
        }
        assert rest_of(lexicon, int(lexicon._states.array[state, 5])) == want


def rest_of(lexicon: Lexicon, root: int) -> set[tuple[bytes, int]]:
    if root < 0:
        return set()
    nodes, tokens = lexicon._trie.array, lexicon._trie_tokens.array[:, 0]
    found, path = set(), bytearray()
    for v in range(root, int(nodes[root, 1])):
        if v > root:
            del path[int(nodes[v, 5]) - 1 :]
            path.append(int(nodes[v, 0]))
        found |= {(bytes(path), int(t)) for t in tokens[nodes[v, 2] : nodes[v, 3]]}
    return found


def test_counted_rows_count_characters_begun() -> None:
    body = np.full((3, 256), -1, np.int32)
    body[0, 0x20:0x7F] = 0
    body[0, 0xC3] = 1
    body[1, 0x80:0xC0] = 0
    body[0, ord('"')] = 2
    strings = Automaton(body, np.array([False, False, True]), np.array([True, False, False]))
    tokens = [*VOCABULARY.tokens, "é".encode(), "éa".encode(), b"a\xc3"]
    vocabulary = Vocabulary(tokens, VOCABULARY.eos)
    lexicon = Lexicon(vocabulary)
    start = lexicon.enter(strings)
    for most in range(4):
        lexicon.provide_row(start, most)
        row = lexicon._inside.array[lexicon._counted.array[lexicon._states.array[start, 8], most]]
        for t, text in enumerate(tokens):
            inside = (
                text is not None and text != b"" and b'"' not in text and run(lexicon._step.array, start, text) >= 0
            )
            characters = sum(1 for b in text or b"" if not 0x80 <= b < 0xC0)
            assert bool(row[t >> 5] >> (t & 31) & 1) == (inside and characters <= most), (text, most)


def test_lexicons_are_shared_by_equal_vocabularies() -> None:
    assert lexicon_of(VOCABULARY) is lexicon_of(Vocabulary(VOCABULARY.tokens, VOCABULARY.eos))


def test_automata_are_taken_in_once() -> None:
    lexicon = Lexicon(VOCABULARY)
    assert lexicon.enter(Automaton.from_strings([b"ab"])) == lexicon.enter(Automaton.from_strings([b"ab", b"ab"]))


def test_completeness_knows_missing_bytes() -> None:
    few = Vocabulary([b"a", b"b", b"cd", None], (3,))
    lexicon = Lexicon(few)
    assert lexicon.complete(lexicon.enter(Automaton.from_strings([b"ab", b"b"])))
    assert not lexicon.complete(lexicon.enter(Automaton.from_strings([b"acd"])))


def test_an_interrupt_while_an_automaton_is_taken_in_leaves_the_lexicon_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    lexicon = Lexicon(VOCABULARY)
    lexicon.enter(Automaton.from_strings([b"a"]))
    for method in ("_states", "_step", "_row_of", "_ranges"):
        growing = getattr(lexicon, method)

        def stop(rows: np.ndarray, growing: object = growing) -> int:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(growing, "grow", stop)
            lexicon.enter(Automaton.from_strings([b"aab", method.encode()]))
    start = lexicon.enter(Automaton.from_strings([b"ab", b"b"]))
    assert lexicon.complete(start)
    assert lexicon.shortest[start] == 1
    assert len(lexicon.shortest) == lexicon._step.n == lexicon._states.n == lexicon._row_of.n


def test_long_chains_are_taken_in_quickly() -> None:
    import time

    begun = time.process_time()
    lexicon = Lexicon(VOCABULARY)
    assert lexicon.shortest[lexicon.enter(Automaton.from_strings([b"a" * 15_000]))] == 15_000
    assert time.process_time() - begun < 5


def test_names_do_not_need_bytes_that_no_name_needs():
    """Open objects over a tokenizer without single bytes for rare characters, as that of SmolLM2."""
    from ctrlgen.constraints.json_schema import JsonSchema
    from ctrlgen.engine.machine import Machine
    from ctrlgen.testing import check_laws
    from ctrlgen.vocabulary import Vocabulary

    some = Vocabulary([bytes([byte]) for byte in range(0xF1) if byte not in (4, 0xC0)] + [b'{"', b'": ', None], eos=241)
    open_one = JsonSchema({"properties": {"ab": {"type": "null"}}, "type": "object"}).compile(some)
    assert isinstance(open_one, Machine)
    check_laws(open_one, texts=['{"ab": null, "é": [1]}'], max_states=150)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(["[a-z]", "[^/]", ".", "é", "[a-z0-9_]", '"', "ab", "(?:x|yy)"]), min_size=1, max_size=4),
    st.data(),
)
def test_rows_and_exits_are_those_of_a_plain_walk(parts: list[str], data: st.DataObject) -> None:
    pattern = "".join(part + data.draw(st.sampled_from(["", "*", "+", "?", "{1,3}"])) for part in parts)
    automaton = compile_regex(pattern)
    lexicon = Lexicon(WIDE_VOCABULARY)
    start = lexicon.enter(automaton)
    states = data.draw(st.permutations(range(start, start + len(automaton.next))))
    for state in states:
        row = np.zeros(lexicon.words, np.uint32)
        exits = lexicon.walk(0, state, row)
        lexicon.provide_row(state, UNLIMITED)
        assert np.array_equal(lexicon.arrays[7][lexicon.arrays[6][state]], row)
        if not lexicon._reads_free_text(state):  # whose exits are in a smaller trie
            assert lexicon._exits_of(state).tolist() == exits.tolist()
