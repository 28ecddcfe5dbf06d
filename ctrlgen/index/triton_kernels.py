# mypy: ignore-errors
"""A step of a beam search as one or two kernels of Triton, which infers the types; see ``ctrlgen.index.triton_step``.

A candidate is one int64, its key: the score in the upper half, so that greater keys are better, and the order among
the candidates of its group, negated, in the lower one, so that of equal scores the first comes first, as on the host.
The order is row * width + column; row and column say again what the candidate was.
"""

from __future__ import annotations

from ctrlgen.index import layout

try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # it comes with torch for CUDA; elsewhere this can be imported, and nobody calls it

    class _Missing:
        def __getattr__(self, name):
            return lambda value: value

    triton = tl = _Missing()

LEAF, DONE, LOST = (tl.constexpr(value) for value in (layout.LEAF, layout.DONE, layout.LOST))

NOTHING = tl.constexpr(-(1 << 63))
"""The key of what is no candidate."""


@triton.jit
def read(column, places, mask, BITS: tl.constexpr):
    """int64, entries of an array of unsigned integers that is held in a signed dtype; 0 where the mask is False."""
    return tl.load(column + places, mask=mask, other=0).to(tl.int64) & BITS


@triton.jit
def rank(words, counts, line, width, places, mask):
    """int64, how many items pass filter ``line`` before each place; a filter has ``width`` words."""
    at = line * width + tl.minimum(places >> 6, width - 1)
    one = tl.full(places.shape, 1, tl.int64)
    ones = tl.load(words + at, mask=mask, other=0) & ((one << (places & 63)) - 1)
    # counts bits in pairs, fours and bytes, then sums the bytes; masks undo the sign that >> drags along
    ones = ones - ((ones >> 1) & 0x5555555555555555)
    ones = (ones & 0x3333333333333333) + ((ones >> 2) & 0x3333333333333333)
    ones = (ones + (ones >> 4)) & 0x0F0F0F0F0F0F0F0F
    return tl.load(counts + at, mask=mask, other=0) + ((ones * 0x0101010101010101) >> 56)


@triton.jit
def best_end(ends, logs, row, stride, mask, ENDS: tl.constexpr):
    """int64, the end id with the highest score in each row; of equals the first, and never NaN."""
    best = tl.load(ends) + tl.zeros_like(row)
    highest = tl.full(row.shape, float("-inf"), tl.float32)
    for i in tl.static_range(ENDS):
        end = tl.load(ends + i)
        value = tl.load(logs + row * stride + end, mask=mask, other=float("-inf")).to(tl.float32)
        better = value > highest
        best = tl.where(better, end, best)
        highest = tl.where(better, value, highest)
    return best


@triton.jit
def length_of(offsets, length, item, mask, OFFSET_BITS: tl.constexpr, FIXED: tl.constexpr):
    """int64 twice: where the tokens of an item begin, and how many it has."""
    if FIXED:
        return item * length, tl.zeros_like(item) + length
    else:
        at = read(offsets, item, mask, OFFSET_BITS)
        return at, read(offsets, item + 1, mask, OFFSET_BITS) - at


@triton.jit
def look(
    tokens, offsets, length, symbol, lo, child, branch, states, row, column, mask,
    TOKEN_BITS: tl.constexpr, OFFSET_BITS: tl.constexpr, SYMBOL_BITS: tl.constexpr, LO_BITS: tl.constexpr,
    CHILD_BITS: tl.constexpr, BRANCH_BITS: tl.constexpr, FIXED: tl.constexpr,
):  # fmt: skip
    """What column ``column`` of each row holds.

    Returns:
        (symbol, edge or -1, first item below, one past the last, depth, node, how many columns the row has).
    """
    start = tl.load(states + row * 4, mask=mask, other=0)
    stop = tl.load(states + row * 4 + 1, mask=mask, other=0)
    depth = tl.load(states + row * 4 + 2, mask=mask, other=0)
    node = tl.load(states + row * 4 + 3, mask=mask, other=LOST)
    edge = tl.maximum(node, 0)
    branching = mask & (node >= 0) & (read(branch, edge, mask, BRANCH_BITS) == depth)
    first = read(child, edge, branching, CHILD_BITS)
    fan = read(child, edge + 1, branching, CHILD_BITS) - first
    fan = tl.where(branching, fan, (mask & (node != LOST)).to(tl.int64))
    chosen = branching & (column < fan)
    place = first + column
    single = mask & (node != LOST) & (node != DONE) & (branching == 0)
    at, full = length_of(offsets, length, start, single, OFFSET_BITS, FIXED)
    single = single & ((node != LEAF) | (depth < full))
    found = tl.where(single, read(tokens, at + depth, single, TOKEN_BITS) + 1, 0)
    found = tl.where(chosen, read(symbol, place, chosen, SYMBOL_BITS), found)
    inner = chosen & (column + 1 < fan)
    stop = tl.where(inner, read(lo, place + 1, inner, LO_BITS), stop)
    start = tl.where(chosen, read(lo, place, chosen, LO_BITS), start)
    return found, tl.where(branching, place, -1), start, stop, depth, node, fan


