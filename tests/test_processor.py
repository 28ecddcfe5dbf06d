"""ControlProcessor inside the real ``model.generate``, in every mode, against plain enumeration."""

import gc
import itertools
import math
import pickle
import random
from collections import Counter

import numpy as np
import pytest
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from ctrlgen.constraint import DEAD
from ctrlgen.errors import DeadEndError, InputError, VocabularyError
from ctrlgen.processor import ControlProcessor
from ctrlgen.rows import ENDED, FREE, Rows, follow, start
from ctrlgen.testing import Enumerated, ToyLM, toy_vocabulary
from tests.threads import at_once

TEXTS = ("abc", "abcab c", "é", "a c", "bb")
VOCABULARY = toy_vocabulary()


class OneOf:
    """A specification: one of a few texts."""

    def __init__(self, *texts):
        self.texts, self.widths = texts, []

    def compile(self, vocabulary):
        self.widths.append(vocabulary.width)
        return Enumerated(vocabulary, self.texts)

    def parse(self, text):
        return self.texts.index(text)


def texts_of(output, prompt_length, vocabulary=VOCABULARY):
    """What was generated, up to the end; None for rows that did not end."""
    rows = output[:, prompt_length:].tolist()
    return [
        vocabulary.decode(itertools.takewhile(lambda token: token not in vocabulary.eos, row)).decode(errors="replace")
        if set(row) & set(vocabulary.eos)
        else None
        for row in rows
    ]


def spellings(constraint, prompt, distribution):
    """{ids: (log-probability of the model, probability when every step is masked and renormalised)} of all texts."""
    found, waiting = {}, [((), constraint.start, 0.0, 1.0)]
    while waiting:
        ids, state, logp, probability = waiting.pop()
        if ids and ids[-1] in constraint.vocabulary.eos:
            found[ids] = (logp, probability)
            continue
        logs = torch.tensor(distribution((*prompt, *ids))).log_softmax(0).tolist()
        after = {token: constraint.advance(state, token) for token in range(constraint.vocabulary.width)}
        after = {token: state for token, state in after.items() if state != DEAD}
        mass = sum(math.exp(logs[token]) for token in after)
        for token, then in after.items():
            waiting.append(((*ids, token), then, logp + logs[token], probability * math.exp(logs[token]) / mass))
    return found


def greedy(constraint, prompt, distribution):
    ids, state = [], constraint.start
    while not ids or ids[-1] not in constraint.vocabulary.eos:
        logits = distribution((*prompt, *ids))
        allowed = [t for t in range(constraint.vocabulary.width) if constraint.advance(state, t) != DEAD]
        ids.append(max(allowed, key=lambda token: logits[token]))
        state = constraint.advance(state, ids[-1])
    return ids


@pytest.fixture
def model():
    return ToyLM(VOCABULARY)


@pytest.fixture
def constraint():
    return Enumerated(VOCABULARY, TEXTS)


def run(model, prompts, *processors, **options):
    """Generate for prompts of one length; returns the ids that follow them."""
    ids = torch.tensor(prompts)
    options = {"do_sample": False, "max_new_tokens": 12, **options}
    return model.generate(ids, logits_processor=list(processors), **options)[:, ids.shape[1] :]


def test_greedy(model, constraint):
    processor = ControlProcessor(constraint)
    for prompt in itertools.product(range(1, 10), repeat=2):
        assert run(model, [prompt], processor)[0].tolist() == greedy(constraint, prompt, model.distribution)


def test_sampling_follows_the_masked_distribution(model, constraint):
    torch.manual_seed(0)
    n = 3000
    rows = run(model, [[2, 3]], ControlProcessor(constraint), do_sample=True, num_return_sequences=n, top_k=0)
    found = Counter(tuple(row[: row.index(0) + 1]) for row in rows.tolist())
    wanted = {ids: p for ids, (_, p) in spellings(constraint, (2, 3), model.distribution).items()}
    assert set(found) <= set(wanted)
    assert sum(wanted.values()) == pytest.approx(1)
    for ids, p in wanted.items():
        assert abs(found[ids] / n - p) < 4.5 * math.sqrt(p * (1 - p) / n) + 1e-9, ids


