"""Plans -> network: JSON text, with declared members in their order or in any, and bounded blanks."""

from __future__ import annotations

from functools import lru_cache
from json.encoder import encode_basestring, encode_basestring_ascii
from typing import TYPE_CHECKING, Literal

import numpy as np

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.plans import SCALARS, ArrayPlan, Lexeme, ObjectPlan, Quoted, Texts
from ctrlgen.constraints.schema.quotes import copy_of
from ctrlgen.engine.containers import Between, Members, Others, Slot
from ctrlgen.engine.network import END, ITEM, NAME, RETURN
from ctrlgen.grammars.lowering import json_body

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from ctrlgen.constraints.schema.facts import Goal
    from ctrlgen.constraints.schema.plans import ItemStates, Language, Other, Plan
    from ctrlgen.engine.containers import Way
    from ctrlgen.engine.network import Network
    from ctrlgen.spans import Coding

Whitespace = Literal["compact", "line", "pretty"]
KeyOrder = Literal["declared", "any"]
MAX_BLANKS = 20
MAX_BEGINNINGS = 16
EAGER = 1
"""Nodes built at once; the others when a text first meets them."""


def schema_network(
    network: Network,
    language: Language,
    *,
    whitespace: Whitespace = "line",
    key_order: KeyOrder = "declared",
    ensure_ascii: bool = False,
) -> int:
    """The start node of a schema in ``network``."""
    builder = _Builder(network, language, whitespace, key_order, ensure_ascii)
    start = builder.value(language.root)
    network.build_all(EAGER)
    return start