@triton.jit
def keys_of(
    tokens, offsets, length, symbol, lo, child, branch, ends, words, counts, which, line_width, states, scores, logs,
    stride, row, order, column, mask,
    TOKEN_BITS: tl.constexpr, OFFSET_BITS: tl.constexpr, SYMBOL_BITS: tl.constexpr, LO_BITS: tl.constexpr,
    CHILD_BITS: tl.constexpr, BRANCH_BITS: tl.constexpr, FIXED: tl.constexpr, ENDS: tl.constexpr,
    FILTERED: tl.constexpr,
):  # fmt: skip
    """int64 keys of the candidates of some rows and columns, and int64, how many columns each row would need."""
    found, _, start, stop, _, node, fan = look(
        tokens, offsets, length, symbol, lo, child, branch, states, row, column, mask,
        TOKEN_BITS, OFFSET_BITS, SYMBOL_BITS, LO_BITS, CHILD_BITS, BRANCH_BITS, FIXED,
    )  # fmt: skip
    valid = mask & (column < fan)
    if FILTERED:
        line = tl.load(which + row, mask=valid, other=-1)
        held = valid & (line >= 0)
        before = rank(words, counts, tl.maximum(line, 0), line_width, start, held)
        valid = valid & ((line < 0) | (rank(words, counts, tl.maximum(line, 0), line_width, stop, held) > before))
    token = tl.maximum(found - 1, 0)
    read_one = valid & (node != DONE)
    if ENDS > 0:
        ended = read_one & (found == 0)
        token = tl.where(ended, best_end(ends, logs, row, stride, ended, ENDS), token)
    added = tl.load(logs + row * stride + token, mask=read_one, other=0.0).to(tl.float32)
    total = tl.load(scores + row, mask=valid, other=float("-inf")).to(tl.float32) + added
    bits = (total + 0.0).to(tl.int32, bitcast=True).to(tl.int64)  # + 0.0 makes one zero of two
    key = (tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF) << 32) - order
    return tl.where(valid & (total > float("-inf")), key, NOTHING), fan


@triton.jit
def follow_keys(
    tokens, offsets, length, symbol, lo, child, branch, ends, states, logs, stride,
    key, base, width, at, mask, parents, out_tokens, out_scores, after,
    TOKEN_BITS: tl.constexpr, OFFSET_BITS: tl.constexpr, SYMBOL_BITS: tl.constexpr, LO_BITS: tl.constexpr,
    CHILD_BITS: tl.constexpr, BRANCH_BITS: tl.constexpr, FIXED: tl.constexpr, ENDS: tl.constexpr,
):  # fmt: skip
    """Write what the chosen keys stand for to places ``at`` of the output; ``base`` is the first row of their group."""
    alive = mask & (key != NOTHING)
    order = tl.where(alive, -key, 0) & 0xFFFFFFFF
    bits = (tl.where(alive, key, 0) + order) >> 32
    score = tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(tl.int32).to(tl.float32, bitcast=True)
    row, column = base + order // width, order % width
    found, edge, start, stop, depth, node, _ = look(
        tokens, offsets, length, symbol, lo, child, branch, states, row, column, alive,
        TOKEN_BITS, OFFSET_BITS, SYMBOL_BITS, LO_BITS, CHILD_BITS, BRANCH_BITS, FIXED,
    )  # fmt: skip
    ended = found == 0
    token = tl.where(node == DONE, -1, found - 1)
    if ENDS > 0:
        asked = alive & ended & (node != DONE)
        token = tl.where(asked, best_end(ends, logs, row, stride, asked, ENDS), token)
    moved = alive & (edge >= 0)
    inner = read(child, edge + 1, moved, CHILD_BITS) > read(child, edge, moved, CHILD_BITS)
    node = tl.where(moved, tl.where(inner, edge, LEAF), node)
    depth = tl.where(ended, depth, depth + 1)
    if ENDS == 0:
        lone = alive & (node == LEAF)
        _, full = length_of(offsets, length, start, lone, OFFSET_BITS, FIXED)
        ended = ended | (lone & (depth == full))
    node = tl.where(ended, DONE, node)
    tl.store(parents + at, tl.where(alive, row, base), mask=mask)
    tl.store(out_tokens + at, tl.where(alive, token, -1), mask=mask)
    tl.store(out_scores + at, tl.where(alive, score, float("-inf")), mask=mask)
    tl.store(after + at * 4, tl.where(alive, start, 0), mask=mask)
    tl.store(after + at * 4 + 1, tl.where(alive, stop, 0), mask=mask)
    tl.store(after + at * 4 + 2, tl.where(alive, depth, 0), mask=mask)
    tl.store(after + at * 4 + 3, tl.where(alive, node, LOST), mask=mask)


