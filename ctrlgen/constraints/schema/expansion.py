"""Schemas -> shapes: each schema of a document gets a number, each goal the union of shapes it means."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, NamedTuple

from ctrlgen.constraints.schema.document import MAX_DEPTH, Document, below, too_deep
from ctrlgen.constraints.schema.formats import FORMATS
from ctrlgen.constraints.schema.keywords import ANNOTATIONS, is_number
from ctrlgen.constraints.schema.shapes import (
    ANY,
    Array,
    Boolean,
    Goal,
    ItemRule,
    MemberRule,
    Null,
    Number,
    Object,
    Shape,
    String,
    both,
    meet,
)
from ctrlgen.errors import ComplexityError, RegexError, SchemaError
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlgen.automaton import Automaton
    from ctrlgen.grammars.lowering import Escapes

Json = Any

NEVER: Goal = (0,)
"""The goal of the schema false."""

MAX_PAIRS = 500_000
"""Most pairs of shapes intersected for one schema."""

MAX_SHAPES = 10_000
"""Most shapes in the union that one schema means."""

_IMPLICIT = ("$ref", "allOf", "anyOf", "oneOf")


class Exclusive(NamedTuple):
    """Two branches of a oneOf, which may match no value in common.

    Args:
        beside: the goal of the keywords beside the oneOf.
        goals: those of the two branches.
        pointer: where the oneOf stands.
        branches: which ones they are.
    """

    beside: Goal
    goals: tuple[Goal, Goal]
    pointer: str
    branches: tuple[int, int]

    @property
    def overlap(self) -> Goal:
        """What must turn out to be impossible."""
        return both(self.beside, *self.goals)


class Expansion:
    """The schemas of a document and the shapes of their goals.

    Equal schemas have one number, wherever they stand: all references are relative to the document, so a schema means
    the same everywhere.

    Args:
        document: whose keywords have been examined.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.schemas: list[Json] = [False]
        self.pointers: list[str] = [""]
        self.exclusive: list[Exclusive] = []
        self._numbers: dict[Any, int] = {}
        self._by_identity: dict[int, int] = {}
        self._kept: list[Json] = []  # what _by_identity knows must stay alive
        self._number_of: dict[int, int] = {}
        self._known: dict[Goal, tuple[Shape, ...]] = {(): ANY, NEVER: ()}
        self._open: list[int] = []
        self._pairs = 0
        self.root = self.goal(document.root, "")

    # numbers

    def goal(self, schema: Json, pointer: str) -> Goal:
        """The goal of meeting one schema."""
        seen: set[str] = set()
        while isinstance(schema, dict) and "$ref" in schema and _restrictions(schema) == ["$ref"]:
            if pointer in seen:
                raise _endless(pointer)
            seen.add(pointer)
            schema, pointer = self.document.resolve(schema["$ref"], pointer)
        if schema is False:
            return NEVER
        if schema is True or not _restrictions(schema):
            return ()
        code = self._code(schema)
        number = self._number_of.get(code)
        if number is None:
            number = self._number_of[code] = len(self.schemas)
            self.schemas.append(schema)
            self.pointers.append(pointer)
        return (number,)

    def _code(self, value: Json) -> int:
        """A number for a JSON value, the same for equal ones (with keys in the same order)."""
        container = isinstance(value, dict | list)
        if container and id(value) in self._by_identity:
            return self._by_identity[id(value)]
        if isinstance(value, dict):
            key: Any = ("{", *((name, self._code(item)) for name, item in value.items()))
        elif isinstance(value, list):
            key = ("[", *map(self._code, value))
        else:
            key = (type(value), value)
        code = self._numbers.setdefault(key, len(self._numbers))
        if container:
            self._by_identity[id(value)] = code
            self._kept.append(value)
        return code

    def pointer(self, goal: Goal) -> str:
        """Where the first schema of a goal stands."""
        return self.pointers[goal[0]] if goal else ""

    # shapes

    def shapes(self, goal: Goal) -> tuple[Shape, ...]:
        """The union of shapes that a goal means.

        Raises:
            SchemaError: a schema refers to itself without reading anything, or cannot be enforced.
            ComplexityError: there are too many cases.
        """
        known = self._known.get(goal)
        if known is None:
            known = self._expand(goal[0]) if len(goal) == 1 else ANY
            if len(goal) > 1:
                for schema in goal:
                    known = self._meet(known, self.shapes((schema,)), self.pointers[schema])
            self._known[goal] = known
        return known

    def _meet(self, left: Iterable[Shape], right: Iterable[Shape], pointer: str) -> tuple[Shape, ...]:
        left, right = tuple(left), tuple(right)
        if left == ANY or right == ANY:
            return right if left == ANY else left
        self._pairs += len(left) * len(right)
        if self._pairs > MAX_PAIRS:
            raise _too_many(pointer, MAX_PAIRS)
        shapes = tuple(dict.fromkeys(shape for a in left for b in right if (shape := meet(a, b)) is not None))
        if len(shapes) > MAX_SHAPES:
            raise _too_many(pointer, MAX_SHAPES)
        return shapes

    def _expand(self, number: int) -> tuple[Shape, ...]:
        schema, pointer = self.schemas[number], self.pointers[number]
        if number in self._open:
            raise _endless(pointer)
        if len(self._open) >= MAX_DEPTH:
            raise too_deep()
        self._open.append(number)
        shapes = self._meet(self._listed(schema, pointer), self._plain(schema, pointer), pointer)
        for keyword in _IMPLICIT:
            if keyword in schema and shapes:
                for union in self._unions(keyword, schema, pointer):
                    shapes = self._meet(shapes, union, pointer)
        self._open.pop()
        return shapes

    def _unions(self, keyword: str, schema: dict[str, Json], pointer: str) -> list[tuple[Shape, ...]]:
        """What an in-place keyword means: unions that must all hold."""
        value = schema[keyword]
        if keyword == "$ref":
            return [self.shapes(self.goal(*self.document.resolve(value, pointer)))]
        goals = [self.goal(item, f"{pointer}/{keyword}/{i}") for i, item in enumerate(value)]
        parts = [self.shapes(goal) for goal in goals]
        if keyword == "allOf":
            return parts
        if keyword == "oneOf":
            self._note_exclusive(schema, pointer, goals)
        return [tuple(dict.fromkeys(shape for part in parts for shape in part))]

    def _note_exclusive(self, schema: dict[str, Json], pointer: str, goals: list[Goal]) -> None:
        """Remember which goals must be empty for this oneOf to be the same as anyOf."""
        siblings = {keyword: value for keyword, value in schema.items() if keyword != "oneOf"}
        beside = self.goal(siblings, pointer)
        for (i, a), (j, b) in combinations(enumerate(goals), 2):
            if self._meet(self.shapes(a), self.shapes(b), pointer):
                self.exclusive.append(Exclusive(beside, (a, b), pointer, (i, j)))

    def apart(self, a: Goal, b: Goal) -> bool:
        """Whether two goals exclude each other at sight: by a required member whose values have nothing in common."""
        return all(
            isinstance(x, Object) and isinstance(y, Object) and self._members_apart(x, y)
            for x in self.shapes(a)
            for y in self.shapes(b)
            if type(x) is type(y)
        )

    def _members_apart(self, x: Object, y: Object) -> bool:
        for name in dict.fromkeys(x.required + y.required):
            left = [rule.goals[name] for rule in x.rules if name in rule.goals]
            right = [rule.goals[name] for rule in y.rules if name in rule.goals]
            for one, other in product(left, right):
                if not any(meet(u, v) is not None for u in self.shapes(one) for v in self.shapes(other)):
                    return True
        return False

    # one schema, without references and branches

    def _listed(self, schema: dict[str, Json], pointer: str) -> tuple[Shape, ...]:
        """The values of enum and const."""
        shapes = ANY
        if "enum" in schema:
            shapes = self._meet(shapes, self._values(schema["enum"], pointer), pointer)
        if "const" in schema:
            shapes = self._meet(shapes, self._values([schema["const"]], pointer), pointer)
        return shapes

    def _values(self, values: list[Json], pointer: str) -> tuple[Shape, ...]:
        shapes: list[Shape] = [Null()] if None in values else []
        booleans = frozenset(value for value in values if isinstance(value, bool))
        numbers = tuple(dict.fromkeys(exact(value) for value in values if is_number(value)))
        strings = tuple(dict.fromkeys(value for value in values if isinstance(value, str)))
        shapes += [Boolean(booleans)] if booleans else []
        shapes += [Number(values=numbers)] if numbers else []
        shapes += [String(values=strings)] if strings else []
        shapes += [self._container(value, pointer) for value in values if isinstance(value, dict | list)]
        return tuple(dict.fromkeys(shapes))

    def _container(self, value: Json, pointer: str) -> Shape:
        """The shape of exactly this array or object."""
        if isinstance(value, list):
            items = tuple(self.goal({"const": item}, pointer) for item in value)
            return Array((ItemRule(items, NEVER),), len(items), len(items))
        named = tuple((name, self.goal({"const": item}, pointer)) for name, item in value.items())
        return Object((MemberRule(named, (), NEVER),), tuple(value))

    def _plain(self, schema: dict[str, Json], pointer: str) -> tuple[Shape, ...]:
        types = schema.get("type", ["null", "boolean", "number", "string", "array", "object"])
        wanted = set(types if isinstance(types, list) else [types])
        shapes = [
            Null() if "null" in wanted else None,
            Boolean() if "boolean" in wanted else None,
            _number(schema, pointer, "number" not in wanted) if wanted & {"number", "integer"} else None,
            _string(schema, pointer) if "string" in wanted else None,
            self._array(schema, pointer) if "array" in wanted else None,
            self._object(schema, pointer) if "object" in wanted else None,
        ]
        return tuple(shape for shape in shapes if shape is not None)

    def _array(self, schema: dict[str, Json], pointer: str) -> Shape | None:
        rules: tuple[ItemRule, ...] = ()
        if "prefixItems" in schema or "items" in schema:
            first = schema.get("prefixItems", [])
            goals = tuple(self.goal(item, f"{pointer}/prefixItems/{i}") for i, item in enumerate(first))
            rules = (ItemRule(goals, self.goal(schema.get("items", True), f"{pointer}/items")),)
        return Array(rules).meet(Array((), _count(schema, "minItems", 0), _count(schema, "maxItems", None)))

    def _object(self, schema: dict[str, Json], pointer: str) -> Shape | None:
        named = self._goals(schema, "properties", pointer)
        patterns = self._goals(schema, "patternProperties", pointer)
        for pattern, _ in patterns:
            pattern_automaton(pattern, "canonical", below(f"{pointer}/patternProperties", pattern))
        others = self.goal(schema.get("additionalProperties", True), f"{pointer}/additionalProperties")
        rules = (MemberRule(named, patterns, others),) if named or patterns or others else ()
        required = list(schema.get("required", []))
        if "discriminator" in schema:
            required.append(schema["discriminator"]["propertyName"])
        least, most = _count(schema, "minProperties", 0), _count(schema, "maxProperties", None)
        return Object(rules, tuple(dict.fromkeys(required))).meet(Object((), (), least, most))

    def _goals(self, schema: dict[str, Json], keyword: str, pointer: str) -> tuple[tuple[str, Goal], ...]:
        return tuple(
            (name, self.goal(item, below(f"{pointer}/{keyword}", name)))
            for name, item in schema.get(keyword, {}).items()
        )


