"""Lark's syntax: the same rules, terminals and order as Lark has, and an error with its place for everything else."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError

from ctrlgen.errors import ComplexityError, CtrlgenError, GrammarError, InputError
from ctrlgen.grammars.lark_reader import LIBRARIES, read_lark
from ctrlgen.grammars.regex_look_behind import without_look_behind

READY = sorted((Path(__file__).resolve().parents[2] / "grammars").glob("*.lark"))

GRAMMARS = {
    "imports": """
        start: (WORD | CNAME | INT | FLOAT | ESCAPED_STRING | SIGNED_NUMBER)+
        %import common (WORD, CNAME, INT, FLOAT, ESCAPED_STRING, SIGNED_NUMBER)
        %import common.WS -> BLANK
        %ignore BLANK
        %ignore C_COMMENT
        %import common.C_COMMENT
    """,
    "priorities": """
        start: (A | B | C | D | "if" | "iffy" | "i")+
        A.2: /[a-z]+/
        B: /[a-z]{3}/
        C.-1: "x".."z"
        D: "if"i /[0-9]/
    """,
    "templates": """
        start: _list{item, ","} | pair{"k"}
        _list{x, by}: x (by x)*
        pair{name}: name "=" item
        item: /[0-9]+/ | "[" [_list{item, ";"}] "]"
    """,
    "repeats": 'start: "a"~3 "b"~1..2 ("c" | "d"~2)* [e] f~55..60\ne: "e"+\nf.3: "f"\n',
    "extended": """
        %import common.DIGIT
        %override DIGIT: /[0-7]/
        a: "x"
        %extend a: "y"
        start: a DIGIT -> one
             | "z" -> two
    """,
    "flags": 'start: A B "c"i\nA: /a.b/is\nB: "b"i | /[^x]/m\n%ignore /#.*/\n',
}


def terminals_of(lark: Lark) -> list[str]:
    """In the order in which Lark's basic lexer tries them."""
    lexer = lark._build_lexer()
    return [terminal.name for terminal in lexer.terminals]


@pytest.mark.parametrize("text", [*GRAMMARS.values(), *(path.read_text(encoding="utf-8") for path in READY)])
def test_same_rules_and_order_as_lark(text: str) -> None:
    lark = Lark(text, parser="lalr", lexer="basic")
    rules = read_lark(text, lexer="basic")
    assert [terminal.name for terminal in rules.terminals] == terminals_of(lark)
    assert {t.name: t.priority for t in rules.terminals} == {t.name: t.priority for t in lark.terminals}
    assert {t.name: t.literal for t in rules.terminals} == {t.name: t.pattern.type == "str" for t in lark.terminals}
    theirs = {(str(rule.origin.name), tuple(symbol.name for symbol in rule.expansion)) for rule in lark.rules}
    assert {(rule.name, rule.body) for rule in rules.rules} == theirs
    assert rules.ignored == frozenset(lark.ignore_tokens)


@pytest.mark.parametrize("text", GRAMMARS.values())
def test_plain_values(text: str) -> None:
    rules = read_lark(text)
    assert all(type(rule.name) is str and all(type(name) is str for name in rule.body) for rule in rules.rules)
    assert all(type(terminal.name) is str and type(terminal.pattern) is str for terminal in rules.terminals)
    assert hash(rules) == hash(read_lark(text))


def test_the_same_in_every_process() -> None:
    # flags are a set, whose order changes with the hash seed
    assert {t.pattern for t in read_lark('start: "a"i /b/xims').terminals} == {"(?i:a)", "(?i:(?m:(?s:(?x:b))))"}


def test_priority_of_a_rule() -> None:
    assert [rule.priority for rule in read_lark('start: a\na.7: "x"\n').rules] == [0, 7]


def test_unreachable_rules_are_left_out() -> None:
    rules = read_lark('start: "a"\nb: c "b"\nc: b | "c"\n')
    assert {rule.name for rule in rules.rules} == {"start"}
    # but their terminals are in Lark's lexer, and so in ours
    assert {terminal.name for terminal in rules.terminals} == {"A", "B", "C"}


# patterns


@pytest.mark.parametrize(
    ("pattern", "ends"),
    [
        (r'".*?(?<!\\)(\\\\)*?"', '"'),
        (r'".*?(?<!\\)(?:\\\\)*"', '"'),
        (r'".*?(?<!\\)"', '"'),
        (r"(?s:'.*?(?<!\\)(\\\\)*?')", "'"),
        (r'([ub]?r?|r[ub])(""".*?(?<!\\)(\\\\)*?"""|"(?!"").*?(?<!\\)(\\\\)*?")', '"""'),
        (r"x.*?(?<!\\)(\\\\)*?(a|b\\)", "a"),
    ],
)
def test_look_behinds_of_lark(pattern: str, ends: str) -> None:
    written = without_look_behind(pattern)
    assert "(?<" not in written
    ours, theirs = re.compile(written), re.compile(pattern)
    matched = 0

    @settings(max_examples=300, deadline=None)
    @given(st.text("\\\"'\nabx", max_size=10), st.sampled_from(["", '"', "'", '"""', "x"]), st.sampled_from(["", ends]))
    def same(text: str, before: str, after: str) -> None:
        nonlocal matched
        one, other = ours.match(before + text + after), theirs.match(before + text + after)
        assert (one and one.end()) == (other and other.end())
        matched += one is not None

    same()
    assert matched > 10


