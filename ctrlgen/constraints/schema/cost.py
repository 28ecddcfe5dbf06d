"""The shortest document of each demand, in bytes, and so which demands no document satisfies.

The least fixpoint over the demands that the root's shapes lead to (Knuth's generalisation of Dijkstra's algorithm),
by relaxation: costs only ever fall.
"""

from __future__ import annotations

import json
from collections import deque
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.flat import ANYTHING, Demand
from ctrlgen.constraints.schema.shapes import Array, Given, Number, Object, Shape, Text, shapes
from ctrlgen.errors import ComplexityError
from ctrlgen.grammars.lowering import json_body
from ctrlgen.grammars.numbers import integer, number
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.document import Document

MAX_DEMANDS = 20_000
IMPOSSIBLE = 1 << 60


class Costs:
    """Shapes and shortest documents of a schema document's demands, found as they are asked for.

    Args:
        document: the schema.
        max_digits: most digits of a number before the point, and after it.
    """

    def __init__(self, document: Document, max_digits: int) -> None:
        self.document, self.max_digits = document, max_digits
        self._shapes: dict[Demand, list[Shape]] = {}
        self._cost: dict[Demand, int] = {}
        self._others_of: dict[Any, list[tuple[Automaton | None, Demand]]] = {}

    def shapes(self, demand: Demand) -> list[Shape]:
        """The shapes of a demand that some document has."""
        self.cost(demand)
        return [shape for shape in self._shapes[demand] if self.shape_cost(shape) < IMPOSSIBLE]

    def cost(self, demand: Demand) -> int:
        """Bytes of the shortest document, IMPOSSIBLE if there is none."""
        if demand not in self._cost:
            self._solve(demand)
        return self._cost[demand]

    def _solve(self, root: Demand) -> None:
        users: dict[Demand, set[Demand]] = {}
        todo, new = [root], []
        while todo:
            demand = todo.pop()
            if demand in self._cost:
                continue
            self._cost[demand] = IMPOSSIBLE
            self._shapes[demand] = shapes(self.document, demand)
            new.append(demand)
            if len(self._cost) > MAX_DEMANDS:
                raise ComplexityError(
                    f"the schema's parts combine to more than {MAX_DEMANDS} intersections; use fewer allOf and anyOf"
                )
            for part in self._parts(demand):
                users.setdefault(part, set()).add(demand)
                todo.append(part)
        queue = deque(reversed(new))
        while queue:
            demand = queue.popleft()
            cost = min(map(self.shape_cost, self._shapes[demand]), default=IMPOSSIBLE)
            if cost < self._cost[demand]:
                self._cost[demand] = cost
                queue.extend(users.get(demand, ()))

    def _parts(self, demand: Demand) -> list[Demand]:
        parts: list[Demand] = []
        for shape in self._shapes[demand]:
            if isinstance(shape, Array):
                parts += [*shape.prefix, shape.items]
            elif isinstance(shape, Object):
                parts += [d for _, d in shape.names] + [d for _, d in self.others(shape)]
        return parts

    def shape_cost(self, shape: Shape) -> int:
        """Bytes of the shortest document of a shape."""
        if isinstance(shape, Given):
            return min(len(compact(value)) for value in shape.values)
        if isinstance(shape, Number):
            found = self.number(shape)
            return IMPOSSIBLE if found.is_empty else len(found.shortest())
        if isinstance(shape, Text):
            if not shape.patterns:
                return 2 + shape.least if shape.most is None or shape.least <= shape.most else IMPOSSIBLE
            found = self.text(shape)
            return IMPOSSIBLE if found.is_empty else 1 + len(found.shortest())
        if isinstance(shape, Array):
            return 1 + ArrayPlan(self, shape).cost(0)
        return 1 + ObjectPlan(self, shape).rest[0][0]

    def number(self, shape: Number) -> Automaton:
        """The automaton of a number."""
        return number_automaton(shape, self.max_digits)

    def text(self, shape: Text) -> Automaton:
        """The automaton of a string with patterns, its closing quote included."""
        return text_automaton(shape)

    def others(self, shape: Object) -> list[tuple[Automaton | None, Demand]]:
        """Names not declared, in classes: (automaton of the name with its quote, None for any name; demand)."""
        key = (shape.names, shape.layers)
        if key not in self._others_of:
            self._others_of[key] = self._others(shape)
        return self._others_of[key]

    def _others(self, shape: Object) -> list[tuple[Automaton | None, Demand]]:
        patterns = list(dict.fromkeys(pattern for layer, _ in shape.layers for pattern, _ in layer))
        if not patterns:
            return [(None, frozenset().union(*(other for _, other in shape.layers)) if shape.layers else ANYTHING)]
        declared = Automaton.from_strings([name_text(name)[1:-1] for name, _ in shape.names] or [b"\xff"])
        classes = [(json_body("canonical") - declared, frozenset[str]())]
        for pattern in patterns:
            found = compile_regex(pattern, dialect="ecma", search=True, json=True, escapes="canonical")
            classes = [
                (part, matched | extra)
                for names, matched in classes
                for part, extra in ((names & found, frozenset((pattern,))), (names - found, frozenset[str]()))
                if not part.is_empty
            ]
            if len(classes) > 256:
                raise ComplexityError("patternProperties overlap in more than 256 ways; use fewer patterns")
        return [(names.then(QUOTE), _class_demand(shape, matched)) for names, matched in classes]


