"""What makes an automaton canonical: live states, the coarsest partition, breadth-first numbers.

States that reach no cycle are classified in one pass from the end, by their rows. The others by refinement of a
partition of the states and one of the moves, each splitting the other, in time n log n.

Reference: A. Valmari, Fast brief practical DFA minimization, Information Processing Letters 112 (2012).
"""

from __future__ import annotations

import numpy as np
from numba import njit

kernel = njit(cache=True, nogil=True, error_model="numpy")

_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@kernel
def canonical(columns, colours, minimal):
    """The canonical form of a table.

    Args:
        columns: int32[S, K], state after a byte of class k, negative where there is none; state 0 is the start.
        colours: uint8[S], what tells states apart from the outset; those of 2 or more accept.
        minimal: whether no two states are equivalent.

    Returns:
        int32[N], a state of each class in breadth-first order, none if no state accepts; int32[S], the place of the
        class of each state, -1 for states that are dead or not reachable.
    """
    size, width = columns.shape
    starts, sources = _predecessors(columns)
    keep = _live(columns, colours, starts, sources)
    order, number = np.empty(size, np.int32), np.full(size, -1, np.int32)
    if not keep[0]:
        return order[:0], number
    class_of = np.arange(size).astype(np.int32) if minimal else _partition(columns, colours, keep, starts, sources)
    place = np.full(size, -1, np.int32)
    place[class_of[0]] = 0
    order[0] = 0
    n, here = 1, 0
    while here < n:
        for k in range(width):
            target = columns[order[here], k]
            if target >= 0 and keep[target] and place[class_of[target]] < 0:
                place[class_of[target]] = n
                order[n] = target
                n += 1
        here += 1
    for state in range(size):
        if keep[state]:
            number[state] = place[class_of[state]]
    return order[:n], number


@kernel
def _predecessors(columns):
    """Sources of the moves into each state, one after the other, and where those of each begin."""
    size, width = columns.shape
    starts = np.zeros(size + 1, np.int64)
    for state in range(size):
        for k in range(width):
            if columns[state, k] >= 0:
                starts[columns[state, k] + 1] += 1
    for state in range(size):
        starts[state + 1] += starts[state]
    sources, filled = np.empty(starts[size], np.int32), starts.copy()
    for state in range(size):
        for k in range(width):
            target = columns[state, k]
            if target >= 0:
                sources[filled[target]] = state
                filled[target] += 1
    return starts, sources


@kernel
def _live(columns, colours, starts, sources):
    """Which states are reachable from state 0 and can reach an accepting one."""
    size, width = columns.shape
    useful, keep = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    todo, n = np.empty(size, np.int32), 0
    for state in range(size):
        if colours[state] >= 2:
            useful[state], todo[n] = True, state
            n += 1
    here = 0
    while here < n:
        for i in range(starts[todo[here]], starts[todo[here] + 1]):
            if not useful[sources[i]]:
                useful[sources[i]], todo[n] = True, sources[i]
                n += 1
        here += 1
    if not useful[0]:
        return keep
    keep[0], todo[0] = True, 0
    n, here = 1, 0
    while here < n:
        for k in range(width):
            target = columns[todo[here], k]
            if target >= 0 and useful[target] and not keep[target]:
                keep[target], todo[n] = True, target
                n += 1
        here += 1
    return keep


@kernel
def _partition(columns, colours, keep, starts, sources):
    """The class of each kept state, -1 for others."""
    class_of = np.full(len(columns), -1, np.int32)
    finite = _settle_finite(columns, colours, keep, starts, sources, class_of)
    if (class_of < 0).sum() > (~keep).sum():
        _refine(columns, colours, keep, class_of, finite)
    return class_of


@kernel
def _equal_rows(columns, colours, class_of, a, b):
    if colours[a] != colours[b]:
        return False
    for k in range(columns.shape[1]):
        x, y = columns[a, k], columns[b, k]
        x, y = (class_of[x] if x >= 0 else np.int32(-1)), (class_of[y] if y >= 0 else np.int32(-1))
        if x != y:
            return False
    return True


@kernel
def _settle_finite(columns, colours, keep, starts, sources, class_of):
    """Give classes to kept states with finitely many continuations; how many classes."""
    size, width = columns.shape
    waiting = np.zeros(size, np.int32)
    todo, n = np.empty(size, np.int32), 0
    for state in range(size):
        if keep[state]:
            for k in range(width):
                if columns[state, k] >= 0 and keep[columns[state, k]]:
                    waiting[state] += 1
            if waiting[state] == 0:
                todo[n] = state
                n += 1
    slots = 64
    while slots < 2 * size:
        slots *= 2
    table, mask = np.full(slots, -1, np.int32), np.uint64(slots - 1)
    count, here = 0, 0
    while here < n:
        state = todo[here]
        h = np.uint64(colours[state] + 1)
        for k in range(width):
            target = columns[state, k]
            h = (h ^ np.uint64((class_of[target] if target >= 0 else -1) + 1)) * _FACTOR
            h ^= h >> np.uint64(29)
        i = h & mask
        while table[i] >= 0 and not _equal_rows(columns, colours, class_of, table[i], state):
            i = (i + np.uint64(1)) & mask
        if table[i] < 0:
            table[i] = state
            class_of[state] = count
            count += 1
        else:
            class_of[state] = class_of[table[i]]
        for j in range(starts[state], starts[state + 1]):
            source = sources[j]
            waiting[source] -= 1
            if waiting[source] == 0 and keep[source]:
                todo[n] = source
                n += 1
        here += 1
    return count


