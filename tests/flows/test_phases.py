"""Free text, then constrained text, as it is generated: nothing is changed that need not be."""

from __future__ import annotations

import collections
import math
from typing import Any

import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.errors import BudgetError, InputError
from ctrlgen.testing import ToyLM, ToyTokenizer
from ctrlgen.vocabulary import Vocabulary

TOKENS = [
    b"a",
    b"b",
    b"c",
    b".",
    b"ab",
    b"bc.",
    b"<",
    b"</",
    b"t>",
    b"</t>",
    b"t>1",
    b"1",
    b"2",
    b"12",
    None,
    None,
    None,
    b"/",
    b"t",
    b">",
]
VOCABULARY = Vocabulary(TOKENS, eos=14, special={"<x>": 15, "<y>": 16})
EOS, X, Y = 14, 15, 16
TOKENIZER = ToyTokenizer(VOCABULARY)
PROMPTS = ["a", "abab", "cb", "bcabc", "ccc"]
ANSWER = cg.Choice(["1", "12", "221"])


def model(**more: Any) -> ToyLM:
    return ToyLM(VOCABULARY, **more)


def run(constraint: Any, lm: ToyLM | None = None, prompts: Any = PROMPTS, **options: Any) -> Any:
    options = {"max_new_tokens": 40, "vocabulary": VOCABULARY, **options}
    return cg.generate(lm or model(), TOKENIZER, prompts, constraint, **options)


def without_controls(**more: Any) -> ToyLM:
    """A model that never says what free text may not hold."""
    lm = model(**more)
    inner = lm.distribution

    def distribution(ids: tuple[int, ...]) -> list[float]:
        row = list(inner(ids))
        row[X] = row[Y] = -math.inf
        return row

    lm.distribution = distribution
    return lm


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}, {"temperature": 1.5, "top_k": 6}, {"top_p": 0.8}])
def test_free_text_is_that_of_the_model(options: dict[str, Any]) -> None:
    lm = without_controls()
    for seed in range(6):
        plain = run(None, lm, seed=seed, do_sample=True, **options)
        found = run(cg.Free(until=cg.EOS) >> ANSWER, lm, seed=seed, do_sample=True, **options)
        for one, two in zip(plain, found, strict=True):
            assert two.finished
            assert two.value.parts[-1].trigger is cg.EOS
            assert two.value.answer in ANSWER.options
            if one.finished and len(one.token_ids) < 35:
                assert two.value.free_text == one.text
                assert two.token_ids[: len(one.token_ids) - 1] == one.token_ids[:-1]
                assert EOS not in two.token_ids[:-1]


def test_several_samples_and_greedy() -> None:
    lm = without_controls()
    options: dict[str, Any] = {"seed": 3, "do_sample": True, "num_return_sequences": 4}
    plain, found = run(None, lm, **options), run(cg.Free(until=cg.EOS) >> ANSWER, lm, **options)
    for one, two in zip(plain, found, strict=True):
        for a, b in zip((one, *one.alternatives), (two, *two.alternatives), strict=True):
            assert not a.finished or b.value.free_text == a.text
    for one, two in zip(run(None, lm), run(cg.Free(until=cg.EOS) >> ANSWER, lm), strict=True):
        assert not one.finished or two.value.free_text == one.text
        assert two.value.answer in ANSWER.options


def test_text_until_a_string_is_that_of_the_model_too() -> None:
    def distribution(ids: tuple[int, ...]) -> list[float]:
        row = list(inner(ids))
        row[X] = row[Y] = -math.inf
        row[EOS] = -50.0
        return row

    lm = model()
    inner, lm.distribution = lm.distribution, distribution
    seen = 0
    for seed in range(8):
        plain = run(None, lm, seed=seed, do_sample=True)
        found = run(cg.Free(until="</t>") >> ANSWER, lm, seed=seed, do_sample=True)
        for one, two in zip(plain, found, strict=True):
            head, mark, _ = one.text.partition("</t>")
            assert two.value.answer in ANSWER.options
            if mark and len(head) < 20:
                seen += 1
                # the token in which the mark ends may hold more than the mark
                assert two.text.startswith(head) or two.value.free_text.startswith(head)
    assert seen > 5


def test_the_answer_is_drawn_from_the_masked_distribution() -> None:
    """After the end token was drawn: what follows has the probabilities of the model, among what is allowed."""
    weights = {EOS: 0.5, 0: 0.5, 11: 0.2, 12: 0.6, 13: 0.2}
    row = [math.log(weights.get(token, 1e-12)) for token in range(len(TOKENS))]
    lm = model()
    lm.distribution = lambda ids: row
    counts: collections.Counter[str] = collections.Counter()
    lengths: collections.Counter[int] = collections.Counter()
    spec = cg.Free(until=cg.EOS, without=["1", "2"]) >> cg.Choice(["1", "2", "12"])
    for seed in range(60):
        for one in run(spec, lm, ["a"] * 16, seed=seed, do_sample=True, trace=False):
            counts[one.value.answer] += 1
            lengths[len(one.value.free_text)] += 1
    total = sum(counts.values())
    # "1" then the end (0.5) or "2" (0.6); "2"; "12" as one token
    one_alone = 0.2 * 0.5 / 1.1
    for text, share in (("1", one_alone), ("2", 0.6), ("12", 0.2 + 0.2 - one_alone)):
        assert abs(counts[text] / total - share) < 4 * math.sqrt(share * (1 - share) / total)
    for length, share in ((0, 0.5), (1, 0.25), (2, 0.125)):
        assert abs(lengths[length] / total - share) < 4 * math.sqrt(share * (1 - share) / total)


