"""The tokens that a constraint leaves no choice about, spelled as the tokenizer spells them.

Which bytes are forced is read off masks: while all allowed tokens begin with the same byte and the text may not end,
that byte comes next. The bytes are cut into tokens by the tokenizer, with what stands before them in view.

Where a token that reaches beyond the forced bytes could begin among them, the model has a say: it may want ``orderId``
as one token although only ``order`` is certain. If it wants one that begins after n bytes, the tokens before are those
of the first n bytes alone. So what is kept is what the spellings of all forced bytes and of each such n have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.closing import closing_of
from ctrlgen.constraint import DEAD
from ctrlgen.engine.levels import set_bits
from ctrlgen.phases import in_time
from ctrlgen.trie import BYTE, DENSE, END, TOKEN_HI, TOKEN_LO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

CHUNK = 512
"""Bytes followed at a time."""

_TAIL = 12  # tokens before the forced bytes that the tokenizer gets to see


class Forced(NamedTuple):
    """Tokens without alternatives."""

    ids: tuple[int, ...]
    states: tuple[int, ...]
    """The state after each."""


class _Allowing(NamedTuple):
    """What a constraint allows as its budget runs out."""

    constraint: Constraint
    most: int
    budget: int | None

    def row(self, state: int, count: int) -> NDArray[np.uint32]:
        """uint32[words]: the tokens allowed after ``count`` more."""
        if self.budget is None:
            return self.constraint.mask(state)
        return closing_of(self.constraint).row(self.constraint, state, self.most - count)

    def allows(self, state: int, count: int, token: int) -> bool:
        """Whether a token is one of them."""
        return bool(self.row(state, count)[token >> 5] >> (token & 31) & 1)

    def stays(self, state: int, count: int) -> bool:
        """Whether the budget does not end a free text here."""
        return in_time(self.constraint, state, self.most - count, self.budget) == state


class Forcing:
    """Finds forced tokens; one for a generation, since it remembers states of constraints.

    Args:
        vocabulary: of the constraints.
        tokenizer: a tokenizer of transformers, called as ``tokenizer(text, add_special_tokens=False)``.
    """

    def __init__(self, vocabulary: Vocabulary, tokenizer: Any) -> None:
        self._vocabulary, self._tokenizer = vocabulary, tokenizer
        limit = min(vocabulary.width, len(vocabulary.tokens))
        self._texts = vocabulary.tokens[:limit]
        self._controls = frozenset(vocabulary.special.values()) | set(vocabulary.eos)
        self._byte_tokens: dict[int, int] = {}
        for token in range(limit - 1, -1, -1):
            if (text := self._texts[token]) is not None and len(text) == 1:
                self._byte_tokens[text[0]] = token
        self._others: dict[int, NDArray[np.uint32]] = {}
        self._bytes_at: dict[tuple[int, int], int | None] = {}
        self._spelled: dict[tuple[tuple[int, ...], bytes], tuple[int, ...]] = {}

    def tokens(
        self, constraint: Constraint, state: int, before: Sequence[int], most: int, budget: int | None = None
    ) -> Forced:
        """What must come next, and may be appended without asking the model.

        Args:
            constraint: over the vocabulary.
            state: where the text is.
            before: ids of prompt and text so far.
            most: number of tokens at most.
            budget: ``max_new_tokens`` where the text is to end in time, ``most`` tokens of which remain.

        Returns:
            As many tokens as are certain, none in most states; the last may be an end token.
        """
        ids: list[int] = []
        states: list[int] = []
        allow = _Allowing(constraint, most, budget)
        while len(ids) < most and allow.stays(state, len(ids)):
            if (token := _only(allow.row(state, len(ids)))) is not None:
                ids.append(token)
                states.append(state := constraint.advance(state, token))
                if token in constraint.vocabulary.eos:
                    break
                continue
            text, along = self._forced_bytes(constraint, state)
            spelled = self._common(constraint, [*before[-_TAIL:], *ids], text, along) if text else ()
            kept = self._kept(allow, len(ids), text, along, spelled)
            ids += kept
            read = 0
            for token in kept:
                read += len(self._texts[token] or b"")
                states.append(along[read])
            if not kept or read < len(text) < CHUNK:
                break
            state = states[-1]
        return Forced(tuple(ids[:most]), tuple(states[:most]))

    def text(self, ids: Sequence[int]) -> str:
        """What the ids say."""
        return self._vocabulary.decode(ids).decode(errors="replace")

    def _forced_bytes(self, constraint: Constraint, state: int) -> tuple[bytes, list[int]]:
        """The bytes that must come next, and the states before, between and after them."""
        text, along = bytearray(), [state]
        while len(text) < CHUNK:
            byte = self._next_byte(constraint, state)
            token = None if byte is None else self._byte_tokens.get(byte)
            if byte is None or token is None or (state := constraint.advance(state, token)) == DEAD:
                break
            text.append(byte)
            along.append(state)
        return bytes(text), along

    def _next_byte(self, constraint: Constraint, state: int) -> int | None:
        """The byte that all allowed tokens begin with; None if they differ or the text may end."""
        key = id(constraint), state
        if key not in self._bytes_at:
            row = constraint.mask(state)
            token = _lowest(row)
            text = self._texts[token] if token < len(self._texts) else None
            same = text is not None and not (row & self._begins_otherwise(text[0])).any()
            self._bytes_at[key] = text[0] if same and text is not None else None
        return self._bytes_at[key]

    def _begins_otherwise(self, byte: int) -> NDArray[np.uint32]:
        """uint32[words], a mask of all ids but the tokens that begin with ``byte``."""
        if byte not in self._others:
            trie = self._vocabulary.trie
            node = _child(trie.nodes, trie.children, 0, byte)
            row = np.full(self._vocabulary.words, 0xFFFFFFFF, np.uint32)
            tokens = trie.tokens[trie.nodes[node, TOKEN_LO] : trie.nodes[trie.nodes[node, END] - 1, TOKEN_HI]]
            np.bitwise_and.at(row, tokens >> 5, ~(np.uint32(1) << (tokens & 31).astype(np.uint32)))
            self._others[byte] = row
        return self._others[byte]

    def _spelling(self, before: Sequence[int], text: bytes) -> tuple[int, ...]:
        """``text`` as the tokenizer cuts it behind ``before``; whole characters only."""
        tail = tuple(before[-_TAIL:])
        if (tail, text) not in self._spelled:
            self._spelled[tail, text] = self._cut(tail, text)
        return self._spelled[tail, text]

    def _cut(self, tail: tuple[int, ...], text: bytes) -> tuple[int, ...]:
        text = _whole(text)
        controls = [i for i, token in enumerate(tail) if token in self._controls]
        seen = _from_start(self._vocabulary.decode(tail[controls[-1] + 1 :] if controls else tail))
        for context in (seen, b""):
            try:
                found = self._tokenizer((context + text).decode(), add_special_tokens=False)["input_ids"]
            except UnicodeDecodeError:  # what stands before ends within a character
                continue
            start, left = len(found), len(text)
            while start and left > 0:
                start -= 1
                left -= len(self._text(found[start]) or b" " * (left + 1))
            if left == 0 and self._vocabulary.decode(found[start:]) == text:
                return tuple(found[start:])
        return ()

    def _text(self, token: int) -> bytes | None:
        return self._texts[token] if token < len(self._texts) else None

    def _common(
        self, constraint: Constraint, before: Sequence[int], text: bytes, along: Sequence[int]
    ) -> tuple[int, ...]:
        """The tokens that begin every spelling of a text that begins with the forced bytes."""
        common = self._spelling(before, text)
        for start in range(max(0, len(text) - self._vocabulary.trie.longest), len(text)):
            if not common:
                break
            if not self._is_certain(constraint.mask(along[start]), text[start:]):
                common = _beginning(common, self._spelling(before, text[:start]))
        return common

    def _kept(self, allow: _Allowing, count: int, text: bytes, along: Sequence[int], ids: Sequence[int]) -> list[int]:
        """The first of the tokens, up to where something depends on how they are cut; ``count`` were kept before."""
        kept: list[int] = []
        read = 0
        for token in ids[: allow.most - count]:
            state, done = along[read], count + len(kept)
            if not allow.stays(state, done) or not allow.allows(state, done, token):
                break
            if not self._is_about_bytes(allow.constraint, along[read:], text[read:]):
                break
            kept.append(token)
            read += len(self._texts[token] or b"")
        return kept

    def _is_about_bytes(self, constraint: Constraint, along: Sequence[int], rest: bytes) -> bool:
        """Whether all allowed tokens lead where their bytes lead; constraints of items tell spellings apart."""
        tokens = set_bits(constraint.mask(along[0])).tolist() if along else []
        return all(
            constraint.advance(along[0], token) == along[len(text)]
            for token in tokens
            if (text := self._text(token)) is not None and rest.startswith(text)
        )

    def _is_certain(self, row: NDArray[np.uint32], rest: bytes) -> bool:
        """Whether every allowed token begins ``rest`` and none reaches beyond it."""
        trie = self._vocabulary.trie
        node, within = 0, 0
        for byte in rest[: trie.longest]:
            node = _child(trie.nodes, trie.children, node, byte)
            if node < 0:
                break
            within += _count(row, trie.tokens[trie.nodes[node, TOKEN_LO] : trie.nodes[node, TOKEN_HI]])
        return within == int(np.bitwise_count(row).sum())


def _beginning(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """What two spellings begin with."""
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def _child(nodes: NDArray[np.int32], children: NDArray[np.int32], node: int, byte: int) -> int:
    """The child of a node of the trie, or -1."""
    if (dense := int(nodes[node, DENSE])) >= 0:
        return int(children[dense, byte])
    child, end = node + 1, int(nodes[node, END])
    while child < end:
        if nodes[child, BYTE] == byte:
            return child
        child = int(nodes[child, END])
    return -1


def _count(row: NDArray[np.uint32], tokens: NDArray[np.int32]) -> int:
    """How many of the tokens a mask allows."""
    return int((row[tokens >> 5] >> (tokens & 31).astype(np.uint32) & np.uint32(1)).sum())


def _lowest(row: NDArray[np.uint32]) -> int:
    """The lowest id that a mask allows."""
    word = int((row != 0).argmax())
    bits = int(row[word])
    return 32 * word + (bits & -bits).bit_length() - 1


def _only(row: NDArray[np.uint32]) -> int | None:
    """The id that a mask allows, if it is just one."""
    words = np.flatnonzero(row)
    if len(words) != 1 or int(row[words[0]]).bit_count() != 1:
        return None
    return _lowest(row)


def _whole(text: bytes) -> bytes:
    """Without the beginning of a character at its end."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text[: error.start]
    return text


def _from_start(text: bytes) -> bytes:
    """Without the end of a character at its beginning."""
    start = 0
    while start < len(text) and text[start] & 0xC0 == 0x80:
        start += 1
    return text[start:]
