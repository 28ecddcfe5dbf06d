"""A regular expression as a specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ctrlgen.constraints.combined import Combinable
from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton
    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True)
class Regex(Combinable):
    """The whole text matches ``pattern``.

    >>> Regex(r"[0-9]{4}-[0-9]{2}").parse("2024-02")
    '2024-02'

    Args:
        pattern: a regular expression; ``docs/regex.md`` lists what is refused.
        dialect: "python" as the ``re`` module reads it, or "ecma" as JavaScript and JSON Schema do.

    Raises:
        RegexError: the pattern cannot be compiled; shows where.
        UnsatisfiableError: nothing matches it.
        ComplexityError: it takes too many states.
    """

    pattern: str
    dialect: Literal["python", "ecma"] = "python"

    def __post_init__(self) -> None:
        if not isinstance(self.pattern, str):
            raise InputError(f"a pattern must be a string, not {type(self.pattern).__name__}")
        if self.dialect not in ("python", "ecma"):
            raise InputError(f"dialect must be 'python' or 'ecma', not {self.dialect!r}")
        if self.automaton().is_empty:
            raise UnsatisfiableError(f"no text matches the pattern {self.pattern!r}")

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        from ctrlgen.engine.compiled import compiled

        return compiled(self, vocabulary, self.build)

    def build(self, network: Network) -> int:
        """The start node of the pattern in ``network``."""
        from ctrlgen.engine.network import END

        return network.lexeme(self.automaton(), END)

    def parse(self, text: str) -> str:
        """The text itself."""
        return text

    def automaton(self) -> Automaton:
        """The texts that match."""
        return compile_regex(self.pattern, dialect=self.dialect)
