"""A place in the JSON of a request: its value, how to get there, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from ctrlgen.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlgen.serving.registry import Registry


@dataclass(frozen=True)
class Place:
    """A value and where it stands.

    Args:
        value: of JSON.
        registry: what names mean, and limits.
        pointer: a JSON pointer.
        depth: number of parts it is in.
        counted: how many parts were read so far, in one element, shared by all places of a request.
    """

    value: Any
    registry: Registry
    pointer: str = ""
    depth: int = 0
    counted: list[int] = field(default_factory=lambda: [0])

    def at(self, name: str | int, value: Any) -> Place:
        """A value within this one."""
        step = str(name).replace("~", "~0").replace("/", "~1")
        return Place(value, self.registry, f"{self.pointer}/{step}", self.depth + 1, self.counted)

    def beside(self, name: str, value: Any) -> Place:
        """Another member of the object that this is a member of."""
        parent = Place(None, self.registry, self.pointer.rpartition("/")[0], self.depth - 1, self.counted)
        return parent.at(name, value)

    def with_value(self, value: Any) -> Place:
        """The same place with some members taken out."""
        return Place(value, self.registry, self.pointer, self.depth, self.counted)

    def count(self, parts: int = 1) -> None:
        """Raise if there are too many parts, or this one is too deep."""
        limits = self.registry.limits
        self.counted[0] += parts
        if self.counted[0] > limits.parts:
            raise self.error(f"more than {limits.parts} parts, the limit of this server (limits.parts)")
        if self.depth > 2 * limits.depth:  # a part within a list is two steps down
            raise self.error(f"more than {limits.depth} parts within each other, the limit of this server")

    def object(self) -> dict[str, Any]:
        """The value as an object."""
        if not isinstance(self.value, dict):
            raise self.error("expected an object")
        return self.value

    def list(self) -> list[Any]:
        """The value as a list."""
        if not isinstance(self.value, list):
            raise self.error("expected a list")
        return self.value

    def string(self) -> str:
        """The value as a string."""
        if not isinstance(self.value, str):
            raise self.error("expected a string")
        return self.value

    def registered(self, table: Mapping[str, Any], kind: str) -> Any:
        """What the operator registered under the name that the value is."""
        name = self.string()
        if name not in table:
            raise self.error(f"this server has no {name!r} among its {kind}; {_hint(name, table)}")
        return table[name]

    def error(self, message: str, member: str = "") -> RequestError:
        """What is wrong here, or with a member."""
        return RequestError(message, pointer=self.pointer + (f"/{member}" if member else ""))

    def unknown(self, name: str, known: Iterable[str]) -> RequestError:
        """A member that nobody knows."""
        return self.error(f"nobody knows this member; {_hint(name, known)}", name)


def _hint(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names[:20]) or 'none'}"
