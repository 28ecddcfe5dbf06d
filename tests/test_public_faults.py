"""Faults that users reported of other engines, one case each: what must be accepted, and what must not."""

import json
import time
from pathlib import Path

import pytest
import torch

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.testing import ToyLM, ToyTokenizer
from ctrlgen.vocabulary import Vocabulary

FAULTS = Path(__file__).parent / "data" / "public_faults.jsonl"
CASES = [json.loads(line) for line in FAULTS.read_text(encoding="utf-8").splitlines()]
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos=[256])
KEYWORDS = {"whitespace_max_run": ("whitespace", {20: "pretty"}), "max_digits": ("max_digits", {20: 20})}


def cases(*kinds):
    return [pytest.param(case, id=case["id"]) for case in CASES if case["kind"] in kinds]


def specification(kind, given):
    """What a user would write for a case."""
    if kind == "lark" or kind == "ebnf":
        return cg.Grammar(given, syntax="lark" if kind == "lark" else "gbnf")
    if "choices" in given:
        return cg.Choice(given["choices"])
    if "pattern" in given:
        return cg.Regex(given["pattern"])
    options = {KEYWORDS[name][0]: KEYWORDS[name][1][value] for name, value in given.items() if name in KEYWORDS}
    return cg.JsonSchema(given["schema"], **options)


def follow(constraint, tokens):
    """Whether the ids are allowed one after the other, by masks; the state they lead to."""
    state = constraint.start
    for token in tokens:
        row = constraint.mask(state)
        inside = token < constraint.vocabulary.width and bool(row[token // 32] >> token % 32 & 1)
        after = constraint.advance(state, token) if token < constraint.vocabulary.width else DEAD
        assert inside == (after != DEAD)
        if not inside:
            return DEAD
        state = after
    return state


def takes(constraint, text):
    state = follow(constraint, constraint.vocabulary.encode_greedy(text.encode()))
    return state != DEAD and constraint.accepts(state)


@pytest.fixture(params=["bytes", pytest.param("llama3", marks=pytest.mark.model)], scope="module")
def vocabulary(request, tokenizer_folder):
    if request.param == "bytes":
        return BYTES
    from transformers import AutoTokenizer

    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(tokenizer_folder(request.param)))


@pytest.mark.parametrize("case", cases("json_schema", "regex", "lark", "ebnf"))
def test_texts(case, vocabulary):
    begun = time.perf_counter()
    constraint = specification(case["kind"], case["constraint"]).compile(vocabulary)
    for text in case["accept"]:
        assert takes(constraint, text), text
    for text in case["reject"]:
        assert not takes(constraint, text), text
    assert time.perf_counter() - begun < 60, "no case may hang"


def toy(given):
    """The vocabulary of a case; U+2581 is how some tokenizers write a space at the start of a word."""
    names = given["tokens"]
    texts = [None if name.startswith("<") and name.endswith(">") else name for name in names]
    special = {names[i]: i for i in given.get("special", [])}
    pieces = [None if text is None else text.replace("\u2581", " ").encode() for text in texts]
    return Vocabulary(pieces, eos=given["eos"], special=special, width=given.get("logits_size"))


@pytest.mark.parametrize("case", cases("tokenizer"))
def test_ids(case):
    given = case["constraint"]
    constraint = cg.Regex(given["pattern"]).compile(toy(given))
    for ids in case["accept"]:
        state = follow(constraint, [int(i) for i in ids.split()])
        assert state != DEAD, ids
        assert int(ids.split()[-1]) in constraint.vocabulary.eos
    for ids in case["reject"]:
        assert follow(constraint, [int(i) for i in ids.split()]) == DEAD, ids


@pytest.mark.parametrize("case", cases("beam"))
def test_beams(case):
    given = case["constraint"]
    vocabulary = toy(given)
    table = {text: {"" if n == "<eos>" else n: p for n, p in row.items()} for text, row in given["lm"].items()}
    result = cg.generate(
        ToyLM.from_table(vocabulary, table),
        ToyTokenizer(vocabulary),
        vocabulary.tokens[1].decode(),
        cg.Regex(given["pattern"]),
        num_beams=given["num_beams"],
        num_return_sequences=given["num_return_sequences"],
        length_penalty=given["length_penalty"],
        max_new_tokens=6,
        vocabulary=vocabulary,
    )
    found = [result.text, *(one.text for one in result.alternatives)]
    assert json.dumps(found) in case["accept"]


@pytest.mark.parametrize("case", cases("batch"))
@pytest.mark.parametrize("sampled", [False, True])
def test_batches(case, sampled):
    rows = case["constraint"]["rows"]
    results = cg.generate(
        ToyLM(BYTES),
        ToyTokenizer(BYTES),
        [row["prompt"] for row in rows],
        [cg.Regex(row["pattern"]) for row in rows],
        do_sample=sampled,
        seed=3,
        max_new_tokens=16,
        vocabulary=BYTES,
    )
    for result, row in zip(results, rows, strict=True):
        assert result.finished
        assert takes(cg.Regex(row["pattern"]).compile(BYTES), result.text)
    assert json.dumps([result.text for result in results]) not in case["reject"]


def test_a_processor_can_be_used_again():
    case = next(case for case in CASES if case["id"].startswith("api-01"))
    processor = cg.ControlProcessor(cg.Regex(case["constraint"]["pattern"]), vocabulary=BYTES)
    model, found = ToyLM(BYTES), []
    for prompt in range(case["constraint"]["calls"]):
        ids = torch.tensor([[65 + prompt]])
        output = model.generate(
            input_ids=ids, attention_mask=torch.ones_like(ids), logits_processor=[processor], max_new_tokens=8
        )
        found.append(BYTES.decode(output[0, 1:].tolist()).decode())
    assert set(found) <= {"on", "off"}


def test_a_reference_that_leads_nowhere_is_an_error_with_its_place():
    case = next(case for case in CASES if case["id"].startswith("api-02"))
    with pytest.raises(cg.SchemaError, match="/properties/who"):
        cg.JsonSchema(case["constraint"]["schema"])
