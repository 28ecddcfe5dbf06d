"""Free text and dispatch against languages by enumeration."""

from __future__ import annotations

import itertools
import pickle
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ctrlgen as cg
from ctrlgen.constraint import DEAD, Constraint
from ctrlgen.constraints.combined import Combinable
from ctrlgen.errors import ComplexityError, InputError, VocabularyError
from ctrlgen.testing import allowed, check_laws, toy_vocabulary
from ctrlgen.vocabulary import Vocabulary

LENGTH = 6
MERGED = toy_vocabulary([None, b"a", b"b", b"c", b"ab", b"bc", b"ca", b"abc", b"bab", b"cc", None], eos=[0])
SINGLE = toy_vocabulary([None, b"a", b"b", b"c", None], eos=[0])
CONTROL = Vocabulary([b"a", b"b", b"c", b"ab", b"bca", None, None, None], eos=5, special={"<x>": 6, "<y>": 7})
STRINGS = st.sampled_from(["a", "b", "ab", "ba", "bb", "aba", "abc", "cab", "cc"])
CALLED = st.sampled_from(["", "a", "b", "cb", "aab"])
TEXTS = [bytes(t) for n in range(LENGTH + 1) for t in itertools.product(b"abc", repeat=n)]


def apart(strings: list[str]) -> bool:
    return not any(a in b for i, a in enumerate(strings) for j, b in enumerate(strings) if i != j)


def dispatched(text: bytes, calls: dict[str, set[str]], stops: list[str], least: int, most: int | None) -> set[int]:
    """Ends of all beginnings of ``text`` that a Dispatch reads, by trying everything."""
    triggers = [*calls, *stops]

    @cache
    def ends(start: int, count: int) -> frozenset[int]:
        first = None
        for end in range(start + 1, len(text) + 1):
            first = next((t for t in triggers if text[start:end].endswith(t.encode())), None)
            if first is not None:
                break
        found = set()
        if first is None or not stops:
            stop = len(text) if first is None else 0
            if not stops and first is None and count >= least:
                found.add(stop)
        if first in stops:
            return frozenset({end} if count >= least else ())
        if first is not None and (most is None or count < most):
            for inner in calls[first]:
                if text.startswith(inner.encode(), end):
                    found |= ends(end + len(inner), count + 1)
        return frozenset(found)

    return set(ends(0, 0))


def language(constraint: Constraint, length: int = LENGTH) -> set[bytes]:
    """All texts of at most so many bytes, by walking every sequence of tokens."""
    found, seen, todo = set(), {(b"", constraint.start)}, [(b"", constraint.start)]
    while todo:
        text, state = todo.pop()
        if constraint.accepts(state):
            found.add(text)
        for token in allowed(constraint, state):
            piece = constraint.vocabulary.tokens[token]
            if piece and len(text + piece) <= length:
                item = (text + piece, constraint.advance(state, token))
                if item not in seen:
                    seen.add(item)
                    todo.append(item)
    return found


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        STRINGS, st.frozensets(st.sampled_from(["", "a", "b", "cb", "aab"]), min_size=1), min_size=1, max_size=2
    ),
    st.lists(STRINGS, max_size=1),
    st.integers(0, 1),
    st.sampled_from([None, 1, 2]),
)
def test_a_dispatch_is_its_language(
    calls: dict[str, frozenset[str]], stops: list[str], least: int, most: int | None
) -> None:
    if not apart([*calls, *stops]):
        with pytest.raises(InputError):
            cg.Dispatch(dict.fromkeys(calls), stop=stops or None)
        return
    spec = cg.Dispatch({t: cg.Choice(sorted(c)) for t, c in calls.items()}, stop=stops or None, least=least, most=most)
    wanted = {t for t in TEXTS if len(t) in dispatched(t, {k: set(v) for k, v in calls.items()}, stops, least, most)}
    for vocabulary in (MERGED, SINGLE):
        constraint = spec.compile(vocabulary)
        assert language(constraint) == wanted
        check_laws(constraint, max_states=60)


