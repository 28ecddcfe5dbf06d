"""Shapes -> network: JSON text, with declared members in their order and bounded blanks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from ctrlgen.automaton import Automaton
from ctrlgen.constraints.schema.counting import ArrayLengths
from ctrlgen.constraints.schema.objects import any_name
from ctrlgen.constraints.schema.shapes import Array, Boolean, Null, Number, Object, Shape, String
from ctrlgen.constraints.schema.strings import string_lexeme
from ctrlgen.engine.network import END

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.counting import ObjectLengths
    from ctrlgen.constraints.schema.lengths import Lengths
    from ctrlgen.constraints.schema.objects import Member, OtherMembers
    from ctrlgen.constraints.schema.shapes import Goal
    from ctrlgen.engine.network import Network

Whitespace = Literal["compact", "line", "pretty"]
MAX_BLANKS = 20
EAGER = 8
"""Nodes built at once; the others when a text first meets them."""

MAX_EAGER_MEMBERS = 200

_INLINE = 8  # a union of more alternatives is one rule, wherever it is used


def schema_network(network: Network, lengths: Lengths, whitespace: Whitespace, max_digits: int) -> int:
    """The start node of a schema in ``network``."""
    builder = _Builder(network, lengths, whitespace, max_digits)
    start = builder.value(lengths.expansion.root, END)
    if lengths.widest <= MAX_EAGER_MEMBERS:
        network.build_all(EAGER)
    return start


class _Builder:
    """The nodes of one schema in one network."""

    def __init__(self, network: Network, lengths: Lengths, whitespace: Whitespace, max_digits: int) -> None:
        self.network, self.lengths, self.max_digits = network, lengths, max_digits
        self.blanks = Blanks(network, whitespace)
        self._values: dict[tuple[Goal, int], int] = {}
        self._rules: dict[Shape | Goal, int] = {}
        # by identity of what counts: the hash of a large shape takes long
        self._rests: dict[tuple[ArrayLengths | ObjectLengths, int, int], int] = {}

    def value(self, goal: Goal, then: int) -> int:
        """Reads a value that meets ``goal``, then goes on."""
        key = goal, then
        if key not in self._values:
            shapes = [shape for shape in self.lengths.expansion.shapes(goal) if self.lengths.shape(shape) is not None]
            if then != END and sum(map(_weight, shapes)) > _INLINE:
                self._values[key] = self.network.call(self.value(goal, END), then)
            else:
                self._values[key] = self._union(shapes, then)
        return self._values[key]

    def _union(self, shapes: list[Shape], then: int) -> int:
        texts = [text for shape in shapes for text in _texts(shape)]
        nodes = [self.network.strings(texts, then)] if texts else []
        return self.network.fork(nodes + [self._shape(shape, then) for shape in shapes if not _texts(shape)])

    def _shape(self, shape: Shape, then: int) -> int:
        network = self.network
        if isinstance(shape, Number):
            return network.lexeme(shape.automaton(self.max_digits), then)
        if isinstance(shape, String):
            lexeme = string_lexeme(shape)
            assert lexeme.automaton is not None  # a string without texts has one
            inside = network.lexeme(lexeme.automaton, then, least=lexeme.least, most=lexeme.most)
            return network.literal(b'"', inside)
        if shape not in self._rules:
            length = self.lengths.shape(shape)
            assert length is not None  # shapes without a text are left out before
            start = self._array_start if isinstance(shape, Array) else self._object_start
            self._rules[shape] = network.lazy(lambda: start(shape), length)  # type: ignore[arg-type]
        return network.call(self._rules[shape], then)

    # arrays

    def _array_start(self, shape: Array) -> int:
        array = ArrayLengths(shape, self.lengths.of)
        after = [self.network.literal(b"]", END)] if array.least == 0 else []
        if array.most is None or array.most > 0:
            after.append(self._item(array, 0))
        return self.network.literal(b"[", self.blanks.gap(self.network.fork(after)))

    def _item(self, array: ArrayLengths, index: int) -> int:
        """The item at ``index`` and what follows."""
        return self.value(array.item(index), self._items_after(array, index + 1))

    def _items_after(self, array: ArrayLengths, index: int) -> int:
        """What may follow after ``index`` items."""
        key = array, array.state(index), 0
        if key not in self._rests:
            length = array.after(key[1])
            assert length is not None  # an array that cannot be finished is never begun
            self._rests[key] = self.network.lazy(lambda: self._array_rest(array, key[1]), length)
        return self._rests[key]

    def _array_rest(self, array: ArrayLengths, index: int) -> int:
        item = self._item(array, index) if array.most is None or index < array.most else None
        return self.blanks.rest(b"]" if index >= array.least else None, item)

    # objects

    def _object_start(self, shape: Object) -> int:
        lengths = self.lengths.object(shape)
        member = self._member(lengths, 0, 0)
        ways = [(b"}", END)] if self._may_close(lengths, 0, 0) else []
        ways += [(b'"', member)] if member is not None else []
        return self.network.literal(b"{", self.blanks.gap(self.network.keys(ways)))

    def _members_after(self, lengths: ObjectLengths, index: int, count: int) -> int:
        """What may follow after ``count`` members, of the declared ones those from ``index`` on."""
        key = lengths, index, lengths.state(count)
        if key not in self._rests:
            length = lengths.after(index, key[2])
            assert length is not None  # members after which the object cannot be finished are never begun
            self._rests[key] = self.network.lazy(lambda: self._object_rest(lengths, index, key[2]), length)
        return self._rests[key]

    def _object_rest(self, lengths: ObjectLengths, index: int, count: int) -> int:
        member = self._member(lengths, index, count)
        quoted = None if member is None else self.network.literal(b'"', member)
        return self.blanks.rest(b"}" if self._may_close(lengths, index, count) else None, quoted)

    @staticmethod
    def _may_close(lengths: ObjectLengths, index: int, count: int) -> bool:
        return lengths.required_from(index) == 0 and count >= lengths.least

    def _member(self, lengths: ObjectLengths, index: int, count: int) -> int | None:
        """The name (after its opening quote), the value, and what follows; None if no member may come."""
        declared = lengths.members.declared
        names: list[tuple[bytes, int | None]] = []
        for i in range(index, len(declared)):
            if lengths.costs[i] is not None and lengths.after(i + 1, count + 1) is not None:
                after = self._members_after(lengths, i + 1, count + 1)
                names.append((declared[i].text, self._valued(declared[i], after)))
            if declared[i].required:
                break
        nodes = self._other_members(lengths, index, count)
        free = next((other for other, _ in nodes if other.names is None), None)
        if free is not None:
            (_, then), allowed = nodes[0], {text for text, _ in names}
            blocked = [(member.text, None) for member in declared if member.text not in allowed]
            return self.network.keys([*names, *blocked], then, any_name())
        ways = [self.network.keys(names)] if names else []
        ways += [self.network.lexeme(other.names, then) for other, then in nodes if other.names is not None]
        return self.network.fork(ways) if ways else None

    def _other_members(self, lengths: ObjectLengths, index: int, count: int) -> list[tuple[OtherMembers, int]]:
        """Members that are not declared and may come now, each with what follows its name."""
        end = len(lengths.members.declared)
        if lengths.required_from(index) or not lengths.others or lengths.after(end, count + 1) is None:
            return []
        after = self._members_after(lengths, end, count + 1)
        return [(other, self._valued(other, after)) for other in lengths.others]

    def _valued(self, member: Member | OtherMembers, then: int) -> int:
        return self.blanks.colon(self.value(member.goal, then))


class Blanks:
    """Where blanks may stand."""

    def __init__(self, network: Network, whitespace: Whitespace) -> None:
        self.network, self.whitespace = network, whitespace
        self._after = {"compact": (b"",), "line": (b"", b" "), "pretty": (b"",)}[whitespace]

    def gap(self, then: int) -> int:
        """Blanks inside a bracket or before a comma."""
        return self.network.lexeme(_run_of_blanks(), then) if self.whitespace == "pretty" else then

    def colon(self, then: int) -> int:
        """The colon after a name."""
        texts = [b":" + blank for blank in self._after]
        return self.gap(self.network.strings(texts, self.gap(then)))

    def rest(self, close: bytes | None, more: int | None) -> int:
        """After an item or member: the bracket, or a comma and more (None: not allowed)."""
        ways: list[tuple[bytes, int | None]] = [] if close is None else [(close, END)]
        if more is not None:
            ways += [(b"," + blank, self.gap(more)) for blank in self._after]
        return self.gap(self.network.keys(ways))


@lru_cache(1)
def _run_of_blanks() -> Automaton:
    return Automaton.from_strings([b" ", b"\t", b"\n", b"\r"]).repeat(0, MAX_BLANKS)


def _texts(shape: Shape) -> list[bytes]:
    """The texts of a shape that has a handful."""
    if isinstance(shape, Null):
        return [b"null"]
    if isinstance(shape, Boolean):
        return [b"true" if value else b"false" for value in sorted(shape.values)]
    if isinstance(shape, Number):
        return shape.texts()
    return list(string_lexeme(shape).texts) if isinstance(shape, String) else []


def _weight(shape: Shape) -> int:
    """Roughly the nodes it takes to read a shape."""
    return max(1, len(_texts(shape)))
