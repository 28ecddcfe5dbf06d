"""Recursive transition networks over bytes: what a specification is compiled to.

Nodes are ints and are built from the end to the front: ``literal(b"x", then)`` is the node that reads x and goes
on at ``then``; END returns to the caller, or ends the text. Equal nodes are one node, so equal remainders of a
text share their rows. Each node knows how many bytes a short way to END takes.

    END                           returns
    letters(edges)                reads a control token, or nothing where who decodes says so
    hole(what)                    reads what another constraint reads (engine/filled.py)
    literal(text, then)           reads text
    strings(texts, then)          reads one of texts
    branches(ways)                reads one of several texts, each going on in its own way
    lexeme(automaton, then)       reads a string of the automaton; least and most count its characters
    part(spans, then)             reads a part of a text; least and most count its units
    call(rule, then)              reads what rule reads, then goes on
    fork(nodes)                   any of nodes
    rule(cost), define(rule, n)   a node to be built later, for recursion
    lazy(build, cost)             a node to be built when a text first meets it
    members(...), items(...)      the members of an object, the items of an array (engine/containers.py)

What stands between the members of an object, or the items of an array, are nodes as well: they go on at RETURN where
the object or array is over, at NAME or ITEM where the next member's name or the next item begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ctrlgen.engine import columns as kinds
from ctrlgen.engine.beginning import FIRST_NODES, FRAMES, GROWING, LAYOUT, PAIRS, RECORD_BUCKETS, RECORDS, SIZES
from ctrlgen.engine.containers import Containers, at_most
from ctrlgen.engine.growing import Growing
from ctrlgen.engine.holes import Holes
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from ctrlgen.automaton import Automaton
    from ctrlgen.engine.containers import Between, Members
    from ctrlgen.engine.lexicon import Lexicon
    from ctrlgen.spans import Spans

END, RETURN, NAME, ITEM = range(4)


class Phase(NamedTuple):
    """A free text, or one of the ways in which it may end."""

    number: int
    """The same for all ways of one free text."""
    limit: int | None
    """The most tokens of it; None for no limit."""
    out: int
    """Node to go on at once it has had that many, and this way has been spelled out."""
    leaves: bool
    """Whether it is left by LEAVE, which reads nothing."""
    keep: float = 0
    """Tokens of a budget that are for what follows; below 1: the share of it."""


class Beginning(NamedTuple):
    """The nodes that a network has had so far, for another over the same lexicon to begin with."""

    nodes: bytes
    edges: bytes
    known: dict[Any, int]
    cost: list[int]
    cheapest: list[int]
    complete: bool


MAX_FRAMES = 1 << 22


class Network:
    """A network under construction and in use; see the module's docstring.

    Args:
        lexicon: the automata of the vocabulary.
        max_nodes: ComplexityError beyond it.
    """

    def __init__(self, lexicon: Lexicon, *, max_nodes: int = 2_000_000) -> None:
        self.lexicon, self.max_nodes = lexicon, max_nodes
        self._lexicon_table = lexicon.table
        self._block, self._table = LAYOUT.block(lexicon.table_bytes)
        self._stale: set[int] = set()
        moved, block = self._moved, self._block
        tables = [
            Growing(moved, columns, dtype, rows, number, block[place])
            for number, (columns, dtype, rows, place) in GROWING
        ]
        self._nodes, self._edges, *containers, self._span_states, self._span_edges = tables
        self.containers = Containers(containers)
        self._nodes.n = len(FIRST_NODES)
        self._views: dict[int, NDArray[Any]] = {}
        self._all_bytes = lexicon.all_bytes
        self._spans: list[tuple[int, Spans]] = []  # the first state of each
        self._known: dict[Any, int] = {}
        self.atoms: set[int] = set()
        self.phases: dict[int, Phase] = {}
        self.holes = Holes()
        self._builders: dict[int, Callable[[], int]] = {}
        self.cost: list[int] = [cost for _, cost in FIRST_NODES]
        self._cheapest: list[int] = [-1] * len(FIRST_NODES)  # the node or edge on the shortest way
        self.complete = True

    @property
    def fresh(self) -> bool:
        """Whether nothing has been built."""
        return len(self.cost) == len(FIRST_NODES) and not self._edges.n

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels read and write: ``kernel_table.COLUMNS`` from nodes on."""
        return (
            self._nodes.array,
            self._edges.array,
            *[self._fixed(number) for number in range(FRAMES, RECORD_BUCKETS + 1)],
            *self.containers.arrays,
            self._span_states.array,
            self._span_edges.array,
        )

    @property
    def table(self) -> NDArray[np.int64]:
        """Addresses and shapes of all arrays that the kernels read; it is brought up to date when one has moved."""
        lexicon = self.lexicon.table
        if self._lexicon_table is not lexicon:
            self._lexicon_table = lexicon
            self._table[: len(lexicon)] = lexicon
        if self._stale:
            from ctrlgen.engine.kernel_table import NETWORK_COLUMNS, line_of

            arrays = self.arrays
            for number in self._stale:
                self._table[len(lexicon) + number] = line_of(NETWORK_COLUMNS[number], arrays[number])
            self._stale.clear()
        return self._table

    def _fixed(self, number: int) -> NDArray[Any]:
        """An array that does not grow by itself."""
        view = self._views.get(number)
        if view is None:
            view = self._views[number] = LAYOUT.view(self._block, number)
        return view

    @property
    def frames(self) -> NDArray[np.int64]:
        """The frames interned so far; ``kernel_table`` says what they hold."""
        return self._fixed(FRAMES)

    @property
    def records(self) -> NDArray[np.int64]:
        """The records of objects; ``kernel_records`` says what they hold."""
        return self._fixed(RECORDS)

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Texts and sets of texts; ``kernel_table`` says what they hold."""
        return self._fixed(PAIRS)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many cells of frames, pairs and records are used, and what the last row may have taken too easily."""
        return self._fixed(SIZES)

    def _moved(self, number: int) -> None:
        self._stale.add(number)

    @property
    def size(self) -> int:
        """Number of nodes built."""
        return len(self.cost)

    @property
    def stacks(self) -> int:
        """Number of stacks met."""
        return int(self.sizes[0]) - 1

    def _new(self, kind: int, cost: int, a: int = 0, b: int = 0, c: int = -1, d: int = 0, via: int = -1) -> int:
        if len(self.cost) >= self.max_nodes:
            raise ComplexityError(
                f"the constraint needs more than max_nodes={self.max_nodes} states; simplify it or raise the limit"
            )
        self.cost.append(cost)
        self._cheapest.append(via)
        self._nodes.append(kind, a, b, c, d)
        return len(self.cost) - 1

    def _new_edges_at(self, edges: Sequence[tuple[int, int, int]]) -> int:
        first = self._edges.n
        for edge in edges:
            self._edges.append(*edge)
        return first

    def _bytes(self, edges: Sequence[tuple[int, int, int]]) -> int:
        """Node with byte edges (low, high, target)."""
        if len(edges) == 1 and edges[0][0] == edges[0][1]:
            return self._byte(edges[0][0], edges[0][2])
        key = tuple(edges)
        node = self._known.get(key)
        if node is None:
            # to leave a free text takes no byte
            cost, via = min((self.cost[t] + (low != kinds.LEAVE), low) for low, _, t in edges)
            if not self._all_bytes and any(not self.lexicon.has_byte[low : high + 1].all() for low, high, _ in edges):
                self.complete = False
            at = self._new_edges_at(edges)
            node = self._known[key] = self._new(kinds.BYTES, cost, at, at + len(edges), via=via)
        return node

    def _byte(self, byte: int, then: int) -> int:
        """Node with one edge, for one byte or other letter."""
        key = byte, then
        node = self._known.get(key)
        if node is None:
            if not self._all_bytes and byte < kinds.LETTERS and not self.lexicon.has_byte[byte]:
                self.complete = False
            at = self._edges.append(byte, byte, then)
            cost = self.cost[then] + (byte != kinds.LEAVE)
            node = self._known[key] = self._new(kinds.BYTES, cost, at, at + 1, via=byte)
        return node

    def literal(self, text: bytes, then: int) -> int:
        """Reads ``text``, then goes on at ``then``."""
        for byte in reversed(text):
            then = self._known.get((byte, then)) or self._byte(byte, then)
        return then

    def letters(self, edges: Sequence[tuple[int, int]]) -> int:
        """Reads one of several letters that are no bytes, each with the node to go on at (at least one).

        A letter is LETTERS + the id of a control token, or LEAVE; see ``columns``.
        """
        known = dict(edges)
        self.atoms |= {letter - kinds.LETTERS for letter in known if letter != kinds.LEAVE}
        return self._bytes([(letter, letter, known[letter]) for letter in sorted(known)])

    def hole(self, what: Hashable) -> int:
        """Reads what is filled in here."""
        number = self.holes.number(what, self._all_bytes)
        node = self._byte(kinds.HOLES + number, END)
        self.cost[node] = self.holes.cost(number)
        return node

    @property
    def leaves(self) -> bool:
        """Whether some free text is left by LEAVE."""
        return any(phase.leaves for phase in self.phases.values())

    def free(self, automaton: Automaton, then: int, phase: Phase) -> int:
        """Reads a string of ``automaton`` as part of a free text."""
        # a node of its own, so that the frames of this text are told from others
        place = self.rule(self.cost[then])
        self.define(place, then)
        self.phases[place] = phase
        return self.lexeme(automaton, place)

    def strings(self, texts: Sequence[bytes], then: int) -> int:
        """Reads one of ``texts``; a common start is read once."""
        return self.branches([(text, then) for text in texts])

    def branches(self, ways: Sequence[tuple[bytes, int]]) -> int:
        """Reads one of several texts (at least one), each going on at the node beside it."""
        return self._branches(sorted(set(ways)))

    def lexeme(self, automaton: Automaton, then: int, *, least: int = 0, most: int | None = None) -> int:
        """Reads a string of ``automaton``.

        With ``least`` or ``most`` the automaton must be one that accepts any number of characters up to a closing
        quote, which is its only accepting state; they count the characters before it.
        """
        start = self.lexicon.enter(automaton)
        self.complete = self.complete and self.lexicon.complete(start)
        key = (kinds.ENTER, start, then, least, most)
        node = self._known.get(key)
        if node is None:
            cost = self.lexicon.shortest[start] + least + self.cost[then]
            node = self._known[key] = self._new(kinds.ENTER, cost, start, then, least, at_most(most))
        return node

    def part(self, spans: Spans, then: int, *, least: int = 1, most: int | None = None) -> int:
        """Reads a part of a text, of at least ``least`` (1 or more) and at most ``most`` units, which there must be."""
        first = next((first for first, known in self._spans if known is spans), None)
        if first is None:
            first, edge = self._span_states.n, self._span_edges.n
            self._span_states.extend(spans.states + np.array([edge, edge, 0, 0, 0, 0], np.int32))
            self._span_edges.extend(spans.edges + np.array([0, first], np.int32))
            self._spans.append((first, spans))
        least, most = least - spans.begun, -1 if most is None else at_most(most) - spans.begun
        self.complete = self.complete and bool(self.lexicon.has_byte[spans.bytes_used].all())
        key = (kinds.ENTER_SPAN, first, then, least, most)
        node = self._known.get(key)
        if node is None:
            cost = len(spans.ending(spans.start, least)) + self.cost[then]
            node = self._known[key] = self._new(kinds.ENTER_SPAN, cost, first + spans.start, then, least, most)
        return node

    def spans_at(self, state: int) -> tuple[Spans, int]:
        """The parts of which ``state`` (SPAN and more) is a state, and its number there."""
        first, spans = next(one for one in reversed(self._spans) if one[0] <= state - kinds.SPAN)
        return spans, state - kinds.SPAN - first

    def call(self, rule: int, then: int) -> int:
        """Reads what ``rule`` reads up to END, then goes on at ``then``."""
        if then == END:
            return rule
        key = (kinds.CALL, rule, then)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._new(kinds.CALL, self.cost[rule] + self.cost[then], rule, then)
        return node

    def fork(self, nodes: Sequence[int]) -> int:
        """Any of ``nodes`` (at least one)."""
        several = list(dict.fromkeys(nodes))
        if len(several) == 1:
            return several[0]
        key = (kinds.FORK, tuple(several))
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._new_fork(several)
        return node

    def _new_fork(self, nodes: list[int]) -> int:
        via = nodes[0]
        for node in nodes:
            if (self.cost[node], node) < (self.cost[via], via):
                via = node
        low = self._edges.n
        for node in nodes:
            self._edges.append(0, 0, node)
        return self._new(kinds.FORK, self.cost[via], low, low + len(nodes), via=via)

    def rule(self, cost: int) -> int:
        """A node to be given its meaning by ``define``; cost: bytes of the shortest text that it reads."""
        return self._new(kinds.UNBUILT, cost)

    def define(self, rule: int, node: int) -> None:
        """Give a rule its meaning."""
        at = self._edges.append(0, 0, node)
        self._nodes.write(rule, kinds.FORK, at, at + 1, -1, 0)
        self._cheapest[rule] = node

    def lazy(self, build: Callable[[], int], cost: int) -> int:
        """A node whose ``build()`` is called when a text first meets it; cost as in ``rule``."""
        node = self._new(kinds.UNBUILT, cost)
        self._builders[node] = build
        return node

    def build(self, node: int) -> None:
        """Build a lazy node now; does nothing for others."""
        builder = self._builders.pop(node, None)
        if builder is not None:
            self.define(node, builder())

    def build_all(self, limit: int) -> bool:
        """Build lazy nodes until none is left or ``limit`` have been built; whether none is left."""
        for _ in range(limit):
            if not self._builders:
                return True
            self.build(next(iter(self._builders)))
        return not self._builders

    def _branches(self, ways: list[tuple[bytes, int]]) -> int:
        """The trie of sorted texts; iterative from the leaves, so long texts cost no recursion."""
        if len(ways) == 1:
            return self.literal(*ways[0])
        frames: list[tuple[int, int, int, list[tuple[int, int, int]], list[int]]] = []
        # each frame: (low, high, depth, parts by byte, nodes that end here)
        todo: list[tuple[int, int, int]] = [(0, len(ways), 0)]
        done: dict[tuple[int, int, int], int] = {}
        while todo:
            low, high, depth = todo.pop()
            if high - low == 1:
                text, then = ways[low]
                done[low, high, depth] = self.literal(text[depth:], then)
                continue
            frames.append((low, high, depth, [], []))
            i = low
            while i < high and len(ways[i][0]) == depth:
                frames[-1][4].append(ways[i][1])
                i += 1
            while i < high:
                byte, j = ways[i][0][depth], i
                while j < high and ways[j][0][depth] == byte:
                    j += 1
                frames[-1][3].append((byte, i, j))
                todo.append((i, j, depth + 1))
                i = j
        for low, high, depth, parts, ends in reversed(frames):
            edges = [(byte, byte, done[i, j, depth + 1]) for byte, i, j in parts]
            done[low, high, depth] = self.fork([*([self._bytes(edges)] if edges else []), *ends])
        return done[0, len(ways), 0]

    def beginning(self) -> Beginning:
        """What has been built so far, if that is neither objects nor anything lazy."""
        built = self._nodes.to_bytes(), self._edges.to_bytes()
        return Beginning(*built, {**self._known}, [*self.cost], [*self._cheapest], self.complete)

    def begin_with(self, beginning: Beginning) -> None:
        """Have the nodes of another network; in this one nothing has been built."""
        self._nodes.n = self._edges.n = 0
        self._nodes.extend_bytes(beginning.nodes)
        self._edges.extend_bytes(beginning.edges)
        self._known, self.complete = {**beginning.known}, beginning.complete
        self.cost, self._cheapest = [*beginning.cost], [*beginning.cheapest]

    # objects and arrays

    def members(self, members: Members, between: Between, cost: int) -> int:
        """Reads the members of an object up to its closing bracket; the opening one has been read.

        Args:
            members: which members there may be.
            between: what stands before, between and after them; its nodes go on at RETURN or NAME.
            cost: bytes of a short text, the closing bracket included.
        """
        start = -1
        if members.others is not None:
            start = self.lexicon.enter_names(members.others.names)
            self.complete = self.complete and self.lexicon.complete(start)
        finite = start >= 0 and self.lexicon.finite(start, len(members.others.names.accepting))  # type: ignore[union-attr]
        if not self._all_bytes and not all(
            self.lexicon.has_byte[list(slot.name)].all() for slot in members.slots if slot.ways
        ):
            self.complete = False
        number = self.containers.number_of_objects
        after = self._new(kinds.AFTER_MEMBER, cost, number, *between.later)
        name = self._new(kinds.NAME, cost, number)
        taken = [finite and self.lexicon.takes(start, slot.name) for slot in members.slots]
        self.containers.add_object(members, start, finite, taken, after, name)
        return self._new(kinds.BEGIN_OBJECT, cost, number, *between.first)

    def items(
        self, first: Sequence[int], rest: int | None, least: int, most: int | None, between: Between, cost: int
    ) -> int:
        """Reads the items of an array up to its closing bracket; the opening one has been read.

        Args:
            first: nodes of the first items, each up to END.
            rest: node of any other item; None: there are no others, and ``most`` says so.
            least: fewest items.
            most: most items, None for no limit.
            between: as for ``members``; its nodes go on at RETURN or ITEM.
            cost: bytes of a short text, the closing bracket included.
        """
        number = self.containers.number_of_arrays
        after = self._new(kinds.AFTER_ITEM, cost, number, *between.later)
        self.containers.add_array(first, rest, least, most, after)
        return self._new(kinds.BEGIN_ARRAY, cost, number, *between.first)

    def kind(self, node: int) -> int:
        """The kind of a node, as in ``columns``."""
        return int(self._nodes.array[node, 0])

    def is_name(self, symbol: int) -> bool:
        """Whether a settled configuration with this symbol is within the name of a member."""
        return symbol in self.containers.name_nodes

    def cheapest(self, node: int) -> int:
        """The byte (of BYTES) or node (of FORK) on the short way to END."""
        return self._cheapest[node]

    def grow(self) -> None:
        """Double the room for frames, pairs and records, and intern them again."""
        from ctrlgen.engine.kernel_table import intern_again

        frames, pairs, records, _ = self.sizes.tolist()
        if max(frames, pairs) >= MAX_FRAMES or records >= 16 * MAX_FRAMES:
            raise ComplexityError(f"more than {MAX_FRAMES} parser stacks are in use; start a new constraint")
        old = self.frames, self.pairs, self.records
        # a record can be larger than a quarter of the room: then all grow
        grown = [4 * used > len(room) for used, room in zip((frames, pairs, records), old, strict=True)]
        sizes = [len(room) * (2 if more or not any(grown) else 1) for more, room in zip(grown, old, strict=True)]
        shapes = ((sizes[0], 7), (sizes[1], 4), (sizes[2],))
        buckets = [_power(size) for size in (sizes[0], sizes[1], sizes[2] // 16)]
        for number, shape, count in zip((FRAMES, PAIRS, RECORDS), shapes, buckets, strict=True):
            # each is followed by its buckets
            self._views[number], self._views[number + 1] = np.zeros(shape, np.int64), np.zeros(count, np.int64)
            self._stale |= {number, number + 1}
        self.sizes[:3] = 1
        intern_again(self.table, *old, frames, pairs, records)


def _power(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << max(n - 1, 1).bit_length()