class _Builder:
    """The nodes of one schema in one network."""

    def __init__(
        self, network: Network, language: Language, whitespace: Whitespace, key_order: KeyOrder, ensure_ascii: bool
    ) -> None:
        self.network, self.language, self.ordered = network, language, key_order == "declared"
        self.ensure_ascii = ensure_ascii
        self._values: dict[Goal, int] = {}
        self._members: dict[Goal, int] = {}
        self._containers: dict[ArrayPlan | ObjectPlan, int] = {}
        self.blanks = Blanks(network, whitespace)
        self._ready = self._begun()

    def _begun(self) -> dict[str, int]:
        """Build what most schemas need: nodes between members and items, and the members of each scalar type.

        It is built once for a lexicon, and other networks begin with it.
        """
        network, blanks = self.network, self.blanks
        beginnings, fresh = network.lexicon.beginnings, network.fresh
        key = blanks.whitespace, *self.language.spelling
        if fresh and key in beginnings:
            beginning, blanks.between, ready = beginnings[key]
            network.begin_with(beginning)
            return ready  # type: ignore[no-any-return]
        blanks.build()
        # where bytes are missing, what is not needed must not count as what cannot be read
        ready = {name: blanks.colon(self._type(name)) for name in SCALARS} if network.lexicon.all_bytes else {}
        if fresh and len(beginnings) < MAX_BEGINNINGS:
            beginnings[key] = network.beginning(), blanks.between, ready
        return ready

    def _type(self, name: str) -> int:
        """Reads any value of a scalar type, up to END."""
        return self._union(self.language.of_type(name))

    def value(self, goal: Goal) -> int:
        """Reads a value that meets ``goal``, up to END."""
        node = self._values.get(goal)
        if node is None:
            node = self._values[goal] = self._union(self.language.alternatives(goal))
        return node

    def member(self, goal: Goal) -> int:
        """Reads the colon and a value that meets ``goal``, up to END; built when a text first meets it."""
        node = self._members.get(goal)
        if node is None and self._ready and (name := self.language.bare_type(goal)) is not None:
            node = self._members[goal] = self._ready[name]
        if node is None:
            cost = self.language.shortest(goal) + 1
            node = self._members[goal] = self.network.lazy(
                lambda: self.blanks.colon(self._entered(self.value(goal))), cost
            )
        return node

    def _item(self, goal: Goal) -> int:
        """Reads a value that meets ``goal``; built when a text first meets it."""
        known = self._values.get(goal)
        if known is not None:
            return known
        cost = self.language.shortest(goal)
        node = self.network.lazy(lambda: self._entered(self._union(self.language.alternatives(goal))), cost)
        self._values[goal] = node
        return node

    def _entered(self, node: int) -> int:
        """The same node, built: whoever reads the colon before a value reads on, since tokens go on too."""
        self.network.build(node)
        return node

    def _union(self, plans: Sequence[Plan]) -> int:
        return self.network.fork([self._plan(plan) for plan in plans])

    def _plan(self, plan: Plan) -> int:
        network = self.network
        if isinstance(plan, Texts):
            return network.strings(plan.texts, END)
        if isinstance(plan, Lexeme):
            inside = network.lexeme(plan.automaton, END, least=plan.least, most=plan.most)
            return network.literal(b'"', inside) if plan.text else inside
        if isinstance(plan, Quoted):
            coding: Coding = "ascii json" if self.ensure_ascii else "json"
            inside = copy_of(plan.text).build_before(network, network.literal(b'"', END), coding)
            return network.literal(b'"', inside)
        node = self._containers.get(plan)
        if node is None:
            build = self._array if isinstance(plan, ArrayPlan) else self._object
            node = self._containers[plan] = network.lazy(lambda: build(plan), plan.cost)  # type: ignore[arg-type]
        return node

    # arrays

    def _array(self, plan: ArrayPlan) -> int:
        if plan.states is not None:
            return _StatefulArray(self, plan.states).start()
        if plan.strings is not None:
            # strings that never come twice are read like names of members, with nothing behind them
            names = Members((), Others(numbered((plan.strings,)), (((END, 0),),)), plan.least, plan.most)
            return self.network.literal(b"[", self.network.members(names, self.blanks.strings, plan.cost - 1))
        prefix = [self._item(goal) for goal in plan.prefix]
        rest = None if plan.rest is None else self._item(plan.rest)
        items = self.network.items(prefix, rest, plan.least, plan.most, self.blanks.items, plan.cost - 1)
        return self.network.literal(b"[", items)

    # objects

    def _object(self, plan: ObjectPlan) -> int:
        slots = tuple(
            [Slot(quoted(s.name, self.ensure_ascii), self._ways(s.ways), s.required, s.implies) for s in plan.slots]
        )
        members = Members(slots, self._others(plan.others), plan.least, plan.most, plan.wanted, self.ordered)
        return self.network.literal(b"{", self.network.members(members, self.blanks.members, plan.cost - 1))

    def _ways(self, ways: Sequence[tuple[Goal, int]]) -> tuple[Way, ...]:
        return tuple([(self.member(goal), flags) for goal, flags in ways])

    def _others(self, others: Sequence[Other]) -> Others | None:
        if not others:
            return None
        names = any_name(self.ensure_ascii) if others[0].names is None else numbered(tuple([o.names for o in others]))
        return Others(names, tuple([self._ways(other.ways) for other in others]))


class _StatefulArray:
    """An array whose items depend on those before them: a node for each state, built when a text first meets it."""

    def __init__(self, builder: _Builder, states: ItemStates) -> None:
        self.builder, self.states = builder, states
        self._after: dict[Hashable, int] = {}

    def start(self) -> int:
        """Reads the whole array."""
        blanks, state = self.builder.blanks, self.states.start
        close = [self.builder.network.literal(b"]", END)] if self.states.closes(state) else []
        return self.builder.network.literal(b"[", blanks.gap(self.builder.network.fork(close + self._items(state))))

    def _items(self, state: Hashable) -> list[int]:
        """The next item, and what follows it."""
        network = self.builder.network
        return [network.call(self.builder.value(goal), self._rest(to)) for goal, to in self.states.ways(state)]

    def _rest(self, state: Hashable) -> int:
        node = self._after.get(state)
        if node is None:
            node = self._after[state] = self.builder.network.lazy(lambda: self._built(state), self.states.cost(state))
        return node

    def _built(self, state: Hashable) -> int:
        items = self._items(state)
        more = self.builder.network.fork(items) if items else None
        return self.builder.blanks.rest(b"]" if self.states.closes(state) else None, more)