def _restrictions(schema: dict[str, Json]) -> list[str]:
    """The keywords that may restrict something."""
    return [keyword for keyword in schema if keyword not in ANNOTATIONS and not keyword.startswith("x-")]


def _too_many(pointer: str, limit: int) -> ComplexityError:
    return ComplexityError(
        f"#{pointer}: more than {limit} cases to combine (a fixed limit); "
        "write fewer branches in anyOf or oneOf beside or within allOf"
    )


def _endless(pointer: str) -> SchemaError:
    return SchemaError("the schema refers to itself without reading anything", pointer=pointer, keyword="$ref")


def exact(value: float) -> Decimal:
    """A JSON number as the decimal number it is written as."""
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _count(schema: dict[str, Json], keyword: str, default: Any) -> Any:
    return int(schema[keyword]) if keyword in schema else default


def _number(schema: dict[str, Json], pointer: str, integral: bool) -> Shape | None:
    shape: Number | None = Number(integral, multiple_of=_multiple(schema, pointer, integral))
    bounds: list[tuple[str, Callable[[Decimal], Number]]] = [
        ("minimum", lambda bound: Number(low=bound)),
        ("exclusiveMinimum", lambda bound: Number(low=bound, above=True)),
        ("maximum", lambda bound: Number(high=bound)),
        ("exclusiveMaximum", lambda bound: Number(high=bound, below=True)),
    ]
    for keyword, bounded in bounds:
        if keyword in schema and shape is not None:
            shape = shape.meet(bounded(exact(schema[keyword])))
    return shape


