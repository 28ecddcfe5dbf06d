"""What whoever runs a server lets requests name: catalogues, lists of names, guards, hidden Markov models.

A request names these and brings no path of its own, so that it can read no file and fetch nothing.

    registry = Registry.from_toml("serving.toml")

    [limits]
    bytes = 65536
    [catalogues]
    books = "books.index"
    [constraints.packages]
    names = "pypi.txt"
    normalise = "pep503"
    [guards.pypi]
    names = "pypi.txt"
    [hmms]
    small = "smollm2-135m"
    [attributes]
    positive = "smollm2-135m.positive-review.factorised"

Paths are relative to the file. A HMM and an attribute may be one that comes with ctrlgen.
"""

from __future__ import annotations

import threading
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ctrlgen.errors import InputError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from ctrlgen.constraint import Constraint, Specification
    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True)
class Limits:
    """What one request may take.

    Raises:
        InputError: one is no positive number.
    """

    bytes: int = 1 << 18
    """Of the JSON."""
    depth: int = 32
    """Of parts within parts."""
    parts: int = 256
    """In all; each option of a choice counts as a sixteenth."""
    steerers: int = 4
    seconds: float = 5.0
    """That a request, or a step of the engine, waits for a constraint. What takes longer is given up."""
    compiled: int = 256
    """Constraints kept for requests to come, those least lately used going first."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            kinds = (int, float) if one.name == "seconds" else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not value > 0:
                raise InputError(f"limits.{one.name} is {value!r}; expected a number above 0")


@dataclass(frozen=True)
class Catalogue:
    """A catalogue in a file, as a specification: one of its items, in tokens."""

    path: str

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The index, its arrays mapped.

        Raises:
            InputError: it was built for another vocabulary.
        """
        from ctrlgen.index.storage import open_index

        return cast("Constraint", open_index(self.path, vocabulary))

    def parse(self, text: str) -> str:
        """The text itself."""
        return text


@dataclass(frozen=True)
class Registry:
    """Things by the name that requests know them by; immutable.

    Args:
        catalogues: a ``Catalogue``, or any specification.
        constraints: specifications of any kind.
        guards: each a ``PackageGuard``.
        hmms, attributes: each an ``HMM`` or ``Attribute``, or a function that loads it, once, when first asked for.
        limits: for every request.
        model: folder of the model, or of its tokenizer, for constraints to be compiled where requests are admitted.
    """

    catalogues: Mapping[str, Specification] = field(default_factory=dict)
    constraints: Mapping[str, Specification] = field(default_factory=dict)
    guards: Mapping[str, Any] = field(default_factory=dict)
    hmms: Mapping[str, Any] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    limits: Limits = Limits()
    model: str | None = None
    _loaded: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _lock: Any = field(default_factory=threading.Lock, init=False, repr=False, compare=False)

    def hmm(self, name: str) -> Any:
        """The model called ``name``.

        Raises:
            KeyError: there is none.
        """
        return self._ready("hmms", name)

    def attribute(self, name: str) -> Any:
        """The attribute called ``name``.

        Raises:
            KeyError: there is none.
        """
        return self._ready("attributes", name)

    def _ready(self, kind: str, name: str) -> Any:
        given = getattr(self, kind)[name]
        if not callable(given):
            return given
        with self._lock:
            if (kind, name) not in self._loaded:
                self._loaded[kind, name] = given()
            return self._loaded[kind, name]

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Registry:
        """What a file says.

        Raises:
            InputError: it cannot be read, or says what nobody knows; names the file and the entry.
        """
        file = Path(path)
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{file}: {error}") from None
        return _from_content(content, file)


_TABLES = ("limits", "catalogues", "constraints", "guards", "hmms", "attributes")


def _from_content(content: Mapping[str, Any], file: Path) -> Registry:
    for name, value in content.items():
        if name == "model" and isinstance(value, str):
            continue
        if name not in _TABLES or not isinstance(value, dict):
            raise InputError(f"{file}: {name}: expected model = '...' and the tables {', '.join(_TABLES)}")
    readers: dict[str, Callable[[Any, Path], Any]] = {
        "catalogues": _catalogue,
        "constraints": _names,
        "guards": _guard,
        "hmms": _hmm,
        "attributes": _attribute,
    }
    tables: dict[str, dict[str, Any]] = {table: {} for table in readers}
    for table, read in readers.items():
        for name, value in content.get(table, {}).items():
            try:
                tables[table][name] = read(value, file.parent)
            except (TypeError, OSError, InputError) as error:
                raise InputError(f"{file}: {table}.{name}: {error}") from error
    try:
        limits = Limits(**content.get("limits", {}))
    except TypeError as error:
        raise InputError(f"{file}: limits: {error}") from None
    model = content.get("model")
    if model is not None and (file.parent / model).exists():
        model = str(file.parent / model)
    return Registry(**tables, limits=limits, model=model)


def _path(value: object, folder: Path) -> str:
    if not isinstance(value, str):
        raise InputError(f"expected a path, not {value!r}")
    path = folder / Path(value).expanduser()
    if not path.exists():
        raise InputError(f"there is no file {path}")
    return str(path)


def _catalogue(value: object, folder: Path) -> Catalogue:
    return Catalogue(_path(value, folder))


def _options(value: object, folder: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or "names" not in value:
        raise InputError('expected a table with names = "a file"')
    return {**value, "names": _path(value["names"], folder)}


def _names(value: object, folder: Path) -> Specification:
    from ctrlgen.constraints.package_names import PackageNames

    return PackageNames(**_options(value, folder))


def _guard(value: object, folder: Path) -> Any:
    from ctrlgen.guard.package_guard import PackageGuard

    return PackageGuard(**_options(value, folder))


def _hmm(value: object, folder: Path) -> Callable[[], Any]:
    path = _ready_or_path(value, folder)

    def load() -> Any:
        from ctrlgen.hmm.model import HMM

        return HMM.load(path)

    return load


def _attribute(value: object, folder: Path) -> Callable[[], Any]:
    path = _ready_or_path(value, folder)

    def load() -> Any:
        from ctrlgen.hmm.attribute import Attribute

        return Attribute.load(path)

    return load


def _ready_or_path(value: object, folder: Path) -> str:
    from ctrlgen.hmm.library import names, ready

    return str(ready(value)) if isinstance(value, str) and value in names() else _path(value, folder)