def _class_demand(shape: Object, matched: frozenset[str]) -> Demand:
    parts: list[Demand] = []
    for layer, other in shape.layers:
        found = [demand for pattern, demand in layer if pattern in matched]
        parts += found or [other]
    return frozenset().union(*parts)


class ArrayPlan:
    """How an array goes on after k items."""

    def __init__(self, costs: Costs, shape: Array) -> None:
        self.shape, self.costs = shape, costs
        self.settled = max(len(shape.prefix), shape.least)

    def demand(self, k: int) -> Demand:
        """What is demanded of item k."""
        return self.shape.prefix[k] if k < len(self.shape.prefix) else self.shape.items

    def may_close(self, k: int) -> bool:
        """Whether ] may follow item k - 1."""
        return k >= self.shape.least

    def may_go_on(self, k: int) -> bool:
        """Whether an item k may follow."""
        return (self.shape.most is None or k < self.shape.most) and self.cost(k + 1) + self.costs.cost(
            self.demand(k)
        ) < IMPOSSIBLE

    @cached_property
    def _needed(self) -> list[int]:
        """Bytes from k items to the closing bracket included, for each k up to the least."""
        least, most = self.shape.least, self.shape.most
        if most is not None and most < least:
            return [IMPOSSIBLE] * (least + 1)
        if least > 100_000:
            raise ComplexityError(f"minItems {least} is more than 100000 items")
        out = [1]
        for k in range(least - 1, -1, -1):
            out.append(min(IMPOSSIBLE, (k > 0) + self.costs.cost(self.demand(k)) + out[-1]))
        return out[::-1]

    def cost(self, k: int) -> int:
        """Bytes of the shortest way from k items to the closing bracket included."""
        return self._needed[k] if k < len(self._needed) else self._needed[-1]


class ObjectPlan:
    """How an object goes on when names before the i-th are done with and c members are there.

    Counts stop at ``cap``, beyond which they make no difference.

    Attributes:
        rest: rest[i][c], bytes of the shortest way to the closing brace included.
        keys: keys[i][c], the same from the opening quote of a next name, itself not counted.
    """

    def __init__(self, costs: Costs, shape: Object) -> None:
        self.costs, self.shape = costs, shape
        self.texts = [name_text(name)[1:] for name, _ in shape.names]
        self.values = [costs.cost(demand) for _, demand in shape.names]
        self.needed = [name in shape.required for name, _ in shape.names]
        self._last_needed = max((p for p, needed in enumerate(self.needed) if needed), default=-1)
        self.others = [(names, demand) for names, demand in costs.others(shape) if costs.cost(demand) < IMPOSSIBLE]
        self.cap = max(1, shape.least, shape.most or 0)
        if self.cap * (len(self.texts) + 1) > 4_000_000:
            raise ComplexityError("minProperties or maxProperties is too large for this many names")
        self._plan()

    def _plan(self) -> None:
        n = len(self.texts)
        self.rest = [[IMPOSSIBLE] * (self.cap + 1) for _ in range(n + 1)]
        self.keys = [[IMPOSSIBLE] * (self.cap + 1) for _ in range(n + 1)]
        other = min((self._name_cost(a) + 1 + self.costs.cost(d) for a, d in self.others), default=IMPOSSIBLE)
        for i in range(n, -1, -1):
            for c in range(self.cap, -1, -1):
                if i == n:
                    self.keys[i][c] = other + self._after(n, c)
                else:
                    self.keys[i][c] = self.member(i, c)
                    if not self.needed[i]:
                        self.keys[i][c] = min(self.keys[i][c], self.keys[i + 1][c])
                self.keys[i][c] = min(self.keys[i][c], IMPOSSIBLE)
                close = 1 if self.may_close(i, c) else IMPOSSIBLE
                self.rest[i][c] = min(close, (c > 0) + 1 + self.keys[i][c], IMPOSSIBLE)

    def may_close(self, i: int, c: int) -> bool:
        """Whether } may come here."""
        return c >= self.shape.least and i > self._last_needed

    def member(self, p: int, c: int) -> int:
        """Bytes of the shortest way through member p, c members before it; IMPOSSIBLE if it may not come."""
        return min(IMPOSSIBLE, len(self.texts[p]) + 1 + self.values[p] + self._after(p + 1, c))

    def _after(self, i: int, c: int) -> int:
        if self.shape.most is not None and c + 1 > self.shape.most:
            return IMPOSSIBLE
        # at the cap with no name left: only closing is shorter than itself
        if i == len(self.texts) and c == self.cap:
            return 1 if self.may_close(i, c) else IMPOSSIBLE
        return self.rest[i][min(c + 1, self.cap)]

    def _name_cost(self, names: Automaton | None) -> int:
        if names is not None:
            return len(names.shortest())
        return 1 if b'"' not in self.texts else 2 if len(self.texts) < 90 else 3

    def window(self, i: int) -> int:
        """One past the last declared name that may come when those before i are done with."""
        return next((p + 1 for p in range(i, len(self.needed)) if self.needed[p]), len(self.needed))


