"""What a schema says, with goals in the place of the schemas within it, and the older spellings put into today's."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton

Json = Any

Goal = tuple[int, ...]
"""Sorted numbers of schemas that must be met, and below zero of those that must not; () is any value."""

Facts = dict[str, Any]
"""By keyword. ``allOf`` holds references too, ``members`` what is said of members, ``item rule`` of items, ``if`` all
three of if, then and else, ``contains`` its limits too."""

NEVER: Goal = (0,)
"""The goal of the schema false."""


def both(*goals: Goal) -> Goal:
    """The goal of meeting all of ``goals``.

    >>> both((1, 2), (-3, 2)), both((1,), (-1,))
    ((-3, 1, 2), (0,))
    """
    found = [goal for goal in goals if goal]
    if len(found) <= 1:
        return found[0] if found else ()
    literals = {literal for goal in found for literal in goal}
    if 0 in literals or any(-literal in literals for literal in literals):
        return NEVER
    return tuple(sorted(literals))


@dataclass(frozen=True)
class Listed:
    """The values of enum or const; equal if they are written alike (1 is not true)."""

    values: list[Json] = field(compare=False)
    text: bytes

    @classmethod
    def of(cls, values: list[Json]) -> Listed:
        """From the values."""
        return cls(values, to_json(values))


@dataclass(frozen=True)
class ItemRule:
    """What one schema says of the items of an array: the first ones in turn, then all others."""

    first: tuple[Goal, ...]
    others: Goal


@dataclass(frozen=True)
class MemberRule:
    """What one schema says of the members of an object.

    Args:
        named: (name, goal) of declared members, in order.
        patterns: (pattern, goal): what members whose name the pattern finds must meet.
        others: what all other members must meet.
    """

    named: tuple[tuple[str, Goal], ...]
    patterns: tuple[tuple[str, Goal], ...]
    others: Goal

    @cached_property
    def goals(self) -> dict[str, Goal]:
        """The goals of the declared members."""
        return dict(self.named)


@dataclass(frozen=True)
class Contains:
    """Some items, from one place on, are counted.

    Args:
        goal: what the counted ones meet.
        least: fewest of them.
        most: most of them, None for no limit.
        start: the first place that counts.
    """

    goal: Goal
    least: int = 1
    most: int | None = None
    start: int = 0


def content(text: str) -> bytes:
    """A string as JSON writes it between the quotes, in the canonical spelling.

    >>> content('say "hi"')
    b'say \\\\"hi\\\\"'
    """
    return encode_basestring(text)[1:-1].encode()


def any_content() -> Automaton:
    """The content of any JSON string."""
    return json_body("all")