class Blanks:
    """Where blanks may stand."""

    def __init__(self, network: Network, whitespace: Whitespace) -> None:
        self.network, self.whitespace = network, whitespace
        self._after = {"compact": (b"",), "line": (b"", b" "), "pretty": (b"",)}[whitespace]
        self.between: tuple[Between, Between, Between]

    def build(self) -> None:
        """Build what stands between members, strings that never come twice, and items."""
        name = self.network.literal(b'"', NAME)
        self.between = self._between(b"}", name), self._between(b"]", name), self._between(b"]", ITEM)

    @property
    def members(self) -> Between:
        """Between members of an object."""
        return self.between[0]

    @property
    def strings(self) -> Between:
        """Between strings that never come twice."""
        return self.between[1]

    @property
    def items(self) -> Between:
        """Between items of an array."""
        return self.between[2]

    def _between(self, bracket: bytes, more: int) -> Between:
        close = self.network.literal(bracket, RETURN)
        first = (self.gap(close), self.gap(more), self.gap(self.network.fork([close, more])))
        ways = [(b"," + blank, self.gap(more)) for blank in self._after]
        later = (
            self.gap(close),
            self.gap(self.network.branches(ways)),
            self.gap(self.network.branches([(bracket, RETURN), *ways])),
        )
        return Between(first, later)

    def gap(self, then: int) -> int:
        """Blanks inside a bracket or before a comma."""
        return self.network.lexeme(_run_of_blanks(), then) if self.whitespace == "pretty" else then

    def colon(self, then: int) -> int:
        """The colon after a name."""
        then = self.gap(then)
        if b" " in self._after:
            then = self.network.fork([self.network.literal(b" ", then), then])
        return self.gap(self.network.literal(b":", then))

    def rest(self, close: bytes | None, more: int | None) -> int:
        """After an item: the bracket, or a comma and more (None: not allowed)."""
        ways: list[tuple[bytes, int]] = [] if close is None else [(close, END)]
        if more is not None:
            ways += [(b"," + blank, self.gap(more)) for blank in self._after]
        return self.gap(self.network.branches(ways))


@lru_cache(1)
def _run_of_blanks() -> Automaton:
    return Automaton.from_strings([b" ", b"\t", b"\n", b"\r"]).repeat(0, MAX_BLANKS)


@lru_cache(2)
def any_name(ensure_ascii: bool) -> Automaton:
    """Any name in its canonical spelling, with its closing quote and the number of its class."""
    body = json_body("canonical")
    if ensure_ascii:
        body = body & Automaton.from_strings([bytes([byte]) for byte in range(128)]).repeat(0, None)
    return body.then(Automaton.from_strings([b'"\0']))


def quoted(name: str, ensure_ascii: bool) -> bytes:
    """A name in JSON with its closing quote, in its canonical spelling."""
    return (encode_basestring_ascii if ensure_ascii else encode_basestring)(name)[1:].encode()


@lru_cache(256)
def numbered(classes: tuple[Automaton, ...]) -> Automaton:
    """The names of all classes (with their closing quotes), each with the number of its class behind it."""
    union = _ended(classes[0], 0)
    for number, names in enumerate(classes[1:], 1):
        union = union | _ended(names, number)
    return union


def _ended(names: Automaton, number: int) -> Automaton:
    """The names, which end with a quote and so in one state, with one byte more."""
    size = len(names)
    table = np.vstack((names.next, np.full((1, 256), -1, np.int32)))
    table[:size][names.accepting, number] = size
    boundary = np.append(names.boundary, True)
    return Automaton.from_table(table, np.arange(size + 1) == size, boundary, minimal=True)
