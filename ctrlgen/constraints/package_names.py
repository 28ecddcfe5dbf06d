"""Names of packages that there are, as a specification."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.constraints.combined import Apart
from ctrlgen.errors import InputError
from ctrlgen.index.name_index import NameIndex

if TYPE_CHECKING:
    from ctrlgen.constraint import Constraint
    from ctrlgen.index.name_files import Normal
    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True, init=False)
class PackageNames(Apart):
    """The text is a name on a list: a model cannot make one up.

    >>> spec = PackageNames(["numpy", "Flask_SQLAlchemy"], normalise="pep503", separator=" ")
    >>> list(spec.names), spec.parse("numpy flask-sqlalchemy")
    (['flask-sqlalchemy', 'numpy'], ['numpy', 'flask-sqlalchemy'])

    Args:
        names: the names, or the path of a file: a text of one name a line, which may be packed by gzip, or an index
            that ``NameIndex.save`` or ``ctrlgen index build --names`` wrote, which is mapped into memory.
        normalise: "pep503" lets out the normal form of names only, as Python's package index has it: small letters,
            each run of ``-``, ``_`` and ``.`` as one ``-``. None lets them out as they are on the list, for registries
            that tell such names apart. The names of a saved index must be in that form already.
        before, after: what stands before and after the name or names, for instance "pip install " and a line feed.
        separator: what stands between names, of which there may then be several; None for one name.

    Raises:
        InputError: a name that is empty or holds a blank or a control character; what cannot be read.
        UnsatisfiableError: there are no names.

    A name is checked to be on the list, not to be the right one, nor to be harmless.
    """

    names: NameIndex
    before: str
    after: str
    separator: str | None

    def __init__(
        self,
        names: Iterable[str] | str | os.PathLike[str] | NameIndex,
        *,
        normalise: Normal | None = None,
        before: str = "",
        after: str = "",
        separator: str | None = None,
    ) -> None:
        for what, text in (("before", before), ("after", after), ("separator", separator)):
            if not isinstance(text, str) and not (what == "separator" and text is None):
                raise InputError(f"{what} must be a string, not {type(text).__name__}")
        if normalise not in (None, "pep503"):
            raise InputError(f'normalise is {normalise!r}; expected "pep503" or None')
        index = index_of_names(names, normalise)
        for name, value in (("names", index), ("before", before), ("after", after), ("separator", separator)):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        more = "".join(
            f", {name}={value!r}"
            for name, value in (
                ("normalise", self.names.normalise), ("before", self.before), ("after", self.after),
                ("separator", self.separator),
            )
            if value
        )  # fmt: skip
        return f"PackageNames({len(self.names)} names{more})"

    def compile(self, vocabulary: Vocabulary) -> Constraint:
        """The constraint over ``vocabulary``.

        Raises:
            InputError: a name goes on with what begins ``after`` or ``separator``.
        """
        return self.names.compile(vocabulary, before=self.before, after=self.after, separator=self.separator)

    def parse(self, text: str) -> str | list[str]:
        """The name in a text; with a separator, the list of them.

        Raises:
            InputError: the text is not of this form.
        """
        inner = text[len(self.before) : len(text) - len(self.after)]
        found = [inner] if self.separator is None else self._parts(inner, self.separator)
        if text != self.before + inner + self.after or not all(name in self.names for name in found):
            raise InputError(f"{text[:80]!r} is not what {self!r} allows")
        return inner if self.separator is None else found

    def _parts(self, text: str, separator: str) -> list[str]:
        """The names in a text: each ends at the first separator before which a name can; what is left comes last."""
        found, begin, at = [], 0, text.find(separator)
        while at >= 0:
            if text[begin:at] in self.names:
                found.append(text[begin:at])
                begin = at + len(separator)
                at = text.find(separator, begin)
            else:
                at = text.find(separator, at + 1)
        return [*found, text[begin:]]


def index_of_names(
    names: Iterable[str] | str | os.PathLike[str] | NameIndex,
    normalise: Normal | None,
    from_file: Callable[..., NameIndex] = NameIndex.from_file,
) -> NameIndex:
    """The index of names in any form, in which each is one that a package can have.

    Args:
        names: the names, the path of a file of them, or an index.
        normalise: the normal form they are to have.
        from_file: how the index of a text file is made.

    Raises:
        InputError: a name that is empty or holds a blank or a control character; what cannot be read.
        UnsatisfiableError: there are no names.
    """
    if isinstance(names, NameIndex):
        index = names
    elif not isinstance(names, (str, os.PathLike)):
        index = NameIndex.from_names(names, normalise=normalise)
    else:
        index = NameIndex.open(names) if _is_index(names) else from_file(names, normalise=normalise)
    if normalise is not None and index.normalise != normalise:
        raise InputError(
            f"the index was not built with normalise={normalise!r}: build it with it, or leave normalise out"
        )
    _check_names(index)
    return index


def _is_index(path: str | os.PathLike[str]) -> bool:
    from ctrlgen.index.storage import MAGIC

    if not Path(path).is_file():
        raise InputError(f"there is no file {path}; to give names themselves, pass a list of them")
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _check_names(index: NameIndex) -> None:
    """Raise if a name has what no package's name has."""
    layout = index.layout
    if layout.offsets[0] == layout.offsets[1]:
        raise InputError("a name is empty; take it out of the list")
    if not index.alphabet & {*range(0x21), 0x7F}:
        return
    blank = np.flatnonzero((layout.tokens <= 0x20) | (layout.tokens == 0x7F))[0]
    name = index[int(np.searchsorted(layout.offsets, blank, side="right")) - 1]
    raise InputError(
        f"the name {name!r} holds {chr(layout.tokens[blank])!r}, which no package's name does; take it out of the list"
    )
