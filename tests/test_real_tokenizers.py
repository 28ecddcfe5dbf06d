"""Vocabularies of real tokenizers: whatever text goes in, the bytes of the ids join to it."""

from __future__ import annotations

import pickle
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ctrlgen.vocabulary import Vocabulary

pytestmark = pytest.mark.model

BYTE_LEVEL = ["llama3", "qwen3", "gpt4o", "deepseek_v3", "smollm2"]
NAMES = [*BYTE_LEVEL, "gemma3", "llama2"]


class Real(NamedTuple):
    """A tokenizer, as stored, and its vocabulary."""

    folder: Path
    tokenizer: Tokenizer
    vocabulary: Vocabulary


@cache
def load(folder: Path) -> Real:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Real(folder, tokenizer, Vocabulary.from_tokenizer(folder))


@pytest.fixture(scope="session")
def find(tokenizer_folder: Callable[[str], Path], request: pytest.FixtureRequest) -> Callable[[str], Real]:
    def found(name: str) -> Real:
        return load(request.getfixturevalue("smollm2_folder") if name == "smollm2" else tokenizer_folder(name))

    return found


@pytest.fixture(params=NAMES)
def real(request: pytest.FixtureRequest, find: Callable[[str], Real]) -> Real:
    return find(request.param)


# U+2581 is the blank of the two SentencePiece tokenizers, in the text too
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="▁")
JSONISH = st.sampled_from(
    [*'{}[]:,"\\ \n\t0123456789.-eEtruefalsn', "   ", '": "', "\r\n", "\u00e9", "e\u0301", "\U0001f469\u200d\U0001f467"]
)
TEXTS = st.lists(st.one_of(CHARACTERS, JSONISH, st.text(CHARACTERS, max_size=6)), max_size=30).map("".join)


def normal(real: Real, text: str) -> bytes:
    """What the tokenizer is known to make of a text: qwen3 composes accents."""
    composes = real.folder.name == "qwen3"
    return (unicodedata.normalize("NFC", text) if composes else text).encode()


@pytest.mark.parametrize("name", NAMES)
def test_bytes_of_ids_join_to_the_text(name: str, find: Callable[[str], Real]) -> None:
    real = find(name)

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(TEXTS)
    def check(text: str) -> None:
        # smollm2 has no token for 21 of the bytes, and its tokenizer drops them without a word
        assume(real.vocabulary.has_byte[list(text.encode())].all())
        ids = real.tokenizer.encode(text, add_special_tokens=False).ids
        got = real.vocabulary.decode(ids)
        if name == "llama2" and text:  # prepends a blank
            got = got.removeprefix(b" ")
        assert got == normal(real, text)

    check()


def test_json_can_be_spelled(real: Real) -> None:
    vocabulary = real.vocabulary
    text = '{"é": "👋 日本"}\n\t'.encode()
    assert vocabulary.decode(vocabulary.encode_greedy(text)) == text


def test_control_tokens_are_not_text(real: Real) -> None:
    vocabulary, added = real.vocabulary, real.tokenizer.get_added_tokens_decoder()
    special = {token.content: i for i, token in added.items() if token.special}
    assert special
    assert special.items() <= vocabulary.special.items()
    assert all(vocabulary.tokens[i] is None for i in vocabulary.special.values())
    assert set(vocabulary.eos) <= set(vocabulary.special.values())
    ids = set(vocabulary.trie.tokens.tolist())
    assert not ids & set(vocabulary.special.values())
    # spelled out, their text stays legal
    assert vocabulary.decode(vocabulary.encode_greedy(b"<|im_end|></s>")) == b"<|im_end|></s>"


@pytest.mark.parametrize("name", ["qwen3", "deepseek_v3", "gemma3"])
def test_added_text_is_text(name: str, find: Callable[[str], Real]) -> None:
    real = find(name)
    added = {i: token.content for i, token in real.tokenizer.get_added_tokens_decoder().items() if not token.special}
    assert added
    for i, content in added.items():
        text = content.replace("▁", " ") if name == "gemma3" else content
        assert real.vocabulary.tokens[i] == text.encode()
    assert set(added) <= set(real.vocabulary.trie.tokens.tolist())


