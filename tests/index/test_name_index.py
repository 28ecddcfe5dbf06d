"""NameIndex: as a collection, as a file, and as a constraint beside the enumeration of its texts."""

import gzip
import pickle
import random
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.errors import ComplexityError, InputError, UnsatisfiableError, VocabularyError
from ctrlgen.index import name_constraint
from ctrlgen.index.name_files import Lines, lines_of, normalised, read_lines
from ctrlgen.index.name_index import NameIndex
from ctrlgen.index.storage import FileError, open_index, save_index, verify
from ctrlgen.index.token_index import TokenIndex
from ctrlgen.testing import Enumerated, assert_same_language, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

TOY = toy_vocabulary()
BYTES = Vocabulary([*(bytes([b]) for b in range(256)), b"ab", b"py", None], eos=258)
LETTERS = Vocabulary(
    [*(bytes([b]) for b in "abé-[], ".encode()), b"ab", b"[a", b"]]", b"a]", b", ", b"b, a", b"ab", None],
    eos=16,
    width=40,
)

names_of = st.lists(st.text("abé-", max_size=5), min_size=1, max_size=9)
quick = settings(max_examples=30, deadline=None)


@quick
@given(names_of)
def test_is_the_enumeration(names):
    constraint = NameIndex.from_names(names).compile(LETTERS)
    assert_same_language(constraint, Enumerated(LETTERS, names))
    check_laws(constraint, max_states=30)


@quick
@given(names_of, st.sampled_from(["", "[", "[a", "[]"]), st.sampled_from(["", "]", "]]"]))
def test_with_something_before_and_after(names, before, after):
    constraint = NameIndex.from_names(names).compile(LETTERS, before=before, after=after)
    assert_same_language(constraint, Enumerated(LETTERS, [before + name + after for name in names]))
    check_laws(constraint, max_states=30)


@quick
@given(names_of, st.sampled_from([("", ", "), (",]", ", "), ("]", ","), ("", ",,")]), st.randoms(use_true_random=False))
def test_several_names(names, ends, rng):
    after, separator = ends
    constraint = NameIndex.from_names(names).compile(LETTERS, before="[", after=after, separator=separator)
    check_laws(constraint, max_states=50)
    for count in (1, 2, 3):
        text = "[" + separator.join(rng.choices(names, k=count)) + after
        assert ends_at(constraint, text)
        assert ends_at(constraint, text + separator) == (after == "" and "" in names)
        assert not ends_at(constraint, text[1:])


@quick
@given(st.data())
def test_tokens_that_cannot_spell_everything(data):
    """Without tokens of single bytes, what cannot be finished is not begun."""
    piece = st.binary(min_size=1, max_size=3).map(lambda b: bytes(b"ab\xc3\xa9"[x % 4] for x in b))
    pieces = data.draw(st.lists(piece, min_size=1, max_size=8))
    vocabulary = Vocabulary([*pieces, None, None], eos=[len(pieces), len(pieces) + 1], width=len(pieces) + 5)
    names = data.draw(st.lists(st.text("abé", max_size=5), min_size=1, max_size=8))
    index = NameIndex.from_names(names)
    try:
        expected = Enumerated(vocabulary, names)
    except UnsatisfiableError:
        with pytest.raises(UnsatisfiableError, match="none of the names"):
            index.compile(vocabulary)
        return
    constraint = index.compile(vocabulary)
    assert_same_language(constraint, expected)
    check_laws(constraint, max_states=30)
    if not all(vocabulary.has_byte[byte] for byte in index.alphabet):
        assert constraint.distance(constraint.start) == expected.distance(expected.start)


def ends_at(constraint, text):
    state = constraint.start
    for byte in text.encode():
        state = constraint.advance(state, constraint.vocabulary.tokens.index(bytes([byte])))
    return state >= 0 and constraint.accepts(state)


def made_up(count, seed=0):
    """Distinct names of syllables."""
    rng = random.Random(seed)
    parts = [a + b for a in "bdfgklmnprst" for b in "aeiou"] + ["-", "py", "-x", "2"]
    return sorted({"".join(rng.choices(parts, k=rng.randint(1, 6))) for _ in range(count)})


