"""The names that members may have beside the declared ones, in classes that patterns and propertyNames tell apart."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.facts import content
from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


MAX_CLASSES = 64
"""Most classes of names that may be told apart in one object."""

MAX_NAME_STATES = 4_000
"""Most states of such a class."""

MAX_FINITE = 256
"""A class of so many names is told name by name; a larger one counts as if it had no end."""

Condition = tuple[str, Any]
"""("pattern", the pattern) or ("names", the goal that the name must meet as a string)."""


def classes(
    conditions: Mapping[Condition, Automaton],
    unwanted: Callable[[frozenset[Condition]], bool],
    everything: Automaton,
    pointer: str,
) -> list[tuple[Automaton | None, frozenset[Condition]]]:
    """All names, by the conditions they fulfil; None if they all fulfil the same ones.

    Args:
        conditions: the canonical content of the names that fulfil each.
        unwanted: tells of the conditions that a class fulfils whether no member of it is allowed.
        everything: the canonical content of all names there are.
        pointer: where the schema stands.

    Raises:
        ComplexityError: there are too many classes, or they take too many states.
    """
    anything = json_body("canonical").signature
    split = {c: automaton for c, automaton in conditions.items() if automaton.signature != anything}
    always = frozenset(conditions) - frozenset(split)
    if not split:
        return [(None, always)]
    rest = everything
    found: list[tuple[Automaton | None, frozenset[Condition]]] = []
    last = next(reversed(split))
    try:
        for condition, automaton in split.items():
            parts = [(_met(rest, automaton), always | {condition})]
            for names, met in found:
                assert names is not None
                parts.append((_met(names, automaton), met | {condition}))
                parts.append((names.difference(automaton, max_states=MAX_NAME_STATES), met))
            found = [(names, met) for names, met in parts if not names.is_empty]
            if condition != last or not unwanted(always):
                rest = rest.difference(automaton, max_states=MAX_NAME_STATES)
            if len(found) > MAX_CLASSES:
                raise ComplexityError(
                    f"the patterns tell more than {MAX_CLASSES} classes of names apart "
                    "(a fixed limit); use fewer of them, or patterns that exclude each other"
                )
    except ComplexityError as error:
        raise ComplexityError(f"#{pointer}/patternProperties: {error}") from error
    if not unwanted(always) and not rest.is_empty:
        found.append((rest, always))
    return found


def _met(names: Automaton, condition: Automaton) -> Automaton:
    return names.intersection(condition, max_states=MAX_NAME_STATES)


def without(names: Automaton, taken: Iterable[str]) -> Automaton:
    """The names of a class that are not taken."""
    among = [text for name in taken if names.matches(text := content(name))]
    return names - Automaton.from_strings(among) if among else names


def finite(names: Automaton, limit: int = MAX_FINITE) -> list[str] | None:
    """The names of a class, None if they are more than ``limit``."""
    if not 0 <= int(names.endings(limit + 1)[0]) <= limit:
        return None
    texts: list[bytes] = []
    todo = [(0, b"")]
    while todo:
        state, text = todo.pop()
        if names.accepting[state]:
            texts.append(text)
        row = names.columns[state, names.classes]
        todo += [(int(row[byte]), text + bytes((byte,))) for byte in np.flatnonzero(row >= 0).tolist()]
    return [json.loads(b'"' + text + b'"') for text in sorted(texts)]


def has_loop(names: Automaton) -> bool:
    """Whether there are names without end."""
    return bool(names.endings(1)[0] < 0)


def lengths_of(names: Automaton, count: int) -> list[int]:
    """The lengths in bytes of the ``count`` shortest names, fewer if there are fewer."""
    from ctrlgen.automaton_kernel import lengths

    found: list[int] = lengths(names.columns, names.class_sizes, names.accepting, count, 4_096).tolist()
    return found