QUOTE = Automaton.from_strings([b'"'])


@lru_cache(maxsize=1024)
def number_automaton(shape: Number, max_digits: int) -> Automaton:
    """The automaton of a number; kept, since schemas ask for the same few."""
    low, high = shape.low, shape.high
    if low is not None and high is not None and low[0] > high[0]:
        return Automaton.empty()
    if not shape.integer:
        return number(
            low=None if low is None else low[0],
            high=None if high is None else high[0],
            exclusive_low=low is not None and low[1],
            exclusive_high=high is not None and high[1],
            max_digits=max_digits,
            max_fraction=max_digits,
        )
    first = None if low is None else _above(low)
    last = None if high is None else _below(high)
    if first is not None and last is not None and first > last:
        return Automaton.empty()
    step = None if shape.step == 1 else shape.step
    return integer(first, last, max_digits, multiple_of=step)


@lru_cache(maxsize=256)
def text_automaton(shape: Text) -> Automaton:
    """The automaton of a string with patterns and lengths, its closing quote included."""
    if shape.most is not None and shape.least > shape.most:
        return Automaton.empty()
    found = json_body("all")
    for pattern in shape.patterns:
        found = found & compile_regex(pattern, dialect="ecma", search=True, json=True)
    if shape.least or shape.most is not None:
        most = "" if shape.most is None else shape.most
        found = found & compile_regex(f"^[^]{{{shape.least},{most}}}$", dialect="ecma", search=True, json=True)
    return found.then(QUOTE)


@cache
def any_text() -> Automaton:
    """Any string's inside with its closing quote, in all spellings."""
    return json_body("all").then(QUOTE)


@cache
def any_name() -> Automaton:
    """Any name's inside with its closing quote, in one spelling each."""
    return json_body("canonical").then(QUOTE)


def name_text(name: str) -> bytes:
    """A name as the one JSON text that it is written as."""
    return json.dumps(name, ensure_ascii=False).encode("utf-8")


def compact(value: Any) -> bytes:
    """A frozen JSON value (see ``shapes.Given``) without blanks."""
    if isinstance(value, tuple):
        if value[0] == "array":
            return b"[" + b",".join(map(compact, value[1:])) + b"]"
        if value[0] == "object":
            return b"{" + b",".join(name_text(name) + b":" + compact(part) for name, part in value[1:]) + b"}"
        return str(value[0]).encode()
    return scalar(value)[0]


def scalar(value: Any) -> list[bytes]:
    """The texts of null, a number or a string, shortest first; 1.0 is also written 1."""
    if value is None or isinstance(value, str):
        return [name_text(value)] if isinstance(value, str) else [b"null"]
    if isinstance(value, int):
        return [str(value).encode()]
    texts = {format(value, "f").encode()}
    if value == int(value):
        texts.add(str(int(value)).encode())
    return sorted(texts, key=lambda text: (len(text), text))


def _above(bound: tuple[Any, bool]) -> int:
    value, excluded = bound
    whole = int(value.to_integral_value(rounding="ROUND_CEILING"))
    return whole + 1 if excluded and whole == value else whole


def _below(bound: tuple[Any, bool]) -> int:
    value, excluded = bound
    whole = int(value.to_integral_value(rounding="ROUND_FLOOR"))
    return whole - 1 if excluded and whole == value else whole
