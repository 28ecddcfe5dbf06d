"""Hidden Markov models of what a language model says, and what they foresee.

model.py      HMM: start, transition, emission; the filter
emission.py   b(v | z), dense or sparse on a background
storage.py    files with a card and a checksum, of whole digits or eight bits
sample.py     texts sampled from a language model
shards.py     those texts on disk
em.py         one pass of expectation maximisation
initial.py    where it begins
terms.py      what is wanted of a text, as a sum of products over its tokens
lifted.py     constraints as automata over token classes
lookahead.py  how the model expects a text to go on
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlgen.hmm.model import HMM as HMM
    from ctrlgen.hmm.sample import sample as sample

_HOME = {"HMM": "model", "sample": "sample"}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ctrlgen.hmm' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ctrlgen.hmm.{_HOME[name]}"), name)
