"""Loops over the tables of automata: products, subsets, lengths, and what makes a result canonical.

Tables are int32[S, K]: states by classes of bytes, -1 where there is no move. Every construction numbers its states as
it meets them, and stops with one state more than its limit.
"""

from __future__ import annotations

import numpy as np
from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")

INTERSECTION, UNION, DIFFERENCE = 0, 1, 2
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _mixed(h, value):
    """A hash with one more value in it."""
    h = (h ^ np.uint64(value)) * _FACTOR
    return h ^ (h >> np.uint64(29))


@kernel
def _place(table, codes, code):
    """Where an open hash table of numbers holds the number of ``code``, or would."""
    mask = np.uint64(len(table) - 1)
    i = _mixed(np.uint64(1), code) & mask
    while table[i] >= 0 and codes[table[i]] != code:
        i = (i + np.uint64(1)) & mask
    return i


@kernel
def _numbered(table, codes, n, code):
    """The number of ``code``, a new one if it has none; (number, table, codes, how many), which may have grown."""
    i = _place(table, codes, code)
    if table[i] >= 0:
        return table[i], table, codes, n
    if n == len(codes):
        larger = np.empty(2 * n, np.int64)
        larger[:n] = codes
        codes = larger
        table = np.full(4 * len(codes), -1, np.int32)
        for j in range(n):
            table[_place(table, codes, codes[j])] = j
        i = _place(table, codes, code)
    codes[n] = code
    table[i] = n
    return np.int32(n), table, codes, n + 1


@kernel
def _with_room(rows, n):
    """Rows with room for row n."""
    if n < len(rows):
        return rows
    larger = np.empty((2 * len(rows), rows.shape[1]), np.int32)
    larger[: len(rows)] = rows
    return larger


@kernel
def product(left, right, what, limit):
    """Reachable pairs of states of two tables over the same classes, -1 standing for "already outside".

    Returns:
        int32[N, K], the moves; int32[N] and int32[N], the states of each pair.
    """
    width, radix = left.shape[1], len(right) + 1
    codes, table = np.empty(64, np.int64), np.full(256, -1, np.int32)
    rows = np.empty((64, width), np.int32)
    _, table, codes, n = _numbered(table, codes, 0, np.int64(radix + 1))
    here = 0
    while here < n and n <= limit:
        x, y = codes[here] // radix - 1, codes[here] % radix - 1
        rows = _with_room(rows, here)
        for k in range(width):
            a = np.int64(left[x, k]) if x >= 0 else np.int64(-1)
            b = np.int64(right[y, k]) if y >= 0 else np.int64(-1)
            if (a < 0 and (what != UNION or b < 0)) or (b < 0 and what == INTERSECTION):
                rows[here, k] = -1
            else:
                rows[here, k], table, codes, n = _numbered(table, codes, n, (a + 1) * radix + b + 1)
        here += 1
    first, second = np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(n):
        first[i], second[i] = codes[i] // radix - 1, codes[i] % radix - 1
    return rows[:here], first, second


@kernel
def counted(columns, boundary, most, capped, limit):
    """States with the number of characters read, of which there are at most ``most``; or, capped, ``most`` or more.

    Returns:
        int32[N, K], the moves; int32[N] and int64[N], state and number of characters.
    """
    width, radix = columns.shape[1], most + 1
    codes, table = np.empty(64, np.int64), np.full(256, -1, np.int32)
    rows = np.empty((64, width), np.int32)
    _, table, codes, n = _numbered(table, codes, 0, np.int64(0))
    here = 0
    while here < n and n <= limit:
        state, count = codes[here] // radix, codes[here] % radix
        rows = _with_room(rows, here)
        for k in range(width):
            target = np.int64(columns[state, k])
            rows[here, k] = -1
            if target >= 0:
                after = count + np.int64(boundary[target])
                if capped:
                    after = min(after, most)
                if after <= most:
                    rows[here, k], table, codes, n = _numbered(table, codes, n, target * radix + after)
        here += 1
    states, counts = np.empty(n, np.int32), np.empty(n, np.int64)
    for i in range(n):
        states[i], counts[i] = codes[i] // radix, codes[i] % radix
    return rows[:here], states, counts


@kernel
def _same_set(pool, starts, i, members, size):
    if starts[i + 1] - starts[i] != size:
        return False
    for j in range(size):
        if pool[starts[i] + j] != members[j]:
            return False
    return True


@kernel
def _set_place(table, pool, starts, members, size):
    """Where the hash table of sets holds the number of a sorted set, or would."""
    h, mask = np.uint64(size), np.uint64(len(table) - 1)
    for j in range(size):
        h = _mixed(h, members[j])
    i = h & mask
    while table[i] >= 0 and not _same_set(pool, starts, table[i], members, size):
        i = (i + np.uint64(1)) & mask
    return i


