"""One of given texts, as a specification."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctrlgen.constraints.combined import Combinable
from ctrlgen.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlgen.automaton import Automaton
    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary

FEW = 500
"""Options of which an automaton is made. Of more an index is, which takes a tenth of the time and steps as fast."""


@dataclass(frozen=True, init=False)
class Choice(Combinable):
    """The text is exactly one of ``options``; they are read as they are, not as patterns.

    >>> Choice(["yes", "no"]).options
    ('yes', 'no')

    Args:
        options: strings, at least one; a million is fine. One may be the beginning of another.

    Raises:
        InputError: no option, the same one twice, or something that is not a string.
    """

    options: tuple[str, ...]

    def __init__(self, options: Iterable[str]) -> None:
        if isinstance(options, str):
            raise InputError(f"options must be a list of strings, not one string; write Choice([{options!r}])")
        try:
            kept = tuple(options)
        except TypeError:
            raise InputError(f"options must be a list of strings, not {type(options).__name__}") from None
        wrong = next((i for i, option in enumerate(kept) if not isinstance(option, str)), None)
        if wrong is not None:
            raise InputError(f"option {wrong} must be a string, not {type(kept[wrong]).__name__}")
        surrogate = next((i for i, option in enumerate(kept) if not _encodes(option)), None)
        if surrogate is not None:
            raise InputError(f"option {surrogate} has a lone surrogate, which no valid text contains")
        if not kept:
            raise InputError("a choice needs at least one option")
        if len(set(kept)) < len(kept):
            twice = next(option for option, count in Counter(kept).items() if count > 1)
            raise InputError(f"option {twice!r} is given twice")
        object.__setattr__(self, "options", kept)

    def __repr__(self) -> str:
        shown = list(self.options[:6])
        return f"Choice({shown})" if len(self.options) <= 6 else f"Choice({len(self.options)} options)"

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``: of many options, that of an index of names."""
        if len(self.options) > FEW:
            from ctrlgen.index.name_constraint import NameConstraint, kept
            from ctrlgen.index.name_index import NameIndex

            return kept((self, vocabulary), lambda: NameConstraint(NameIndex.from_names(self.options), vocabulary))
        from ctrlgen.engine.compiled import compiled

        return compiled(self, vocabulary, self.build)

    def build(self, network: Network) -> int:
        """The start node of the choice in ``network``."""
        from ctrlgen.engine.network import END

        return network.strings([option.encode() for option in self.options], END)

    def automaton(self) -> Automaton:
        """The options."""
        from ctrlgen.automaton import Automaton

        return Automaton.from_strings([option.encode() for option in self.options])

    def parse(self, text: str) -> str:
        """The text itself."""
        return text


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
