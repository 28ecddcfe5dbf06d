"""What each token id says, in bytes: the one view of a tokenizer that the rest of ctrlgen has.

Everything is decided on bytes, because tokens cut characters anywhere. An id is either text (it has bytes), or
control (an end token, a role marker: it has a name in ``special`` and no bytes), or nothing at all.
How a Hugging Face tokenizer is turned into this stands in ``ctrlgen.tokenizer``.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.cache import load_arrays, store_arrays
from ctrlgen.errors import VocabularyError
from ctrlgen.trie import VERSION as TRIE_VERSION
from ctrlgen.trie import Trie, build

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORTH_STORING = 4096


class Vocabulary:
    """Token ids and their bytes; immutable, picklable, equal when fingerprint and width are.

    Args:
        tokens: bytes of each id; None (or no bytes) for an id that is not text.
        eos: the ids that end a text; at least one of them must lie below ``width``.
        special: control tokens by name. An id in ``eos`` or ``special`` is never text, whatever ``tokens`` says;
            an end token with bytes gets them as its name unless the name is taken.
        width: number of ids a mask covers, ``len(tokens)`` by default. Logits are often wider than the tokenizer
            (padded embeddings) and now and then narrower; ids from ``width`` on are never allowed.

    Raises:
        VocabularyError: an argument that makes no sense; the message says which.

    >>> toy = Vocabulary([b"a", b"b", b"ab", None], eos=[3], width=8)
    >>> toy.encode_greedy(b"abb"), toy.decode([2, 1])
    ([2, 1], b'abb')
    """

    tokens: tuple[bytes | None, ...]
    """Text bytes of each id; None for control tokens, holes and ids without bytes: never allowed as text."""
    eos: tuple[int, ...]
    """The end ids below ``width``, ascending."""
    special: Mapping[str, int]
    """Control tokens by name, e.g. ``"<|im_end|>"``; read-only."""
    width: int
    """Number of ids a mask covers; may be more or less than ``len(tokens)``."""
    fingerprint: str
    """sha256 (hex) of tokens, eos and special; the same for every width."""
    words: int
    """Number of uint32 words in a mask: ``ceil(width / 32)``."""

    _hash: int
    _ends: tuple[int, ...]  # all end ids, those from width on too
    _shared: _Shared

    end_row: NDArray[np.uint32]
    """uint32[words], read-only: the mask of the end ids alone."""

    __slots__ = (
        "__weakref__", "_ends", "_hash", "_shared",
        "end_row", "eos", "fingerprint", "special", "tokens", "width", "words",
    )  # fmt: skip

    def __init__(
        self,
        tokens: Iterable[bytes | None],
        eos: int | Iterable[int],
        special: Mapping[str, int] | None = None,
        width: int | None = None,
    ) -> None:
        texts, names = _bytes_of(tokens), _names_of(special or {})
        ends = tuple(sorted({_end_id(end) for end in ([eos] if isinstance(eos, (int, np.integer)) else eos)}))
        _name_ends(texts, ends, names)
        for control in (*ends, *names.values()):
            if control < len(texts):
                texts[control] = None
        self._fill(tuple(texts), ends, names, len(texts) if width is None else width, None)

    def _fill(
        self,
        tokens: tuple[bytes | None, ...],
        ends: tuple[int, ...],
        special: Mapping[str, int],
        width: int,
        shared: _Shared | None,
    ) -> None:
        """Set every attribute, once, from parts that are already in their final form."""
        if not isinstance(width, (int, np.integer)) or width < 1:
            raise VocabularyError(f"width is {width!r}; expected the number of columns of the logits")
        reached = tuple(end for end in ends if end < width)
        if not ends:
            raise VocabularyError("no end token is known; pass eos= with the ids that end a text")
        if not reached:
            raise VocabularyError(f"no end token {list(ends)} lies below the width {width}: nothing could ever end")
        shared = shared or _Shared(_fingerprint(tokens, ends, special))
        values = (tokens, reached, MappingProxyType(dict(special)), int(width), shared.fingerprint, -(-width // 32))
        for name, value in zip(("tokens", "eos", "special", "width", "fingerprint", "words"), values, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "end_row", self.row(reached))
        self.end_row.flags.writeable = False
        object.__setattr__(self, "_hash", hash((shared.fingerprint, int(width))))
        object.__setattr__(self, "_ends", ends)
        object.__setattr__(self, "_shared", shared)

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        model: Any = None,
        eos: int | str | Iterable[int | str] | None = None,
        width: int | None = None,
    ) -> Vocabulary:
        """The vocabulary of a Hugging Face tokenizer, checked on a set of probe texts.

        Args:
            tokenizer: a fast tokenizer of transformers, a ``tokenizers.Tokenizer``, or the path of a
                tokenizer.json or of its folder.
            model: a model or its config; its end ids count too, and its vocab_size is the default width.
            eos: ids or texts of the end tokens. By default all that tokenizer, model.config and
                model.generation_config name, or for a path the JSON files beside it.
            width: size of the logits; see the class.

        Raises:
            VocabularyError: no end token is known, or the bytes of the ids do not add up to the text;
                the message shows an example.
        """
        from ctrlgen.tokenizer import read

        return cls(*read(tokenizer, model=model, eos=eos, width=width))

    def row(self, ids: Iterable[int]) -> NDArray[np.uint32]:
        """uint32[words], a new mask of these ids, which lie below ``width``."""
        row = np.zeros(self.words, np.uint32)
        for token in ids:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        return row

    def with_width(self, width: int) -> Vocabulary:
        """The same tokens for logits of another width; shares everything computed so far.

        Raises:
            VocabularyError: no end token lies below ``width``.
        """
        if width == self.width:
            return self
        other = object.__new__(Vocabulary)
        other._fill(self.tokens, self._ends, self.special, width, self._shared)
        return other

    @property
    def trie(self) -> Trie:
        """All text tokens with an id below ``width``, as a byte trie; built on first use, kept on disk."""
        limit = min(self.width, len(self.tokens))
        with self._shared.lock:
            if limit not in self._shared.tries:
                self._shared.tries[limit] = _trie(self.tokens[:limit], f"{self.fingerprint}/{limit}")
            return self._shared.tries[limit]

    @property
    def has_byte(self) -> NDArray[np.bool_]:
        """bool[256], read-only: whether a text token of just this one byte exists below ``width``.

        With all 256 any text can be written, however the other tokens are cut.
        """
        limit = min(self.width, len(self.tokens))
        with self._shared.lock:
            if limit not in self._shared.has_byte:
                self._shared.has_byte[limit] = _single_bytes(self.tokens[:limit])
            return self._shared.has_byte[limit]

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes of the ids in turn; ids that are not text add none.

        Raises:
            VocabularyError: an id is negative or not below ``width``.
        """
        ids = list(ids)
        for token in ids:
            if not 0 <= token < self.width:
                raise VocabularyError(f"token id {token} lies outside of 0..{self.width - 1}")
        return b"".join(self.tokens[token] or b"" for token in ids if token < len(self.tokens))

    def encode_greedy(self, text: bytes) -> list[int]:
        """Text tokens that spell ``text``: at each place the longest from which the rest can be spelled.

        This is a spelling, not the one the tokenizer would choose. Of ids with the same bytes the lowest is taken.

        Raises:
            VocabularyError: no sequence of tokens spells ``text``; shows where it gets stuck.
        """
        ids_of, longest = self._ids_of(), self.trie.longest
        path: list[int] = []
        starts, dead, furthest = [0], set[int](), 0
        while starts[-1] < len(text):
            start = starts[-1]
            for end in range(min(len(text), start + longest), start, -1):
                if end not in dead and text[start:end] in ids_of:
                    path.append(ids_of[text[start:end]])
                    starts.append(end)
                    break
            else:
                furthest = max(furthest, start)
                dead.add(starts.pop())
                if not starts:
                    raise VocabularyError(_stuck(text, furthest))
                path.pop()
        return path

    def _ids_of(self) -> dict[bytes, int]:
        """The lowest id below ``width`` of each byte string."""
        limit = min(self.width, len(self.tokens))
        with self._shared.lock:
            if limit not in self._shared.ids_of:
                backwards = zip(reversed(self.tokens[:limit]), range(limit - 1, -1, -1), strict=True)
                self._shared.ids_of[limit] = {token: i for token, i in backwards if token}
            return self._shared.ids_of[limit]

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return (
            f"Vocabulary({len(self.tokens)} tokens, eos={list(self.eos)}, {len(self.special)} special, "
            f"width={self.width}, fingerprint={self.fingerprint[:12]}...)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return (self.fingerprint, self.width) == (other.fingerprint, other.width)

    def __hash__(self) -> int:
        return self._hash

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Vocabulary is immutable; cannot set {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Vocabulary is immutable; cannot delete {name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.tokens, self._ends, dict(self.special), self.width, self.fingerprint)


class _Shared:
    """What vocabularies that differ in width only have in common; filled under the lock."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.lock = threading.Lock()
        # by number of ids considered
        self.tries: dict[int, Trie] = {}
        self.ids_of: dict[int, dict[bytes, int]] = {}
        self.has_byte: dict[int, NDArray[np.bool_]] = {}


def _unpickle(
    tokens: tuple[bytes | None, ...], ends: tuple[int, ...], special: dict[str, int], width: int, fingerprint: str
) -> Vocabulary:
    vocabulary = object.__new__(Vocabulary)
    vocabulary._fill(tokens, ends, special, width, _Shared(fingerprint))
    return vocabulary


def _bytes_of(tokens: Iterable[bytes | None]) -> list[bytes | None]:
    """A fresh list with no bytes written as None."""
    texts = [token or None for token in tokens]
    if not set(map(type, texts)) <= {bytes, type(None)}:
        i = next(i for i, token in enumerate(texts) if not isinstance(token, (bytes, type(None))))
        raise VocabularyError(f"token {i} is {texts[i]!r}; expected bytes or None (write text as text.encode())")
    return texts


def _names_of(special: Mapping[str, int]) -> dict[str, int]:
    for name, i in special.items():
        if not isinstance(name, str) or not isinstance(i, (int, np.integer)) or i < 0:
            raise VocabularyError(f"special maps {name!r} to {i!r}; expected a name and an id that is not negative")
    return {name: int(i) for name, i in special.items()}


def _end_id(end: object) -> int:
    if not isinstance(end, (int, np.integer)) or isinstance(end, bool) or end < 0:
        raise VocabularyError(f"{end!r} in eos is not a token id")
    return int(end)


def _name_ends(texts: Sequence[bytes | None], ends: tuple[int, ...], names: dict[str, int]) -> None:
    """Give end tokens that have bytes but no name their bytes as name."""
    named = set(names.values())
    for end in ends:
        text = texts[end] if end < len(texts) else None
        if text and end not in named:
            names.setdefault(text.decode(errors="backslashreplace"), end)


def _fingerprint(tokens: Sequence[bytes | None], ends: Sequence[int], special: Mapping[str, int]) -> str:
    """Each part is preceded by its size, so that no two vocabularies run into the same bytes."""
    digest = hashlib.sha256(b"ctrlgen vocabulary 1")
    texts = [token or b"" for token in tokens]
    lengths = np.fromiter(map(len, texts), "<i8", len(texts))
    names = sorted((name.encode(errors="surrogatepass"), i) for name, i in special.items())
    numbers = [len(tokens), len(ends), *ends, len(names), *(i for _, i in names), *(len(name) for name, _ in names)]
    digest.update(np.array(numbers, "<i8").tobytes())
    digest.update(lengths.tobytes())
    digest.update(b"".join(texts))
    digest.update(b"".join(name for name, _ in names))
    return digest.hexdigest()


def _trie(tokens: Sequence[bytes | None], key: str) -> Trie:
    """From disk, or built and stored there; small ones are sooner built than found."""
    if len(tokens) < _WORTH_STORING:
        return build(tokens)
    key = f"trie {TRIE_VERSION} {key}"
    if (arrays := load_arrays(key)) is not None:
        return Trie.from_arrays(arrays)
    trie = build(tokens)
    store_arrays(key, trie.arrays())
    return trie


def _single_bytes(tokens: Sequence[bytes | None]) -> NDArray[np.bool_]:
    present = np.zeros(256, bool)
    present[[token[0] for token in tokens if token and len(token) == 1]] = True
    present.flags.writeable = False
    return present


def _stuck(text: bytes, position: int) -> str:
    shown = text[position : position + 20]
    return (
        f"no sequence of tokens spells this text of {len(text)} bytes: nothing goes on from byte {position}, "
        f"{shown!r}; the vocabulary lacks tokens of single bytes"
    )
