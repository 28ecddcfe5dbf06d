"""Every grammar of grammars/: its cases by Lark and by the constraint, and samples by the languages' own parsers."""

from __future__ import annotations

import ast
import csv
import io
import json
import random
import re
import sqlite3
import tomllib
from collections.abc import Callable
from datetime import datetime
from functools import cache
from xml.etree import ElementTree

import pytest
from lark import Lark
from lark.exceptions import LarkError
from packaging.requirements import Requirement

from ctrlgen.cli.walk import EOS, allowed, byte_vocabulary, walk
from ctrlgen.constraint import DEAD, Constraint
from ctrlgen.constraints.grammar import Grammar
from ctrlgen.errors import InputError
from ctrlgen.grammars.library import names, ready_grammar
from ctrlgen.resources import folder
from ctrlgen.vocabulary import Vocabulary

NAMES = names()


@cache
def cases(name: str) -> dict[str, list]:
    with (folder("grammars") / f"{name}.cases.toml").open("rb") as file:
        return tomllib.load(file)


@cache
def lark(name: str) -> Lark:
    ready = ready_grammar(name)
    return Lark(ready.text, parser="lalr", lexer=ready.lexer)


@cache
def constraint(name: str) -> Constraint:
    ready = ready_grammar(name)
    return Grammar(ready.text, lexer=ready.lexer, start=ready.start).compile(byte_vocabulary())


def lark_accepts(name: str, text: str) -> bool:
    try:
        lark(name).parse(text)
    except LarkError:
        return False
    return True


def accepts(name: str, text: str) -> bool:
    return walk(constraint(name), text.encode()).accepted


# the cases


def test_names() -> None:
    with_cases = [path.name.removesuffix(".cases.toml") for path in folder("grammars").glob("*.cases.toml")]
    assert sorted(with_cases) == NAMES
    assert len(NAMES) >= 9
    with pytest.raises(InputError, match="did you mean python"):
        ready_grammar("pyton")
    with pytest.raises(InputError, match="there are arithmetic, chess_moves"):
        ready_grammar("../x")


@pytest.mark.parametrize("name", NAMES)
def test_there_are_enough_cases(name: str) -> None:
    found = cases(name)
    assert len(found["accept"]) >= 15
    assert len(found["reject"]) >= 15
    assert len(found["dead"]) >= 8


@pytest.mark.parametrize("name", NAMES)
def test_cases_by_lark(name: str) -> None:
    found = cases(name)
    assert [text for text in found["accept"] if not lark_accepts(name, text)] == []
    assert [text for text in found["reject"] if lark_accepts(name, text)] == []
    ends = sorted({text[cut:] for text in found["accept"] for cut in range(len(text) + 1)}, key=len)[:120]
    for beginning, refused, rest in found["dead"]:
        assert lark_accepts(name, beginning + rest), (beginning, rest)
        assert [end for end in ends if lark_accepts(name, beginning + refused + end)] == [], (beginning, refused)


@pytest.mark.parametrize("name", NAMES)
def test_cases_by_the_constraint(name: str) -> None:
    found = cases(name)
    assert [text for text in found["accept"] if not accepts(name, text)] == []
    assert [text for text in found["reject"] if accepts(name, text)] == []
    for beginning, refused, rest in found["dead"]:
        assert accepts(name, beginning + rest), (beginning, rest)
        stopped = walk(constraint(name), (beginning + refused).encode())
        # at the first byte of what cannot follow, no sooner and no later
        assert (stopped.end, stopped.accepted) == (len(beginning.encode()), False), (beginning, refused)


@pytest.mark.model
@pytest.mark.parametrize("source", ["llama3", "smollm2"])
def test_cases_with_real_vocabularies(source: str, request: pytest.FixtureRequest) -> None:
    from transformers import AutoTokenizer

    find = request.getfixturevalue("smollm2_folder" if source == "smollm2" else "tokenizer_folder")
    tokenizer = AutoTokenizer.from_pretrained(find if source == "smollm2" else find(source))
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    for name in NAMES:
        ready, found = ready_grammar(name), cases(name)
        c = Grammar(ready.text, lexer=ready.lexer).compile(vocabulary)
        assert [text for text in found["accept"] if not ends(c, text)] == [], name
        assert [text for text in found["reject"] if ends(c, text)] == [], name
        for beginning, refused, rest in found["dead"]:
            state = along(c, beginning.encode())
            assert state != DEAD, (name, beginning)
            assert ends(c, beginning + rest), (name, beginning, rest)
            # no token that begins with what cannot follow, however long
            first = refused.encode()[:1]
            row = c.mask(state)
            wrong = [t for t in starting(vocabulary, first) if int(row[t >> 5]) >> (t & 31) & 1]
            assert wrong == [], (name, beginning, refused)


@cache
def starting(vocabulary: Vocabulary, first: bytes) -> tuple[int, ...]:
    """The tokens whose text begins with a byte."""
    return tuple(token for token, text in enumerate(vocabulary.tokens) if text is not None and text[:1] == first)


def along(c: Constraint, text: bytes, state: int | None = None) -> int:
    state = c.start if state is None else state
    for token in c.vocabulary.encode_greedy(text):
        after = c.advance(state, token)
        assert in_mask(c, state, token) == (after != DEAD)
        if after == DEAD:
            return DEAD
        state = after
    return state


def in_mask(c: Constraint, state: int, token: int) -> bool:
    return bool(int(c.mask(state)[token >> 5]) >> (token & 31) & 1)


