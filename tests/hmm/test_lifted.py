import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.errors import ComplexityError
from ctrlgen.hmm.lifted import lift
from ctrlgen.testing import Enumerated, toy_vocabulary

SPECIFICATIONS = [
    cg.Regex("[ab]*c"),
    cg.Regex("a(b|ca)+"),
    cg.Regex("(ab|ba){1,3}"),
    cg.Regex("[ab]") >> cg.Choice(["c", "ab"]) | "abc",
    Enumerated(toy_vocabulary(), ("ab", "abc", "ca")),
]


@pytest.mark.parametrize("specification", SPECIFICATIONS, ids=str)
def test_moves_are_those_of_the_constraint(specification):
    vocabulary = toy_vocabulary()
    constraint = specification.compile(vocabulary) if hasattr(specification, "compile") else specification
    lifted, order = lift(constraint, vocabulary.width)
    assert order[0] == constraint.start
    assert len(np.unique(lifted.moves.numpy(), axis=1).T) >= lifted.classes_count - 1
    for place, state in enumerate(order):
        assert bool(lifted.final[place]) == constraint.accepts(state)
        for token in range(vocabulary.width):
            found = int(lifted.after(torch.tensor([place]), torch.tensor([token]))[0])
            after = DEAD if token in vocabulary.eos else constraint.advance(state, token)
            assert (order[found] if found >= 0 else DEAD) == after
    assert lifted.after(torch.tensor([-1, 0]), torch.tensor([0, 10**6])).tolist() == [-1, -1]


@pytest.mark.parametrize("specification", SPECIFICATIONS[:4], ids=str)
def test_all_tokens_at_once(specification):
    constraint = specification.compile(toy_vocabulary())
    every = np.arange(-1, constraint.vocabulary.width + 2)
    for state in (DEAD, *lift(constraint, constraint.vocabulary.width)[1], 0):
        after = [constraint.advance(state, token) for token in every.tolist()]
        assert constraint.advance_each(state, every).tolist() == after


def test_limits():
    constraint = cg.Regex("[ab]{9}").compile(toy_vocabulary())
    with pytest.raises(ComplexityError, match="more than 3 states"):
        lift(constraint, constraint.vocabulary.width, states=3)
    with pytest.raises(ComplexityError, match="more than 5 moves"):
        lift(constraint, constraint.vocabulary.width, moves=5)
