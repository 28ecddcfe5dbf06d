"""Shapes as nodes of a network: the JSON text of a value, left to right.

Declared names come in their order, optional ones may be left out, then come other names. A name has one spelling, so
no declared name can slip in as another. Blanks are bounded.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ctrlgen.constraints.schema.cost import (
    IMPOSSIBLE,
    ArrayPlan,
    Costs,
    ObjectPlan,
    any_name,
    any_text,
    name_text,
    scalar,
)
from ctrlgen.constraints.schema.shapes import Array, Given, Number, Object, Shape, Text
from ctrlgen.engine.network import END
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from ctrlgen.automaton import Automaton
    from ctrlgen.constraints.schema.flat import Demand
    from ctrlgen.engine.network import Network

Whitespace = Literal["compact", "line", "pretty"]
MAX_RUN = 20
"""Most blanks in a row in pretty-printed text."""


@cache
def blanks() -> Automaton:
    """Up to MAX_RUN blanks, tabs and line ends."""
    return compile_regex(rf"[ \t\n\r]{{0,{MAX_RUN}}}", dialect="ecma")


class Writer:
    """Writes demands into a network; equal demands become one node.

    Args:
        network: where to.
        costs: shapes and shortest documents.
        whitespace: "compact" (none), "line" (one blank may follow each : and ,) or "pretty" (runs of up to 20 blanks,
            tabs and line ends between all parts).
    """

    def __init__(self, network: Network, costs: Costs, whitespace: Whitespace) -> None:
        self.network, self.costs, self.whitespace = network, costs, whitespace
        self._values: dict[Demand, int] = {}
        self._blanks = blanks()
        self._plans: dict[tuple[str, Shape], Any] = {}
        self._places: dict[tuple[Any, ...], int] = {}

    def value(self, demand: Demand) -> int:
        """The node that reads one value, up to END; it is built when a text first comes there."""
        if demand not in self._values:
            self._values[demand] = self.network.lazy(lambda: self._value(demand), self.costs.cost(demand))
        return self._values[demand]

    def _value(self, demand: Demand) -> int:
        return self.network.fork([node for shape in self.costs.shapes(demand) for node in self._shape(shape)])

    def _shape(self, shape: Shape) -> list[int]:
        network = self.network
        if isinstance(shape, Given):
            return self._given(shape)
        if isinstance(shape, Number):
            return [network.lexeme(self.costs.number(shape), END)]
        if isinstance(shape, Text):
            if shape.patterns:
                return [network.literal(b'"', network.lexeme(self.costs.text(shape), END))]
            return [network.literal(b'"', network.lexeme(any_text(), END, least=shape.least, most=shape.most))]
        if isinstance(shape, Array):
            return [network.literal(b"[", self._array(shape, 0))]
        return [network.literal(b"{", self._object(shape, 0, 0))]

    # blanks: where they may stand depends on the style alone

    def _blank(self, then: int, *, after_mark: bool = False) -> int:
        """Blanks between parts, then ``then``; after_mark: after a comma or colon."""
        if self.whitespace == "pretty":
            return self.network.lexeme(self._blanks, then)
        if self.whitespace == "line" and after_mark:
            return self.network.fork([then, self.network.literal(b" ", then)])
        return then

    def _mark(self, mark: bytes, then: int) -> int:
        return self.network.literal(mark, self._blank(then, after_mark=True))

    # given values

    def _given(self, shape: Given) -> list[int]:
        plain = [text for value in shape.values if not _deep(value) for text in _texts(value)]
        nodes = [self.network.strings(plain, END)] if plain else []
        return nodes + [self._constant(value, END) for value in shape.values if _deep(value)]

    def _constant(self, value: Any, then: int) -> int:
        if not _deep(value):
            return self.network.strings(_texts(value), then)
        opening, closing = (b"[", b"]") if value[0] == "array" else (b"{", b"}")
        then = self.network.literal(closing, then)
        if len(value) > 1:
            then = self._blank(then)
        for i in range(len(value) - 1, 0, -1):
            if value[0] == "array":
                then = self._constant(value[i], then)
            else:
                name, part = value[i]
                colon = self._mark(b":", self._constant(part, then))
                then = self.network.literal(name_text(name), self._blank(colon))
            if i > 1:
                then = self._blank(self._mark(b",", then))
        return self.network.literal(opening, self._blank(then))

    # arrays

    def _array(self, shape: Array, k: int) -> int:
        """After k items (k = 0: after the bracket)."""
        plan = self._plan(ArrayPlan, "array", shape)
        if shape.most is None:
            k = min(k, max(plan.settled, 1))
        key = ("array", shape, k)
        if key not in self._places:
            self._places[key] = self.network.lazy(lambda: self._after_items(plan, k), plan.cost(k))
        return self._places[key]

    def _after_items(self, plan: ArrayPlan, k: int) -> int:
        nodes = []
        if plan.may_close(k):
            nodes.append(self.network.literal(b"]", END))
        if plan.may_go_on(k):
            item = self.network.call(self.value(plan.demand(k)), self._array(plan.shape, k + 1))
            nodes.append(item if k == 0 else self._mark(b",", item))
        return self._blank(self.network.fork(nodes))

    # objects

    def _object(self, shape: Object, i: int, c: int) -> int:
        """After c members, the declared names before the i-th done with (c = 0: after the brace)."""
        plan = self._plan(ObjectPlan, "object", shape)
        c = min(c, plan.cap)
        key = ("object", shape, i, c)
        if key not in self._places:
            self._places[key] = self.network.lazy(lambda: self._after_members(plan, i, c), plan.rest[i][c])
        return self._places[key]

    def _after_members(self, plan: ObjectPlan, i: int, c: int) -> int:
        nodes = []
        if plan.may_close(i, c):
            nodes.append(self.network.literal(b"}", END))
        if plan.keys[i][c] < IMPOSSIBLE:
            names = self.network.literal(b'"', self._names(plan, i, c))
            nodes.append(names if c == 0 else self._mark(b",", names))
        return self._blank(self.network.fork(nodes))

    def _names(self, plan: ObjectPlan, i: int, c: int) -> int:
        end = plan.window(i)
        offered = {p for p in range(i, end) if plan.member(p, c) < IMPOSSIBLE}
        open_end = end == len(plan.texts) and (not plan.needed or not any(plan.needed[i:]))
        others = [(names, self._other(plan, demand, c)) for names, demand in plan.others] if open_end else []
        others = [(names, node) for names, node in others if node is not None]
        if others and others[0][0] is None:
            entries = [(text, self._member(plan, p, c) if p in offered else None) for p, text in enumerate(plan.texts)]
            return self.network.keys(entries, others[0][1], any_name())
        nodes = [self.network.lexeme(names, node) for names, node in others if names is not None and node is not None]
        if offered:
            nodes.append(self.network.keys([(plan.texts[p], self._member(plan, p, c)) for p in sorted(offered)]))
        return self.network.fork(nodes)

    def _member(self, plan: ObjectPlan, p: int, c: int) -> int:
        """After the name of member p."""
        demand = plan.shape.names[p][1]
        return self._colon(self.network.call(self.value(demand), self._object(plan.shape, p + 1, c + 1)))

    def _other(self, plan: ObjectPlan, demand: Demand, c: int) -> int | None:
        n = len(plan.texts)
        following = min(c + 1, plan.cap)
        if (plan.shape.most is not None and c + 1 > plan.shape.most) or plan.rest[n][following] >= IMPOSSIBLE:
            return None
        return self._colon(self.network.call(self.value(demand), self._object(plan.shape, n, following)))

    def _colon(self, then: int) -> int:
        return self._blank(self._mark(b":", then))

    def _plan(self, make: Any, kind: str, shape: Shape) -> Any:
        key = (kind, shape)
        if key not in self._plans:
            self._plans[key] = make(self.costs, shape)
        return self._plans[key]


_WORDS = ("true", "false")


def _deep(value: Any) -> bool:
    return isinstance(value, tuple) and value[0] not in _WORDS


def _texts(value: Any) -> list[bytes]:
    return [str(value[0]).encode()] if isinstance(value, tuple) else scalar(value)


__all__ = ["Whitespace", "Writer"]