@pytest.mark.parametrize("prompt", [(2, 3), (1, 1), (9, 4)])
def test_beams_find_the_best_spellings(model, constraint, prompt):
    """With more beams than spellings, beam search is exhaustive."""
    wanted = spellings(constraint, prompt, model.distribution)
    best = sorted(wanted, key=lambda ids: -wanted[ids][0])
    count = len(best)
    rows = run(
        model,
        [prompt],
        ControlProcessor(constraint),
        num_beams=count,
        num_return_sequences=count,
        length_penalty=0.0,
        early_stopping="never",
    )
    assert [tuple(row[: row.index(0) + 1]) for row in rows.tolist()] == best


@pytest.mark.parametrize("cached", [True, False])
def test_four_beams_stay_within_the_texts(model, constraint, cached):
    prompts = [[a, b] for a in (1, 2, 5) for b in (3, 4, 9)]
    options = {"num_beams": 4, "num_return_sequences": 4, "use_cache": cached}
    assert set(texts_of(run(model, prompts, ControlProcessor(constraint), **options), 0)) <= set(TEXTS)
    # beam by beam the same as one prompt at a time
    alone = [run(model, [prompt], ControlProcessor(constraint), num_beams=4) for prompt in prompts]
    together = run(model, prompts, ControlProcessor(constraint), num_beams=4, use_cache=cached)
    assert texts_of(together, 0) == [text for one in alone for text in texts_of(one, 0)]


def test_beams_that_sample(model, constraint):
    torch.manual_seed(1)
    rows = run(
        model, [[1, 2], [3, 3]], ControlProcessor(constraint), do_sample=True, num_beams=3, num_return_sequences=3
    )
    assert set(texts_of(rows, 0)) <= set(TEXTS)


def test_beams_change_places_and_the_state_goes_with_them():
    """The beam that begins as second overtakes the first, whose rows are then under the other's states."""
    vocabulary = toy_vocabulary([None, b"k", b"m", b"4", b"5", b"6", b"!", b"?", None])
    table = {
        "": {"k": 0.55, "m": 0.45},
        "k": {"4": 0.3, "5": 0.28, "6": 0.42},
        "m": {"6": 0.95, "4": 0.05},
        "k4": {"!": 0.7, "?": 0.3},
        "k5": {"!": 0.7, "?": 0.3},
        "m6": {"?": 0.9, "!": 0.1},
        "k4!": {"": 1.0},
        "k5!": {"": 1.0},
        "m6?": {"": 1.0},
    }
    model = ToyLM.from_table(vocabulary, table)
    processor = ControlProcessor(Enumerated(vocabulary, ["k4!", "k5!", "m6?"]))
    rows = run(model, [[8]], processor, num_beams=2, num_return_sequences=2, length_penalty=0.0)
    assert texts_of(rows, 0, vocabulary) == ["m6?", "k4!"]


@pytest.mark.parametrize("beams", [2, 3, 8])
def test_fewer_texts_than_beams(beams):
    vocabulary = toy_vocabulary([None, b"u", b"p", b"z", None])
    table = {"": {"u": 0.1, "p": 0.7, "z": 0.2}, "u": {"p": 0.4, "z": 0.6}, "up": {"": 0.5, "z": 0.5}}
    model = ToyLM.from_table(vocabulary, table)
    rows = run(model, [[4]], ControlProcessor(Enumerated(vocabulary, ["up"])), num_beams=beams)
    assert texts_of(rows, 0, vocabulary) == ["up"]


