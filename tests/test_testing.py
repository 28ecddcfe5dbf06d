"""The laws catch every kind of broken constraint, and the toys do what they say."""

import math
from collections import Counter

import numpy as np
import pytest
import torch

from ctrlgen.constraint import DEAD
from ctrlgen.errors import UnsatisfiableError
from ctrlgen.testing import Enumerated, ToyLM, ToyTokenizer, allowed, assert_same_language, check_laws, toy_vocabulary

TEXTS = ["abc", "ab", "a c", "é", "abcab"]


@pytest.fixture
def vocabulary():
    return toy_vocabulary()


@pytest.mark.parametrize("texts", [TEXTS, ["a"], ["", "b"], ["abc" * 5, "cab"]])
def test_enumerated_obeys_the_laws(vocabulary, texts):
    check_laws(Enumerated(vocabulary, texts), texts=[*texts, "cc", "abcabcabc"])


def test_enumerated_obeys_the_laws_with_other_widths_and_ends():
    check_laws(Enumerated(toy_vocabulary(width=40), TEXTS), texts=TEXTS)
    check_laws(Enumerated(toy_vocabulary(eos=[0, 10]), TEXTS), texts=TEXTS)
    check_laws(Enumerated(toy_vocabulary(width=6), ["abc", "ab"]), texts=["abc"])


def test_enumerated_refuses_what_no_token_can_finish():
    """After a, the text goes on with bc or d; there is b, but no c."""
    vocabulary = toy_vocabulary([None, b"a", b"b", b"d"])
    constraint = Enumerated(vocabulary, ["abc", "ad"])
    assert allowed(constraint, constraint.advance(constraint.start, 1)) == [3]
    with pytest.raises(UnsatisfiableError):
        Enumerated(vocabulary, ["abc", "c"])


def test_enumerated_counts_the_tokens_to_the_end(vocabulary):
    constraint = Enumerated(vocabulary, ["abc"])
    assert constraint.distance(constraint.start) == 2  # abc in one token, and the end
    after = constraint.advance(constraint.start, 1)
    assert constraint.distance(after) == 2  # bc, and the end
    assert Enumerated(vocabulary, ["a", "aaaa"]).distance(1) == 2


class Broken:
    """Breaks one law, at the state after the text a."""

    def __init__(self, fault, vocabulary):
        self.vocabulary, self.inner, self.fault, self.asked = (
            vocabulary,
            Enumerated(vocabulary, TEXTS),
            fault,
            Counter(),
        )
        self.start = self.inner.start
        self.at = self.inner.advance(self.start, 1)

    def mask(self, state):
        row = self.inner.mask(state)
        if state == self.at:
            row = {
                "empty": lambda: row * 0,
                "one too many": lambda: row | np.uint32(1 << 3),
                "one too few": lambda: row & ~np.uint32(1 << 7),
                "control": lambda: row | np.uint32(1 << 10),
                "past": lambda: row | np.uint32(1 << 20),
                "dtype": lambda: row.astype(np.int64),
                "words": lambda: np.append(row, np.uint32(0)),
            }.get(self.fault, lambda: row)()
        row.flags.writeable = self.fault == "writeable" and row.base is None and row.flags.owndata
        return row

    def advance(self, state, token):
        after = self.inner.advance(state, token)
        if self.fault == "control" and state == self.at and token == 10:
            return self.start
        if self.fault == "cut" and state == self.start and token == 4:
            return self.inner.advance(self.start, 11)  # as if é had come
        if self.fault == "impure" and state == self.at and after != DEAD:
            self.asked[token] += 1  # every other answer is another state, from which the text can end as soon
            return after if self.asked[token] % 2 else self.inner.advance(self.start, 11)
        if self.fault == "after the end" and token == 0 and after != DEAD:
            return self.start
        return after

    def accepts(self, state):
        return self.inner.accepts(state) or (self.fault == "end" and state == self.at)

    def distance(self, state):
        if self.fault == "distance" and state == self.at:
            return 1
        return 0 if self.fault == "no distance" else self.inner.distance(state)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("writeable", "can be written"),
        ("empty", "is empty"),
        ("one too many", r"the mask says True for 3 \(b'c'\), but advance gives DEAD"),
        ("one too few", "the mask says False"),
        ("control", "without bytes"),
        ("past", "past the width"),
        ("dtype", "uint32"),
        ("words", r"not uint32\[1\]"),
        ("cut", r"b'ab'.*cut in two ways"),
        ("impure", "gave .*, then"),
        ("after the end", "after the end id"),
        ("end", "accepts is True"),
        ("distance", "distance is 1"),
        ("no distance", "distance is 0"),
    ],
)
def test_each_broken_law_is_reported(vocabulary, fault, message):
    with pytest.raises(AssertionError, match=message):
        check_laws(Broken(fault, vocabulary))


