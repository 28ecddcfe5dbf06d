"""The cache on disk: whatever happens to its files, the worst that follows is a miss."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from ctrlgen import cache
from ctrlgen.cache import cache_folder, load_arrays, store_arrays

ARRAYS = {"one": np.arange(6, dtype=np.int32).reshape(2, 3), "empty": np.zeros((0, 4), np.uint8), "half": np.array(0.5)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CTRLGEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path / "cache" / "arrays"


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_what_is_stored_comes_back() -> None:
    assert load_arrays("key") is None
    store_arrays("key", ARRAYS)
    loaded = load_arrays("key")
    assert loaded is not None and loaded.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert loaded[name].dtype == array.dtype and loaded[name].shape == array.shape
        assert (loaded[name] == array).all()
    assert load_arrays("another key") is None


def test_storing_again_replaces(folder: Path) -> None:
    store_arrays("key", ARRAYS)
    store_arrays("key", {"new": np.arange(3)})
    loaded = load_arrays("key")
    assert loaded is not None and list(loaded) == ["new"]
    only_file(folder)


def test_any_damage_is_a_miss(folder: Path) -> None:
    store_arrays("key", ARRAYS)
    path = only_file(folder)
    intact = path.read_bytes()
    for position in range(0, len(intact), 7):
        damaged = bytearray(intact)
        damaged[position] ^= 1
        path.write_bytes(damaged)
        assert load_arrays("key") is None, f"byte {position}"
    for length in (0, 1, 43, 44, 100, len(intact) - 1):
        path.write_bytes(intact[:length])
        assert load_arrays("key") is None, f"cut to {length} bytes"
    path.write_bytes(intact)
    assert load_arrays("key") is not None
    path.unlink()
    path.mkdir()
    assert load_arrays("key") is None


def test_a_file_under_the_name_of_another_key_is_a_miss(folder: Path) -> None:
    store_arrays("key", ARRAYS)
    mine = only_file(folder)
    store_arrays("other", ARRAYS)
    (theirs,) = set(folder.iterdir()) - {mine}
    theirs.write_bytes(mine.read_bytes())
    assert load_arrays("other") is None


def test_objects_are_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        store_arrays("key", {"one": np.array([None])})
    assert not folder.exists() or not list(folder.iterdir())


def test_the_oldest_go_first() -> None:
    array = {"data": np.zeros(1000, np.uint8)}
    for i in range(4):
        store_arrays(f"{i}", array)
        time.sleep(0.01)
    assert load_arrays("0") is not None  # used, so now the youngest
    time.sleep(0.01)
    store_arrays("4", array, limit=4800)  # an entry takes 1.4 kB
    assert [i for i in range(5) if load_arrays(f"{i}") is not None] == [0, 3, 4]


def test_an_entry_above_the_limit_stays_till_the_next() -> None:
    store_arrays("small", {"data": np.zeros(10, np.uint8)})
    store_arrays("large", {"data": np.zeros(10_000, np.uint8)}, limit=5000)
    assert load_arrays("large") is not None
    assert load_arrays("small") is None


def test_abandoned_temporary_files_go(folder: Path) -> None:
    folder.mkdir(parents=True)
    old, new = folder / "old.tmp", folder / "new.tmp"
    for path in (old, new):
        path.touch()
    os.utime(old, (0, 0))
    store_arrays("key", ARRAYS)
    assert not old.exists() and new.exists()


def test_a_folder_that_cannot_be_written_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("CTRLGEN_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot write the cache .*CTRLGEN_CACHE"):
        store_arrays("key", ARRAYS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store_arrays("key", ARRAYS)
        assert load_arrays("key") is None


def test_a_failed_write_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.warns(UserWarning, match="No space left"):
        store_arrays("key", ARRAYS)
    assert not list(folder.iterdir())


def test_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("CTRLGEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "ctrlgen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "ctrlgen"