@kernel
def _mark(parts, ranges, touched, element):
    """Move an element to the marked ones, which come first in its set.

    parts: int32[3, E], the elements set by set, the place of each, its set; ranges: int32[3, sets], of each set the
    first place, the one past its last, how many are marked; touched: int32[sets + 1], sets with marks, and how many.
    """
    s, i = parts[2, element], parts[1, element]
    j = ranges[0, s] + ranges[2, s]
    other = parts[0, j]
    parts[0, i], parts[1, other] = other, i
    parts[0, j], parts[1, element] = element, j
    if ranges[2, s] == 0:
        touched[touched[-1]] = s
        touched[-1] += 1
    ranges[2, s] += 1


@kernel
def _split(parts, ranges, touched, count):
    """Split the sets that have marks; how many sets there are then. The smaller part becomes a new set."""
    while touched[-1] > 0:
        touched[-1] -= 1
        s = touched[touched[-1]]
        middle = ranges[0, s] + ranges[2, s]
        marked, ranges[2, s] = ranges[2, s], 0
        if middle == ranges[1, s]:
            continue
        if marked <= ranges[1, s] - middle:
            ranges[0, count], ranges[1, count], ranges[0, s] = ranges[0, s], middle, middle
        else:
            ranges[0, count], ranges[1, count], ranges[1, s] = middle, ranges[1, s], middle
        ranges[2, count] = 0
        for i in range(ranges[0, count], ranges[1, count]):
            parts[2, parts[0, i]] = count
        count += 1
    return count


@kernel
def _grouped(keys, kinds, room):
    """A partition of elements by their keys below ``kinds``; (parts, ranges, touched, how many sets)."""
    parts, ranges = np.empty((3, len(keys)), np.int32), np.zeros((3, room), np.int32)
    sizes = np.zeros(kinds + 1, np.int64)
    for key in keys:
        sizes[key + 1] += 1
    number, count = np.empty(kinds, np.int32), 0
    for key in range(kinds):
        number[key] = count
        if sizes[key + 1] > 0:
            ranges[0, count], ranges[1, count] = sizes[key], sizes[key] + sizes[key + 1]
            count += 1
        sizes[key + 1] += sizes[key]
    for element in range(len(keys)):
        key = keys[element]
        parts[0, sizes[key]], parts[1, element], parts[2, element] = element, sizes[key], number[key]
        sizes[key] += 1
    return parts, ranges, np.zeros(room + 1, np.int32), count


@kernel
def _refine(columns, colours, keep, class_of, finite):
    """Classes for the states that reach a cycle; those of finite classes are known, and one state stands for each."""
    size, width = columns.shape
    place, cyclic = np.full(size, -1, np.int32), np.empty(size, np.int32)
    n, m = 0, 0
    for state in range(size):
        if keep[state] and class_of[state] < 0:
            place[state] = finite + n
            cyclic[n] = state
            n += 1
            for k in range(width):
                m += columns[state, k] >= 0 and keep[columns[state, k]]
    keys = np.empty(finite + n, np.int64)
    keys[:finite] = np.arange(finite) + 4
    for i in range(n):
        keys[finite + i] = colours[cyclic[i]]
    tail, head, label, at = np.empty(m, np.int32), np.empty(m, np.int32), np.empty(m, np.int64), 0
    for i in range(n):
        for k in range(width):
            target = columns[cyclic[i], k]
            if target >= 0 and keep[target]:
                tail[at], label[at] = finite + i, k
                head[at] = class_of[target] if class_of[target] >= 0 else place[target]
                at += 1
    into, moves = np.zeros(finite + n + 1, np.int64), np.empty(m, np.int32)
    for i in range(m):
        into[head[i] + 1] += 1
    for i in range(finite + n):
        into[i + 1] += into[i]
    filled = into.copy()
    for i in range(m):
        moves[filled[head[i]]] = i
        filled[head[i]] += 1
    blocks, block_ranges, block_marks, b = _grouped(keys, finite + 4, finite + n + 1)
    cords, cord_ranges, cord_marks, c = _grouped(label, width, m + 1)
    block, cord = 1, 0
    while cord < c:
        for i in range(cord_ranges[0, cord], cord_ranges[1, cord]):
            _mark(blocks, block_ranges, block_marks, tail[cords[0, i]])
        b = _split(blocks, block_ranges, block_marks, b)
        cord += 1
        while block < b:
            for i in range(block_ranges[0, block], block_ranges[1, block]):
                state = blocks[0, i]
                for j in range(into[state], into[state + 1]):
                    _mark(cords, cord_ranges, cord_marks, moves[j])
            c = _split(cords, cord_ranges, cord_marks, c)
            block += 1
    # each block by its first state: classes stay below the number of states
    first, count = np.full(b, -1, np.int32), finite
    for i in range(n):
        s = blocks[2, finite + i]
        if first[s] < 0:
            first[s] = count
            count += 1
        class_of[cyclic[i]] = first[s]
