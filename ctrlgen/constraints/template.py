"""Templates: fixed text, choices, gaps, with lengths in words or tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ctrlgen.constraints.choice import Choice
from ctrlgen.constraints.combined import Combinable, Sequence, Text, apart
from ctrlgen.constraints.regex import Regex
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary

MOST = 512
"""Words or tokens that a gap may be limited to."""


@dataclass(frozen=True)
class Gap:
    """So many whole tokens of any text: ``Template.tokens``."""

    least: int
    most: int | None


@dataclass(frozen=True, init=False)
class Template(Combinable):
    """Parts one after the other: the formats of Ctrl-G and Deco-G.

    >>> Template("The ", Template.words(1, 3), " was ", ["good", "bad"], ".").parts[3]
    Choice(['good', 'bad'])

    Args:
        parts: each is one of
            a string, which stands for itself;
            a list of strings, of which one is chosen;
            ``...``, any text without line breaks, which may be empty;
            ``Template.words(least, most)`` and ``Template.tokens(least, most)``;
            any specification that can be combined, or another template.

    Raises:
        InputError: no parts, or one that is none of these.
    """

    parts: tuple[Any, ...]

    def __init__(self, *parts: Any) -> None:
        found: list[Any] = []
        for part in parts:
            found += part.parts if isinstance(part, Template) else [_part(part)]
        if not found:
            raise InputError('a template needs parts, such as Template("Verdict: ", ["good", "bad"])')
        if any(isinstance(part, Gap) for part in found):
            early = next((part for part in found[:-1] if getattr(part, "open_end", False)), None)
            if early is not None:
                raise InputError(f"{early!r} goes on to the end of the text, so nothing can follow; write it last")
        else:
            Sequence(tuple(found))  # which checks that only the last is open
        object.__setattr__(self, "parts", tuple(found))

    ANY: ClassVar[Regex] = Regex("[^\n\r]*")

    @staticmethod
    def words(least: int = 1, most: int | None = None) -> Regex:
        """A gap of words with one space between them; a word is anything without white space."""
        _check("words", least, most)
        more = "*" if most is None else f"{{{max(least - 1, 0)},{most - 1}}}"
        if most is None and least > 1:
            more = f"{{{least - 1},}}"
        pattern = rf"\S+(?: \S+){more}"
        return Regex(f"(?:{pattern})?" if least == 0 else pattern)

    @staticmethod
    def tokens(least: int = 0, most: int | None = None) -> Gap:
        """A gap of whole tokens, each of which is text by itself: what stands before and after is cut off from it."""
        _check("tokens", least, most)
        return Gap(least, most)

    @property
    def counts_tokens(self) -> bool:
        """Whether a part has its length in tokens, so that the same text cut otherwise may not be allowed."""
        return any(isinstance(part, Gap) for part in self.parts)

    @property
    def pieces(self) -> tuple[Any, ...]:
        """The parts."""
        return self.parts

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``.

        Raises:
            CtrlgenError: as the parts.
        """
        if not self.counts_tokens:
            from ctrlgen.engine.compiled import compiled

            return compiled(self, vocabulary, self.build, apart(self))
        from ctrlgen.engine.gapped import Gapped

        runs: list[Constraint | tuple[int, int | None]] = []
        texts: list[Any] = []
        for part in (*self.parts, None):
            if (part is None or isinstance(part, Gap)) and texts:
                runs.append(Sequence(tuple(texts)).compile(vocabulary))
                texts = []
            if isinstance(part, Gap):
                runs.append((part.least, part.most))
            elif part is not None:
                texts.append(part)
        return Gapped(vocabulary, runs)

    def build(self, network: Network) -> int:
        """The start node of the parts in ``network``.

        Raises:
            InputError: a length in tokens, which counts only where the template is the whole constraint.
        """
        if self.counts_tokens:
            raise InputError("a template with Template.tokens cannot be part of another specification; use it alone")
        return Sequence(self.parts).build(network)

    def parse(self, text: str) -> str:
        """The text itself."""
        return text


def _part(value: Any) -> Any:
    if isinstance(value, str):
        return Text(value)
    if value is ...:
        return Template.ANY
    if isinstance(value, (list, tuple)):
        return Choice(value)
    if isinstance(value, (Gap, Combinable)):
        return value
    raise InputError(
        f"{value!r} cannot be part of a template; what can: strings, lists of strings, ..., Template.words(), "
        "Template.tokens(), and specifications such as Regex"
    )


def _check(name: str, least: Any, most: Any) -> None:
    numbers = [least] if most is None else [least, most]
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= MOST for n in numbers)
    if not whole or numbers != sorted(numbers) or most == 0:
        raise InputError(f"Template.{name}({least!r}, {most!r}): expected whole numbers up to {MOST}, the least first")
