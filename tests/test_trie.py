"""The trie against one made of dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlgen.trie import DENSE_FROM, Trie, build

# few letters, so that tokens share prefixes; lengths around the eight bytes that are sorted at a time
LETTERS = st.sampled_from([0, 1, 97, 255])
SHORT = st.lists(LETTERS, max_size=4).map(bytes)
LONG = st.tuples(st.sampled_from([b"", b"\0" * 6, b"a" * 14, b"a\0" * 8]), SHORT).map(b"".join)
BUSHY = st.binary(min_size=1, max_size=2)
TOKENS = st.lists(st.one_of(st.none(), SHORT, LONG, BUSHY), max_size=80)


class Oracle:
    """A node: its own tokens and its children."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.children: dict[int, Oracle] = {}

    def add(self, token: bytes, i: int) -> None:
        if token:
            self.children.setdefault(token[0], Oracle()).add(token[1:], i)
        else:
            self.ids.append(i)

    def below(self) -> list[int]:
        return self.ids + [i for _, child in sorted(self.children.items()) for i in child.below()]


def oracle_of(tokens: list[bytes | None]) -> Oracle:
    root = Oracle()
    for i, token in enumerate(tokens):
        if token:
            root.add(token, i)
    return root


def check_node(trie: Trie, v: int, oracle: Oracle, byte: int, depth: int) -> int:
    """Check the subtree of v; returns the index after it."""
    found_byte, end, low, high, dense, found_depth = trie.nodes[v].tolist()
    assert (found_byte, found_depth) == (byte, depth)
    assert trie.tokens[low:high].tolist() == oracle.ids
    assert trie.tokens[low : trie.nodes[end - 1, 3]].tolist() == oracle.below()
    assert (dense >= 0) == (v == 0 or len(oracle.children) >= DENSE_FROM)
    expected = np.full(256, -1)
    at = v + 1
    for child_byte, child in sorted(oracle.children.items()):
        expected[child_byte] = at
        at = check_node(trie, at, child, child_byte, depth + 1)
    if dense >= 0:
        assert trie.children[dense].tolist() == expected.tolist()
    assert at == end
    return at


def check(tokens: list[bytes | None]) -> None:
    trie = build(tokens)
    assert trie.nodes.dtype == trie.tokens.dtype == trie.children.dtype == np.int32
    assert check_node(trie, 0, oracle_of(tokens), 0, 0) == len(trie.nodes)
    assert trie.longest == max((len(token) for token in tokens if token), default=0)
    assert len(trie.children) == (trie.nodes[:, 4] >= 0).sum()


@given(TOKENS)
def test_build_agrees_with_dictionaries(tokens: list[bytes | None]) -> None:
    check(tokens)


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [None, b""],
        [b"a"],
        [b"a", b"a", b"ab", b"a"],
        [b"a\0", b"a", b"a\0\0", b"\0", b"\0\0"],
        [b"12345678", b"12345678\0", b"123456789", b"1234567"],
        [bytes([i]) for i in range(256)],
        [bytes([97, i]) for i in range(8)] + [bytes([98, i]) for i in range(7)],
        [b"x" * n for n in range(300)],
    ],
)
def test_build_at_the_edges(tokens: list[bytes | None]) -> None:
    check(tokens)


def test_arrays_are_read_only_and_go_there_and_back() -> None:
    trie = build([b"a", b"ab", None, b"b"])
    again = Trie.from_arrays({name: array.copy() for name, array in trie.arrays().items()})
    assert again.longest == trie.longest
    for name, array in trie.arrays().items():
        assert not array.flags.writeable
        assert (getattr(again, name) == array).all()
    with pytest.raises(ValueError, match="read-only"):
        trie.nodes[0, 0] = 1
