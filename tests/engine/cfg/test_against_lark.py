"""Random grammars against Lark, text by text: what is accepted, what may become a text, and every bit of masks."""

from __future__ import annotations

import itertools
import random
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lark.exceptions import LarkError

from ctrlgen.constraint import DEAD
from ctrlgen.constraints.grammar import Grammar, language_of
from ctrlgen.engine.cfg.machine import GrammarMachine, compile_language
from ctrlgen.errors import ComplexityError, CtrlgenError, UnsatisfiableError
from ctrlgen.testing import allowed
from ctrlgen.vocabulary import Vocabulary
from tests.oracles.lark_texts import LETTERS, judge, random_grammar, texts

EOS = 256
LONGER = [bytes(letters) for n in (2, 3) for letters in itertools.product(LETTERS.encode(), repeat=n)]
VOCABULARY = Vocabulary([*(bytes([b]) for b in range(256)), None, *LONGER, b"abab", b"aaaaaa", b"b b b"], eos=EOS)
SPARSE = Vocabulary([*(bytes([b]) for b in b"ab "), None, *LONGER, b"b\xc3"], eos=3)
"""No other letters, so that a text cannot be ended with them."""
LONGEST = 4


def check(text: str, lexer: str, vocabulary: Vocabulary = VOCABULARY) -> None:
    try:
        accepts = judge(text, lexer)
    except LarkError:
        return  # what Lark refuses may be refused or not
    try:
        machine = compile_language(vocabulary, language_of(Grammar(text, lexer=lexer).rules()))  # type: ignore[arg-type]
    except UnsatisfiableError:
        assert not any(map(accepts, texts(LONGEST)))
        return
    except ComplexityError:
        return
    if not isinstance(machine, GrammarMachine):
        return
    (eos,) = vocabulary.eos
    good = {one for one in texts(LONGEST) if accepts(one)}
    alive = {one[:cut] for one in good for cut in range(len(one) + 1)}
    waiting = [("", machine.start)]
    while waiting:
        begun, state = waiting.pop()
        assert machine.accepts(state) == (begun in good), begun
        taken = set(allowed(machine, state))
        after = {token: machine.advance(state, token) for token in range(vocabulary.width)}
        assert taken == {token for token in after if after[token] != DEAD}, begun
        assert (eos in taken) == (begun in good)
        check_tokens(machine, state, begun)
        for letter in LETTERS if len(begun) < LONGEST else "":
            longer, then = begun + letter, after[vocabulary.tokens.index(letter.encode())]
            assert then != DEAD or longer not in alive, f"{longer!r} is refused"
            if then != DEAD:
                if longer not in alive:
                    rest = machine.witness(then).decode()
                    assert accepts(longer + rest), f"{longer!r} is allowed, but {rest!r} does not end it"
                waiting.append((longer, then))


def check_tokens(machine: GrammarMachine, state: int, begun: str) -> None:
    """A token does what its bytes do."""
    tokens = machine.vocabulary.tokens
    for token, piece in enumerate(tokens):
        if piece is None or not set(piece) <= set(LETTERS.encode()):
            continue
        whole, one = machine.advance(state, token), state
        for byte in piece:
            one = machine.advance(one, tokens.index(bytes([byte]))) if one != DEAD else DEAD
        assert (whole == DEAD) == (one == DEAD), (begun, piece)
        assert whole in (DEAD, one) or (machine.mask(whole) == machine.mask(one)).all()


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("block", range(4))
def test_random_grammars(lexer: str, block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        text = random_grammar(random.Random(seed))
        try:
            check(text, lexer)
        except ComplexityError:
            continue
        except (AssertionError, CtrlgenError) as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
def test_few_letters(lexer: str) -> None:
    for seed in range(100, 130):
        with suppress(ComplexityError):
            check(random_grammar(random.Random(seed)), lexer, SPARSE)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 1 << 40), st.sampled_from(["contextual", "basic", "dynamic"]))
def test_more_random_grammars(seed: int, lexer: str) -> None:
    with suppress(ComplexityError):
        check(random_grammar(random.Random(seed)), lexer)


NAMED = {
    "keywords and names": 'start: "a" N+ "b"\nN: /[ab]+/\n%ignore " "\n',
    "a comment that may not be one": 'start: X ("b" X)*\nX: "a"\nC: /b a+ /\n%ignore C\n%ignore " "\n',
    "left recursion": "start: start T | T\nT: /a|ab/\n",
    "hidden left recursion": 'start: x start "a" | "b"\nx: "a"?\n',
    "right recursion": 'start: "a" start | "b"?\n',
    "a circle of names": 'start: x | "a"\nx: y | "b" start\ny: x | " "\n',
    "ambiguity": 'start: start start | "a" | "ab" | "b"?\n',
    "brackets": 'start: "a" start* "b"\n',
    "a rule that never ends": 'start: "a" | x\nx: "b" x\n',
    "a terminal that others hide": 'start: A | A B\nA: /a+/\nB: "a"\n',
    "an ignored terminal in a rule": 'start: "a" S "b" | "b"\nS: " "\n%ignore S\n',
}


@pytest.mark.parametrize("lexer", ["contextual", "basic", "dynamic"])
@pytest.mark.parametrize("name", NAMED)
def test_named_grammars(name: str, lexer: str) -> None:
    check(NAMED[name], lexer)