def _multiple(schema: dict[str, Json], pointer: str, integral: bool) -> int | None:
    """The integer that must divide the number: integers are multiples of p/q exactly if they are multiples of p."""
    if "multipleOf" not in schema:
        return None
    step = Fraction(exact(schema["multipleOf"]))
    if step.denominator > 1 and not integral:
        raise SchemaError(
            f"multiples of {schema['multipleOf']} cannot be enforced yet unless they are integers",
            pointer=pointer,
            keyword="multipleOf",
            rewrite='"type": "integer", in a smaller unit',
        )
    return step.numerator


def _string(schema: dict[str, Json], pointer: str) -> Shape | None:
    shape = String().meet(String(least=_count(schema, "minLength", 0), most=_count(schema, "maxLength", None)))
    for keyword in ("pattern", "format"):
        if keyword in schema and shape is not None:
            pattern = schema[keyword] if keyword == "pattern" else FORMATS[schema[keyword]]
            automaton = pattern_automaton(pattern, "all", pointer)
            shape = None if automaton.is_empty else shape.meet(String(automaton, automaton.signature))
    return shape


def pattern_automaton(pattern: str, escapes: Escapes, pointer: str) -> Automaton:
    """The content of JSON strings in which the pattern is found.

    Raises:
        SchemaError: the pattern is wrong.
        ComplexityError: it takes too many states.
    """
    try:
        return _compiled(pattern, escapes)
    except RegexError as error:
        raise SchemaError(str(error), pointer=pointer, keyword="pattern") from error
    except ComplexityError as error:
        raise ComplexityError(f"#{pointer}/pattern: {error}") from error


@lru_cache(512)
def _compiled(pattern: str, escapes: Escapes) -> Automaton:
    return compile_regex(pattern, dialect="ecma", search=True, json=True, escapes=escapes)
