"""How a Hugging Face tokenizer becomes bytes: read its decoder, map each id, check the result on probe texts.

The way from token to bytes is taken from the structure of the decoder, never from the name of a model:

* byte level: each character of a token stands for one byte;
* pieces: a token is text in which some strings stand for others ("▁" for a blank) and ``<0xNN>`` is one byte;
* anything else: what the tokenizer's own ``decode`` shows for the token after another one.

Whatever the way, the ids of the probe texts must join to exactly those texts, or the tokenizer is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ctrlgen.errors import VocabularyError
from ctrlgen.probes import PROBES

Tokens = list[bytes | None]

_ADVICE = (
    "Such a tokenizer loses or changes text, so no constraint on its output could be exact. Use one that keeps all "
    "text (byte level, or with byte fallback), or list the bytes of each id in Vocabulary(tokens, eos)."
)
_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def read(
    tokenizer: Any, *, model: Any, eos: int | str | Iterable[int | str] | None, width: int | None
) -> tuple[Tokens, list[int], dict[str, int], int | None]:
    """Tokens, end ids, control tokens and width, as the constructor of Vocabulary takes them.

    Raises:
        VocabularyError: see ``Vocabulary.from_tokenizer``.
    """
    backend, settings = _open(tokenizer)
    ids = backend.get_vocab(with_added_tokens=True)
    if not ids:
        raise VocabularyError("the tokenizer has no tokens")
    added = backend.get_added_tokens_decoder()
    special = {token.content: i for i, token in added.items() if token.special} | _unknown(backend, ids)
    configs = [*_configs(model), settings]
    ends = _end_ids(configs if eos is None else [{"eos_token": eos}], ids)
    way = _way(backend)
    tokens = _map(way, backend, ids, {i: token.content for i, token in added.items()})
    _check(way, backend, tokens, set(special.values()))
    return tokens, ends, special, _width(configs) if width is None else width


def _open(tokenizer: Any) -> tuple[Any, dict[str, Any]]:
    """The ``tokenizers.Tokenizer`` inside, and what is known about end tokens and logits."""
    if isinstance(tokenizer, (str, Path)):
        return _open_file(Path(tokenizer))
    if callable(getattr(tokenizer, "get_added_tokens_decoder", None)):
        return tokenizer, {}
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not callable(getattr(backend, "get_added_tokens_decoder", None)):
        raise VocabularyError(
            f"{type(tokenizer).__name__} is not a fast tokenizer: expected a transformers tokenizer with a "
            "tokenizer.json behind it, a tokenizers.Tokenizer, or the path of a tokenizer.json or its folder. "
            "Load it with AutoTokenizer.from_pretrained(...), or list the bytes of its ids in Vocabulary(tokens, eos)."
        )
    return backend, {"eos_token": tokenizer.eos_token, "eos_token_id": tokenizer.eos_token_id}


def _open_file(path: Path) -> tuple[Any, dict[str, Any]]:
    from tokenizers import Tokenizer

    file = path / "tokenizer.json" if path.is_dir() else path
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception as error:  # the Rust side raises bare Exception for every fault
        raise VocabularyError(f"cannot read the tokenizer {file}: {error}") from error
    settings: dict[str, Any] = {}
    names = ("tokenizer_config.json", "config.json", "generation_config.json")
    found = [_read_json(file.with_name(name)) for name in names if file.with_name(name).is_file()]
    # the text part of a multi-modal config comes second and has the last word on the size
    for config in [part for outer in found for part in (outer, outer.get("text_config") or {})]:
        for key in ("eos_token", "eos_token_id"):
            settings.setdefault(key, []).extend(_listed(config.get(key)))
        settings["vocab_size"] = config.get("vocab_size") or settings.get("vocab_size")
    return backend, settings


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise VocabularyError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise VocabularyError(f"{path} does not hold a JSON object")
    return content


# ---------------------------------------------------------------- end tokens and width


def _configs(model: Any) -> Iterator[dict[str, Any]]:
    """End ids and vocab_size of a model or a config, and of every config below it."""
    if model is None:
        return
    text_config = getattr(model, "get_text_config", None)
    below = [getattr(model, name, None) for name in ("config", "generation_config")]
    below.append(text_config() if callable(text_config) else None)
    # the text part comes first, since a multi-modal config may have another vocab_size outside
    for config in reversed(below):
        if config is not None and config is not model:
            yield from _configs(config)
    yield {key: getattr(model, key, None) for key in ("eos_token_id", "vocab_size")}


def _end_ids(configs: Iterable[Mapping[str, Any]], ids: Mapping[str, int]) -> list[int]:
    """All that the configs name, in no order."""
    ends = set()
    for config in configs:
        for end in [*_listed(config.get("eos_token")), *_listed(config.get("eos_token_id"))]:
            if isinstance(end, str):
                if end not in ids:
                    raise VocabularyError(f"the end token {end!r} is not in the tokenizer; pass eos= with its id")
                ends.add(ids[end])
            else:
                ends.add(end)
    if not ends:
        raise VocabularyError(
            "neither tokenizer nor model names an end token; pass eos= with the ids (or texts) that end a text"
        )
    return list(ends)


def _listed(value: Any) -> list[Any]:
    """None, one value or several, as a list; an added token written as an object counts as its text."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [value["content"]] if "content" in value else []
    if isinstance(value, (str, int)):
        return [value]
    if isinstance(value, Iterable):
        return [item for part in value for item in _listed(part)]
    return [getattr(value, "content", value)]


