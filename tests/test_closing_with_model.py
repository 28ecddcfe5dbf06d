"""The default model ends in time, in every mode, under a mixture of constraints."""

import json

import pytest

import ctrlgen as cg

pytestmark = pytest.mark.model

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 3},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1},
        "city": {"enum": ["Paris", "London"]},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
SUM = 'start: term ("+" term)*\nterm: /[0-9]+/ | "(" start ")"'
SPECIFICATIONS = [
    cg.JsonSchema(PERSON),
    cg.Regex(r"[A-Z][a-z ]+(, [A-Z][a-z ]+){2,}\."),
    cg.Choice(["yes", "no, not at all"]),
    cg.Grammar(SUM, syntax="lark"),
    None,
    cg.Regex("[a-z ]{20,}") >> "; " >> cg.JsonSchema({"type": "array", "items": {"type": "string"}, "minItems": 2}),
]
PROMPTS = ["Describe Anna as JSON: ", "List names: ", "Is it good?", "A sum: ", "Hello", "Say: "]
WILD = {"do_sample": True, "temperature": 1.5}


MODES = [{}, WILD, {"num_beams": 3}, {**WILD, "num_beams": 3}, {**WILD, "num_return_sequences": 2}]


@pytest.mark.parametrize("options", MODES)
def test_all_texts_are_finished_and_valid(smollm2, options):
    model, tokenizer = smollm2
    vocabulary = cg.Vocabulary.from_tokenizer(tokenizer, model=model)
    needed = max(one.cost(vocabulary).needed for one in SPECIFICATIONS if one is not None)
    for budget in (needed, needed + 7):
        results = cg.generate(model, tokenizer, PROMPTS, SPECIFICATIONS, max_new_tokens=budget, seed=budget, **options)
        for specification, result in zip(SPECIFICATIONS, results, strict=True):
            for one in (result, *result.alternatives):
                assert len(one.token_ids) <= budget
                if specification is not None:
                    assert one.finished
                    assert one.problem is None
        assert "name" in json.loads(results[0].text)
    with pytest.raises(cg.BudgetError) as caught:
        cg.generate(model, tokenizer, PROMPTS, SPECIFICATIONS, max_new_tokens=needed - 1, **options)
    assert caught.value.needed == needed
