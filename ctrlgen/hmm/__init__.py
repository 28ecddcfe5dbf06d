"""Hidden Markov models of what a language model says, and what they foresee.

model.py      HMM: start, transition, emission; the filter
emission.py   b(v | z), dense or sparse on a background
storage.py    files with a card and a checksum, of whole digits or eight bits
sampling.py   texts sampled from a language model
shards.py     those texts on disk
corpus.py     those texts as batches, a part held out
baselines.py  what a model has to beat
em.py         one pass of expectation maximisation
initial.py    clusters and classes that it can begin with
beginning.py  the first model of a fit
workers.py    several processes that fit one model
fitting.py    the whole fit: resumable, in one process or many
library.py    ready models and attributes
terms.py      what is wanted of a text, as a sum of products over its tokens
lifted.py     constraints as automata over token classes
lookahead.py  how the model expects a text to go on
horizon.py    how much is to come
answers.py    what a step of decoding reads of that
attribute.py  attributes of texts, and their compositions
classifier.py attributes from labelled texts
guided.py     rows that are followed, and what they are worth
trace.py      the steerer for attributes
pruning.py    fewer states of a constraint
deco_g.py     the steerer for constraints
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctrlgen.hmm.attribute import Attribute as Attribute
    from ctrlgen.hmm.fitting import Settings as Settings
    from ctrlgen.hmm.fitting import fit as fit
    from ctrlgen.hmm.horizon import Finite as Finite
    from ctrlgen.hmm.horizon import Geometric as Geometric
    from ctrlgen.hmm.horizon import Stationary as Stationary
    from ctrlgen.hmm.horizon import UntilEnd as UntilEnd
    from ctrlgen.hmm.horizon import Window as Window
    from ctrlgen.hmm.model import HMM as HMM
    from ctrlgen.hmm.sampling import sample as sample

_HOME = {
    "Attribute": "attribute",
    "Finite": "horizon",
    "Geometric": "horizon",
    "HMM": "model",
    "Settings": "fitting",
    "Stationary": "horizon",
    "UntilEnd": "horizon",
    "Window": "horizon",
    "fit": "fitting",
    "sample": "sampling",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'ctrlgen.hmm' has no attribute {name!r}")
    return getattr(importlib.import_module(f"ctrlgen.hmm.{_HOME[name]}"), name)
