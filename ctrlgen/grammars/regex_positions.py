"""Postfix instructions -> positions: what a pattern can read, and what can follow it (Glushkov's construction).

A position reads one character, or checks a condition between two characters. Sets of positions are Python ints used as
bit sets. Position 0 is the end of the pattern.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.characters import EVERYTHING, CharacterSet
from ctrlgen.grammars.regex_syntax import Ahead, Characters, Edge, EdgeKind, Instruction, Join, Repeat

END = 1
"""The bit of position 0."""

_WORK = 1_500_000  # bits looked at before giving up: about a second


class Budget:
    """Steps left before a compilation gives up."""

    def __init__(self, steps: int = _WORK) -> None:
        self.steps = self.left = steps

    def spend(self, steps: int) -> None:
        """Count ``steps``; raises ComplexityError when none are left."""
        self.left -= steps
        if self.left < 0:
            raise ComplexityError(
                f"the regular expression takes more than {self.steps} steps to compile (no option raises this "
                "limit); make repeats smaller or split the expression"
            )


def bits(members: int) -> Iterator[int]:
    """The members of a bit set, in order."""
    while members:
        low = members & -members
        yield low.bit_length() - 1
        members ^= low


class Fragment(NamedTuple):
    """Part of a pattern.

    Args:
        first: bit set of the positions it can begin with.
        last: bit set of those it can end with.
        nullable: whether it matches the empty string unconditionally.
        begin, end: its positions are begin..end-1.
    """

    first: int
    last: int
    nullable: bool
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class LookAhead:
    """A condition on what follows: that it starts, or does not start, with the pattern beginning at ``first``."""

    first: int
    negative: bool


@dataclass
class Positions:
    """All positions of a pattern.

    Args:
        items: what each position reads or checks; None for position 0.
        follow: bit set of the positions that may come after each position.
        first: bit set of the positions the pattern can begin with (position 0 if it matches the empty string).
        tail: bit of the position that reads what comes after a match, 0 if nothing may.
    """

    limit: int
    budget: Budget = field(default_factory=Budget)
    items: list[CharacterSet | Edge | LookAhead | None] = field(default_factory=lambda: [None])
    follow: list[int] = field(default_factory=lambda: [0])
    first: int = 0
    tail: int = 0

    def evaluate(self, instructions: Sequence[Instruction], *, search: bool) -> None:
        """Fill in everything.

        Raises:
            ComplexityError: more than ``limit`` positions.
        """
        stack: list[Fragment] = []
        for instruction in instructions:
            if isinstance(instruction, Characters):
                stack.append(self._place(instruction.members))
            elif isinstance(instruction, Edge):
                stack.append(self._place(instruction))
            elif isinstance(instruction, Ahead):
                stack.append(self._look(stack.pop(), instruction.negative))
            elif isinstance(instruction, Repeat):
                stack.append(self._repeat(stack.pop(), instruction.low, instruction.high))
            else:
                parts = [stack.pop() for _ in range(instruction.count)][::-1]
                stack.append(self._join(parts) if isinstance(instruction, Join) else self._either(parts))
        whole = stack.pop()
        if search:
            whole = self._unanchored(whole)
        self.first = self._close(whole)

    def _close(self, fragment: Fragment) -> int:
        """Let the fragment end the pattern; the bit set of the positions it begins with."""
        for position in bits(fragment.last):
            self.follow[position] |= END
        return fragment.first | (END if fragment.nullable else 0)

    def _place(self, item: CharacterSet | Edge | LookAhead) -> Fragment:
        position = len(self.items)
        if position > self.limit:
            self._refuse(position)
        self.items.append(item)
        self.follow.append(0)
        return Fragment(1 << position, 1 << position, False, position, position + 1)

    def _refuse(self, count: int) -> None:
        raise ComplexityError(
            f"with its repeats written out the regular expression has {count} or more characters, the limit is "
            f"max_states={self.limit}; raise max_states or make repeats smaller"
        )

    def _look(self, fragment: Fragment, negative: bool) -> Fragment:
        placed = self._place(LookAhead(self._close(fragment), negative))
        return Fragment(placed.first, placed.last, False, fragment.begin, placed.end)

    def _connect(self, last: int, first: int) -> None:
        self.budget.spend(last.bit_count())
        for position in bits(last):
            self.follow[position] |= first

    def _join(self, parts: Sequence[Fragment]) -> Fragment:
        if not parts:
            return Fragment(0, 0, True, len(self.items), len(self.items))
        whole = parts[0]
        for part in parts[1:]:
            self._connect(whole.last, part.first)
            whole = Fragment(
                whole.first | part.first if whole.nullable else whole.first,
                whole.last | part.last if part.nullable else part.last,
                whole.nullable and part.nullable,
                whole.begin,
                part.end,
            )
        return whole

    def _either(self, parts: Sequence[Fragment]) -> Fragment:
        first = last = 0
        for part in parts:
            first, last = first | part.first, last | part.last
        return Fragment(first, last, any(part.nullable for part in parts), parts[0].begin, parts[-1].end)

    def _repeat(self, part: Fragment, low: int, high: int | None) -> Fragment:
        size = part.end - part.begin
        if high == 0 or not size:
            return Fragment(0, 0, True, part.begin, part.end)
        # a part that matches the empty string: between 0 and high copies, each of them not empty
        low = 0 if part.nullable else low
        copies = high if high is not None else max(low, 1)
        if len(self.items) + size * (copies - 1) > self.limit + 1:
            self._refuse(len(self.items) + size * (copies - 1))
        parts = [part, *(self._copy(part, size * number) for number in range(1, copies))]
        last = 0
        for number, (one, following) in enumerate(zip(parts, [*parts[1:], None], strict=True), start=1):
            if number >= low:
                last |= one.last
            if following is not None:
                self._connect(one.last, following.first)
        if high is None:
            self._connect(parts[-1].last, parts[-1].first)
        return Fragment(part.first, last, low == 0, part.begin, parts[-1].end)

    def _copy(self, part: Fragment, shift: int) -> Fragment:
        """Append the fragment's positions once more. Nothing outside follows them yet, except END inside look-aheads,
        whose positions are only ever entered in the original.
        """
        inside = slice(part.begin, part.end)
        self.budget.spend(part.end - part.begin)
        self.items += self.items[inside]
        self.follow += [following << shift for following in self.follow[inside]]
        return Fragment(part.first << shift, part.last << shift, part.nullable, part.begin + shift, part.end + shift)

    def _unanchored(self, part: Fragment) -> Fragment:
        """The pattern anywhere in a text, without ways to skip that its own anchors rule out."""
        if part.nullable or not self._all_edges(part.first, "start"):
            before = self._repeat(self._place(EVERYTHING), 0, None)
            part = self._join([before, part])
        if part.nullable or not self._all_edges(part.last, "end"):
            after = self._repeat(self._place(EVERYTHING), 0, None)
            self.tail = after.first
            part = self._join([part, after])
        return part

    def _all_edges(self, positions: int, kind: EdgeKind) -> bool:
        return all(self.items[position] == Edge(kind) for position in bits(positions))