@pytest.mark.parametrize(
    "pattern", [r".*?(?<!\\)a", r"\\.*?(?<!\\)a", r"a*.*?(?<!\\)b", r"(a).*?(?<!\\)b", r"(?x:a.*?(?<!\\)b)"]
)
def test_other_look_behinds_are_refused(pattern: str) -> None:
    with pytest.raises(GrammarError, match="look-behind"):
        read_lark(f"start: /{pattern}/")


def test_strings_and_comments_of_the_common_grammar() -> None:
    rules = read_lark("start: ESCAPED_STRING C_COMMENT\n%import common.ESCAPED_STRING\n%import common.C_COMMENT")
    patterns = {terminal.name: re.compile(terminal.pattern) for terminal in rules.terminals}
    assert patterns["ESCAPED_STRING"].match(r'"a\"b\\" "c"')[0] == r'"a\"b\\"'
    assert patterns["C_COMMENT"].match("/* a * / **/ */")[0] == "/* a * / **/"


def test_surrogates_in_a_class_are_escapes() -> None:
    (terminal,) = read_lark(r"start: /[^\ud800-\udfff]\\[\\\udc00]/").terminals
    assert terminal.pattern == r"[^\ud800-\udfff]\\[\\\udc00]"


# errors

WRONG = [
    ('start: "a', 1, 8, "never closed"),
    ("start: /a", 1, 8, "never closed"),
    ('start: ("a"\n', 1, 8, r"this \( is never closed"),
    ('start: "a")', 1, 11, "closes nothing"),
    ('start: ("a"]', 1, 12, "does not close"),
    ("start: 'a'", 1, 8, "double quotes"),
    ('start "a"', 1, 7, "expected ., :, {"),
    ('start: "a" -> B', 1, 15, "name of a rule"),
    ("start: $", 1, 8, "means nothing here"),
    ("start: a.b", 1, 9, "cannot stand here"),
    ("start: a\na: b c\nb: /x/", 2, 6, "rule c is not defined"),
    ("start: A\nA: B", 2, 4, "terminal B is not defined"),
    ("start: WROD\nWORD: /x/", 1, 8, "did you mean WORD"),
    ("A: a\na: /x/\nstart: A", 1, 4, "cannot use the rule a"),
    ('start: "a"\n%ignore B', 2, 9, "terminal B is not defined"),
    ('foo: "a"', 1, 1, "no rule 'start' to start with; there are foo"),
    ("", 1, 1, "the grammar has no rules"),
    ('start{x}: x "a"', 1, 1, "is a template"),
    ('start: ""', 1, 8, "empty string"),
    ('start: A\nA: "a"?', 2, 1, "matches the empty string"),
    ("start: /a*/", 1, 8, "matches the empty string"),
    ('start: "a"\n%ignore /b*/', 2, 9, "matches the empty string"),
    ('start: A\nA: A "b"', 2, 4, "contains itself"),
    ('start: a\na: "x"\na: "y"', 3, 1, "a second time"),
    ('start: "a"\n__b: "c"', 2, 1, "cannot stand here|means nothing|two underscores"),
    ('%override a: "x"\nstart: a', 1, 11, "no a to override"),
    ('%extend a: "x"\na: "y"\nstart: a', 1, 9, "no a to extend before"),
    ("%import nothing.A\nstart: A", 1, 9, "there are common, lark, python, unicode"),
    ("%import common.WORDS\nstart: WORDS", 1, 16, "did you mean WORD"),
    ('%import common\nstart: "a"', 1, 9, "nothing is imported"),
    ("%import .other.A\nstart: A", 1, 10, "imports from files"),
    ("%import common.WORD -> word\nstart: word", 1, 24, "both be terminals"),
    ("%declare A\nstart: A", 1, 10, "%declare is not supported"),
    ("start: suite\n%import python.suite", 2, 16, "%declare"),
    ('start: a{"x", "y"}\na{x}: x', 1, 8, "takes 1 argument, and is given 2"),
    ("start: a\na{x}: x", 1, 8, "is a template: expected arguments"),
    ('start: a{"b", "c"}\na{x, x}: x', 2, 1, "there twice"),
    ('start: a{"b"} x\nx: "x"\na{x}: x', 3, 1, "a rule's name too"),
    ('start: "a"~3..1', 1, 15, "below the lower"),
    ('start: "a"~-1', 1, 12, "negative"),
    ('start: "^".."z"', 1, 8, "does not read"),
    ('start: "z".."a"', 1, 13, "ends before it begins"),
    ('start: "a".."zz"', 1, 13, "one character at both ends"),
    ('start: "a"i.."z"', 1, 8, "one character at both ends"),
    (r'start: "\x1"', 1, 8, "escapes of this string"),
    (r'start: "\ud800"', 1, 8, "surrogate"),
    ("start: /[/", 1, 9, "no regular expression of Python: unterminated"),
    ("start: /a{3,1}/", 1, 11, "min repeat"),
    (r"start: /\p{L}/", 1, 9, "Unicode properties"),
    ("start: /a/l", 1, 8, "flag l"),
    ("start: /a\n/", 1, 8, "a line ends within"),
    ("start: /(?<!a)b/", 1, 8, "look-behind is not supported"),
    ("start: /b(?!a)/", 1, 8, "look-ahead is not supported"),
    (r"start: /\bb/", 1, 8, "looks around"),
    ("start: /b$/", 1, 8, "looks around"),
    (r"start: /(a)\1/", 1, 8, "back references"),
    ("start: /a++/", 1, 8, "possessive"),
    ("_a: /x/ -> b\nstart: _a", 1, 1, "isn't allowed to have aliases"),
    ("start: a\n%ignore a\na: /x/", 2, 9, "cannot use the rule a"),
    ('start: [B] C | C\nB: "b"\nC: "c"', 1, 1, "the same once its optional parts"),
]


