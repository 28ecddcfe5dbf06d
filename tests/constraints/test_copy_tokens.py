"""Copies of tokens against all parts of a sequence, one by one."""

from __future__ import annotations

import itertools
import pickle
import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.constraints.copy_tokens import CopyTokens, TokenParts
from ctrlgen.errors import InputError, UnsatisfiableError, VocabularyError
from ctrlgen.testing import ToyLM, ToyTokenizer, check_laws
from ctrlgen.vocabulary import Vocabulary
from tests.threads import interleaved

VOCABULARY = Vocabulary([b"a", b"b", b"ab", b"ba", b" ", None, None], eos=(5, 6), width=40)
sequences = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=9), min_size=1, max_size=3)


def parts(ids: list[list[int]], least: int, most: int | None) -> set[tuple[int, ...]]:
    """Each part, found by looking at every place."""
    limit = max(map(len, ids)) if most is None else most
    found = {tuple(one[i:j]) for one in ids for i in range(len(one)) for j in range(i + 1, len(one) + 1)}
    return {part for part in found if least <= len(part) <= limit} | ({()} if least == 0 else set())


def allowed(constraint: cg.Constraint, state: int) -> set[int]:
    bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@settings(max_examples=300, deadline=None)
@given(sequences, st.integers(0, 4), st.none() | st.integers(1, 5))
def test_exactly_the_parts_can_be_said(ids: list[list[int]], least: int, most: int | None) -> None:
    if most is not None and most < least:
        least = most
    wanted = parts(ids, least, most)
    if not wanted:
        with pytest.raises(UnsatisfiableError):
            CopyTokens(ids, least=least, most=most)
        return
    constraint = CopyTokens(ids, least=least, most=most).compile(VOCABULARY)
    beginnings = {part[:n] for part in wanted for n in range(len(part) + 1)}
    todo: list[tuple[tuple[int, ...], int]] = [((), constraint.start)]
    seen = set()
    while todo:
        text, state = todo.pop()
        seen.add(text)
        assert constraint.accepts(state) == (text in wanted)
        nearest = min(len(part) for part in wanted if part[: len(text)] == text) - len(text)
        assert constraint.distance(state) == nearest + 1
        going_on = {token for token in range(5) if (*text, token) in beginnings}
        assert allowed(constraint, state) == going_on | ({5, 6} if text in wanted else set())
        for token in range(-1, 45):
            after = constraint.advance(state, token)
            assert (after != DEAD) == (token in allowed(constraint, state))
            if token in going_on:
                todo.append(((*text, token), after))
    assert seen == beginnings


@settings(max_examples=60, deadline=None)
@given(sequences, st.integers(0, 3), st.none() | st.integers(3, 5))
def test_laws(ids: list[list[int]], least: int, most: int | None) -> None:
    if max(map(len, ids)) >= least:
        check_laws(CopyTokens(ids, least=least, most=most).compile(VOCABULARY), counts_tokens=True)


def test_many_edges_make_the_same_rows_as_few() -> None:
    vocabulary = Vocabulary([bytes([b]) for b in range(200)] + [None], eos=200)
    ids = np.random.default_rng(0).integers(0, 200, 3000)
    constraint = CopyTokens(ids).compile(vocabulary)
    assert allowed(constraint, constraint.start) == set(ids.tolist())
    for token in (3, 77):
        state = constraint.advance(constraint.start, token)
        followers = {int(b) for a, b in itertools.pairwise(ids) if a == token}
        assert allowed(constraint, state) == followers | {200}


