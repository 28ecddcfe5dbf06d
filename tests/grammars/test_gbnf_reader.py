"""GBNF: the language of the rules is that of the text, found by enumeration, and wrong grammars show the place."""

from __future__ import annotations

import re
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlgen.errors import ComplexityError, CtrlgenError, GrammarError, InputError
from ctrlgen.grammars.gbnf_reader import read_gbnf
from ctrlgen.grammars.rules import Rules


def matches(rules: Rules, text: str) -> bool:
    """Whether a text matches plain rules; ends of each rule at each place grow until nothing changes."""
    patterns = {terminal.name: re.compile(terminal.pattern) for terminal in rules.terminals}
    ends: dict[tuple[str, int], set[int]] = {}

    def ends_of(name: str, begin: int) -> set[int]:
        if name in patterns:
            # terminals are strings and single characters: there is one match
            found = patterns[name].match(text, begin)
            return {found.end()} if found else set()
        return ends.setdefault((name, begin), set())

    ends_of(rules.start, 0)
    changed = True
    while changed:
        before = len(ends)
        changed = False
        for name, begin in list(ends):
            for rule in rules.rules:
                if rule.name != name:
                    continue
                reached = {begin}
                for part in rule.body:
                    reached = set().union(*(ends_of(part, place) for place in reached))
                if not reached <= ends[name, begin]:
                    ends[name, begin] |= reached
                    changed = True
        changed = changed or len(ends) > before
    return len(text) in ends[rules.start, 0]


CASES = [
    ("root ::= [xy]*", ["", "x", "yxxy"], ["z", "xz", " "]),
    ('root ::= a ("," a)*\na ::= "n" [0-9]{1,2}', ["n1", "n12,n3"], ["", "n", "n123", "n1,", ",n1"]),
    ('root ::= root "+" t | t\nt ::= "1" | "(" root ")"', ["1", "1+1+1", "(1+(1))"], ["", "+1", "1+", "(1"]),
    ('root ::= "a" root "b" | ""', ["", "ab", "aaabbb"], ["a", "ba", "aab"]),
    ('root ::= "a"? "b"+ "c"{2} "d"{1,}', ["bccd", "abbccdd"], ["acc", "bccc", "bcd", "bcc"]),
    ('root ::= ("a" | "b"\n  | "c" "d")\n\n# end', ["a", "b", "cd"], ["c", "ab"]),
    ('root ::=\n  "a" |\n  "b"\n  | "c"  # or so\n', ["a", "b", "c"], ["", "ab"]),
    ('root ::= one-two\none-two ::= three_4\nthree_4 ::= "x"', ["x"], [""]),
    (r'root ::= "\"\\\n\t\x41\u00e9\U0001F44D[]"', ['"\\\n\tAé👍[]'], ["A"]),
    (r"root ::= [^a-c\n\]\-]+", ["xyz", "[d", "👍"], ["a", "xb", "\n", "]", "-"]),
    (r"root ::= [a\-c] [-x] [x-]", ["a--", "-x-", "cxx"], ["b--", "aa-", "a-a"]),
    ('root ::= [🐀-🐟]{1,2} "é"', ["🐀é", "🐙🐈é"], ["🦊é", "é"]),
    ("root ::= . . .", ["abc", "a\nc", "日本語"], ["ab", "abcd"]),
    ('root ::= "a"{0} "b"{0,2}', ["", "b", "bb"], ["a", "bbb"]),
    ('root ::= ("a"{1,2} "b"){2,3}', ["abab", "aabab", "abaabab"], ["ab", "aab", "abababab"]),
    ('root ::= "a"*? "b"', ["b", "aab"], ["a", "abb"]),
    ('root ::= "a\nb"', ["a\nb"], ["ab"]),
    ('root::="a"|"b"\r\nx ::= "c"\r\n', ["a", "b"], ["c", ""]),
    ('root ::= "a" # "b"\n# root ::= "c"\n', ["a"], ["ab", "c"]),
    ('root ::= "ab" "" | ()', ["ab", ""], ["a"]),
]


@pytest.mark.parametrize(("text", "accept", "reject"), CASES, ids=[case[0][:30].replace("\n", " ") for case in CASES])
def test_language(text: str, accept: list[str], reject: list[str]) -> None:
    rules = read_gbnf(text)
    assert rules.lexer == "characters"
    assert [one for one in accept if not matches(rules, one)] == []
    assert [one for one in reject if matches(rules, one)] == []


def as_regex(text: str) -> str:
    """A grammar of one rule with strings of letters and classes, as a regular expression."""
    return text.replace('"', "").replace(" ", "")


ATOMS = st.sampled_from(['"a"', '"b"', '"ab"', "[ab]", "[^a]", '"c"'])


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["", "?", "*", "+", "{2}", "{1,2}", "{0,1}", "{1,}", "{2,3}", "{0}"])
    group = st.lists(inner, min_size=1, max_size=3).map(lambda parts: "(" + " | ".join(parts) + ")")
    return st.lists(st.tuples(group, repeat).map("".join), min_size=1, max_size=2).map(" ".join)


