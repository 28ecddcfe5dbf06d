"""The schema document: its subschemas by JSON pointer, its references, and which keywords are known."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

from ctrlgen.errors import ComplexityError, SchemaError

ANNOTATIONS = frozenset(
    """title description default examples deprecated readOnly writeOnly $comment $schema $defs definitions $anchor
    discriminator contentMediaType contentEncoding example externalDocs xml""".split()  # noqa: SIM905
)
"""Keywords that say nothing about which documents are valid."""

FORMATS = {
    "date": r"^DATE$",
    "time": r"^TIME$",
    "date-time": r"^DATE[Tt]TIME$",
    "uuid": r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$",
    "ipv4": r"^(?:BYTE\.){3}BYTE$",
}
"""Formats that are enforced, as ECMA expressions over the parts below."""

_LEAP = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_PARTS = {
    "DATE": r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)",
    "TIME": r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])",
    "BYTE": r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])",
}

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")

# what the value of each enforced keyword must be
_KINDS: dict[str, str] = {
    "type": "type",
    "enum": "values",
    "const": "any",
    "properties": "schemas",
    "patternProperties": "schemas",
    "additionalProperties": "schema",
    "required": "names",
    "minProperties": "count",
    "maxProperties": "count",
    "items": "schema",
    "prefixItems": "list",
    "minItems": "count",
    "maxItems": "count",
    "minLength": "count",
    "maxLength": "count",
    "pattern": "text",
    "format": "text",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
    "anyOf": "list",
    "oneOf": "list",
    "allOf": "list",
    "$ref": "text",
    "uniqueItems": "bool",
}
ENFORCED = frozenset(_KINDS)

_REWRITES = {
    "nullable": 'add "null" to type: {"type": ["string", "null"]}',
    "id": "$id",
    "additionalItems": "items beside prefixItems",
    "if": "anyOf of the two cases",
    "dependentRequired": "anyOf: one branch with the names required, one without the first name",
    "dependencies": "dependentRequired or anyOf",
    "not": "the complement, with enum, pattern or bounds",
    "propertyNames": "patternProperties with additionalProperties: false",
    "unevaluatedProperties": "additionalProperties beside all properties",
    "unevaluatedItems": "items beside prefixItems",
    "contains": "prefixItems, if the place of the item is known",
}

_EXPECTED = {
    "type": f"one of {', '.join(TYPES)}, or a list of these",
    "values": "a list of values, at least one",
    "schemas": "an object of schemas",
    "schema": "a schema (an object, true or false)",
    "names": "a list of strings",
    "count": "a whole number of at least 0",
    "list": "a list of schemas, at least one",
    "text": "a string",
    "number": "a number",
    "bool": "true or false",
}


class Document:
    """A schema document.

    Args:
        text: JSON.

    Attributes:
        schemas: the subschemas met so far; a subschema is known by its index.
        pointers: the JSON pointer of each.
    """

    def __init__(self, text: str) -> None:
        self.root = json.loads(text, parse_float=Decimal)
        self.schemas: list[Any] = []
        self.pointers: list[str] = []
        self._index: dict[str, int] = {}
        self.rows: list[tuple[str, str, str]] = []
        self._check_all(self.at(""))

    def at(self, pointer: str, referrer: str | None = None) -> int:
        """The index of the subschema at a pointer.

        Raises:
            SchemaError: nothing is there, or nothing that is a schema.
        """
        known = self._index.get(pointer)
        if known is None:
            value: Any = self.root
            for part in pointer.split("/")[1:]:
                value = _step(value, unquote(part).replace("~1", "/").replace("~0", "~"))
                if value is _NOTHING:
                    raise SchemaError(
                        f"{pointer!r} points to nothing in this schema",
                        pointer=referrer or pointer,
                        keyword=None if referrer is None else "$ref",
                    )
            if not isinstance(value, dict | bool):
                raise SchemaError("this is not a schema: expected an object, true or false", pointer=pointer)
            known = self._index[pointer] = len(self.schemas)
            self.schemas.append(value)
            self.pointers.append(pointer)
        return known

    def child(self, schema: int, *path: str) -> int:
        """The index of a subschema below another."""
        escaped = (part.replace("~", "~0").replace("/", "~1").replace("%", "%25") for part in path)
        return self.at("/".join((self.pointers[schema], *escaped)))

    def target(self, schema: int) -> int:
        """The index of what the $ref of a subschema refers to."""
        reference, pointer = self.schemas[schema]["$ref"], self.pointers[schema]
        if reference == "#" or reference.startswith("#/"):
            return self.at(unquote(reference[1:]).replace("%", "%25"), referrer=pointer)
        if reference.startswith("#"):
            for place, value in _walk(self.root):
                if isinstance(value, dict) and value.get("$anchor") == reference[1:]:
                    return self.at(place)
        raise SchemaError(
            f"{reference!r} is not in this document: only references that begin with # are followed",
            pointer=pointer,
            keyword="$ref",
            rewrite='copy the schema below $defs and write {"$ref": "#/$defs/..."}',
        )

    def _check_all(self, root: int) -> None:
        done, todo = set(), [root]
        while todo:
            schema = todo.pop()
            if schema in done:
                continue
            done.add(schema)
            if len(done) > 100_000:
                raise ComplexityError("the schema has more than 100000 subschemas; split it or simplify it")
            if isinstance(self.schemas[schema], dict):
                todo += self._check(schema)

    def _check(self, index: int) -> list[int]:
        """Check the keywords of one subschema; its children."""
        schema, pointer = self.schemas[index], self.pointers[index]
        children: list[int] = []
        for keyword, value in schema.items():
            kind = _KINDS.get(keyword)
            if kind is None:
                self._check_other(keyword, value, pointer)
                continue
            if not _fits(kind, value):
                raise SchemaError(f"expected {_EXPECTED[kind]}, got {_shown(value)}", pointer=pointer, keyword=keyword)
            self.rows.append((pointer, keyword, "enforced"))
            if kind == "schema":
                children.append(self.child(index, keyword))
            elif kind == "schemas":
                children += [self.child(index, keyword, name) for name in value]
            elif kind == "list":
                children += [self.child(index, keyword, str(i)) for i in range(len(value))]
            elif keyword == "$ref":
                children.append(self.target(index))
        _check_values(schema, pointer)
        return children

    def _check_other(self, keyword: str, value: Any, pointer: str) -> None:
        if keyword in ANNOTATIONS or keyword.startswith("x-") or (keyword == "$id" and pointer == ""):
            self.rows.append((pointer, keyword, "annotation"))
            return
        raise SchemaError(
            "this keyword is not enforced, and ctrlgen ignores none (names that begin with x- are annotations)",
            pointer=pointer,
            keyword=keyword,
            rewrite=_REWRITES.get(keyword),
        )


def format_pattern(name: str) -> str:
    """The ECMA expression of a format."""
    pattern = FORMATS[name]
    for part, expression in _PARTS.items():
        pattern = pattern.replace(part, expression)
    return pattern


_NOTHING = object()


def _step(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part, _NOTHING)
    if isinstance(value, list) and part.isdecimal() and int(part) < len(value):
        return value[int(part)]
    return _NOTHING


def _walk(root: Any) -> list[tuple[str, Any]]:
    found, todo = [], [("", root)]
    while todo:
        pointer, value = todo.pop()
        found.append((pointer, value))
        if isinstance(value, dict):
            todo += [
                (f"{pointer}/{k.replace('~', '~0').replace('/', '~1').replace('%', '%25')}", v)
                for k, v in value.items()
            ]
        elif isinstance(value, list):
            todo += [(f"{pointer}/{i}", v) for i, v in enumerate(value)]
    return found


def _fits(kind: str, value: Any) -> bool:
    if kind == "type":
        return value in TYPES if isinstance(value, str) else isinstance(value, list) and all(t in TYPES for t in value)
    if kind == "values":
        return isinstance(value, list)
    if kind == "schemas":
        return isinstance(value, dict) and all(isinstance(v, dict | bool) for v in value.values())
    if kind == "schema":
        return isinstance(value, dict | bool)
    if kind == "list":
        return isinstance(value, list) and value != [] and all(isinstance(v, dict | bool) for v in value)
    if kind == "names":
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if kind == "count":
        return isinstance(value, int | Decimal) and not isinstance(value, bool) and value >= 0 and value == int(value)
    if kind == "number":
        return isinstance(value, int | Decimal) and not isinstance(value, bool)
    return isinstance(value, {"text": str, "bool": bool}.get(kind, object))


def _check_values(schema: dict[str, Any], pointer: str) -> None:
    """Values that are well formed and still cannot be enforced."""
    if schema.get("uniqueItems") is True:
        raise SchemaError(
            "items that must differ from each other are not enforced", pointer=pointer, keyword="uniqueItems"
        )
    if (name := schema.get("format")) is not None and name not in FORMATS:
        raise SchemaError(
            f"format {name!r} is not enforced; these are: {', '.join(FORMATS)}",
            pointer=pointer,
            keyword="format",
            rewrite="pattern",
        )
    step = schema.get("multipleOf")
    if step is not None and (step <= 0 or step != int(step)):
        raise SchemaError(
            "only whole numbers of at least 1 are enforced here",
            pointer=pointer,
            keyword="multipleOf",
            rewrite="scale the value to a whole number of the smallest unit",
        )


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
