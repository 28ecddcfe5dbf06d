"""Compiled constraints, kept by (specification, vocabulary) so that equal requests share their states and rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ctrlgen.engine.machine import compile_network

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.network import Network
    from ctrlgen.vocabulary import Vocabulary

KEPT = 64
"""Number of compiled constraints kept; the one unused for longest goes first."""

_kept: OrderedDict[tuple[Hashable, Vocabulary], Constraint] = OrderedDict()
_lock = threading.Lock()


def compiled(
    specification: Hashable, vocabulary: Vocabulary, build: Callable[[Network], int], within: Iterable[Any] = ()
) -> Constraint:
    """The constraint of a specification, compiled at its first use over a vocabulary.

    Args:
        specification: anything hashable that equals another exactly if both mean the same.
        vocabulary: the vocabulary, its width included.
        build: makes the network and returns its start node.
        within: specifications that are filled in.
    """

    def make() -> Constraint:
        made = compile_network(vocabulary, build, {one: one.compile(vocabulary) for one in within})
        if getattr(specification, "may_be_cut", False):
            made.may_be_cut = True  # type: ignore[attr-defined]
        return made

    return kept(specification, vocabulary, make)


def kept(specification: Hashable, vocabulary: Vocabulary, make: Callable[[], Constraint]) -> Constraint:
    """The same for any constraint: what ``make`` made at the first use."""
    key = (specification, vocabulary)
    with _lock:
        known = _kept.pop(key, None)
        # states are never forgotten, so one used for very long is replaced; who still holds it keeps it
        if known is not None and not getattr(known, "worn", False):
            _kept[key] = known
            return known
    # outside the lock: another thread may compile the same meanwhile, which costs time but no correctness
    constraint = make()
    with _lock:
        constraint = _kept.setdefault(key, constraint)
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return constraint
