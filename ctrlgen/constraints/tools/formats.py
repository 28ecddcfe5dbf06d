"""How models write tool calls: small TOML files in constraints/tool_calls/, or a mapping of one's own.

A format says what stands before all calls (``opening``), what each is like (``call``, with ``$name`` and ``$arguments``
in it, once each), what stands between two (``between``) and after all (``closing``); which marks in these are
control tokens, where a tokenizer has such ones (``control``); and whether a name is written as a JSON string
(``names = "json"``, the default) or as it is (``"plain"``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

from ctrlgen.constraints.combined import Text
from ctrlgen.constraints.free import Token
from ctrlgen.errors import InputError
from ctrlgen.resources import folder

LARGEST_FILE = 1 << 20
_TEXTS = ("about", "opening", "call", "between", "closing", "names")


@dataclass(frozen=True)
class ToolFormat:
    """How calls are written.

    Raises:
        InputError: a text that cannot be written or read back.
    """

    call: str
    opening: str = ""
    between: str = ""
    closing: str = ""
    control: tuple[str, ...] = ()
    names: str = "json"
    about: str = ""

    def __post_init__(self) -> None:
        if self.call.count("$name") != 1 or self.call.count("$arguments") != 1:
            raise InputError(f"call must have $name and $arguments in it, once each: {self.call!r}")
        if self.call.index("$name") > self.call.index("$arguments"):
            raise InputError(f"$name must come before $arguments, since it says what they are: {self.call!r}")
        if self.names not in ("json", "plain"):
            raise InputError(f'names must be "json" or "plain", not {self.names!r}')
        if not all(self.control):
            raise InputError("control holds an empty string")
        if not self.head:
            raise InputError("nothing stands before the first name, so free text cannot be told from a call")
        if self.names == "plain" and not self.middle:
            raise InputError("with plain names something must stand between $name and $arguments")

    @property
    def head(self) -> tuple[Text | Token, ...]:
        """What stands before the name of the first call."""
        return self.parts(self.opening + self.call[: self.call.index("$name")])

    @property
    def middle(self) -> tuple[Text | Token, ...]:
        """What stands between name and arguments."""
        return self.parts(self.call[self.call.index("$name") + 5 : self.call.index("$arguments")])

    @property
    def tail(self) -> tuple[Text | Token, ...]:
        """What stands after the arguments of a call."""
        return self.parts(self.call[self.call.index("$arguments") + 10 :])

    @property
    def next(self) -> tuple[Text | Token, ...]:
        """What stands between the end of a call and the name of the next."""
        return self.parts(self.between + self.call[: self.call.index("$name")])

    @property
    def end(self) -> tuple[Text | Token, ...]:
        """What stands after the last call."""
        return self.parts(self.closing)

    def parts(self, text: str) -> tuple[Text | Token, ...]:
        """A text as texts and control tokens."""
        if not text:
            return ()
        marks = sorted(self.control, key=len, reverse=True)
        pieces = re.split(f"({'|'.join(map(re.escape, marks))})", text) if marks else [text]
        return tuple(
            Token(piece, or_text=True) if place % 2 else Text(piece) for place, piece in enumerate(pieces) if piece
        )


def names() -> list[str]:
    """The names of all ready formats, sorted."""
    return sorted(path.stem for path in _folder().glob("*.toml"))


def tool_format(given: str | Path | Mapping[str, object] | ToolFormat) -> ToolFormat:
    """A ready format by its name, one in a TOML file (a Path, or a string that ends with .toml), or a mapping.

    Raises:
        InputError: there is none such, or it is not a format.
    """
    if isinstance(given, ToolFormat):
        return given
    if isinstance(given, Mapping):
        return _format(given, "the format")
    if isinstance(given, str) and not given.endswith(".toml"):
        if given not in names():
            close = get_close_matches(given, names(), 3)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(names())}"
            raise InputError(f"there is no format of tool calls called {given!r}; {hint}, or give one of your own")
        return _read(_folder() / f"{given}.toml")
    if not isinstance(given, str | Path):
        raise InputError(f"format is {given!r}; expected a name, a path of a .toml file, or a mapping")
    return _from_file(Path(given))


@lru_cache(64)
def _read(path: Path) -> ToolFormat:
    return _from_file(path)


def _from_file(path: Path) -> ToolFormat:
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
        if len(text) > LARGEST_FILE:
            raise InputError(f"{path} is larger than {LARGEST_FILE} bytes, so it is no format of tool calls")
        return _format(tomllib.loads(text.decode()), str(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} cannot be read as a format of tool calls: {error}") from error


def _format(fields: Mapping[str, object], where: str) -> ToolFormat:
    known = (*_TEXTS, "control")
    for name, value in fields.items():
        if name not in known:
            raise InputError(f"{where}: {name!r} is no field of a format; there are {', '.join(known)}")
        if name == "control":
            if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
                raise InputError(f"{where}: control must be a list of strings, not {value!r}")
        elif not isinstance(value, str):
            raise InputError(f"{where}: {name} must be a string, not {value!r}")
    if "call" not in fields:
        raise InputError(f'{where}: call is missing, such as \'{{"name": $name, "arguments": $arguments}}\'')
    values = {name: tuple(value) if name == "control" else value for name, value in fields.items()}  # type: ignore[arg-type]
    try:
        return ToolFormat(**values)  # type: ignore[arg-type]
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _folder() -> Path:
    return folder("constraints") / "tool_calls"
