"""Grammar as a specification: GBNF by enumeration, laws, errors, hostile grammars, real vocabularies."""

from __future__ import annotations

import pickle
import random
import time
from functools import cache

import pytest

import ctrlgen as cg
from ctrlgen.cli.walk import byte_vocabulary, walk
from ctrlgen.constraint import DEAD, Constraint
from ctrlgen.errors import (
    ComplexityError,
    CtrlgenError,
    GrammarError,
    InputError,
    SpecificationError,
    UnsatisfiableError,
)
from ctrlgen.testing import check_laws
from ctrlgen.vocabulary import Vocabulary

BYTES = byte_vocabulary()
PIECES = [
    b"ab",
    b"aa",
    b"[[",
    b"]]",
    b"1,",
    b", ",
    b"12",
    b"if ",
    b"if(",
    b"\xc3\xa9",
    b"a\xc3",
    b" a",
    b"\n\n",
    b'"a"',
]
MIXED = Vocabulary([*(bytes([b]) for b in range(256)), None, *PIECES], eos=256)

LISTS = """
start: "[" [item ("," item)*] "]"
item: NUMBER | start
NUMBER: /[0-9]+/
%ignore " "
"""
CODE = r"""
start: statement*
statement: NAME "=" value ";" | "if" "(" value ")" statement | "{" statement* "}"
value: value ("+" | "*") value | NAME | NUMBER | STRING | "(" value ")"
NAME: /[a-z]+/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /"[^"\n]*"/
%ignore /\s+/
%ignore /\/\*(.|\n)*?\*\//
"""


def takes(text: str, one: str, **options: str) -> bool:
    return walk(cg.Grammar(text, **options).compile(BYTES), one.encode()).accepted  # type: ignore[arg-type]


# the specification


