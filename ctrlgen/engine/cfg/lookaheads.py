"""The states of an LR parser and which terminals may follow each rule in them.

LALR(1) lookaheads by DeRemer and Pennello, "Efficient computation of LALR(1) look-ahead sets" (TOPLAS 1982): sets of
terminals are bits of Python ints, and both relations are closed by one pass over their strong components (section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from ctrlgen.engine.cfg.productions import Productions

MAX_STATES = 50_000


class Automaton:
    """The LR(0) automaton of a grammar; rule 0 is the start: its body is the start symbol alone.

    Attributes:
        heads, bodies: the rules, the added one first.
        column: of each nonterminal, in tables.
        moves: for each state {symbol: state}.
        complete: for each state the rules that end there.
        kernels: for each state its items, (rule, symbols read).
    """

    def __init__(self, grammar: Productions) -> None:
        self.root = min([0, grammar.start, *(rule.head for rule in grammar.rules)]) - 1
        self.heads = [self.root, *(rule.head for rule in grammar.rules)]
        self.bodies: list[tuple[int, ...]] = [(grammar.start,), *(rule.body for rule in grammar.rules)]
        self.by_head: dict[int, list[int]] = {}
        for number, head in enumerate(self.heads):
            self.by_head.setdefault(head, []).append(number)
        self.column = {head: at for at, head in enumerate(sorted({*self.heads, grammar.start}))}
        self.nullable = grammar.nullable()
        self.base = [0]
        for body in self.bodies:
            self.base.append(self.base[-1] + len(body) + 1)
        # of each item: its rule, and the symbol after the dot (None at the end)
        self.rule_of = [number for number, body in enumerate(self.bodies) for _ in range(len(body) + 1)]
        self.next_of: list[int | None] = [symbol for body in self.bodies for symbol in (*body, None)]
        self._closure: dict[int, list[int]] = {}
        self._build()

    def _below(self, head: int) -> list[int]:
        """First items of all rules that a text of ``head`` may begin in."""
        known = self._closure.get(head)
        if known is None:
            seen, order = {head}, [head]
            items = []
            for one in order:
                for rule in self.by_head.get(one, ()):
                    items.append(self.base[rule])
                    body = self.bodies[rule]
                    if body and body[0] < 0 and body[0] not in seen:
                        seen.add(body[0])
                        order.append(body[0])
            known = self._closure[head] = items
        return known

    def _build(self) -> None:
        next_of = self.next_of
        number: dict[tuple[int, ...], int] = {(0,): 0}
        self.items: list[tuple[int, ...]] = [(0,)]
        self.moves: list[dict[int, int]] = []
        self.complete: list[list[int]] = []
        for kernel in self.items:
            closure = dict.fromkeys(kernel)
            for item in kernel:
                symbol = next_of[item]
                if symbol is not None and symbol < 0:
                    closure.update(dict.fromkeys(self._below(symbol)))
            after: dict[int, list[int]] = {}
            done = []
            for item in closure:
                symbol = next_of[item]
                if symbol is None:
                    done.append(self.rule_of[item])
                elif symbol in after:
                    after[symbol].append(item + 1)
                else:
                    after[symbol] = [item + 1]
            moves = {}
            for symbol, items in after.items():
                key = tuple(sorted(items))
                state = number.setdefault(key, len(self.items))
                if state == len(self.items):
                    self.items.append(key)
                    if state >= MAX_STATES:
                        raise ComplexityError(
                            f"the grammar needs more than {MAX_STATES} parser states; make it smaller"
                        )
                moves[symbol] = state
            self.moves.append(moves)
            self.complete.append(done)

    def lookaheads(self, end: int) -> list[dict[int, int]]:
        """For each state {rule that ends there: bits of the terminals that may follow}; ``end`` is the end's bit."""
        edges = [(p, symbol) for p, moves in enumerate(self.moves) for symbol in moves if symbol < 0]
        number = {edge: i for i, edge in enumerate(edges)}
        shifts = [sum(1 << s for s in moves if s >= 0) for moves in self.moves]
        direct = [shifts[self.moves[p][a]] for p, a in edges]
        direct[number[0, self.bodies[0][0]]] |= 1 << end
        nullable = self.nullable

        def reads(i: int) -> Iterable[int]:
            p, a = edges[i]
            q = self.moves[p][a]
            return [number[q, c] for c in self.moves[q] if c in nullable]

        includes: list[list[int]] = [[] for _ in edges]
        lookback: list[dict[int, list[int]]] = [{rule: [] for rule in rules} for rules in self.complete]
        trails = [self._trail(rule) for rule in range(len(self.bodies))]
        for i, (p, a) in enumerate(edges):
            for rule in self.by_head.get(a, ()):
                at = p
                for symbol, rest_empty in trails[rule]:
                    if rest_empty:
                        includes[number[at, symbol]].append(i)
                    at = self.moves[at][symbol]
                lookback[at][rule].append(i)
        read = _closed(len(edges), reads, direct)
        follow = _closed(len(edges), includes.__getitem__, read)
        result = []
        for back in lookback:
            here = {}
            for rule, sources in back.items():
                bits = 0
                for i in sources:
                    bits |= follow[i]
                here[rule] = bits
            result.append(here)
        return result

    def _trail(self, rule: int) -> list[tuple[int, bool]]:
        """The symbols of a rule, each with whether it is a nonterminal after which only empty ones come."""
        trail = []
        empty = True
        for symbol in reversed(self.bodies[rule]):
            trail.append((symbol, empty and symbol < 0))
            empty = empty and symbol in self.nullable
        return trail[::-1]


def _closed(count: int, relation: Callable[[int], Iterable[int]], own: list[int]) -> list[int]:
    """F(x) = own(x) | union of F(y) over y related to x; members of a circle share one set."""
    result = list(own)
    depth = [0] * count
    path: list[int] = []
    infinity = count + 1
    for root in range(count):
        if depth[root]:
            continue
        path.append(root)
        depth[root] = len(path)
        work = [(root, iter(relation(root)), len(path))]
        while work:
            x, targets, d = work[-1]
            for y in targets:
                if not depth[y]:
                    path.append(y)
                    depth[y] = len(path)
                    work.append((y, iter(relation(y)), len(path)))
                    break
                depth[x] = min(depth[x], depth[y])
                result[x] |= result[y]
            else:
                work.pop()
                if depth[x] == d:
                    while True:
                        y = path.pop()
                        depth[y] = infinity
                        result[y] = result[x]
                        if y == x:
                            break
                if work:
                    parent = work[-1][0]
                    depth[parent] = min(depth[parent], depth[x])
                    result[parent] |= result[x]
    return result
