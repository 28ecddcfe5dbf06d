"""How many bytes, about, a stack still needs.

The cost of a stack is the least over the items at its top: what the item still has to read, then the cost of the stack
once its rule has ended. Rules of one symbol lead to a stack of the same height, so stacks over one base are solved
together, lower ones first (Dijkstra's algorithm on the reversed moves, as each move adds a cost).
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlgen.engine.cfg.store import Store
    from ctrlgen.engine.cfg.tables import Tables

INFINITE = 1 << 40


class StackCosts:
    """Costs of stacks; ``terminal_costs`` are bytes of the shortest text of each terminal."""

    def __init__(self, tables: Tables, terminal_costs: Sequence[int]) -> None:
        self.tables, automaton = tables, tables.automaton
        self.column = automaton.column
        self.terminal_costs = terminal_costs
        self.yields = _yields(automaton.heads, automaton.bodies, terminal_costs)
        # of each item: what is left to read
        left = []
        for body in automaton.bodies:
            rest = [0]
            for symbol in reversed(body):
                rest.append(min(INFINITE, rest[-1] + self.cost(symbol)))
            left += rest[::-1]
        # of each state: (symbols read, left side, cost), the cheapest of each pair
        self.ways: list[list[tuple[int, int, int]]] = []
        for items in automaton.items:
            best: dict[tuple[int, int], int] = {}
            for item in items:
                rule = automaton.rule_of[item]
                key = (item - automaton.base[rule], automaton.heads[rule])
                best[key] = min(best.get(key, INFINITE), left[item])
            self.ways.append([(read, head, cost) for (read, head), cost in best.items()])
        self.known: dict[int, int] = {}

    def cost(self, symbol: int) -> int:
        """Bytes of the shortest text of a symbol."""
        return self.terminal_costs[symbol] if symbol >= 0 else self.yields.get(symbol, INFINITE)

    def of(self, store: Store, stack: int) -> int:
        """The cost of a stack of ``store``."""
        todo = [stack]
        while todo:
            if todo[-1] in self.known:
                todo.pop()
                continue
            moves, done, lower = self._level(store, todo[-1])
            if lower:
                todo += lower
                continue
            self._settle(moves, done)
        return self.known[stack]

    def _level(self, store: Store, stack: int) -> tuple[dict[int, list[tuple[int, int]]], dict[int, int], list[int]]:
        """All stacks over the same base that this one may become: where each leads to, the costs known without them,
        and lower stacks whose cost must be known first.
        """
        from ctrlgen.engine.cfg.kernel_parser import replaced

        moves: dict[int, list[tuple[int, int]]] = {stack: []}
        done: dict[int, int] = {}
        lower = []
        order = [stack]
        for one in order:
            state = store["frames"].item(one, 0)
            for read, head, cost in self.ways[state]:
                if not read or head == self.tables.automaton.root:
                    done[one] = min(done.get(one, INFINITE), cost)
                    continue
                count = store.run(replaced, one, read, self.column[head])
                for after in store["results"][:count].tolist():
                    if after in self.known:
                        done[one] = min(done.get(one, INFINITE), cost + self.known[after])
                    elif read > 1:
                        lower.append(after)
                    else:
                        moves[one].append((after, cost))
                        if after not in moves:
                            moves[after] = []
                            order.append(after)
        return moves, done, lower

    def _settle(self, moves: dict[int, list[tuple[int, int]]], done: dict[int, int]) -> None:
        sources: dict[int, list[tuple[int, int]]] = {}
        for one, targets in moves.items():
            for after, cost in targets:
                sources.setdefault(after, []).append((one, cost))
        heap = [(cost, one) for one, cost in done.items()]
        heapq.heapify(heap)
        while heap:
            cost, one = heapq.heappop(heap)
            if one in self.known:
                continue
            self.known[one] = cost
            for source, more in sources.get(one, ()):
                if source not in self.known:
                    heapq.heappush(heap, (cost + more, source))
        for one in moves:
            self.known.setdefault(one, INFINITE)


def _yields(heads: Sequence[int], bodies: Sequence[tuple[int, ...]], terminal_costs: Sequence[int]) -> dict[int, int]:
    """The least cost of each nonterminal (Knuth's generalisation of Dijkstra's algorithm)."""
    users: dict[int, list[int]] = {}
    missing = []
    cost = []
    heap: list[tuple[int, int]] = []
    for rule, body in enumerate(bodies):
        missing.append(sum(symbol < 0 for symbol in body))
        cost.append(sum(terminal_costs[symbol] for symbol in body if symbol >= 0))
        for symbol in body:
            if symbol < 0:
                users.setdefault(symbol, []).append(rule)
        if not missing[rule]:
            heapq.heappush(heap, (cost[rule], heads[rule]))
    result: dict[int, int] = {}
    while heap:
        value, head = heapq.heappop(heap)
        if head in result:
            continue
        result[head] = value
        for rule in users.get(head, ()):
            missing[rule] -= 1
            cost[rule] += value
            if not missing[rule]:
                heapq.heappush(heap, (cost[rule], heads[rule]))
    return result