def test_one_constraint_for_each_prompt():
    """Prompts of different lengths, padded on either side; the rows of a prompt share its constraint."""
    model = ToyLM(VOCABULARY, pad=10)
    kinds = [Enumerated(VOCABULARY, ["a", "aa"]), None, Enumerated(VOCABULARY, ["b", "bbb"])]
    ids = torch.tensor([[10, 10, 1], [3, 2, 1], [10, 4, 1]])
    for padded, options in itertools.product(
        (ids, ids.flip(1)), ({}, {"num_return_sequences": 3, "do_sample": True}, {"num_beams": 3})
    ):
        mask = (padded != 10).long()
        options = {"do_sample": False, "max_new_tokens": 6, **options}
        out = model.generate(padded, attention_mask=mask, logits_processor=[ControlProcessor(kinds)], **options)
        per_prompt = len(out) // 3
        found = texts_of(out, 3)
        assert set(found[:per_prompt]) <= {"a", "aa"}
        assert set(found[-per_prompt:]) <= {"b", "bbb"}


def test_a_free_row_is_left_alone(model, constraint):
    plain = run(model, [[3, 2], [3, 2]])
    rows = run(model, [[3, 2], [4, 1]], ControlProcessor([None, constraint]))
    assert rows[0, : plain.shape[1]].tolist() == plain[0].tolist()
    scores = torch.randn(2, 12)
    masked = ControlProcessor([None, constraint])(torch.tensor([[1], [1]]), scores)
    assert torch.equal(masked[0], scores[0])
    assert not torch.equal(masked[1], scores[1])


@pytest.mark.parametrize("pad", [0, 10, 7])
def test_rows_end_at_different_steps(pad):
    """The padding of a finished row (an end token, a control token, even a text token) is nobody's business."""
    model = ToyLM(VOCABULARY, pad=pad)
    constraint = Enumerated(VOCABULARY, ["b", "bcbc", "bcbcbcbc"])
    prompts = [[a, b] for a in range(1, 5) for b in range(1, 4)]
    rows = run(model, prompts, ControlProcessor(constraint))
    alone = [greedy(constraint, prompt, model.distribution) for prompt in prompts]
    assert len({len(ids) for ids in alone}) > 1
    assert rows.tolist() == [ids + [pad] * (rows.shape[1] - len(ids)) for ids in alone]


def test_several_end_tokens():
    vocabulary = toy_vocabulary([None, b"a", b"b", None], eos=[0, 3])
    constraint = Enumerated(vocabulary, ["ab"])
    for favourite in (0, 3):
        model = ToyLM(vocabulary, lambda ids, f=favourite: [2.0 * (i == f) for i in range(4)])
        assert run(model, [[1]], ControlProcessor(constraint)).tolist() == [[1, 2, favourite]]
        rows = run(model, [[1]], ControlProcessor(constraint), num_beams=2, num_return_sequences=2, length_penalty=0.0)
        assert {tuple(row) for row in rows.tolist()} == {(1, 2, 0), (1, 2, 3)}


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"assistant": True}])
def test_the_same_object_again(model, constraint, options):
    """For the same prompt, for one that goes on where the last text ended, and for one that begins with it."""
    if options.pop("assistant", False):
        options["assistant_model"] = ToyLM(VOCABULARY, scale=1.0)
    processor = ControlProcessor(constraint)
    prompt = [2, 3]
    for _ in range(8):
        fresh = run(model, [prompt], ControlProcessor(constraint), **options)
        again = run(model, [prompt], processor, **options)
        assert again.tolist() == fresh.tolist()
        assert texts_of(again, 0)[0] in TEXTS
        assert run(model, [prompt], processor, **options).tolist() == fresh.tolist()
        prompt = prompt + again[0].tolist()
    assert not processor._generations


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_text_that_was_cut_off_is_a_prompt_like_any_other(model, cut):
    """The second call brings the last ids of the first and one more, just as the first would have gone on."""
    constraint = Enumerated(VOCABULARY, ["bcbcbcbc"])
    processor, ids = ControlProcessor(constraint), torch.tensor([[2, 3]])
    options = {"do_sample": False, "logits_processor": [processor]}
    out = model.generate(ids, max_new_tokens=cut, **options)
    assert texts_of(model.generate(out, max_new_tokens=12, **options), out.shape[1]) == ["bcbcbcbc"]