def test_the_processor_alone_draws_the_end_with_its_probability() -> None:
    weights = {EOS: 0.3, 0: 0.7}
    row = [math.log(weights.get(token, 1e-12)) for token in range(len(TOKENS))]
    lm = model()
    lm.distribution = lambda ids: row
    spec = cg.Free(until=cg.EOS) >> "1"
    lengths: list[int] = []
    for seed in range(50):
        torch.manual_seed(seed)
        processor = cg.ControlProcessor(spec, vocabulary=VOCABULARY, leaving=cg.Leaving(temperature=1.0))
        ids = torch.zeros((16, 1), dtype=torch.int64)
        output = lm.generate(ids, do_sample=True, max_new_tokens=60, logits_processor=[processor])
        lengths += [(line[1:] == 0).sum().item() for line in output]
    mean = 0.7 / 0.3
    assert abs(np.mean(lengths) - mean) < 4 * math.sqrt(0.7) / 0.3 / math.sqrt(len(lengths))
    greedy = cg.ControlProcessor(spec, vocabulary=VOCABULARY, leaving=cg.Leaving(temperature=0), max_new_tokens=9)
    output = lm.generate(torch.zeros((2, 1), dtype=torch.int64), max_new_tokens=9, logits_processor=[greedy])
    assert output[:, 1:].tolist() == [[0] * 7 + [11, EOS]] * 2


def test_a_processor_must_know_how_tokens_are_drawn() -> None:
    processor = cg.ControlProcessor(cg.Free(until=cg.EOS) >> "1", vocabulary=VOCABULARY)
    with pytest.raises(InputError, match="temperature"):
        model().generate(torch.zeros((1, 1), dtype=torch.int64), logits_processor=[processor], max_new_tokens=5)
    processor = cg.ControlProcessor(
        cg.Free(until=cg.EOS) >> "1", vocabulary=VOCABULARY, leaving=cg.Leaving(temperature=0)
    )
    with pytest.raises(InputError, match="beam search"):
        model().generate(
            torch.zeros((1, 1), dtype=torch.int64), logits_processor=[processor], max_new_tokens=5, num_beams=2
        )


@pytest.mark.parametrize(
    "spec",
    [
        cg.Free(until=cg.EOS) >> ANSWER,
        cg.Free(until="</t>") >> ANSWER,
        cg.Free(until=("</t>", cg.EOS), max_tokens=4) >> ANSWER,
        cg.Free(until=cg.Token("<x>"), keep=6) >> ANSWER,
        cg.Free(until=cg.Token("<x>"), max_tokens=2, allow=cg.Token("<y>")) >> ANSWER,
        cg.Dispatch({"</t>": ANSWER, cg.Token("<x>"): "12."}, least=1),
        cg.Dispatch({"</t>": ANSWER >> "."}, stop=cg.EOS, max_tokens=3) >> "abc",
        cg.Thinking(ANSWER, start="<x>", end="</t>", between="", keep=0.5),
        cg.Thinking(ANSWER, end="<y>", between="", max_tokens=3),
        cg.Free(until=cg.EOS, max_tokens=3) >> "1" >> cg.Free(until=cg.EOS, keep=3) >> ANSWER,
    ],
    ids=repr,
)
def test_every_budget_suffices(spec: Any) -> None:
    c = spec.compile(VOCABULARY)
    least = c.distance(c.start)
    for budget in range(least, least + 9):
        for options in ({}, {"do_sample": True, "seed": budget}, {"do_sample": True, "seed": 7, "temperature": 3.0}):
            for one in run(spec, model(scale=4.0), max_new_tokens=budget, **options):
                assert one.complete, (budget, one)
                assert one.problem is None
                assert isinstance(one.value, cg.Parts)
                assert len(one.token_ids) <= budget
    with pytest.raises(BudgetError):
        run(spec, max_new_tokens=max(least - 3, 1)) if least > 1 else run("1" >> spec, max_new_tokens=1)


def test_a_share_is_kept_for_the_answer() -> None:
    lm = model()
    lm.distribution = lambda ids: [5.0] + [0.0] * 19  # would think for ever
    for keep, tokens in ((0.5, 10), (4, 16), (0, 18)):
        one = run(cg.Free(until=cg.EOS, keep=keep) >> ANSWER, lm, "a", max_new_tokens=20)
        assert one.value.free_text == "a" * tokens
        one = run(cg.Free(until="</t>", keep=keep) >> ANSWER, lm, "a", max_new_tokens=20)
        assert one.value.free_text == "a" * (tokens if keep else 17)


