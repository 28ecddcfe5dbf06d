"""What a text with free parts says: its pieces in order, each with what called for it, its text and its value.

A text is cut as its specification reads it. Free text ends at the first of what it waits for. Any other part takes as
much as it can, less if what follows could not be read otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.constraint import DEAD
from ctrlgen.constraints.combined import Either, Repeat, Sequence
from ctrlgen.constraints.dispatch import Dispatch
from ctrlgen.constraints.free import Ending, Free, Token
from ctrlgen.constraints.marked import Marked
from ctrlgen.errors import CtrlgenError, InputError

if TYPE_CHECKING:
    from ctrlgen.vocabulary import Vocabulary


class Piece(NamedTuple):
    """One part of a text."""

    trigger: Ending | None
    """What came before it and led to it: a string, a Token, EOS; None if nothing did."""
    text: str
    """The text itself, without the trigger and without control tokens."""
    value: Any
    """What its specification makes of it; None for free text."""
    free: bool
    """Whether it is free text."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A text as its parts, in order."""

    parts: tuple[Piece, ...]

    @property
    def free_text(self) -> str:
        """All that was free, without triggers."""
        return "".join(piece.text for piece in self.parts if piece.free)

    @property
    def values(self) -> tuple[Any, ...]:
        """The values of the parts that were not free, in order."""
        return tuple(piece.value for piece in self.parts if not piece.free)

    @property
    def answer(self) -> Any:
        """The last of the values; None if there is none."""
        return self.values[-1] if self.values else None


class _Read(NamedTuple):
    """What was read up to a place."""

    end: int
    parts: tuple[Piece, ...]
    trigger: Ending | None


def has_free_parts(part: object) -> bool:
    """Whether a specification reads free text or control tokens."""
    if isinstance(part, (Free, Dispatch, Token)):
        return True
    inner = part.parts if isinstance(part, (Sequence, Either)) else (part.part,) if isinstance(part, Repeat) else ()
    return any(has_free_parts(one) for one in inner)


def parts_of(part: object, marked: Marked) -> Parts:
    """The pieces of a whole text.

    Raises:
        InputError: the text is not of the specification, or of one that takes no more than it must to read on.
    """
    for found in _read(part, marked, _Read(0, (), None)):
        if found.end == len(marked.text):
            parts = found.parts if found.trigger is None else (*found.parts, Piece(found.trigger, "", None, True))
            return Parts(parts)
    shown = marked.shown(0, len(marked.text))
    raise InputError(
        f"{shown[:80]!r} is no text of {part!r}; where that reads control tokens or EOS, its ids are needed"
    )


def _read(part: object, marked: Marked, at: _Read) -> Iterator[_Read]:
    """What ``part`` can read from a place on, the longest first."""
    if isinstance(part, Free):
        found = _first(marked, part.until, at.end)
        if found is not None:
            yield _freely(marked, at, *found)
        elif not part.until:
            yield _freely(marked, at, len(marked.text), len(marked.text), None)
    elif isinstance(part, Dispatch):
        yield from _dispatched(part, marked, at)
    elif isinstance(part, Token):
        begin, end = marked.find(part, at.end)
        if begin == at.end:
            yield at._replace(end=end, trigger=part)
    elif not has_free_parts(part):
        if marked.special and _reads_marks(part):
            yield from _with_marks(part, marked, at)
        yield from _whole(part, marked, at)
    elif isinstance(part, Sequence):
        yield from _one_after_the_other(part.parts, marked, at)
    elif isinstance(part, Either):
        for one in part.parts:
            yield from _read(one, marked, at)
    elif isinstance(part, Repeat):
        yield from _repeated(part, marked, at)


def _freely(marked: Marked, at: _Read, begin: int, end: int, trigger: Ending | None) -> _Read:
    piece = Piece(at.trigger, marked.shown(at.end, begin), None, True)
    return _Read(end, (*at.parts, piece), trigger)


def _first(marked: Marked, ends: tuple[Ending, ...], start: int) -> tuple[int, int, Ending] | None:
    """The first of several ends: where it begins and ends, and which it is."""
    places = [(*marked.find(end, start), number) for number, end in enumerate(ends)]
    found = min(((end, begin, number) for begin, end, number in places if begin >= 0), default=None)
    return None if found is None else (found[1], found[0], ends[found[2]])


