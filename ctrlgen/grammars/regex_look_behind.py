r"""Strings with escapes, as Lark's grammars and their many copies spell them -> the same without look-behind.

    .*?(?<!\\)(\\\\)*?    up to an even number of backslashes    ->    (?:[^\\\n]|\\.)*?
    .*?(?<!\\)            up to no backslash                     ->    (?:[^\\\n]|\\+[^\\\n])*?

Both sides stop at the same places in the same order, whatever follows: a place has one way to be cut into the units on
the right, and an even number of backslashes (or none) before it exactly if it lies between two units. Both need to know
that the character before is no backslash.
"""

from __future__ import annotations

import re

from ctrlgen.errors import RegexError
from ctrlgen.grammars.characters import contains
from ctrlgen.grammars.regex_syntax import Characters, parse_regex

_PIECE = re.compile(
    r"""
      (?P<known> \.\*\?\(\?<!\\\\\) (?P<pairs> \((?:\?:)?\\\\\\\\\)\*\?? )? )
    | (?P<one> \\. | \[ \^? \]? (?:\\. | [^\]\\])* \] )
    | (?P<flags> \(\? (?P<on>[a-zA-Z]*) (?:-(?P<off>[a-zA-Z]+))? (?P<scope>[:)]) )
    | (?P<look> \(\?[=!] )
    | (?P<open> \( (?:\?(?:<[=!]|P<\w+>))? )
    | (?P<close> \) )
    | (?P<repeat> [*?+|] | \{[0-9]*,?[0-9]*\} )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def without_look_behind(pattern: str) -> str:
    r"""The pattern with the two known look-behinds written as repeats of units.

    Raises:
        RegexError: such a look-behind may come after a backslash.

    >>> print(without_look_behind(r'".*?(?<!\\)(\\\\)*?"'))
    "(?:[^\\\n]|\\.)*?"
    """
    if r"(?<!\\)" not in pattern:
        return pattern
    output = []
    before = ""  # the pattern of the character before; "" if it is not known
    flags: frozenset[str] = frozenset()
    outer: list[tuple[frozenset[str], str]] = []
    for found in _PIECE.finditer(pattern):
        text = found[0]
        if found["known"]:
            text = _units(pattern, found, flags, before)
            before = ""
        elif found["flags"]:
            if found["scope"] == ":":
                outer.append((flags, ""))
            flags = (flags | set(found["on"])) - set(found["off"] or "")
        elif found["look"] or found["open"]:
            # nothing is read by a look-ahead: what stands before it does so after it too
            outer.append((flags, before if found["look"] else ""))
        elif found["close"]:
            flags, before = outer.pop() if outer else (flags, "")
        else:
            before = text if found["one"] or (found["other"] and text not in "^$") else ""
        output.append(text)
    return "".join(output)


def _units(pattern: str, found: re.Match[str], flags: frozenset[str], before: str) -> str:
    read = parse_regex(before, "python", search=False, ascii=False)[0] if before else []
    known = len(read) == 1 and isinstance(read[0], Characters) and not contains(read[0].members, ord("\\"))
    if not known or "x" in flags:
        raise RegexError(
            "this look-behind is supported only right after a fixed character such as the opening quote, and without "
            r'the flag x; write a string as "(?:[^"\\\n]|\\.)*"',
            pattern,
            found.start(),
        )
    breaks = "" if "s" in flags else r"\n"
    return rf"(?:[^\\{breaks}]|\\.)*?" if found["pairs"] else rf"(?:[^\\{breaks}]|\\+[^\\{breaks}])*?"
