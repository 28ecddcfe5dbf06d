"""A grammar as a Constraint.

A configuration is (lexer state, stack). There is one of them nearly always: two where a longer match may still turn
out to be none (``/`` or the beginning of ``/* ... */``), more where a grammar is ambiguous.
"""

from __future__ import annotations

import threading
from copy import copy
from typing import TYPE_CHECKING, Literal

import numpy as np

from ctrlgen.engine.cfg.adjacency import Adjacency
from ctrlgen.engine.cfg.completion import Completion
from ctrlgen.engine.cfg.lexer import Language, Lexer
from ctrlgen.engine.cfg.store import Store
from ctrlgen.engine.cfg.tables import Tables, tables_of
from ctrlgen.engine.states import FINISHED, WORN_STACKS, WORN_STATES, Configurations, States
from ctrlgen.errors import UnsatisfiableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.vocabulary import Vocabulary

MAX_STATES = 4_000_000
WALK_BYTES = 256 << 20
SEARCHED_STATES = 400
"""Larger parsers are not searched for dead ends that a resolved conflict makes: a search takes milliseconds."""


class GrammarMachine(States):
    """The constraint of a grammar.

    Args:
        vocabulary: whose tokens.
        language: the grammar.
    """

    def __init__(self, vocabulary: Vocabulary, language: Language, tables: Tables) -> None:
        super().__init__(vocabulary, threading.RLock(), max_states=MAX_STATES)
        self.language, self.tables = language, tables
        scanners, scanner_of = _scanners(language, tables)
        self.store = Store(vocabulary, Lexer(language), tables, scanners, scanner_of)
        if self._strict(scanner_of):
            self.store.make_strict()
        self._begin()

    def _begin(self) -> None:
        """Start where no state has been met."""
        from ctrlgen.engine.cfg.kernel_live import begin

        self._current = np.empty((4096, 2), np.int32)
        self._after = np.empty((4096, 2), np.int32)
        self._work = np.empty((1 << 16, 2), np.int32)
        self.completion = Completion(self.store, self.tables)
        self.store.judge = self._can_end
        self.start = self._state(((self.store.run(begin, 0, 0), 0),))

    def renewed(self) -> GrammarMachine:
        """The same constraint, which has met no state, but knows what this one knows about the vocabulary."""
        new = copy(self)
        with self.lock:
            new.store = self.store.renewed()
        new.lock = threading.RLock()
        new._forget()
        new._begin()
        return new

    def witness(self, state: int) -> bytes:
        """A short text that ends legally from ``state``."""
        with self.lock:
            return b"" if state == FINISHED else self.completion.text(self._sets[state])

    def can_end(self, state: int) -> bool:
        """Whether any text ends legally from ``state``."""
        with self.lock:
            return state == FINISHED or any(self.completion.ends(s, k) for s, k in self._sets[state])

    @property
    def worn(self) -> bool:
        """Whether so many states have been met that a new request had better start afresh."""
        return len(self._sets) > WORN_STATES or int(self.store["counts"][8]) > WORN_STACKS

    # cold steps

    def _step(self, configurations: Configurations, text: NDArray[np.uint8]) -> Configurations:
        from ctrlgen.engine.cfg.kernel_mask import advance

        count = len(configurations)
        store, current, after = self.store, self._current, self._after
        while True:
            if count == 1:
                current[0] = configurations[0]
            else:
                current[:count] = configurations
            code = int(advance(store.table, current, count, text, after))
            if code >= 0:
                break
            store.provide(-code - 1)
        found = current if len(text) & 1 else after
        if code == 1:
            return ((found.item(0, 0), found.item(0, 1)),)
        return tuple(sorted((s, k) for s, k in found[:code].tolist()))

    def _accepting(self, symbol: int, stack: int) -> bool:
        from ctrlgen.engine.cfg.kernel_live import may_end

        return bool(self.store.run(may_end, symbol, stack))

    def _new_row(self, state: int) -> NDArray[np.uint32]:
        from ctrlgen.engine.cfg.kernel_mask import kept_row

        store, distinct, configurations = self.store, self._distinct, self._sets[state]
        if store.grown and store.walk_bytes > WALK_BYTES:
            store.forget_walks()
        store.grown = False
        count = len(configurations)
        while True:
            self._current[:count] = configurations
            with distinct.lock:
                distinct.make_room()
                code = int(kept_row(store.table, distinct.place, self._current, count, self._work))
                if code > 0:
                    self._accepts[state] = code & 1 == 0
                    return distinct.rows[(code - 1) >> 1]
            if code == 0:
                raise UnsatisfiableError("no token of the vocabulary can continue here")
            store.provide(-code - 1)

    def _measure(self, state: int) -> int:
        """Find a text to an end, and note on all states along it how many tokens are left."""
        start = state
        path = self.vocabulary.encode_greedy(self.witness(state))
        for number, token in enumerate(path):
            left = len(path) - number + 1
            self._distance[state] = min(left, self._distance.get(state, left))
            state = self.advance(state, token)
        self._distance[state] = 1
        return self._distance[start]

    def _can_end(self, s: int, k: int) -> bool:
        return self.completion.ends(s, k)

    def _strict(self, scanner_of: list[int]) -> bool:
        """Whether a parser that takes a terminal may still be in a dead end, so that each step must be searched.

        That is so where rules never end or a terminal is hidden by others that are tried first, unless states tell
        which these are; and, in parsers of at most ``SEARCHED_STATES``, where a conflict was resolved or a terminal
        cannot be followed by all that may come.
        """
        productions, store = self.language.productions, self.store
        tried, here = self._terminals_here()
        found, missed = 0, 0
        for bits, reached in zip(tried, here, strict=True):
            found |= reached
            missed |= bits & ~reached
        store.adjacency = Adjacency(store, self.tables, scanner_of, here)
        store.adjacency.judge()
        store.close_again()
        if missed & found:
            return True
        hidden = {t for t in range(self.tables.terminals) if missed >> t & 1}
        kept = productions.useful().without(hidden)
        if len(kept.rules) < len(productions.rules) and not store.forbid(kept, self.tables):
            return True
        if len(self.tables.accepts) > SEARCHED_STATES:
            return False
        _, free = self._terminals_here(free=True)
        blocked = any(bits & ~missed & ~reached for bits, reached in zip(tried, free, strict=True))
        return blocked or self.tables.conflicts > 0

    def _terminals_here(self, *, free: bool = False) -> tuple[list[int], list[int]]:
        """By scanner, as bits: the terminals of rules that it tries, and those that it finds (and ends free)."""
        from ctrlgen.engine.cfg.kernel_lexer import close
        from ctrlgen.engine.cfg.kernel_store import intern_state

        store, words = self.store, self.store["accept"].shape[1]
        used = sum(1 << t for t in {s for rule in self.language.productions.rules for s in rule.body if s >= 0})
        states = [store.run(intern_state, store.begin_list(number), 0) for number in range(len(store.scanners))]
        store.run(close)
        half = slice(0, words) if free else slice(words, None)
        found = [int.from_bytes(store["reach"][state, half].tobytes(), "little") & used for state in states]
        return [tried & used for tried in store.scanners], found


