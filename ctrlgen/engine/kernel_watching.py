"""Places in the trie of the vocabulary."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.kernel_table import ZERO, child, kernel


@kernel
def along(trie, children, text):
    """The node of the trie at the end of ``text``, which some token begins with."""
    v = ZERO
    for i in range(text.shape[0]):
        v = child(trie, children, v, np.int64(text[i]))
    return v
