"""generate: what it refuses before the first token, and that what it returns is what the model and constraint say."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from transformers import LogitsProcessor

from ctrlgen.errors import BudgetError, DeadEndError, InputError, VocabularyError
from ctrlgen.flows.generate import Result, generate, generate_stream
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, toy_vocabulary

VOCABULARY = toy_vocabulary()
TEXTS = ("abc", "abcab c", "é", "a c", "bb")


class OneOf:
    """A specification: one of a few texts; its value is the number of the text."""

    def __init__(self, *texts):
        self.texts, self.compiled = texts, 0

    def compile(self, vocabulary):
        self.compiled += 1
        return Enumerated(vocabulary, self.texts)

    def parse(self, text):
        return self.texts.index(text)


class Everything:
    """A constraint that allows every id there is."""

    start = 0

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.row = np.full(vocabulary.words, 0xFFFFFFFF, np.uint32)

    def advance(self, state, token):
        return 0

    def mask(self, state):
        return self.row

    def accepts(self, state):
        return True

    def distance(self, state):
        return 1


@pytest.fixture
def model():
    return ToyLM(VOCABULARY)


@pytest.fixture
def ask(model):
    """ask(prompts, constraint, **options): generate with the toy model."""

    def call(prompts="ab", constraint=None, **options):
        options = {"max_new_tokens": 12, "vocabulary": VOCABULARY, **options}
        return generate(options.pop("model", model), ToyTokenizer(VOCABULARY), prompts, constraint, **options)

    return call


def test_one_prompt_gives_one_result(ask):
    spec = OneOf(*TEXTS)
    result = ask("ab", spec)
    assert isinstance(result, Result)
    assert result.text in TEXTS
    assert result.value == TEXTS.index(result.text)
    assert result.finished
    assert result.token_ids[-1] == 0
    assert VOCABULARY.decode(result.token_ids) == result.text.encode()
    assert result.alternatives == ()
    assert spec.compiled == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.text = "x"


@pytest.mark.parametrize("options", [{}, {"num_beams": 4}, {"do_sample": True, "seed": 3}])
def test_several_prompts_of_any_length(ask, options):
    prompts = ["a", "abcabcc b", "é b"]
    results = ask(prompts, OneOf(*TEXTS), **options)
    assert [type(result) for result in results] == [Result] * 3
    assert {result.text for result in results} <= set(TEXTS)
    if not options.get("do_sample"):
        assert [result.text for result in results] == [ask(one, OneOf(*TEXTS), **options).text for one in prompts]


def test_a_list_of_one_prompt_gives_a_list(ask):
    assert [result.text for result in ask(["ab"], OneOf(*TEXTS))] == [ask("ab", OneOf(*TEXTS)).text]


def test_one_constraint_for_each_prompt(ask):
    yes_no, number = OneOf("a", "b"), OneOf("c", "cc")
    results = ask(["ab c", "b", "bcbcbc"], [yes_no, None, number])
    assert results[0].text in yes_no.texts
    assert results[1].value is None
    assert results[2].text in number.texts
    assert results[1].token_ids == ask("b").token_ids


class EndsAt(LogitsProcessor):
    """Only the end token at a length."""

    def __init__(self, length):
        self.length = length

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] == self.length:
            scores = scores.clone()
            scores[:, 1:] = -math.inf
        return scores


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"do_sample": True},
        {"temperature": 1.5, "top_k": 0},
        {"top_p": 0.8},
        {"num_beams": 4},
        {"num_beams": 3, "num_return_sequences": 3},
        {"num_beams": 3, "do_sample": True},
        {"do_sample": True, "num_return_sequences": 4},
    ],
)
@pytest.mark.parametrize("constrained", [False, True])
def test_without_an_effective_constraint_nothing_changes(model, ask, options, constrained):
    """Bit for bit the ids of ``model.generate``, in every mode."""
    prompts = ["abc b", "a b"]  # of equal length, so that there is no padding to do
    ids = torch.tensor([ToyTokenizer(VOCABULARY)(one)["input_ids"] for one in prompts])
    samples = bool(options.keys() & {"temperature", "top_p"})
    for seed in range(5):
        torch.manual_seed(seed)
        ended = [EndsAt(ids.shape[1] + 11)] if constrained else []  # what may always end is ended in time
        asked = {"do_sample": samples, "logits_processor": ended, **options}
        plain = model.generate(ids, max_new_tokens=12, **asked)[:, ids.shape[1] :].tolist()
        results = ask(prompts, Everything(VOCABULARY) if constrained else None, seed=seed, **options)
        found = [one for result in results for one in (result, *result.alternatives)]
        wanted = [row[: row.index(0) + 1] if 0 in row else row for row in plain]
        assert [list(one.token_ids) for one in found] == wanted


def test_the_seed_decides_and_leaves_no_trace(ask):
    torch.manual_seed(11)
    wanted = torch.rand(3)
    torch.manual_seed(11)
    spec = OneOf(*TEXTS)
    found = [ask("ab", spec, seed=seed, temperature=3.0).text for seed in [*range(12), *range(12)]]
    assert found[:12] == found[12:]
    assert len(set(found)) > 1
    assert torch.equal(torch.rand(3), wanted)


def test_decoding_is_greedy_unless_sampling_is_asked_for(model, ask):
    model.generation_config.do_sample = True
    assert len({ask("ab", OneOf(*TEXTS)).text for _ in range(6)}) == 1
    assert len({ask("ab", OneOf(*TEXTS), temperature=0).text for _ in range(6)}) == 1
    assert len({ask("ab", OneOf(*TEXTS), temperature=3.0, seed=seed).text for seed in range(12)}) > 1


def test_alternatives(ask):
    result = ask("ab", OneOf(*TEXTS), num_beams=6, num_return_sequences=6, length_penalty=0.0)
    everything = [result, *result.alternatives]
    assert len(everything) == 6
    assert len({one.token_ids for one in everything}) == 6
    assert all(one.finished for one in everything)
    assert all(one.alternatives == () for one in result.alternatives)
    result = ask("ab", OneOf(*TEXTS), do_sample=True, num_return_sequences=5, seed=0)
    assert len(result.alternatives) == 4


def test_fewer_texts_than_beams(ask):
    """bb is spelled in one way: two of three beams end with probability zero."""
    for pad in (0, 10):
        result = ask("ab", OneOf("bb"), num_beams=3, num_return_sequences=3, model=ToyLM(VOCABULARY, pad=pad))
        assert result.text == "bb"
        assert result.alternatives == ()


def test_a_text_that_is_cut_off_is_not_finished(ask):
    for texts, steps in ((("bcbcbcbc", "bb"), 3), (("ab" * 9, "a"), 3)):
        for seed in range(20):
            result = ask("ab", OneOf(*texts), max_new_tokens=steps, do_sample=True, seed=seed)
            assert result.finished == (result.token_ids[-1] == 0)
            assert (result.value is None) == (not result.finished)
            assert any(text.startswith(result.text) for text in texts)


def test_stop_strings_leave_a_text_unfinished(ask):
    class Stop:
        def __call__(self, input_ids, scores, **_):
            return (input_ids[:, -1] == 7) | (input_ids.shape[1] > 9)

    results = ask(["ab", "bb"], OneOf("bb a", "cc cc"), stopping_criteria=[Stop()], model=ToyLM(VOCABULARY, pad=10))
    assert {result.text for result in results} <= {"bb ", "cc "}
    assert not any(result.finished or result.value is not None for result in results)


def test_the_trace(model, ask):
    for options in ({}, {"num_beams": 4}, {"assistant_model": model}):
        result = ask("ab", OneOf(*TEXTS), **options)
        trace, constraint = result.trace, Enumerated(VOCABULARY, TEXTS)
        assert [one.token for one in trace.steps] == list(result.token_ids)
        state, ids = constraint.start, ToyTokenizer(VOCABULARY)("ab")["input_ids"]
        for one in trace.steps:
            logs = torch.tensor(model.distribution(tuple(ids))).log_softmax(0)
            mass = sum(math.exp(logs[t]) for t in range(12) if constraint.advance(state, t) >= 0)
            assert one.log_mass == pytest.approx(math.log(mass), abs=1e-4)
            assert one.seconds > 0
            state, ids = constraint.advance(state, one.token), [*ids, one.token]
        assert trace.log_mass == pytest.approx(sum(one.log_mass for one in trace.steps))
        assert 0 < trace.mask_seconds < trace.total_seconds
        assert trace.mask_share == trace.mask_seconds / trace.total_seconds
    assert ask("ab", OneOf(*TEXTS), trace=False).trace is None
    free = ask("ab").trace
    assert {one.log_mass for one in free.steps} == {None}
    assert free.mask_seconds == free.log_mass == 0


def test_streaming_gives_whole_characters(model):
    vocabulary = toy_vocabulary([None, b"a", b"\xc3", b"\xa9", b"\xe2\x82", b"\xac"])
    ask = {"vocabulary": vocabulary, "max_new_tokens": 20}
    spec, toy, tokenizer = OneOf("aé€a"), ToyLM(vocabulary), ToyTokenizer(vocabulary)
    pieces = []
    result = generate(toy, tokenizer, "a", spec, stream=pieces.append, **ask)
    assert pieces == ["a", "é", "€", "a"]
    assert "".join(pieces) == result.text
    assert list(generate_stream(toy, tokenizer, "a", spec, **ask)) == pieces
    assert "".join(generate_stream(toy, tokenizer, "a", spec, assistant_model=toy, **ask)) == result.text
    cut = list(generate_stream(toy, tokenizer, "a", spec, **{**ask, "max_new_tokens": 7, "stopping_criteria": [third]}))
    assert cut == ["a", "é", "\ufffd"]


def third(input_ids, scores, **_):
    """Stop within the third character."""
    return torch.tensor([input_ids[0, -1].item() == 4])


def test_streaming_to_the_screen(ask, capsys):
    assert ask("ab", OneOf("bb"), stream=True).text == capsys.readouterr().out == "bb"


def test_the_stream_ends_with_the_result(model):
    def consume():
        result = yield from generate_stream(
            model, ToyTokenizer(VOCABULARY), "ab", OneOf("bb"), vocabulary=VOCABULARY, max_new_tokens=9
        )
        assert (result.text, result.value) == ("bb", 0)

    assert list(consume()) == ["b", "b"]


def test_a_stream_raises_and_can_be_left(model):
    ask = {"vocabulary": VOCABULARY, "max_new_tokens": 2}
    with pytest.raises(BudgetError):
        list(generate_stream(model, ToyTokenizer(VOCABULARY), "ab", OneOf("bbbb"), **ask))
    stream = generate_stream(model, ToyTokenizer(VOCABULARY), "ab", OneOf("b" * 40), **{**ask, "max_new_tokens": 99})
    assert next(stream) == "b"
    stream.close()


class Chat(ToyTokenizer):
    chat_template = "there is one"

    def apply_chat_template(self, messages, *, tokenize, add_generation_prompt):
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"{message['role'][0]} {message['content']} " for message in messages) + "a "


def test_chats():
    """Roles that the toy can spell: assistant, bot."""
    asked = []

    class Tokenizer(Chat):
        def __call__(self, text, **options):
            asked.append((text, options))
            return super().__call__(text)

    def ask(prompts, **more):
        asked.clear()
        generate(
            ToyLM(VOCABULARY), Tokenizer(VOCABULARY), prompts, None, vocabulary=VOCABULARY, max_new_tokens=2, **more
        )
        return asked

    plain = {"add_special_tokens": False}
    one, two = [{"role": "bot", "content": "ab"}], [{"role": "bot", "content": "c"}, {"role": "a", "content": "b"}]
    assert ask(one) == [("b ab a ", plain)]
    assert ask([one, two, "cc"]) == [("b ab a ", plain), ("b c a b a ", plain), ("cc", {})]
    with pytest.raises(InputError, match="is a chat, but chat=False"):
        ask([one], chat=False)
    with pytest.raises(InputError, match="no chat template"):
        generate(ToyLM(VOCABULARY), ToyTokenizer(VOCABULARY), one, vocabulary=VOCABULARY)


def test_chat_true_makes_a_message_of_a_text():
    class Tokenizer(Chat):
        def apply_chat_template(self, messages, **options):
            assert messages == [{"role": "user", "content": "ab"}]
            return "c"

    result = generate(
        ToyLM(VOCABULARY), Tokenizer(VOCABULARY), "ab", OneOf("bb"), vocabulary=VOCABULARY, chat=True, max_new_tokens=9
    )
    assert result.text == "bb"


@pytest.mark.parametrize(
    ("prompts", "constraint", "options", "message"),
    [
        ([], None, {}, "list of prompts is empty"),
        ("", None, {}, "prompt 0 is empty"),
        (["ab", ""], None, {}, "prompt 1 is empty"),
        (3, None, {}, "prompts is 3; expected"),
        (["ab", 3], None, {}, "prompt 1 is 3; expected"),
        ("ab", "abc", {}, "constraint is 'abc'; expected a specification"),
        (["a", "b"], [OneOf("a")], {}, "1 constraints for 2 prompts"),
        ("ab", [], {}, "0 constraints for 1 prompts"),
        ("ab", None, {"max_new_tokens": 0}, "max_new_tokens is 0"),
        ("ab", None, {"max_new_tokens": "9"}, "max_new_tokens is '9'"),
        ("ab", None, {"seed": 1.5}, "seed is 1.5"),
        ("ab", None, {"stream": 3}, "stream is 3"),
        (["a", "b"], None, {"stream": print}, "one prompt and one sequence"),
        ("a", None, {"stream": print, "num_beams": 2}, "without beams"),
        ("a", None, {"num_return_sequences": 2}, "num_return_sequences=2 needs sampling"),
        (
            ["a", "ab" * 5],
            None,
            {"max_new_tokens": 60},
            "prompt 1 has 5 tokens.* makes 65, more than the 64.*at most 59",
        ),
        ("ab" * 80, None, {}, "at most 0"),
    ],
)
def test_what_is_refused_before_the_first_token(ask, prompts, constraint, options, message):
    model = ToyLM(VOCABULARY, context=64)
    model.generate = None  # never reached
    with pytest.raises(InputError, match=message):
        ask(prompts, constraint, model=model, **options)


def test_a_budget_that_cannot_suffice(ask):
    with pytest.raises(BudgetError, match="takes 5 tokens") as caught:
        ask("ab", OneOf("bbbb", "cccccc"), max_new_tokens=4)
    assert (caught.value.needed, caught.value.given) == (5, 4)
    with pytest.raises(BudgetError, match="row 1: "):
        ask(["ab", "c"], [OneOf("a"), OneOf("bbbb")], max_new_tokens=4)
    assert ask("ab", OneOf("bbbb"), max_new_tokens=5).finished


def test_a_cautious_distance_does_not_refuse_what_fits(ask):
    """distance may count one token for each byte; abcabc is two tokens and the end."""

    class Cautious(Enumerated):
        def distance(self, state):
            text = self._known[state]
            return 1 if text is None else 1 + min(len(one) - len(text) for one in self.texts if one.startswith(text))

    constraint = Cautious(VOCABULARY, ["abcabcabcabc"])
    assert constraint.distance(constraint.start) == 13
    assert ask("ab", constraint, max_new_tokens=5).text in "abcabcabcabc"
    with pytest.raises(BudgetError, match="takes 5 tokens"):
        ask("ab", constraint, max_new_tokens=4)


def test_no_end_token():
    class Endless:
        eos_token_id = None

    with pytest.raises(VocabularyError):
        generate(ToyLM(VOCABULARY), Endless(), "ab", OneOf("a"))


def test_a_processor_that_comes_first_can_leave_nothing(ask):
    with pytest.raises(DeadEndError, match="min_new_tokens"):
        ask("ab", OneOf("bb"), min_new_tokens=8)


def test_beams_that_all_die(ask):
    with pytest.raises(DeadEndError, match="beam search ended without a text"):
        ask("ab", OneOf("bb"), num_beams=2, bad_words_ids=[[2]])


def test_users_processors_come_before_the_constraint(ask):
    class Prefer(LogitsProcessor):
        def __call__(self, input_ids, scores):
            scores = scores.clone()
            scores[:, 11] = 99.0
            scores[:, 3] = 100.0  # c, which no text begins with
            return scores

    assert ask("ab", OneOf(*TEXTS), logits_processor=[Prefer()]).text == "é"


@pytest.mark.parametrize("width", [12, 16, 11])
def test_the_width_of_the_model_counts(width):
    """Logits wider or narrower than the tokenizer; the unused rows are the likeliest, were they allowed."""
    vocabulary = VOCABULARY.with_width(width)
    model = ToyLM(vocabulary, lambda ids: [float(i) for i in range(width)])
    result = generate(model, ToyTokenizer(VOCABULARY), "ab", OneOf(*TEXTS), vocabulary=VOCABULARY, max_new_tokens=9)
    assert result.text == "é"
    assert result.token_ids == ((11, 0) if width > 11 else (8, 9, 0))


def test_several_end_tokens():
    vocabulary = toy_vocabulary([None, b"a", b"b", None], eos=[0, 3])
    for favourite in (0, 3):
        model = ToyLM(vocabulary, lambda ids, f=favourite: [2.0 * (i == f) for i in range(4)])
        model.generation_config.eos_token_id = 0  # the model itself knows but one
        result = generate(model, ToyTokenizer(vocabulary), "a", OneOf("ab"), vocabulary=vocabulary, max_new_tokens=9)
        assert (result.token_ids, result.finished) == ((1, 2, favourite), True)


def test_a_compiled_constraint_has_no_value(ask):
    result = ask("ab", Enumerated(VOCABULARY, ["bb"]))
    assert (result.text, result.value) == ("bb", None)


class Picky(OneOf):
    """A specification whose parse refuses what its constraint admits, as a model with validators of its own does."""

    def parse(self, text):
        raise ValueError(f"{text} does not please")


def test_a_text_that_parse_refuses_leaves_the_batch_alone(ask):
    refused, fine = ask(["ab", "ab"], [Picky("abc"), OneOf("abc")])
    assert refused.finished
    assert refused.text == "abc"
    assert refused.value is None
    assert refused.problem == "abc does not please"
    assert fine.value == 0
    assert fine.problem is None
