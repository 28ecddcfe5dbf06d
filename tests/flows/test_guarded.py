"""What the guard changed is reported step by step."""

import pytest

import ctrlgen as cg
from ctrlgen.testing import ToyLM, ToyTokenizer
from ctrlgen.vocabulary import Vocabulary

VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), None, b"numpy", b"bad", b"pip install "], eos=[256])
GUARD = cg.PackageGuard(["numpy", "nada"])


def saying(text, begun=2):
    """A model that wants to say this after a prompt of ``begun`` tokens, and then to end."""
    ids = [*VOCABULARY.encode_greedy(text.encode()), 256]

    def after(seen):
        row = [0.0] * VOCABULARY.width
        place = len(seen) - begun
        row[ids[place] if place < len(ids) else 256] = 9.0
        row[256] += 4.0
        row[257] += 2.0
        return row

    return ToyLM(VOCABULARY, after)


def test_names_that_are_listed_pass_without_a_word():
    made = cg.guarded(saying("pip install numpy\n"), ToyTokenizer(VOCABULARY), "a ", GUARD, vocabulary=VOCABULARY)
    assert made.text == "pip install numpy\n"
    assert made.interventions == ()
    assert made.result.finished


def test_what_was_wanted_and_what_came():
    made = cg.guarded(saying("pip install bad\n"), ToyTokenizer(VOCABULARY), "a ", GUARD, vocabulary=VOCABULARY)
    first = made.interventions[0]
    assert (first.step, first.start, first.wanted) == (1, 12, "bad")
    assert GUARD.check(made.text) == []


def test_a_prompt_that_begins_a_command_counts():
    options = {"vocabulary": VOCABULARY, "max_new_tokens": 8}
    made = cg.guarded(saying("x", 1), ToyTokenizer(VOCABULARY), "pip install ", GUARD, **options)
    assert made.interventions[0].wanted == "x"
    several = cg.guarded(saying("x", 1), ToyTokenizer(VOCABULARY), ["pip install ", "g"], GUARD, **options)
    assert several[0].interventions
    assert not several[1].interventions


def test_samples_have_reports_of_their_own():
    made = cg.guarded(
        saying("pip install bad\n"), ToyTokenizer(VOCABULARY), "a ", GUARD, vocabulary=VOCABULARY,
        num_return_sequences=3, do_sample=True, seed=1, max_new_tokens=12,
    )  # fmt: skip
    assert len(made.alternatives) == 2
    for one in (made, *made.alternatives):
        for change in one.interventions:
            assert change.start <= len(one.text)
        if one.result.finished:
            assert GUARD.check(one.text) == []


def test_beams_are_refused():
    with pytest.raises(cg.InputError, match="without beams"):
        cg.guarded(saying("x"), ToyTokenizer(VOCABULARY), "a ", GUARD, vocabulary=VOCABULARY, num_beams=2)