def _dispatched(part: Dispatch, marked: Marked, at: _Read) -> Iterator[_Read]:
    calls = dict(part.calls)
    while True:
        found = _first(marked, (*calls, *part.stop), at.end)
        if found is None:
            if not part.stop:
                yield _freely(marked, at, len(marked.text), len(marked.text), None)
            return
        at = _freely(marked, at, *found)
        if found[2] not in calls:
            yield at
            return
        after = next(_read(calls[found[2]], marked, at), None)
        if after is None:
            return
        at = after


def _one_after_the_other(parts: tuple[Any, ...], marked: Marked, at: _Read) -> Iterator[_Read]:
    if not parts:
        yield at
        return
    for found in _read(parts[0], marked, at):
        yield from _one_after_the_other(parts[1:], marked, found)


def _repeated(part: Repeat, marked: Marked, at: _Read) -> Iterator[_Read]:
    ends = [at]
    while part.most is None or len(ends) <= part.most:
        found = next(_read(part.part, marked, ends[-1]), None)
        if found is None:
            break
        ends.append(found)
    yield from reversed(ends[part.least :])


def _reads_marks(part: object) -> bool:
    """Whether control tokens may stand within a part that has no free text."""
    inner = part.parts if isinstance(part, (Sequence, Either)) else ()
    return getattr(part, "reads_marks", False) or any(_reads_marks(one) for one in inner)


def _with_marks(part: Any, marked: Marked, at: _Read) -> Iterator[_Read]:
    """A part that may have control tokens within, which are in the last of its parts: one piece, to the end."""
    if isinstance(part, Either):
        for one in part.parts:
            yield from _read(one, marked, at)
        return
    rest = marked.rest(at.end)
    text = rest.shown(0, len(rest.text))
    if isinstance(part, Sequence):
        telling = [number for number, one in enumerate(part.parts) if not getattr(one, "silent", False)]
        found = _one_after_the_other(part.parts, rest, _Read(0, (), None))
        values: Iterator[Any] = (
            read.parts[telling[0]].value if len(telling) == 1 else text for read in found if read.end == len(rest.text)
        )
    else:
        values = _values(part, rest)
    for value in values:
        yield _Read(len(marked.text), (*at.parts, Piece(at.trigger, text, value, False)), None)


def _values(part: Any, marked: Marked) -> Iterator[Any]:
    """The value of all of a text with control tokens, if it is one of ``part``."""
    try:
        yield part.parse_marked(marked)
    except (ValueError, ArithmeticError, CtrlgenError):
        return


def _whole(part: Any, marked: Marked, at: _Read) -> Iterator[_Read]:
    """A part without free text: one piece."""
    text = marked.text[at.end : marked.plain_until(at.end)]
    for length in _ends(part, text):
        try:
            value = value_of(part, text[:length])
        except (ValueError, ArithmeticError, CtrlgenError):
            continue
        yield _Read(at.end + length, (*at.parts, Piece(at.trigger, text[:length], value, False)), None)


def value_of(part: Any, text: str) -> Any:
    """The value of a text; of a sequence that of its only part that is more than a string, if there is one."""
    if isinstance(part, Sequence):
        telling = [number for number, one in enumerate(part.parts) if not getattr(one, "silent", False)]
        marked = Marked(text)
        for found in _one_after_the_other(part.parts, marked, _Read(0, (), None)):
            if len(telling) == 1 and found.end == len(text):
                return found.parts[telling[0]].value
    return text if getattr(part, "silent", False) else part.parse(text)


def _ends(part: Any, text: str) -> list[int]:
    """How many characters of a text the part can read, the most first."""
    constraint, data = part.compile(byte_vocabulary()), text.encode()
    state, places, size = constraint.start, [], 0
    for place, byte in enumerate(data):
        if byte & 0xC0 != 0x80:
            if constraint.accepts(state):
                places.append(size)
            size += 1
        state = constraint.advance(state, byte)
        if state == DEAD:
            return places[::-1]
        if place + 1 == len(data) and constraint.accepts(state):
            places.append(size)
    if not data and constraint.accepts(state):
        places.append(0)
    return places[::-1]


@lru_cache(1)
def byte_vocabulary() -> Vocabulary:
    """One token for each byte, and an end."""
    from ctrlgen.vocabulary import Vocabulary

    return Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos=256)
