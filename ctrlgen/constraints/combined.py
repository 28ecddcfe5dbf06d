"""Specifications put together: one after the other, one of several, some number of times, both at once.

cg.Regex("[A-Z]+") >> ": " >> cg.JsonSchema(schema)     one after the other; a string stands for itself
cg.Choice(["yes", "no"]) | cg.Regex("[0-9]+")           one of them
(cg.Regex("[0-9]") >> ",").repeat(1, 8)                 so many times
cg.Regex("-").optional() >> cg.Regex("[0-9]+")          or not at all
cg.Regex("[a-z]{3,}") & cg.Regex(".*x.*")               both: of patterns and choices
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ctrlgen.errors import InputError, UnsatisfiableError

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton
    from ctrlgen.constraint import Constraint
    from ctrlgen.constraints.cost import Cost
    from ctrlgen.constraints.marked import Marked
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary

MAX_TIMES = 1 << 30


class Part(Hashable, Protocol):
    """A specification that is built into a network."""

    def build(self, network: Network) -> int:
        """The start node of what it reads, up to END."""
        ...


class Combinable:
    """The operators of specifications."""

    @property
    def open_end(self) -> bool:
        """Whether it goes on to the end of the text, so that nothing can follow."""
        return False

    @property
    def may_be_cut(self) -> bool:
        """Whether a budget may cut its texts off wherever they may end, which is in free text: ``ctrlgen.closing``."""
        return self.open_end

    def __rshift__(self, other: object) -> Sequence:
        """This, then ``other``: a specification, or a string that stands for itself."""
        return Sequence((*_parts(self, Sequence), *_parts(_part(other), Sequence)))

    def __rrshift__(self, other: object) -> Sequence:
        """``other``, a string that stands for itself, then this."""
        return Sequence((_part(other), *_parts(self, Sequence)))

    def __or__(self, other: object) -> Either:
        """This, or ``other``."""
        return Either((*_parts(self, Either), *_parts(_part(other), Either)))

    def __ror__(self, other: object) -> Either:
        """The string ``other``, or this."""
        return Either((_part(other), *_parts(self, Either)))

    def __and__(self, other: object) -> Both:
        """This and ``other`` at once; both must be patterns or choices."""
        return Both(_part(self), _part(other))

    def repeat(self, least: int = 0, most: int | None = None) -> Repeat:
        """Between ``least`` and ``most`` of this, one after the other; no upper limit if ``most`` is None."""
        return Repeat(_part(self), least, most)

    def optional(self) -> Either:
        """This, or nothing."""
        return Either((Text(""), _part(self)))

    def parse(self, text: str) -> object:
        """The text itself; of a specification with free text its parts (``ctrlgen.constraints.parts``).

        Raises:
            InputError: it has free text, and ``text`` cannot be cut into parts.
        """
        from ctrlgen.constraints.marked import Marked
        from ctrlgen.constraints.parts import has_free_parts, parts_of

        return parts_of(self, Marked(text)) if has_free_parts(self) else text

    def parse_marked(self, marked: Marked) -> object:
        """The same for a text with control tokens."""
        from ctrlgen.constraints.parts import has_free_parts, parts_of

        return parts_of(self, marked) if has_free_parts(self) else self.parse(marked.named())

    def cost(self, vocabulary: Vocabulary) -> Cost:
        """Nodes, states, memory and the least budget over ``vocabulary``, before anything is generated.

        Raises:
            CtrlgenError: as ``compile``.
        """
        from ctrlgen.constraints.cost import cost_of

        return cost_of(self, vocabulary)  # type: ignore[arg-type]


class Apart(Combinable):
    """What is compiled apart, and filled in where it stands: grammars, names."""

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        raise NotImplementedError

    def build(self, network: Network) -> int:
        """The node in ``network`` where it is filled in."""
        return network.hole(self)


def apart(part: object) -> tuple[Apart, ...]:
    """What is filled into a specification, each once."""
    if isinstance(part, Apart):
        return (part,)
    return tuple(dict.fromkeys(one for inner in getattr(part, "pieces", ()) for one in apart(inner)))


class _Compiled(Combinable):
    """What is compiled by building it into a network of its own."""

    def build(self, network: Network) -> int:
        """The start node of what it reads, up to END."""
        raise NotImplementedError

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        from ctrlgen.engine.compiled import compiled

        return compiled(self, vocabulary, self.build, apart(self))


@dataclass(frozen=True)
class Text(_Compiled):
    """Exactly this text."""

    text: str
    silent: ClassVar[bool] = True
    """No value of its own: of what it stands beside, the rest has the value."""

    def build(self, network: Network) -> int:
        """The start node of the text in ``network``."""
        from ctrlgen.engine.network import END

        return network.literal(self.text.encode(), END)


@dataclass(frozen=True)
class Sequence(_Compiled):
    """One specification after the other."""

    parts: tuple[Any, ...]

    def __post_init__(self) -> None:
        for part in self.parts[:-1]:
            if getattr(part, "open_end", False):
                raise InputError(
                    f"{part!r} goes on to the end of the text, so nothing can follow; say where it ends "
                    "(until=..., stop=...), or write it last"
                )

    @property
    def pieces(self) -> tuple[Any, ...]:
        """The parts."""
        return self.parts

    @property
    def open_end(self) -> bool:
        """Whether the last part is."""
        return bool(getattr(self.parts[-1], "open_end", False))

    @property
    def may_be_cut(self) -> bool:
        """Whether a budget may cut off the texts of the last part."""
        return bool(getattr(self.parts[-1], "may_be_cut", False))

    def build(self, network: Network) -> int:
        """The start node of the first part; each goes on at the next."""
        from ctrlgen.engine.network import END

        node = END
        for part in reversed(self.parts):
            node = network.call(part.build(network), node)
        return node

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``."""
        if not isinstance(self.parts[-1], Apart) or len(self.parts) == 1 or any(map(apart, self.parts[:-1])):
            return super().compile(vocabulary)
        from ctrlgen.constraints.free import Free
        from ctrlgen.engine.compiled import kept
        from ctrlgen.engine.concatenated import Concatenated

        first, last = Sequence(self.parts[:-1]), self.parts[-1]
        loose = Sequence((*self.parts[:-1], Free()))
        parts = first, loose, last
        return kept(self, vocabulary, lambda: Concatenated(*(part.compile(vocabulary) for part in parts)))


