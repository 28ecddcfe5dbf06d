"""Verbatim parts of given texts, as a specification."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from ctrlgen.constraints.combined import Combinable
from ctrlgen.constraints.copy_units import check_counts, units_of
from ctrlgen.errors import ComplexityError, InputError, UnsatisfiableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctrlgen.constraint import Constraint
    from ctrlgen.constraints.copy_units import Unit
    from ctrlgen.engine.network import Network
    from ctrlgen.spans import Coding, Spans
    from ctrlgen.vocabulary import Vocabulary

UNITS = ("character", "word", "sentence", "line")


class Span(str):
    """A part of a text: a string that knows where it stands.

    Attributes:
        context: index of the text it is from.
        start: of its first character in there.
        end: after its last one.
    """

    context: int
    start: int
    end: int

    def __new__(cls, text: str, context: int, start: int) -> Span:
        """The part of text ``context`` that begins at ``start``."""
        span = super().__new__(cls, text)
        span.context, span.start, span.end = context, start, start + len(text)
        return span

    def __getnewargs__(self) -> tuple[str, int, int]:  # type: ignore[override]
        return str(self), self.context, self.start


@dataclass(frozen=True, init=False)
class Copy(Combinable):
    """The text is a contiguous part of a given one, copied character by character.

    >>> spec = Copy("Ada wrote the first program. She died in 1852.", unit="word")
    >>> found = spec.parse("the first program")
    >>> found, found.start, found.end
    ('the first program', 10, 27)

    Args:
        context: the text, or several, of which a part stands in one.
        unit: with what a part begins and ends: "character", "word" (letters, digits and underscores), "sentence" or
            "line".
        least: fewest units; 0 lets the part be empty.
        most: most units, None for no limit.

    Raises:
        InputError: an argument makes no sense.
        UnsatisfiableError: the longest part has fewer units.
        ComplexityError: the texts have more than 16 million characters.
    """

    contexts: tuple[str, ...]
    unit: Unit
    least: int
    most: int | None

    def __init__(
        self, context: str | Iterable[str], *, unit: Unit = "character", least: int = 1, most: int | None = None
    ) -> None:
        contexts = _texts(context)
        if unit not in UNITS:
            raise InputError(f"unit must be one of {', '.join(map(repr, UNITS))}, not {unit!r}")
        check_counts(least, most, "units")
        for name, value in (("contexts", contexts), ("unit", unit), ("least", least), ("most", most)):
            object.__setattr__(self, name, value)
        longest = self.spans().longest
        if not longest:
            raise UnsatisfiableError(f"there is nothing to copy: {self!r} has no {unit} in its context")
        if longest < least:
            raise UnsatisfiableError(
                f"the longest part of {self!r} has {longest} units of {unit!r}, not {least}: ask for at most {longest}"
            )

    def __repr__(self) -> str:
        shown = repr(self.contexts[0][:40]) + "..." * (len(self.contexts[0]) > 40)
        shown = shown if len(self.contexts) == 1 else f"[{shown}, ... {len(self.contexts)} texts]"
        most = "" if self.most is None else f", most={self.most}"
        return f"Copy({shown}, unit={self.unit!r}, least={self.least}{most})"

    def spans(self, coding: Coding = "utf-8") -> Spans:
        """The automaton of the parts, without regard to their length."""
        return _spans(self.contexts, self.unit, coding)

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        from ctrlgen.engine.compiled import compiled

        return compiled(self, vocabulary, self.build)

    def build(self, network: Network) -> int:
        """The start node of the copy in ``network``."""
        from ctrlgen.engine.network import END

        return self.build_before(network, END, "utf-8")

    def build_before(self, network: Network, then: int, coding: Coding) -> int:
        """A node that reads the copy in a coding, then goes on at ``then``."""
        part = network.part(self.spans(coding), then, least=max(self.least, 1), most=self.most)
        return part if self.least else network.fork([part, then])

    def shortest(self, coding: Coding = "utf-8") -> bytes:
        """A short part, in a coding."""
        spans = self.spans(coding)
        return spans.ending(spans.start, max(self.least, 1) - spans.begun) if self.least else b""

    def parse(self, text: str) -> Span:
        """The part, with its first place.

        Raises:
            InputError: the text is no such part.
        """
        if not isinstance(text, str):
            raise InputError(f"a text is to be read, not {type(text).__name__}")
        found = next(self.places(text), None)
        if found is None:
            raise InputError(f"{text[:80]!r} is not what {self!r} allows")
        return Span(text, *found)

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """(index of the text, start) of each place where a part stands."""
        if not text and self.least == 0:
            yield 0, 0
        for index, (context, units) in enumerate(zip(self.contexts, _units(self.contexts, self.unit), strict=True)):
            start = context.find(text) if text else -1
            while start >= 0:
                if self._fits(units, start, start + len(text)):
                    yield index, start
                start = context.find(text, start + 1)

    def _fits(self, units: tuple[tuple[int, int], ...] | None, start: int, end: int) -> bool:
        """Whether what stands there is so many whole units."""
        if units is None:
            count = end - start
        else:
            first = bisect_left(units, (start, start))
            last = bisect_left(units, end, key=lambda unit: unit[1])
            if first >= len(units) or last >= len(units) or units[first][0] != start or units[last][1] != end:
                return False
            count = last - first + 1
        return count >= self.least and (self.most is None or count <= self.most)


def _texts(context: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(context, bytes | bytearray | Mapping | Set) or not isinstance(context, Iterable):
        # neither bytes nor what has no order, since a span says in which text it stands
        raise InputError(f"context must be a text (str) or a list of texts, not {type(context).__name__}")
    from ctrlgen.spans import MAX_CHARACTERS

    texts: list[str] = []
    room = MAX_CHARACTERS
    for text in (context,) if isinstance(context, str) else context:  # which may never end
        if not isinstance(text, str):
            raise InputError(f"context must be a text or several; one is of type {type(text).__name__}")
        texts.append(text)
        room -= max(len(text), 1)
        if room < 0:
            raise ComplexityError(f"more than {MAX_CHARACTERS} characters to copy from: give a part of them")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("context has a lone surrogate, which no valid text contains") from None
    if not texts:
        raise InputError("context needs at least one text")
    return tuple(texts)


@lru_cache(8)
def _units(contexts: tuple[str, ...], unit: Unit) -> tuple[tuple[tuple[int, int], ...] | None, ...]:
    """The units of each text, None where each character is one."""
    found = (units_of(text, unit) for text in contexts)
    return tuple(None if units is None else tuple(units) for units in found)


@lru_cache(8)
def _spans(contexts: tuple[str, ...], unit: Unit, coding: Coding) -> Spans:
    from ctrlgen.spans import spans_of

    if unit == "character":
        return spans_of(contexts, coding)
    # blanks after the last sentence would make its end depend on more than the next character
    texts = [text.rstrip() for text in contexts] if unit == "sentence" else contexts
    return spans_of(texts, coding, [units or () for units in _units(contexts, unit)])
