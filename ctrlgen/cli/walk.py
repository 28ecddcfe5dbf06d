"""A text along a constraint, byte by byte, without a model or a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ctrlgen.constraint import DEAD

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

EOS = 256
MAX_COMPLETION = 400
"""Bytes; a longer way to an end is not looked for."""


def byte_vocabulary() -> Vocabulary:
    """One token for each byte, and an end token."""
    from ctrlgen.vocabulary import Vocabulary

    return Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos=EOS)


class Walk(NamedTuple):
    """How far a constraint follows a text."""

    text: bytes
    end: int
    """Number of bytes read, up to the character that is refused; all of them if none is."""
    state: int
    """The state there."""
    accepted: bool
    """Whether the whole text satisfies the constraint."""


def walk(constraint: Constraint, text: bytes) -> Walk:
    """Follow ``text`` up to the first character that the constraint refuses."""
    state = whole = constraint.start
    end = 0
    for i, byte in enumerate(text):
        if byte & 0xC0 != 0x80:  # a character begins here
            whole, end = state, i
        state = constraint.advance(state, byte)
        if state == DEAD:
            return Walk(text, end, whole, False)
    return Walk(text, len(text), state, constraint.accepts(state))


def completion(constraint: Constraint, state: int) -> bytes | None:
    """A shortest text that ends legally from ``state``; None if it has more than MAX_COMPLETION bytes."""
    found = bytearray()
    while not constraint.accepts(state):
        left = constraint.distance(state)
        if left > MAX_COMPLETION:
            return None
        # there is one, says the sixth law
        byte, state = next(
            (byte, after)
            for byte in allowed(constraint, state)
            if constraint.distance(after := constraint.advance(state, byte)) < left
        )
        found.append(byte)
    return bytes(found)


def allowed(constraint: Constraint, state: int) -> list[int]:
    """The bytes that may come next, ascending."""
    row = constraint.mask(state)
    return [byte for byte in range(256) if int(row[byte >> 5]) >> (byte & 31) & 1]
