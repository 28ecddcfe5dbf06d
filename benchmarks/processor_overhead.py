"""What one call of ControlProcessor costs beyond applying the mask.

    OMP_NUM_THREADS=1 python benchmarks/processor_overhead.py

The logits are 64 wide, so that next to nothing is left of the mask itself. Times are the fastest tenth of the steps,
in microseconds; "beams" means that rows change places at every step.
"""

import time

import numpy as np
import torch
from transformers import LogitsProcessorList

from ctrlgen.engine.masks import apply_masks
from ctrlgen.processor import ControlProcessor
from ctrlgen.vocabulary import Vocabulary

WIDTH, STEPS = 64, 300


class Constant:
    """The same mask in every state."""

    start = 1

    def __init__(self):
        self.vocabulary = Vocabulary([*(bytes([65 + i]) for i in range(WIDTH - 1)), None], eos=[WIDTH - 1])
        self.row = np.full(self.vocabulary.words, 0x0F0F0F0F, np.uint32)

    def advance(self, state, token):
        return state

    def mask(self, state):
        return self.row

    def accepts(self, state):
        return False

    def distance(self, state):
        return 1


class Alone(LogitsProcessorList):
    """Without what transformers itself does for each processor."""

    def __call__(self, input_ids, scores):
        return self[0](input_ids, scores)


def measure(rows: int, prompt: int, *, beams: bool) -> tuple[float, float]:
    """(whole call, mask alone)"""
    constraint = Constant()
    processors = Alone([ControlProcessor(constraint)])
    scores, ids = torch.randn(rows, WIDTH), torch.randint(0, WIDTH - 1, (rows, prompt))
    calls, masks = [], []
    for step in range(STEPS):
        begun = time.perf_counter()
        processors(ids, scores)
        calls.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        apply_masks(scores, [constraint.row] * rows)
        masks.append(time.perf_counter() - begun)
        ids = torch.cat([ids, torch.randint(0, WIDTH - 1, (rows, 1))], 1)
        if beams and step:
            ids = ids[torch.randperm(rows)]
    return sorted(calls)[STEPS // 10] * 1e6, sorted(masks)[STEPS // 10] * 1e6


def main() -> None:
    torch.set_num_threads(1)
    for rows in (1, 8, 32):
        for prompt, beams in ((100, False), (2000, False), (100, True)):
            call, mask = measure(rows, prompt, beams=beams)
            kind = "beams" if beams else ""
            print(
                f"{rows:3} rows, prompt {prompt:4} {kind:5} call {call:6.1f}  mask {mask:5.1f}  rest {call - mask:5.1f}"
            )


if __name__ == "__main__":
    main()
