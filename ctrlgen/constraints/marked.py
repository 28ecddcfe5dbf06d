"""A text together with what it has no characters for: control tokens, and places where the end token was swallowed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ctrlgen.constraints.free import EndOfText, Token
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ctrlgen.constraints.free import Ending
    from ctrlgen.vocabulary import Vocabulary

_SWALLOWED = "\udfff"
_FIRST = 0xDC00


@dataclass(frozen=True)
class Marked:
    """A text with marks, each of them one lone surrogate, which no text has.

    Args:
        text: the text.
        marks: the character of each control token in it, by name and by id.
        special: the names of all control tokens there are; their text is text.

    Raises:
        InputError: the text is none.
    """

    text: str
    marks: Mapping[str | int, str] = field(default_factory=dict)
    special: Collection[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InputError(f"a text is to be read, not {type(self.text).__name__}")

    @classmethod
    def of(cls, ids: Iterable[int], left: Iterable[int], vocabulary: Vocabulary) -> Marked:
        """The text of ids.

        Args:
            ids: of a whole text, the end token included.
            left: numbers of ids before which a free text was left where the model would have ended.
            vocabulary: whose ids.
        """
        names: dict[int, str] = {number: name for name, number in vocabulary.special.items()}
        marks: dict[str | int, str] = {}
        pieces, run, swallowed = [], bytearray(), sorted(left, reverse=True)
        for place, token in enumerate(ids):
            while swallowed and swallowed[-1] <= place:
                swallowed.pop()
                pieces += [run.decode(errors="replace"), _SWALLOWED]
                run.clear()
            text = vocabulary.tokens[token] if token < len(vocabulary.tokens) else None
            if text:
                run += text
            elif token not in vocabulary.eos:
                mark = marks.setdefault(token, chr(_FIRST + len(marks) // 2))
                marks.setdefault(names.get(token, token), mark)
                pieces += [run.decode(errors="replace"), mark]
                run.clear()
        return cls(
            "".join([*pieces, run.decode(errors="replace"), _SWALLOWED * len(swallowed)]),
            marks,
            vocabulary.special.keys(),
        )

    def find(self, end: Ending, start: int) -> tuple[int, int]:
        """Where something first begins and ends, from ``start`` on; (-1, -1) if nowhere."""
        if isinstance(end, EndOfText):
            wanted = _SWALLOWED
        elif isinstance(end, Token):
            wanted = self.written(end)
        else:
            wanted = end
        at = self.text.find(wanted, start) if wanted else -1
        return (at, at + len(wanted)) if at >= 0 else (-1, -1)

    def written(self, token: Token) -> str:
        """How a control token stands in the text; "" if it cannot."""
        if token.name in self.marks:
            return self.marks[token.name]
        return str(token.name) if token.or_text and token.name not in self.special else ""

    def rest(self, start: int) -> Marked:
        """What stands from a place on."""
        return Marked(self.text[start:], self.marks, self.special)

    def named(self) -> str:
        """The text, control tokens by their names."""
        names = {mark: f"<{name}>" for name, mark in self.marks.items() if isinstance(name, int)}
        names |= {mark: name for name, mark in self.marks.items() if isinstance(name, str)}
        return "".join(names.get(c, "") if 0xDC00 <= ord(c) <= 0xDFFF else c for c in self.text)

    def plain_until(self, start: int) -> int:
        """Where the next mark is, or the end."""
        for at in range(start, len(self.text)):
            if 0xDC00 <= ord(self.text[at]) <= 0xDFFF:
                return at
        return len(self.text)

    def shown(self, start: int, end: int) -> str:
        """The text between two places, without marks."""
        return "".join(c for c in self.text[start:end] if not 0xDC00 <= ord(c) <= 0xDFFF)
