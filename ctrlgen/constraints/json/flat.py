"""What one value must satisfy: references followed, alternatives opened, siblings intersected.

The *demand* on a value is a set of subschemas, all of which it must satisfy. Its *alternatives* are sets of subschemas
whose own keywords alone matter, since their $ref, allOf, anyOf and oneOf have been followed. So the intersection of
two schemas is the union of two sets, whatever stands in them, and recursion needs no special care: there are only
finitely many sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlgen.errors import ComplexityError, SchemaError

if TYPE_CHECKING:
    from ctrlgen.constraints.json.document import Document

Demand = frozenset[int]
ANYTHING: Demand = frozenset()

MAX_ALTERNATIVES = 4096


def alternatives(document: Document, demand: Demand) -> list[Demand]:
    """The alternatives of a demand; none if false is among them.

    Raises:
        ComplexityError: more than MAX_ALTERNATIVES of them.
        SchemaError: a reference that leads back to itself without anything between.
    """
    finished: dict[Demand, None] = {}
    todo: list[tuple[Demand, tuple[int, ...]]] = [(frozenset(), tuple(sorted(demand)))]
    steps = 0
    while todo:
        settled, waiting = todo.pop()
        if not waiting:
            finished.setdefault(settled)
            continue
        schema, rest = waiting[0], waiting[1:]
        steps += 1
        if len(todo) + len(finished) > MAX_ALTERNATIVES or steps > 40 * MAX_ALTERNATIVES:
            raise ComplexityError(
                f"{document.pointers[schema] or '#'}: anyOf and allOf combine to more than {MAX_ALTERNATIVES} cases; "
                "factor the schema so that alternatives do not multiply"
            )
        if schema in settled or document.schemas[schema] is True:
            todo.append((settled, rest))
        elif document.schemas[schema] is not False:
            todo += [(settled | {schema}, (*branch, *rest)) for branch in reversed(_branches(document, schema))]
    return list(finished)


def _branches(document: Document, schema: int) -> list[tuple[int, ...]]:
    """The sets of further subschemas, one of which the value must satisfy too."""
    here = document.schemas[schema]
    always = [document.child(schema, "allOf", str(i)) for i in range(len(here.get("allOf", ())))]
    if "$ref" in here:
        always.append(_target(document, schema))
    branches: list[tuple[int, ...]] = [tuple(always)]
    for keyword in ("anyOf", "oneOf"):
        if keyword in here:
            options = [document.child(schema, keyword, str(i)) for i in range(len(here[keyword]))]
            branches = [(*branch, option) for branch in branches for option in options]
    return branches


def _target(document: Document, schema: int) -> int:
    seen = {schema}
    target = document.target(schema)
    while isinstance(there := document.schemas[target], dict) and "$ref" in there:
        if target in seen:
            raise SchemaError("this reference leads back to itself", pointer=document.pointers[schema], keyword="$ref")
        seen.add(target)
        target = document.target(target)
    if target in seen:
        raise SchemaError("this reference leads back to itself", pointer=document.pointers[schema], keyword="$ref")
    return document.target(schema)
