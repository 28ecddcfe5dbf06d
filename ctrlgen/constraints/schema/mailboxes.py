"""Host names and mail addresses, whose lengths are counted: automata written down state by state."""

from __future__ import annotations

from dataclasses import dataclass

from ctrlgen.grammars.characters import LAST
from ctrlgen.grammars.regex_subsets import CharacterAutomaton, explored

_DIGIT, _LETTER, _HYPHEN, _DOT, _AT, _SIGN, _WIDE = range(7)  # columns

_LABEL = 63
"""RFC 1123 section 2.1. Also the most characters after the first label, so that no label there can be too long."""

_LOCAL, _WIDE_LOCAL = 64, 16
"""RFC 5321 section 4.5.3.1.1, in octets: beyond ASCII a character takes up to four."""

_EMPTY, _DIGITS, _MIXED, _ENDS_IN_HYPHEN = range(4)


@dataclass(frozen=True, slots=True)
class _Domain:
    """A domain while it is read: whether its first label is over, characters in it or since, and the label so far."""

    rest: bool = False
    count: int = 0
    label: int = _EMPTY


_START = _Domain()


def _after(state: _Domain, column: int, numeric: bool) -> _Domain | None:
    """The state after a character of a domain whose last label may be a number, or not."""
    rest, count, label = state.rest, state.count, state.label
    if column == _DOT:
        if label in (_EMPTY, _ENDS_IN_HYPHEN) or (rest and count == _LABEL):
            return None
        return _Domain(True, count + 1 if rest else 0)
    if count == _LABEL or column not in (_DIGIT, _LETTER, _HYPHEN):
        return None
    if column == _HYPHEN:
        return None if label == _EMPTY else _Domain(rest, count + 1, _ENDS_IN_HYPHEN)
    digits = not numeric and column == _DIGIT and label in (_EMPTY, _DIGITS)
    return _Domain(rest, count + 1, _DIGITS if digits else _MIXED)


def domain() -> CharacterAutomaton:
    """RFC 1123 section 2.1: labels of letters, digits and inner hyphens; the last one is not a number."""
    segments = (
        (0x2D, 0x2D, _HYPHEN), (0x2E, 0x2E, _DOT), (0x30, 0x39, _DIGIT), (0x41, 0x5A, _LETTER), (0x61, 0x7A, _LETTER),
    )  # fmt: skip
    # RFC 1123: a host name never looks like an IPv4 address, since its last label is no number
    return explored(
        segments,
        _START,
        lambda state: [_after(state, column, False) for column in range(4)],
        lambda s: s.label == _MIXED,
    )


@dataclass(frozen=True, slots=True)
class _Local:
    """A local part: characters so far, whether a dot or @ may come next, and whether one was not ASCII."""

    count: int = 0
    inside: bool = False
    wide: bool = False


def _in_local(state: _Local, column: int) -> _Local | None:
    wide = state.wide or column == _WIDE
    if state.count >= (_WIDE_LOCAL if wide else _LOCAL) or (column == _DOT and not state.inside):
        return None
    return _Local(state.count + 1, column != _DOT, wide)


def mailbox(international: bool) -> CharacterAutomaton:
    """RFC 5321 section 4.1.2: Dot-string "@" Domain; RFC 6531 section 3.3, if ``international``.

    The domain is that of ``domain``, except that its last label may be a number.
    """
    signs = sorted(map(ord, "!#$%&'*+/=?^_`{|}~"))
    segments = [
        (0x2D, 0x2D, _HYPHEN), (0x2E, 0x2E, _DOT), (0x30, 0x39, _DIGIT), (0x40, 0x40, _AT), (0x41, 0x5A, _LETTER),
        (0x61, 0x7A, _LETTER), *((code, code, _SIGN) for code in signs),
    ]  # fmt: skip
    if international:
        segments += [(0x80, 0xD7FF, _WIDE), (0xE000, LAST, _WIDE)]

    start: _Local | _Domain = _Local()

    def move(state: _Local | _Domain, column: int) -> _Local | _Domain | None:
        if isinstance(state, _Domain):
            return _after(state, column, True)
        if column == _AT:
            return _START if state.inside else None
        return _in_local(state, column)

    columns = range(7 if international else 6)
    return explored(
        tuple(sorted(segments)),
        start,
        lambda state: [move(state, column) for column in columns],
        lambda state: isinstance(state, _Domain) and state.label == _MIXED,
    )
