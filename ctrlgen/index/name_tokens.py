"""The tokens of a vocabulary that some alphabet can spell, as a trie whose nodes lie breadth first.

The names of a catalogue use few bytes, and most tokens of a vocabulary hold another one: of 333,107 nodes of qwen3's
trie 33,125 are left for the names of packages, which makes the walk along them several times as fast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.index import name_kernels
from ctrlgen.index.compiled import compiled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ctrlgen.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class NameTokens:
    """A byte trie of V nodes; node 0 is the root.

    Attributes:
        label: u8[V], the byte that leads to each node.
        first: u32[V + 1], the children of node v are first[v] .. first[v + 1], in the order of their bytes.
        held: u32[V + 1], the tokens that end at node v are kept[held[v] : held[v + 1]].
        kept: int32[M], token ids.
    """

    label: NDArray[np.uint8]
    first: NDArray[np.uint32]
    held: NDArray[np.uint32]
    kept: NDArray[np.int32]

    @classmethod
    def of(cls, vocabulary: Vocabulary, alphabet: Iterable[int]) -> NameTokens:
        """The text tokens of ``vocabulary`` that consist of bytes of ``alphabet``."""
        trie = vocabulary.trie
        wanted = np.zeros(256, bool)
        wanted[list(alphabet)] = True
        count = len(trie.nodes)
        label, kept = np.empty(count, np.uint8), np.empty(len(trie.tokens), np.int32)
        first, held = np.empty(count + 1, np.uint32), np.empty(count + 1, np.uint32)
        nodes, tokens = compiled(name_kernels.narrow)(
            trie.nodes, trie.tokens, wanted, trie.longest, label, first, held, kept
        )
        return cls(label[:nodes].copy(), first[: nodes + 1].copy(), held[: nodes + 1].copy(), kept[:tokens].copy())

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """The arrays in the order in which kernels take them."""
        return self.label, self.first, self.held, self.kept
