"""A document -> facts: each schema that can be reached gets a number, each keyword is examined once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from ctrlgen.constraints.schema.facts import NEVER
from ctrlgen.constraints.schema.findings import Entry
from ctrlgen.constraints.schema.forms import FORMS, KNOWN, shown
from ctrlgen.constraints.schema.keyword_readers import NAMED, READERS, RULES
from ctrlgen.constraints.schema.misspelt import ANNOTATIONS, intended
from ctrlgen.constraints.schema.resources import RECURSIVE, Resources, draft_of, own_address
from ctrlgen.errors import ComplexityError, SchemaError

if TYPE_CHECKING:
    from ctrlgen.constraints.schema.facts import Facts, Goal
    from ctrlgen.constraints.schema.resources import Place

Json = Any
Scope = tuple[tuple[str, str], ...]
"""(name, address): in which resource a dynamic reference finds a name, for the names met so far."""

_BARE = ANNOTATIONS | {"type"}
_ADDRESSED = frozenset(("$id", "id", "$schema"))


class Reader:
    """The facts of all schemas that can be reached from the root.

    Equal schemas have one number, wherever they stand.

    Args:
        root: a checked copy of the schema.
        strict: whether what cannot be enforced is an error; else it is left out and noted.
        dropped: (pointer, keyword) of what is to be left out since it could not be enforced later on.
        collect: note what is refused instead of raising it.

    Raises:
        SchemaError: a keyword cannot be enforced, or a reference leads nowhere.
        ComplexityError: a pattern takes too many states.
    """

    def __init__(
        self,
        root: Json,
        *,
        strict: bool = True,
        dropped: dict[tuple[str, str], Entry] | None = None,
        collect: bool = False,
        dynamic: bool = False,
    ) -> None:
        self.resources = Resources(root)
        self.strict, self.collect, self.dropped = strict, collect, dropped or {}
        self.facts: list[Facts] = [{}]
        self.pointers: list[str] = [""]
        self.notes: dict[tuple[str, str], Entry] = dict(self.dropped)
        self.slips: list[str] = []
        self.seen: list[tuple[Json, str]] = []
        self.plain_integers = False
        self._goals: dict[Any, Goal] = {}
        self._same: dict[Any, int] = {}
        self._references: dict[tuple[str, str, Scope | None], Goal] = {}
        self._todo: list[tuple[int, Place, Scope | None]] = []
        place = self.resources.root
        self.base, self.draft = place.base, place.draft
        self.scope: Scope | None = None
        if dynamic:
            _ = self.resources.found
            self.scope = self._entered((), self.base)
        self.root = self.goal(root, "")
        while self._todo:
            self._read_later(*self._todo.pop())

    # numbers

    def goal(self, schema: Json, pointer: str) -> Goal:
        """The goal of meeting a schema that stands at ``pointer``, in the resource that is being read."""
        if schema.__class__ is not dict:
            return () if schema is True else NEVER
        outer = None
        if not _ADDRESSED.isdisjoint(schema) and pointer:
            outer = self.base, self.draft, self.scope
            self._enter(schema)
        key = id(schema) if self.scope is None else (id(schema), self.scope)
        goal = self._goals.get(key)
        if goal is None and not self.dropped and (name := schema.get("type")).__class__ is str:
            goal = self._bare(name, schema, pointer)
            if goal is not None:
                self._goals[key] = goal
        if goal is None:
            facts = self._read(schema, pointer)
            goal = self._goals.get(key)  # set if a schema within refers to this one
            if goal is None:
                goal = self._goals[key] = self.numbered(facts, pointer)
            else:
                self.facts[goal[0]] = facts
        if outer is not None:
            self.base, self.draft, self.scope = outer
        return goal

    def _bare(self, name: str, schema: dict[str, Json], pointer: str) -> Goal | None:
        """The goal of a schema that names a type and says nothing else that counts: half of all schemas."""
        if name not in NAMED or not _BARE.issuperset(schema):
            return None
        if name == "integer" and self.draft < 6:
            return None
        self.seen.append((schema, pointer))
        return self.numbered({"type": NAMED[name]}, pointer)

    def numbered(self, facts: Facts, pointer: str) -> Goal:
        """The goal of some facts."""
        if len(facts) <= 1:
            if not facts:
                return ()
            if "allOf" in facts and len(facts["allOf"]) == 1:
                return facts["allOf"][0]  # type: ignore[no-any-return]
        key = tuple(facts.items())
        new = len(self.facts)
        number = self._same.setdefault(key, new)
        if number == new:
            self.facts.append(facts)
            self.pointers.append(pointer)
        return (number,)

    def _enter(self, schema: dict[str, Json]) -> None:
        """Go into a schema that may be a resource of its own."""
        self.draft = draft_of(schema, self.draft)
        address = own_address(schema, self.draft)
        if address is not None:
            self.base = urljoin(self.base, address)
            if self.scope is not None:
                self.scope = self._entered(self.scope, self.base)

    def _entered(self, scope: Scope, base: str) -> Scope:
        """The scope after going into a resource: the first one with a name keeps it."""
        known = {name for name, _ in scope}
        new = [(name, base) for name in self.resources.dynamic.get(base, ()) if name not in known]
        return tuple(sorted((*scope, *new))) if new else scope

    # references

    def reference(self, reference: str, pointer: str, keyword: str = "$ref") -> Goal:
        """The goal of what a reference means; what it refers to is read later."""
        key = (reference, self.base, self.scope)
        if keyword == "$ref" and key in self._references:
            return self._references[key]
        place = self.resources.resolve(reference, self.base, pointer, keyword)
        if keyword != "$ref":
            place = self._dynamic(place, reference, keyword)
        goal = self._referred(place)
        if keyword == "$ref":
            self._references[key] = goal
        return goal

    def _dynamic(self, place: Place, reference: str, keyword: str) -> Place:
        """Where a dynamic reference leads: if to a dynamic anchor, then to the outermost one of its name."""
        name = RECURSIVE if keyword == "$recursiveRef" else reference.partition("#")[2]
        here = self.resources.dynamic.get(place.base, {}).get(name)
        if here is None or here.schema is not place.schema or self.scope is None:
            return place
        base = dict(self.scope).get(name)
        return place if base is None else self.resources.dynamic[base][name]

    def _referred(self, place: Place) -> Goal:
        if place.schema.__class__ is not dict:
            return () if place.schema else NEVER
        scope = self.scope if self.scope is None else self._entered(self.scope, place.base)
        key = id(place.schema) if scope is None else (id(place.schema), scope)
        if key not in self._goals:
            self._goals[key] = (len(self.facts),)
            self._todo.append((len(self.facts), place, scope))
            self.facts.append({"unread": True})
            self.pointers.append(place.pointer)
        return self._goals[key]

    def _read_later(self, number: int, place: Place, scope: Scope | None) -> None:
        if "unread" in self.facts[number]:
            self.base, self.draft, self.scope = place.base, place.draft, scope
            self.facts[number] = self._read(place.schema, place.pointer)

    # keywords

    def _read(self, schema: dict[str, Json], pointer: str) -> Facts:
        self.seen.append((schema, pointer))
        facts: Facts = {}
        if self.draft < 8 and "$ref" in schema:
            schema = self._alone(schema, pointer)
        for keyword, value in schema.items():
            rule = RULES.get(keyword)
            if rule is None:
                if keyword not in ANNOTATIONS:
                    self._unknown(keyword, value, pointer)
            elif not rule[1](value):
                self.refuse(pointer, keyword, f"expected {FORMS[keyword][1]}, not {shown(value)}")
            elif not self.dropped or (pointer, keyword) not in self.dropped:
                try:
                    rule[0](self, facts, schema, pointer)
                except SchemaError as error:
                    self._caught(error, pointer, keyword)
                except ComplexityError as error:
                    if self.strict and not self.collect:
                        raise
                    self.refuse(pointer, keyword, str(error))
        return facts

    def _alone(self, schema: dict[str, Json], pointer: str) -> dict[str, Json]:
        """Up to Draft 7 a reference stands for the whole schema."""
        for keyword in schema:
            if keyword in FORMS and keyword != "$ref":
                self.note(pointer, keyword, "annotation", "beside $ref, which until Draft 2019-09 stands alone")
        return {"$ref": schema["$ref"]}

    def _unknown(self, keyword: str, value: Json, pointer: str) -> None:
        meant = intended(keyword, KNOWN)
        if meant is not None and FORMS[meant][0](value):
            note = f"unknown keyword; is {meant!r} meant?"
            self.slips.append(f"#{pointer}/{keyword}: {note}")
            self.note(pointer, keyword, "annotation", note)
        elif not keyword.startswith("x-"):
            self.note(pointer, keyword, "annotation", "unknown keyword")

    def _caught(self, error: SchemaError, pointer: str, keyword: str) -> None:
        """An error below a keyword: raised, or noted, and what it is about left out."""
        if self.strict and not self.collect:
            raise error
        message = str(error).partition(": ")[2].partition("\n")[0]
        self.refuse(error.pointer or pointer, error.keyword or keyword, message, error.rewrite)

    def refuse(self, pointer: str, keyword: str, note: str, rewrite: str | None = None) -> None:
        """Refuse a keyword, or note that it is left out."""
        entry = Entry(pointer, keyword, "refused" if self.strict else "not enforced", note, rewrite)
        if self.strict and not self.collect:
            raise entry.error()
        self.notes[pointer, keyword] = entry

    def note(self, pointer: str, keyword: str, status: Any, note: str) -> None:
        """Say how a keyword is read."""
        self.notes[pointer, keyword] = Entry(pointer, keyword, status, note)

    def entries(self) -> list[Entry]:
        """What becomes of each keyword that was read."""
        found: dict[tuple[str, str], Entry] = {}
        for schema, pointer in self.seen:
            for keyword in schema:
                status: Any = "enforced" if keyword in READERS else "annotation"
                found[pointer, keyword] = self.notes.get((pointer, keyword)) or Entry(pointer, keyword, status)
        return [*found.values(), *(entry for key, entry in self.notes.items() if key not in found)]
