"""The step of STATIC (arXiv 2602.22647), written anew from its description, as the baseline of catalogue.py.

What makes it STATIC is kept: a state a prefix, rows of children in one sparse matrix, every row padded to the
greatest number of children of its level, the first two tokens in dense tables, candidates rather than masks, the
best of all beams by one top-k. Differences in its favour: next states, which are consecutive, are not stored, and
all integers are int64, which spares conversions in every step. The dense step takes all children, not the best 30.
"""

from __future__ import annotations

import numpy as np
import torch

DENSE = 2


class StaticTrie:
    """Sorted distinct items int[N, L] over tokens below ``width``.

    States are int64[R]; level l has one state a distinct prefix of l tokens.
    """

    def __init__(self, items: np.ndarray, width: int) -> None:
        count, length = items.shape
        self.width, self.length = width, length
        first = np.full(count, length, np.int64)  # the level at which an item parts from the one before
        first[0] = 0
        changed = items[1:] != items[:-1]
        first[1:] = np.where(changed.any(1), changed.argmax(1), length)
        self.tokens, self.begin, self.widest, self.columns = [], [], [], []
        parents = np.zeros(1, np.int64)  # the first item of each prefix
        for level in range(length):
            rows = np.flatnonzero(first <= level)
            owner = np.searchsorted(parents, rows, side="right") - 1
            children = np.bincount(owner, minlength=len(parents))
            begin = np.zeros(len(parents) + 1, np.int64)
            np.cumsum(children, out=begin[1:])
            widest = int(children.max())
            padded = np.concatenate([items[rows, level], np.zeros(widest, items.dtype)]).astype(np.int64)
            self.tokens.append(torch.from_numpy(padded))
            self.begin.append(torch.from_numpy(begin))
            self.widest.append(widest)
            self.columns.append(torch.arange(widest))
            parents = rows
        self.dense_next = self._dense(items)

    def _dense(self, items: np.ndarray) -> torch.Tensor:
        """int32[width ** 2], one more than the state after two tokens; 0 where there is none."""
        code = items[:, 0].astype(np.int64) * self.width + items[:, 1]
        table = np.zeros(self.width**DENSE, np.int32)
        distinct = np.unique(code)
        table[distinct] = np.arange(1, len(distinct) + 1)
        return torch.from_numpy(table)

    @property
    def nbytes(self) -> int:
        """Bytes of the tables, with the next states that the original stores beside each token."""
        edges = sum(len(tokens) for tokens in self.tokens)
        return 8 * edges + 4 * sum(len(begin) for begin in self.begin) + 5 * self.width**DENSE

    def step(self, level, states, scores, log_probs, beams):
        """The best ``beams`` of each group of ``beams`` rows: (parents, tokens, scores, states), each [B, beams]."""
        if level == DENSE - 1:
            return self._dense_step(states, scores, log_probs, beams)
        widest = self.widest[level]
        begin = self.begin[level]
        start = begin[states]
        fan = begin[states + 1] - start
        column = self.columns[level]
        place = start[:, None] + column
        tokens = self.tokens[level][place]
        gathered = torch.gather(log_probs, 1, tokens)
        gathered = torch.where(column < fan[:, None], gathered, -torch.inf)
        total = (gathered + scores[:, None]).view(-1, beams * widest)
        values, flat = total.topk(min(beams, total.shape[1]), 1)
        parents = flat // widest + torch.arange(len(total))[:, None] * beams
        column = flat % widest
        return parents, tokens[parents, column], values, place[parents, column]

    def _dense_step(self, states, scores, log_probs, beams):
        """States of level 1 are numbered by the distinct first tokens, which the tokens of level 0 give back."""
        row = self.tokens[0][states]
        after = self.dense_next.view(self.width, self.width)[row]
        total = torch.where(after > 0, log_probs + scores[:, None], -torch.inf).view(-1, beams * self.width)
        values, flat = total.topk(beams, 1)
        parents = flat // self.width + torch.arange(len(total))[:, None] * beams
        token = flat % self.width
        return parents, token, values, after[parents, token].long() - 1