def test_prompt_length_goes_on_with_a_text(model):
    constraint = Enumerated(VOCABULARY, ["bcbcbcbc"])
    processor = ControlProcessor(constraint, prompt_length=2)
    ids = torch.tensor([[2, 3]])
    for _ in range(9):
        ids = model.generate(ids, max_new_tokens=1, do_sample=False, logits_processor=[processor])
    assert VOCABULARY.decode(ids[0, 2:].tolist())[:8] == b"bcbcbcbc"
    assert ids[0, -1] == 0


def test_threads_share_an_object(constraint):
    model = ToyLM(VOCABULARY, scale=1.0)
    processor = ControlProcessor(OneOf(*TEXTS), vocabulary=VOCABULARY)
    wrong = []

    def work(number):
        for i in range(5):
            prompt = [1 + number, 1 + i]
            options = {"num_beams": 3} if number % 2 else {}
            found = run(model, [prompt], processor, **options)
            if found.tolist() != run(model, [prompt], ControlProcessor(constraint), **options).tolist():
                wrong.append((prompt, found))

    at_once(work, 6)
    assert not wrong
    assert not processor._generations


@pytest.mark.parametrize("draft", ["same", "other", "lookup"])
@pytest.mark.parametrize("sample", [False, True])
def test_assisted_generation(model, draft, sample):
    constraint = Enumerated(VOCABULARY, ["abcab c", "bcbcbc", "bcbcb", "éa"])
    options = {
        "same": {"assistant_model": model},
        "other": {"assistant_model": ToyLM(VOCABULARY, lambda ids: [float(-i) for i in range(12)])},
        "lookup": {"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 1},
    }[draft]
    processor = ControlProcessor(constraint)
    for prompt in itertools.product((1, 2, 5, 8), (2, 3), (5, 9)):
        found = run(model, [prompt], processor, do_sample=sample, **options)
        if sample:
            assert texts_of(found, 0)[0].encode() in constraint.texts
        else:
            assert found[0].tolist() == greedy(constraint, prompt, model.distribution)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_scores_keep_their_dtype_and_are_not_touched(constraint, dtype):
    scores = torch.randn(3, 12, dtype=dtype)
    before = scores.clone()
    masked = ControlProcessor(constraint)(torch.tensor([[1], [2], [3]]), scores)
    assert torch.equal(scores, before)
    assert masked.dtype == dtype
    allowed = torch.tensor([t in (1, 2, 4, 6, 8, 11) for t in range(12)])
    assert torch.equal(masked[:, allowed], before[:, allowed])
    assert (masked[:, ~allowed] == -torch.inf).all()


@pytest.mark.parametrize("width", [9, 12, 13, 40, 64])
def test_the_width_is_read_from_the_logits(width):
    spec = OneOf("abc", "bb")
    processor = ControlProcessor(spec, vocabulary=VOCABULARY)
    for _ in range(2):
        masked = processor(torch.tensor([[1]]), torch.zeros(1, width))
        assert masked.shape == (1, width)
        assert torch.nonzero(masked[0] == 0).flatten().tolist() == [1, 2, 4, 6]
    assert spec.widths == [width]


def test_a_compiled_constraint_for_other_widths(constraint):
    masked = ControlProcessor(constraint)(torch.tensor([[1]]), torch.zeros(1, 70))
    assert (masked[0, 12:] == -torch.inf).all()
    with pytest.raises(InputError, match=r"width 12, these have 9.*with_width\(9\)"):
        ControlProcessor(constraint)(torch.tensor([[1]]), torch.zeros(1, 9))


def test_another_processor_forbids_the_end(model, constraint):
    processor = ControlProcessor(constraint)
    with pytest.raises(DeadEndError, match=r"row 1: .*complete.*min_new_tokens") as caught:
        run(model, [[2, 3], [2, 3]], ControlProcessor([None, constraint]), min_new_tokens=10)
    assert caught.value.row == 1
    assert caught.value.text in TEXTS
    with pytest.raises(DeadEndError):
        run(model, [[2, 3]], processor, min_new_tokens=10)
    # the traceback above is still alive, and so is the list of transformers: what follows must not be taken for more
    assert texts_of(run(model, [[2, 3, 11]], processor), 0)[0] in TEXTS


def test_another_processor_forbids_every_token(model, constraint):
    words = [[1], [2], [4], [6], [8], [11]]
    with pytest.raises(DeadEndError, match=r"allows 6 token\(s\) \(b'a', .*bad_words_ids"):
        run(model, [[2, 3]], ControlProcessor(constraint), bad_words_ids=words)
    with pytest.raises(DeadEndError, match="already before the constraint"):
        ControlProcessor(constraint)(torch.tensor([[1]]), torch.full((1, 12), -torch.inf))


def test_an_empty_mask_is_our_own_fault(constraint):
    constraint.mask = lambda state: np.zeros(1, np.uint32)
    with pytest.raises(DeadEndError, match="Enumerated allows no token in state 1"):
        ControlProcessor(constraint)(torch.tensor([[1]]), torch.zeros(1, 12))


def test_beams_may_give_up_some(model):
    """A beam that may not end yet is given up; the others go on."""
    constraint = Enumerated(VOCABULARY, ["a", "cccccc"])
    processor = ControlProcessor(constraint)
    rows = run(model, [[2, 3]], processor, num_beams=3, min_new_tokens=5)
    assert texts_of(rows, 0) == ["cccccc"]


@pytest.mark.parametrize("options", [{}, {"do_sample": True}, {"num_beams": 3}, {"num_beams": 3, "do_sample": True}])
def test_finished_rows_never_make_nan(options):
    """no_repeat_ngram_size forbids a second padding token, hence everything, in rows that are over."""
    torch.manual_seed(0)
    model, constraint = ToyLM(VOCABULARY), Enumerated(VOCABULARY, ["b", "ca é"])
    prompts = [[a, b] for a in (4, 5, 6) for b in (8, 9, 10)]
    rows = run(model, prompts, ControlProcessor(constraint), no_repeat_ngram_size=1, **options)
    assert set(texts_of(rows, 0)) == {"b", "ca é"}


class Override(LogitsProcessor):
    """Chooses c, whatever came before."""

    def __call__(self, input_ids, scores):
        return torch.nn.functional.one_hot(torch.full((len(scores),), 3), scores.shape[1]).float().log()


def test_nothing_follows_a_token_that_was_refused(model, constraint):
    class Once(Override):
        calls = 0

        def __call__(self, input_ids, scores):
            self.calls += 1
            return super().__call__(input_ids, scores) if self.calls == 2 else scores

    processor = ControlProcessor(Enumerated(VOCABULARY, ["bb", "éb"]))
    assert run(model, [[2, 3]], processor, Once())[0, 1:].tolist() == [3, 0]


def test_a_loop_of_ones_own(model, constraint):
    processor = ControlProcessor(constraint)
    for prompt in ([2, 3], [2, 3], [1], [2, 3, 3]):
        ids = list(prompt)
        while len(ids) == len(prompt) or ids[-1] != 0:
            logits = torch.tensor([model.distribution(tuple(ids))])
            ids.append(int(processor(torch.tensor([ids]), logits).argmax()))
        assert ids[len(prompt) :] == greedy(constraint, prompt, model.distribution)


def test_memory_may_be_used_again(constraint):
    """A loop that keeps all ids in one buffer and hands out views of it."""
    processor, buffer = ControlProcessor(constraint), torch.zeros(1, 8, dtype=torch.long)
    buffer[0, 0] = 5
    for length, token in enumerate((1, 2, 3), start=1):
        masked = processor(buffer[:, :length], torch.zeros(1, 12))
        assert masked[0, token] == 0
        buffer[0, length] = token
    assert set(torch.nonzero(processor(buffer[:, :4], torch.zeros(1, 12))[0] == 0).flatten().tolist()) == {0, 1, 4}


def test_nothing_is_left_behind(model, constraint):
    processor = ControlProcessor(constraint)
    for options in ({}, {"num_beams": 3}, {"assistant_model": model}):
        run(model, [[2, 3]], processor, **options)
    gc.collect()
    assert not processor._generations


def test_measurements(model, constraint):
    found = []
    run(model, [[2, 3], [1, 1]], ControlProcessor(constraint, on_step=found.append))
    assert [one.length for one in found] == list(range(len(found)))
    allowed = [1, 2, 4, 6, 8, 11]
    for prompt, mass in zip(([2, 3], [1, 1]), found[0].log_mass.tolist(), strict=True):
        probabilities = torch.tensor(model.distribution(tuple(prompt))).softmax(0)
        assert mass == pytest.approx(float(probabilities[allowed].sum().log()), abs=1e-5)
    assert all(one.seconds > 0 for one in found)


def test_pickling(model):
    processor = ControlProcessor(OneOf(*TEXTS), vocabulary=VOCABULARY)
    wanted = run(model, [[2, 3]], processor)
    assert run(model, [[2, 3]], pickle.loads(pickle.dumps(processor))).tolist() == wanted.tolist()


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("abc",), {}, "constraint is 'abc'; expected a specification"),
        (([],), {}, "list of constraints is empty"),
        ((OneOf("a"),), {}, "needs a tokenizer"),
        ((None,), {"prompt_length": -1}, "prompt_length is -1"),
        ((None,), {"prompt_length": "2"}, "prompt_length is '2'"),
    ],
)
def test_arguments_that_make_no_sense(arguments, options, message):
    with pytest.raises(InputError, match=message):
        ControlProcessor(*arguments, **options)