@pytest.mark.model
@pytest.mark.parametrize("name", ["llama3", "qwen3", "gpt4o", "gemma3", "llama2", "deepseek_v3"])
def test_masks_of_real_tokenizers(name, tokenizer_folder):
    vocabulary = Vocabulary.from_tokenizer(tokenizer_folder(name))
    names = made_up(3000)
    constraint = NameIndex.from_names(names).compile(vocabulary)
    rng = random.Random(1)
    for _ in range(6):
        whole = rng.choice(names)
        text = whole[: rng.randint(0, len(whole))]
        state = constraint.start
        for token in vocabulary.encode_greedy(text.encode()):
            state = constraint.advance(state, token)
        rests = [other[len(text) :].encode() for other in names if other.startswith(text)]
        starts = {rest[:n] for rest in rests for n in range(1, len(rest) + 1)}
        wanted = {i for i, token in enumerate(vocabulary.tokens) if token in starts}
        wanted |= set(vocabulary.eos) if b"" in rests else set()
        bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")
        assert set(np.flatnonzero(bits).tolist()) == wanted
    if name == "llama2":  # the smallest
        check_laws(constraint, max_states=8, max_tokens=8)


def test_rows_are_bounded(monkeypatch):
    monkeypatch.setattr(name_constraint, "_SHORT_BYTES", 8 * 4 * BYTES.words)
    monkeypatch.setattr(name_constraint, "_MOST_MOVES", 5)
    names = made_up(2000)
    constraint = name_constraint.NameConstraint(NameIndex.from_names(names), BYTES)
    for name in names[:200]:
        assert ends_at(constraint, name)
        state = constraint.start
        for byte in name.encode():
            assert constraint.mask(state)[byte // 32] >> byte % 32 & 1
            state = constraint.advance(state, byte)
            constraint.distance(state)
    assert len(constraint._rows) <= 8 + constraint._long
    assert max(len(constraint._moves), len(constraint._distances)) <= 5
    assert len(constraint._short) <= 8


def test_states_that_are_none():
    constraint = NameIndex.from_names(["a"]).compile(BYTES)
    assert constraint.advance(-1, 97) == -1
    for state in (-1, constraint.state_count):
        with pytest.raises(InputError, match="not a state"):
            constraint.mask(state)


def test_compiled_once():
    one, other = NameIndex.from_names(["a", "b"]), NameIndex.from_names(["b", "a"])
    assert one.compile(BYTES) is other.compile(BYTES)
    assert one.compile(BYTES) is not one.compile(BYTES, after="]")


# what is refused


@pytest.mark.parametrize(
    ("around", "message"),
    [
        ({"separator": ""}, "separator is empty"),
        ({"separator": ",", "after": ", "}, "begin one another"),
        ({"separator": "-"}, "'a-b' goes on with '-'"),
        ({"after": "-."}, "'a-b' goes on with '-'"),
    ],
)
def test_refuses_texts_that_read_in_two_ways(around, message):
    with pytest.raises(InputError, match=message):
        NameIndex.from_names(["a", "a-b"]).compile(BYTES, **around)


def test_refuses_surroundings_where_bytes_are_missing():
    with pytest.raises(VocabularyError, match="single byte 0x5d"):
        NameIndex.from_names(["a"]).compile(TOY, after="]")


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        ([], UnsatisfiableError, "no names"),
        ("abc", InputError, "not one"),
        (3, InputError, "not int"),
        (["a", 3], InputError, "name 1 must be a string"),
        (["a", "\ud800"], InputError, "name 1 has a lone surrogate"),
        (["a", "b" * 65_001], InputError, "name 1 has 65001 bytes"),
    ],
)
def test_refuses(names, error, message):
    with pytest.raises(error, match=message):
        NameIndex.from_names(names)


# as a collection


@quick
@given(st.lists(st.text("abcé🙂", max_size=6), min_size=1, max_size=20), st.text("abé🙂", max_size=2))
def test_is_a_sorted_collection(names, prefix):
    index = NameIndex.from_names(names)
    assert list(index) == sorted(set(names), key=str.encode)
    assert len(index) == len(set(names))
    found = index.starting_with(prefix)
    assert list(found) == [name for name in index if name.startswith(prefix)]
    assert len(found) == len(list(found))
    assert (prefix in index) == (prefix in names)


