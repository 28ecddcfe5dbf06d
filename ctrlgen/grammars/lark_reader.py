"""Grammars in Lark's syntax -> plain rules, by Lark's own loader.

Lark expands templates, imports, repeats and groups, and names and orders the terminals, so that a grammar means here
what it means there. What could make Lark run for ever is refused before (lark_text.py, lark_size.py), and what it would
complain about is found with its place (lark_checks.py). The only module that imports lark.
"""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from ctrlgen.errors import ComplexityError, CtrlgenError, GrammarError, InputError, RegexError
from ctrlgen.grammars.lark_checks import Outline
from ctrlgen.grammars.lark_text import check_text
from ctrlgen.grammars.regex_look_behind import without_look_behind
from ctrlgen.grammars.regex_ordered import first_match_automaton
from ctrlgen.grammars.regex_syntax import Characters, parse_regex
from ctrlgen.grammars.rules import Rule, Rules, Terminal

if TYPE_CHECKING:
    from lark.lexer import TerminalDef

LIBRARIES = ("common", "lark", "python", "unicode")
"""The grammars that come with Lark; nothing else can be imported."""

_SURROGATES = re.compile("(\\\\[^\ud800-\udfff])|\\\\?[\ud800-\udfff]", re.DOTALL)
"""Those that a class excludes; they are written as escapes, because text with them cannot be encoded."""

LarkLexer = Literal["contextual", "basic", "dynamic"]

_EXPECTED = {
    "RULE": "the name of a rule", "TERMINAL": "the name of a terminal", "STRING": "a string", "OP": "?, * or +",
    "REGEXP": "a regular expression", "NUMBER": "a number", "_NL": "the end of the line", "_NL_OR": "|", "_COLON": ":",
    "_COMMA": ",", "_OR": "|", "_DOT": ".", "_DOTDOT": "..", "TILDE": "~", "_TO": "->", "_LPAR": "(", "_RPAR": ")",
    "_LBRA": "[", "_RBRA": "]", "_LBRACE": "{", "_RBRACE": "}", "_IGNORE": "%ignore", "_OVERRIDE": "%override",
    "_DECLARE": "%declare", "_EXTEND": "%extend", "_IMPORT": "%import", "RULE_MODIFIERS": "! or ? before a rule",
    "$END": "the end of the grammar",
}  # fmt: skip


def read_lark(text: str, start: str = "start", lexer: str = "contextual") -> Rules:
    """The rules of a grammar in Lark's syntax.

    Args:
        text: the grammar.
        start: the rule that a text must match.
        lexer: "contextual", "basic" or "dynamic": how a text is cut into terminals; see ``docs/grammars.md``.

    Raises:
        GrammarError: the grammar is wrong or asks for something that cannot be enforced; shows the place.
        ComplexityError: it is too large when written out.
        InputError: an argument of another kind.

    >>> rules = read_lark('start: "a" start | "b"')
    >>> [(rule.name, rule.body) for rule in rules.rules]
    [('start', ('A', 'start')), ('start', ('B',))]
    """
    if not isinstance(text, str) or not isinstance(start, str):
        raise InputError("a grammar and the name of its start rule must be strings")
    if lexer not in ("contextual", "basic", "dynamic"):
        raise InputError(f"lexer must be 'contextual', 'basic' or 'dynamic', not {lexer!r}")
    check_text(text)
    try:
        with warnings.catch_warnings():
            # of re, on classes such as [[a]
            warnings.simplefilter("ignore", FutureWarning)
            outline = Outline(text, _parsed(text), LIBRARIES, _names_in)
            outline.check()
            outline.check_size(_checked_literals(outline))
            _check_start(outline, start)
            return _rules(outline, start, cast(LarkLexer, lexer))
    except RecursionError as error:
        raise ComplexityError("the grammar nests too deeply; give inner parts a rule of their own") from error


def _parsed(text: str) -> Any:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken
    from lark.load_grammar import _get_parser

    try:
        return _get_parser().parse(text + "\n", "start")
    except UnexpectedCharacters as error:
        raise GrammarError("this character means nothing here", text, error.line, error.column) from error
    except UnexpectedToken as error:
        token = error.token
        found = "the grammar ends" if token.type == "$END" else repr(str(token).strip(" ")[:40] or "\n")
        wanted = sorted({_EXPECTED.get(name, name) for name in error.accepts or error.expected})
        line, column = (token.line, token.column) if token.type != "$END" else (text.count("\n") + 1, 1)
        raise GrammarError(
            f"{found} cannot stand here: expected {' or '.join(wanted) if len(wanted) < 3 else ', '.join(wanted)}",
            text,
            line,
            column,
        ) from error