@kernel
def subsets(columns, enters, start, limit):
    """Sets of states, where being in state q also means being in ``enters[q]``, unless that is -1.

    Returns:
        int32[N, K], the moves; int32[...], the states of all sets one after the other; int64[N + 1], where each begins.
    """
    size, width = columns.shape
    met = np.zeros(size, np.int64)  # the round in which a state was last put into the set
    members = np.empty(size, np.int32)
    pool, starts, n = np.empty(256, np.int32), np.zeros(65, np.int64), 0
    table, rows = np.full(256, -1, np.int32), np.empty((64, width), np.int32)
    here, rounds = -1, 0
    while here < n and n <= limit:
        if here >= 0:
            rows = _with_room(rows, here)
        for k in range(width if here >= 0 else 1):
            rounds += 1
            count = 0
            sources = starts[here + 1] - starts[here] if here >= 0 else len(start)
            for j in range(sources):
                q = columns[pool[starts[here] + j], k] if here >= 0 else start[j]
                while q >= 0 and met[q] != rounds:
                    met[q] = rounds
                    members[count] = q
                    count += 1
                    q = enters[q]
            if count == 0:
                rows[here, k] = -1
                continue
            members[:count].sort()
            i = _set_place(table, pool, starts, members, count)
            if table[i] < 0:
                while starts[n] + count > len(pool):
                    longer = np.empty(2 * len(pool), np.int32)
                    longer[: starts[n]] = pool[: starts[n]]
                    pool = longer
                if n + 1 == len(starts):
                    longer_starts = np.zeros(2 * len(starts), np.int64)
                    longer_starts[: n + 1] = starts
                    starts = longer_starts
                pool[starts[n] : starts[n] + count] = members[:count]
                starts[n + 1] = starts[n] + count
                table[i] = n
                n += 1
                if 2 * n > len(table):
                    table = np.full(4 * len(table), -1, np.int32)
                    for j in range(n):
                        known = pool[starts[j] : starts[j + 1]]
                        table[_set_place(table, pool, starts, known, len(known))] = j
                    i = _set_place(table, pool, starts, members, count)
            if here >= 0:
                rows[here, k] = table[i]
        here += 1
    return rows[: max(here, 0)], pool[: starts[n]], starts[: n + 1]


@kernel
def equal_columns(table):
    """For each column of a table the first one that is equal to it."""
    size, width = table.shape
    hashes, first = np.zeros(width, np.uint64), np.arange(width)
    for state in range(size):
        for k in range(width):
            hashes[k] = (hashes[k] ^ np.uint64(table[state, k] + 1)) * _FACTOR
            hashes[k] ^= hashes[k] >> np.uint64(29)
    for k in range(width):
        for j in range(k):
            if first[j] == j and hashes[j] == hashes[k]:
                same = True
                for state in range(size):
                    if table[state, j] != table[state, k]:
                        same = False
                        break
                if same:
                    first[k] = j
                    break
    return first


@kernel
def with_end(columns, accepting, end, place):
    """A table with a state more, numbered ``place``, that column ``end`` leads to from all accepting states."""
    result = np.empty((len(columns) + 1, columns.shape[1]), np.int32)
    for i in range(len(columns)):
        row = result[i + 1 if i >= place else i]
        for k in range(columns.shape[1]):
            row[k] = columns[i, k] + (columns[i, k] >= place)
        if accepting[i]:
            row[end] = place
    result[place] = -1
    return result


@kernel
def shortest(columns, accepting):
    """The columns of the shortest way from state 0 to acceptance, the first in order; empty if there is none."""
    size, width = columns.shape
    before, by = np.full(size, -1, np.int32), np.full(size, -1, np.int32)
    order, n, here = np.zeros(size, np.int32), 1, 0
    while here < n and not accepting[order[here]]:
        for k in range(width):
            target = columns[order[here], k]
            if target > 0 and by[target] < 0:
                before[target], by[target], order[n] = order[here], k, target
                n += 1
        here += 1
    length = 0
    state = order[here] if here < n else np.int32(0)
    while before[state] >= 0:
        state = before[state]
        length += 1
    path = np.empty(length, np.int32)
    state = order[here] if here < n else np.int32(0)
    for i in range(length - 1, -1, -1):
        path[i], state = by[state], before[state]
    return path


@kernel
def endings(columns, sizes, accepting, limit):
    """How many strings lead from each state to acceptance: at most ``limit``; -1 where they have no end.

    sizes: int64[K], bytes of each class. All states must be live.
    """
    size, width = columns.shape
    starts = np.zeros(size + 1, np.int64)
    waiting = np.zeros(size, np.int64)
    for state in range(size):
        for k in range(width):
            if columns[state, k] >= 0:
                starts[columns[state, k] + 1] += 1
                waiting[state] += 1
    for state in range(size):
        starts[state + 1] += starts[state]
    sources, filled = np.empty(starts[size], np.int32), starts.copy()
    for state in range(size):
        for k in range(width):
            if columns[state, k] >= 0:
                sources[filled[columns[state, k]]] = state
                filled[columns[state, k]] += 1
    found = np.full(size, -1, np.int64)
    todo, n, here = np.empty(size, np.int32), 0, 0
    for state in range(size):
        if waiting[state] == 0:
            todo[n] = state
            n += 1
    while here < n:
        state = todo[here]
        total = np.int64(accepting[state])
        for k in range(width):
            if columns[state, k] >= 0:
                total += sizes[k] * found[columns[state, k]]
        found[state] = min(total, limit)
        for j in range(starts[state], starts[state + 1]):
            waiting[sources[j]] -= 1
            if waiting[sources[j]] == 0:
                todo[n] = sources[j]
                n += 1
        here += 1
    return found


@kernel
def lengths(columns, sizes, accepting, count, longest):
    """The lengths of the ``count`` shortest strings, fewer if there are fewer of less than ``longest`` bytes."""
    size, width = columns.shape
    most = np.int64(1) << 32
    ways, following = np.zeros(size, np.int64), np.zeros(size, np.int64)
    found, n, length, some = np.empty(count, np.int64), 0, 0, True
    ways[0] = 1
    while some and n < count and length < longest:
        some = False
        following[:] = 0
        for state in range(size):
            if ways[state] > 0:
                if accepting[state]:
                    for _ in range(min(ways[state], count - n)):
                        found[n] = length
                        n += 1
                for k in range(width):
                    target = columns[state, k]
                    if target >= 0:
                        following[target] = min(following[target] + ways[state] * sizes[k], most)
                        some = True
        ways, following = following, ways
        length += 1
    return found[:n]