@settings(max_examples=60, deadline=None)
@given(st.lists(STRINGS, min_size=1, max_size=2), st.lists(STRINGS, max_size=1), st.sampled_from(["", "a", "bc"]))
def test_free_text_ends_at_the_first_trigger(until: list[str], without: list[str], then: str) -> None:
    if not apart([*until, *without]):
        with pytest.raises(InputError, match=r"within|twice"):
            cg.Free(until=until, without=without)
        return
    spec = cg.Free(until=until, without=without) >> then

    def fits(text: bytes) -> bool:
        for end in range(1, len(text) + 1):
            if any(text[:end].endswith(w.encode()) for w in without):
                return False
            if any(text[:end].endswith(u.encode()) for u in until):
                return text[end:] == then.encode()
        return False

    wanted = {text for text in TEXTS if fits(text)}
    for vocabulary in (MERGED, SINGLE):
        constraint = spec.compile(vocabulary)
        assert language(constraint) == wanted
        check_laws(constraint, max_states=60)


def ids_of(constraint: Constraint, length: int) -> set[tuple[int, ...]]:
    """All sequences of at most so many tokens after which the text may end."""
    found, todo = set(), [((), constraint.start)]
    while todo:
        ids, state = todo.pop()
        if constraint.accepts(state):
            found.add(ids)
        if len(ids) < length:
            ends = constraint.vocabulary.eos
            todo += [((*ids, t), constraint.advance(state, t)) for t in allowed(constraint, state) if t not in ends]
    return found


def test_control_tokens_are_ids() -> None:
    x, y, texts = 6, 7, range(5)
    spec = cg.Free(until=cg.Token("<x>"), allow=cg.Token("<y>")) >> "ab"
    constraint = spec.compile(CONTROL)
    check_laws(constraint, controls=[x, y], max_states=60)
    heads = [h for n in range(3) for h in itertools.product([*texts, y], repeat=n)]
    wanted = {(*h, x, *t) for h in heads for t in ((0, 1), (3,)) if len(h) + 1 + len(t) <= 4}
    assert ids_of(constraint, 4) == wanted
    plain = cg.Free(until=cg.Token(6)).compile(CONTROL)
    assert allowed(plain, plain.start) == [*texts, x]
    assert allowed(plain, plain.advance(plain.start, x)) == [5]


def test_control_tokens_beside_strings() -> None:
    spec = cg.Dispatch({cg.Token("<x>"): cg.Choice(["a", "b"]), "bc": "a"}, stop=cg.Token("<y>")) >> "c"
    constraint = spec.compile(CONTROL)
    check_laws(constraint, controls=[6, 7], max_states=80)
    found = ids_of(constraint, 5)
    assert {(7, 2), (6, 0, 7, 2), (4, 7, 2), (6, 1, 2, 7, 2), (1, 2, 0, 7, 2)} <= found
    # "bc" calls for "a" wherever it ends, and a control token within it begins it anew
    assert not {(1, 2, 7, 2), (6, 7, 2), (6, 2, 7, 2), (7, 0), (0,)} & found
    assert (1, 6, 0, 7, 2) in found


def test_a_limit_is_kept() -> None:
    for until, ends in (("ab", {b"ab"}), (cg.EOS, {b""}), (cg.Token("<x>"), {b""})):
        constraint = (cg.Free(until=until, max_tokens=3) >> "cc").compile(CONTROL)
        check_laws(constraint, controls=[6], max_states=200, counts_tokens=True)
        reach = {constraint.start}
        for _ in range(3):
            reach = {constraint.advance(s, t) for s in reach for t in allowed(constraint, s) if t not in (5,)}
        for state in reach:  # after three tokens nothing but the rest is left
            assert constraint.phase(state) is None
            assert len(allowed(constraint, state)) <= 2
        assert ends


def test_leaving_where_the_model_would_end() -> None:
    constraint = (cg.Free(until=cg.EOS) >> cg.Choice(["a", "ab"])).compile(CONTROL)
    state = constraint.start
    assert allowed(constraint, state) == [0, 1, 2, 3, 4]
    state = constraint.advance(state, 1)
    after = constraint.leave(state)
    assert allowed(constraint, after) == [0, 3]
    assert constraint.leave(after) == DEAD
    assert constraint.hurry(state) == after
    assert constraint.distance(state) == constraint.distance(after) == 2
    assert not constraint.accepts(state)