@settings(max_examples=120, deadline=None)
@given(st.recursive(ATOMS, larger, max_leaves=6))
def test_repeats_and_groups_against_re(text: str) -> None:
    rules = read_gbnf(f"root ::= {text}")
    pattern = re.compile(as_regex(text))
    for size in range(5):
        for letters in product("abc", repeat=size):
            word = "".join(letters)
            assert matches(rules, word) == bool(pattern.fullmatch(word)), (text, word)


def test_equal_terminals_are_one() -> None:
    rules = read_gbnf('root ::= "a" [x] "a" [x-x] "\\x61"')
    assert [terminal.pattern for terminal in rules.terminals] == ["a", "[x]"]
    assert rules.rules[0].body == ('"a"', "[1] [x]") * 2 + ('"a"',)


def test_names_of_terminals_are_no_names_of_rules() -> None:
    rules = read_gbnf('root ::= a "a" [a]\na ::= "b"')
    names = {rule.name for rule in rules.rules}
    assert not names & {terminal.name for terminal in rules.terminals}


def test_start() -> None:
    assert read_gbnf('a ::= "x"\nroot ::= a "y"', start="a").start == "a"
    assert len(read_gbnf('a ::= "x"\nroot ::= a "y"', start="a").rules) == 1


WRONG = [
    ("", 1, 1, "the grammar has no rules"),
    ('a ::= "x"', 1, 1, "no rule 'root' to start with; there are a"),
    ('root = "x"', 1, 6, "expected ::="),
    ('"x"', 1, 1, "name of a rule"),
    ("root ::= x", 1, 10, "rule x is not defined"),
    ('root ::= itme\nitem ::= "x"', 1, 10, "did you mean item"),
    ('root ::= "a"\nroot ::= "b"', 2, 1, "a second time"),
    ('root ::= "x', 1, 10, "string is never closed"),
    ("root ::= [x", 1, 10, "class is never closed"),
    ('root ::= ("x"', 1, 10, r"this \( is never closed"),
    ('root ::= "x")', 1, 13, "closes nothing"),
    ("root ::= []", 1, 10, "empty class"),
    ("root ::= [^]", 1, 10, "empty class"),
    ("root ::= [b-a]", 1, 12, "wrong order"),
    ("root ::= *", 1, 10, "nothing to repeat"),
    ('root ::= "a" | +', 1, 16, "nothing to repeat"),
    ('root ::= "a"{,3}', 1, 13, "repeat count"),
    ('root ::= "a"{x}', 1, 13, "repeat count"),
    ('root ::= "a"{3,1}', 1, 13, "below the lower"),
    (r'root ::= "\q"', 1, 11, "escape means nothing"),
    (r'root ::= "\x4"', 1, 11, "2 hexadecimal digits"),
    (r'root ::= "\uD800"', 1, 11, "no surrogate"),
    (r'root ::= "\U00110000"', 1, 11, "up to 10FFFF"),
    ('root ::= "\\', 1, 11, "escape means nothing"),
    ('root ::=\n  "a"\n  "b"', 3, 3, "name of a rule"),
    ('root ::= "a" b ::= "c"', 1, 14, "a rule begins here"),
    ("root ::= <think>", 1, 10, "single tokens"),
    ("root ::= 'a'", 1, 10, "expected a"),
    ('root ::= "\ud800"', 1, 11, "no surrogate"),
]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"), WRONG, ids=[row[0][:20].replace("\n", " ") for row in WRONG]
)
def test_errors_show_the_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(GrammarError, match=message) as caught:
        read_gbnf(text)
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "a"{0,99999}',
        'root ::= "a"{9999999999999999999999}',
        "root ::= " + "(" * 300 + '"a"' + ")" * 300,
        "root ::= " + '"a"{0,9999} ' * 10,
        "root ::= " + " " * 300_000,
    ],
    ids=lambda text: text[:25],
)
def test_limits(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ComplexityError):
        read_gbnf(text)
    assert time.process_time() - begun < 2


def test_large_repeats_within_the_limits() -> None:
    rules = read_gbnf('root ::= ("a"{0,2000} "b"){0,2000}')
    assert len(rules.rules) < 9000


@pytest.mark.parametrize("arguments", [(1,), ('root ::= "a"', 2)])
def test_arguments(arguments: tuple) -> None:
    with pytest.raises(InputError):
        read_gbnf(*arguments)


PIECES = st.sampled_from(
    [
        *(
            "root",
            "a",
            " ::= ",
            "::=",
            '"a"',
            '"',
            "[a-z]",
            "[^",
            "]",
            "[",
            "-",
            "(",
            ")",
            "|",
            "*",
            "+",
            "?",
            "{1,2}",
            "{",
        ),
        *("}", "\n", "\r\n", " ", "#", ".", "\\", "\\x41", "<", "é", "\0", "root ::= ", "\na ::= "),
    ]
)


@settings(max_examples=500, deadline=1000)
@given(st.lists(PIECES, max_size=20))
def test_any_text_is_read_or_refused(pieces: list[str]) -> None:
    try:
        rules = read_gbnf("".join(pieces))
    except CtrlgenError:
        return
    known = {rule.name for rule in rules.rules} | {terminal.name for terminal in rules.terminals}
    assert all(name in known for rule in rules.rules for name in rule.body)
    for terminal in rules.terminals:
        re.compile(terminal.pattern)
