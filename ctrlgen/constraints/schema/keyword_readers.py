"""One reader for each keyword that restricts something: it writes what the keyword says into the facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlgen.constraints.schema.document import below
from ctrlgen.constraints.schema.facts import Contains, ItemRule, Listed, MemberRule
from ctrlgen.constraints.schema.formats import ANNOTATION_FORMATS, FORMAT_NAMES
from ctrlgen.constraints.schema.forms import FORMS, TYPES, are_names
from ctrlgen.constraints.schema.patterns import pattern_automaton
from ctrlgen.constraints.schema.quotes import copy_of, quote_text
from ctrlgen.errors import InputError, SchemaError, UnsatisfiableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.constraints.schema.facts import Facts, Goal
    from ctrlgen.constraints.schema.reading import Reader

Json = Any
Schema = dict[str, Any]

NAMED = {name: frozenset((name,)) for name in TYPES}


def _type(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    value = schema["type"]
    if value.__class__ is str and value != "integer" and "nullable" not in schema:
        facts["type"] = NAMED[value]
        return
    types = NAMED[value] if isinstance(value, str) else frozenset(value)
    if schema.get("nullable") is True:
        types |= {"null"}
    if reader.draft < 6 and "integer" in types:
        reader.plain_integers = True  # 1.0 is no integer yet
    facts["type"] = types - {"integer"} if "number" in types else types


def _nullable(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    if schema["nullable"] and "type" not in schema:
        reader.note(pointer, "nullable", "annotation", "OpenAPI 3.0: it only means something beside type")


def _enum(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    facts["enum"] = Listed.of(schema["enum"])


def _const(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    facts["const"] = Listed.of([schema["const"]])


# references and branches


def _reference(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        goal = reader.reference(schema[keyword], pointer, keyword)
        facts["allOf"] = (*facts.get("allOf", ()), goal)

    return read


def _branches(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        goals = tuple(reader.goal(part, f"{pointer}/{keyword}/{i}") for i, part in enumerate(schema[keyword]))
        facts[keyword] = (*facts.get(keyword, ()), *goals)

    return read


def _one(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        facts[keyword] = reader.goal(schema[keyword], f"{pointer}/{keyword}")

    return read


def _if(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    if "then" in schema or "else" in schema or "unevaluatedItems" in schema or "unevaluatedProperties" in schema:
        goals = [reader.goal(schema.get(k, True), f"{pointer}/{k}") for k in ("if", "then", "else")]
        facts["if"] = tuple(goals)
    else:
        # it still counts for unevaluated keywords further out
        facts["if"] = (reader.goal(schema["if"], f"{pointer}/if"), (), ())


def _then(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        if "if" not in schema:
            reader.note(pointer, keyword, "annotation", "it only means something beside if")

    return read


# numbers, lengths and counts


def _value(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        facts[keyword] = schema[keyword]

    return read


def _bound(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    exclusive = "exclusiveM" + keyword[1:]

    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        facts[exclusive if schema.get(exclusive) is True else keyword] = schema[keyword]

    return read


def _exclusive(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    inclusive = "m" + keyword[len("exclusiveM") :]

    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        value = schema[keyword]
        if not isinstance(value, bool):
            facts[keyword] = value
        elif value and inclusive not in schema:
            reader.note(pointer, keyword, "annotation", f"Draft 4: it only means something beside {inclusive}")

    return read


def _least(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        if schema[keyword]:
            facts[keyword] = int(schema[keyword])

    return read


def _most(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        facts[keyword] = int(schema[keyword])

    return read


# strings


def _pattern(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    pattern_automaton(schema["pattern"], "all", pointer)
    facts["pattern"] = schema["pattern"]


def _format(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    name = schema["format"]
    if name in FORMAT_NAMES:
        facts["format"] = name
    elif name == "idn-hostname":
        reader.refuse(pointer, "format", "no finite automaton counts the Punycode of a label", '"pattern"')
    else:
        reader.note(pointer, "format", "annotation", ANNOTATION_FORMATS.get(name, f"{name!r} is no standard format"))


def _quote(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    text = quote_text(schema["x-quote"])
    try:
        copy_of(text)
    except (InputError, UnsatisfiableError) as error:
        raise SchemaError(str(error), pointer=pointer, keyword="x-quote") from None
    facts["x-quote"] = text


# arrays


def _items(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    if "item rule" in facts:
        return
    items, keyword = schema.get("items", True), "prefixItems"
    if isinstance(items, list):  # up to Draft 2019-09
        first, keyword, rest, after = items, "items", schema.get("additionalItems", True), "additionalItems"
    else:
        first, rest, after = schema.get("prefixItems", []), items, "items"
    goals = tuple(reader.goal(item, f"{pointer}/{keyword}/{i}") for i, item in enumerate(first))
    others = reader.goal(rest, f"{pointer}/{after}")
    facts["item rule"] = ItemRule(goals, others)
    if after in schema:
        facts["all items"] = True


def _additional_items(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    if not isinstance(schema.get("items"), list):
        reader.note(pointer, "additionalItems", "annotation", "it only means something beside items with a list")


def _unique(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    if schema["uniqueItems"]:
        facts["uniqueItems"] = True


def _contains(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    goal = reader.goal(schema["contains"], f"{pointer}/contains")
    most = schema.get("maxContains")
    facts["contains"] = Contains(goal, int(schema.get("minContains", 1)), None if most is None else int(most))


def _contained(keyword: str) -> Callable[[Reader, Facts, Schema, str], None]:
    def read(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
        if "contains" not in schema:
            reader.note(pointer, keyword, "annotation", "it only means something beside contains")

    return read


# objects


def _named(reader: Reader, schema: Schema, keyword: str, pointer: str) -> tuple[tuple[str, Goal], ...]:
    named = schema.get(keyword)
    if not named:
        return ()
    place = f"{pointer}/{keyword}"
    plain = not any("/" in name or "~" in name for name in named)
    return tuple(
        [(name, reader.goal(part, f"{place}/{name}" if plain else below(place, name))) for name, part in named.items()]
    )


def _members(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    if "members" in facts:
        return
    named = _named(reader, schema, "properties", pointer)
    patterns = _named(reader, schema, "patternProperties", pointer)
    for pattern, _ in patterns:
        pattern_automaton(pattern, "canonical", below(f"{pointer}/patternProperties", pattern))
    others = reader.goal(schema.get("additionalProperties", True), f"{pointer}/additionalProperties")
    if named or patterns or others:
        facts["members"] = MemberRule(named, patterns, others)
    if "additionalProperties" in schema:
        facts["all members"] = True


def _required(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    names = dict.fromkeys(schema.get("required", ()))
    if "discriminator" in schema:
        names[schema["discriminator"]["propertyName"]] = None
    if names:
        facts["required"] = tuple(names)


def _dependent_required(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    _depend(facts, "dependentRequired", tuple((n, tuple(needed)) for n, needed in schema["dependentRequired"].items()))


def _dependent_schemas(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    _depend(facts, "dependentSchemas", _named(reader, schema, "dependentSchemas", pointer))


def _dependencies(reader: Reader, facts: Facts, schema: Schema, pointer: str) -> None:
    value = schema["dependencies"]
    names = {name: needed if are_names(needed) else [needed] for name, needed in value.items()}
    lists = tuple((name, tuple(n)) for name, n in names.items() if not isinstance(value[name], dict | bool))
    place = f"{pointer}/dependencies"
    parts = [(name, part) for name, part in value.items() if isinstance(part, dict | bool)]
    _depend(facts, "dependentRequired", lists)
    _depend(facts, "dependentSchemas", tuple((name, reader.goal(p, place + below("", name))) for name, p in parts))


def _depend(facts: Facts, keyword: str, found: tuple[tuple[str, Any], ...]) -> None:
    if found:
        facts[keyword] = (*facts.get(keyword, ()), *found)


READERS: dict[str, Callable[[Reader, Facts, Schema, str], None]] = {
    "type": _type,
    "nullable": _nullable,
    "enum": _enum,
    "const": _const,
    "$ref": _reference("$ref"),
    "$dynamicRef": _reference("$dynamicRef"),
    "$recursiveRef": _reference("$recursiveRef"),
    "allOf": _branches("allOf"),
    "anyOf": _branches("anyOf"),
    "oneOf": _branches("oneOf"),
    "not": _one("not"),
    "if": _if,
    "then": _then("then"),
    "else": _then("else"),
    "minimum": _bound("minimum"),
    "maximum": _bound("maximum"),
    "exclusiveMinimum": _exclusive("exclusiveMinimum"),
    "exclusiveMaximum": _exclusive("exclusiveMaximum"),
    "multipleOf": _value("multipleOf"),
    "minLength": _least("minLength"),
    "maxLength": _most("maxLength"),
    "pattern": _pattern,
    "format": _format,
    "x-quote": _quote,
    "prefixItems": _items,
    "items": _items,
    "additionalItems": _additional_items,
    "minItems": _least("minItems"),
    "maxItems": _most("maxItems"),
    "uniqueItems": _unique,
    "contains": _contains,
    "minContains": _contained("minContains"),
    "maxContains": _contained("maxContains"),
    "unevaluatedItems": _one("unevaluatedItems"),
    "properties": _members,
    "patternProperties": _members,
    "additionalProperties": _members,
    "propertyNames": _one("propertyNames"),
    "required": _required,
    "discriminator": _required,
    "minProperties": _least("minProperties"),
    "maxProperties": _most("maxProperties"),
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "dependencies": _dependencies,
    "unevaluatedProperties": _one("unevaluatedProperties"),
}

RULES = {keyword: (reader, FORMS[keyword][0]) for keyword, reader in READERS.items()}
"""The reader of each keyword and what tests its value."""
