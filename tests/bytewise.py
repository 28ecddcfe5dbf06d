"""Constraints byte by byte, beside the same over longer tokens."""

from ctrlgen.constraint import DEAD
from ctrlgen.testing import allowed


def state_after(constraint, text, state=None):
    """The state after ``text`` (from the start, or from ``state``), over a vocabulary whose first ids are the bytes."""
    state = constraint.start if state is None else state
    for byte in text:
        state = constraint.advance(state, byte)
        if state == DEAD:
            return DEAD
    return state


def check_rows(constraint, plain, heads):
    """After each head, the rows and moves of ``constraint`` are what the bytes of its tokens do in ``plain``."""
    for head in heads:
        state, other = state_after(constraint, head), state_after(plain, head)
        assert (state == DEAD) == (other == DEAD)
        if state == DEAD:
            continue
        row = set(allowed(constraint, state))
        for token, piece in enumerate(constraint.vocabulary.tokens):
            if piece:
                after = state_after(plain, piece, other)
                assert (token in row) == (after != DEAD), (head, piece)
                assert (token in row) == (constraint.advance(state, token) != DEAD)
