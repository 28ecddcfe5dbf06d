"""A grammar as ints: terminals are 0, 1, ..., nonterminals -1, -2, ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Body = tuple[int, ...]


@dataclass(frozen=True)
class Production:
    """One way to write nonterminal ``head`` (negative); ``priority`` decides between two reductions."""

    head: int
    body: Body
    priority: int = 0


@dataclass(frozen=True)
class Productions:
    """A grammar.

    Args:
        terminals: number of terminals.
        start: the nonterminal that a text must match.
        rules: all rules, without duplicates.
    """

    terminals: int
    start: int
    rules: tuple[Production, ...]

    def useful(self) -> Productions:
        """Without the rules that no text can finish, and those that ``start`` does not reach."""
        able = _productive(self.rules)
        finite = [rule for rule in self.rules if all(s >= 0 or s in able for s in rule.body)]
        reached, todo = {self.start}, [self.start]
        by_head: dict[int, list[Production]] = {}
        for rule in finite:
            by_head.setdefault(rule.head, []).append(rule)
        while todo:
            for rule in by_head.get(todo.pop(), ()):
                for symbol in rule.body:
                    if symbol < 0 and symbol not in reached:
                        reached.add(symbol)
                        todo.append(symbol)
        return Productions(self.terminals, self.start, tuple(rule for rule in finite if rule.head in reached))

    def without(self, hidden: set[int]) -> Productions:
        """The useful rules that do without some terminals."""
        kept = tuple(rule for rule in self.rules if not hidden.intersection(rule.body))
        return Productions(self.terminals, self.start, kept).useful()

    def nullable(self) -> set[int]:
        """The nonterminals that the empty string matches."""
        empty = [rule for rule in self.rules if all(symbol < 0 for symbol in rule.body)]
        return _productive(empty)

    def without_empty(self) -> Productions:
        """The same texts except the empty one, without rules for the empty string and without circular renaming.

        A parser that follows all ways at once comes to an end on every such grammar. Rules are first cut into pairs,
        so that n parts that may be missing cost 4n rules, not 2^n.
        """
        rules = _paired(self)
        nullable = Productions(self.terminals, self.start, tuple(rules)).nullable()
        kept: dict[tuple[int, Body], None] = {}
        for rule in rules:
            bodies: list[Body] = [()]
            for symbol in rule.body:
                bodies = [(*b, symbol) for b in bodies] + (bodies if symbol in nullable else [])
            for body in bodies:
                if body and body != (rule.head,):
                    kept[rule.head, body] = None
        return _without_cycles(self, list(kept)).useful()


def _productive(rules: Sequence[Production]) -> set[int]:
    """The nonterminals from which ``rules`` make a string of terminals."""
    missing = []
    users: dict[int, list[int]] = {}
    able: set[int] = set()
    todo: list[int] = []
    for number, rule in enumerate(rules):
        needs = {symbol for symbol in rule.body if symbol < 0}
        missing.append(len(needs))
        for symbol in needs:
            users.setdefault(symbol, []).append(number)
        if not needs:
            todo.append(rule.head)
    while todo:
        head = todo.pop()
        if head in able:
            continue
        able.add(head)
        for number in users.get(head, ()):
            missing[number] -= 1
            if not missing[number]:
                todo.append(rules[number].head)
    return able


def _paired(grammar: Productions) -> list[Production]:
    """The rules with bodies of two symbols at most; equal ends share their helper."""
    heads = [symbol for rule in grammar.rules for symbol in (rule.head, *rule.body)]
    fresh = min([0, grammar.start, *heads]) - 1
    helper: dict[Body, int] = {}
    rules: list[Production] = []
    for rule in grammar.rules:
        head, body = rule.head, rule.body
        while len(body) > 2:
            rest = body[1:]
            known = rest in helper
            name = helper.setdefault(rest, fresh)
            rules.append(Production(head, (body[0], name)))
            if known:
                body = ()
                break
            fresh -= 1
            head, body = name, rest
        else:
            rules.append(Production(head, body))
    return rules


def _without_cycles(grammar: Productions, rules: list[tuple[int, Body]]) -> Productions:
    """Nonterminals that are only other names of each other, in a circle, become one."""
    unit: dict[int, list[int]] = {}
    for head, body in rules:
        if len(body) == 1 and body[0] < 0:
            unit.setdefault(head, []).append(body[0])
    name = _components(unit)

    def one(symbol: int) -> int:
        return name.get(symbol, symbol)

    merged: dict[tuple[int, Body], None] = {}
    for head, body in rules:
        new = (one(head), tuple(one(symbol) for symbol in body))
        if new[1] != (new[0],):
            merged[new] = None
    return Productions(grammar.terminals, one(grammar.start), tuple(Production(h, b) for h, b in merged))


def _components(edges: dict[int, list[int]]) -> dict[int, int]:
    """A representative for each node on a circle (Tarjan's components, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    name: dict[int, int] = {}
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        path.append(root)
        on_path.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(edges.get(target, ()))))
                    break
                if target in on_path:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while True:
                        member = path.pop()
                        on_path.discard(member)
                        name[member] = node
                        if member == node:
                            break
    return name
