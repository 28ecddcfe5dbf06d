"""Regular expressions against ``re`` (which backtracks) and interegular (which does not) on all short strings."""

from __future__ import annotations

import re
import time
import unicodedata
from itertools import product
from json import dumps

import interegular
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ctrlgen.errors import ComplexityError, CtrlgenError, RegexError
from ctrlgen.grammars.characters import character_set, ecma_class
from ctrlgen.grammars.regex import compile_regex
from ctrlgen.grammars.regex_syntax import Characters, parse_regex

ALPHABET = "ab\n_ B"
TEXTS = ["".join(letters) for length in range(5) for letters in product(ALPHABET, repeat=length)]
LONGER = ["".join(letters) for letters in product("ab\n", repeat=5)]

EVERYTHING = "".join(map(chr, range(0x110000)))

characters = st.sampled_from(
    ["a", "b", r"\n", ".", r"\w", r"\W", r"\s", r"\S", "[ab]", "[^a]", r"[^\w\n]", "[A-Z]", r"\ "]
)
edges = st.sampled_from(["^", "$", r"\A", r"\Z", r"\b", r"\B"])
counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{,2}", "{1,}", "*?", "+?", "??", "{0,3}?", "{0}"])


def grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    groups = st.sampled_from(["(", "(?:", "(?i:", "(?s:", "(?m:"])
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.builds(lambda group, parts: group + "|".join(parts) + ")", groups, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part, count: f"(?:{part}){count}", inner, counts),
    )


plain_patterns = st.recursive(characters, grow, max_leaves=8)
edge_patterns = st.recursive(st.one_of(characters, edges), grow, max_leaves=8)
look_patterns = st.recursive(
    st.one_of(characters, edges),
    lambda inner: st.one_of(grow(inner), st.builds("(?{}{})".format, st.sampled_from("=!"), inner)),
    max_leaves=7,
)


def check(pattern: str, texts: list[str], *, search: bool) -> None:
    ours = compile_regex(pattern, search=search)
    match = re.compile(pattern).search if search else re.compile(pattern).fullmatch
    wrong = [text for text in texts if ours.matches(text.encode()) != bool(match(text))]
    assert not wrong, (pattern, wrong[:5])


@settings(max_examples=80, deadline=None)
@given(plain_patterns, st.booleans())
def test_as_re(pattern: str, search: bool) -> None:
    check(pattern, TEXTS, search=search)


@settings(max_examples=110, deadline=None)
@given(edge_patterns, st.booleans(), st.sampled_from(["", "(?m)", "(?i)", "(?a)"]))
def test_as_re_with_anchors(pattern: str, search: bool, flags: str) -> None:
    check(flags + pattern, TEXTS + LONGER, search=search)


@settings(max_examples=110, deadline=None)
@given(look_patterns, st.booleans())
def test_as_re_with_lookahead(pattern: str, search: bool) -> None:
    check(pattern, TEXTS, search=search)


@settings(max_examples=110, deadline=None)
@given(plain_patterns, st.lists(st.text(max_size=6), min_size=1, max_size=8))
def test_as_re_on_any_text(pattern: str, texts: list[str]) -> None:
    texts = [text for text in texts if text.isprintable()]
    check(pattern, texts, search=False)
    check(pattern, texts, search=True)


@settings(max_examples=60, deadline=None)
@given(plain_patterns)
def test_as_interegular(pattern: str) -> None:
    assume("(?m" not in pattern and r"\ " not in pattern)
    # its classes are ASCII, and so is the alphabet here
    theirs = interegular.parse_pattern(pattern).to_fsm()
    ours = compile_regex(pattern)
    wrong = [text for text in TEXTS[:1500] if ours.matches(text.encode()) != theirs.accepts(text)]
    assert not wrong, wrong[:5]


