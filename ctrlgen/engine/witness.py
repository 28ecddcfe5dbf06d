"""A short text from a configuration to the end of the text.

Each choice (which branch, which member) depends on the configuration alone, so the rest of a witness is the witness of
what is left, and the number of its tokens goes down by one with each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ctrlgen.engine import columns as kinds
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlgen.engine.containers import Members, Way
    from ctrlgen.engine.network import Network

MAX_BYTES = 10_000_000
MAX_NAMES = 100_000


class Witness:
    """Short texts of a network.

    Args:
        network: the network.
        run: runs a kernel on its table and gives it what it asks for.
    """

    def __init__(self, network: Network, run: Callable[..., int]) -> None:
        self.network, self.lexicon, self._run = network, network.lexicon, run
        self._one = np.empty((64, 2), np.int64)

    def of(self, symbol: int, stack: int) -> bytes:
        """A text that leads from a configuration to the end.

        Raises:
            ComplexityError: it has more than MAX_BYTES bytes.
        """
        out = bytearray()
        network = self.network
        while True:
            symbol, stack = self._settled(symbol, stack)
            if len(out) > MAX_BYTES:
                raise ComplexityError(f"the shortest text has more than {MAX_BYTES} bytes")
            if symbol < 0:
                symbol, stack = self._finish(~symbol, stack, out)
                if symbol == 0 and stack == 0:
                    return bytes(out)
                continue
            kind = network.kind(symbol)
            if kind == kinds.END:
                return bytes(out)
            if kind == kinds.BYTES:
                byte = network.cheapest(symbol)
                out.append(byte)
                low, high = network.arrays[0][symbol, 1:3].tolist()
                symbol = next(t for a, b, t in network.arrays[1][low:high].tolist() if a <= byte <= b)
            elif kind == kinds.FORK:
                symbol = network.cheapest(symbol)
            elif kind == kinds.NAME:
                symbol, stack = self._member(symbol, stack, out)
            else:
                network.build(symbol)

    def _settled(self, symbol: int, stack: int) -> tuple[int, int]:
        from ctrlgen.engine.kernel_step import settled

        self._run(settled, symbol, stack, self._one)
        return int(self._one[0, 0]), int(self._one[0, 1])

    # strings

    def _finish(self, state: int, stack: int, out: bytearray) -> tuple[int, int]:
        """Append the shortest way out of an automaton; the configuration after it."""
        lexicon, frame = self.lexicon, self.network.frames[stack].tolist()
        kept = self.network.kind(frame[0]) >= kinds.AFTER_MEMBER
        least = 0 if kept else frame[2]
        while True:
            if least > 0 and lexicon.boundary(state):
                # characters still needed: the cheapest is any byte that is a character of its own
                byte, state = self._one_character(state)
                least -= 1
            elif lexicon.final(state):
                return frame[0], (stack if kept else frame[1])
            else:
                byte = lexicon.shortest_byte(state)
                state = lexicon.step(state, byte)
                least -= lexicon.boundary(state)
            out.append(byte)

    def _one_character(self, state: int) -> tuple[int, int]:
        for byte in range(0x20, 0x7F):
            target = self.lexicon.step(state, byte)
            if target >= 0 and self.lexicon.boundary(target) and not self.lexicon.final(target):
                return byte, target
        raise ComplexityError("a counted string needs a character of one byte")

    # members

    def _member(self, symbol: int, frame: int, out: bytearray) -> tuple[int, int]:
        """Append the rest of a name; the configuration before its value."""
        from ctrlgen.engine.kernel_records import FLAGS
        from ctrlgen.engine.kernel_table import push_pair

        network = self.network
        objects, slots, _, _, classes = network.containers.arrays[:5]
        _, stack, text, _, _, state = network.frames[frame, :6].tolist()
        number = network.containers.name_nodes[symbol]
        members = network.containers.objects[number]
        record = int(network.frames[stack, 2])
        lacking = members.wanted & ~int(network.records[record + FLAGS])
        slot = self._slot(members, frame, lacking)
        if slot >= 0:
            out += members.slots[slot].name[int(network.pairs[text, 2]) :]
            first = int(slots[objects[number, kinds.SLOTS] + slot, kinds.WAYS])
            return self._valued(stack, slot, -1, members.slots[slot].ways, first, lacking)
        if members.others is None:
            raise ComplexityError("no member can follow here")
        rest = self._other(members, frame, lacking)
        out += rest
        for byte in rest:
            text = self._run(push_pair, text, byte)
            state = self.lexicon.step(state, byte)
        label = self.lexicon.label(state)
        first = int(classes[objects[number, kinds.CLASSES] + label, 0])
        return self._valued(stack, -1, text, members.others.classes[label], first, lacking)

    def _slot(self, members: Members, frame: int, lacking: int) -> int:
        """The slot to take next: one that must come, else (where nothing else is lacking) the cheapest; -1: another."""
        from ctrlgen.engine.kernel_objects import owed_name, possible

        owed = self._run(owed_name, frame) - 1
        if owed >= 0:
            return owed
        if lacking and int(self.network.frames[frame, 5]) >= 0:
            return -1
        fitting = np.zeros(len(members.slots) + 1, np.int64)
        n = self._run(possible, frame, fitting)
        costs = [(self._cost(members.slots[i].ways) + len(members.slots[i].name), i) for i in fitting[:n].tolist()]
        return min(costs)[1] if costs else -1

    def _cost(self, ways: tuple[Way, ...]) -> int:
        return min(self.network.cost[node] for node, _ in ways)

    def _valued(
        self, stack: int, slot: int, text: int, ways: tuple[Way, ...], first: int, lacking: int
    ) -> tuple[int, int]:
        """The configuration before the value of a member: of the ways, one that brings most of what is lacking.

        The kernels know the ways by number, from ``first`` on.
        """
        from ctrlgen.engine.kernel_step import enter_member

        order = sorted(
            range(len(ways)), key=lambda i: (-(ways[i][1] & lacking).bit_count(), self.network.cost[ways[i][0]], i)
        )
        for i in order:
            if self._run(enter_member, stack, slot, text, first + i, self._one) == 1:
                return int(self._one[0, 0]), int(self._one[0, 1])
        raise ComplexityError("no value can follow here")

    def _bytes(self, text: int) -> bytes:
        out = bytearray()
        while text > 0:
            out.append(int(self.network.pairs[text, 1]))
            text = int(self.network.pairs[text, 0])
        return bytes(reversed(out))

    def _other(self, members: Members, frame: int, lacking: int) -> bytes:
        """The least (by length, then bytes) rest of a name that is free and brings something of what is lacking."""
        from ctrlgen.engine.kernel_records import OTHERS

        network, lexicon = self.network, self.lexicon
        _, stack, text, _, _, state = network.frames[frame, :6].tolist()
        begun = self._bytes(text) if text >= 0 else b""
        taken = {slot.name for slot in members.slots}
        names = int(network.records[int(network.frames[stack, 2]) + OTHERS])
        while names > 0:
            taken.add(self._bytes(int(network.pairs[names, 1]) - 256))
            names = int(network.pairs[names, 0])
        classes = members.others.classes if members.others is not None else ()
        useful = [not lacking or any(flags & lacking for _, flags in ways) for ways in classes]
        front = [(begun, state)]
        for _ in range(MAX_NAMES):
            following = []
            for prefix, at in front:
                for byte, target in lexicon.ways(at):
                    name = prefix + bytes([byte])
                    if not lexicon.final(target):
                        following.append((name, target))
                    elif useful[lexicon.label(target)] and name not in taken:
                        return name[len(begun) :]
            # of all prefixes of one length the first few suffice: only names that are taken can be in the way
            front = self._thinned(following, len(taken))
        raise ComplexityError("no name is left here")

    @staticmethod
    def _thinned(front: list[tuple[bytes, int]], taken: int) -> list[tuple[bytes, int]]:
        kept: dict[int, int] = {}
        out = []
        for prefix, state in sorted(front):
            kept[state] = kept.get(state, 0) + 1
            if kept[state] <= taken + 1:
                out.append((prefix, state))
        return out
