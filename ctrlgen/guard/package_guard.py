"""PackageGuard: text in which only packages that exist are installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from ctrlgen.constraints.package_names import index_of_names
from ctrlgen.errors import InputError
from ctrlgen.guard.commands import Ecosystem
from ctrlgen.guard.imports import modules_of, pairs_of
from ctrlgen.guard.names import read_names
from ctrlgen.index.name_index import NameIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlgen.guard.constraint import GuardConstraint
    from ctrlgen.guard.scanner import Scanner
    from ctrlgen.vocabulary import Vocabulary

Policy = Literal["allow", "refuse"]

_read: dict[tuple[str, str], tuple[tuple[int, int], NameIndex]] = {}


class Finding(NamedTuple):
    """A place in a text that the guard would not have let through."""

    start: int
    """Offset of its first character."""
    line: int
    """Line, from 1."""
    column: int
    """Column, from 1, in characters."""
    text: str
    """The name, or the character that cannot stand there."""
    reason: str
    """"not on the list", or "cannot be checked"."""


@dataclass(frozen=True, init=False)
class PackageGuard:
    """Free text that installs no package which is not on a list (PackMonitor, arXiv 2602.20717, goes about it so).

    >>> guard = PackageGuard(["numpy", "requests"])
    >>> guard.check("Run `pip install numpy reqests` first.")
    [Finding(start=23, line=1, column=24, text='reqests', reason='not on the list')]

    Args:
        names: the names of all packages there are, or the path of a file: one name a line, packed by gzip or not; a
            saved ``NameIndex``; or the JSON of a simple index (PEP 691). A file that has changed is read anew when the
            guard is next compiled.
        ecosystem: "pypi" for pip, pipx, uv, poetry, pdm, conda and kin; "npm" for npm, npx, yarn, pnpm and bun.
        urls: whether a URL or another index may be named, from which anything could come.
        paths: whether local files and folders may.
        imports: whether import statements in fenced Python code name only packages on the list, as a module of that
            name, or modules of the standard library; a mapping adds modules whose package has another name.
        context: what stands before the text, such as the end of a prompt that begins a command.

    Raises:
        InputError: names that cannot be read; an unknown ecosystem or policy.
        UnsatisfiableError: there are no names.

    Python's names are compared in their normal form (PEP 503). That a name is on the list does not make it the right
    package, nor a harmless one; what a shell computes (variables, substitutions) is refused where a name would stand.
    """

    source: NameIndex | str
    ecosystem: Ecosystem
    urls: Policy
    paths: Policy
    imports: tuple[tuple[str, str], ...] | None
    """Modules and their packages; None if import statements are not watched."""
    context: str

    def __init__(
        self,
        names: Iterable[str] | str | os.PathLike[str] | NameIndex,
        ecosystem: Ecosystem = "pypi",
        *,
        urls: Policy = "refuse",
        paths: Policy = "allow",
        imports: bool | Mapping[str, str] = False,
        context: str = "",
    ) -> None:
        if ecosystem not in get_args(Ecosystem):
            raise InputError(f'ecosystem is {ecosystem!r}; expected "pypi" or "npm"')
        for what, policy in (("urls", urls), ("paths", paths)):
            if policy not in get_args(Policy):
                raise InputError(f'{what} is {policy!r}; expected "allow" or "refuse"')
        if imports and ecosystem != "pypi":
            raise InputError("imports goes with ecosystem='pypi': the import statements are Python's")
        packages = pairs_of(imports) if imports is not False else None
        normalise: Literal["pep503"] | None = "pep503" if ecosystem == "pypi" else None
        if isinstance(names, (str, os.PathLike)):
            source: NameIndex | str = os.fspath(names)
        else:
            source = index_of_names(names, normalise)
        given: tuple[tuple[str, object], ...] = (
            ("source", source),
            ("ecosystem", ecosystem),
            ("urls", urls),
            ("paths", paths),
        )
        given += (("imports", packages), ("context", context))
        for name, value in given:
            object.__setattr__(self, name, value)
        self.names  # noqa: B018  -- what cannot be read is said now

    def __repr__(self) -> str:
        return f"PackageGuard({len(self.names)} names, {self.ecosystem!r}, urls={self.urls!r}, paths={self.paths!r})"

    @property
    def names(self) -> NameIndex:
        """The names as they are now."""
        if isinstance(self.source, NameIndex):
            return self.source
        status = Path(self.source).stat() if Path(self.source).is_file() else None
        stamp = (status.st_mtime_ns, status.st_size) if status else (0, 0)
        known = _read.get((self.source, self.ecosystem))
        if known is None or (known[0] != stamp and status):
            known = stamp, read_names(self.source, "pep503" if self.ecosystem == "pypi" else None)
            _read[self.source, self.ecosystem] = known
        return known[1]

    def compile(self, vocabulary: Vocabulary) -> GuardConstraint:
        """The constraint over ``vocabulary``, with the names as they are now."""
        from ctrlgen.guard.constraint import GuardConstraint
        from ctrlgen.guard.import_constraint import ImportGuardConstraint
        from ctrlgen.index.name_constraint import kept

        names, scanner = self.names, self._scanner()
        key = "guard", names.fingerprint, self.ecosystem, self.urls, self.paths, self.imports, vocabulary
        modules = self._modules()
        made = kept(
            key,
            lambda: (
                GuardConstraint(scanner, names, vocabulary)
                if modules is None
                else ImportGuardConstraint(scanner, names, modules, vocabulary)
            ),
        )
        return made.after(self.context) if self.context else made

    def following(self, context: str) -> PackageGuard:
        """The same guard for a text that follows ``context``."""
        imports = False if self.imports is None else dict(self.imports) or True
        return PackageGuard(
            self.source, self.ecosystem, urls=self.urls, paths=self.paths, imports=imports, context=context
        )

    def parse(self, text: str) -> str:
        """The text itself."""
        return text

    def check(self, text: str, *, requirements: bool = False) -> list[Finding]:
        """The names in a finished text that are not on the list, and what cannot be checked.

        Args:
            text: any text.
            requirements: whether the text is a file of requirements, a name a line.
        """
        from ctrlgen.guard.checking import findings
        from ctrlgen.guard.imports import import_scanner

        found = findings(text, self._scanner(), self.names, requirements=requirements)
        modules = self._modules()
        if modules is not None and not requirements:
            found += findings(text, import_scanner(), modules, requirements=False)
        return sorted(found)

    def _modules(self) -> NameIndex | None:
        return None if self.imports is None else modules_of(self.names, self.imports)

    def _scanner(self) -> Scanner:
        from ctrlgen.guard import arguments
        from ctrlgen.guard.scanner import scanner_of

        return scanner_of(self.ecosystem, arguments.Policy(self.urls == "allow", self.paths == "allow"))
