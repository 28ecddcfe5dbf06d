"""Ending in time: whatever the logits, within every budget that suffices."""

import json
import random

import numpy as np
import pytest

import ctrlgen as cg
from ctrlgen.closing import Closing, check_budget, closing_of
from ctrlgen.errors import BudgetError
from ctrlgen.processor import ControlProcessor
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary
from ctrlgen.testing.laws import allowed
from ctrlgen.vocabulary import Vocabulary

BYTES = [bytes([b]) for b in range(256)]
LONGER = [
    b'":',
    b'","',
    b'"}',
    b'{"',
    b"[[[[",
    b"]]",
    b'"}]',
    b"aaaa",
    b"ab",
    b"    ",
    b'": "',
    b"},",
    b"12",
    b"\xc3\xa9",
]
JSON = Vocabulary([*BYTES, *LONGER, b'"a', b'name":', b"true", b"null", None], eos=[256 + len(LONGER) + 4])
OPEN = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SPECIFICATIONS = [
    cg.JsonSchema({"type": "string", "minLength": 4, "maxLength": 9}),
    cg.JsonSchema(OPEN),
    cg.JsonSchema({**OPEN, "additionalProperties": False, "properties": {"name": {"type": "number"}, "n": OPEN}}),
    cg.JsonSchema({"type": "object", "minProperties": 3, "additionalProperties": {"type": "boolean"}}),
    cg.JsonSchema({"type": "array", "items": {"anyOf": [OPEN, {"type": "null"}, {"type": "integer"}]}, "minItems": 2}),
    cg.JsonSchema({"$defs": {"t": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "$ref": "#/$defs/t"}),
    cg.JsonSchema({}),
    cg.Regex("[a-c]{2,}d|x(yz)*[^a]{3}"),
    cg.Regex(".*") >> " end" >> cg.Regex("[ab]+").repeat(1, 3),
    cg.Choice(["aaaaaaaa", "abab", "name"]),
    (cg.Regex("[0-9]+") >> ";").repeat(2, 6) | cg.Regex('"[^"]*"'),
    cg.Grammar('start: "[" [start ("," start)*] "]" | /[a-z]+/', syntax="lark"),
]


def walk(constraint, budget, rng, far=Closing):
    """Ids at random within a budget, with a fresh memory of distances."""
    closing, state, ids = far(), constraint.start, []
    for spent in range(budget):
        row = closing.row(constraint, state, budget - spent)
        offered = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        assert offered
        assert set(offered) <= set(allowed(constraint, state))
        wanted = [token for token in offered if token not in constraint.vocabulary.eos] or offered
        ids.append(rng.choice(wanted if rng.random() < 0.9 else offered))
        if ids[-1] in constraint.vocabulary.eos:
            return ids
        state = constraint.advance(state, ids[-1])
        assert constraint.distance(state) <= budget - spent - 1
    raise AssertionError("cut off")


@pytest.mark.parametrize("number", range(len(SPECIFICATIONS)))
def test_every_budget_that_suffices_ends_in_a_text(number):
    specification, rng = SPECIFICATIONS[number], random.Random(number)
    constraint = specification.compile(JSON)
    needed = constraint.distance(constraint.start)
    for budget in (*range(needed, needed + 12), needed + 25, needed + 60):
        for _ in range(3):
            ids = walk(constraint, budget, rng)
            state = constraint.start
            for token in ids[:-1]:
                state = constraint.advance(state, token)
            assert constraint.accepts(state)
            if isinstance(specification, cg.JsonSchema):
                json.loads(JSON.decode(ids))


@pytest.mark.parametrize("number", range(len(SPECIFICATIONS)))
def test_levels_are_distances(number):
    """No level is below the distance after the token, and one brings the end nearer."""
    constraint, rng, seen = SPECIFICATIONS[number].compile(JSON), random.Random(number), 0
    if not hasattr(constraint, "levels"):
        pytest.skip("followed token by token")
    for _ in range(12):
        state = constraint.start
        for _ in range(rng.randint(0, 25)):
            tokens = [token for token in allowed(constraint, state) if token not in JSON.eos]
            if not tokens:
                break
            state = constraint.advance(state, rng.choice(tokens))
        levels = constraint.levels(state)
        taken = {t: constraint.distance(constraint.advance(state, t)) for t in allowed(constraint, state)}
        levels_of_tokens = dict(zip(levels.tokens.tolist(), levels.distances.tolist(), strict=True))
        for group, distances in levels.groups:
            for token in np.flatnonzero(group).tolist():
                level = int(distances[group[token]])
                levels_of_tokens[token] = min(level, levels_of_tokens.get(token, level))
        assert set(levels_of_tokens) == set(taken) - set(JSON.eos)
        assert all(level >= taken[token] for token, level in levels_of_tokens.items())
        seen += sum(level > taken[token] for token, level in levels_of_tokens.items())
        nearer = constraint.accepts(state) or min(levels_of_tokens.values()) < constraint.distance(state)
        assert nearer
        assert levels.most == max(levels_of_tokens.values(), default=0)
        assert levels.least == min(levels_of_tokens.values(), default=0)


def exact(texts, vocabulary):
    """The fewest tokens to one of the texts, the end token included, by trying all."""
    return Enumerated(vocabulary, texts).distance(1)


@pytest.mark.parametrize("texts", [("abcab c", "é"), ("abcabcabc", "ab ab ab"), ("abc", "b"), ("a c", "cc", "cab")])
def test_the_number_needed_is_exact_for_a_single_shortest_text(texts):
    vocabulary = toy_vocabulary()
    shortest = min(texts, key=lambda text: len(text.encode()))
    machine = cg.Choice([shortest]).compile(vocabulary)
    assert machine.distance(machine.start) == exact([shortest], vocabulary)
    with pytest.raises(BudgetError) as caught:
        check_budget([machine], [machine.start], exact([shortest], vocabulary) - 1)
    assert caught.value.needed == exact([shortest], vocabulary)


def test_in_generation_by_every_mode():
    vocabulary = toy_vocabulary()
    model, tokenizer = ToyLM(vocabulary), ToyTokenizer(vocabulary)
    loop = cg.Regex("a(bc?| )*c").compile(vocabulary)
    texts = Enumerated(vocabulary, ["abc", "abcab c", "bb"])
    for options in ({}, {"do_sample": True, "temperature": 3.0}, {"num_beams": 3}, {"num_beams": 3, "do_sample": True}):
        for budget in (3, 4, 7, 12):
            found = cg.generate(
                model,
                tokenizer,
                ["ab", "a b c", "c"],
                [loop, texts, loop],
                max_new_tokens=budget,
                seed=budget,
                vocabulary=vocabulary,
                **options,
            )
            assert all(one.finished for one in found), (options, budget)
            assert all(len(one.token_ids) <= budget for one in found)
    several = cg.generate(
        model,
        tokenizer,
        "ab",
        loop,
        max_new_tokens=5,
        seed=1,
        do_sample=True,
        num_return_sequences=4,
        temperature=5.0,
        vocabulary=vocabulary,
    )
    assert all(one.finished for one in (several, *several.alternatives))
    assistant = ToyLM(vocabulary, scale=1.0)
    options = {"vocabulary": vocabulary, "assistant_model": assistant}
    assert cg.generate(model, tokenizer, "ab", loop, max_new_tokens=9, **options).finished


def test_the_processor_alone():
    vocabulary = toy_vocabulary()
    model, tokenizer = ToyLM(vocabulary), ToyTokenizer(vocabulary)
    constraint = cg.Regex("a(bc?| )*c").compile(vocabulary)
    import torch

    ids = torch.tensor([tokenizer("ab")["input_ids"]])
    processor = ControlProcessor(constraint, max_new_tokens=4)
    for seed in range(20):
        torch.manual_seed(seed)
        row = model.generate(ids, do_sample=True, max_new_tokens=4, logits_processor=[processor])[0, ids.shape[1] :]
        assert row[-1] == 0
    with pytest.raises(BudgetError) as caught:
        model.generate(ids, max_new_tokens=1, logits_processor=[ControlProcessor(constraint, max_new_tokens=1)])
    assert caught.value.needed == 2  # abc, and the end
    with pytest.raises(cg.InputError, match="max_new_tokens is 0"):
        ControlProcessor(constraint, max_new_tokens=0)


def test_what_is_known_lives_as_long_as_the_constraint():
    constraint = Enumerated(toy_vocabulary(), ["abc"])
    assert closing_of(constraint) is closing_of(constraint)
    other = Enumerated(toy_vocabulary(), ["abc"])
    assert closing_of(other) is not closing_of(constraint)