def _scanners(language: Language, tables: Tables) -> tuple[list[int], list[int]]:
    """The sets of terminals (as bits) that are tried together, and which of them each parser state tries."""
    count = language.productions.terminals
    everything = (1 << count) - 1
    ignored = sum(1 << terminal for terminal in language.ignored)
    if language.lexer == "basic":
        return [everything], [0] * len(tables.accepts)
    if language.lexer == "parallel":
        ignored = 0
    number: dict[int, int] = {}
    of = [number.setdefault(accepts & everything | ignored, len(number)) for accepts in tables.accepts]
    return list(number), of


def compile_language(vocabulary: Vocabulary, language: Language) -> Constraint:
    """The constraint of a grammar.

    Raises:
        UnsatisfiableError: no text of this vocabulary matches it.
        SpecificationError: a parser that looks one terminal ahead cannot decide between two rules.
        ComplexityError: a limit was reached.
    """
    if not language.productions.rules and not language.empty:
        raise UnsatisfiableError("no text matches the grammar: its start rule never comes to an end")
    kept: Literal["shift", "all"] = "all" if language.lexer == "parallel" else "shift"
    tables = tables_of(language.productions, conflicts=kept, shown=language.shown, empty=language.empty)
    machine = GrammarMachine(vocabulary, language, tables)
    if not machine.can_end(machine.start):
        raise UnsatisfiableError("no text matches the grammar, as its terminals are told apart")
    if vocabulary.has_byte.all() or not machine.store["available"].all():
        return machine
    from ctrlgen.engine.pruned import Pruned

    return Pruned(machine)
