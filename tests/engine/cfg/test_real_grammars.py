"""Grammars of languages over a real vocabulary: what is allowed ends in texts that Lark takes, and right texts pass."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from lark import Lark
from lark.exceptions import LarkError

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.engine.cfg.machine import GrammarMachine
from ctrlgen.grammars.library import ready_grammar
from ctrlgen.resources import folder
from ctrlgen.testing import allowed

pytestmark = pytest.mark.model
LANGUAGES = Path(__file__).parents[3] / "benchmarks" / "languages"
SAMPLE = 12


@cache
def llama(path: Path) -> tuple[cg.Vocabulary, dict[bytes, list[int]]]:
    from transformers import AutoTokenizer

    vocabulary = cg.Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(path))
    ids: dict[bytes, list[int]] = {}
    for token, piece in enumerate(vocabulary.tokens):
        if piece:
            ids.setdefault(piece, []).append(token)
    return vocabulary, ids


def texts_of(name: str) -> tuple[str, list[str], str]:
    """A grammar, right texts, and the lexer."""
    if name.startswith("our "):
        ready = ready_grammar(name[4:])
        cases = tomllib.loads((folder("grammars") / f"{name[4:]}.cases.toml").read_text())
        return ready.text, sorted(cases["accept"], key=len)[-3:], ready.lexer
    language, lexer = name.split()
    programs = tomllib.loads((LANGUAGES / "programs.toml").read_text())[language]
    return (LANGUAGES / f"{language}.lark").read_text(), programs[:2], lexer


def takes(parser: Lark, text: str) -> bool:
    try:
        parser.parse(text)
    except LarkError:
        return False
    return True


@pytest.mark.parametrize(
    "name",
    [
        "calc contextual",
        "calc dynamic",
        "c basic",
        "sql contextual",
        "our json",
        "our python",
        "our xml",
        "our csv_row",
    ],
)
def test_masks_against_lark(name: str, tokenizer_folder: Callable[[str], Path]) -> None:
    vocabulary, ids = llama(tokenizer_folder("llama3"))
    text, right, lexer = texts_of(name)
    parser = Lark(text, parser="earley" if lexer == "dynamic" else "lalr", lexer=lexer)
    c = cg.Grammar(text, lexer=lexer).compile(vocabulary)  # type: ignore[arg-type]
    assert isinstance(c, GrammarMachine)
    rng = random.Random(0)
    for one in right:
        data, state = one.encode(), c.start
        for at in range(0, len(data), 1):
            row = np.unpackbits(c.mask(state).view(np.uint8), bitorder="little")
            spelled = [token for end in range(at + 1, len(data) + 1) for token in ids.get(data[at:end], ())]
            assert row[spelled].all(), (data[:at], "a token of a right text is refused")
            taken = [token for token in allowed(c, state) if token not in vocabulary.eos]
            for token in rng.sample(taken, min(SAMPLE, len(taken))) if at % 3 == 0 else ():
                rest = c.witness(c.advance(state, token))
                whole = data[:at] + (vocabulary.tokens[token] or b"") + rest
                assert takes(parser, whole.decode()), (data[:at], vocabulary.tokens[token], rest)
            state = c.advance(state, ids[data[at : at + 1]][0])
            assert state != DEAD
        assert c.accepts(state)