def test_a_tokenizer_that_is_none():
    with pytest.raises(VocabularyError):
        ControlProcessor(OneOf("a"), 3)


def test_constraints_must_fit_the_rows(model, constraint):
    with pytest.raises(InputError, match="2 constraints for 3 rows"):
        run(model, [[1], [2], [3]], ControlProcessor([constraint, None]))


def test_it_is_a_processor_that_continuous_batching_leaves_out(constraint):
    assert isinstance(ControlProcessor(constraint), LogitsProcessor)
    assert ControlProcessor(constraint).supports_continuous_batching is False


def test_two_lists_at_the_same_time(constraint):
    """Two generations taking turns in one thread, with prompts that begin alike."""
    processor = ControlProcessor(constraint)
    lists = [LogitsProcessorList([processor]), LogitsProcessorList([processor])]
    rows = [[5], [6, 6]]
    for token in (1, 2, 3, 0):
        for one, row in zip(lists, rows, strict=True):
            assert one(torch.tensor([row]), torch.zeros(1, 12))[0, token] == 0
            row.append(token)
    lists.clear()
    one = None
    gc.collect()
    assert not processor._generations


def replayed(constraint, ids):
    states = [FREE if constraint is None else constraint.start]
    for token in ids:
        state = states[-1]
        if state >= 0:
            state = constraint.advance(state, token)
            state = ENDED if state != DEAD and token in constraint.vocabulary.eos else state
        states.append(state)
    return states


