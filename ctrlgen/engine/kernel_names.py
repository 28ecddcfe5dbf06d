"""Names of members: which declared names begin with a text, which names an object has had, how many are left."""

from __future__ import annotations

import numpy as np

from ctrlgen.engine.columns import ENDINGS, ENDLESS
from ctrlgen.engine.kernel_records import OTHERS
from ctrlgen.engine.kernel_table import (
    FRAMES,
    NAME_TABLE,
    PAIRS,
    RECORDS,
    STATES,
    ZERO,
    flat64,
    grid32,
    grid64,
    inner,
    letters_of,
)


@inner
def narrow(table, low, high, depth, byte):
    """Of the sorted names [low, high), which share their first ``depth`` bytes, those that go on with ``byte``."""
    names, letters = grid64(table, NAME_TABLE), letters_of(table)
    a, b = low, high
    while a < b:  # the first not below
        middle = (a + b) >> 1
        if letters[names[middle, 0] + depth] < byte:
            a = middle + 1
        else:
            b = middle
    end = a
    if high - a <= 8:
        while end < high and letters[names[end, 0] + depth] == byte:
            end += 1
        return a, end
    b = high
    while end < b:
        middle = (end + b) >> 1
        if letters[names[middle, 0] + depth] <= byte:
            end = middle + 1
        else:
            b = middle
    return a, end


@inner
def begins(table, name, text):
    """Whether a text is the beginning of a name (both texts)."""
    pairs = grid64(table, PAIRS)
    while pairs[name, 2] > pairs[text, 2]:
        name = pairs[name, 0]
    return name == text


@inner
def used(table, names, text):
    """Whether a text is in a set of names."""
    pairs = grid64(table, PAIRS)
    while names > 0:
        if pairs[names, 1] - 256 == text:
            return True
        names = pairs[names, 0]
    return False


@inner
def used_beginning(table, names, text):
    """How many names of a set begin with a text."""
    pairs = grid64(table, PAIRS)
    found = ZERO
    while names > 0:
        if begins(table, pairs[names, 1] - 256, text):
            found += 1
        names = pairs[names, 0]
    return found


@inner
def accepted(table, low, high):
    """How many of the declared names [low, high) the automaton of other names would take as well."""
    names = grid64(table, NAME_TABLE)
    found = ZERO
    for j in range(low, high):
        found += names[j, 3]
    return found


@inner
def others_left(table, r, text, low, high, state):
    """How many names still to come begin with ``text``, after which the names' automaton is in ``state``.

    ENDLESS for so many or more; [low, high) are the declared names that begin so.
    """
    total = np.int64(grid32(table, STATES)[state, ENDINGS])
    if total == ENDLESS:
        return total
    used_up = used_beginning(table, flat64(table, RECORDS)[r + OTHERS], text)
    return total - used_up - accepted(table, low, high)


@inner
def left_beyond(table, n, rest, size, low, high, state):
    """The same where the text is that of frame n with rest[0:size] after it."""
    total = np.int64(grid32(table, STATES)[state, ENDINGS])
    if total == ENDLESS:
        return total
    frames, pairs = grid64(table, FRAMES), grid64(table, PAIRS)
    text = frames[n, 2]
    names = flat64(table, RECORDS)[frames[frames[n, 1], 2] + OTHERS]
    while names > 0:
        name = pairs[names, 1] - 256
        names = pairs[names, 0]
        over = pairs[name, 2] - pairs[text, 2]
        if over < size:
            continue
        same = True
        while same and over > 0:
            if over <= size and pairs[name, 1] != rest[over - 1]:
                same = False
            name = pairs[name, 0]
            over -= 1
        if same and name == text:
            total -= 1
    return total - accepted(table, low, high)
