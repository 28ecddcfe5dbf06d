"""The laws of ``ctrlgen.constraint`` as functions that raise."""

from __future__ import annotations

import random
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.constraint import DEAD, Constraint

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from ctrlgen.vocabulary import Vocabulary


def check_laws(
    constraint: Constraint,
    *,
    texts: Iterable[bytes | str] = (),
    controls: Collection[int] = (),
    max_states: int = 500,
    max_tokens: int = 512,
    seed: int = 0,
    counts_tokens: bool = False,
) -> None:
    """Raise unless the laws of ``ctrlgen.constraint`` hold in the states that can be reached.

    States are visited breadth first, all tokens of a small vocabulary and a sample of a large one.

    Args:
        constraint: what to check.
        texts: texts to cut into tokens in several ways; they need not be allowed.
        controls: ids of control tokens that this constraint allows on purpose.
        max_states: number of states to visit.
        max_tokens: number of tokens to try in each state.
        seed: of the samples.
        counts_tokens: the constraint limits a number of tokens, so that cuts matter (the one exception to law 5).

    Raises:
        AssertionError: a law is broken; the message says which, the text so far, and the token.
    """
    rng = random.Random(seed)
    assert isinstance(constraint, Constraint), f"{type(constraint).__name__} does not follow the protocol Constraint"
    reached = list(_reach(constraint, max_states, max_tokens, rng))
    for text, state in reached:
        where = f"state {state}, after {text!r}" if text is not None else f"state {state}, after the end"
        _check_mask(constraint, state, where, controls, max_tokens, rng)
        _check_end(constraint, state, where)
        _check_distance(constraint, state, where, rng)
    if not counts_tokens:
        _check_cuts(constraint, reached)
    for one in texts:
        _check_spellings(constraint, one.encode() if isinstance(one, str) else one, rng)
    _check_purity(constraint, reached, rng)


def assert_same_language(left: Constraint, right: Constraint, *, max_states: int = 500) -> None:
    """Raise unless both allow the same tokens after every sequence of tokens, up to a number of pairs of states.

    Raises:
        AssertionError: the message shows a text after which they differ, and how.
    """
    pairs, waiting = {(left.start, right.start)}, deque([(b"", left.start, right.start)])
    while waiting:
        text, a, b = waiting.popleft()
        ours, theirs = set(allowed(left, a)), set(allowed(right, b))
        assert ours == theirs, (
            f"after {text!r} only the left constraint allows {_shown(left, ours - theirs)}, "
            f"only the right one {_shown(left, theirs - ours)}"
        )
        for token in sorted(ours):
            pair = (left.advance(a, token), right.advance(b, token))
            if pair not in pairs and len(pairs) < max_states:
                pairs.add(pair)
                waiting.append((text + (_bytes_of(left.vocabulary, token) or b""), *pair))


def allowed(constraint: Constraint, state: int) -> list[int]:
    """The ids whose bit is set in the mask of ``state``, ascending."""
    bits = np.unpackbits(constraint.mask(state).view(np.uint8), bitorder="little")
    ids: list[int] = np.flatnonzero(bits).tolist()
    return ids


def _reach(
    constraint: Constraint, max_states: int, max_tokens: int, rng: random.Random
) -> Iterator[tuple[bytes | None, int]]:
    """States with a text that leads there, breadth first; None for the text of states after an end token.

    The same state may come with several texts, and the same text with several states.
    """
    start: tuple[bytes | None, int] = (b"", constraint.start)
    seen, waiting = {start}, deque([start])
    while waiting:
        text, state = waiting.popleft()
        yield text, state
        for token in _sample(allowed(constraint, state), max_tokens, rng):
            ended = text is None or token in constraint.vocabulary.eos
            # a control token is no text: byte 255, which UTF-8 never has, keeps it apart
            piece = _bytes_of(constraint.vocabulary, token) or b"\xff%d" % token
            longer = None if ended or text is None else text + piece
            item = (longer, constraint.advance(state, token))
            if item[1] != DEAD and item not in seen and len(seen) < max_states:
                seen.add(item)
                waiting.append(item)


def _check_mask(
    constraint: Constraint,
    state: int,
    where: str,
    controls: Collection[int],
    max_tokens: int,
    rng: random.Random,
) -> None:
    vocabulary, mask, taken = constraint.vocabulary, constraint.mask(state), allowed(constraint, state)
    shape = f"{mask.dtype}{list(mask.shape)}"
    assert shape == f"uint32[{vocabulary.words}]", f"{where}: mask is {shape}, not uint32[{vocabulary.words}]"
    assert not mask.flags.writeable, f"{where}: the mask can be written to"
    assert taken, f"{where}: the mask is empty"
    assert taken[-1] < vocabulary.width, f"{where}: id {taken[-1]} is past the width {vocabulary.width}"
    strange = set(taken) - _texts(vocabulary) - set(vocabulary.eos) - set(controls)
    assert not strange, f"{where}: allows ids without bytes: {_shown(constraint, strange)}"
    # the edges, the first and last allowed, and a sample of both kinds
    tokens = {0, vocabulary.width - 1, *vocabulary.eos, taken[0], taken[-1], *_sample(taken, max_tokens, rng)}
    tokens |= set(_sample(range(vocabulary.width), max_tokens, rng))
    members = set(taken)
    for token in sorted(tokens):
        after = constraint.advance(state, token)
        assert (after != DEAD) == (token in members), (
            f"{where}: the mask says {token in members} for {_shown(constraint, [token])}, "
            f"but advance gives {'DEAD' if after == DEAD else after}"
        )


