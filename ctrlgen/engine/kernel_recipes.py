"""Recipes of rows: what a walk has found, in a few numbers, before any row of 4,000 words is touched.

Four of five rows of real schemas have a recipe that was met before, in another state or schema; then the row is the one
kept for it.
A recipe is int64[HEAD + ROOM]: first COUNT and what it takes to write the row, then its steps, each a kind and a
number. When the room is used up, the steps so far are carried out and the recipe is not told from others any more.

The recipes of a lexicon are kept in two arrays: slots int64[n, 4] (fingerprint, place of the steps, their number,
8 * row + flags) and their steps. When they are full, or the rows were let go, all recipes are forgotten.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from ctrlgen.engine.columns import AFTER, BYTE, DEPTH, FINAL, HI, LABEL, LO
from ctrlgen.engine.kernel_table import (
    INSIDE,
    ONE,
    RECIPE_SLOTS,
    RECIPE_STEPS,
    STATES,
    STEP,
    TOKENS,
    TRIE,
    WALK_ITEMS,
    WALK_SLOTS,
    ZERO,
    flat32,
    flat64,
    grid32,
    grid64,
    inner,
    inside_of,
    mixed,
    pointer,
)

ROOM, HEAD = 4096, 16
COUNT, WRITTEN, ROW, STRIDE, KEPT, USED, ERA, WALKS, WALKED = range(9)
"""Steps noted, whether a part of the row has been written, the row's address and 32-bit words; recipes and steps kept,
the era of their rows (see ``kernel_rows``), and walks kept and their items."""
TOKENS_AT, WITHOUT, WITHIN, CONTROL, BASE, ENDINGS, BELOW, EXCEPT = range(8)
"""Kinds of steps: the tokens at a trie node; none of those at it or below; those inside an automaton; a control token;
the row at an address, as the first step; the same at the end; what a walk found (see ``walk_below``), but for what is
at these nodes or below them, which are the next steps."""
_KIND, _NUMBER = 56, (1 << 56) - 1
_MOST_ITEMS = 1 << 15


@inner
def note(table, recipe, kind, value):
    """Add a step."""
    if recipe[COUNT] == ROOM:
        carry_out(table, recipe)
    recipe[HEAD + recipe[COUNT]] = (np.int64(kind) << _KIND) | np.int64(value)
    recipe[COUNT] += 1


@inner
def note_walk(table, recipe, walk, without):
    """Add the step of a walk, but for what is at some nodes (in order) or below them."""
    if recipe[COUNT] + 1 + len(without) > ROOM:
        carry_out(table, recipe)  # these steps belong together
    note(table, recipe, BELOW, walk)
    for node in without:
        note(table, recipe, EXCEPT, node)


@inner
def take(table, trie, recipe, v):
    """Add the tokens that end at trie node v."""
    if trie[v, HI] > trie[v, LO]:
        note(table, recipe, TOKENS_AT, v)


@inner
def walk_below(table, recipe, v, g):
    """The number of the walk of the trie below node v in an automaton from state g, made at its first use.

    A line of WALK_SLOTS is what it is known by, then where its items begin, where those end that are nodes at which
    tokens end, and where those end that are pairs: node where the automaton accepts, label of its state. Returns -1 if
    there is no room for it.
    """
    slots, items = grid64(table, WALK_SLOTS), flat32(table, WALK_ITEMS)
    key, mask = (np.int64(v) << 32) | np.int64(g), slots.shape[0] - ONE
    slot = np.int64(mixed(np.uint64(1), key)) & mask
    while slots[slot, 1] >= 0:
        if slots[slot, 0] == key:
            return slot
        slot = (slot + 1) & mask
    trie, step, states = grid32(table, TRIE), grid32(table, STEP), grid32(table, STATES)
    first = recipe[WALKED]
    last = min(first + _MOST_ITEMS, items.shape[0])
    if 2 * recipe[WALKS] >= slots.shape[0]:
        return -ONE
    at_depth = np.empty(512, np.int32)
    at_depth[trie[v, DEPTH]] = g
    exits, n = np.empty((256, 2), np.int32), ZERO
    i, end, used = v + 1, np.int64(trie[v, AFTER]), first
    while i < end:
        d = trie[i, DEPTH]
        q = step[at_depth[d - 1], trie[i, BYTE]]
        if q < 0:
            i = np.int64(trie[i, AFTER])
            continue
        at_depth[d] = q
        if trie[i, HI] > trie[i, LO]:
            if used >= last:
                return -ONE
            items[used] = i
            used += 1
        if states[q, FINAL] == 1 and trie[i, AFTER] > i + 1:
            if n == exits.shape[0]:
                more = np.empty((2 * n, 2), np.int32)
                more[:n] = exits
                exits = more
            exits[n, 0], exits[n, 1] = i, states[q, LABEL]
            n += 1
        i += 1
    if used + 2 * n > last:
        return -ONE
    slots[slot, 0], slots[slot, 1], slots[slot, 2], slots[slot, 3] = key, first, used, used + 2 * n
    for j in range(n):
        items[used], items[used + 1] = exits[j, 0], exits[j, 1]
        used += 2
    recipe[WALKED] = used
    recipe[WALKS] += 1
    return slot


@inner
def carry_out(table, recipe):
    """Write the row, as far as the steps go, and begin with none."""
    trie, tokens, words = grid32(table, TRIE), flat32(table, TOKENS), table[INSIDE, 2]
    row = carray(pointer(recipe[ROW]), (recipe[STRIDE],), np.uint32)
    if not recipe[WRITTEN]:
        row[:] = 0
        recipe[WRITTEN] = 1
    for at in range(HEAD, HEAD + recipe[COUNT]):
        kind, value = recipe[at] >> _KIND, recipe[at] & _NUMBER
        if kind == TOKENS_AT:
            for i in range(trie[value, LO], trie[value, HI]):
                row[tokens[i] >> 5] |= np.uint32(1) << np.uint32(tokens[i] & 31)
        elif kind == WITHOUT:
            for i in range(trie[value, LO], trie[trie[value, AFTER] - 1, HI]):
                row[tokens[i] >> 5] &= ~(np.uint32(1) << np.uint32(tokens[i] & 31))
        elif kind == WITHIN:
            inside = inside_of(table)[value]
            for w in range(words):
                row[w] |= inside[w]
        elif kind == BELOW:
            last = at + 1
            while last < HEAD + recipe[COUNT] and recipe[last] >> _KIND == EXCEPT:
                last += 1
            skip, end = at + 1, ZERO
            walks, items = grid64(table, WALK_SLOTS), flat32(table, WALK_ITEMS)
            for i in range(walks[value, 1], walks[value, 2]):
                v = np.int64(items[i])
                while skip < last and recipe[skip] & _NUMBER <= v:
                    end = max(end, np.int64(trie[recipe[skip] & _NUMBER, AFTER]))
                    skip += 1
                if v >= end:
                    for j in range(trie[v, LO], trie[v, HI]):
                        row[tokens[j] >> 5] |= np.uint32(1) << np.uint32(tokens[j] & 31)
        elif kind == EXCEPT:
            continue
        elif kind == CONTROL:
            row[value >> 5] |= np.uint32(1) << np.uint32(value & 31)
        else:
            other = carray(pointer(value), (recipe[STRIDE],), np.uint32)
            for w in range(len(other)):
                row[w] |= other[w]
    recipe[COUNT] = 0


@inner
def place_of(table, recipe, flags):
    """The fingerprint of a recipe, the slot where it is or belongs, and 8 * row + flags; -1 if it is not known."""
    slots, steps, n = grid64(table, RECIPE_SLOTS), flat64(table, RECIPE_STEPS), recipe[COUNT]
    key = mixed(np.uint64(1), flags)
    for at in range(HEAD, HEAD + n):
        key = mixed(key, recipe[at])
    fingerprint = np.int64(key)
    mask = slots.shape[0] - ONE
    slot = fingerprint & mask
    while slots[slot, 3] >= 0:
        if slots[slot, 0] == fingerprint and slots[slot, 2] == n and slots[slot, 3] & 6 == flags:
            first, same = slots[slot, 1], True
            for i in range(n):
                if steps[first + i] != recipe[HEAD + i]:
                    same = False
                    break
            if same:
                return fingerprint, slot, slots[slot, 3]
        slot = (slot + 1) & mask
    return fingerprint, slot, -ONE


@inner
def remember(table, recipe, fingerprint, slot, n, value):
    """Keep a recipe of n steps, which have been carried out, with 8 * row + flags."""
    slots, steps = grid64(table, RECIPE_SLOTS), flat64(table, RECIPE_STEPS)
    if 2 * recipe[KEPT] >= slots.shape[0] or recipe[USED] + n > steps.shape[0]:
        forget(table, recipe)
        return
    slots[slot, 0], slots[slot, 1], slots[slot, 2], slots[slot, 3] = fingerprint, recipe[USED], n, value
    steps[recipe[USED] : recipe[USED] + n] = recipe[HEAD : HEAD + n]
    recipe[KEPT] += 1
    recipe[USED] += n


@inner
def forget(table, recipe):
    """Forget all recipes."""
    if recipe[KEPT] > 0:
        slots = grid64(table, RECIPE_SLOTS)
        slots[:, 3] = -1
    recipe[KEPT] = recipe[USED] = ZERO