def ends(c: Constraint, text: str) -> bool:
    state = along(c, text.encode())
    return state != DEAD and c.accepts(state)


# sampled texts

STRANGE = "\"'\\ \n\t()[]{}<>,;:.=+-*/#%&|x0_1e\u00e9\U0001f44d"


def mutants(name: str, generator: random.Random, count: int) -> list[str]:
    """Texts of the cases with something left out, put in, exchanged or joined."""
    found = [text for text in cases(name)["accept"] + cases(name)["reject"] if text]
    made = []
    for _ in range(count):
        text = generator.choice(found)
        for _ in range(generator.randint(1, 3)):
            at = generator.randint(0, len(text))
            other = generator.choice(found)
            cut = generator.randint(0, len(other))
            text = generator.choice(
                [
                    text[:at] + text[at + 1 :],
                    text[:at] + generator.choice(STRANGE) + text[at:],
                    text[:at] + generator.choice(STRANGE) + text[at + 1 :],
                    text[:at] + other[cut:],
                    text[:at] + other[cut : cut + 3] + text[at:],
                ]
            )
        made.append(text)
    return made


def sampled(name: str, generator: random.Random, length: int) -> str:
    """A random text of the constraint: ``length`` bytes at random, ASCII preferred, then a short way to an end."""
    c = constraint(name)
    state, text = c.start, bytearray()
    while True:
        ways = [byte for byte in allowed(c, state) if byte < EOS]
        if c.accepts(state) and (not ways or len(text) >= length):
            return text.decode()
        if len(text) >= length:
            byte = min(generator.sample(ways, min(len(ways), 12)), key=lambda one: c.distance(c.advance(state, one)))
            byte = (
                min((byte, *ways), key=lambda one: c.distance(c.advance(state, one)))
                if len(text) > 2 * length
                else byte
            )
        else:
            ascii_ways = [one for one in ways if 32 <= one < 127]
            byte = generator.choice(ascii_ways if ascii_ways and generator.random() < 0.97 else ways)
        state = c.advance(state, byte)
        text.append(byte)


def sqlite(text: str) -> None:
    """Parse a statement; what is missing in the empty database is no matter."""
    with sqlite3.connect(":memory:") as database:
        try:
            database.execute("EXPLAIN " + text)
        except sqlite3.OperationalError as error:
            if re.search("syntax error|unrecognized token|incomplete input", str(error)):
                raise


def csv_row(text: str) -> None:
    (row,) = csv.reader(io.StringIO(text, newline=""), strict=True)
    again = io.StringIO(newline="")
    csv.writer(again, lineterminator="", quoting=csv.QUOTE_ALL).writerow(row)
    (same,) = csv.reader(io.StringIO(again.getvalue(), newline=""), strict=True)
    assert row == same


def requirements(text: str) -> None:
    for line in text.split("\n"):
        if line.strip(" \t") and not line.strip(" \t").startswith("#"):
            Requirement(line)


SQUARE = "[a-h][1-8]"
SAN = re.compile(
    rf"(O-O(-O)?|[KQRBN][a-h]?[1-8]?x?{SQUARE}|([a-h]x)?[a-h][2-7]|([a-h]x)?[a-h][18]=[QRBN])[+#]?".replace(" ", "")
)


def chess(text: str) -> None:
    parts = re.sub(r"(?<=\.) ", "", text).split(" ")
    if parts[-1] in ("1-0", "0-1", "1/2-1/2", "*"):
        parts.pop()
    moves = [part.rpartition(".")[2] for part in parts]
    assert moves
    assert all(SAN.fullmatch(move) for move in moves)
    assert all(abs(ord(move[0]) - ord(move[2])) == 1 for move in moves if move[1] == "x" and move[0].islower())


PARSERS: dict[str, Callable[[str], object]] = {
    "arithmetic": lambda text: ast.parse(text.strip(" "), mode="eval"),
    "chess_moves": chess,
    "csv_row": csv_row,
    "iso_dates": datetime.fromisoformat,
    "json": json.loads,
    "pip_requirements": requirements,
    "python": ast.parse,
    "sql": sqlite,
    "xml": ElementTree.fromstring,
}


@pytest.mark.parametrize("name", NAMES)
def test_the_languages_own_parsers_take_the_cases(name: str) -> None:
    for text in cases(name)["accept"]:
        PARSERS[name](text)


@pytest.mark.parametrize("name", NAMES)
def test_mutants(name: str) -> None:
    """The constraint and Lark agree on every text, and what they accept, the language's own parser takes."""
    taken = 0
    for text in mutants(name, random.Random(f"mutants of {name}"), 1200):
        expected = lark_accepts(name, text)
        assert accepts(name, text) == expected, text
        if expected:
            taken += 1
            PARSERS[name](text)
    assert taken > 15


@pytest.mark.parametrize("name", NAMES)
def test_samples(name: str) -> None:
    generator = random.Random(f"samples of {name}")
    for number in range(40):
        text = sampled(name, generator, generator.randint(1, 30 if number else 60))
        assert lark_accepts(name, text), text
        PARSERS[name](text)


def test_dates_are_exact() -> None:
    """All of four years, and 29 February of every year."""
    for year in (1899, 1900, 2000, 2024):
        for month in range(14):
            for day in range(33):
                text = f"{year}-{month:02}-{day:02}"
                assert accepts("iso_dates", text) == is_date(text), text
    for year in range(0, 10000, 4):
        text = f"{year:04}-02-29"
        assert lark_accepts("iso_dates", text) == is_date(text), text


def is_date(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