def _check_end(constraint: Constraint, state: int, where: str) -> None:
    ends = set(constraint.vocabulary.eos)
    taken = ends & set(allowed(constraint, state))
    wanted = ends if constraint.accepts(state) else set()
    assert taken == wanted, f"{where}: accepts is {bool(wanted)}, but of the end ids {sorted(ends)} {taken} are allowed"
    for token in taken:
        after = set(allowed(constraint, constraint.advance(state, token)))
        assert after == ends, f"{where}: after the end id {token}, {_shown(constraint, after - ends)} are allowed"


def _check_distance(constraint: Constraint, state: int, where: str, rng: random.Random) -> None:
    distance, ends, best = constraint.distance(state), constraint.vocabulary.eos, None
    assert distance >= 1, f"{where}: distance is {distance}; the end token alone takes 1"
    left = constraint.leave(state) if hasattr(constraint, "leave") else DEAD
    if left != DEAD and constraint.distance(left) <= distance:
        return  # a free text that waits for the end token is left without a token
    for token in _likely_nearer(constraint, state, rng):
        left = 1 + (0 if token in ends else constraint.distance(constraint.advance(state, token)))
        best = left if best is None else min(best, left)
        if best <= distance:
            return
    raise AssertionError(f"{where}: distance is {distance}, but every allowed token leaves {best} or more in all")


def _likely_nearer(constraint: Constraint, state: int, rng: random.Random) -> Iterator[int]:
    """The allowed tokens, first those that most often bring the end nearer: ends, then single bytes."""
    taken = allowed(constraint, state)
    singles = _single_bytes(constraint.vocabulary)
    first = [token for token in taken if token in constraint.vocabulary.eos or token in singles]
    yield from sorted(first, key=lambda token: token not in constraint.vocabulary.eos)
    yield from rng.sample(taken, len(taken))


@lru_cache(maxsize=8)
def _texts(vocabulary: Vocabulary) -> frozenset[int]:
    return frozenset(token for token, piece in enumerate(vocabulary.tokens) if piece)


@lru_cache(maxsize=8)
def _single_bytes(vocabulary: Vocabulary) -> frozenset[int]:
    return frozenset(token for token, piece in enumerate(vocabulary.tokens) if piece and len(piece) == 1)


def _check_cuts(constraint: Constraint, reached: Sequence[tuple[bytes | None, int]]) -> None:
    """However the same bytes were cut, the same may follow."""
    first: dict[bytes | None, int] = {}
    for text, state in reached:
        other = first.setdefault(text, state)
        if other == state:
            continue
        a, b = set(allowed(constraint, other)), set(allowed(constraint, state))
        assert a == b, (
            f"after {text!r}, cut in two ways: states {other} and {state}; "
            f"only one of them allows {_shown(constraint, a ^ b)}"
        )


def _check_spellings(constraint: Constraint, text: bytes, rng: random.Random, tries: int = 8) -> None:
    """Random cuts of ``text`` are all refused, or all lead to the same mask."""
    outcomes: dict[frozenset[int] | None, list[int]] = {}
    for _ in range(tries):
        if (path := _spell(constraint.vocabulary, text, rng)) is None:
            continue
        state = constraint.start
        for token in path:
            state = DEAD if state == DEAD else constraint.advance(state, token)
        outcomes.setdefault(None if state == DEAD else frozenset(allowed(constraint, state)), path)
    shown = " and ".join(map(str, outcomes.values()))
    assert len(outcomes) <= 1, f"{text!r} cut as {shown}: these lead to different masks (or one is refused)"


def _spell(vocabulary: Vocabulary, text: bytes, rng: random.Random) -> list[int] | None:
    """Ids that spell ``text``, chosen at random; None where the choice ran into a corner."""
    ids_of: dict[bytes, list[int]] = {}
    for token, piece in enumerate(vocabulary.tokens[: vocabulary.width]):
        if piece and piece in text:
            ids_of.setdefault(piece, []).append(token)
    path, at = [], 0
    while at < len(text):
        ends = [end for end in range(at + 1, len(text) + 1) if text[at:end] in ids_of]
        if not ends:
            return None
        end = rng.choice(ends)
        path.append(rng.choice(ids_of[text[at:end]]))
        at = end
    return path


def _check_purity(constraint: Constraint, reached: Sequence[tuple[bytes | None, int]], rng: random.Random) -> None:
    """Asked again, in another order, everything gives the same answer."""
    asked = []
    for _, state in reached:
        token = rng.choice(allowed(constraint, state))
        asked.append((state, token, constraint.advance(state, token), constraint.mask(state).tobytes()))
    for state, token, after, mask in rng.sample(asked, len(asked)):
        again = constraint.advance(state, token)
        assert again == after, f"state {state}: advance over id {token} gave {after}, then {again}"
        assert constraint.mask(state).tobytes() == mask, f"state {state}: its mask has changed"


def _sample(tokens: Sequence[int], count: int, rng: random.Random) -> list[int]:
    return list(tokens) if len(tokens) <= count else sorted(rng.sample(tokens, count))


def _bytes_of(vocabulary: Vocabulary, token: int) -> bytes | None:
    return vocabulary.tokens[token] if token < len(vocabulary.tokens) else None


def _shown(constraint: Constraint, tokens: Iterable[int], most: int = 8) -> str:
    ids = sorted(tokens)
    parts: list[Any] = [f"{token} ({_bytes_of(constraint.vocabulary, token)!r})" for token in ids[:most]]
    return ", ".join(parts) + (f" and {len(ids) - most} more" if len(ids) > most else "") or "nothing"
