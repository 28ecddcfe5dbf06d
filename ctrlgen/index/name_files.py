"""Reading many names at once: from texts, or from a file with one a line, as one array of bytes with bounds.

What is done to names is done to all of them together, so that a million take less than a second.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ctrlgen.errors import ComplexityError, InputError, UnsatisfiableError

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    Progress = Callable[[str, int, int], None]

Normal = Literal["pep503"]
"""Normal forms of names: "pep503" makes "Foo._Bar" "foo-bar", as Python's package index does."""

LONGEST = 65_000
"""Bytes a name may have."""

MOST_BYTES = 1 << 31
"""Bytes all names together may have: what is packed may turn out much larger than its file."""

_BLOCK = 1 << 22


class Lines(NamedTuple):
    """N names: name i is flat[bounds[i] : bounds[i + 1]], uint8 and int64[N + 1]."""

    flat: NDArray[np.uint8]
    bounds: NDArray[np.int64]


def lines_of(names: Iterable[str]) -> Lines:
    """Names as given.

    Raises:
        InputError: names something that is not a text.
    """
    if isinstance(names, (str, bytes)):
        raise InputError(f"names must be several strings, not one; write [{names!r}]")
    try:
        kept = list(names)
    except TypeError:
        raise InputError(f"names must be a list of strings, not {type(names).__name__}") from None
    wrong = next((i for i, name in enumerate(kept) if not isinstance(name, str)), None)
    if wrong is not None:
        raise InputError(f"name {wrong} must be a string, not {type(kept[wrong]).__name__}")
    bounds = np.zeros(len(kept) + 1, np.int64)
    try:
        joined = "".join(kept).encode()
    except UnicodeEncodeError:
        wrong = next(i for i, name in enumerate(kept) if re.search("[\ud800-\udfff]", name))
        raise InputError(f"name {wrong} has a lone surrogate, which no valid text contains") from None
    # in most lists a character is a byte
    lengths = list(map(len, kept)) if joined.isascii() else [len(name.encode()) for name in kept]
    np.cumsum(lengths, out=bounds[1:])
    return checked(Lines(np.frombuffer(joined, np.uint8), bounds), lambda i: f"name {i}")


def read_lines(path: str | os.PathLike[str], *, progress: Progress | None = None, limit: int = MOST_BYTES) -> Lines:
    """The lines of a text file, or of one packed by gzip (told by its first bytes), as they stand.

    Args:
        path: UTF-8, one name a line; an empty line is refused, but the last line may end with a line feed.
        progress: called with a stage, bytes read and bytes in all.
        limit: bytes the unpacked text may have.

    Raises:
        InputError: names the line that is no name, or says why the file cannot be read.
        ComplexityError: there are more than ``limit`` bytes.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}")
    return split_lines(_content(path, progress, limit), str(path))


def split_lines(content: bytes, where: str) -> Lines:
    """The lines of a text; ``where`` is what errors call it.

    Raises:
        InputError: names the line that is no name.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{where}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8") from error
    if content and not content.endswith(b"\n"):
        content += b"\n"
    whole = np.frombuffer(content, np.uint8)
    feeds = np.flatnonzero(whole == 0x0A)
    bounds = np.zeros(len(feeds) + 1, np.int64)
    bounds[1:] = feeds - np.arange(len(feeds))
    if empty := np.flatnonzero(np.diff(bounds) == 0)[:1].tolist():
        raise InputError(f"{where}, line {empty[0] + 1} is empty: each line is a name; take it out")
    return checked(Lines(whole[whole != 0x0A], bounds), lambda i: f"{where}, line {i + 1}")


def checked(lines: Lines, place: Callable[[int], str]) -> Lines:
    """``lines``, if an index can hold them; ``place`` says where a name stands.

    Raises:
        UnsatisfiableError: there are none.
        InputError: a name is too long.
    """
    lengths = np.diff(lines.bounds)
    if not len(lengths):
        raise UnsatisfiableError("there are no names: nothing could be generated")
    if lengths.max() > LONGEST:
        i = int(lengths.argmax())
        raise InputError(f"{place(i)} has {lengths[i]} bytes; a name may have {LONGEST}")
    return lines


def normalised(lines: Lines, form: Normal | None) -> Lines:
    """The names in a normal form; None leaves them as they are.

    "pep503" writes ASCII letters small and each run of ``-``, ``_`` and ``.`` as one ``-``.

    Raises:
        InputError: the form is not known.
    """
    if form is None:
        return lines
    if form != "pep503":
        raise InputError(f'normalise is {form!r}; expected "pep503" or None')
    flat, bounds = lines
    small = np.where((flat >= 0x41) & (flat <= 0x5A), flat + 0x20, flat).astype(np.uint8)
    joins = np.isin(small, np.frombuffer(b"-_.", np.uint8))
    small[joins] = 0x2D
    first = np.zeros(len(flat), bool)
    first[bounds[:-1][np.diff(bounds) > 0]] = True
    kept = ~joins
    kept[1:] |= ~joins[:-1] | first[1:]
    kept[:1] = True
    places = np.concatenate(([0], np.cumsum(kept)))
    return Lines(small[kept], places[bounds])


def _content(path: Any, progress: Progress | None, limit: int) -> bytes:
    size = Path(path).stat().st_size
    parts, read = [], 0
    with Path(path).open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        try:
            with gzip.open(raw) if packed else raw as file:
                while block := file.read(_BLOCK):
                    parts.append(block)
                    read += len(block)
                    if read > limit:
                        raise ComplexityError(
                            f"{path} holds more than {limit} bytes of names; split it, or raise the limit"
                        )
                    if progress is not None:
                        progress("read", raw.tell(), size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{path} cannot be unpacked: {error}") from error
    return b"".join(parts)