@pytest.mark.parametrize(
    "pattern",
    [r"^a|b$", r"a$|^b", r"(^|x)a", r"(a$)\n?", r"$\n?a", r"a\b", r"\B", r"\b|a", r"(?:\b|a){2,3}", r"(?m)^a$\n^b$",
     "a{,2}", "a{2", "a{,}b", "a{}", "x*{", r"[]a]", r"[^]a]", r"[a\]\-b]", r"[a-]", r"[-a]", "(?x) a b # c\n | \\ ",
     "(?#note)a", "()", "(|a)b", "", r"(?=.*b)(?=.*\n)a.*", r"a(?!b)", r"(?!.*b)[a-z]*", r"(a(?=b)|b)*",
     r"(?!(?!a))[ab]", r"(?=a$)a\n?", r"(?:(?!ab).)*"],
)  # fmt: skip
@pytest.mark.parametrize("search", [False, True])
def test_as_re_by_hand(pattern: str, search: bool) -> None:
    check(pattern, TEXTS + LONGER + ["xa", "a{2", "a{}", "x{", "]", "-", "^]a"], search=search)


def single_set(pattern: str, *, ascii: bool = False) -> tuple[tuple[int, int], ...]:
    [instruction], _ = parse_regex(pattern, "python", search=False, ascii=ascii)
    assert isinstance(instruction, Characters)
    return instruction.members


@pytest.mark.parametrize(
    "pattern",
    [r"\d", r"\D", r"\w", r"\s", r"\S", ".", "(?s).", r"[\d_]", r"[^\w\s]", "(?i)k", "(?i)[s-t]", "(?i)[^s]", "(?i)ß",
     "(?i)\u0130", "(?i)i", "(?i)[α-ω]", "(?i)µ", "(?i)\ufb05", "(?i)[\U00010400-\U00010410]", "(?i)\U0001e900",
     r"(?i)[\Wk]", "(?i)[Ā-ſ]", "(?i)[^Ā-ſ\\d]",
     "(?a)\\w", "(?a)(?i)k", "(?ai)[^s]", "(?a)[^\\d]", r"\x41", r"\u00e9", r"\U0001F600",
     r"\N{GREEK SMALL LETTER ALPHA}", r"[\b]", r"\0"],
)  # fmt: skip
def test_sets_are_those_of_re_on_all_of_unicode(pattern: str) -> None:
    flags = re.match(r"(\(\?[a-z]+\))*", pattern)[0]
    found = re.finditer(f"{flags}(?:{pattern.removeprefix(flags)})+", EVERYTHING)
    assert single_set(pattern) == tuple((match.start(), match.end() - 1) for match in found)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("L", "aZéβ中", "1 _"),
        ("Lu", "AÉΩ", "aé"),
        ("Letter", "a", "1"),
        ("gc=Nd", "1٣", "a½"),
        ("P", ".,!_", "a+"),
        ("Any", "a\n", ""),
    ],
)
@pytest.mark.parametrize("dialect", ["python", "ecma"])
def test_unicode_categories(name: str, inside: str, outside: str, dialect: str) -> None:
    positive = compile_regex(rf"\p{{{name}}}", dialect=dialect)
    negative = compile_regex(rf"[\P{{{name}}}]", dialect=dialect)
    for character in inside + outside:
        assert positive.matches(character.encode()) == (character in inside)
        assert negative.matches(character.encode()) == (character in outside)


