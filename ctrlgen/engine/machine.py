"""A network as a Constraint: a configuration is a symbol and a stack; new steps and rows run kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraint import DEAD
from ctrlgen.engine import kernel_step, kernel_table
from ctrlgen.engine.columns import FORK, HOLES, LEAVE, LETTERS
from ctrlgen.engine.kernel_kept import DOUBTFUL, EMPTY, MAY_END, fill_kept
from ctrlgen.engine.kernel_step import advance_token
from ctrlgen.engine.landings import Landings
from ctrlgen.engine.lexicon import lexicon_of
from ctrlgen.engine.network import END, Network
from ctrlgen.engine.states import FINISHED, WORN_STACKS, WORN_STATES, Configurations, States
from ctrlgen.engine.witness import Witness
from ctrlgen.errors import ComplexityError, UnsatisfiableError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from numpy.typing import NDArray

    from ctrlgen.constraint import Constraint
    from ctrlgen.engine.levels import Levels
    from ctrlgen.engine.network import Phase
    from ctrlgen.engine.phased import Phased
    from ctrlgen.vocabulary import Vocabulary

_MAX_WORK = 1 << 22


class Machine(States):
    """The constraint of a network.

    Args:
        network: the network, over the lexicon of ``vocabulary``.
        start: its start node.
        max_states: ComplexityError beyond it.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        network: Network,
        start: int,
        *,
        max_states: int = 4_000_000,
    ) -> None:
        super().__init__(vocabulary, network.lexicon.lock, max_states=max_states)
        self.network = network
        self._lexicon = network.lexicon
        # who holds the lexicon's lock writes here; one that needs more has arrays of its own
        self._work, self._current, self._after = network.lexicon.scratch
        self._witness = Witness(network, self._run)
        self._landings = Landings(self)
        self._atoms = frozenset(network.atoms)
        self._left: dict[int, int] = {}
        self._filled_in: dict[tuple[int, int], int] = {}
        self._phases: dict[int, Phase | None] = {}
        self._hurried: dict[int, int] = {}
        with self.lock:
            self._run(kernel_step.settled, start, 0, self._after)
        self.start = self._state(((self._after.item(0, 0), self._after.item(0, 1)),))

    def forget_rows(self) -> None:
        """Let go of all rows; they are computed again when needed."""
        super().forget_rows()
        self._single: dict[tuple[int, int], tuple[NDArray[np.uint32], int]] = {}
        self._plain: dict[tuple[int, int], tuple[NDArray[np.uint32], int, int]] = {}

    def witness(self, state: int) -> bytes:
        """A shortest text that ends legally from ``state``, without its control tokens."""
        with self.lock:
            return min((self._witness.of(s, k) for s, k in self._sets[state]), key=lambda w: (len(w), w), default=b"")

    def fill(self, state: int, number: int) -> int:
        """The state after what is filled into a hole; DEAD where the hole is not."""
        known = self._filled_in.get((state, number))
        if known is None:
            with self.lock:
                after = self._read_letter(self._sets[state], HOLES + number)
                known = self._filled_in[state, number] = self._state(after) if after else DEAD
        return known

    # free text

    def leave(self, state: int) -> int:
        """The state after free text that waits for the end token has been left; DEAD where there is none."""
        known = self._left.get(state)
        if known is None:
            with self.lock:
                after = self._read_letter(self._sets[state], LEAVE) if self.network.leaves else ()
                known = self._left[state] = self._state(after) if after else DEAD
        return known

    def phase(self, state: int) -> Phase | None:
        """The free text that a state is in."""
        if state not in self._phases:
            with self.lock:
                found = [self._phase_at(s, k) for s, k in self._branches(self._sets[state])]
            # the one that is left where the model would end, if there is one
            self._phases[state] = max((one for one in found if one), key=lambda one: one.leaves, default=None)
        return self._phases[state]

    def hurry(self, state: int) -> int:
        """The state in which free text goes on with nothing but the nearest end of it; elsewhere the state itself."""
        if self.phase(state) is None:
            return state
        known = self._hurried.get(state)
        if known is None:
            with self.lock:
                known = self._hurried[state] = self._state(self._forced(self._sets[state]))
        return known

    def way_out(self, state: int) -> tuple[int, ...]:
        """The ids that stand for the end of the free text a state is in; none elsewhere.

        They are the end tokens where it waits for these, else the longest token with which the nearest end begins.
        """
        phase = self.phase(state)
        if phase is None:
            return ()
        if phase.leaves:
            return self.vocabulary.eos
        with self.lock:
            places = [one for one in self._branches(self._sets[state]) if self._phase_at(*one) is not None]
            ways = [(self._witness.rest(s, k).tokens, s, k) for s, k in places]
            _, symbol, stack = min(ways)
            text = self._witness.out_of(~symbol, stack) if symbol < 0 else b""
            first = self.vocabulary.encode_greedy(text)[0] if text else self._witness.first_token(symbol, stack)
        return (first,) if first >= 0 else self.vocabulary.eos

    def _branches(self, configurations: Configurations) -> Configurations:
        """The same without forks, where there is free text at all."""
        if not self.network.phases:
            return configurations
        found: set[tuple[int, int]] = set()
        seen: set[tuple[int, int]] = set()
        todo = list(configurations)
        while todo:
            s, k = todo.pop()
            if (s, k) in seen:
                continue
            seen.add((s, k))
            if s < 0 or self.network.kind(s) != FORK:
                found.add((s, k))
                continue
            low, high = self.network.arrays[0][s, 1:3].tolist()
            for branch in self.network.arrays[1][low:high, 2].tolist():
                self._run(kernel_step.settled, branch, k, self._after)
                todo.append((self._after.item(0, 0), self._after.item(0, 1)))
        return tuple(sorted(found))

    def _phase_at(self, symbol: int, stack: int) -> Phase | None:
        return self.network.phases.get(int(self.network.frames[stack, 0])) if symbol < 0 and stack else None

    def _forced(self, configurations: Configurations) -> Configurations:
        """Free text replaced by the nearest way out of it; what is not free stays."""
        network, kept = self.network, []
        ways: list[tuple[int, int, int]] = []
        for symbol, stack in self._branches(configurations):
            phase, parent = self._phase_at(symbol, stack), int(network.frames[stack, 1])
            if phase is None:
                kept.append((symbol, stack))
            else:
                text = network.literal(self._witness.out_of(~symbol, stack), phase.out)
                self._run(kernel_step.settled, text, parent, self._after)
                place = self._after.item(0, 0), self._after.item(0, 1)
                ways.append((self._witness.rest(*place).tokens, *place))
        return tuple(sorted({*kept, min(ways)[1:]}))

    def levels(self, state: int) -> Levels:
        """How many tokens suffice after each text token that ``state`` allows."""
        with self.lock:
            return self._landings.levels(self._sets[state])

    def advance_each(self, state: int, tokens: NDArray[np.int64]) -> NDArray[np.int64]:
        """The states after each of several tokens, int64[n]: ``advance`` of each, most of them in one kernel."""
        after = np.full(len(tokens), DEAD, np.int64)
        texts, alone = self.vocabulary.tokens, np.ones(len(tokens), bool)
        with self.lock:
            if state > FINISHED and len(self._sets[state]) == 1:
                ids = tokens.tolist()
                plain = [0 <= token < len(texts) and bool(texts[token]) and token not in self._eos for token in ids]
                if any(plain):
                    place = np.flatnonzero(plain)
                    followed = self._landings.followed(*self._sets[state][0], tokens[place].tolist())
                    alone[place] = followed[:, 0] > 1
                    place, followed = place[followed[:, 0] == 1], followed[followed[:, 0] == 1]
                    keys = followed[:, 1] << 32 | followed[:, 2]
                    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
                    states = [self._state(((s, k),)) for s, k in followed[first, 1:].tolist()]
                    after[place] = np.array(states, np.int64)[inverse]
            for i in np.flatnonzero(alone).tolist():
                after[i] = self.advance(state, int(tokens[i]))
        return after

    @property
    def worn(self) -> bool:
        """Whether so many states have been met that a new request had better start afresh."""
        return len(self._sets) > WORN_STATES or self.network.stacks > WORN_STACKS

    # cold steps

    def _mask(self, state: int) -> NDArray[np.uint32]:
        configurations = self._sets[state]
        if len(configurations) == 1:  # nearly always, and nearly always the first call gives the row
            (symbol, stack), distinct = configurations[0], self._distinct
            with self.lock, distinct.lock:
                code: int = fill_kept(self.network.table, distinct.place, symbol, stack, 0, True, self._work)
                if code >= 0 and not code & (DOUBTFUL | EMPTY):
                    self._accepts[state] = code & MAY_END != 0
                    row = self._rows[state] = distinct.rows[code >> 3]
                    return row
                # what it asks for is asked for again
        return super()._mask(state)

    def _new_row(self, state: int) -> NDArray[np.uint32]:
        configurations = self._sets[state]
        if len(configurations) == 1:
            row, flags = self._filled(*configurations[0], True)
        else:
            found = [self._row(s, k) for s, k in configurations]
            flags = min(flags & EMPTY for _, flags in found) | max(flags & MAY_END for _, flags in found)
            rows = [*[row for row, _ in found], *([self._end_row] if flags & MAY_END else [])]
            row = self._shared(np.bitwise_or.reduce(rows))
        self._accepts[state] = flags >= MAY_END
        if flags & EMPTY and not self.network.holes.used:  # where something is filled in, there is nothing else
            raise UnsatisfiableError(
                f"no token of the vocabulary can continue here; the constraint wants {self.witness(state)!r}"
            )
        return row

    def _row(self, symbol: int, stack: int) -> tuple[NDArray[np.uint32], int]:
        """The same as ``_filled``, without end ids; kept, since several states often have a configuration in common."""
        found = self._single.get((symbol, stack))
        if found is None:
            found = self._single[symbol, stack] = self._filled(symbol, stack, False)
        return found

    def _filled(self, symbol: int, stack: int, ends: bool) -> tuple[NDArray[np.uint32], int]:
        """The tokens allowed from a configuration, end ids included if wanted, and the flags of ``kernel_kept``."""
        row, flags, asked = self._kept_row(symbol, stack, 0, ends)
        if asked >= 0:
            row, flags = self._name_row(symbol, stack, *divmod(asked, 2))
        if flags & DOUBTFUL:
            row = self._look_again(symbol, stack, row)
        return row, flags

    def _kept_row(self, symbol: int, stack: int, base: int, ends: bool = False) -> tuple[NDArray[np.uint32], int, int]:
        """Run ``fill_kept``: row, flags and -1; or, where a name wants the row of any other, what NEED_BASE asks."""
        distinct = self._distinct
        with distinct.lock:
            while True:
                code = fill_kept(self.network.table, distinct.place, symbol, stack, base, ends, self._work)
                if code >= 0:
                    return distinct.rows[code >> 3], code & 7, -1
                value, kind = divmod(-code - 1, kernel_table.REQUESTS)
                if kind == kernel_table.NEED_BASE:
                    return self._end_row, 0, value
                if kind == kernel_table.NEED_ROWS:
                    distinct.make_room()
                else:
                    self._provide(code)

    def _name_row(self, symbol: int, stack: int, plain: int, blocked: int) -> tuple[NDArray[np.uint32], int]:
        """The row of a name that need not be a declared one.

        All names that no declared or used name begins with share a row; the others copy it and mend what differs.
        """
        distinct = self._distinct
        with distinct.lock:
            # for both rows: between the two none may be let go, since the second names the first by its address
            distinct.make_room(2)
            found = self._plain.get((symbol, plain))
            if found is None:
                row, flags, _ = self._kept_row(symbol, plain, -1)
                found = self._plain[symbol, plain] = row, flags, row.ctypes.data
            row, flags, address = found
            if blocked:
                row, more, _ = self._kept_row(symbol, stack, address)
                flags = more | flags & DOUBTFUL
        return row, flags

    def _look_again(self, symbol: int, stack: int, row: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Without tokens that spell a name twice, which a row does not follow: rare, and judged one by one."""
        tokens, row = self._lexicon.many_quotes, row.copy()
        tokens = tokens[row[tokens >> 5] >> (tokens & 31).astype(np.uint32) & 1 == 1]
        for token in tokens.tolist():
            text = np.frombuffer(self.vocabulary.tokens[token] or b"", np.uint8)
            if not self._step(((symbol, stack),), text):
                row[token >> 5] &= ~np.uint32(1 << (token & 31))
        return self._shared(row)

    def _spell(self, configurations: Configurations, token: int, text: bytes) -> Configurations:
        if len(configurations) != 1:
            return self._step(configurations, np.frombuffer(text, np.uint8))
        s, k = configurations[0]
        while True:
            after = self._after
            code = advance_token(self.network.table, s, k, token, self._current, after, self._work)
            if code == 1:
                return ((after.item(0), after.item(1)),)
            if code >= 0:
                return tuple([(s, k) for s, k in after[:code].tolist()])
            self._provide(code)

    def _step(self, configurations: Configurations, text: NDArray[np.uint8]) -> Configurations:
        while True:
            n = len(configurations)
            if n > len(self._current):
                self._current = np.empty((2 * n, 2), np.int64)
            self._current[:n] = configurations
            code = int(kernel_step.advance(self.network.table, self._current, n, text, self._after, self._work))
            if code == 1:
                return ((self._after.item(0, 0), self._after.item(0, 1)),)
            if code >= 0:
                return tuple((s, k) for s, k in self._after[:code].tolist())
            self._provide(code)

    def _read(self, configurations: Configurations, token: int) -> Configurations:
        return self._read_letter(configurations, LETTERS + token)

    def _read_letter(self, configurations: Configurations, letter: int) -> Configurations:
        current = np.array(configurations, np.int64).reshape(-1, 2)
        while True:
            table, n = self.network.table, len(current)
            code = int(kernel_step.advance_letter(table, current, n, letter, self._after, self._work))
            if code >= 0:
                return tuple((s, k) for s, k in self._after[:code].tolist())
            self._provide(code)

    def _accepting(self, symbol: int, stack: int) -> bool:
        return self._run(kernel_step.accepts, symbol, stack, scratch=True) > 0

    def _run(self, kernel: Callable[..., int], *arguments: object, scratch: bool = False) -> int:
        while True:
            # the scratch array, always the last argument, may have grown since
            code = int(kernel(self.network.table, *arguments, *((self._work,) if scratch else ())))
            if code >= 0:
                return code
            self._provide(code)

    def _provide(self, code: int) -> None:
        """Give a kernel what it asked for."""
        value, kind = divmod(-code - 1, kernel_table.REQUESTS)
        if kind == kernel_table.NEED_NODE:
            self.network.build(value)
        elif kind == kernel_table.NEED_ROW:
            self._lexicon.provide_row(*divmod(value, 256))
        elif kind == kernel_table.NEED_REST:
            self._lexicon.provide_rest(value)
        elif kind == kernel_table.NEED_COUNTED_REST:
            self._lexicon.provide_counted_rest(value)
        elif kind == kernel_table.NEED_FRAMES:
            self.network.grow()
        elif kind == kernel_table.NEED_ROOM and len(self._work) < _MAX_WORK:
            self._work = np.empty((2 * len(self._work), 3), np.int64)
            self._after = np.empty((2 * len(self._after), 2), np.int64)
            self._current = np.empty((2 * len(self._current), 2), np.int64)
        else:
            raise ComplexityError("the constraint is too ambiguous here: too many parses at once; simplify it")

    def _measure(self, state: int) -> int:
        return 1 + min(self._witness.rest(s, k).tokens for s, k in self._sets[state])


def compile_network(
    vocabulary: Vocabulary, build: Callable[[Network], int], fillings: Mapping[Hashable, Constraint] | None = None
) -> Constraint:
    """The constraint of the network that ``build`` makes; build returns its start node.

    Args:
        vocabulary: whose tokens.
        build: makes the network.
        fillings: the constraints of what may be filled in.

    Raises:
        UnsatisfiableError: no string of this vocabulary satisfies it.
        ComplexityError: a limit was reached.
    """
    lexicon = lexicon_of(vocabulary)
    with lexicon.lock:
        network = Network(lexicon)
        network.holes.fillings.update(fillings or {})
        start = build(network)
        if not lexicon.all_bytes:
            network.build_all(100_000)
    machine = Machine(vocabulary, network, start)
    limited = network.leaves or any(one.limit is not None or one.keep for one in network.phases.values())
    if limited and not network.complete:
        raise ComplexityError(
            "free text with max_tokens, keep or until=EOS needs a vocabulary with tokens for each byte of what follows"
        )
    made: Machine | Phased = machine
    if limited:
        from ctrlgen.engine.phased import Phased

        made = Phased(machine)
    if network.holes.used:
        from ctrlgen.engine.filled import Filled

        return Filled(made, tuple(network.holes.used))
    if limited:
        return made
    if network.complete:
        return machine
    from ctrlgen.engine.pruned import Pruned

    return Pruned(machine)


__all__ = ["END", "FINISHED", "Machine", "compile_network"]
