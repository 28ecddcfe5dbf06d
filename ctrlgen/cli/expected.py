"""What may come next, in words: a few texts, a class of characters, or the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.cli.walk import allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ctrlgen.constraint import Constraint

MANY = 8
"""More ways than this at one place are told as a class of characters."""
MAX_SHOWN = 12
"""At most this many texts are told."""
MAX_FOLLOWED = 200
"""Texts that are followed further, byte by byte."""
MAX_LENGTH = 40
"""Bytes of a text; a longer one is cut."""

_ASCII = range(0x80)
_PRINTABLE = range(0x20, 0x7F)
_CONTROL_NAMES = {0x09: "tab", 0x0A: "newline", 0x0D: "carriage return", 0x20: "space"}


def expected(constraint: Constraint, state: int) -> list[str]:
    """Each way the text may go on from ``state``, the texts first, at most MAX_SHOWN of them."""
    first = allowed(constraint, state)
    ways = [character_class(first)] if len(first) > MANY else _texts(constraint, state)
    if len(ways) > MAX_SHOWN:
        ways = [*ways[: MAX_SHOWN - 1], f"{len(ways) - MAX_SHOWN + 1} more"]
    return [*ways, *(["the end"] if constraint.accepts(state) else [])]


def _texts(constraint: Constraint, state: int) -> list[str]:
    """The texts from ``state``, in order, as far as few ways lead on; where they become too many, their beginnings."""
    found = few = list(_longer(constraint, b"", state, done=False))
    while not all(done for _, _, done in found):
        found = [after for text in found for after in _longer(constraint, *text)]
        few = found if len(found) <= MANY else few
        if len(found) > MAX_FOLLOWED:
            found = few
            break
    return [f"`{visible(text)}`" for text, _, _ in found]


def _longer(constraint: Constraint, text: bytes, state: int, done: bool) -> Iterator[tuple[bytes, int, bool]]:
    """The text itself if it is done, else the texts that are a byte longer, with state and whether they are done."""
    if done:
        yield text, state, True
        return
    for byte in allowed(constraint, state):
        more, after = text + bytes([byte]), constraint.advance(state, byte)
        enough = _is_whole(more) or len(more) >= MAX_LENGTH or constraint.accepts(after)
        yield more, after, enough or len(allowed(constraint, after)) > MANY


def _is_whole(text: bytes) -> bool:
    """Whether the text ends a JSON string that it begins, or is inside of from the start: that is enough to tell."""
    quotes = text.replace(b'\\"', b"").count(b'"')
    return text.endswith(b'"') and quotes == (2 if text[0] in b'"{[,: \t\n' else 1)


def visible(text: bytes) -> str:
    """Text for a message: what cannot be seen is named or escaped."""
    if len(text) == 1 and text[0] in _CONTROL_NAMES:
        return _CONTROL_NAMES[text[0]]
    shown = text.decode(errors="backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def character_class(characters: Sequence[int]) -> str:
    """The bytes as a class of characters: ``a character of a-z 0-9``, or ``any character but ...``."""
    ascii_ones = {c for c in characters if c in _ASCII}
    beyond = len(ascii_ones) < len(characters)
    missing = [c for c in _PRINTABLE if c not in ascii_ones]
    if beyond and len(missing) <= MANY:
        return "any character" + (f" but {_ranges(missing)}" if missing else "")
    return f"a character of {_ranges(sorted(ascii_ones))}" + (" or beyond ASCII" if beyond else "")


def _ranges(characters: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for c in characters:
        if runs and runs[-1][1] == c - 1:
            runs[-1] = (runs[-1][0], c)
        else:
            runs.append((c, c))
    return " ".join(_name(a) if a == b else f"{_name(a)}{'-' if b > a + 1 else ' '}{_name(b)}" for a, b in runs)


def _name(character: int) -> str:
    return _CONTROL_NAMES.get(character) or (chr(character) if character in _PRINTABLE else f"\\x{character:02x}")
