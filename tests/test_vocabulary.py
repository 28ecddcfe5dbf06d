"""Vocabulary by hand, from small tokenizers made here, and (in test_real_tokenizers.py) from real ones."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from ctrlgen.errors import VocabularyError
from ctrlgen.vocabulary import Vocabulary

ASCII = [chr(i) for i in range(32, 127)]


def toy() -> Vocabulary:
    return Vocabulary([b"a", b"b", b"ab", b"<end>", None, b"", b"a", b"bba"], eos=3, special={"<x>": 4}, width=40)


# ---------------------------------------------------------------- by hand


def test_the_parts_of_a_toy() -> None:
    vocabulary = toy()
    assert vocabulary.tokens == (b"a", b"b", b"ab", None, None, None, b"a", b"bba")
    assert vocabulary.eos == (3,)
    assert vocabulary.special == {"<x>": 4, "<end>": 3}
    assert (vocabulary.width, vocabulary.words, len(vocabulary)) == (40, 2, 8)
    assert vocabulary.trie.tokens.tolist() == [0, 6, 2, 1, 7]
    assert set(np.flatnonzero(vocabulary.has_byte).tolist()) == set(b"ab")
    assert not vocabulary.has_byte.flags.writeable
    assert "8 tokens, eos=[3], 2 special, width=40" in repr(vocabulary)


def test_control_is_never_text() -> None:
    vocabulary = Vocabulary([b"a", b"<x>", b"<y>"], eos=(2, 0), special={"<x>": 1, "<z>": 9})
    assert vocabulary.tokens == (None, None, None)
    assert vocabulary.special == {"<x>": 1, "<y>": 2, "a": 0, "<z>": 9}
    assert vocabulary.eos == (0, 2)


def test_the_name_of_an_end_token_does_not_take_a_name_that_is_taken() -> None:
    assert Vocabulary([b"<x>", None], eos=0, special={"<x>": 1}).special == {"<x>": 1}


def test_nothing_can_be_changed() -> None:
    vocabulary = toy()
    with pytest.raises(AttributeError, match="immutable"):
        vocabulary.width = 3
    with pytest.raises(AttributeError, match="immutable"):
        del vocabulary.eos
    with pytest.raises(TypeError):
        vocabulary.special["<y>"] = 1  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tokens": ["a"]}, r"token 0 is 'a'; expected bytes or None"),
        ({"tokens": [b"a", 3]}, r"token 1 is 3; expected bytes"),
        ({"eos": []}, r"no end token is known; pass eos="),
        ({"eos": [-1]}, r"-1 in eos is not a token id"),
        ({"eos": ["</s>"]}, r"'</s>' in eos is not a token id"),
        ({"eos": True}, r"True in eos"),
        ({"eos": [7], "width": 7}, r"no end token \[7\] lies below the width 7"),
        ({"width": 0}, r"width is 0; expected the number of columns"),
        ({"width": 2.5}, r"width is 2.5"),
        ({"special": {"<x>": -2}}, r"special maps '<x>' to -2"),
        ({"special": {3: 3}}, r"special maps 3 to 3"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(**{"tokens": [b"a", b"b"], "eos": [1], **arguments})


def test_end_ids_and_control_ids_may_lie_past_the_tokens() -> None:
    vocabulary = Vocabulary([b"a"], eos=[3, 70], special={"<x>": 50}, width=64)
    assert vocabulary.eos == (3,)
    assert vocabulary.with_width(71).eos == (3, 70)


def test_another_width_keeps_the_tokens_and_forbids_the_rest() -> None:
    vocabulary = toy()
    wide, narrow = vocabulary.with_width(100), vocabulary.with_width(5)
    assert wide.trie is vocabulary.trie
    assert wide.words == 4
    assert narrow.trie.tokens.tolist() == [0, 2, 1]
    assert narrow.tokens == vocabulary.tokens
    assert narrow.encode_greedy(b"bba") == [1, 1, 0]
    assert vocabulary.encode_greedy(b"bba") == [7]
    assert narrow.with_width(40) == vocabulary != narrow
    assert narrow.fingerprint == vocabulary.fingerprint
    assert vocabulary.with_width(40) is vocabulary
    with pytest.raises(VocabularyError, match=r"no end token \[3\] lies below the width 3"):
        vocabulary.with_width(3)


def test_many_threads_build_one_trie() -> None:
    vocabulary = Vocabulary([None, *(b"%d" % i for i in range(3000))], eos=0)
    with ThreadPoolExecutor(8) as pool:
        tries = list(pool.map(lambda width: vocabulary.with_width(width).trie, [4000 + i for i in range(16)]))
    assert len({id(trie) for trie in tries}) == 1


def test_numbers_of_numpy_are_numbers() -> None:
    vocabulary = Vocabulary([b"a", b"b"], eos=np.int64(1), special={"<x>": np.int32(0)}, width=np.int64(5))
    assert vocabulary == Vocabulary([b"a", b"b"], eos=1, special={"<x>": 0}, width=5)
    assert type(vocabulary.eos[0]) is type(vocabulary.width) is type(vocabulary.special["<x>"]) is int


def test_has_byte_goes_by_width() -> None:
    vocabulary = Vocabulary([None, b"a", b"b"], eos=0)
    assert np.flatnonzero(vocabulary.has_byte).tolist() == [97, 98]
    assert np.flatnonzero(vocabulary.with_width(2).has_byte).tolist() == [97]


def test_decode_skips_what_is_not_text_and_refuses_what_is_not_an_id() -> None:
    vocabulary = toy()
    assert vocabulary.decode([2, 3, 4, 30, 7]) == b"abbba"
    for wrong in (-1, 40):
        with pytest.raises(VocabularyError, match=rf"token id {wrong} lies outside of 0\.\.39"):
            vocabulary.decode([0, wrong])


def test_encode_greedy_takes_the_longest_from_which_the_rest_can_be_spelled() -> None:
    vocabulary = Vocabulary([None, b"a", b"ab", b"bc", b"abcd", b"de"], eos=0)
    assert vocabulary.encode_greedy(b"") == []
    assert vocabulary.encode_greedy(b"abab") == [2, 2]
    assert vocabulary.encode_greedy(b"abcde") == [1, 3, 5]  # "abcd" and "ab" are dead ends
    with pytest.raises(VocabularyError, match=r"no sequence .* 5 bytes: nothing goes on from byte 4, b'x'"):
        vocabulary.encode_greedy(b"aababx"[1:])


WORDS = st.lists(st.text("ab", min_size=1, max_size=3).map(str.encode), max_size=4)


@given(WORDS, st.text("ab", max_size=8).map(str.encode))
def test_encode_greedy_finds_a_spelling_if_there_is_one(words: list[bytes], text: bytes) -> None:
    vocabulary = Vocabulary([*words, None], eos=len(words))
    spelled = [True]
    for end in range(1, len(text) + 1):
        spelled.append(any(text[:end].endswith(word) and spelled[end - len(word)] for word in words))
    if spelled[-1]:
        assert vocabulary.decode(vocabulary.encode_greedy(text)) == text
    else:
        with pytest.raises(VocabularyError):
            vocabulary.encode_greedy(text)


# ---------------------------------------------------------------- fingerprint, pickle


def test_equal_by_fingerprint_and_width() -> None:
    assert toy() == toy() and hash(toy()) == hash(toy())
    assert toy() != "toy"


def test_the_fingerprint_tells_apart_what_differs() -> None:
    variants = [
        Vocabulary([b"a", b"b", None], eos=2),
        Vocabulary([b"ab", b"", None], eos=2),
        Vocabulary([b"", b"ab", None], eos=2),
        Vocabulary([b"a", b"b", None, None], eos=2),
        Vocabulary([b"a", b"b", None, None], eos=[2, 3]),
        Vocabulary([b"a", b"b", None, None], eos=2, special={"x": 3}),
        Vocabulary([b"a", b"b", None, None], eos=2, special={"y": 3}),
        Vocabulary([b"a", b"b", None, None], eos=2, special={"x": 2}),
    ]
    assert len({vocabulary.fingerprint for vocabulary in variants}) == len(variants)


def test_the_order_of_the_arguments_does_not_matter() -> None:
    one = Vocabulary([b"a", None, None], eos=[1, 2], special={"x": 1, "y": 2})
    assert one == Vocabulary([b"a", None, None], eos=[2, 1, 2], special={"y": 2, "x": 1})


def test_the_fingerprint_is_the_same_in_another_process() -> None:
    code = """