def test_is_a_value():
    index = NameIndex.from_names(["b", "a"])
    assert index == NameIndex.from_names(["a", "b", "a"])
    assert hash(index) == hash(NameIndex.from_names(["a", "b"]))
    assert index != NameIndex.from_names(["ab"])
    assert index != "a"
    assert pickle.loads(pickle.dumps(index)) == index
    assert 3 not in index
    assert "\ud800" not in index
    with pytest.raises(IndexError):
        index[2]


# files


def test_reads_lines(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffé b\r\na\r\na".encode())
    assert list(NameIndex.from_file(path)) == ["a", "é b"]
    (tmp_path / "packed").write_bytes(gzip.compress(b"x\ny\n"))
    stages = []
    found = NameIndex.from_file(tmp_path / "packed", progress=lambda *stage: stages.append(stage[0]))
    assert (list(found), set(stages)) == (["x", "y"], {"read", "sort"})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\n\nb\n", "line 2 is empty"),
        (b"a\n\xff\n", "line 2: byte 0xff is not UTF-8"),
        (gzip.compress(b"a\n" * 100)[:-9], "cannot be unpacked"),
        (b"\x1f\x8bnothing", "cannot be unpacked"),
        (b"a\n" + b"b" * 65_001, "line 2 has 65001 bytes"),
    ],
)
def test_says_which_line(tmp_path, content, message):
    (tmp_path / "names").write_bytes(content)
    with pytest.raises(InputError, match=message):
        NameIndex.from_file(tmp_path / "names")


def test_says_what_is_missing_or_too_much(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        NameIndex.from_file(tmp_path / "names")
    (tmp_path / "bomb").write_bytes(gzip.compress(b"a\n" * 10_000_000))
    with pytest.raises(ComplexityError, match="more than 1000 bytes"):
        read_lines(tmp_path / "bomb", limit=1000)
    (tmp_path / "none").write_bytes(b"")
    with pytest.raises(UnsatisfiableError):
        NameIndex.from_file(tmp_path / "none")


def test_saved_and_opened(tmp_path):
    index = NameIndex.from_names(made_up(500), normalise="pep503")
    index.save(tmp_path / "names.index")
    verify(tmp_path / "names.index")
    opened = NameIndex.open(tmp_path / "names.index")
    assert opened == index
    assert (list(opened), opened.normalise) == (list(index), "pep503")
    assert opened.fingerprint == index.fingerprint
    again = pickle.loads(pickle.dumps(opened))
    assert again == index
    assert len(pickle.dumps(opened)) < 500
    assert ends_at(opened.compile(BYTES), index[7])


def test_what_a_pickle_refers_to_must_be_there(tmp_path):
    path = tmp_path / "names.index"
    NameIndex.from_names(["a"]).save(path)
    kept = pickle.dumps(NameIndex.open(path))
    NameIndex.from_names(["b"]).save(path)
    with pytest.raises(InputError, match="other names"):
        pickle.loads(kept)
    path.unlink()
    with pytest.raises(InputError, match="not there any more"):
        pickle.loads(kept)


def test_kinds_of_files_are_told_apart(tmp_path):
    NameIndex.from_names(["a"]).save(tmp_path / "names")
    save_index(TokenIndex.from_items([[1, 2]], eos=0), tmp_path / "tokens")
    with pytest.raises(FileError, match="holds names"):
        open_index(tmp_path / "names")
    with pytest.raises(FileError, match="not names"):
        NameIndex.open(tmp_path / "tokens")


def test_damage_is_found(tmp_path):
    path = tmp_path / "names"
    NameIndex.from_names(["a", "bc"]).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(FileError, match="cut off"):
        NameIndex.open(path)
    path.write_bytes(whole.replace(b"abc", b"abd"))
    NameIndex.open(path)
    with pytest.raises(FileError, match="not as it was written"):
        verify(path)


# normal forms


@quick
@given(st.lists(st.text("aB.-_é", max_size=6), min_size=1, max_size=8))
def test_pep503(names):
    flat, bounds = normalised(lines_of(names), "pep503")
    found = [flat[a:b].tobytes().decode() for a, b in pairwise(bounds)]
    assert found == [re.sub(r"[-_.]+", "-", name).lower() for name in names]


def test_knows_its_normal_forms():
    with pytest.raises(InputError, match="pep503"):
        normalised(Lines(np.zeros(1, np.uint8), np.array([0, 1])), "npm")
