"""What is filled into a network, by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.errors import ComplexityError, InputError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ctrlgen.constraint import Constraint


class Holes:
    """The constraints that may be filled in, and those that are, in the order in which they were first met."""

    def __init__(self) -> None:
        self.fillings: dict[Hashable, Constraint] = {}
        self.used: list[Constraint] = []

    def number(self, what: Hashable, all_bytes: bool) -> int:
        """The number of what is filled in.

        Raises:
            InputError: it cannot be.
            ComplexityError: the vocabulary lacks single bytes.
        """
        if what not in self.fillings:
            raise InputError(f"{what!r} cannot stand here: what it is part of is not compiled with it")
        if not all_bytes:
            raise ComplexityError("a grammar or list of names within something needs tokens for all single bytes")
        filling = self.fillings[what]
        if filling not in self.used:
            self.used.append(filling)
        return self.used.index(filling)

    def cost(self, number: int) -> int:
        """Number of tokens that certainly suffice for what is filled in."""
        filling = self.used[number]
        return filling.distance(filling.start) - 1
