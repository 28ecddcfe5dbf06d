"""Templates against all texts, and gaps of tokens against all sequences of tokens."""

import itertools
import re

import pytest
import torch

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.errors import InputError
from ctrlgen.testing import ToyLM, check_laws, toy_vocabulary

VOCABULARY = toy_vocabulary([None, b"a", b"b", b"ab", b" ", b"c a", b"\xc3", b"\xa9"])
EOS = 0
T = cg.Template

TEXTS = [
    (T("a", ["b", "ab"], "a"), "a(b|ab)a"),
    (T(T.words(1, 2), "b"), r"\S+( \S+){0,1}b"),
    (T(T.words(2), "b"), r"\S+( \S+){1,}b"),
    (T(T.words(0, 1), " ", T("a", ...)), r"(\S+)? a[^\n\r]*"),
    (T(..., cg.Regex("[ab]") >> "b"), r"[^\n\r]*[ab]b"),
]


@pytest.mark.parametrize(("template", "pattern"), TEXTS, ids=[pattern for _, pattern in TEXTS])
def test_texts(template, pattern):
    constraint = template.compile(VOCABULARY)
    check_laws(constraint, texts=["aba", "ab a"])
    for n in range(5):
        for text in itertools.product("abc ", repeat=n):
            text = "".join(text)
            state = constraint.start
            for letter in text:
                token = next((t for t in (1, 2, 4) if VOCABULARY.tokens[t] == letter.encode()), None)
                state = constraint.advance(state, token) if state != DEAD and token else DEAD
            if "c" not in text:
                assert (state != DEAD and constraint.accepts(state)) == bool(re.fullmatch(pattern, text)), text


def parsed(parts, tokens):
    """Whether ids can be dealt out to parts: strings, and (least, most)."""
    if not parts:
        return not tokens
    first, rest = parts[0], parts[1:]
    for n in range(len(tokens) + 1):
        some = [VOCABULARY.tokens[t] for t in tokens[:n]]
        if isinstance(first, str):
            fits = b"".join(some) == first.encode()
        else:
            fits = first[0] <= n <= (99 if first[1] is None else first[1]) and all(t < 6 for t in tokens[:n])
        if fits and parsed(rest, tokens[n:]):
            return True
    return False


GAPS = [
    ("ab", (1, 2), "b"),
    ((0, 2), "ab"),
    ((1, None), "a", (0, 1), "b"),
    ((2, 2),),
    ("a", (0, None)),
    ((0, 1), (1, 2), "aé"),
]


def made(parts):
    return T(*(part if isinstance(part, str) else T.tokens(*part) for part in parts))


@pytest.mark.parametrize("parts", GAPS, ids=str)
def test_gaps_of_tokens(parts):
    constraint = made(parts).compile(VOCABULARY)
    check_laws(constraint, counts_tokens=True)
    fewest = {}
    for n in range(5):
        for tokens in itertools.product(range(1, 8), repeat=n):
            state = constraint.start
            for token in tokens:
                state = constraint.advance(state, token) if state != DEAD else DEAD
            meets = state != DEAD and constraint.accepts(state)
            assert meets == parsed(parts, tokens), tokens
            if meets:
                assert (constraint.advance(state, EOS) != DEAD) and constraint.distance(state) == 1
                fewest.setdefault(n, tokens)
            if state != DEAD:
                every = torch.arange(-1, VOCABULARY.width + 1).numpy()
                after = [constraint.advance(state, token) for token in every.tolist()]
                assert constraint.advance_each(state, every).tolist() == after
    assert constraint.distance(constraint.start) >= 1 + min(fewest)


@pytest.mark.parametrize("parts", GAPS, ids=str)
def test_ends_within_the_budget(parts):
    torch.manual_seed(0)
    template = made(parts)
    budget = max(5, template.compile(VOCABULARY).distance(template.compile(VOCABULARY).start))
    processor = cg.ControlProcessor(template, vocabulary=VOCABULARY, max_new_tokens=budget)
    ids = torch.tensor([[1, 2]]).expand(6, -1)
    out = ToyLM(VOCABULARY).generate(ids, do_sample=True, logits_processor=[processor], max_new_tokens=budget)
    for row in out[:, 2:].tolist():
        assert EOS in row and parsed(parts, tuple(row[: row.index(EOS)]))


def test_refuses():
    with pytest.raises(InputError, match="needs parts"):
        T()
    with pytest.raises(InputError, match="cannot be part"):
        T("a", 3)
    for numbers in ((2, 1), (-1, 2), (0, 0), (1, 10**6), (True, 2)):
        with pytest.raises(InputError, match="the least first"):
            T.tokens(*numbers)
    with pytest.raises(InputError, match="use it alone"):
        ("a" >> T(T.tokens(1, 2))).compile(VOCABULARY)
    assert repr(T("a", T.tokens(1))) and hash(T("a", ["b"])) == hash(T("a", ["b"]))
