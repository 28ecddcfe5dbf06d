"""Identifiers of resources (RFC 3986, RFC 3987) and IPv6 addresses, as automata written down state by state.

As regular expressions they would hold an IPv6 address in many copies; here every state is met once.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ctrlgen.grammars.characters import CharacterSet, character_set, contains
from ctrlgen.grammars.regex_subsets import CharacterAutomaton, explored

UCS: CharacterSet = (
    (0xA0, 0xD7FF), (0xF900, 0xFDCF), (0xFDF0, 0xFFEF),
    *((plane << 16 | (0x1000 if plane == 14 else 0), plane << 16 | 0xFFFD) for plane in range(1, 15)),
)  # fmt: skip
"""RFC 3987 section 2.2, ucschar."""

PRIVATE: CharacterSet = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
"""RFC 3987 section 2.2, iprivate."""

_HEX = frozenset("0123456789abcdefABCDEF")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_PLAIN = _LETTERS | frozenset("0123456789-._~!$&'()*+,;=")
"""RFC 3986 section 2.2 and 2.3, unreserved and sub-delims."""

# IPv6 addresses


class _Address(NamedTuple):
    """An IPv6 address while it is read.

    Args:
        left: groups that may still come, the one under way included; 0 in an IPv4 address.
        shortened: whether ``::`` was read.
        read: ":" or "::" if they were read last, "group" inside a group, "." inside an IPv4 address, else "".
        digits: of the group; or the number of the byte in an IPv4 address.
        byte: what is known of a decimal byte, None if it is none.
    """

    left: int = 8
    shortened: bool = False
    read: str = ""
    digits: int = 0
    byte: str | None = None

    def after(self, character: str) -> _Address | None:
        """RFC 4291 section 2.2."""
        if self.read == ".":
            return self._in_ipv4(character)
        if character == ":":
            return self._colon()
        if character == ".":
            return _Address(0, False, ".", 1, "") if self.byte else None
        if character not in _HEX or self.digits == 4 or not self.left or (self.read == ":" and self.left == 8):
            return None
        ends_in_ipv4 = self.left >= 2 if self.shortened else self.left == 2
        before = self.byte if self.digits else "" if ends_in_ipv4 else None
        return _Address(self.left, self.shortened, "group", self.digits + 1, _in_byte(before, character))

    def _colon(self) -> _Address | None:
        if self.read == "group":
            return _Address(self.left - 1, self.shortened, ":") if self.left > 1 else None
        if self.shortened:
            return None
        return _Address(self.left, read=":") if self.read == "" else _Address(self.left - 1, True, "::")

    def _in_ipv4(self, character: str) -> _Address | None:
        if character == ".":
            return self._replace(digits=self.digits + 1, byte="") if self.byte and self.digits < 3 else None
        byte = _in_byte(self.byte, character)
        return None if byte is None else self._replace(byte=byte)

    @property
    def ends(self) -> bool:
        """Whether the address may end here."""
        if self.read == ".":
            return self.digits == 3 and bool(self.byte)
        return self.read == "::" or (self.read == "group" and (self.shortened or self.left == 1))


_BYTES = {
    "": dict(zip("0123456789", ["0", "1", "2", *["3"] * 7], strict=True)),
    "1": dict.fromkeys("0123456789", "any"),  # any third digit
    "2": dict(zip("0123456789", [*["any"] * 5, "25", *["full"] * 4], strict=True)),
    "3": dict.fromkeys("0123456789", "full"),
    "any": dict.fromkeys("0123456789", "full"),
    "25": dict.fromkeys("012345", "full"),
}
"""What is known of a decimal byte without leading zeros, and what after one more digit."""


def _in_byte(byte: str | None, digit: str) -> str | None:
    return _BYTES[byte].get(digit) if byte in _BYTES else None


_ADDRESS = ["0", "1", "2", "34", "5", "6789", "abcdefABCDEF", ":", "."]
"""Characters of addresses; those of a string are alike."""


@cache
def _address_row(address: _Address) -> list[_Address | None]:
    """The states after each of _ADDRESS."""
    return [address.after(characters[0]) for characters in _ADDRESS]


def ipv6() -> CharacterAutomaton:
    """RFC 4291 section 2.2."""
    return explored(_segments(_ADDRESS), _Address(), _address_row, lambda address: address.ends)


# Identifiers


class _Identifier(NamedTuple):
    """An identifier while it is read: the part, digits of a percent-encoding to come, an address in brackets."""

    part: str
    percent: int = 0
    address: _Address | None = None


_OTHER_LETTERS = "".join(sorted(_LETTERS - _HEX - set("vV")))
_ASCII = [*_ADDRESS, "]", "vV", _OTHER_LETTERS, "+-", "!$&'()*,;=_~", *"@/?#[%"]
"""Characters of identifiers; those of a string are alike."""

_COMMON = {"?": "query", "#": "fragment", "/": "path"}
_PATH = {**_COMMON, "plain": "path", ":": "path", "@": "path"}
_QUERY = {"plain": "query", **dict.fromkeys(":@/?", "query"), "private": "query", "#": "fragment"}
_HOST = {**_COMMON, ":": "port", "plain": "host", "[": "bracket"}

_MOVES: dict[str, dict[str, str]] = {
    "whole": {"letter": "scheme"},
    "scheme": {"letter": "scheme", "scheme": "scheme", ":": "after scheme"},
    "reference": {"letter": "scheme or segment", "plain": "segment", "@": "segment", **_COMMON, "/": "slash"},
    "scheme or segment": {
        "letter": "scheme or segment", "scheme": "scheme or segment", ":": "after scheme",
        "plain": "segment", "@": "segment", **_COMMON,
    },
    "segment": {"plain": "segment", "@": "segment", **_COMMON},
    "after scheme": {**_PATH, "/": "slash"},
    "slash": {**_PATH, "/": "authority"},
    "path": _PATH,
    # until an @ is met, what is read is a host, or user information
    "authority": {**_COMMON, "plain": "user or host", ":": "user or port", "@": "at", "[": "bracket"},
    "user or host": {**_COMMON, "plain": "user or host", ":": "user or port", "@": "at"},
    "user or port": {**_COMMON, "digit": "user or port", "plain": "user", ":": "user", "@": "at"},
    "user": {"plain": "user", ":": "user", "@": "at"},
    "at": _HOST,
    "host": {symbol: part for symbol, part in _HOST.items() if symbol != "["},
    "bracket": {"v": "version"},
    "version": {"hex": "version digits"},
    "version digits": {"hex": "version digits", ".": "version dot"},
    "version dot": {"ascii": "version end", ":": "version end"},
    "version end": {"ascii": "version end", ":": "version end", "]": "bracketed"},
    "bracketed": {**_COMMON, ":": "port"},
    "port": {**_COMMON, "digit": "port"},
    "query": _QUERY,
    "fragment": {"plain": "fragment", **dict.fromkeys(":@/?", "fragment")},
}  # fmt: skip
"""RFC 3986 appendix A: the part after a character of a kind. The first kind that fits counts."""

_OPEN = {"whole", "scheme", "user", "bracket", "version", "version digits", "version dot", "version end", "address"}


def _kinds(character: str) -> list[str]:
    """The kinds a character belongs to, the most special first."""
    kinds = [character]
    if character in "vV":
        kinds.append("v")
    if character in _LETTERS:
        kinds.append("letter")
    if character in "0123456789":
        kinds.append("digit")
    if character in "0123456789+-.":
        kinds.append("scheme")
    if character in _HEX:
        kinds.append("hex")
    if character in _PLAIN:
        kinds.append("ascii")
    if character in _PLAIN or contains(UCS, ord(character)):
        kinds.append("plain")
    return [*kinds, "private"] if contains(PRIVATE, ord(character)) else kinds


def _moves(character: str) -> dict[str, str]:
    """The part after the character, for each part that may go on with it."""
    kinds = _kinds(character)
    return {
        part: next(to[kind] for kind in kinds if kind in to)
        for part, to in _MOVES.items()
        if not to.keys().isdisjoint(kinds)
    }


_States = list[_Identifier | None]


def _row(state: _Identifier, characters: list[str], moves: list[dict[str, str]]) -> _States:
    """The states after each character."""
    if state.percent:
        following = _Identifier(state.part, state.percent - 1)
        return [following if character in _HEX else None for character in characters]
    address = _Address() if state.part == "bracket" else state.address
    row: _States = [None] * len(characters)
    if address is not None:
        for place, reached in enumerate(_address_row(address)):
            row[place] = None if reached is None else _Identifier("address", address=reached)
        if address.ends:
            row[len(_ADDRESS)] = _Identifier("bracketed")
    for place, move in enumerate(moves):
        part = move.get(state.part)
        if part:
            row[place] = _Identifier(part)
    encoded = _MOVES.get(state.part, {}).get("plain")
    if encoded:
        row[characters.index("%")] = _Identifier(encoded, 2)
    return row


def identifier(*, reference: bool, international: bool) -> CharacterAutomaton:
    """URI or, with ``international``, IRI; with ``reference`` also a relative reference."""
    beyond = [UCS, PRIVATE] if international else []
    characters = [alike[0] for alike in _ASCII] + [chr(ranges[0][0]) for ranges in beyond]
    moves = [_moves(character) for character in characters]
    return explored(
        _segments(_ASCII, beyond),
        _Identifier("reference" if reference else "whole"),
        lambda state: _row(state, characters, moves),
        lambda state: not state.percent and state.part not in _OPEN,
    )


def _segments(ascii: list[str], beyond: list[CharacterSet] | None = None) -> tuple[tuple[int, int, int], ...]:
    """The sorted ranges of the columns."""
    sets = [character_set((ord(c), ord(c)) for c in column) for column in ascii] + (beyond or [])
    return tuple(sorted((first, last, column) for column, ranges in enumerate(sets) for first, last in ranges))
