"""Grammars and lists of names anywhere in a specification: the same language as that of parts built in."""

import random
import re

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.testing import ToyLM, ToyTokenizer, assert_same_language, check_laws
from ctrlgen.vocabulary import Vocabulary
from tests.constraints.test_last import LASTS, TEXTS, VOCABULARY

NAMES = ["lark", "gbnf", "names"]
SPECS = {
    "under a trigger, with an end": lambda one: cg.Dispatch({"</t>": one >> "\n", cg.Token("<x>"): "ab"}),
    "under a trigger": lambda one: cg.Dispatch({"</t>": one}, stop=cg.EOS),
    "counted": lambda one: cg.Dispatch({"</t>": one, "q": cg.Regex("[ab]{1,3}")}, stop="!", least=1, most=2),
    "twice": lambda one: one >> "x<" >> one,
    "one of several": lambda one: one | "ab",
    "repeated": lambda one: ("ab" >> one).repeat(1, 3),
    "before free text": lambda one: one >> cg.Free(),
    "between blanks": lambda one: cg.Free(until="</t>") >> cg.Regex(" {0,2}") >> one >> "\n" >> cg.Regex("[12]*"),
    "in a template": lambda one: cg.Template("a", one, "b"),
}


@pytest.mark.parametrize("one", LASTS, ids=NAMES)
@pytest.mark.parametrize("where", SPECS)
def test_the_language_is_that_of_a_choice(where, one):
    made, built = SPECS[where](one).compile(VOCABULARY), SPECS[where](cg.Choice(TEXTS)).compile(VOCABULARY)
    assert_same_language(made, built, max_states=60)
    check_laws(made, controls=[257], max_states=30)


@pytest.mark.parametrize("one", LASTS, ids=NAMES)
@pytest.mark.parametrize("where", [*SPECS, "few tokens", "kept"])
def test_every_budget_ends_in_a_text(where, one):
    more = {
        "few tokens": lambda one: cg.Dispatch({"</t>": one, "q": one >> "\n"}, stop="!", least=1, max_tokens=3),
        "kept": lambda one: cg.Thinking(one >> "\n", end="</t>", keep=0.5),
    }
    spec = (SPECS | more)[where](one)
    least = 1
    options = {"vocabulary": VOCABULARY, "do_sample": True, "trace": False}
    try:
        cg.generate(ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY), "a", spec, max_new_tokens=1, **options)
    except cg.BudgetError as error:
        least = error.needed
    for budget in range(least, least + 12):
        model = ToyLM(VOCABULARY, scale=random.Random(budget).choice([0.5, 2.0, 6.0]))
        options |= {"max_new_tokens": budget, "seed": budget}
        for made in cg.generate(model, ToyTokenizer(VOCABULARY), ["a", "abc"], spec, **options):
            assert made.complete
            assert made.finished or spec.may_be_cut
            assert made.problem is None
            assert len(made.token_ids) <= budget


def test_what_is_called_for_is_read_back():
    calls = {"<sql>": cg.Grammar('start: "a" start "b" | "1"') >> "</sql>", "pip install ": LASTS[2] >> "\n"}
    parts = cg.Dispatch(calls).parse("x <sql>aa1bb</sql> and pip install 221\nor <sql>1</sql>")
    assert parts.values == ("aa1bb", "221", "1")
    assert parts.free_text == "x  and or "


def test_many_levels_and_a_grammar_without_a_bound():
    """Random texts: each call is one of the grammar, by a parser of ten lines, and each name is listed."""
    vocabulary = Vocabulary(
        [*(bytes([b]) for b in range(256)), None, b"[]", b"[[", b"]]</", b"b>[", b"<b", b"x</b>y"], 256
    )
    spec = cg.Dispatch({"<b>": cg.Grammar('start: "[" start* "]" | "x"', lexer="dynamic") >> "</b>"})

    def biased(ids):
        rng = np.random.default_rng([len(ids), *ids])
        scores = rng.normal(0, 1, vocabulary.width)
        scores[[ord(c) for c in "<b>[]x/"]] += 3
        scores[[257, 258, 259, 260, 261, 262]] += 4
        scores[261] += 3
        return scores.tolist()

    found = 0
    for seed in range(30):
        options = {"vocabulary": vocabulary, "do_sample": True, "seed": seed, "max_new_tokens": 50, "trace": False}
        text = cg.generate(ToyLM(vocabulary, biased), ToyTokenizer(vocabulary), f"a{seed}", spec, **options).text
        for call in re.split("<b>", text)[1:]:
            body, end, _ = call.partition("</b>")
            assert end
            while (shorter := re.sub(r"\[x*\]", "x", body)) != body:
                body = shorter
            assert body == "x"
            found += 1
    assert found > 10


def test_what_is_refused():
    poor = Vocabulary([b"</t>", b"1", b"2", b"\n", None], eos=4)
    with pytest.raises(cg.ComplexityError, match="single bytes"):
        cg.Dispatch({"</t>": LASTS[0] >> "\n"}).compile(poor)
    with pytest.raises(cg.InputError, match="can be empty"):
        cg.Grammar('start: "a"*').repeat(0, 3).compile(VOCABULARY)
    with pytest.raises(cg.InputError):
        LASTS[0] & cg.Regex("1")