@triton.jit
def best_kernel(
    tokens, offsets, length, symbol, lo, child, branch, ends, words, counts, which, line_width, states, scores, logs,
    stride, beams, width, k, parents, out_tokens, out_scores, after, overflow,
    TOKEN_BITS: tl.constexpr, OFFSET_BITS: tl.constexpr, SYMBOL_BITS: tl.constexpr, LO_BITS: tl.constexpr,
    CHILD_BITS: tl.constexpr, BRANCH_BITS: tl.constexpr, FIXED: tl.constexpr, ENDS: tl.constexpr,
    FILTERED: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """A whole step: each program sorts the candidates of one group, of which there are at most ROOM."""
    group = tl.program_id(0).to(tl.int64)
    order = tl.arange(0, ROOM).to(tl.int64)
    base = group * beams
    key, fan = keys_of(
        tokens, offsets, length, symbol, lo, child, branch, ends, words, counts, which, line_width, states, scores,
        logs, stride, base + order // width, order, order % width, order < beams * width,
        TOKEN_BITS, OFFSET_BITS, SYMBOL_BITS, LO_BITS, CHILD_BITS, BRANCH_BITS, FIXED, ENDS, FILTERED,
    )  # fmt: skip
    tl.store(overflow + group, tl.max(fan, 0) > width)
    follow_keys(
        tokens, offsets, length, symbol, lo, child, branch, ends, states, logs, stride,
        tl.sort(key, descending=True), base, width, group * k + order, order < k, parents, out_tokens, out_scores,
        after, TOKEN_BITS, OFFSET_BITS, SYMBOL_BITS, LO_BITS, CHILD_BITS, BRANCH_BITS, FIXED, ENDS,
    )  # fmt: skip


@triton.jit
def keys_kernel(
    tokens, offsets, length, symbol, lo, child, branch, ends, words, counts, which, line_width, states, scores, logs,
    stride, beams, width, keys, overflow,
    TOKEN_BITS: tl.constexpr, OFFSET_BITS: tl.constexpr, SYMBOL_BITS: tl.constexpr, LO_BITS: tl.constexpr,
    CHILD_BITS: tl.constexpr, BRANCH_BITS: tl.constexpr, FIXED: tl.constexpr, ENDS: tl.constexpr,
    FILTERED: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """The keys of ROOM columns of one row, to keys[R, width]."""
    one = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1).to(tl.int64) * ROOM + tl.arange(0, ROOM).to(tl.int64)
    row = tl.zeros_like(column) + one
    mask = column < width
    key, fan = keys_of(
        tokens, offsets, length, symbol, lo, child, branch, ends, words, counts, which, line_width, states, scores,
        logs, stride, row, row % beams * width + column, column, mask,
        TOKEN_BITS, OFFSET_BITS, SYMBOL_BITS, LO_BITS, CHILD_BITS, BRANCH_BITS, FIXED, ENDS, FILTERED,
    )  # fmt: skip
    tl.store(keys + row * width + column, key, mask=mask)
    tl.store(overflow + one, tl.max(fan, 0) > width, mask=tl.program_id(1) == 0)


@triton.jit
def follow_kernel(
    tokens, offsets, length, symbol, lo, child, branch, ends, states, logs, stride, keys, many, beams, width, k,
    parents, out_tokens, out_scores, after,
    TOKEN_BITS: tl.constexpr, OFFSET_BITS: tl.constexpr, SYMBOL_BITS: tl.constexpr, LO_BITS: tl.constexpr,
    CHILD_BITS: tl.constexpr, BRANCH_BITS: tl.constexpr, FIXED: tl.constexpr, ENDS: tl.constexpr,
    ROOM: tl.constexpr,
):  # fmt: skip
    """What ROOM of the chosen keys[B, k] stand for; ``many`` is B * k."""
    at = tl.program_id(0).to(tl.int64) * ROOM + tl.arange(0, ROOM).to(tl.int64)
    mask = at < many
    follow_keys(
        tokens, offsets, length, symbol, lo, child, branch, ends, states, logs, stride,
        tl.load(keys + at, mask=mask, other=NOTHING), at // k * beams, width, at, mask,
        parents, out_tokens, out_scores, after,
        TOKEN_BITS, OFFSET_BITS, SYMBOL_BITS, LO_BITS, CHILD_BITS, BRANCH_BITS, FIXED, ENDS,
    )  # fmt: skip