@dataclass(frozen=True)
class Either(_Compiled):
    """One of several specifications."""

    parts: tuple[Part, ...]

    @property
    def pieces(self) -> tuple[Any, ...]:
        """The parts."""
        return self.parts

    @property
    def open_end(self) -> bool:
        """Whether one of the parts is."""
        return any(getattr(part, "open_end", False) for part in self.parts)

    @property
    def may_be_cut(self) -> bool:
        """Whether a budget may cut off the texts of each part."""
        return all(getattr(part, "may_be_cut", False) for part in self.parts)

    def build(self, network: Network) -> int:
        """A fork of all parts."""
        return network.fork([part.build(network) for part in self.parts])


@dataclass(frozen=True)
class Repeat(_Compiled):
    """A specification so many times.

    Raises:
        InputError: the numbers make no sense.
    """

    part: Part
    least: int = 0
    most: int | None = None

    def __post_init__(self) -> None:
        numbers = [self.least] if self.most is None else [self.least, self.most]
        if any(isinstance(n, bool) or not isinstance(n, int) or not 0 <= n <= MAX_TIMES for n in numbers):
            raise InputError(f"repeat takes whole numbers from 0 to {MAX_TIMES}, not {self.least!r} and {self.most!r}")
        if getattr(self.part, "open_end", False):
            raise InputError(f"{self.part!r} goes on to the end of the text, so it cannot be repeated")
        if numbers != sorted(numbers):
            raise InputError(f"repeat({self.least}, {self.most}): the most must not be below the least")

    @property
    def pieces(self) -> tuple[Any, ...]:
        """The part."""
        return (self.part,)

    def build(self, network: Network) -> int:
        """A node that counts.

        Raises:
            InputError: the part can be empty, so that the times it comes cannot be counted.
        """
        from ctrlgen.engine.containers import Between
        from ctrlgen.engine.network import ITEM, RETURN

        part = _part(self.part).build(network)
        if network.cost[part] == 0:
            raise InputError(
                f"{self.part!r} can be empty, so repeat has no meaning; let it read something, and use optional()"
            )
        turn = (RETURN, ITEM, network.fork([RETURN, ITEM]))
        return network.items((), part, self.least, self.most, Between(turn, turn), self.least * network.cost[part])


@dataclass(frozen=True)
class Both(_Compiled):
    """Two patterns or choices at once.

    Raises:
        InputError: one of them is neither.
        UnsatisfiableError: no text satisfies both.
    """

    left: Part
    right: Part

    def __post_init__(self) -> None:
        if self.automaton().is_empty:
            raise UnsatisfiableError(f"no text satisfies both {self.left!r} and {self.right!r}")

    def automaton(self) -> Automaton:
        """The texts that satisfy both."""
        return _intersection(self.left, self.right)

    def build(self, network: Network) -> int:
        """The start node of the intersection in ``network``."""
        from ctrlgen.engine.network import END

        return network.lexeme(self.automaton(), END)


@lru_cache(64)
def _intersection(left: Part, right: Part) -> Automaton:
    return _automaton(left) & _automaton(right)


def _part(value: object) -> Part:
    """A specification that can be part of another."""
    if isinstance(value, str):
        return Text(value)
    if not isinstance(value, Combinable) or not callable(getattr(value, "build", None)):
        raise InputError(
            f"{value!r} cannot be combined; what can: strings, Regex, Choice, Copy, JsonSchema, Grammar, "
            "PackageNames, and combinations"
        )
    return value  # type: ignore[return-value]


def _parts(value: object, kind: type[Sequence] | type[Either]) -> tuple[Part, ...]:
    """The parts of a combination of this kind, so that a >> b >> c is one sequence."""
    return value.parts if isinstance(value, kind) else (_part(value),)


def _automaton(part: Part) -> Automaton:
    from ctrlgen.automaton import Automaton

    if isinstance(part, Text):
        return Automaton.from_strings([part.text.encode()])
    find = getattr(part, "automaton", None)
    if find is None:
        raise InputError(f"& takes patterns, choices and strings, not {part!r}")
    found: Automaton = find()
    return found
