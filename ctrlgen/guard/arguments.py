"""What may stand after a command that installs: names, flags, versions, paths; byte by byte.

Within a name the bytes are followed along the list of names (``ctrlgen.guard.kernel_guard``); here stands what may come
where a name is complete, and everything between names. A byte without a transition is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ctrlgen.guard.heads import BLANK, NEWLINE, Heads, Text
from ctrlgen.guard.lines import MARKS

if TYPE_CHECKING:
    from ctrlgen.guard.commands import Commands

_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset(b"0123456789")
_ALNUM = _LETTERS | _DIGITS
_OPERATORS = frozenset(b"=<>!~")
_VERSION = _ALNUM | _OPERATORS | frozenset(b".*+-_,^")
_QUOTES = frozenset(b"\"'")
_ENDS = frozenset(b"&;|)}]`?")
"""Bytes that end a command wherever they stand unquoted."""
_SCHEMES = ("http:", "https:", "git+", "hg+", "svn+", "bzr+", "file:", "ssh:", "ftp:", "git:", "github:", "npm:")


class Place(NamedTuple):
    """Where in the arguments of a command: what is being read, and what holds around it."""

    at: str
    quote: int = 0
    """The byte of the quote that is open, 0 if none is."""
    many: bool = True
    """Whether more names may come."""
    block: str = ""
    """Of a block of requirements, a name a line, what ends it; empty elsewhere."""
    more: str = ""
    """The letters of a flag or of a scheme that have been read; of what ends a block, with = before them: = alone is
    the start of a line."""


@dataclass(frozen=True)
class Policy:
    """What is allowed beside names."""

    urls: bool
    paths: bool


class Arguments:
    """Transitions of ``Place``: the place after a byte, a Text where the command ends, None if it is refused."""

    def __init__(self, commands: Commands, policy: Policy, heads: Heads) -> None:
        self.commands, self.policy, self.heads = commands, policy, heads
        self._prefixes = {flag[:n] for flag in commands.values for n in range(1, len(flag) + 1)}
        self._schemes = {scheme[:n] for scheme in _SCHEMES for n in range(1, len(scheme) + 1)} if policy.urls else set()
        self._npm = not commands.paths

    def begin(self, *, many: bool, block: str = "") -> Place:
        """The place right after a command's words, or at the start of a line of a block."""
        return Place("start", 0, many, block, "=" if block else "")

    def step(self, place: Place, byte: int) -> Place | Text | None:
        """What follows ``byte``; in a name, what follows it where the name is complete."""
        if byte in NEWLINE and place.at not in ("back", "back in", "ticks"):
            return self._line(place)
        found: Place | Text | None = getattr(self, "_" + place.at.replace(" ", "_"))(place, byte)
        return found

    def _line(self, place: Place) -> Place | Text:
        within = place.block and place.at != "closed"
        return self.begin(many=True, block=place.block) if within else self._free(0x0A)

    def _text(self, place: Place, byte: int) -> Text | None:
        """Free text from a byte on, which ends no block."""
        return None if place.block else self._free(byte)

    def _free(self, byte: int) -> Text:
        after = self.heads.step(self.heads.start, byte)
        return after if isinstance(after, Text) else self.heads.start

    def _next(self, place: Place) -> Place | Text | None:
        """After a blank: another name, or free text."""
        return place._replace(at="start", more="") if place.many else self._text(place, 0x20)

    def _start(self, place: Place, byte: int) -> Place | Text | None:
        marked, place = place.more, place._replace(more="")
        if byte in BLANK:
            return place._replace(more=marked if place.block not in MARKS else "")
        if byte == 0x60 and marked:
            return place._replace(at="ticks", more="`")
        if byte in _ALNUM or (self._npm and byte == 0x40):
            return place._replace(at="name", more=self._mark(place, marked, byte) or self._scheme("", byte))
        if byte in _QUOTES:
            if place.quote in (0, byte):
                return place._replace(at="after" if place.quote else "start", quote=0 if place.quote else byte)
            return None
        if byte in b"./":
            return place._replace(at="path") if self.policy.paths else None
        if byte == 0x3B and (place.block or place.quote):
            return place._replace(at="marker")
        if byte in _ENDS:
            return self._text(place, byte)
        simple = {0x2D: "flag", 0x7E: "tilde", 0x5C: "back", 0x23: "comment", 0x3C: "less", 0x21: "bang", 0x3A: "colon"}
        if byte in simple:
            if place.quote and byte in b"-#":
                return None
            return place._replace(at=simple[byte], more="-" if byte == 0x2D else "start" if byte in b"<~" else "")
        if byte in b"=>":
            return place._replace(at="operator" if byte == 0x3D else "redirect")
        if byte == 0x2C:
            return place
        # whatever else could hide the words behind it from a reader of the line, or is no shell's
        return self._text(place, byte) if byte == 0x28 else None

    def _name(self, place: Place, byte: int) -> Place | Text | None:
        if byte == 0x5B:
            return place._replace(at="extras", more="")
        if byte == 0x40:
            return place._replace(at="value", more="") if self._npm or self.policy.urls else None
        return self._ended(place, byte)

    def goes_on(self, place: Place, byte: int) -> Place | None:
        """The place in a name after a byte that need not be on the list, since a URL may begin so."""
        if mark := self._mark(place, place.more, byte):
            return place._replace(more=mark)
        scheme = self._scheme(place.more, byte)
        if scheme.endswith((":", "+")):
            return place._replace(at="url", more="")
        return place._replace(more=scheme)

    def _mark(self, place: Place, before: str, byte: int) -> str:
        """What has been read of the mark that ends a block; empty where it is none."""
        after = before + chr(byte)
        return after if before.startswith("=") and ("=" + place.block).startswith(after) else ""

    def ends_block(self, place: Place, byte: int) -> Text | None:
        """The text behind a block, if the mark that ends it is whole."""
        whole = place.at == "name" and place.block in MARKS and place.more == "=" + place.block
        return self.heads.start if whole and byte in NEWLINE else None

    def _ticks(self, place: Place, byte: int) -> Place | None:
        """At the start of a line of a block, where three of them end it."""
        more = place.more + "`"
        return place._replace(at="closed" if more == "```" else "ticks", more=more) if byte == 0x60 else None

    def _closed(self, place: Place, byte: int) -> Place | None:
        return place if byte in BLANK or byte == 0x60 else None

    def _scheme(self, before: str, byte: int) -> str:
        """The letters of a scheme that have been read; "-" where it cannot become one."""
        letters = before + chr(byte).lower()
        return letters if before != "-" and letters in self._schemes else "-"

    def _ended(self, place: Place, byte: int) -> Place | Text | None:
        """After a complete requirement or a part of one."""
        place = place._replace(more="")
        if byte in BLANK:
            return self._next(place)
        if byte == 0x3B and (place.quote or place.block):
            return place._replace(at="marker")
        if byte in _QUOTES:
            return place._replace(at="after", quote=0)
        if byte in b"=>":
            return place._replace(at="operator")
        simple = {0x3C: "less", 0x21: "bang", 0x7E: "tilde", 0x3A: "colon", 0x5C: "back in", 0x2A: "bold"}
        if byte in simple:
            return place._replace(at=simple[byte])
        if byte == 0x2C:
            return self._next(place)
        return self._text(place, byte) if byte in _ENDS else None

    def _dot(self, place: Place, byte: int) -> Place | Text | None:
        """After a name and a full stop, where no name goes on with one."""
        if byte in BLANK or byte in b"`)":
            return self._text(place, byte)
        return place._replace(at="after", quote=0) if byte in b"\"'*" else None

    def _bold(self, place: Place, byte: int) -> Place | Text | None:
        """After the end of an emphasis, **, with which the command is over."""
        if byte == 0x2A and not place.more:
            return place._replace(more="*")
        if not place.more:
            return None
        return self._text(place, byte) if byte in BLANK else self._after(place, byte)

    def _after(self, place: Place, byte: int) -> Place | Text | None:
        """After a quote has closed."""
        if byte == 0x2E:
            return place._replace(at="dot")
        return self._ended(place, byte)

    def _extras(self, place: Place, byte: int) -> Place | Text | None:
        if byte == 0x5D:
            return place._replace(at="ended")
        if byte in _ALNUM:
            return place._replace(more="x")
        return place if (place.more and byte in b"-_.,") or (place.quote and byte in BLANK) else None

    def _operator(self, place: Place, byte: int) -> Place | Text | None:
        if byte in _OPERATORS or byte in BLANK:
            return place
        if byte in b"/&":  # a redirection
            return place._replace(at="value")
        if byte in _QUOTES:
            return place
        return place._replace(at="version") if byte in _DIGITS else None

    def _redirect(self, place: Place, byte: int) -> Place | Text | None:
        """After > where a name would begin: a file, or a version."""
        if byte in BLANK or byte == 0x3E:
            return place
        if byte in b"=&" or byte in _DIGITS:
            return self._operator(place._replace(at="operator"), byte)
        return place._replace(at="value") if byte in _LETTERS or byte in b"./~" else None

    def _version(self, place: Place, byte: int) -> Place | Text | None:
        return place if byte in _VERSION else self._ended(place, byte)

    def _less(self, place: Place, byte: int) -> Place | Text | None:
        """After <: a version, the end of an element of HTML, or <a placeholder> where a name would begin."""
        if byte == 0x2F:
            return self._text(place, byte)
        if place.more == "start" and byte in _LETTERS:
            return place._replace(at="placeholder", more="")
        return self._operator(place._replace(at="operator", more=""), byte)

    def _placeholder(self, place: Place, byte: int) -> Place | Text | None:
        if byte == 0x3E:
            return place._replace(at="after")
        if byte == 0x20:  # to a shell that was a file to read from, and the next word is a name again
            return place._replace(at="start")
        return place if byte in _ALNUM or byte in b"-_." else None

    def _bang(self, place: Place, byte: int) -> Place | Text | None:
        if byte == 0x3D:
            return place._replace(at="operator", more="")
        return self._text(place, byte) if byte in BLANK or byte in _QUOTES or byte in b"`)" else None

    def _tilde(self, place: Place, byte: int) -> Place | Text | None:
        if byte == 0x3D:
            return place._replace(at="operator", more="")
        if byte == 0x2F and place.more == "start" and self.policy.paths:
            return place._replace(at="path", more="")
        return None

    def _colon(self, place: Place, byte: int) -> Place | Text | None:
        return self._text(place, byte) if byte in BLANK or byte in _QUOTES or byte in b"`*)" else None

    def _back(self, place: Place, byte: int) -> Place | Text | None:
        """After a backslash where a name may begin: a continued line, or an escape within a string of some language."""
        if byte == 0x0A or (byte in BLANK and byte != 0x0D):
            return place._replace(at="start", more="")
        if byte in b"ntr":
            return self._line(place)
        if byte in _QUOTES:
            return place._replace(at="after", quote=0, more="")
        return place if byte in b"\r\\" else None

    def _back_in(self, place: Place, byte: int) -> Place | Text | None:
        """After a backslash right behind a name: a line continued here would join two words into another name."""
        if byte in b"ntr":
            return self._line(place)
        if byte in _QUOTES:
            return place._replace(at="after", quote=0)
        return place if byte == 0x5C else None

    def _marker(self, place: Place, byte: int) -> Place | Text | None:
        return place._replace(at="after", quote=0) if place.quote and byte == place.quote else place

    def _comment(self, place: Place, byte: int) -> Place | Text | None:
        return place

    def _flag(self, place: Place, byte: int) -> Place | Text | None:
        if byte in BLANK or byte == 0x3D:
            return self._value_of(place, byte)
        if byte in _ENDS or byte in _QUOTES:
            return self._ended(place, byte)
        letters = place.more + chr(byte)
        return place._replace(more=letters if letters in self._prefixes else "?")

    def _value_of(self, place: Place, byte: int) -> Place | Text | None:
        flag = place.more
        if flag in self.commands.sources and not self.policy.urls:
            return None
        if flag in self.commands.paths:
            if not self.policy.paths:
                return None
            return place._replace(at="path" if byte == 0x3D else "path gap", more="")
        if byte == 0x3D:
            return place._replace(at="value gap", more="")
        return place._replace(at="value gap" if flag in self.commands.values else "start", more="")

    def _value_gap(self, place: Place, byte: int) -> Place | Text | None:
        return place if byte in BLANK else self._opened(place._replace(at="value"), byte)

    def _path_gap(self, place: Place, byte: int) -> Place | Text | None:
        return place if byte in BLANK else self._opened(place._replace(at="path"), byte)

    def _opened(self, place: Place, byte: int) -> Place | Text | None:
        """The first byte of a value, which may be a quote."""
        return place._replace(quote=byte) if byte in _QUOTES else self._word(place, byte)

    def _value(self, place: Place, byte: int) -> Place | Text | None:
        return self._word(place, byte)

    def _path(self, place: Place, byte: int) -> Place | Text | None:
        return self._word(place, byte)

    def _url(self, place: Place, byte: int) -> Place | Text | None:
        return self._word(place, byte)

    def _word(self, place: Place, byte: int) -> Place | Text | None:
        """A word that is no name, up to a blank: also within quotes, since these may never close."""
        if byte in BLANK:
            return self._next(place)
        if place.quote:
            return place._replace(at="after", quote=0) if byte == place.quote else self._letter(place, byte)
        if byte in _QUOTES:
            return None
        if byte == 0x5C:
            return place._replace(at="back")
        return self._text(place, byte) if byte in b"&;|)`" and not place.block else self._letter(place, byte)

    def _letter(self, place: Place, byte: int) -> Place | None:
        return None if byte == 0x3A and place.at != "url" and not self.policy.urls else place
