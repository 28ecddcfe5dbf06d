"""Vocabulary and compilers for tests of serving."""

import ctrlgen as cg
from ctrlgen.serving.compiling import Compiler
from ctrlgen.serving.registry import Limits, Registry

END, OTHER = 257, 258
TOKENS = [*(bytes([byte]) for byte in range(256)), b"ab", None, None]
PATIENT = Limits(seconds=120)
"""The first constraint on a machine waits for its kernels to be compiled."""
VOCABULARY = cg.Vocabulary(TOKENS, eos=[END, OTHER], width=264)


def compiler(**arguments):
    """A compiler over the vocabulary."""
    return Compiler(VOCABULARY, Registry(**{"limits": PATIENT, **arguments}))


def allowed(row):
    """The ids of a mask."""
    return {token for token in range(VOCABULARY.width) if row[token >> 5] >> (token & 31) & 1}