@cache
def _names_in(library: str) -> frozenset[str]:
    """What a grammar of Lark's defines or imports."""
    from lark.load_grammar import stdlib_loader

    _, text = stdlib_loader(None, f"{library}.lark")
    outline = Outline(text, _parsed(text), LIBRARIES, _names_in)
    for statement in outline.tree.children:
        if statement.data in ("rule", "term", "import"):
            outline.read(statement)
    return frozenset({*outline.by_name, *outline.imported})


def _check_start(outline: Outline, start: str) -> None:
    defined = outline.by_name.get(start)
    if defined is not None and defined.parameters:
        raise outline.error(defined.token, f"the start rule {start} is a template; name a rule without parameters")
    if (defined is None or defined.is_terminal) and not (start in outline.imported and not start.isupper()):
        rules = [d.name for d in outline.definitions if not d.is_terminal and not d.parameters]
        raise GrammarError(
            f"there is no rule {start!r} to start with; "
            + (f"there are {', '.join(rules[:10])}: name one with start=" if rules else "the grammar has no rules"),
            outline.text,
            1,
            1,
        )


# Strings and regular expressions


def _checked_literals(outline: Outline) -> dict[int, int]:
    """The lengths of the patterns of all strings and regular expressions, by the id of their token."""
    lengths: dict[int, int] = {}
    for literal in outline.tree.find_data("literal"):
        (token,) = literal.children
        lengths[id(token)] = len(_pattern_of(outline, token).value)
    for both in outline.tree.find_data("range"):
        _check_range(outline, *both.children)
    return lengths


def _pattern_of(outline: Outline, token: Any) -> Any:
    from lark.exceptions import LarkError
    from lark.load_grammar import _literal_to_pattern

    if token.startswith('""'):
        raise outline.error(token, "an empty string is no terminal; write [ ... ] or ? for what may be absent")
    try:
        pattern = _literal_to_pattern(token)
    except (LarkError, SyntaxError, ValueError) as error:
        if token.type == "REGEXP" and "\n" in token:
            raise outline.error(
                token, "a line ends within this regular expression: write \\n, or end it with /"
            ) from error
        raise outline.error(token, f"the escapes of this {_kind(token)} cannot be read") from error
    if token.type == "STRING" and re.search("[\ud800-\udfff]", pattern.value):
        raise outline.error(token, "half of a surrogate pair is no character: write \\U and eight digits")
    if token.type == "REGEXP":
        _check_regexp(outline, token, pattern)
    return pattern


def _kind(token: Any) -> str:
    return "string" if token.type == "STRING" else "regular expression"


def _check_regexp(outline: Outline, token: Any, pattern: Any) -> None:
    if "l" in pattern.flags:
        raise outline.error(token, "the flag l (locale) is not supported for text")
    value = pattern.value
    if len(value) > 20_000:
        raise ComplexityError(f"line {token.line}: a regular expression of more than 20000 characters")
    try:
        re.compile(value, re.VERBOSE if "x" in pattern.flags else 0)
    except (re.error, OverflowError, ValueError) as error:
        message = getattr(error, "msg", str(error))
        place = getattr(error, "pos", None) or 0
        # Lark evaluates some escapes, which moves what follows them
        column = token.column + 1 + (place if token.startswith("/" + value[:place]) else 0)
        hint = "; Unicode properties are not part of re: write a class" if re.search(r"\\[pP]", value) else ""
        raise GrammarError(
            f"this is no regular expression of Python: {message}{hint}", outline.text, token.line, column
        ) from error


def _check_range(outline: Outline, first: Any, last: Any) -> None:
    """Lark writes "a".."z" as [a-z] without escaping the two ends; refuse what does not mean the range then."""
    from lark.exceptions import LarkError
    from lark.load_grammar import eval_escaping

    ends = []
    for token in (first, last):
        try:
            ends.append(eval_escaping(token[1:-1]))
        except (LarkError, SyntaxError, ValueError):
            ends.append("")
        if len(ends[-1]) != 1 and not token.endswith("i"):
            ends[-1] = ends[-1].replace("\\\\", "\\")
        if token.endswith("i") or len(ends[-1]) != 1:
            raise outline.error(token, f'a range needs one character at both ends, as in "a".."z"; found {token}')
    if ends[1] < ends[0]:
        raise outline.error(last, f"the range ends before it begins: {first}..{last}")
    try:
        read, _ = parse_regex(f"[{first[1:-1]}-{last[1:-1]}]", "python", search=False, ascii=False)
    except RegexError:
        read = []
    if read != [Characters(((ord(ends[0]), ord(ends[1])),))]:
        raise outline.error(
            first, f"Lark does not read {first}..{last} as that range; write it as /[...]/ with escapes"
        )


# Lark's own expansion


