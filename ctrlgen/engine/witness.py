"""A short text from a configuration to the end of the text.

Each choice (which branch, which member) depends on the configuration alone, so the rest of a witness is the witness of
what is left, and the number of its tokens goes down by one with each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ctrlgen.engine import columns as kinds
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ctrlgen.engine.containers import Members, Way
    from ctrlgen.engine.network import Network

MAX_BYTES = 10_000_000
MAX_NAMES = 100_000
MAX_KNOWN = 5_000
MAX_LITERAL = 4096
_AROUND = 32  # bytes of quotes, colon, comma and blanks around a name and a value
_TOO_LONG = f"the shortest text has more than {MAX_BYTES} bytes"

Place = tuple[int, int]
"""A settled configuration."""


class Rest(NamedTuple):
    """What is known of a short text to the end."""

    tokens: int
    """The fewest tokens that spell it, the end token not included."""
    length: int
    """Its bytes."""
    shift: int
    """How many tokens more it may take if a further undeclared name must not come again: see ``landings``."""
    head: bytes
    """Its beginning, as long as the longest token."""
    counts: NDArray[np.int32]
    """int32[len(head) + 1]: the fewest tokens from each byte of the head on."""
    first: int = -1
    """The control token that it begins with, if it does."""


_NOTHING = Rest(0, 0, 0, b"", np.zeros(1, np.int32))


def _with_letter(letter: int, rest: Rest, network: Network) -> Rest:
    """The rest with a letter before it that is no byte: a token for itself, what is filled in, or nothing to leave."""
    if letter == kinds.LEAVE or letter >= kinds.HOLES:
        tokens = rest.tokens + (0 if letter == kinds.LEAVE else network.holes.cost(letter - kinds.HOLES))
        return Rest(tokens, rest.length, rest.shift, b"", np.full(1, tokens, np.int32))
    tokens = rest.tokens + 1
    return Rest(tokens, rest.length + 1, rest.shift, b"", np.full(1, tokens, np.int32), letter - kinds.LETTERS)


class Witness:
    """Short texts of a network.

    Args:
        network: the network.
        run: runs a kernel on its table and gives it what it asks for.
    """

    def __init__(self, network: Network, run: Callable[..., int]) -> None:
        self.network, self.lexicon, self._run = network, network.lexicon, run
        self._one = self.lexicon.one
        self._known: dict[Place, Rest] = {}
        self._literals: dict[int, tuple[bytes, int]] = {}
        self._shift, self._letter = 0, -1

    def of(self, symbol: int, stack: int) -> bytes:
        """A text that leads from a configuration to the end, without its control tokens.

        Raises:
            ComplexityError: it has more than MAX_BYTES bytes.
        """
        out = bytearray()
        place: Place | None = self._settled(symbol, stack)
        while place is not None:
            place = self._after(place, out)
            if len(out) > MAX_BYTES:
                raise ComplexityError(_TOO_LONG)
        return bytes(out)

    def rest(self, symbol: int, stack: int) -> Rest:
        """What is known of that text: how many tokens it takes at least. Kept for each configuration along it.

        Raises:
            ComplexityError: it has more than MAX_BYTES bytes.
        """
        place: Place | None = self._settled(symbol, stack)
        trail: list[tuple[Place, bytes, int, int]] = []
        while place is not None and place not in self._known:
            out, self._shift, self._letter = bytearray(), 0, -1
            after = self._after(place, out)
            trail.append((place, bytes(out), self._shift, self._letter))
            place = after
        rest = _NOTHING if place is None else self._known[place]
        if len(self._known) > MAX_KNOWN:
            self._known.clear()
        for place, text, shift, letter in reversed(trail):
            rest = _with_letter(letter, rest, self.network) if letter >= 0 else rest
            rest = self._known[place] = self._longer(text, shift, rest)
        return rest

    def first_token(self, symbol: int, stack: int) -> int:
        """The first of the fewest tokens that spell the text; the end must lie further on."""
        from ctrlgen.engine.kernel_closing import first_of_fewest

        rest = self.rest(symbol, stack)
        if not rest.head:
            return rest.first if rest.first >= 0 else -1
        trie, tokens, children = self.lexicon.arrays[:3]
        return int(first_of_fewest(trie, tokens, children, np.frombuffer(rest.head, np.uint8), rest.counts))

    def _longer(self, text: bytes, shift: int, rest: Rest) -> Rest:
        """The rest with a text before it."""
        from ctrlgen.engine.kernel_closing import fewest

        if not text:
            return rest if shift == 0 else rest._replace(shift=rest.shift + shift)
        if rest.length + len(text) > MAX_BYTES:
            raise ComplexityError(_TOO_LONG)
        whole, counts = text + rest.head, np.full(len(text) + len(rest.counts), -1, np.int32)
        counts[len(text) :] = rest.counts
        trie, _, children = self.lexicon.arrays[:3]
        fewest(trie, children, np.frombuffer(whole, np.uint8), counts)
        most = self.lexicon.longest
        kept = counts[: most + 1].copy()
        return Rest(int(counts[0]), rest.length + len(text), rest.shift + shift, whole[:most], kept)

    def _after(self, place: Place, out: bytearray) -> Place | None:
        """Append the beginning of the text from a settled configuration; the one after it, None at the end."""
        symbol, stack = place
        network = self.network
        if symbol < 0:
            symbol, stack = self._finish(~symbol, stack, out)
            if symbol == 0 and stack == 0:
                return None
            return self._settled(symbol, stack)
        kind = network.kind(symbol)
        if kind == kinds.END:
            return None
        if kind == kinds.BYTES:
            if (letter := network.cheapest(symbol)) >= kinds.LETTERS:
                self._letter, symbol = letter, self._read(symbol, letter)
            else:
                text, symbol = self._literal(symbol)
                out += text
        elif kind == kinds.FORK:
            symbol = network.cheapest(symbol)
        elif kind == kinds.NAME:
            symbol, stack = self._member(symbol, stack, out)
        else:
            network.build(symbol)
        return self._settled(symbol, stack)

    def _literal(self, symbol: int) -> tuple[bytes, int]:
        """The cheapest bytes from a node on, up to one that does something else, and that one."""
        known = self._literals.get(symbol)
        if known is None:
            text, node, network = bytearray(), symbol, self.network
            while network.kind(node) == kinds.BYTES and len(text) < MAX_LITERAL:
                byte = network.cheapest(node)
                if byte >= kinds.LETTERS:
                    break
                text.append(byte)
                node = self._read(node, byte)
            known = self._literals[symbol] = bytes(text), node
        return known

    def _read(self, node: int, letter: int) -> int:
        """The node after a byte or another letter of a BYTES node."""
        low, high = self.network.arrays[0][node, 1:3].tolist()
        return int(next(t for a, b, t in self.network.arrays[1][low:high].tolist() if a <= letter <= b))

    def out_of(self, state: int, stack: int) -> bytes:
        """The shortest way out of an automaton."""
        out = bytearray()
        self._finish(state, stack, out)
        return bytes(out)

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
        if state >= kinds.SPAN:
            spans, number = self.network.spans_at(state)
            out += spans.ending(number, max(least, 0))
            return frame[0], (stack if kept else frame[1])
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
        if lacking or members.least:
            self._shift += self._longest_instead(members, frame, lacking, rest)
        for byte in rest:
            text = self._run(push_pair, text, byte) if text >= 0 else text
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
        out, pairs = bytearray(), self.network.pairs
        while text > 0:
            text, byte = pairs[text, :2].tolist()
            out.append(byte)
        return bytes(reversed(out))

    def _longest_instead(self, members: Members, frame: int, lacking: int, rest: bytes) -> int:
        """The most tokens that the member of a name takes if one more name is taken: those of its bytes."""
        others = members.others
        try:
            following = self._other(members, frame, lacking, besides=rest)
        except ComplexityError:
            return 0  # there is no other name, so none that is taken
        costs = [self.network.cost[node] for ways in (others.classes if others is not None else ()) for node, _ in ways]
        return len(following) + max(costs, default=0) + _AROUND

    def _other(self, members: Members, frame: int, lacking: int, *, besides: bytes | None = None) -> bytes:
        """The least (by length, then bytes) rest of a name that is free and brings something of what is lacking.

        A name of which the text is not known is like no other. ``besides`` is a rest that is not wanted.
        """
        network, lexicon = self.network, self.lexicon
        text, state = int(network.frames[frame, 2]), int(network.frames[frame, 5])
        begun = self._bytes(text) if text >= 0 else b""
        taken = self._taken(members, frame) if text >= 0 else set()
        if besides is not None:
            taken.add(begun + besides)
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
            if not front:
                break
        raise ComplexityError("no name is left here")

    def taken(self, frame: int) -> list[bytes]:
        """What is left of the declared and used names, closing quote included, that begin like that of a frame."""
        number = self.network.containers.name_nodes[int(self.network.frames[frame, 0])]
        text = int(self.network.frames[frame, 2])
        if text < 0:
            return []
        begun = self._bytes(text)
        names = self._taken(self.network.containers.objects[number], frame)
        return [name[len(begun) :] for name in names if name.startswith(begun)]

    def _taken(self, members: Members, frame: int) -> set[bytes]:
        """The declared names of an object, and the others that it has had."""
        from ctrlgen.engine.kernel_records import OTHERS

        network = self.network
        taken = {slot.name for slot in members.slots}
        names = int(network.records[int(network.frames[int(network.frames[frame, 1]), 2]) + OTHERS])
        while names > 0:
            taken.add(self._bytes(int(network.pairs[names, 1]) - 256))
            names = int(network.pairs[names, 0])
        return taken

    @staticmethod
    def _thinned(front: list[tuple[bytes, int]], taken: int) -> list[tuple[bytes, int]]:
        kept: dict[int, int] = {}
        out = []
        for prefix, state in sorted(front):
            kept[state] = kept.get(state, 0) + 1
            if kept[state] <= taken + 1:
                out.append((prefix, state))
        return out
