"""A steerer that changes nothing."""

import torch


class Neutral:
    """Its state is empty and its delta zero."""

    def init(self, prompts):
        return ()

    def delta(self, state, moment):
        return torch.zeros_like(moment.log_p)

    def update(self, state, tokens, alive):
        return ()
