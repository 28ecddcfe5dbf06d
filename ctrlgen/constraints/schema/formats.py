"""The languages of ``format``, as automata over the content of a JSON string.

Each is its RFC's language or, where the list below says so, a part of it; none is wider.

======================= ==================================== =========================================================
date                    RFC 3339 full-date, real days        no year 0000
time, date-time         RFC 3339                             leap seconds in UTC only; in date-time those there were
duration                RFC 3339 appendix A                  exact
email                   RFC 5321 Mailbox                     a Dot-string of at most 64, no quotes; a domain as long as
                                                             hostname allows, no address in brackets
idn-email               RFC 6531 Mailbox                     the same; beyond ASCII the local part has at most 16
                                                             characters (64 octets), and the domain is ASCII
hostname                RFC 1123 2.1, labels of at most 63   after the first label at most 63 characters: the limits
                                                             of 63 and 253 together would take 16,000 states
ipv4, ipv6              RFC 2673 3.2, RFC 4291 2.2           exact; no zone identifiers
uri, uri-reference      RFC 3986                             exact
iri, iri-reference      RFC 3987                             exact; its advice on right-to-left text is not enforced
uri-template            RFC 6570                             no operators it reserves for extensions
uuid                    RFC 4122 section 3                   exact, any version
json-pointer            RFC 6901                             exact
relative-json-pointer   draft-handrews-relative-json-pointer exact; no index manipulation, which later drafts add
regex                   ECMA-262                             see ``_regex``: valid with and without the flag u
======================= ==================================== =========================================================

Left out: idn-hostname, whose labels must be in normal form C, keep the Bidi and contextual rules of RFC 5892 and 5893,
and stay below 63 characters in Punycode, which no finite automaton counts.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ctrlgen.constraints.schema.identifiers import PRIVATE, UCS, identifier, ipv6
from ctrlgen.constraints.schema.mailboxes import domain, mailbox
from ctrlgen.constraints.schema.stored import stored
from ctrlgen.grammars.lowering import coding_of, lower
from ctrlgen.grammars.regex import compile_regex

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.automaton import Automaton
    from ctrlgen.grammars.characters import CharacterSet
    from ctrlgen.grammars.lowering import Escapes
    from ctrlgen.grammars.regex_subsets import CharacterAutomaton

VERSION = 1
"""To be raised with every change to the language of a format, for automata on disk."""

MAX_STATES = 20_000

# Times

_SHORT_MONTH = "(0[469]|11)-(0[1-9]|[12][0-9]|30)"
_LONG_MONTH = "(0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])"
_LEAP_YEAR = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_YEAR = "([0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE = f"({_YEAR}-({_LONG_MONTH}|{_SHORT_MONTH}|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
_HOUR_MINUTE = "([01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = rf"{_HOUR_MINUTE}:[0-5][0-9](\.[0-9]+)?([zZ]|[+-]{_HOUR_MINUTE})"
# with another offset a leap second may be at any minute of the day, a state for each
_LEAP_SECOND = r"23:59:60(\.[0-9]+)?([zZ]|[+-]00:00)"
# RFC 3339 appendix D, continued: days that ended in a leap second; none is announced after these
_JUNE = "1972|198[1235]|199[2-47]|2012|2015"
_DECEMBER = "197[2-9]|1987|1989|1990|1995|1998|2005|2008|2016"
_LEAP_DAY = f"(({_JUNE})-06-30|({_DECEMBER})-12-31)"

_DAYS = "[0-9]+D"
_MONTHS = f"[0-9]+M({_DAYS})?"
_SECONDS = "[0-9]+S"
_MINUTES = f"[0-9]+M({_SECONDS})?"
_CLOCK = f"T([0-9]+H({_MINUTES})?|{_MINUTES}|{_SECONDS})"
_DURATION = f"P(({_DAYS}|{_MONTHS}|[0-9]+Y({_MONTHS})?)({_CLOCK})?|{_CLOCK}|[0-9]+W)"

# Addresses

_HEX = "[0-9a-fA-F]"
_BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}(\.{_BYTE}){{3}}"


def _class(characters: CharacterSet) -> str:
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in characters)


def _template() -> str:
    """RFC 6570 section 2, without the operators it reserves for extensions."""
    literal = rf"([!#$&(-;=?-\[\]_a-z~{_class(UCS)}{_class(PRIVATE)}]|%{_HEX}{{2}})"
    character = f"([A-Za-z0-9_]|%{_HEX}{{2}})"
    variable = rf"{character}(\.?{character})*(:[1-9][0-9]{{0,3}}|\*)?"
    return rf"^({literal}|\{{[+#./;?&]?{variable}(,{variable})*\}})*$"


_POINTER = "(/([^~/]|~[01])*)*"


def _regex(depth: int) -> str:
    r"""Regular expressions that ECMA-262 reads with and without the flag u.

    Narrower: groups nest ``depth`` deep and are (...) or (?:...); counts are {n}, {n,}, {0,n} and {1,n}; ranges in
    classes end in 9, z, Z, f or F; no empty class, look-around, name of a group, back reference, \0, \c, \k and \p.
    """
    escape = r"\\([dDwWsStnvfr^$\\.*+?()\[\]{}|/]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4})"
    member = rf"([^\\\]\[-]|{escape}|\\[b-]|[0-9]-9|[a-z]-z|[A-Z]-Z|[a-f]-f|[A-F]-F)"
    one = rf"[^\^$\\.*+?()\[\]{{}}|]|\.|{escape}|\[\^?-?{member}+-?\]"
    number = "(0|[1-9][0-9]{0,2})"
    quantifier = rf"([*+?]|\{{({number},?|0,{number}|1,[1-9][0-9]{{0,2}})\}})\??"
    alternatives = rf"(({one})({quantifier})?|[|^$]|\\[bB])*"
    for _ in range(depth):
        alternatives = rf"(({one}|\((\?:)?{alternatives}\))({quantifier})?|[|^$]|\\[bB])*"
    return f"^{alternatives}$"


FORMATS: dict[str, str] = {
    "date": f"^{_DATE}$",
    "time": f"^({_TIME}|{_LEAP_SECOND})$",
    "date-time": f"^({_DATE}[tT]{_TIME}|{_LEAP_DAY}[tT]{_LEAP_SECOND})$",
    "duration": f"^{_DURATION}$",
    "ipv4": f"^{_IPV4}$",
    "uri-template": _template(),
    "uuid": f"^{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}$",
    "json-pointer": f"^{_POINTER}$",
    "relative-json-pointer": f"^(0|[1-9][0-9]*)(#|{_POINTER})$",
    "regex": _regex(depth=3),
}
"""The formats that are regular expressions (ECMA, anchored)."""

_WRITTEN: dict[str, Callable[[], CharacterAutomaton]] = {
    "hostname": domain,
    "email": partial(mailbox, international=False),
    "idn-email": partial(mailbox, international=True),
    "ipv6": ipv6,
    "uri": partial(identifier, reference=False, international=False),
    "uri-reference": partial(identifier, reference=True, international=False),
    "iri": partial(identifier, reference=False, international=True),
    "iri-reference": partial(identifier, reference=True, international=True),
}

ANNOTATION_FORMATS: dict[str, str] = {
    "int32": "OpenAPI: how a program stores the number; minimum and maximum state its range",
    "int64": "OpenAPI: how a program stores the number; minimum and maximum state its range",
    "float": "OpenAPI: how a program stores the number",
    "double": "OpenAPI: how a program stores the number",
    "byte": "OpenAPI 3.0: base64, which contentEncoding states since 3.1, as an annotation too",
    "binary": "OpenAPI 3.0: any octets",
    "password": "OpenAPI: a hint to hide the input",
    "utc-millisec": "JSON Schema draft 3: any number, milliseconds since 1970",
    "color": "JSON Schema draft 3: a colour of CSS 2.1, optional to check, not in later drafts",
    "style": "JSON Schema draft 3: a style of CSS 2.1, optional to check, not in later drafts",
    "phone": "JSON Schema draft 3: a telephone number in one of several notations, optional to check",
}
"""Formats that say what a value is for and are not enforced, with where they come from and why."""

FORMAT_NAMES = frozenset((*FORMATS, *_WRITTEN))
"""All names that ``format_automaton`` knows."""


ASCII_FORMATS = (
    FORMAT_NAMES
    - {"idn-email", "iri", "iri-reference", "uri-template", "json-pointer", "regex"}
    - {"relative-json-pointer"}
)
"""Formats whose characters are ASCII, none of which needs an escape."""


@lru_cache(2 * len(FORMAT_NAMES))
def format_automaton(name: str, escapes: Escapes) -> Automaton:
    """The content (between the quotes) of JSON strings of a format; kept on disk.

    Args:
        name: one of FORMAT_NAMES.
        escapes: "all" spellings of a character, or one "canonical" one, as for ``compile_regex``.
    """
    pattern = FORMATS.get(name, "")
    return stored(f"format {VERSION} {name} {escapes} {pattern}", lambda: built(name, escapes))


def built(name: str, escapes: Escapes) -> Automaton:
    """The same, not from the disk."""
    if name in _WRITTEN:
        return lower(_WRITTEN[name](), coding_of(json=True, escapes=escapes), MAX_STATES)
    return compile_regex(FORMATS[name], dialect="ecma", search=True, json=True, escapes=escapes, max_states=MAX_STATES)
