"""Grammars and lists of names as the last part of a sequence: the same language as that of parts built in."""

import random

import pytest

import ctrlgen as cg
from ctrlgen.testing import ToyLM, ToyTokenizer, assert_same_language, check_laws
from ctrlgen.vocabulary import Vocabulary
from tests.threads import interleaved

PIECES = [
    b"</t>",
    b"</",
    b"t>",
    b"t>1",
    b">12",
    b">2",
    b"</t>\n",
    b"\n1",
    b" 22",
    b"ab",
    b"a</t>22",
    b"  ",
    b"1\n",
    b"x<",
]
VOCABULARY = Vocabulary(
    [*(bytes([byte]) for byte in range(256)), None, None, *PIECES], eos=[256], special={"<x>": 257}, width=275
)
TEXTS = ["1", "12", "221"]
GRAMMAR = cg.Grammar('start: "1" | "12" | "221"', lexer="dynamic")
NAMES = cg.PackageNames(TEXTS)
LASTS = [GRAMMAR, cg.Grammar('root ::= "1" "2"? | "221"', syntax="gbnf"), NAMES]
FIRSTS = {
    "a string": lambda last: cg.Free(until="</t>") >> last,
    "a token": lambda last: cg.Free(until=cg.Token("<x>")) >> last,
    "a string or a token": lambda last: cg.Free(until=["</t>", cg.Token("<x>")]) >> last,
    "blanks": lambda last: cg.Free(until="</t>") >> cg.Regex("[ \n]{0,3}") >> last,
    "digits": lambda last: cg.Regex("[12]*") >> last,
    "text": lambda last: "ab" >> last,
    "thinking": lambda last: cg.Thinking(last, end="</t>", start="<x>", keep=0),
}


@pytest.mark.parametrize("last", LASTS, ids=["lark", "gbnf", "names"])
@pytest.mark.parametrize("first", FIRSTS)
def test_the_language_is_that_of_a_choice(first, last):
    made, built = FIRSTS[first](last).compile(VOCABULARY), FIRSTS[first](cg.Choice(TEXTS)).compile(VOCABULARY)
    assert_same_language(made, built, max_states=40)
    check_laws(made, controls=[257], max_states=40)


@pytest.mark.parametrize("last", LASTS, ids=["lark", "gbnf", "names"])
@pytest.mark.parametrize("first", [*FIRSTS, "end", "few tokens", "kept"])
def test_every_budget_ends_in_a_text(first, last):
    more = {
        "end": lambda last: cg.Thinking(last, end=cg.EOS),
        "few tokens": lambda last: cg.Free(until="</t>", max_tokens=3) >> last,
        "kept": lambda last: cg.Thinking(last, end="</t>", keep=0.5),
    }
    spec = (FIRSTS | more)[first](last)
    least = 1
    options = {"vocabulary": VOCABULARY, "do_sample": True, "trace": False}
    try:
        cg.generate(ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY), "a", spec, max_new_tokens=1, **options)
    except cg.BudgetError as error:
        least = error.needed
    for budget in range(least, least + 12):
        model = ToyLM(VOCABULARY, scale=random.Random(budget).choice([0.5, 2.0, 6.0]))
        made = cg.generate(
            model, ToyTokenizer(VOCABULARY), ["a", "abc"], spec, max_new_tokens=budget, seed=budget, **options
        )
        for one in made:
            assert one.finished
            assert one.problem is None
            assert len(one.token_ids) <= budget
            if first not in ("digits", "text"):
                assert one.value.answer in TEXTS


def test_free_text_is_the_models_own():
    spec = cg.Free(until=cg.EOS) >> GRAMMAR
    for seed in range(4):
        options = {"vocabulary": VOCABULARY, "do_sample": True, "max_new_tokens": 30, "seed": seed, "temperature": 0.7}

        def after(ids):
            rng = random.Random(hash(ids))
            return [rng.gauss(0, 1) if t != 257 else -50.0 for t in range(256)] + [3.0, -50.0] + [0.0] * 17

        model = ToyLM(VOCABULARY, after)
        free, made = (cg.generate(model, ToyTokenizer(VOCABULARY), ["a", "bb"], one, **options) for one in (None, spec))
        for one, two in zip(free, made, strict=True):
            assert two.value.answer in TEXTS
            assert not one.finished or len(one.token_ids) > 25 or two.value.free_text == one.text


def test_text_that_does_not_end_cannot_be_followed():
    with pytest.raises(cg.InputError, match="goes on to the end"):
        cg.Free() >> GRAMMAR


def test_threads_that_evict_rows_interleaved(monkeypatch):
    monkeypatch.setattr("ctrlgen.engine.concatenated._MOST_ROWS", 4)
    constraint = (cg.Regex("a") >> cg.Grammar('start: "x" start "y" | "z"')).compile(VOCABULARY)
    state, states = constraint.advance(constraint.start, ord("a")), []
    for _ in range(200):
        state = constraint.advance(state, ord("x"))
        states.append(state)

    def work(number):
        for one in random.Random(number).choices(states, k=4000):
            assert constraint.mask(one)[ord("x") >> 5] >> (ord("x") & 31) & 1

    interleaved(work, 6)


def test_one_that_met_many_states_is_replaced(monkeypatch):
    specification = cg.Regex("a+") >> cg.Grammar('start: "x" start "y" | "z"')
    old = specification.compile(VOCABULARY)
    assert specification.compile(VOCABULARY) is old
    monkeypatch.setattr("ctrlgen.engine.concatenated.WORN_STATES", 0)
    new = specification.compile(VOCABULARY)
    assert new is not old
    assert new.mask(new.start).tobytes() == old.mask(old.start).tobytes()
