"""Names in files of requirements that a text shows, found line by line with expressions: apart from the guard."""

import re

from tests.oracles.installs import _names, _words

_FILE = re.compile(r"(?<![A-Za-z0-9])requirements[\w./-]*?\.txt", re.I | re.A)
_FENCE = re.compile(r"[ \t\r]*```+[ \t\r]*(.*?)[ \t\r]*", re.A)
_MARK = re.compile(r"<<[-\s'\"\\]*EOF(?![A-Za-z0-9])", re.A)
_PLAIN = ("", "text", "txt", "plaintext", "plain")


def required(text: str) -> list[str]:
    """The names, as written, in all blocks of requirements; of a text without commands that install."""
    code, block, named, first, found = False, "", False, False, []
    for line in text.split("\n"):
        fence = _FENCE.fullmatch(line)
        if block == "EOF" and line.rstrip(" \t\r") == line == "EOF":
            block = ""
            continue
        if block:
            if fence and not fence[1]:
                block, code = "", False
                continue
            before = re.split("[;#]", line, maxsplit=1)[0]
            found += [name for name in _names(_words(before), "pypi") if name != "-"]
            continue
        names = _FILE.search(line) is not None
        if fence and (fence[1] or not code):
            code = True
            if names or fence[1].lower() in ("requirements", "pip-requirements", "requirements-txt"):
                block = "`"
            elif fence[1].lower() in _PLAIN:
                block, first = ("`", False) if named else ("", True)
            named = False
            continue
        if fence:
            code = named = False
        elif code:
            if first and names and line.lstrip().startswith("#"):
                block = "`"
            elif names and _MARK.search(line):
                block = "EOF"
        elif line.strip():
            named = names
        first = False
    return found