ECMA = [
    (r"^\d+$", ["0", "12"], ["", "٣", "1\n", "a1"]),
    ("owl", ["owl", "bowler", "one owl!", "a\nowl"], ["ow l", ""]),
    ("^dev|alpha|stable$", ["devel", "my alpha x", "unstable"], ["a dev", "stable "]),
    (r"^\w$", ["a", "_"], ["é"]),
    (r"^\s$", [" ", "\ufeff", "\u2028", "\u3000", "\t"], ["\x1c", "a"]),
    ("^.$", ["a", "\x85", "😀"], ["\n", "\r", "\u2028"]),
    (r"^\ud83d\ude00$", ["😀"], []),
    (r"^\u{1f600}\x41\cJ$", ["😀A\n"], []),
    (r"^[\w-.]+$", ["a-b.c"], ["a b"]),
    ("^[]$|^[^]$", ["a", "\n"], ["", "ab"]),
    (r"^\/a\-b\_$", ["/a-b_"], []),
    ("^a{,2}$", ["a{,2}"], ["a", ""]),
    ("(?i)^straße$", ["STRAẞE", "strasse".replace("ss", "ß")], ["strasse"]),
    (r"\bcat\b", ["a cat.", "cat"], ["cats", "concat"]),
    (r"^(?=.*[A-Z])(?=.*\d).{4,8}$", ["aB1c", "ABCDEFG1"], ["abc1", "AB1", "ABCDEFGH1"]),
    (r"^.*\.(?=(yaml|yml|json)$)\w+$", ["a.yaml", "b.json"], ["a.jsonx", "a.txt"]),
    (r"^[^.]+(?=\.(yaml|yml|json))", ["a.yml", "b.jsonx"], ["a.txt", ".yml", "a.b.yml"]),
    (r"(?=\.(yaml|yml|json))", ["a.b.yml", ".json5"], ["yml", "a.y"]),
    (r"^(?!.*\.\.)[a-z.]+$", ["a.b"], ["a..b"]),
    (r"^(?<year>\d{4})-(?P<month>\d\d)$", ["2024-01"], ["2024-1"]),
]


@pytest.mark.parametrize(("pattern", "accepted", "refused"), ECMA)
@pytest.mark.parametrize("json", [False, True])
def test_ecma(pattern: str, accepted: list[str], refused: list[str], json: bool) -> None:
    automaton = compile_regex(pattern, dialect="ecma", search=True, json=json, escapes="canonical")
    for text in accepted + refused:
        written = dumps(text, ensure_ascii=False)[1:-1] if json else text
        assert automaton.matches(written.encode()) == (text in accepted), text


def test_ecma_white_space() -> None:
    spaces = {code for code, character in enumerate(EVERYTHING) if unicodedata.category(character) == "Zs"}
    spaces |= {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x2028, 0x2029, 0xFEFF}
    assert character_set((code, code) for code in spaces) == ecma_class("s")


@pytest.mark.parametrize(
    ("pattern", "accepted", "refused"),
    [
        (".{2,3}", ["👍👍", "日本語", "éa"], ["👍", "日本語だ", "", "ab\n"]),
        (r"log:\n(main\.c\n)?end\n", ["log:\nend\n", "log:\nmain.c\nend\n"], ["log:\n", "log:\nmainxc\nend\n"]),
        (r"\S+\s\S{1,200}", ["[a b]", "x [", "q " + "z" * 200], [" a b", "ab", "a  ", "q " + "z" * 201]),
    ],
)
def test_reported_cases(pattern: str, accepted: list[str], refused: list[str]) -> None:
    automaton = compile_regex(pattern)
    assert all(automaton.matches(text.encode()) for text in accepted)
    assert not any(automaton.matches(text.encode()) for text in refused)


