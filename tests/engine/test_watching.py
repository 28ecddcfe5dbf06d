"""Rows of free text against a walk of the whole trie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.constraints.free_text import text_until, text_without
from ctrlgen.engine.columns import DEPTH, LO
from ctrlgen.engine.lexicon import Lexicon
from ctrlgen.testing import toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

PIECES = [
    *(bytes([b]) for b in b"ab<>/"),
    *(b"<a", b"a>", b"<a>", b"<a>b", b"</", b"</a>", b"b<", b"aab", b"ab<a><", b"a<a>a<b>"),
]
WATCHED = [b"<a>", b"</", b"<b", b"aab", b"a<", b">>", b"b<a"]
STRINGS = st.lists(st.sampled_from(WATCHED), min_size=1, max_size=3, unique=True)


def exits_of(lexicon: Lexicon, exits: np.ndarray) -> set[tuple[bytes, int]]:
    """Exits as texts: the same wherever in a trie they stand."""
    trie, flat = lexicon.arrays[:2]
    found = set()
    for node, count, _ in exits.tolist():
        depth = int(trie[node, DEPTH])
        found.add((lexicon.tokens[int(flat[trie[node, LO]])][:depth], count))
    return found


@settings(max_examples=60, deadline=None)
@given(STRINGS, st.integers(0, 2), st.lists(st.sampled_from(PIECES), min_size=1, max_size=14, unique=True))
def test_rows_are_those_of_a_walk(strings: list[bytes], ends: int, pieces: list[bytes]) -> None:
    strings = [s for i, s in enumerate(strings) if not any(s in t or t in s for t in strings[:i])]
    lexicon = Lexicon(toy_vocabulary([*pieces, None], eos=len(pieces)))
    waits, never = tuple(strings[:ends]), tuple(strings[ends:])
    automaton = text_until(waits, never) if waits else text_without(never)
    first = lexicon.enter(automaton)
    assert lexicon._watching.fits(first)
    for state in range(first, first + len(automaton.next)):
        row = np.zeros(lexicon.words, np.uint32)
        wanted = lexicon.walk(0, state, row)
        found, exits = lexicon._watching.walked(state)
        assert found.tolist() == row.tolist()
        if strings[:ends]:
            assert exits_of(lexicon, exits) == exits_of(lexicon, wanted)
            assert len(exits) == len(wanted)
            # exits at the end of a token may be left out elsewhere: nothing follows them
            if not lexicon._reads_free_text(state):
                assert exits_of(lexicon, lexicon._exits_of(state)) == exits_of(lexicon, wanted)
        else:
            assert lexicon._watching.ends_anywhere(state)
            assert lexicon._reads_free_text(state) or len(lexicon._exits_of(state)) == len(wanted)


@pytest.mark.model
def test_rows_of_a_real_vocabulary(smollm2_folder: Path) -> None:
    lexicon = Lexicon(Vocabulary.from_tokenizer(smollm2_folder))
    for automaton in (
        text_until((b"</think>",)),
        text_until((b"```\n", b"<t>"), (b"  ",)),
        text_without((b"</", b"\n\n")),
    ):
        first = lexicon.enter(automaton)
        for state in range(first, first + len(automaton.next)):
            row = np.zeros(lexicon.words, np.uint32)
            wanted = lexicon.walk(0, state, row)
            found, exits = lexicon._watching.walked(state)
            assert np.array_equal(found, row)
            assert lexicon._watching.ends_anywhere(state) or exits_of(lexicon, exits) == exits_of(lexicon, wanted)
