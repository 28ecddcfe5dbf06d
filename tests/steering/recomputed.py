"""Steerers for tests whose deltas are a function of the ids, and the same from scratch."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def noise(ids, width, scale=1.5):
    rng = np.random.default_rng(zlib.crc32(np.array([7, *ids], np.int64).tobytes()))
    return torch.tensor(scale * rng.standard_normal(width), dtype=torch.float32)


class Noise:
    """A delta drawn from the ids of the row, prompt included; keeps its ids as its state."""

    def __init__(self, width, scale=1.5):
        self.width, self.scale = width, scale
        self.updates = 0

    def init(self, prompts):
        longest = max(map(len, prompts.rows))
        return (torch.tensor([[-1] * (longest - len(row)) + list(row) for row in prompts.rows]),)

    def delta(self, state, moment):
        rows = [[i for i in row if i >= 0] for row in state[0].tolist()]
        return torch.stack([noise(row, self.width, self.scale) for row in rows])

    def update(self, state, tokens, alive):
        self.updates += 1
        return (torch.cat([state[0], torch.where(alive, tokens, -1)[:, None]], 1),)


class RewindingNoise(Noise):
    """The same with ``rewind``, so that no earlier state is kept."""

    def rewind(self, state, count):
        return (state[0][:, : state[0].shape[1] - count],)


class Ledger(Noise):
    """Counts its steps: its delta depends on what earlier deltas were."""

    def init(self, prompts):
        return (*super().init(prompts), torch.zeros(len(prompts.rows)))

    def delta(self, state, moment):
        return super().delta(state[:1], moment) * (1 + state[1])[:, None]

    def record(self, state, moment, delta):
        return state[0], state[1] + delta[:, 3].tanh()

    def update(self, state, tokens, alive):
        return (*super().update(state[:1], tokens, alive), state[1])