def test_every_id_is_text_control_or_a_hole(real: Real) -> None:
    known = set(real.tokenizer.get_vocab(with_added_tokens=True).values())
    control = set(real.vocabulary.special.values())
    for i, token in enumerate(real.vocabulary.tokens):
        assert (token is not None) == (i in known and i not in control), i


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_byte_level_agrees_with_decode(name: str, find: Callable[[str], Real]) -> None:
    real = find(name)
    added = real.tokenizer.get_added_tokens_decoder()
    rng = np.random.default_rng(0)
    for i in rng.choice(real.vocabulary.trie.tokens, 2000).tolist():
        token = real.vocabulary.tokens[i]
        assert token is not None
        if i not in added:
            assert real.tokenizer.decode([i]) == token.decode(errors="replace")


def test_gpt4o_has_holes(find: Callable[[str], Real]) -> None:
    vocabulary = find("gpt4o").vocabulary
    assert len(vocabulary) == 200_019
    assert all(token is None for token in vocabulary.tokens[199_998 + 1 :])
    assert vocabulary.special["<|endofprompt|>"] == 200_018
    assert vocabulary.trie.tokens.max() < 199_999


def test_gemma3_has_runs_of_blanks_and_of_lines(find: Callable[[str], Real]) -> None:
    real = find("gemma3")
    vocabulary, ids = real.vocabulary, real.tokenizer.get_vocab(with_added_tokens=True)
    for n in range(2, 32):
        assert vocabulary.tokens[ids["▁" * n]] == b" " * n
        assert vocabulary.tokens[ids["\n" * n]] == b"\n" * n
    assert ids["▁" * 2] in real.tokenizer.get_added_tokens_decoder()
    assert "<start_of_turn>" in vocabulary.special


@pytest.mark.parametrize("name", ["gemma3", "llama2"])
def test_ids_with_the_same_bytes_all_stay(name: str, find: Callable[[str], Real]) -> None:
    vocabulary = find(name).vocabulary
    assert vocabulary.has_byte.all()
    counts = Counter(token for token in vocabulary.tokens if token)
    assert counts[b"A"] == 2  # as a character and as a byte
    trie = vocabulary.trie
    assert len(trie.tokens) == counts.total()
    root_child = int(trie.children[0, ord("A")])
    low, high = trie.nodes[root_child, 2:4]
    assert [vocabulary.tokens[i] for i in trie.tokens[low:high]] == [b"A", b"A"]


def test_any_byte_can_be_said(real: Real) -> None:
    assert real.vocabulary.has_byte.sum() == (235 if real.folder.name.startswith("smollm2") else 256)


def test_widths(real: Real) -> None:
    vocabulary = real.vocabulary
    padded = vocabulary.with_width(-(-len(vocabulary) // 128) * 128 + 128)
    assert padded.trie is vocabulary.trie
    assert padded.words * 32 >= padded.width > len(vocabulary)
    end = max(vocabulary.eos)
    narrow = vocabulary.with_width(max(end + 1, 20_000))
    assert narrow.trie.tokens.max() < narrow.width
    expected = [i for i, token in enumerate(vocabulary.tokens[: narrow.width]) if token]
    assert np.sort(narrow.trie.tokens).tolist() == expected


def test_the_trie_holds_the_tokens_in_order(real: Real) -> None:
    vocabulary, trie = real.vocabulary, real.vocabulary.trie
    tokens: list[Any] = [vocabulary.tokens[i] for i in trie.tokens]
    assert tokens == sorted(tokens)
    owner = np.repeat(np.arange(len(trie.nodes)), trie.nodes[:, 3] - trie.nodes[:, 2])
    assert len(owner) == len(tokens)  # each token belongs to one node
    assert (trie.nodes[owner, 5] == [len(token) for token in tokens]).all()
    assert (trie.nodes[owner, 0] == [token[-1] for token in tokens]).all()


def test_pickle_and_fingerprint(find: Callable[[str], Real]) -> None:
    real = find("llama2")
    assert pickle.loads(pickle.dumps(real.vocabulary)) == real.vocabulary
    code = (
        "import sys; from ctrlgen.vocabulary import Vocabulary as V; print(V.from_tokenizer(sys.argv[1]).fingerprint)"
    )
    command = [sys.executable, "-c", code, str(real.folder)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == (
        real.vocabulary.fingerprint
    )


def test_the_tokenizer_of_transformers_gives_the_same(find: Callable[[str], Real]) -> None:
    from transformers import AutoTokenizer

    real = find("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(real.folder)
    assert Vocabulary.from_tokenizer(tokenizer, model=None) == real.vocabulary