def test_every_state_can_be_hurried() -> None:
    constraint = (cg.Free(until="aba") >> cg.Choice(["c"])).compile(CONTROL)
    state = constraint.start
    for token, rest in ((2, b"abac"), (0, b"bac"), (1, b"ac"), (1, b"abac"), (3, b"ac")):
        state = constraint.advance(state, token)
        assert constraint.witness(constraint.hurry(state)) == rest
        check_laws(_at(constraint, constraint.hurry(state)))


class _at:
    """A constraint that starts elsewhere."""

    def __init__(self, constraint: Constraint, start: int) -> None:
        self.vocabulary, self.start = constraint.vocabulary, start
        for name in ("advance", "mask", "accepts", "distance"):
            setattr(self, name, getattr(constraint, name))


def test_free_text_may_be_anything() -> None:
    vocabulary = Vocabulary([bytes([b]) for b in range(256)] + [b"\xff\xfe", b"<t", b">{", None], eos=259)
    constraint = (cg.Free(until="<t>") >> cg.JsonSchema({"type": "object"})).compile(vocabulary)
    assert allowed(constraint, constraint.start) == list(range(259))
    state = constraint.advance(constraint.start, 257)
    assert 258 in allowed(constraint, state)
    state = constraint.advance(state, 258)
    assert set(allowed(constraint, state)) == {ord('"'), ord("}")}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cg.Free(until=""), "empty string"),
        (lambda: cg.Free(until=[]), "until is empty"),
        (lambda: cg.Free(until=["ab", "b"]), "occurs within"),
        (lambda: cg.Free(until=["ab", "ab"]), "given twice"),
        (lambda: cg.Free(until=5), "until takes"),
        (lambda: cg.Free(until="\ud800"), "surrogate"),
        (lambda: cg.Free(until="a", without="ba"), "occurs within"),
        (lambda: cg.Free(until="a", max_tokens=-1), "max_tokens"),
        (lambda: cg.Free(until="a", max_tokens=True), "max_tokens"),
        (lambda: cg.Free(until=[cg.EOS, cg.EOS]), "given twice"),
        (lambda: cg.Free(until=cg.Token("<x>"), allow=cg.Token("<x>")), "given twice"),
        (lambda: cg.Free(allow="<x>"), "allow takes"),
        (lambda: cg.Free() >> "a", "nothing can follow"),
        (lambda: (cg.Free() | cg.Regex("a")) >> "a", "nothing can follow"),
        (lambda: cg.Free().repeat(1, 2), "cannot be repeated"),
        (lambda: cg.Token(True), "by its name or id"),
        (lambda: cg.Dispatch({}), "a trigger at least"),
        (lambda: cg.Dispatch({"a": cg.Free()}), "free text cannot follow"),
        (lambda: cg.Dispatch({"a": 3}), "cannot be combined"),
        (lambda: cg.Dispatch({"a": "b"}, stop="ab"), "occurs within"),
        (lambda: cg.Dispatch({"a": "b"}, stop=()), "stop is empty"),
        (lambda: cg.Dispatch({"a": "b"}, least=2, most=1), "must not be above"),
        (lambda: cg.Dispatch({3: "b"}), "triggers are"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()  # type: ignore[operator]


def test_other_refusals() -> None:
    with pytest.raises(VocabularyError, match=r"no control token.*'<x>'"):
        cg.Free(until=cg.Token("<z>")).compile(CONTROL)
    with pytest.raises(VocabularyError, match="no control token"):
        cg.Token(0).compile(CONTROL)
    with pytest.raises(VocabularyError, match=r"ctrlgen\.EOS"):
        cg.Token(5).compile(CONTROL)
    with pytest.raises(ComplexityError, match="each byte"):
        (cg.Free(until=cg.EOS) >> "z").compile(CONTROL)
    with pytest.raises(ComplexityError, match="4096"):
        cg.Free(until="a" * 5000)


def test_specifications_are_values() -> None:
    for spec in (
        cg.Free(until=("a", cg.EOS), max_tokens=3, allow=cg.Token("<x>")) >> "b",
        cg.Dispatch({"a": cg.Regex("b+")}, stop=cg.Token(6), most=3),
    ):
        copy: Combinable = pickle.loads(pickle.dumps(spec))
        assert copy == spec and hash(copy) == hash(spec)
        assert copy.compile(CONTROL) is spec.compile(CONTROL)