@pytest.mark.parametrize(
    ("ids", "error", "words"),
    [
        ("a text", InputError, "input_ids"),
        (3, InputError, "sequence"),
        (np.array(3), InputError, "sequence"),
        ({1, 2}, InputError, "sequence"),
        ({1: 2}, InputError, "sequence"),
        (bytearray(b"ab"), InputError, "input_ids"),
        ([1, True], InputError, r"ids\[1\]"),
        ([[0], [1, -2]], InputError, r"ids\[2\] is -2"),
        (itertools.repeat(0), InputError, "more than"),
        ([1.0], InputError, "no token id"),
        ([], UnsatisfiableError, "nothing to copy"),
        ([[], []], UnsatisfiableError, "nothing to copy"),
    ],
)
def test_what_is_refused(ids: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        CopyTokens(ids)  # type: ignore[arg-type]


@pytest.mark.parametrize("one", [7, [7], [], [7] * 1000, np.full(1000, 7)], ids=["ids", "one", "none", "many", "array"])
def test_what_never_ends_is_refused(one: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrlgen.constraints.copy_tokens.MAX_TOKENS", 5000)
    with pytest.raises(InputError, match="more than 5000 tokens"):
        CopyTokens(itertools.repeat(one))
    read = iter(range(10**9))
    with pytest.raises(InputError, match="more than 5000 tokens"):
        CopyTokens(read)
    assert next(read) == 5001


@pytest.mark.parametrize(("least", "most"), [(-1, None), (2, 1), (0, 0), (True, None), (1, 2.0)])
def test_limits_that_make_no_sense(least: int, most: int | None) -> None:
    with pytest.raises(InputError, match="least"):
        CopyTokens([1, 2], least=least, most=most)


@pytest.mark.parametrize(("token", "words"), [(5, "end token"), (39, "no text token"), (400, "no text token")])
def test_ids_that_are_no_text(token: int, words: str) -> None:
    with pytest.raises(VocabularyError, match=f"id {token}, at place 2, is {'an ' if 'end' in words else ''}{words}"):
        CopyTokens([0, 1, token]).compile(VOCABULARY)


@pytest.mark.parametrize(
    "make",
    [
        lambda one: one >> "x",
        lambda one: "x" >> one,
        lambda one: one | "x",
        lambda one: one & cg.Regex("x"),
        lambda one: one.optional(),
        lambda one: cg.Regex("x") >> one,
    ],
)
def test_it_cannot_be_combined(make: Callable[[CopyTokens], object]) -> None:
    with pytest.raises(InputError, match=r"CopyTokens\(2 tokens, least=1\) cannot be combined"):
        make(CopyTokens([0, 1]))


def test_threads_that_evict_rows_interleaved() -> None:
    constraint = TokenParts(CopyTokens(range(200)), Vocabulary([*(b"%d;" % i for i in range(200)), None], eos=[200]))
    constraint._rows.most = 4
    wanted = [constraint.mask(state).tobytes() for state in range(200)]

    def work(number: int) -> None:
        rng = random.Random(number)
        for state in rng.choices(range(200), k=4000):
            assert constraint.mask(state).tobytes() == wanted[state]

    interleaved(work, 6)


def test_it_is_a_value() -> None:
    spec = CopyTokens([0, 1, 2], most=2)
    assert pickle.loads(pickle.dumps(spec)) == spec == cg.CopyTokens(np.array([0, 1, 2]), most=2)
    assert spec.compile(VOCABULARY) is CopyTokens([[0, 1, 2]], most=2).compile(VOCABULARY)
    assert repr(spec) == "CopyTokens(3 tokens, least=1, most=2)"


def test_in_generate_every_part_ends_in_time() -> None:
    ids = [[0, 2, 4, 1, 3, 4, 2]]
    for budget in (3, 4, 9):
        for one in cg.generate(
            ToyLM(VOCABULARY, scale=3.0), ToyTokenizer(VOCABULARY), ["a", "ab a"], CopyTokens(ids, least=2),
            max_new_tokens=budget, vocabulary=VOCABULARY, do_sample=True, seed=budget, num_return_sequences=3,
        ):  # fmt: skip
            for result in [one, *one.alternatives]:
                assert result.finished
                assert tuple(result.token_ids[:-1]) in parts(ids, 2, None)


def test_long_contexts_cost_little() -> None:
    vocabulary = Vocabulary([bytes([a, b]) for a in range(256) for b in range(125)] + [None], eos=32000)
    ids = np.random.default_rng(1).integers(0, 32000, 40_000)
    TokenParts(CopyTokens(ids[:100]), vocabulary)  # kernels
    begun = time.process_time()
    constraint = TokenParts(CopyTokens(ids), vocabulary)
    built = time.process_time() - begun
    begun = time.process_time()
    state = constraint.start
    for token in ids[1000:3000]:
        constraint.mask(state)
        state = constraint.advance(state, int(token))
    assert state != DEAD
    assert built < 5 and (time.process_time() - begun) / 2000 < 1e-3


@pytest.mark.model
def test_with_the_real_model(smollm2) -> None:  # type: ignore[no-untyped-def]
    model, tokenizer = smollm2
    context = "Ada Lovelace wrote the first program in 1843, for a machine that was never built."
    ids = tokenizer(context, add_special_tokens=False)["input_ids"]
    for one in cg.generate(
        model, tokenizer, ["Who wrote it?", "When was the first program written, and by whom?"],
        cg.CopyTokens(ids, least=2, most=9), max_new_tokens=10, chat=True,
    ):  # fmt: skip
        assert one.finished
        assert one.text in context
        assert tuple(one.token_ids[:-1]) in parts([ids], 2, 9)