def _width(configs: Iterable[Mapping[str, Any]]) -> int | None:
    return next((size for config in configs if isinstance(size := config.get("vocab_size"), int)), None)


# ---------------------------------------------------------------- from token to bytes


@dataclass(frozen=True)
class Way:
    """How tokens become bytes.

    Attributes:
        kind: "byte level", "pieces" or "decode".
        replaced: for pieces, what stands for what.
        byte_fallback: for pieces, whether ``<0xNN>`` is one byte.
    """

    kind: str
    replaced: tuple[tuple[str, str], ...] = ()
    byte_fallback: bool = False

    def text(self, piece: str) -> str:
        """A piece, or a normalised text, with everything replaced back."""
        for old, new in self.replaced:
            piece = piece.replace(old, new)
        return piece


def _way(backend: Any) -> Way:
    steps = list(_steps(backend.decoder))
    kinds = {step["type"] for step in steps}
    encoding = [step["type"] for part in (backend.pre_tokenizer, backend.normalizer) for step in _steps(part)]
    if "ByteLevel" in (kinds if steps else encoding) and kinds <= {"ByteLevel", "Fuse"}:
        return Way("byte level")
    replaced, fused = [], False
    for step in steps:
        fused |= step["type"] == "Fuse"
        if not _is_local(step, fused):
            return Way("decode")
        if step["type"] == "Replace":
            replaced.append((step["pattern"]["String"], step["content"]))
        elif step["type"] == "Metaspace":
            replaced.append((step["replacement"], " "))
    # without any decoder, ``decode`` puts blanks between all tokens
    return Way("pieces", tuple(replaced), "ByteFallback" in kinds) if steps else Way("decode")


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """The steps of a decoder, normaliser or pre-tokenizer, sequences flattened."""
    if part is None:
        return
    state = json.loads(part.__getstate__())
    members = next((state[key] for key in ("decoders", "normalizers", "pretokenizers") if key in state), None)
    yield from [state] if members is None else members


def _is_local(step: Mapping[str, Any], fused: bool) -> bool:
    """Whether a decoder's step does to a token in a text what it does to the token alone (but for the text's start)."""
    if step["type"] == "Replace":
        old = step["pattern"].get("String", "")
        return len(old) == 1 or (bool(old) and not fused)
    if step["type"] == "Strip":
        return fused and step["stop"] == 0
    return step["type"] in ("ByteFallback", "Fuse", "Metaspace")


def _map(way: Way, backend: Any, ids: Mapping[str, int], added: Mapping[int, str]) -> Tokens:
    """The bytes of each id, None for holes; control tokens are not told apart yet."""
    numbers = np.fromiter(ids.values(), np.int64, len(ids))
    order = np.argsort(numbers)
    # objects made in the order in which they will be read make all that follows several times faster
    pieces = np.fromiter(ids, object, len(ids))[order].tolist()
    texts = _texts(way, backend, pieces, numbers[order].tolist())
    tokens: Tokens = [None] * (int(numbers.max()) + 1)
    for i, text in zip(numbers[order].tolist(), texts, strict=True):
        tokens[i] = text
    if way.kind == "byte level":
        for i, content in added.items():  # matched in the text as it stands, so not byte mapped
            tokens[i] = content.encode()
    return tokens


def _texts(way: Way, backend: Any, pieces: Sequence[str], ids: Sequence[int]) -> Iterable[bytes | None]:
    if way.kind == "byte level":
        return _byte_level(pieces)
    if way.kind == "pieces":
        return (_piece(way, piece) for piece in pieces)
    return _differences(backend, ids)


def _byte_level(pieces: Sequence[str]) -> list[bytes]:
    """All pieces at once: look up each character's byte; a piece with a foreign character is literal text."""
    codes = np.frombuffer("".join(pieces).encode("utf-32-le", errors="surrogatepass"), np.uint32)
    byte_of = _byte_map()
    mapped = byte_of[np.minimum(codes, len(byte_of) - 1)]
    flat = mapped.astype(np.uint8).tobytes()
    bounds = [0, *accumulate(map(len, pieces))]
    texts = [flat[start:end] for start, end in pairwise(bounds)]
    owners = np.searchsorted(bounds, np.flatnonzero(mapped < 0), side="right") - 1
    for i in set(owners.tolist()):
        texts[i] = pieces[i].encode(errors="replace")
    return texts


