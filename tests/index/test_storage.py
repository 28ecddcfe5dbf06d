"""Index files: what is opened is what was saved; damage is found; large builds equal small ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.external import build_file
from ctrlgen.index.layout import ARRAYS
from ctrlgen.index.storage import FileError, open_index, read_header, save_index, verify
from ctrlgen.vocabulary import Vocabulary

from .catalogues import ENDS, WIDTH, catalogues, fixed_catalogues, index_of, state_after, tokens_of, unhurried


def same(one, other):
    assert (one.ends, one.width) == (other.ends, other.width)
    for name in (*ARRAYS, "length", "count", "longest"):
        assert np.array_equal(getattr(one.layout, name), getattr(other.layout, name)), name


@pytest.fixture
def saved(tmp_path):
    index = index_of([[1, 2], [1, 3], [1], [4]], weights=[1, 2, 3, 4], ids=[9, 8, 7, 6])
    save_index(index, tmp_path / "items.index")
    return index, tmp_path / "items.index"


def test_opens_what_was_saved(saved):
    index, path = saved
    opened = open_index(path)
    verify(path)
    same(index, opened)
    assert tokens_of(opened.masks(state_after(opened, [1]))[0]) == {2, 3, *ENDS}
    assert opened.filter([7]).passing == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["items.index"]


def test_every_flipped_byte_of_the_content_is_found(saved):
    _, path = saved
    content, header = path.read_bytes(), read_header(path)
    places = [entry["place"] for entry in header.arrays.values() if entry["size"]]
    for place in (0, 9, 13, 25, 60, 300, *places):
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            verify(path)
    path.write_bytes(content)
    verify(path)


@pytest.mark.parametrize("kept", [0, 10, 100, -1])
def test_a_file_that_was_cut_off_does_not_open(saved, kept):
    _, path = saved
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(FileError):
        open_index(path)


def test_another_version_is_refused_by_name(saved):
    _, path = saved
    content = bytearray(path.read_bytes())
    content[8] = 99
    path.write_bytes(content)
    with pytest.raises(FileError, match="version 99, but this ctrlgen reads version 1"):
        open_index(path)


def test_the_vocabulary_must_be_the_same(tmp_path):
    vocabulary = Vocabulary([b"a", b"b", None], eos=2)
    save_index(index_of([[0, 1]], vocabulary=vocabulary, eos=None, width=None), tmp_path / "x")
    assert open_index(tmp_path / "x", vocabulary).vocabulary is vocabulary
    with pytest.raises(InputError, match="another vocabulary"):
        open_index(tmp_path / "x", Vocabulary([b"a", b"c", None], eos=2))
    with pytest.raises(InputError, match="width=3"):
        open_index(tmp_path / "x", vocabulary.with_width(8))


def test_a_filtered_index_is_not_saved(saved):
    index, path = saved
    with pytest.raises(InputError, match="filtered"):
        save_index(index.where([9]), path)


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    index, path = saved
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("os.fsync", full)
        save_index(index, path)
    assert path.read_bytes() == before
    assert len(list(path.parent.iterdir())) == 1


@unhurried
@given(st.lists(catalogues(most=8), min_size=1, max_size=4), st.booleans())
def test_a_build_in_chunks_equals_one_in_memory(tmp_path_factory, chunks, named):
    path = tmp_path_factory.mktemp("build") / "items.index"
    items = [item for chunk in chunks for item in chunk]
    ids = [7 * i % 101 for i in range(len(items))]
    bounds = np.cumsum([0] + [len(chunk) for chunk in chunks])
    parts = [(chunk, ids[a:b]) if named else chunk for chunk, a, b in zip(chunks, bounds, bounds[1:], strict=False)]
    build_file(path, parts, eos=ENDS, width=WIDTH)
    verify(path)
    same(open_index(path), index_of(items, ids=ids if named else None))
    assert len(list(path.parent.iterdir())) == 1


@unhurried
@given(fixed_catalogues())
def test_a_build_of_one_length(tmp_path_factory, items):
    path = tmp_path_factory.mktemp("build") / "items.index"
    stages = []
    build_file(path, [np.array(items), []], width=WIDTH, progress=lambda *step: stages.append(step))
    same(open_index(path), index_of(items, eos=None))
    assert {stage for stage, *_ in stages} == {"sort", "merge", "edges", "write"}
    assert ("merge", len(items), len(items)) in stages


def test_an_interrupted_build_leaves_nothing_and_can_be_started_again(tmp_path):
    path = tmp_path / "items.index"

    def broken():
        yield [[1, 2]]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_file(path, broken())
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "items.index.partial").mkdir()
    (tmp_path / "items.index.partial" / "tokens").write_bytes(b"left by a build that was killed")
    build_file(path, [[[1, 2]]])
    assert [entry.name for entry in tmp_path.iterdir()] == ["items.index"]


@pytest.mark.parametrize(
    ("chunks", "more", "error", "message"),
    [
        ([], {}, UnsatisfiableError, "empty"),
        ([[]], {}, UnsatisfiableError, "empty"),
        ([[[1]], ([[2]], [5])], {}, InputError, "chunk 1: either all chunks"),
        ([[[1]], [[1, 2]]], {}, InputError, "pass eos="),
        ([[[1]], [[9]]], {"width": 9}, InputError, "chunk 1: item 0 holds the token 9"),
        ([[[8]]], {"eos": 8}, InputError, "end id"),
        ([[[1]]], {"eos": 8, "width": 4}, InputError, "below the width 4"),
    ],
)
def test_refuses(tmp_path, chunks, more, error, message):
    with pytest.raises(error, match=message):
        build_file(tmp_path / "x", chunks, **more)
    assert list(tmp_path.iterdir()) == []