def _rules(outline: Outline, start: str, lexer: LarkLexer) -> Rules:
    from lark.exceptions import LarkError
    from lark.load_grammar import load_grammar

    try:
        grammar, _ = load_grammar(outline.text, "<string>", [], False)
        terminals, rules, ignored = grammar.compile([start], set())
    except RecursionError:
        raise
    except (LarkError, AssertionError, ValueError, OverflowError, ImportError, OSError, re.error) as error:
        raise _translated(outline, str(error)) from error
    known = {terminal.name for terminal in terminals}
    plain = _reachable(
        [
            Rule(
                str(rule.origin.name), tuple(str(symbol.name) for symbol in rule.expansion), rule.options.priority or 0
            )
            for rule in rules
        ],
        start,
    )
    for name in sorted({symbol.name for rule in rules for symbol in rule.expansion if symbol.is_term} - known):
        raise _missing(outline, name)
    ordered = sorted(terminals, key=_lexing_order)
    return Rules(
        start,
        tuple(plain),
        tuple(_terminal(outline, terminal) for terminal in ordered),
        frozenset(map(str, ignored)),
        lexer,
    )


def _missing(outline: Outline, name: str) -> GrammarError:
    """The error for a terminal that %declare names in an imported grammar."""
    token = next(iter(outline.imported.values()))
    return outline.error(
        token, f"an imported rule uses {name}, whose text comes from a program (%declare); import only terminals"
    )


def _lexing_order(terminal: TerminalDef) -> tuple[int, int, int, str]:
    """Lark's own: by priority, then the longest possible text, then the longest pattern, then the name."""
    return (-terminal.priority, -terminal.pattern.max_width, -len(terminal.pattern.value), terminal.name)


def _reachable(rules: list[Rule], start: str) -> list[Rule]:
    by_name: dict[str, list[Rule]] = {}
    for rule in rules:
        by_name.setdefault(rule.name, []).append(rule)
    seen = {start}
    todo = [start]
    for name in todo:
        for rule in by_name.get(name, []):
            for used in rule.body:
                if used in by_name and used not in seen:
                    seen.add(used)
                    todo.append(used)
    return [rule for rule in rules if rule.name in seen]


def _terminal(outline: Outline, terminal: TerminalDef) -> Terminal:
    literal = terminal.pattern.type == "str"
    pattern = terminal.pattern.value if not literal else re.escape(terminal.pattern.value)
    for flag in sorted(terminal.pattern.flags, reverse=True):
        pattern = f"(?{flag}:{pattern})"
    try:
        if not literal:
            re.compile(pattern)
            pattern = _SURROGATES.sub(
                lambda found: found[1] or f"\\u{ord(found[0][-1]):04x}", without_look_behind(pattern)
            )
            _check_pattern(outline, terminal, pattern)
    except (RegexError, re.error, OverflowError, ComplexityError) as error:
        line, column, name = _place(outline, terminal)
        message = f"the terminal {name} cannot be enforced: {error}"
        if isinstance(error, ComplexityError):
            raise ComplexityError(f"line {line}: {message}") from error
        raise GrammarError(message, outline.text, line, column) from error
    return Terminal(str(terminal.name), pattern, literal, terminal.priority)


def _check_pattern(outline: Outline, terminal: TerminalDef, pattern: str) -> None:
    if terminal.pattern.min_width == 0 or first_match_automaton(pattern).accepting[0]:
        line, column, name = _place(outline, terminal)
        raise GrammarError(
            f"the terminal {name} matches the empty string, and a lexer would stand still there; make it longer, and "
            "write ? or * where it is used",
            outline.text,
            line,
            column,
        )


def _place(outline: Outline, terminal: TerminalDef) -> tuple[int, int, str]:
    """Line and column of a terminal, and what to call it."""
    if terminal.name in outline.by_name:
        token = outline.by_name[terminal.name].token
        return token.line, token.column, terminal.name
    if terminal.name in outline.imported:
        token = outline.imported[terminal.name]
        return token.line, token.column, terminal.name
    raw = terminal.pattern.raw
    for literal in outline.tree.find_data("literal"):
        (token,) = literal.children
        if raw is not None and str(token) == raw:
            return token.line, token.column, raw
    ignored = [statement for statement in outline.tree.children if statement.data == "ignore"]
    if terminal.name.startswith("__IGNORE_") and ignored:
        for token in ignored[0].scan_values(lambda value: hasattr(value, "line")):
            return token.line, token.column, "after %ignore"
    return 1, 1, terminal.name


def _translated(outline: Outline, message: str) -> CtrlgenError:
    """An error of Lark's in our words, at the definition that it names."""
    first = "Lark refuses this grammar: " + message.split("\n", 1)[0]
    if message.startswith("Rules defined twice"):
        found = re.search(r"<(\S+) :", message)
        name = found[1] if found else "a rule"
        first = f"two alternatives of {name} are the same once its optional parts are written out; remove one"
    names = [word for word in re.findall(r"[A-Za-z_][A-Za-z_0-9]*", message) if word in outline.by_name]
    if not names:
        return GrammarError(first, outline.text, 1, 1)
    return outline.error(outline.by_name[names[0]].token, first)
