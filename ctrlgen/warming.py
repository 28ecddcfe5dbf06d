"""Every kernel of the mask engine once, so that none is compiled, or read from disk, inside a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlgen.constraint import Constraint, Specification

_SCHEMA = {
    "type": "object",
    "properties": {
        "a": {"type": "string", "pattern": "^[^/]*a.{2,9}$", "minLength": 4},
        "b": {"type": "string", "minLength": 1, "maxLength": 20},
        "c": {"type": "array", "items": {"type": "integer", "multipleOf": 3}, "minItems": 1, "maxItems": 9},
        "d": {"enum": ["one", "two", 3, None]},
        "e": {"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True},
        "f": {"type": "string", "format": "date"},
        "g": {"not": {"const": "no"}, "type": "string"},
        "h": {"anyOf": [{"type": "number", "minimum": 0.5}, {"type": "object", "maxProperties": 2}]},
    },
    "patternProperties": {"^x-[a-z]+$": {"type": "boolean"}},
    "required": ["a", "b"],
    "maxProperties": 12,
}
_TEXTS = (
    b'{"a": "aaaa", "b": "b", "c": [3, 6], "d": "one", "e": ["x"], "h": {"q": 1}, "x-y": true, "z": [0.5]}',
    b'{"b": "b", "x-y": true, "a": "aaaa"}',
)
_NAMES = {"propertyNames": {"pattern": "^[a-c]{1,3}$"}, "minProperties": 3}
_CONTROL = "<|control|>"
_GRAMMAR = 'start: (NAME | NUMBER "+" | "if" NAME)+\nNAME: /[a-z]+/\nNUMBER: /[0-9]+/\n%ignore " "\n'


def run_every_kernel() -> None:
    """Run each kernel at least once, for each dtype that it is compiled for.

    The first time on a machine they are compiled, which takes a minute or two; later they are read from disk.
    """
    import torch

    from ctrlgen.constraints.choice import Choice
    from ctrlgen.constraints.free import Free, Token
    from ctrlgen.engine.masks import apply_masks
    from ctrlgen.vocabulary import Vocabulary

    ends = 256
    spelled = [bytes([byte]) for byte in range(256)]
    tokens = [*spelled, None, b'":', b'"a', b"aa", b'","', b'", "', b"1+", None]
    vocabulary = Vocabulary(tokens, eos=ends, special={_CONTROL: len(tokens) - 1})
    for specification, text in _specifications():
        _walk(specification.compile(vocabulary), vocabulary.encode_greedy(text))
    _walk((Free(until=Token(_CONTROL)) >> Choice(["b"])).compile(vocabulary), [97, len(tokens) - 1, 98])
    row = vocabulary.end_row
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        apply_masks(torch.zeros(1, vocabulary.width, dtype=dtype), [row])


def _specifications() -> Iterator[tuple[Specification, bytes]]:
    """Between them they use every kernel; each with a text that it accepts."""
    from ctrlgen.constraints.copy import Copy
    from ctrlgen.constraints.free import Free
    from ctrlgen.constraints.grammar import Grammar
    from ctrlgen.constraints.json_schema import JsonSchema
    from ctrlgen.constraints.regex import Regex

    for text in _TEXTS:
        yield JsonSchema(_SCHEMA, key_order="any"), text
    yield JsonSchema({**_SCHEMA, "additionalProperties": False}), _TEXTS[0]
    yield JsonSchema(_SCHEMA, whitespace="pretty"), _TEXTS[0]
    yield JsonSchema(_NAMES), b'{"a": 1, "b": 2, "c": 3}'
    yield Regex("(?!ab)[a-c]{2,5}(x|yz)*") & Regex(".*[xz]"), b"acxyz"
    yield Grammar(_GRAMMAR), b"ab 1+ c"
    yield Copy("".join(map(chr, range(32, 127))) * 2, least=3), b"abcdef"
    yield Free(until="<a>", max_tokens=20) >> Regex("b+"), b"aa<a>b"
    yield Free(until=('","', "<a>")) >> Regex("b+"), b'a","b'


def _walk(constraint: Constraint, tokens: list[int]) -> None:
    from ctrlgen.closing import closing_of

    state, closing = constraint.start, closing_of(constraint)
    for token in tokens:
        constraint.accepts(state)
        constraint.mask(state)
        closing.row(constraint, state, constraint.distance(state) + 1)
        state = constraint.advance(state, token)