def test_texts_are_cut_in_several_ways(vocabulary):
    class Picky(Enumerated):
        """Refuses the token abc, although a, b, c are fine."""

        def advance(self, state, token):
            return DEAD if token == 6 else super().advance(state, token)

        def distance(self, state):
            return 1 if self._known[state] is None else 4 - len(self._known[state])

    with pytest.raises(AssertionError, match="lead to different masks"):
        check_laws(Picky(vocabulary, ["abc"]), texts=["abc"])


def test_what_is_no_constraint_is_said_to_be_none():
    with pytest.raises(AssertionError, match="does not follow the protocol"):
        check_laws(3)


def test_a_control_token_may_be_allowed_on_purpose(vocabulary):
    check_laws(Broken("control", vocabulary), controls=[10])


def test_same_language(vocabulary):
    assert_same_language(Enumerated(vocabulary, TEXTS), Enumerated(vocabulary, reversed(TEXTS)))
    with pytest.raises(AssertionError, match="only the right one 0"):
        assert_same_language(Enumerated(vocabulary, ["abc"]), Enumerated(vocabulary, ["abc", "ab"]))


def greedy(distribution, prompt, steps):
    ids = list(prompt)
    for _ in range(steps):
        ids.append(int(np.argmax(distribution(tuple(ids)))))
        if ids[-1] == 0:
            break
    return ids


@pytest.mark.parametrize("options", [{}, {"use_cache": False}, {"num_beams": 1, "num_return_sequences": 1}])
def test_toy_model_decodes_greedily(vocabulary, options):
    model = ToyLM(vocabulary)
    for prompt in ([1], [2, 3], [5, 5, 4]):
        out = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=8, **options)
        assert out[0].tolist() == greedy(model.distribution, prompt, 8)


def test_toy_model_does_not_see_padding(vocabulary):
    model = ToyLM(vocabulary, pad=10)
    ids, mask = torch.tensor([[10, 10, 1], [4, 2, 3]]), torch.tensor([[0, 0, 1], [1, 1, 1]])
    out = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=6).tolist()
    for row, prompt in zip(out, ([1], [4, 2, 3]), strict=True):
        expected = greedy(model.distribution, prompt, 6)[len(prompt) :]
        assert row[3:] == expected + [10] * (len(row) - 3 - len(expected))


def test_toy_model_reorders_its_cache_with_the_beams(vocabulary):
    model = ToyLM(vocabulary)
    runs = [
        model.generate(
            torch.tensor([[1, 2]]),
            num_beams=4,
            num_return_sequences=4,
            max_new_tokens=6,
            do_sample=False,
            use_cache=use,
        )
        for use in (True, False)
    ]
    assert runs[0].tolist() == runs[1].tolist()


def test_toy_model_crops_its_cache(vocabulary):
    model, prompt = ToyLM(vocabulary), torch.tensor([[2, 3]])
    plain = model.generate(prompt, do_sample=False, max_new_tokens=8)
    drafted = model.generate(prompt, do_sample=False, max_new_tokens=8, assistant_model=ToyLM(vocabulary, scale=1.0))
    assert plain.tolist() == drafted.tolist()


def test_toy_model_from_a_table(vocabulary):
    model = ToyLM.from_table(vocabulary, {"": {"a": 0.75, "b": 0.25}, "a": {"": 1.0}})
    logits = model(torch.tensor([[5], [1]]), use_cache=False).logits
    assert logits.shape == (2, 1, 12)
    assert math.isclose(logits[0, -1].softmax(0)[1], 0.75, rel_tol=1e-5)
    assert model.generate(torch.tensor([[5]]), do_sample=False, max_new_tokens=3).tolist() == [[5, 1, 0]]


def test_toy_tokenizer(vocabulary):
    assert ToyTokenizer(vocabulary)("abc é") == {"input_ids": [6, 7, 11]}
