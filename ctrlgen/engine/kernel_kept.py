"""The row of a configuration, written and kept in one call."""

from __future__ import annotations

import numpy as np
from numba import carray

from ctrlgen.engine.columns import NAME
from ctrlgen.engine.kernel_fill import fill
from ctrlgen.engine.kernel_objects import any_other
from ctrlgen.engine.kernel_recipes import (
    BASE,
    COUNT,
    ENDINGS,
    ERA,
    ROW,
    WRITTEN,
    carry_out,
    forget,
    note,
    place_of,
    remember,
)
from ctrlgen.engine.kernel_recipes import STRIDE as STRIDE32
from ctrlgen.engine.kernel_rows import ENDS, FREE, ROWS, STRIDE, free_row, keep
from ctrlgen.engine.kernel_rows import ERA as ROWS_ERA
from ctrlgen.engine.kernel_table import (
    DOUBTS,
    FRAMES,
    NEED_BASE,
    NEED_ROWS,
    NODES,
    ONE,
    RECIPE,
    SIZES,
    ZERO,
    flat64,
    grid64,
    kernel,
    pointer,
    request,
)

EMPTY, DOUBTFUL, MAY_END = 1, 2, 4


@kernel
def fill_kept(table, place, symbol, stack, base, ends, work):
    """Write the row of a configuration and keep it, with end ids if ``ends`` and the text may end; see ``kernel_rows``.

    base: the address of the row of any other name, to be mended where the configuration is a name that declared or
    used ones begin with; 0 to be asked for one in that case; -1 for a name that none begin with.

    Returns 8 * number of the row, plus MAY_END, DOUBTFUL (a token may hold a name twice) and EMPTY; or a request.
    NEED_BASE asks for 2 * (frame of a name that none begin with) + (whether any begin with this one).
    """
    if place[FREE] >= place[ROWS]:
        return request(NEED_ROWS, ZERO)
    nodes, frames = grid64(table, NODES), grid64(table, FRAMES)
    if base == 0 and symbol >= 0 and nodes[symbol, 0] == NAME and frames[stack, 5] >= 0:
        plain = any_other(table, stack)
        return plain if plain < 0 else request(NEED_BASE, plain)
    recipe, sizes = flat64(table, RECIPE), flat64(table, SIZES)
    if recipe[ERA] != place[ROWS_ERA]:
        forget(table, recipe)
        recipe[ERA] = place[ROWS_ERA]
    recipe[COUNT], recipe[WRITTEN] = 0, 0
    recipe[ROW], recipe[STRIDE32] = free_row(place), 2 * place[STRIDE]
    if base > 0:
        note(table, recipe, BASE, base)
    sizes[DOUBTS] = 0
    may_end = fill(table, symbol, stack, recipe, base > 0, work)
    if may_end < 0:
        return may_end
    if may_end and ends:
        note(table, recipe, ENDINGS, place[ENDS])
    flags = may_end * MAY_END + sizes[DOUBTS] * DOUBTFUL
    fingerprint = slot = ZERO
    n = recipe[COUNT]
    whole = recipe[WRITTEN] == 0
    if whole:
        fingerprint, slot, known = place_of(table, recipe, flags)
        if known >= 0:
            return known
    carry_out(table, recipe)
    flags += ONE * EMPTY
    for word in carray(pointer(recipe[ROW]), (recipe[STRIDE32],), np.uint32):
        if word:
            flags -= EMPTY
            break
    value = 8 * keep(place) + flags
    if whole:
        remember(table, recipe, fingerprint, slot, n, value)
    return value
