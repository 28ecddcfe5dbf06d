"""Where the allowed tokens of a machine lead, and how far from the end that is.

A state inside a string allows nearly all tokens, but these lead to a few configurations: what counts is the state of
the automaton they end in, and how many characters they have where characters are counted. So tokens are grouped by
that, once for each state of an automaton, and one distance is found for each group. The other tokens (those that leave
the string, and all tokens where no string is open) are few; they are followed one by one.

Names that are not declared are grouped in the same way. Names alike but for their text are equally far from the end,
unless further undeclared members must come, which must not be named the same: then each of these may take the next
name instead of the first one that is free, and the distance is raised by all that this can cost (``Rest.shift``).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctrlgen.engine import columns as kinds
from ctrlgen.engine.levels import Levels, levels_of, set_bits
from ctrlgen.recent import Recent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ctrlgen.engine.lexicon import Lexicon
    from ctrlgen.engine.machine import Machine
    from ctrlgen.engine.states import Configurations

    Groups = tuple[NDArray[np.uint16], NDArray[np.int64]]

FEW = 2048
"""A fork with no more tokens than this is followed token by token, not branch by branch."""
FEW_OF_A_SPAN = 16
"""The tokens within a part of a text are followed one by one where they are no more than this."""
KEPT = 64
"""Of a vocabulary: grouped tokens of so many states of automata, two bytes for each id."""
KEPT_NAMES = 16
FAR = 1 << 40

_insides: weakref.WeakKeyDictionary[Lexicon, Recent[tuple[int, int], Inside]] = weakref.WeakKeyDictionary()


class Inside(NamedTuple):
    """The tokens that stay inside an automaton from one of its states, grouped."""

    group: NDArray[np.uint16]
    """uint16[ids], 0 for other tokens."""
    reached: NDArray[np.int32]
    """int32[G, 2]: state and number of characters of each group; the first line is that of no group."""
    row: NDArray[np.uint32]
    """uint32[words] of the tokens that have a group."""


class Plain(NamedTuple):
    """The tokens of a name that no declared or used name begins with."""

    groups: Groups
    alone: dict[int, int]
    """The other tokens, with the distance after them."""
    doubts: NDArray[np.int64]
    """Those of them for which the name matters."""


class Landings:
    """Levels of the states of a machine; whoever calls holds the machine's lock."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._network, self._lexicon = machine, machine.network, machine.network.lexicon
        self._plain: Recent[tuple[int, int, int], Plain] = Recent(KEPT_NAMES)
        self._one = self._lexicon.one

    def levels(self, configurations: Configurations) -> Levels:
        """The levels of a set of configurations.

        Of a token that several of them take, each sees the distances of those it leads to itself; the least counts.
        """
        groups: list[Groups] = []
        alone: dict[int, int] = {}
        todo = list(configurations)
        while todo:
            s, k = todo.pop()
            if s >= 0 and self._network.kind(s) == kinds.UNBUILT:
                self._network.build(s)
                todo.append(self._settled(s, k))
                continue
            row, _ = self._machine._row(s, k)
            if ~s >= kinds.SPAN:
                row = self._add_span(s, k, row, groups, todo)
            elif s < 0:
                group, distances, grouped = self._inside(~s, k, row)
                groups.append((group, distances))
                row = self._others(s, k, row, grouped)
            elif self._network.is_name(s) and int(self._network.frames[k, 5]) >= 0:
                self._add_name(s, k, row, groups, alone)
                continue
            elif self._network.kind(s) == kinds.FORK and int(np.bitwise_count(row).sum()) > FEW:
                low, high = self._network.arrays[0][s, 1:3].tolist()
                edges = self._network.arrays[1][low:high, 2].tolist()
                todo += [self._settled(branch, k) for branch in edges]
                continue
            self._one_by_one(s, k, row, alone)
        return levels_of(groups, alone)

    def _others(self, s: int, k: int, row: NDArray[np.uint32], grouped: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The tokens of a row that have no group, and the one that surely brings the end nearer.

        The level of its group may be too high: a token of it may also leave the string, and names may be equal.
        """
        row = row & ~grouped
        if (nearer := self._machine._witness.first_token(s, k)) >= 0:
            row[nearer >> 5] |= np.uint32(1 << (nearer & 31))
        return row

    def _add_span(
        self, s: int, k: int, row: NDArray[np.uint32], groups: list[Groups], todo: list[tuple[int, int]]
    ) -> NDArray[np.uint32]:
        """Add the tokens of a part of a text by the bytes that are left of it; what to look at one by one.

        Where the part may end here, what follows it is put on todo.
        """
        from ctrlgen.engine.kernel_spans import MOST_LEFT, land_span

        spans, number = self._network.spans_at(~s)
        back, parent, least, most = self._network.frames[k, :4].tolist()
        after, least = self._settled(back, parent), max(least, 0)
        if spans.may_end(number) and not least and after != (0, 0):
            todo.append(after)
            row = row & ~self._machine._row(*after)[0]
        if np.bitwise_count(row).sum() <= FEW_OF_A_SPAN:
            return row
        group = np.zeros(32 * len(row), np.uint16)
        trie, tokens, children = self._lexicon.arrays[:3]
        left = spans.bytes_left(least)
        largest = land_span(trie, tokens, children, spans.states, spans.edges, left, number, least, most, group)
        size = min(1 + largest, MOST_LEFT)
        distances = self._left(*after) + np.arange(size + 1)
        distances[size] = distances[0] + 1 + largest
        groups.append((group, distances))
        grouped = np.packbits(group > 0, bitorder="little").view(np.uint32)
        return self._others(s, k, row, grouped)

    def _add_name(self, s: int, n: int, row: NDArray[np.uint32], groups: list[Groups], alone: dict[int, int]) -> None:
        """Add the tokens of the name of frame n, which need not be a declared one.

        They are the same for all names that no declared or used name begins with, but for tokens that begin another
        name: these are followed each time.
        """
        from ctrlgen.engine.kernel_objects import in_the_way

        k, g = self._network.frames[n, [1, 5]].tolist()
        key = (s, k, g)
        alike = not self._machine._run(in_the_way, n) and not self._machine._witness.rest(s, n).shift
        known = self._plain.get(key) if alike else None
        if known is None:
            group, distances, grouped = self._names(n, row)
            found: dict[int, int] = {}
            doubts = self._one_by_one(s, n, self._others(s, n, row, grouped), found)
            doubts |= set(found).intersection(self._lexicon.many_quotes.tolist())
            known = Plain((group, distances), found, np.array(sorted(doubts), np.int64))
            if alike:
                self._plain[key] = known
        elif len(known.doubts):
            again = np.zeros_like(row)
            np.bitwise_or.at(
                again, known.doubts >> 5, np.left_shift(np.uint32(1), (known.doubts & 31).astype(np.uint32))
            )
            found = {token: left for token, left in known.alone.items() if token not in set(known.doubts.tolist())}
            self._one_by_one(s, n, again & row, found)
            known = known._replace(alone=found)
        groups.append(known.groups)
        for token, left in known.alone.items():
            alone[token] = min(left, alone.get(token, FAR))

    def _settled(self, s: int, k: int) -> tuple[int, int]:
        from ctrlgen.engine.kernel_step import settled

        self._machine._run(settled, s, k, self._one)
        return int(self._one[0, 0]), int(self._one[0, 1])

    def _one_by_one(self, s: int, k: int, row: NDArray[np.uint32], alone: dict[int, int]) -> set[int]:
        """Add the tokens of a row, each followed from configuration (s, k), with their distances.

        Returns:
            Those that lead into the name of a member, or to several configurations.
        """
        machine, texts, here = self._machine, self._machine.vocabulary.tokens, ((s, k),)
        tokens = set_bits(row).tolist()
        written = [token for token in tokens if token < len(texts) and texts[token]]
        distance: dict[tuple[int, int], int] = {}
        doubts = set()
        for token, (count, symbol, stack) in zip(written, self.followed(s, k, written).tolist(), strict=True):
            if count == 1:
                found = distance.get((symbol, stack))
                if found is None:
                    found = distance[symbol, stack] = 1 + self._left(symbol, stack)
                if self._network.is_name(symbol):
                    doubts.add(token)
            elif count:
                found = self._nearest(machine._step(here, np.frombuffer(texts[token] or b"", np.uint8)))
                doubts.add(token)
            else:
                continue
            alone[token] = min(found, alone.get(token, FAR))
        for token in sorted(set(tokens).difference(written)):  # control tokens
            if after := machine._read(here, token):
                alone[token] = min(self._nearest(after), alone.get(token, FAR))
        return doubts

    def followed(self, s: int, k: int, tokens: list[int]) -> NDArray[np.int64]:
        """int64[n, 3]: how many configurations each token leads to, and the symbol and stack of the only one."""
        from ctrlgen.engine.kernel_closing import advance_each

        machine = self._machine
        each = [machine.vocabulary.tokens[token] or b"" for token in tokens]
        texts = np.frombuffer(b"".join(each), np.uint8)
        ends = np.cumsum(np.fromiter(map(len, each), np.int64, len(each)))
        found, at = np.empty((len(each), 3), np.int64), 0
        while at < len(each):
            room = machine._current, machine._after, machine._work
            at, code = advance_each(self._network.table, s, k, texts, ends, at, found, *room)
            if code:
                machine._provide(code)
        return found

    def _nearest(self, configurations: Configurations) -> int:
        return 1 + min(self._left(*one) for one in configurations)

    def _left(self, s: int, k: int) -> int:
        return self._machine._witness.rest(s, k).tokens

    # tokens inside an automaton

    def _inside(self, g: int, k: int, row: NDArray[np.uint32]) -> tuple[*Groups, NDArray[np.uint32]]:
        """The groups of a string whose frame is k, of the tokens in ``row``, and the row of those that have one."""
        network = self._network
        counted = k != 0 and network.kind(int(network.frames[k, 0])) < kinds.AFTER_MEMBER
        least = max(int(network.frames[k, 2]), 0) if counted else 0
        most = int(network.frames[k, 3]) if counted else -1
        inside = self._grouped(g, min(least, self._lexicon.longest))
        distances = np.zeros(len(inside.reached), np.int64)
        for number, (q, count) in enumerate(inside.reached.tolist()):
            if number and not (self._lexicon.final(q) and least - count > 0):
                frame = self._counted(k, least - count, most) if count and least else k
                distances[number] = 1 + self._left(~q, frame)
        if not counted or (least == 0 and most < 0):
            return inside.group, distances, inside.row
        return _only(inside.group, row), distances, inside.row & row

    def _counted(self, k: int, least: int, most: int) -> int:
        from ctrlgen.engine.kernel_table import push_frame

        back, parent = self._network.frames[k, :2].tolist()
        return self._machine._run(push_frame, back, parent, max(least, 0), most, 0, 0)

    def _grouped(self, g: int, most: int) -> Inside:
        kept = _insides.setdefault(self._lexicon, Recent(KEPT))
        known = kept.get((g, most))
        if known is None:
            known = kept[g, most] = self._walked(g, most)
        return known

    def _walked(self, g: int, most: int) -> Inside:
        from ctrlgen.engine.kernel_closing import land

        trie, tokens, _, step, states = self._lexicon.arrays[:5]
        first, count = self._lexicon.span(g)
        vocabulary, room = self._machine.vocabulary, 256
        while True:
            group = np.zeros(32 * vocabulary.words, np.uint16)
            reached, number = np.zeros((room, 2), np.int32), np.zeros((count, most + 1), np.int32)
            n = land(trie, tokens, step, states, g, first, most, number, group, reached)
            if n <= room:
                return Inside(group, reached[:n].copy(), np.packbits(group > 0, bitorder="little").view(np.uint32))
            room *= 2

    # names that are not declared

    def _names(self, n: int, row: NDArray[np.uint32]) -> tuple[*Groups, NDArray[np.uint32]]:
        """The groups of the name of frame n, without the tokens that begin a declared or used name; their row."""
        network = self._network
        back, k, _, _, _, g = network.frames[n, :6].tolist()
        inside = self._grouped(g, 0)
        group = _only(inside.group, row)
        self._clear_known(n, group)
        distances = np.full(len(inside.reached), FAR, np.int64)
        for number, (q, _) in enumerate(inside.reached.tolist()):
            if number:
                distances[number] = self._unknown_name(back, k, q)
        for number in np.flatnonzero(distances[1:] >= FAR).tolist():
            if not (group == number + 1).any():
                distances[number + 1] = 0
        return group, distances, np.packbits(group > 0, bitorder="little").view(np.uint32)

    def _unknown_name(self, back: int, k: int, q: int) -> int:
        """The most tokens after a name in state q of which the text is not known."""
        from ctrlgen.engine.kernel_step import enter_member
        from ctrlgen.engine.kernel_table import push_frame

        run, containers = self._machine._run, self._network.containers
        if not self._lexicon.final(q):
            frame = run(push_frame, back, k, -1, 0, 0, q)
            return self._farthest(back, frame)
        _, _, _, _, classes = containers.arrays[:5]
        objects = containers.arrays[0]
        number = containers.name_nodes[back]
        first, end = classes[int(objects[number, kinds.CLASSES]) + self._lexicon.label(q)].tolist()
        found = FAR
        for way in range(first, end):
            if run(enter_member, k, -1, -1, way, self._one) == 1:
                found = min(found, self._farthest(int(self._one[0, 0]), int(self._one[0, 1])))
        return found

    def _farthest(self, s: int, k: int) -> int:
        rest = self._machine._witness.rest(s, k)
        return 1 + rest.tokens + rest.shift

    def _clear_known(self, n: int, group: NDArray[np.uint16]) -> None:
        """Take the tokens out of their groups that begin a declared or a used name."""
        from ctrlgen.engine.kernel_closing import clear_along

        trie, tokens, children = self._lexicon.arrays[:3]
        for rest in self._machine._witness.taken(n):
            clear_along(trie, tokens, children, np.frombuffer(rest[: self._lexicon.longest], np.uint8), group)


def _only(group: NDArray[np.uint16], row: NDArray[np.uint32]) -> NDArray[np.uint16]:
    """The groups of the tokens in row only."""
    return group * np.unpackbits(row.view(np.uint8), bitorder="little")


def _row_of(tokens: NDArray[np.int64], words: int) -> NDArray[np.uint32]:
    bits = np.zeros(32 * words, bool)
    bits[tokens] = True
    return np.packbits(bits, bitorder="little").view(np.uint32)
