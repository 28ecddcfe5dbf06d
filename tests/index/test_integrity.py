"""Files that were never an index: right checksums, wrong content. They are refused; nothing follows them."""

import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.index.name_index import NameIndex
from ctrlgen.index.storage import _START, MAGIC, FileError, open_index, open_names, read_header, save_index, verify

from .catalogues import catalogues, fixed_catalogues, index_of, unhurried

ITEMS = [[1, 2], [1, 3], [1], [4, 4, 4], [4, 4, 5]]


def content_of(path):
    """The header as a dict, and the whole file."""
    whole = path.read_bytes()
    size = int.from_bytes(whole[12:20], "little")
    return json.loads(whole[_START : _START + size]), bytearray(whole)


def written(path, header, whole):
    """A file with right checksums."""
    for entry in header["arrays"].values() if isinstance(header, dict) and isinstance(header["arrays"], dict) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("size"), int) or entry["size"] < 0:
            continue
        size = np.dtype(entry["dtype"]).itemsize * entry["size"]
        entry["sha256"] = hashlib.sha256(whole[entry["place"] : entry["place"] + size]).hexdigest()
    text = json.dumps(header).encode()
    start = MAGIC + whole[8:12] + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest()
    whole[: len(start) + len(text)] = start + text
    path.write_bytes(whole)


@unhurried
@given(items=catalogues() | fixed_catalogues())
def test_every_index_passes(tmp_path_factory, items):
    path = tmp_path_factory.mktemp("file") / "items.index"
    save_index(index_of(items), path)
    verify(path)


@unhurried
@given(names=st.lists(st.text(max_size=5), min_size=1, max_size=20))
def test_every_index_of_names_passes(tmp_path_factory, names):
    path = tmp_path_factory.mktemp("file") / "names.index"
    NameIndex.from_names(names).save(path)
    verify(path)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_changed_number_is_found_or_harmless(tmp_path_factory, data):
    """What passes is an index whose masks and moves end, whatever was written into its arrays."""
    path = tmp_path_factory.mktemp("file") / "items.index"
    index = index_of(ITEMS, weights=[1, 2, 3, 4, 5], ids=[9, 8, 7, 6, 5])
    save_index(index, path)
    header, whole = content_of(path)
    name = data.draw(st.sampled_from(["tokens", "offsets", "symbol", "lo", "child", "branch", "shortest"]))
    entry = header["arrays"][name]
    dtype = np.dtype(entry["dtype"])
    array = np.frombuffer(whole, dtype, entry["size"], entry["place"])
    at = data.draw(st.integers(0, len(array) - 1))
    array[at] = data.draw(st.integers(0, int(np.iinfo(dtype).max)) | st.integers(0, 8))
    written(path, header, whole)
    try:
        verify(path)
    except FileError:
        return
    opened = open_index(path)
    states = opened.start_states()
    for _ in range(4):
        masks = opened.masks(states)
        tokens = np.flatnonzero(np.unpackbits(masks[0].view(np.uint8), bitorder="little"))
        states = opened.advance_states(states, tokens[:1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(count=0), "its numbers are none"),
        (lambda header: header.update(count=-3), "its numbers are none"),
        (lambda header: header.update(count=True), "its numbers are none"),
        (lambda header: header.update(length="2"), "its numbers are none"),
        (lambda header: header.update(ends=[99]), "not below its width"),
        (lambda header: header.update(ends=7), "not below its width"),
        (lambda header: header.update(fingerprint=3), "is no text"),
        (lambda header: header.update(normalise="npm"), "does not know"),
        (lambda header: header.update(kind="names"), "not bytes"),
        (lambda header: header.update(kind=[1]), "does not know"),
        (lambda header: header.update(more=1), "lacks entries, or has others"),
        (lambda header: header.pop("width"), "lacks entries"),
        (lambda header: header.update(arrays=[]), "does not hold the arrays"),
        (lambda header: header["arrays"].pop("lo"), "does not hold the arrays"),
        (lambda header: header["arrays"].update(lo=3), "'lo' is described in another way"),
        (lambda header: header["arrays"]["lo"].update(dtype="|O"), "'lo' is described in another way"),
        (lambda header: header["arrays"]["lo"].update(size=-1), "'lo' is described in another way"),
        (lambda header: header["arrays"]["lo"].update(place=-64), "'lo' is described in another way"),
        (lambda header: header["arrays"]["lo"].update(place=16449), "'lo' is described in another way"),
        (lambda header: header["arrays"]["symbol"].update(size=2), "'symbol' has another size"),
        (lambda header: header["arrays"]["weights"].update(size=2), "'weights' has another size"),
        (lambda header: header.update(length=3), "has another size"),
        (lambda header: header["arrays"]["lo"].update(size=10**15), "another size"),
    ],
)
def test_headers_that_no_index_has(tmp_path, change, message):
    path = tmp_path / "items.index"
    save_index(index_of(ITEMS), path)
    header, whole = content_of(path)
    change(header)
    text = json.dumps(header).encode()
    start = MAGIC + whole[8:12] + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest()
    whole[: len(start) + len(text)] = start + text
    path.write_bytes(whole)
    with pytest.raises(FileError, match=message):
        read_header(path)


@pytest.mark.parametrize("text", [b"", b"[" * 5000, b"[1]", b"null", b"\xff", b"{}"])
def test_headers_that_are_none(tmp_path, text):
    path = tmp_path / "items.index"
    start = MAGIC + (1).to_bytes(4, "little") + len(text).to_bytes(8, "little") + hashlib.sha256(text).digest()
    path.write_bytes(start + text)
    with pytest.raises(FileError):
        open_index(path)
    with pytest.raises(FileError):
        open_names(path)


def test_names_must_be_texts(tmp_path):
    path = tmp_path / "names.index"
    NameIndex.from_names(["a", "é"]).save(path)
    header, whole = content_of(path)
    place = header["arrays"]["tokens"]["place"]
    whole[place + 2] = 0x41
    written(path, header, whole)
    with pytest.raises(FileError, match="not UTF-8"):
        verify(path)


def test_an_item_that_begins_another_needs_an_end(tmp_path):
    path = tmp_path / "items.index"
    save_index(index_of(ITEMS), path)
    header, whole = content_of(path)
    header["ends"] = []
    written(path, header, whole)
    with pytest.raises(FileError, match="no end id"):
        verify(path)