@pytest.mark.parametrize(("text", "line", "column", "message"), WRONG, ids=[row[0][:30] for row in WRONG])
def test_errors_show_the_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GrammarError, match=message) as caught:
        read_lark(text)
    assert (caught.value.line, caught.value.column) == (line, column)


HUGE = [
    "start: " + "(" * 100 + '"a"' + ")" * 100,
    "start: " + " ".join(f'"a{i}"?' for i in range(30)),
    'start: (("a"|"b")~1..40)~1..40',
    "start: (" + "|".join(f'"{i}"' for i in range(100)) + ")~60",
    'start: a{"x"}\na{x}: a{a{x}} "y"',
    'start: a{"x"}\na{x}: a{b{x, x}}\nb{x, y}: x y',
    "start: A0\n" + "".join(f"A{i}: A{i + 1} A{i + 1} A{i + 1}\n" for i in range(30)) + 'A30: "x"\n',
    'start: B\nB: A~1000000\nA: "abc"~1000',
    "start: /(a{1000}){1000}/",
    'start: "a"~1..99999999999',
    'start: "a"\n' + "".join(f'a{i}: "b"\n' for i in range(6000)),
    'start: "a"' + " " * 300_000,
    "start: /" + "(" * 2000 + "a" + ")" * 2000 + "/",
]


@pytest.mark.parametrize("text", HUGE, ids=[text[:30].replace("\n", " ") for text in HUGE])
def test_what_would_explode_is_refused_at_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises((ComplexityError, GrammarError)):
        read_lark(text)
    assert time.process_time() - begun < 3


@pytest.mark.parametrize("quote", ['"', "/"])
def test_a_missing_quote_takes_no_time(quote: str) -> None:
    # Lark's own pattern for strings backtracks exponentially here
    begun = time.process_time()
    with pytest.raises(GrammarError, match="never closed"):
        read_lark(f"start: {quote}" + "\\" * 4001)
    assert time.process_time() - begun < 1


def test_large_repeats_are_fine() -> None:
    assert len(read_lark('start: "a"~1..1000000').rules) < 200


@pytest.mark.parametrize("arguments", [(1,), ("start: /a/", 2), ("start: /a/", "start", "earley")])
def test_arguments(arguments: tuple) -> None:
    with pytest.raises(InputError):
        read_lark(*arguments)


@pytest.mark.parametrize(
    ("library", "name"), [("common", "INT"), ("lark", "NUMBER"), ("python", "NAME"), ("unicode", "WS_INLINE")]
)
def test_libraries_are_those_of_lark(library: str, name: str) -> None:
    assert library in LIBRARIES
    assert read_lark(f"start: X\n%import {library}.{name} -> X").terminals[0].name == "X"


PIECES = st.sampled_from(
    [
        *("start: ", "a: ", "A: ", '"a"', '"b"i', "/a+/", "/[^a]*/", "/", '"', "(", ")", "[", "]", "?", "*", "+", "~2"),
        *("~1..3", "~", "..", " -> b", "a", "A", "B", "{", "}", "x", ",", ".2", "\n", "\n", "\n", " ", " ", "|", "|"),
        *("%ignore ", "%import common.", "WORD", "%declare ", "%extend ", "%override ", "!", "_a: ", "//", "#", "\\"),
        *("'", "\0", "é", "start: a\n", "a{x}: ", "a{A}", "a{a}"),
    ]
)


@settings(max_examples=400, deadline=2000)
@given(st.lists(PIECES, max_size=25))
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    """And what is read, Lark accepts too, but for conflicts, which come later."""
    text = "".join(pieces)
    try:
        read_lark(text)
    except CtrlgenError:
        return
    try:
        Lark(text, parser="earley", lexer="dynamic")
    except LarkError as error:
        raise AssertionError(f"Lark refuses what was read: {error}") from error