def test_a_brake_leaves_at_the_end_of_a_sentence() -> None:
    row = [0.0] * len(TOKENS)
    row[0], row[3], row[9] = 3.0, 2.0, 2.9  # "a" is likeliest, "</t>" nearly as likely
    lm = model()
    lm.distribution = lambda ids: row if len(ids) % 4 else [*row[:3], 9.0, *row[4:]]
    spec = cg.Free(until="</t>") >> ANSWER
    free = [run(spec, lm, "a", brake=brake).value.free_text for brake in (cg.Brake(0.2), cg.Brake(0.05))]
    assert free[0] == "aaa."
    assert len(free[1]) > 20
    late = run(spec, lm, "a", brake=cg.Brake(0.2, least=6))
    assert late.value.free_text == "aaa.aaa."
    assert late.value.parts[1][:3] == ("</t>", late.value.answer, late.value.answer)
    row[EOS] = 2.9
    ended = run(cg.Free(until=cg.EOS) >> ANSWER, lm, ["a", "ab"], brake=cg.Brake(0.2))
    assert [one.value.free_text for one in ended] == ["aaa.", "a."] or all(one.finished for one in ended)
    with pytest.raises(InputError, match="beam"):
        run(spec, lm, "a", brake=cg.Brake(0.2), num_beams=2)


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InputError, match="beam"):
        run(cg.Free(until=cg.EOS) >> ANSWER, num_beams=2)
    with pytest.raises(InputError, match="prompt_lookup"):
        run(cg.Free(until=cg.EOS) >> ANSWER, prompt_lookup_num_tokens=2)
    for wrong in ({"threshold": -1}, {"after": ""}, {"after": []}, {"least": -1}):
        with pytest.raises(InputError):
            cg.Brake(**wrong)
    with pytest.raises(InputError, match="brake"):
        run(ANSWER, brake=cg.Brake())
    with pytest.raises(InputError, match="temperature"):
        cg.Leaving(temperature=-1)


def test_beams_follow_strings() -> None:
    for one in run(cg.Free(until="</t>") >> ANSWER, num_beams=3, max_new_tokens=14):
        assert one.finished
        assert one.value.answer in ANSWER.options


def test_streams_and_stopping_criteria_go_along() -> None:
    pieces: list[str] = []
    one = run(cg.Free(until=cg.EOS) >> ANSWER, without_controls(), "abab", stream=pieces.append, seed=2, do_sample=True)
    assert "".join(pieces) == one.text
    assert len(pieces) > 1
    stopped = run(
        cg.Free(until=cg.EOS) >> ANSWER, prompts="abab", stopping_criteria=[lambda ids, scores, **_: ids.shape[1] > 5]
    )
    assert not stopped.finished


def test_beside_rows_without_a_constraint() -> None:
    lm = without_controls()
    plain = run(None, lm, seed=5, do_sample=True)
    mixed = run([None, cg.Free(until=cg.EOS) >> ANSWER, None, ANSWER, None], lm, seed=5, do_sample=True)
    for row in (0, 2, 4):
        assert mixed[row].token_ids == plain[row].token_ids
    assert mixed[1].value.free_text == plain[1].text
    assert mixed[3].value in ANSWER.options


def test_the_random_numbers_of_others_are_left_alone() -> None:
    lm = without_controls()
    torch.manual_seed(11)
    run(None, lm, "a", do_sample=True)
    state = torch.get_rng_state()
    torch.manual_seed(11)
    one = run(cg.Free(until=cg.EOS, max_tokens=0) >> cg.Free(until=cg.EOS), lm, "a", do_sample=True)
    assert one.finished
    assert state.shape == torch.get_rng_state().shape


@pytest.mark.model
def test_the_default_model_thinks_as_it_does_anyway(smollm2: Any) -> None:
    prompts = [[{"role": "user", "content": text}] for text in ("What is 3 + 4?", "Name one colour, in one word.")]
    integer = {"answer": {"type": "integer"}}
    schema = cg.JsonSchema(
        {"properties": integer, "required": ["answer"], "additionalProperties": False, "type": "object"}
    )
    options = {"max_new_tokens": 60, "seed": 1, "temperature": 0.8, "num_return_sequences": 2, "trace": False}
    plain = cg.generate(smollm2.model, smollm2.tokenizer, prompts, **options)
    found = cg.generate(smollm2.model, smollm2.tokenizer, prompts, cg.Thinking(schema, end=cg.EOS, keep=20), **options)
    ended = 0
    for one, two in zip(plain, found, strict=True):
        for a, b in zip((one, *one.alternatives), (two, *two.alternatives), strict=True):
            assert b.finished
            assert isinstance(b.value.answer["answer"], int)
            length = min(len(a.token_ids) - 1, 40)
            assert b.token_ids[:length] == a.token_ids[:length]
            ended += a.finished and b.value.free_text == a.text
    assert ended