def _byte_map() -> np.ndarray[Any, np.dtype[np.int16]]:
    """int16[325]: the byte a character stands for in byte-level tokenizers, -1 for none; the last entry is -1.

    Printable Latin-1 characters stand for themselves, the other 68 bytes for U+0100 onwards, in order.
    """
    byte_of = np.full(325, -1, np.int16)
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    byte_of[printable] = printable
    others = sorted(set(range(256)) - set(printable))
    byte_of[0x100 : 0x100 + len(others)] = others
    return byte_of


def _piece(way: Way, piece: str) -> bytes:
    if way.byte_fallback and (byte := _BYTE_PIECE.fullmatch(piece)):
        return bytes([int(byte[1], 16)])
    return way.text(piece).encode(errors="replace")


def _differences(backend: Any, ids: Iterable[int]) -> Iterator[bytes | None]:
    """What ``decode`` adds for each id after another token; None where that is no clean text."""
    anchors = backend.encode("a", add_special_tokens=False).ids[-1:]
    before = backend.decode(anchors, skip_special_tokens=False)
    for i in ids:
        text = backend.decode([*anchors, i], skip_special_tokens=False)
        clean = text.startswith(before) and "\ufffd" not in text
        yield text[len(before) :].encode() if clean else None


def _unknown(backend: Any, ids: Mapping[str, int]) -> dict[str, int]:
    """The token that stands for what the tokenizer cannot say; it is not text either."""
    name = getattr(backend.model, "unk_token", None)
    if type(backend.model).__name__ == "Unigram":  # the only model that does not show it as an attribute
        number = json.loads(backend.model.__getstate__()).get("unk_id")
        name = None if number is None else backend.id_to_token(number)
    return {name: ids[name]} if isinstance(name, str) and name in ids else {}


# ---------------------------------------------------------------- the self-test


def _check(way: Way, backend: Any, tokens: Tokens, control: set[int]) -> None:
    """Encode every probe and compare the bytes of its ids with the text.

    A probe that the tokenizer itself cannot say (its ids hold the unknown token) proves nothing and is left out.

    Raises:
        VocabularyError: a probe differs, or none with a blank is left.
    """
    normalizer, proved = backend.normalizer, 0
    # byte-level normalisers map to the tokenizer's inner alphabet, which the bytes have already left
    if any(step["type"] == "ByteLevel" for step in _steps(normalizer)):
        normalizer = None
    for text in PROBES:
        encoding = backend.encode(text, add_special_tokens=False)
        ids = [i for i, real in zip(encoding.ids, encoding.attention_mask, strict=True) if real]
        if control.intersection(ids):
            continue
        wanted = _normal(way, normalizer, text)
        got = b"".join(tokens[i] or b"" for i in ids)
        if not _same(got, wanted.encode(), cut=backend.truncation is not None):
            raise VocabularyError(_report(way, backend, tokens, ids, text, wanted))
        proved += " " in text  # blanks are what most often gets lost
    if not proved:
        raise VocabularyError(
            "the tokenizer cannot say any of the texts with blanks it was tested on (each came out with an "
            "unknown or control token), so its bytes cannot be checked; list them yourself in Vocabulary(tokens, eos)"
        )


def _normal(way: Way, normalizer: Any, text: str) -> str:
    """What the tokenizer makes of a text before it cuts it, seen from the decoder's end."""
    if normalizer is None:
        return text
    normal: str = normalizer.normalize_str(text)
    # what the decoder replaces back is unknown here; blanks are the one thing that is replaced in practice
    return normal.replace("\u2581", " ") if way.kind == "decode" else way.text(normal)


def _same(got: bytes, wanted: bytes, *, cut: bool) -> bool:
    """Some tokenizers put a blank before a text, and one set to truncate may have lost the end."""
    if cut:
        return wanted.startswith((got, got.removeprefix(b" ")))
    return got in (wanted, b" " + wanted)


def _report(way: Way, backend: Any, tokens: Tokens, ids: Sequence[int], text: str, wanted: str) -> str:
    got = b"".join(tokens[i] or b"" for i in ids)
    at = next((k for k, (a, b) in enumerate(zip(got, wanted.encode(), strict=False)) if a != b), None)
    where = f"after {min(len(got), len(wanted.encode()))} bytes" if at is None else f"at byte {at}"
    shown = [f"{i} {backend.id_to_token(i)!r} {tokens[i]!r}" for i in ids[:24]]
    return "\n".join(
        [
            f"the ids of this tokenizer do not join to the text they encode (read as: {way.kind}); they differ {where}",
            f"  text:     {text!r}",
            *([f"  normal:   {wanted!r}"] if wanted != text else []),
            f"  expected: {wanted.encode()!r}",
            f"  got:      {got!r}",
            f"  ids:      {', '.join(shown)}{', ...' if len(ids) > len(shown) else ''}",
            f"  decoder:  {[step['type'] for step in _steps(backend.decoder)]}",
            _ADVICE,
        ]
    )
