import numpy as np
import pytest
import torch

import ctrlgen as cg
from ctrlgen.constraint import DEAD
from ctrlgen.errors import ComplexityError
from ctrlgen.hmm.lifted import lift
from ctrlgen.testing import toy_vocabulary


@pytest.mark.parametrize("pattern", ["[ab]*c", "a(b|ca)+", "(ab|ba){1,3}"])
def test_moves_are_those_of_the_constraint(pattern):
    vocabulary = toy_vocabulary()
    constraint = cg.Regex(pattern).compile(vocabulary)
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


def test_limits():
    constraint = cg.Regex("[ab]{9}").compile(toy_vocabulary())
    with pytest.raises(ComplexityError, match="more than 3 states"):
        lift(constraint, constraint.vocabulary.width, states=3)
    with pytest.raises(ComplexityError, match="more than 5 moves"):
        lift(constraint, constraint.vocabulary.width, moves=5)
