"""Automata on disk, for those that many schemas use and that take long to build."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.cache import load_arrays, store_arrays

if TYPE_CHECKING:
    from collections.abc import Callable


def stored(key: str, build: Callable[[], Automaton]) -> Automaton:
    """The automaton kept under a key, built at its first use.

    Args:
        key: all that it depends on, a version too.
        build: builds it.
    """
    arrays = load_arrays(f"automaton 1 {key}")
    if arrays is not None:
        classes = arrays["classes"].astype(np.intp)
        return Automaton.from_columns(arrays["columns"], classes, arrays["accepting"], arrays["boundary"])
    automaton = build()
    store_arrays(
        f"automaton 1 {key}",
        {
            "columns": automaton.columns,
            "classes": automaton.classes.astype(np.int32),
            "accepting": automaton.accepting,
            "boundary": automaton.boundary,
        },
    )
    return automaton
