"""The guard of commands and of import statements as one Constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.guard.constraint import GuardConstraint
from ctrlgen.guard.imports import import_scanner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.guard.scanner import Scanner
    from ctrlgen.index.name_index import NameIndex
    from ctrlgen.vocabulary import Vocabulary


class ImportGuardConstraint(GuardConstraint):
    """Adds to a GuardConstraint that import statements in Python code name only known modules.

    Args:
        modules: the names of modules in the form of PEP 503.

    Raises:
        VocabularyError: as GuardConstraint.
    """

    origin = (0,) * 8

    def __init__(self, scanner: Scanner, index: NameIndex, modules: NameIndex, vocabulary: Vocabulary) -> None:
        self.imports, self.modules = import_scanner(), modules
        self._both = scanner.tables, index.layout.walk, self.imports.tables, modules.layout.walk
        super().__init__(scanner, index, vocabulary)
        self._require(modules.alphabet - {0x2D} | {0x5F} if 0x2D in modules.alphabet else modules.alphabet)

    def in_name(self, state: int) -> bool:
        """Whether the text so far ends within a name, whole or not, of a package or a module."""
        return super().in_name(state) or self._in_module(state)

    def _in_module(self, state: int) -> bool:
        return state > 0 and bool(self.imports.in_name[self._positions[state][4]])

    def _finished(self, state: int) -> bool:
        if not super()._finished(state):
            return False
        _, e, d, bits = self._positions[state][4:]
        return not self._in_module(state) or self._complete(self.modules, e, d, bits)

    def rest(self, state: int) -> bytes:
        """The bytes that finish the name that is being written; empty outside of names."""
        if self.accepts(state) or not self._in_module(state):
            return super().rest(state)
        _, e, d, _ = self._positions[state][4:]
        return self.modules.rest_below(e, d).replace(b"-", b"_")

    def _step(self, position: tuple[int, ...], text: bytes) -> tuple[int, ...] | None:
        from ctrlgen.guard.import_kernel import take_text_both

        place = np.array(position, np.int64)
        allowed = take_text_both(*self._both, place, np.frombuffer(text, np.uint8))
        return tuple(place.tolist()) if allowed else None

    def _measure(self, position: tuple[int, ...], left: NDArray[np.int32]) -> None:
        from ctrlgen.guard.import_kernel import lengths_both

        commands, packages, imports, modules = self._both
        trie: Any = self.vocabulary.trie
        lengths_both(
            commands, packages, self.index.layout.shortest, imports, modules, self.modules.layout.shortest,
            trie.nodes, trie.tokens, trie.longest, np.array(position, np.int64), left,
        )  # fmt: skip