@pytest.mark.parametrize(
    ("pattern", "dialect", "position", "words"),
    [
        (r"a(?<=b)", "python", 1, "look-behind is not supported"),
        (r"a(?<!b)", "ecma", 1, "exclude the characters before"),
        (r"(a)\1", "python", 3, "back references"),
        (r"(?P<x>a)(?P=x)", "python", 8, "back references"),
        (r"(?<x>a)\k<x>", "ecma", 7, "back references"),
        ("(?>a)", "python", 0, r"atomic .*write \(\?:"),
        ("ab*+", "python", 3, "possessive"),
        ("(?(1)a|b)", "python", 0, "conditional"),
        ("a**", "python", 2, "quantifier after a quantifier"),
        ("*a", "python", 0, "nothing to repeat"),
        ("a|*", "ecma", 2, "nothing to repeat"),
        ("^*", "python", 1, "nothing to repeat"),
        ("a{3,2}", "python", 1, "upper repeat count 2 is below"),
        ("(a", "python", 0, "never closed"),
        ("a)", "python", 1, "closes nothing"),
        ("[a", "python", 0, "never closed"),
        ("[b-a]", "python", 2, "wrong order"),
        (r"[\w-z]", "python", 3, "single character at both ends"),
        (r"\012", "python", 0, "octal"),
        (r"\y", "python", 0, "means nothing in the python dialect"),
        (r"a\Z", "ecma", 1, r"write \^ or \$"),
        (r"\p{Script=Greek}", "ecma", 0, "ranges of the script"),
        (r"\p{Foo}", "ecma", 0, "not a general category"),
        ("[[:alpha:]]", "python", 1, "POSIX"),
        ("a(?i)", "python", 1, "at its start"),
        ("(?y:a)", "python", 0, "flag 'y'"),
        ("(?P<x>a)(?P<x>b)", "python", 8, "already a group"),
        ("\\", "python", 0, "at the end"),
        (r"\xg1", "python", 0, "2 hexadecimal digits"),
        (r"\u{110000}", "ecma", 0, "no code point above"),
        ("(?=" * 9 + "a" + ")" * 9, "python", 24, "inside more than 8"),
    ],
)
def test_refusals_say_what_and_where(pattern: str, dialect: str, position: int, words: str) -> None:
    with pytest.raises(RegexError, match=words) as caught:
        compile_regex(pattern, dialect=dialect)
    assert caught.value.position == position
    assert str(caught.value).splitlines()[-1] == " " * (2 + position) + "^"


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab()[]{}*+?|^$\\.-,:=!<>Pdswbi12 \n", max_size=12))
def test_any_text_is_compiled_or_refused(pattern: str) -> None:
    try:
        ours = compile_regex(pattern)
    except CtrlgenError:
        return
    try:
        theirs = re.compile(pattern)
    except (re.error, FutureWarning):
        return  # a few things are read that ``re`` refuses, such as (?<name>...)
    for text in ["", "a", "b", "ab", "(", "{1}", "a\n", "1", " "]:
        assert ours.matches(text.encode()) == bool(theirs.fullmatch(text)), text


HOSTILE = [
    "((a*)*)*b", "(a{1000}){1000}", "a" * 100_000, "(" * 50_000 + "a" + ")" * 50_000,
    "(?:" * 20_000 + "a" + ")*" * 20_000,
    ".*a.{20}", "(.*a.{500})*", ".{0,2500}", r"\w{1,255}", "(?:a?){3000}", "a?" * 3000, "(?:a?b?){500}", "a{999999999}",
    "(?:" + "|".join(f"w{n}x" for n in range(3000)) + ")", "(a|aa|aaa){500}", "[a-z]{0,19999}", r"\b" * 1000 + "a",
    "[" + "".join(chr(0x100 + 2 * n) for n in range(20_000)) + "]{1,10}", "(?=a)" * 3000 + "a",
    "((a{0,100}b{0,100}){0,10})*c",
    "(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f).{8,64}", "(?=.{1,300}a)(?=.{1,300}b).{500}",
    "(?=" * 500 + ")" * 500, ".*" * 1000,
]  # fmt: skip


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", HOSTILE, ids=lambda pattern: pattern[:20])
def test_hostile_patterns_end_soon(pattern: str) -> None:
    started = time.process_time()
    try:
        compile_regex(pattern)
    except (ComplexityError, RegexError) as error:
        assert len(str(error)) < 500
    assert time.process_time() - started < 6  # about one second on an idle machine


def test_repeats_of_classes_are_fast() -> None:
    compile_regex("[a-z]")
    started = time.process_time()
    compile_regex("[0-9a-zA-Z_-]{1,255}", dialect="ecma")
    assert time.process_time() - started < 0.3  # 10 ms on an idle machine


def test_limits_name_the_option() -> None:
    with pytest.raises(ComplexityError, match="max_states=100"):
        compile_regex("a{200}", max_states=100)
    with pytest.raises(ComplexityError, match="max_states=100"):
        compile_regex("(a|b)*a(a|b){10}", max_states=100)
    with pytest.raises(ComplexityError, match="max_states=100"):
        compile_regex("é{40}[^é]{40}", max_states=100)
