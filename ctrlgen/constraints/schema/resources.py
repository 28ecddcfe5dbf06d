"""The schemas of a document by address: base URIs, anchors, and what a reference means.

Nothing is ever fetched. A schema with an ``$id`` is a resource of its own: references in it are relative to it.

Reference: JSON Schema Core 2020-12, sections 8.2 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin

from ctrlgen.constraints.schema.document import below
from ctrlgen.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = Any

_ONE_OR_SEVERAL = frozenset(
    [
        "items",
        "additionalItems",
        "additionalProperties",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
        "prefixItems",
        "allOf",
        "anyOf",
        "oneOf",
    ]
)
"""Keywords whose values are schemas, or lists of them."""

_NAMED = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"))
"""Keywords whose values hold schemas by name."""

RECURSIVE = "$recursiveAnchor"
"""The name under which a resource with ``$recursiveAnchor: true`` is found."""

_DRAFTS = {"draft-03": 3, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 8, "2020-12": 9}
LATEST = 9


@dataclass(frozen=True)
class Place:
    """A schema, where it stands, and the resource it belongs to.

    Args:
        schema: an object, true or false.
        pointer: from the root of the document.
        base: the address of its resource.
        draft: 3, 4, 6 or 7; 8 for 2019-09 and 9 for 2020-12.
    """

    schema: Json
    pointer: str
    base: str
    draft: int


def draft_of(schema: Json, outer: int) -> int:
    """The draft that ``$schema`` names; ``outer`` if it names none."""
    name = schema.get("$schema")
    if isinstance(name, str):
        for part, draft in _DRAFTS.items():
            if part in name:
                return draft
    return outer


def own_address(schema: Json, draft: int) -> str | None:
    """The ``$id`` (in Draft 4 ``id``) that makes a schema a resource, without an empty fragment; None if there is none.

    Up to Draft 7 what stands beside ``$ref`` counts for nothing, and an ``$id`` of "#name" alone is an anchor.
    """
    address = schema.get("$id" if draft > 4 else "id")
    if not isinstance(address, str) or address.startswith("#") or (draft < 8 and "$ref" in schema):
        return None
    return address.partition("#")[0] or None


class Resources:
    """All resources and anchors of a document.

    Args:
        root: a checked copy of the schema.
    """

    def __init__(self, root: Json) -> None:
        draft = draft_of(root, LATEST) if isinstance(root, dict) else LATEST
        address = own_address(root, draft) if isinstance(root, dict) else None
        self.root = Place(root, "", address or "", draft)
        # where nothing tells, the root may also be referred to by an id of Draft 4
        self._alias = root.get("id") if isinstance(root, dict) else None
        self._found: dict[str, Place] | None = None
        self._anchors: dict[tuple[str, str], Place] = {}
        self.dynamic: dict[str, dict[str, Place]] = {}

    def resolve(self, reference: str, base: str, pointer: str, keyword: str = "$ref") -> Place:
        """What a reference in the resource ``base`` means.

        Args:
            reference: as it is written.
            base: the address of the resource it stands in.
            pointer: where it stands, for errors.
            keyword: what it is the value of.

        Raises:
            SchemaError: it leads out of this document, or nowhere.
        """
        if reference == "#" and base == self.root.base:
            return self.root
        address, _, fragment = reference.partition("#")
        resource = self._resource(urljoin(base, address) if address else base, reference, pointer, keyword)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchor(resource, fragment, pointer, keyword)
        try:
            return self._below(resource, fragment, reference, pointer, keyword)
        except SchemaError:
            if address or resource is self.root or resource.draft > 4:
                raise
            # in Draft 4 an id is often a mere name, and references count from the root all the same
            return self._below(self.root, fragment, reference, pointer, keyword)

    def _resource(self, address: str, reference: str, pointer: str, keyword: str) -> Place:
        if address == self.root.base:
            return self.root
        found = self.found.get(address)
        if found is None and isinstance(self._alias, str) and address == self._alias.partition("#")[0]:
            return self.root
        if found is None:
            raise _unresolved(f"{reference!r} is outside this document and nothing is ever fetched", pointer, keyword)
        return found

    def _anchor(self, resource: Place, name: str, pointer: str, keyword: str) -> Place:
        _ = self.found
        found = self._anchors.get((resource.base, name))
        if found is None:
            raise _unresolved(f"there is no $anchor {name!r}", pointer, keyword)
        return found

    def _below(self, resource: Place, fragment: str, reference: str, pointer: str, keyword: str) -> Place:
        """Follow a JSON pointer from the root of a resource, into resources within it."""
        value, base, draft, where = resource.schema, resource.base, resource.draft, resource.pointer
        for part in fragment.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdecimal() and key.isascii() and int(key) < len(value):
                value = value[int(key)]
            else:
                raise _unresolved(f"{reference!r} leads nowhere: there is no {key!r}", pointer, keyword)
            where += "/" + part
            if isinstance(value, dict):
                draft = draft_of(value, draft)
                address = own_address(value, draft)
                base = urljoin(base, address) if address else base
        if not isinstance(value, dict | bool):
            raise _unresolved(f"{reference!r} leads to something that is not a schema", pointer, keyword)
        return Place(value, where, base, draft)

    @property
    def found(self) -> dict[str, Place]:
        """The resources by address."""
        if self._found is None:
            self._found = {}
            for place in self._walk():
                self._note(place)
        return self._found

    def _note(self, place: Place) -> None:
        schema = place.schema
        assert self._found is not None
        if own_address(schema, place.draft) or not place.pointer:
            if place.base in self._found:
                raise SchemaError(f"the address {place.base!r} is given twice", pointer=place.pointer, keyword="$id")
            self._found[place.base] = place
        anchors = [schema.get("$anchor"), schema.get("$dynamicAnchor")]
        address = schema.get("$id" if place.draft > 4 else "id")
        if isinstance(address, str) and place.draft < 8 and "#" in address:
            anchors.append(address.partition("#")[2])
        for name in anchors:
            if isinstance(name, str) and name:
                if (place.base, name) in self._anchors:
                    raise SchemaError(f"the anchor {name!r} is given twice", pointer=place.pointer, keyword="$anchor")
                self._anchors[place.base, name] = place
        name = RECURSIVE if schema.get("$recursiveAnchor") is True else schema.get("$dynamicAnchor")
        if isinstance(name, str):
            self.dynamic.setdefault(place.base, {})[name] = place

    def _walk(self) -> Iterator[Place]:
        """Each object that may be a schema."""
        todo = [self.root]
        while todo:
            place = todo.pop()
            if not isinstance(place.schema, dict):
                continue
            yield place
            for path, inner in _inner(place.schema):
                if isinstance(inner, dict):
                    draft = draft_of(inner, place.draft)
                    address = own_address(inner, draft)
                    base = urljoin(place.base, address) if address else place.base
                    todo.append(Place(inner, place.pointer + path, base, draft))


def _inner(schema: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """(path, value) of what may be a schema directly below one."""
    for keyword, value in schema.items():
        if keyword in _NAMED and isinstance(value, dict):
            yield from ((f"/{keyword}{below('', name)}", inner) for name, inner in value.items())
        elif keyword in _ONE_OR_SEVERAL and isinstance(value, dict):
            yield f"/{keyword}", value
        elif keyword in _ONE_OR_SEVERAL and isinstance(value, list):
            yield from ((f"/{keyword}/{i}", inner) for i, inner in enumerate(value))


def _unresolved(message: str, pointer: str, keyword: str) -> SchemaError:
    return SchemaError(
        message,
        pointer=pointer,
        keyword=keyword,
        rewrite='put the schema under "$defs" and refer to it as "#/$defs/NAME"',
    )