def test_equal_grammars_share_a_constraint() -> None:
    spec = cg.Grammar(LISTS)
    assert spec == cg.Grammar(LISTS)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.compile(MIXED) is cg.Grammar(LISTS).compile(MIXED)
    assert spec.parse("[1]") == "[1]"
    assert spec == cg.Grammar(LISTS, start="start")
    assert cg.Grammar('root ::= "a"', syntax="gbnf").start == "root"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"syntax": "bnf"}, "syntax must be"),
        ({"lexer": "fast"}, "lexer must be"),
        ({"text": b"start: x"}, "must be strings"),
        ({"start": 3}, "must be strings"),
    ],
)
def test_wrong_arguments(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cg.Grammar(**{"text": LISTS} | options)  # type: ignore[arg-type]


def test_errors_show_the_place() -> None:
    with pytest.raises(GrammarError, match=r"line 3, column 7.*NUMBR is not defined; did you mean NUMBER") as found:
        cg.Grammar(LISTS.replace("item: NUMBER", "item: NUMBR"))
    assert str(found.value).splitlines()[-1] == "        ^"


# laws


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("text", [LISTS, CODE], ids=["lists", "code"])
def test_laws(text: str, lexer: str) -> None:
    if (text, lexer) == (CODE, "contextual"):
        lexer = "basic"
    c = cg.Grammar(text, lexer=lexer).compile(MIXED)  # type: ignore[arg-type]
    check_laws(c, texts=["[1, [12, []]]", "if(a){a=1;}", 'a = "a" + 12 /* if */ ;'], max_states=150)


def test_laws_of_gbnf() -> None:
    text = 'root ::= "[" (item (", "? item)*)? "]"\nitem ::= [0-9]+ | root | "\\"" [^"\\n]{0,3} "\\""'
    c = cg.Grammar(text, syntax="gbnf").compile(MIXED)
    check_laws(c, texts=["[[12, 1]]", '["a"]', '["\u00e9a"]'], max_states=150)


def test_the_empty_text() -> None:
    for lexer in ("contextual", "basic", "dynamic"):
        c = cg.Grammar('start: "a"*\n%ignore " "\n', lexer=lexer).compile(BYTES)
        assert [walk(c, one).accepted for one in (b"", b"  ", b" a a ", b"b")] == [True, True, True, False]
        assert c.distance(c.start) == 1


# GBNF by enumeration

RULES = [
    ('root ::= "a" root "b" | ""', lambda t: t == "a" * (len(t) // 2) + "b" * (len(t) // 2)),
    ('root ::= root "ab" | root "a" | ""', lambda t: t.startswith("a") * ("bb" not in t) or t == ""),
    ('root ::= ("a" | "ab") ("b" | "")', lambda t: t in ("a", "ab", "abb")),
    ("root ::= x x\nx ::= [ab]{1,2}", lambda t: 2 <= len(t) <= 4),
    ('root ::= "a"{2} "b"{1,} | [^a]', lambda t: (t[:2] == "aa" and t[2:] == "b" * (len(t) - 2) != "") or t == "b"),
    ("root ::= (root root | [ab])", lambda t: t != ""),
    ('root ::= x? y? x?\nx ::= "a" | y\ny ::= "b" | ""', lambda t: len(t) < 3 or (len(t) == 3 and t[1] == "b")),
]


@pytest.mark.parametrize(("text", "right"), RULES, ids=[text[:30] for text, _ in RULES])
def test_gbnf_by_enumeration(text: str, right: object) -> None:
    c = cg.Grammar(text, syntax="gbnf").compile(MIXED)
    every = [""]
    for one in every:
        if len(one) < 8:
            every += [one + "a", one + "b"]
    good = {one for one in every if right(one)}  # type: ignore[operator]
    alive = {one[:cut] for one in good for cut in range(len(one) + 1)}
    for one in every:
        found = walk(c, one.encode())
        assert found.accepted == (one in good), one
        if len(one) < 5:
            assert (found.end == len(one)) == (one in alive), one


# depth, ambiguity, hostile grammars


def test_deep_nesting() -> None:
    c = cg.Grammar(LISTS).compile(MIXED)
    state = c.start
    for _ in range(20_000):
        state = c.advance(state, ord("["))
    for _ in range(20_000):
        assert not c.accepts(state)
        state = c.advance(state, ord("]"))
    assert c.accepts(state)
    assert c.advance(state, ord("]")) == DEAD


@pytest.mark.parametrize(
    "rule", ['start: start "+" start | "1"', 'start: start start | "1" | "+"', 'start: ("1" | "+" | "1+")*']
)
def test_ambiguity_stays_cheap(rule: str) -> None:
    c = cg.Grammar(rule, lexer="dynamic").compile(BYTES)
    state = c.start
    for number in range(300):
        state = c.advance(state, b"1+"[number % 2])
        assert state != DEAD
    assert int(c.mask(state)[ord("1") >> 5]) >> (ord("1") & 31) & 1


HOSTILE = {
    "circles": 'start: a\na: b | c\nb: a | c\nc: a | b | "x"\n',
    "hidden left recursion": 'start: n start "x" | "y"\nn: m*\nm: n?\n',
    "nothing": 'start: "a" start\n',
    "an exponential regexp": "start: X\nX: /(a|b)*a(a|b){18}/\n",
    "many optional parts": "start: " + " ".join(f'"{letter}"?' for letter in "abcdefghijklmnopqrstuvwxyz") + "\n",
    "a large repeat": 'start: ("a" "b"?)~0..300\n',
    "a large count": "start: X\nX: /[a-z]{1,20000}/\n",
    "nested repeats": "start: X\nX: /(((a{1,30}){1,30}){1,30}){1,30}/\n",
    "an empty terminal": "start: X\nX: /a*/\n",
    "two ways to reduce": 'start: a "x" | b "x"\na: "y"\nb: "y"\n',
    "many names": "start: "
    + " | ".join(f"X{n}" for n in range(2000))
    + "\n"
    + "".join(f'X{n}: "x{n}"\n' for n in range(2000)),
    "a long chain": "start: r0\n" + "".join(f"r{n}: r{n + 1}\n" for n in range(3000)) + 'r3000: "x"\n',
    "ambiguous terminals": "start: (A | B | C | D)*\nA: /a+/\nB: /(aa)+/\nC: /(aaa)+/\nD: /(aaaaa)+/\n",
}


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_grammars_end_in_time(name: str, lexer: str) -> None:
    begun = time.process_time()
    try:
        c = cg.Grammar(HOSTILE[name], lexer=lexer).compile(BYTES)  # type: ignore[arg-type]
        state = c.start
        rng = random.Random(0)
        for _ in range(30):
            row = c.mask(state)
            taken = [token for token in range(256) if int(row[token >> 5]) >> (token & 31) & 1]
            if not taken:
                break
            state = c.advance(state, rng.choice(taken))
            assert state != DEAD
    except (ComplexityError, GrammarError, SpecificationError, UnsatisfiableError):
        pass
    assert time.process_time() - begun < 60


def test_random_bytes_are_no_grammar() -> None:
    rng = random.Random(0)
    for text in (LISTS, CODE):
        for _ in range(60):
            at, cut = rng.randrange(len(text)), rng.randrange(4)
            piece = "".join(rng.choice('ab:|"/()[]{}~?*+.%\n \\\u00e9') for _ in range(rng.randrange(4)))
            broken = text[:at] + piece + text[at + cut :]
            for options in ({}, {"syntax": "gbnf", "start": "start"}):
                try:
                    cg.Grammar(broken, **options).compile(BYTES)  # type: ignore[arg-type]
                except CtrlgenError:
                    continue


# real vocabularies


@cache
def real(folder: str) -> Vocabulary:
    from transformers import AutoTokenizer

    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(folder))


def spelled(c: Constraint, text: str) -> bool:
    state = c.start
    for token in c.vocabulary.encode_greedy(text.encode()):
        row = c.mask(state)
        after = c.advance(state, token)
        assert bool(int(row[token >> 5]) >> (token & 31) & 1) == (after != DEAD)
        if after == DEAD:
            return False
        state = after
    return c.accepts(state)


@pytest.mark.model
@pytest.mark.parametrize("source", ["llama3", "gemma3", "smollm2"])
@pytest.mark.parametrize("lexer", ["basic", "dynamic"])
def test_real_vocabularies(source: str, lexer: str, request: pytest.FixtureRequest) -> None:
    find = request.getfixturevalue("smollm2_folder" if source == "smollm2" else "tokenizer_folder")
    c = cg.Grammar(CODE, lexer=lexer).compile(real(str(find if source == "smollm2" else find(source))))  # type: ignore[arg-type]
    program = 'price = 12.5 + (a * "text") ;\nif (a) { b = 1; /* c = */ c = a*b; }\n'
    assert spelled(c, program)
    for cut in range(1, len(program), 7):
        broken = program[:cut] + "$" + program[cut:]
        assert spelled(c, broken) == takes(CODE, broken, lexer=lexer)