from ctrlgen.vocabulary import Vocabulary
print(Vocabulary([b"a", None, b"\\xff"], eos=[1], special={"<x>": 5}).fingerprint)
"""
    other = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    assert other == Vocabulary([b"a", None, b"\xff"], eos=[1], special={"<x>": 5}).fingerprint
    assert len(other) == 64


@pytest.mark.parametrize("width", [4, 8, 40])
def test_pickle(width: int) -> None:
    vocabulary = toy().with_width(width)
    assert vocabulary.trie is not None  # neither it nor its lock is pickled
    again = pickle.loads(pickle.dumps(vocabulary))
    assert again == vocabulary
    assert (again.tokens, again.eos, again.special) == (vocabulary.tokens, vocabulary.eos, vocabulary.special)
    assert again.trie.tokens.tolist() == vocabulary.trie.tokens.tolist()


def test_importing_it_imports_no_heavy_library() -> None:
    heavy = ("torch", "transformers", "tokenizers", "numba")
    code = f"import sys, ctrlgen.vocabulary; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


# ---------------------------------------------------------------- small tokenizers


def byte_level(*more: str, decoder: Any = decoders.ByteLevel()) -> Tokenizer:  # noqa: B008
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *more]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if decoder is not None:
        tokenizer.decoder = decoder
    return tokenizer


def characters(*, bytes_too: bool = True, unknown: str | None = None) -> dict[str, int]:
    """A vocabulary of characters with a mark for the blank and perhaps a piece for each byte."""
    pieces = ["▁", *ASCII[1:], *(f"<0x{i:02X}>" for i in range(256) if bytes_too), *([unknown] if unknown else [])]
    return {piece: i for i, piece in enumerate(pieces)}


def byte_fallback(decoder: Any, normalizer: Any = None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab=characters(), merges=[], byte_fallback=True))
    tokenizer.normalizer = normalizer or normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoder
    return tokenizer


BLANKS = decoders.Replace("▁", " ")
SENTENCEPIECE = decoders.Sequence([BLANKS, decoders.ByteFallback(), decoders.Fuse()])


def spelled(vocabulary: Vocabulary, tokenizer: Tokenizer, text: str) -> bytes:
    return vocabulary.decode(tokenizer.encode(text, add_special_tokens=False).ids)


def test_byte_level() -> None:
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<end>", "<turn>"])
    tokenizer.add_tokens([AddedToken("é Ġ", special=False), AddedToken("word", special=False)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos="<end>")
    assert vocabulary.has_byte.all()
    assert vocabulary.special == {"<end>": 256, "<turn>": 257}
    # the content of an added token is literal text, though each of its characters is also one of the byte alphabet
    assert vocabulary.tokens[256:] == (None, None, "é Ġ".encode(), b"word")
    assert spelled(vocabulary, tokenizer, "a é Ġ word 👋") == "a é Ġ word 👋".encode()


@pytest.mark.parametrize("decoder", [None, decoders.Sequence([decoders.ByteLevel(), decoders.Fuse()])])
def test_byte_level_in_other_dress(decoder: Any) -> None:
    vocabulary = Vocabulary.from_tokenizer(byte_level("日本", decoder=decoder), eos=5)
    assert vocabulary.has_byte.sum() == 255  # 5 is an end token now, and so not text
    assert vocabulary.tokens[256] == "日本".encode()  # no byte alphabet, so it can only be meant literally
    assert vocabulary.special == {"&": 5}


@pytest.mark.parametrize(
    ("decoder", "normalizer"),
    [
        (SENTENCEPIECE, None),
        (decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), None),
        (decoders.Sequence([decoders.ByteFallback(), BLANKS]), None),
        (
            decoders.Sequence([BLANKS, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
            normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        ),
    ],
)
def test_byte_fallback(decoder: Any, normalizer: Any) -> None:
    tokenizer = byte_fallback(decoder, normalizer)
    tokenizer.add_tokens([AddedToken("▁▁▁", normalized=False, special=False)])
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos=[1])
    assert vocabulary.tokens[0] == b" " and vocabulary.tokens[-1] == b"   "
    assert vocabulary.tokens.count(b"A") == 2  # as a character and as a byte; both stay
    assert vocabulary.has_byte.all()
    assert spelled(vocabulary, tokenizer, "é\n x").removeprefix(b" ") == "é\n x".encode()


def test_bytes_are_pieces_only_where_the_decoder_says_so() -> None:
    tokenizer = Tokenizer(models.WordLevel({**characters(unknown="?!?")}, unk_token="?!?"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Sequence([BLANKS, decoders.Fuse()])
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos=1)
    assert b"<0x41>" in vocabulary.tokens and vocabulary.tokens.count(b"A") == 1
    assert vocabulary.special == {"!": 1, "?!?": len(vocabulary) - 1}  # what stands for the unknown is not text


def test_an_unknown_decoder_is_asked_token_by_token() -> None:
    tokenizer = Tokenizer(models.WordLevel(characters(bytes_too=False, unknown="?!?"), unk_token="?!?"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(Regex("▁"), " "), decoders.Fuse()])
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos=1)
    assert vocabulary.tokens[:4] == (b" ", None, b'"', b"#")


def test_word_pieces_lose_blanks_and_are_refused_with_an_example() -> None:
    pieces = [*ASCII[1:], *("##" + character for character in ASCII[1:]), "?!?"]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="?!?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(VocabularyError) as caught:
        Vocabulary.from_tokenizer(tokenizer, eos=1)
    message = str(caught.value)
    assert "do not join to the text they encode" in message
    for part in ("text:", "expected:", "got:", "ids:", "decoder:", "['WordPiece']", "Vocabulary(tokens, eos)"):
        assert part in message


def test_a_decoder_that_lies_is_found_out() -> None:
    tokenizer = byte_level(decoder=SENTENCEPIECE)  # encodes to the byte alphabet and decodes something else
    with pytest.raises(VocabularyError, match="read as: pieces"):
        Vocabulary.from_tokenizer(tokenizer, eos=1)


def test_a_tokenizer_that_can_say_nothing_is_refused() -> None:
    tokenizer = Tokenizer(models.WordLevel({"word": 0, "?!?": 1}, unk_token="?!?"))
    tokenizer.decoder = decoders.Fuse()
    with pytest.raises(VocabularyError, match="cannot say any of the texts with blanks"):
        Vocabulary.from_tokenizer(tokenizer, eos=0)


def test_truncation_and_padding_do_not_disturb_the_self_test() -> None:
    tokenizer = byte_level("<pad>")
    tokenizer.add_special_tokens(["<pad>"])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=64, pad_id=256, pad_token="<pad>")
    assert Vocabulary.from_tokenizer(tokenizer, eos=256).has_byte.all()


def test_no_tokens_at_all() -> None:
    with pytest.raises(VocabularyError, match="has no tokens"):
        Vocabulary.from_tokenizer(Tokenizer(models.BPE()), eos=1)


@pytest.mark.parametrize("wrong", [None, 3, object(), SimpleNamespace(eos_token_id=1)])
def test_what_is_no_fast_tokenizer(wrong: object) -> None:
    with pytest.raises(VocabularyError, match=r"is not a fast tokenizer: expected .* AutoTokenizer"):
        Vocabulary.from_tokenizer(wrong, eos=1)


# ---------------------------------------------------------------- end tokens and width


def test_without_an_end_token_it_asks_for_one() -> None:
    with pytest.raises(VocabularyError, match="names an end token; pass eos="):
        Vocabulary.from_tokenizer(byte_level())
    with pytest.raises(VocabularyError, match="'</s>' is not in the tokenizer"):
        Vocabulary.from_tokenizer(byte_level(), eos="</s>")


def test_the_end_ids_of_all_configs_together() -> None:
    from transformers import GenerationConfig, LlamaConfig, PreTrainedTokenizerFast

    backend = byte_level()
    backend.add_special_tokens(["<end>", "<turn>", "<stop>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")
    config = LlamaConfig(vocab_size=320, eos_token_id=[257, 256], bos_token_id=None)
    model = SimpleNamespace(config=config, generation_config=GenerationConfig(eos_token_id=258))
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
    assert (vocabulary.eos, vocabulary.width) == ((256, 257, 258), 320)
    assert Vocabulary.from_tokenizer(tokenizer, model=config).eos == (256, 257)
    assert Vocabulary.from_tokenizer(tokenizer).eos == (256,)
    assert Vocabulary.from_tokenizer(tokenizer).width == 259
    assert Vocabulary.from_tokenizer(tokenizer, model=model, eos=[258], width=300).eos == (258,)
    assert Vocabulary.from_tokenizer(tokenizer, model=model, width=258).eos == (256, 257)


def test_the_text_part_of_a_multi_modal_config_counts() -> None:
    text = SimpleNamespace(eos_token_id=256, vocab_size=300)
    config = SimpleNamespace(eos_token_id=[257], vocab_size=7, get_text_config=lambda: text)
    vocabulary = Vocabulary.from_tokenizer(byte_level(), model=SimpleNamespace(config=config, generation_config=None))
    assert (vocabulary.eos, vocabulary.width) == ((256, 257), 300)


def test_a_folder_brings_its_own_end_tokens(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<end>", "<turn>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(VocabularyError, match="pass eos="):
        Vocabulary.from_tokenizer(tmp_path)
    files = {
        "tokenizer_config.json": {"eos_token": {"content": "<end>"}},
        "config.json": {"vocab_size": 7, "text_config": {"eos_token_id": 257, "vocab_size": 300}},
        "generation_config.json": {"eos_token_id": [256, 9]},
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    vocabulary = Vocabulary.from_tokenizer(tmp_path)
    assert (vocabulary.eos, vocabulary.width) == ((9, 256, 257), 300)
    assert Vocabulary.from_tokenizer(tmp_path, model=SimpleNamespace(vocab_size=310)).width == 310
    assert Vocabulary.from_tokenizer(str(tmp_path / "tokenizer.json")) == vocabulary
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(VocabularyError, match=r"config\.json is not JSON"):
        Vocabulary.from_tokenizer(tmp_path)


def test_a_path_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"cannot read the tokenizer .*tokenizer\.json"):
        Vocabulary.from_tokenizer(tmp_path)