@pytest.mark.parametrize("seed", range(20))
def test_following_is_replaying(constraint, seed):
    """Rows that grow, are cut, copied, exchanged and replaced in any way."""
    rng = random.Random(seed)
    kinds = [constraint, constraint, None, Enumerated(VOCABULARY, ["bb", "bcbc"])]
    rows, ids = start(kinds), [[] for _ in kinds]
    for _ in range(30):
        kind = rng.choice(["grow", "grow", "grow", "exchange", "cut", "replace", "same"])
        if kind == "exchange":
            ids[0], ids[1] = (ids[1], ids[0]) if rng.random() < 0.5 else (list(ids[1]), list(ids[1]))
        if kind in ("grow", "exchange"):
            ids = [[*row, rng.choice([0, 1, 2, 3, 5, 7, 11])] for row in ids]
        elif kind == "cut":
            length = rng.randint(0, len(ids[0]))
            ids = [row[:length] for row in ids]
        elif kind == "replace":
            ids = [[rng.choice([1, 2, 3]) for _ in row] for row in ids]
        now = np.array(ids, np.int64).reshape(len(kinds), -1)
        rows = follow(kinds, rows, now)
        assert isinstance(rows, Rows)
        assert rows.paths == [replayed(c, row) for c, row in zip(kinds, ids, strict=True)]
