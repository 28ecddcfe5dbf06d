"""What every network begins with: room for its arrays in one block, and the nodes that all have."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine import columns as kinds
from ctrlgen.engine.containers import FAR
from ctrlgen.engine.growing import Layout
from ctrlgen.engine.lexicon import LEXICON_ARRAYS

# the arrays by their numbers in ``kernel_table.NETWORK_COLUMNS``
FRAMES, SIZES, PAIRS, RECORDS, RECORD_BUCKETS = 2, 4, 5, 7, 8
FIRST_NODES = ((kinds.END, 0), (kinds.RETURN, 0), (kinds.BEGIN_NAME, FAR), (kinds.ITEM, FAR))
"""The nodes of every network, and their cost."""
LAYOUT = Layout(
    LEXICON_ARRAYS,
    (
        *((5, np.int64, 192), (3, np.int64, 192)),  # nodes, edges
        *((7, np.int64, 512), (0, np.int64, 512), (0, np.int64, 4)),  # frames, their buckets, sizes
        *((4, np.int64, 256), (0, np.int64, 256)),  # pairs, their buckets
        *((0, np.int64, 1024), (0, np.int64, 64)),  # records, their buckets
        *((17, np.int64, 4), (5, np.int64, 64), (2, np.int64, 64), (4, np.int64, 64)),  # objects, slots, ways, names
        *((2, np.int64, 8), (5, np.int64, 8), (0, np.int64, 32), (0, np.uint8, 768)),  # classes, arrays, items, letters
        *((6, np.int32, 1), (2, np.int32, 1)),  # spans and their edges
    ),
    {0: [(kind, 0, 0, -1, 0) for kind, _ in FIRST_NODES], SIZES: [1, 1, 1, 0]},
)
GROWING = [(number, part) for number, part in enumerate(LAYOUT.parts) if not FRAMES <= number <= RECORD_BUCKETS]
