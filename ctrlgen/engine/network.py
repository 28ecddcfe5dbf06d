"""Recursive transition networks over bytes: what a specification is compiled to.

Nodes are ints and are built from the end to the front: ``literal(b"x", then)`` is the node that reads x and goes
on at ``then``; END returns to the caller, or ends the text. Equal nodes are one node, so equal remainders of a
text share their rows. Each node knows how many bytes its shortest way to END takes.

    END                           returns
    literal(text, then)           reads text
    strings(texts, then)          reads one of texts
    lexeme(automaton, then)       reads a string of the automaton; least and most count its characters
    call(rule, then)              reads what rule reads, then goes on
    fork(nodes)                   any of nodes
    rule(cost), define(rule, n)   a node to be built later, for recursion
    lazy(build, cost)             a node to be built when a text first meets it
    keys(...)                     reads one of the declared names of an object, or any other name
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.engine.lexicon import Growing
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from ctrlgen.automaton import Automaton
    from ctrlgen.engine.lexicon import Lexicon

END = 0
BLOCKED = -1
_UNBUILT, _BYTES, _CALL, _FORK, _END, _ENTER = range(6)
MAX_FRAMES = 1 << 23


class Network:
    """A network under construction and in use; see the module's docstring.

    Args:
        lexicon: the automata of the vocabulary.
        max_nodes: ComplexityError beyond it.
    """

    def __init__(self, lexicon: Lexicon, *, max_nodes: int = 2_000_000) -> None:
        self.lexicon, self.max_nodes = lexicon, max_nodes
        self._nodes = Growing(self._moved, 5, np.int32)
        self._edges = Growing(self._moved, 3, np.int32)
        # not yet in the arrays: one numpy call for many nodes instead of one for each
        self._new_nodes: list[tuple[int, int, int, int, int]] = []
        self._new_edges: list[tuple[int, int, int]] = []
        self._all_bytes = bool(lexicon.has_byte.all())
        self._frames = Growing(self._moved, 5, np.int32, 1024)
        self._buckets = np.zeros(2048, np.int32)
        self._sizes = np.ones(1, np.int64)
        self._known: dict[Any, int] = {}
        self._based: dict[int, tuple[int, int]] = {}
        self._builders: dict[int, Callable[[], int]] = {}
        self.cost: list[int] = []
        self._cheapest: list[int] = []  # the node or edge on the shortest way
        self.complete = True
        self._arrays: tuple[NDArray[Any], ...] | None = None
        self._new(_END, 0)

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the kernels read and write: nodes, edges, frames, buckets, sizes."""
        if self._new_nodes or self._new_edges:
            self._nodes.extend(np.array(self._new_nodes, np.int32).reshape(-1, 5))
            self._edges.extend(np.array(self._new_edges, np.int32).reshape(-1, 3))
            self._new_nodes, self._new_edges = [], []
        if self._arrays is None:
            self._arrays = self._nodes.array, self._edges.array, self._frames.array, self._buckets, self._sizes
        return self._arrays

    def _moved(self) -> None:
        self._arrays = None

    @property
    def size(self) -> int:
        """Number of nodes built."""
        return len(self.cost)

    @property
    def stacks(self) -> int:
        """Number of stacks met."""
        return int(self._sizes[0]) - 1

    def _new(self, kind: int, cost: int, a: int = 0, b: int = 0, c: int = -1, d: int = 0, via: int = -1) -> int:
        if len(self.cost) >= self.max_nodes:
            raise ComplexityError(
                f"the constraint needs more than max_nodes={self.max_nodes} states; simplify it or raise the limit"
            )
        self.cost.append(cost)
        self._cheapest.append(via)
        self._new_nodes.append((kind, a, b, c, d))
        return len(self.cost) - 1

    def _new_edges_at(self, edges: Sequence[tuple[int, int, int]]) -> int:
        self._new_edges += edges
        return self._edges.n + len(self._new_edges) - len(edges)

    def _bytes(self, edges: Sequence[tuple[int, int, int]], base: int = -1, other: int = 0) -> int:
        """Node with byte edges (low, high, target), target BLOCKED to forbid; base: where all other bytes lead."""
        key = (tuple(edges), base, other)
        node = self._known.get(key)
        if node is None:
            ways = [(self.cost[t] + 1, low) for low, _, t in edges if t >= 0]
            cost, via = min(ways) if ways else (1 << 60, -1)
            if base >= 0:
                cost, via = min((cost, via), self._other_way(edges, base, other))
            if not self._all_bytes and any(
                t >= 0 and not self.lexicon.has_byte[low : high + 1].all() for low, high, t in edges
            ):
                self.complete = False
            at = self._new_edges_at(edges)
            node = self._known[key] = self._new(_BYTES, cost, at, at + len(edges), base, other, via)
            if base >= 0:
                self._based[node] = (base, other)
        return node

    def _other_way(self, edges: Sequence[tuple[int, int, int]], base: int, other: int) -> tuple[int, int]:
        """Cost of the shortest way on through the base, which bytes of the edges do not take, and -3 - its byte."""
        taken = {byte for low, high, _ in edges for byte in range(low, high + 1)}
        likely = self.lexicon.shortest_byte(base)
        if likely not in taken:
            return self.lexicon.shortest[base] + self.cost[other], -3 - likely
        ways = [
            (1 + self.lexicon.shortest[target] + self.cost[other], -3 - byte)
            for byte, target in self.lexicon.ways(base)
            if byte not in taken
        ]
        return min(ways, default=(1 << 60, -1))

    def literal(self, text: bytes, then: int) -> int:
        """Reads ``text``, then goes on at ``then``."""
        for byte in reversed(text):
            then = self._bytes([(byte, byte, then)])
        return then

    def strings(self, texts: Sequence[bytes], then: int) -> int:
        """Reads one of ``texts``; a common start is read once."""
        return self._names([(text, then) for text in sorted(set(texts))], 0, -1, 0)

    def lexeme(self, automaton: Automaton, then: int, *, least: int = 0, most: int | None = None) -> int:
        """Reads a string of ``automaton``.

        With ``least`` or ``most`` the automaton must be one that accepts any number of characters up to a closing
        quote, which is its only accepting state; they count the characters before it.
        """
        start = self.lexicon.enter(automaton)
        self.complete = self.complete and self.lexicon.complete(start)
        key = (_ENTER, start, then, least, most)
        node = self._known.get(key)
        if node is None:
            cost = self.lexicon.shortest[start] + least + self.cost[then]
            node = self._known[key] = self._new(_ENTER, cost, start, then, least, -1 if most is None else most)
        return node

    def call(self, rule: int, then: int) -> int:
        """Reads what ``rule`` reads up to END, then goes on at ``then``."""
        if then == END:
            return rule
        key = (_CALL, rule, then)
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._new(_CALL, self.cost[rule] + self.cost[then], rule, then)
        return node

    def fork(self, nodes: Sequence[int]) -> int:
        """Any of ``nodes`` (at least one)."""
        several = list(dict.fromkeys(nodes))
        if len(several) == 1:
            return several[0]
        key = (_FORK, tuple(several))
        node = self._known.get(key)
        if node is None:
            node = self._known[key] = self._new_fork(several)
        return node

    def _new_fork(self, nodes: list[int], at: int | None = None) -> int:
        cost, via = min((self.cost[n], n) for n in nodes)
        low = self._new_edges_at([(0, 0, node) for node in nodes])
        if at is None:
            return self._new(_FORK, cost, low, low + len(nodes), via=via)
        self.arrays[0][at] = (_FORK, low, low + len(nodes), -1, 0)
        self._cheapest[at] = via
        return at

    def rule(self, cost: int) -> int:
        """A node to be given its meaning by ``define``; cost: bytes of the shortest text that it reads."""
        return self._new(_UNBUILT, cost)

    def define(self, rule: int, node: int) -> None:
        """Give a rule its meaning."""
        self._new_fork([node], at=rule)

    def lazy(self, build: Callable[[], int], cost: int) -> int:
        """A node whose ``build()`` is called when a text first meets it; cost as in ``rule``."""
        node = self._new(_UNBUILT, cost)
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

    def keys(
        self, names: Sequence[tuple[bytes, int | None]], other: int | None = None, body: Automaton | None = None
    ) -> int:
        """Reads one of ``names`` (each with its closing quote) and goes on at the node beside it.

        Args:
            names: (text, then); then None: this name is known but not allowed here.
            other: where any other name goes on; None: no other name is allowed.
            body: automaton of any name with its closing quote, one spelling for each name; needed with ``other``.
        """
        if other is None or body is None:
            return self._names(sorted((text, then) for text, then in names if then is not None), 0, -1, 0)
        base = self.lexicon.enter(body)
        self.complete = self.complete and self.lexicon.complete(base)
        if not names:
            return self.lexeme(body, other)
        marked = sorted((text, BLOCKED if then is None else then) for text, then in names)
        return self._names(marked, 0, base, other)

    def _name(self, text: bytes, then: int, depth: int, base: int, other: int) -> int:
        """The rest of one name from depth on."""
        bases = [base]
        for byte in text[depth:-1]:
            bases.append(self.lexicon.step(bases[-1], byte) if base >= 0 else -1)
        for byte, state in zip(reversed(text[depth:]), reversed(bases), strict=False):
            then = self._bytes(((byte, byte, then),), state, other)
        return then

    def _names(self, names: list[tuple[bytes, int]], depth: int, base: int, other: int) -> int:
        """The trie of sorted names from depth on; iterative from the leaves, so long names cost no recursion."""
        frames: list[tuple[int, int, int, int, list[tuple[int, int, int]], list[int]]] = []
        # each frame: (low, high, depth, base, edges so far, nodes that end here)
        todo: list[tuple[int, int, int, int]] = [(0, len(names), depth, base)]
        done: dict[tuple[int, int, int], int] = {}
        if len(names) == 1:
            return self._name(*names[0], depth, base, other)
        while todo:
            low, high, depth, state = todo.pop()
            if high - low == 1:
                done[(low, high, depth)] = self._name(*names[low], depth, state, other)
                continue
            frames.append((low, high, depth, state, [], []))
            i = low
            while i < high and len(names[i][0]) == depth:
                frames[-1][5].append(names[i][1])
                i += 1
            while i < high:
                byte, j = names[i][0][depth], i
                while j < high and names[j][0][depth] == byte:
                    j += 1
                following = self.lexicon.step(state, byte) if state >= 0 else -1
                frames[-1][4].append((byte, i, j))
                todo.append((i, j, depth + 1, following))
                i = j
        for low, high, depth, state, parts, ends in reversed(frames):
            edges = []
            for byte, i, j in parts:
                target = done[(i, j, depth + 1)]
                edges.append((byte, byte, target))
            if ends == [BLOCKED]:
                node = BLOCKED
            elif ends and not edges:
                node = self.fork(ends)
            else:
                node = self._bytes(edges, state, other)
                node = self.fork([node, *ends]) if ends else node
            done[(low, high, depth)] = node
        return done[(0, len(names), frames[0][2])]

    def base(self, node: int) -> tuple[int, int] | None:
        """For a node of ``keys`` that other names pass: (state of their automaton, where they go on)."""
        return self._based.get(node)

    def witness(self, symbol: int, stack: int) -> bytes:
        """The shortest text from a configuration to the end.

        The choice at each step depends on the configuration alone, so the rest of a witness is the rest's witness.
        """
        out = bytearray()
        frames = self._frames.array
        while True:
            if symbol < 0:
                symbol, stack = self._finish(~symbol, stack, out)
                continue
            kind, a, b, base, other = self.arrays[0][symbol].tolist()
            if kind == _END:
                if stack == 0:
                    return bytes(out)
                symbol, stack = int(frames[stack, 0]), int(frames[stack, 1])
            elif kind == _BYTES and self._cheapest[symbol] >= 0:
                byte = self._cheapest[symbol]
                out.append(byte)
                symbol = next(t for low, high, t in self.arrays[1][a:b].tolist() if low <= byte <= high)
            elif kind == _BYTES:
                byte = -3 - self._cheapest[symbol]
                out.append(byte)
                stack = self.push(other, stack)
                frames = self._frames.array
                symbol = ~self.lexicon.step(base, byte)
            elif kind == _FORK:
                symbol = self._cheapest[symbol]
            elif kind == _UNBUILT:
                self.build(symbol)
            else:
                stack = self.push(b, stack, *((base, other) if kind == _ENTER else (0, -1)))
                frames = self._frames.array
                symbol = ~a if kind == _ENTER else a

    def _finish(self, state: int, stack: int, out: bytearray) -> tuple[int, int]:
        """Append the shortest way out of an automaton; the configuration after it."""
        least = int(self._frames.array[stack, 2])
        while True:
            if least > 0 and self.lexicon.boundary(state):
                # characters still needed: the cheapest is any byte that is a character of its own
                byte, state = self._one_character(state)
                least -= 1
            elif self.lexicon.final(state):
                return int(self._frames.array[stack, 0]), int(self._frames.array[stack, 1])
            else:
                byte = self.lexicon.shortest_byte(state)
                state = self.lexicon.step(state, byte)
                least -= self.lexicon.boundary(state)
            out.append(byte)

    def _one_character(self, state: int) -> tuple[int, int]:
        for byte in range(0x20, 0x7F):
            target = self.lexicon.step(state, byte)
            if target >= 0 and self.lexicon.boundary(target) and not self.lexicon.final(target):
                return byte, target
        raise ComplexityError("a counted string needs a character of one byte")

    def push(self, back: int, parent: int, least: int = 0, most: int = -1) -> int:
        """The frame (back, parent, least, most), interned."""
        from ctrlgen.engine.kernel_table import push_frame

        while True:
            frame = int(push_frame(self._frames.array, self._buckets, self._sizes, back, parent, least, most))
            if frame >= 0:
                return frame
            self.grow_frames()

    def grow_frames(self) -> None:
        """Double the room for frames and rehash them."""
        from ctrlgen.engine.kernel_table import intern_again

        used = int(self._sizes[0])
        if used >= MAX_FRAMES:
            raise ComplexityError(f"more than {MAX_FRAMES} parser stacks are in use; start a new constraint")
        old = self._frames.array
        frames = np.zeros((2 * len(old), 5), np.int32)
        buckets, sizes = np.zeros(4 * len(old), np.int32), np.ones(1, np.int64)
        intern_again(old, used, frames, buckets, sizes)
        self._frames.array, self._buckets, self._sizes = frames, buckets, sizes
        self._arrays = None
