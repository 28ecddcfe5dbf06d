"""Second models that say what a table says, and one step of a steerer on a table."""

from __future__ import annotations

import math

import torch
from hypothesis import strategies as st

from ctrlgen.steering.following import begin
from ctrlgen.steering.protocol import Prompts
from ctrlgen.steering.source import Reading, Source
from ctrlgen.steering.steps import steered

numbers = st.floats(-6, 6) | st.just(-math.inf)


class Fixed(Source):
    """The same logits after whatever was read."""

    per_prompt = 0

    def __init__(self, table):
        self.table = torch.as_tensor(table, dtype=torch.float32)

    def init(self, prompts):
        count = len(prompts.rows)
        none = torch.zeros(count, 0, dtype=torch.int64)
        return Reading(none, none, self.table.expand(count, -1), ())

    def update(self, state, tokens, alive):
        return state

    def rewind(self, state, count):
        return state

    def logits(self, state, like):
        return state[2]


def drawn_rows(data, count, width, *, gaps=True):
    """Lists of logits; the first token is possible in each, so that their supports meet."""
    kind = numbers if gaps else st.floats(-6, 6)
    return [
        [data.draw(st.floats(-3, 3)), *data.draw(st.lists(kind, min_size=width - 1, max_size=width - 1))]
        for _ in range(count)
    ]


def one_step(steerer, scores, prompts=((1, 2),), ended=False):
    """float32[B, V]: log-probabilities after one step."""
    scores = torch.as_tensor(scores, dtype=torch.float32)
    rows = tuple(prompts) * (len(scores) // len(prompts))
    followed = begin([steerer], Prompts(rows, scores.device))
    out = steered([steerer], followed, scores, torch.full((len(scores),), ended)).scores
    assert not out.isnan().any()
    return out


def normalised(row, allowed=None):
    """Plain log-softmax of a list, over some places."""
    row = [x if allowed is None or allowed[i] else -math.inf for i, x in enumerate(row)]
    top = max(row)
    total = top + math.log(sum(math.exp(x - top) for x in row))
    return [x - total for x in row]
