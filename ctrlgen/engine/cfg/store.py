"""The arrays of one grammar over one vocabulary, and the calls of kernels that grow them."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ctrlgen.engine.cfg.lookaheads import Automaton
from ctrlgen.engine.lexicon import byte_classes, utf8
from ctrlgen.errors import ComplexityError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ctrlgen.engine.cfg.adjacency import Adjacency
    from ctrlgen.engine.cfg.lexer import Lexer
    from ctrlgen.engine.cfg.productions import Productions
    from ctrlgen.engine.cfg.tables import Tables
    from ctrlgen.vocabulary import Vocabulary

# name, dtype, columns (0: one-dimensional; -1: words of a set of terminals; -2: one more; -3: words of a mask),
# most entries, in the order of kernel_store's lines
_LINES: tuple[tuple[str, Any, int, int], ...] = (
    ("trie", np.int32, 6, 0), ("tokens", np.int32, 0, 0), ("counts", np.int64, 0, 0), ("terminal", np.int32, 256, 0),
    ("terminal_info", np.int32, 3, 0), ("members", np.int32, 0, 1 << 24), ("lists", np.int32, 6, 1 << 17),
    ("list_heads", np.int32, 0, 0), ("list_rows", np.int32, 256, 1 << 17), ("duties", np.int32, 0, 1 << 22),
    ("duty_sets", np.int32, 3, 1 << 18), ("duty_heads", np.int32, 0, 0), ("states", np.int32, 8, 1 << 18),
    ("state_heads", np.int32, 0, 0), ("moves", np.int32, 256, 1 << 18), ("reach", np.uint64, -5, 1 << 18),
    ("classes", np.uint64, -2, 1 << 18), ("class_heads", np.int32, 0, 0), ("bounds", np.int32, 4, 1 << 18),
    ("bound_heads", np.int32, 0, 0), ("shift", np.int32, -4, 0), ("goto", np.int32, -4, 0),
    ("shiftable", np.uint64, -1, 0), ("reductions", np.int32, 2, 0), ("rules", np.int32, 0, 0),
    ("followers", np.uint64, -1, 0), ("shape", np.int32, 2, 0), ("scanner", np.int32, 0, 0),
    ("scanner_list", np.int32, 0, 0), ("frames", np.int32, 5, 1 << 24), ("frame_heads", np.int32, 0, 0),
    ("accept", np.uint64, -1, 1 << 24), ("nodes", np.int32, 7, 1 << 22), ("node_heads", np.int32, 0, 0),
    ("groups", np.int32, 4, 1 << 24), ("group_tokens", np.int32, 0, 1 << 27), ("group_rows", np.uint32, -3, 1 << 16),
    ("exits", np.int32, 4, 1 << 24), ("entries", np.int32, 0, 1 << 26), ("scratch", np.int32, 0, 1 << 26),
    ("slots", np.int32, 2, 1 << 18), ("work", np.int32, 2, 1 << 24), ("roots", np.int32, 0, 1 << 18),
    ("verdicts", np.int32, 4, 1 << 22), ("verdict_heads", np.int32, 0, 0),
    ("outcomes", np.int32, 0, 1 << 24), ("stacks", np.int32, 0, 1 << 16), ("pending", np.int32, 0, 1 << 20),
    ("ends", np.int32, 0, 1 << 22), ("unions", np.int32, 3, 1 << 22), ("union_members", np.int32, 0, 1 << 26),
    ("union_heads", np.int32, 0, 0), ("results", np.int32, 0, 1 << 20), ("paths", np.int32, 2, 1 << 20),
    ("available", np.int32, 0, 0), ("begins", np.int32, 0, 0), ("tame", np.uint64, 2, 1 << 18),
    ("below", np.uint64, 0, 0), ("byte_classes", np.int64, 0, 0), ("utf8", np.int32, 256, 0),
)  # fmt: skip
_INDEX = {line[0]: number for number, line in enumerate(_LINES)}
_HEADS = (
    "list_heads",
    "duty_heads",
    "state_heads",
    "class_heads",
    "bound_heads",
    "frame_heads",
    "node_heads",
    "verdict_heads",
    "union_heads",
)
_NEED_SCANNER, NEED_VERDICTS, NEED_BOUNDS = 64, 67, 69
_N_FRAMES, _N_NODES, _N_ROOT_ENTRIES = 8, 9, 15
_N_WALKS = range(9, 15)
N_CLOSED, N_CLASSES, N_VERDICTS, STRICT, PARALLEL, N_UNIONS, N_UNION_MEMBERS, N_JUDGED, N_OUTCOMES = (
    5,
    6,
    16,
    17,
    19,
    21,
    22,
    24,
    18,
)


class Store:
    """See the module; ``scanners`` are sets of terminals (as bits) that a lexer tries, by number."""

    def __init__(
        self, vocabulary: Vocabulary, lexer: Lexer, tables: Tables, scanners: list[int], scanner_of: list[int]
    ):
        from ctrlgen.engine.cfg.kernel_store import intern_duties

        self.lexer, self.scanners = lexer, scanners
        self.terminals = tables.terminals
        self.judge: Callable[[int, int], bool] | None = None
        self.adjacency: Adjacency | None = None
        self._judged, self.grown = 0, False
        words = tables.acceptable.shape[1]
        widths = {-1: words, -5: 2 * words, -2: 2 * words + 2, -3: vocabulary.words}
        trie = vocabulary.trie
        if trie.longest > 500:
            raise ComplexityError(f"the longest token has {trie.longest} bytes; the mask engine takes at most 500")
        given: dict[str, NDArray[Any]] = {
            "trie": trie.nodes, "tokens": trie.tokens, "terminal": lexer.table, "terminal_info": lexer.info,
            "shift": tables.shift.copy(), "goto": tables.goto, "shiftable": tables.acceptable.copy(),
            "reductions": tables.reductions, "rules": tables.rules, "followers": tables.followers,
            "shape": tables.shape, "scanner": np.array(scanner_of, np.int32),
            "scanner_list": np.full(len(scanners), -1, np.int32), "counts": np.zeros(32, np.int64),
            "scratch": np.zeros(max(4096, 8 * len(trie.tokens), 2 * len(lexer.table)), np.int32),
            "entries": np.zeros(max(4096, len(trie.tokens)), np.int32),
            "group_tokens": np.zeros(max(4096, len(trie.tokens)), np.int32),
            "slots": np.zeros((4096, 2), np.int32),
            "available": bytes_to_count_on(vocabulary, lexer).astype(np.int32), "begins": lexer.begins.astype(np.int32),
            "below": _below(vocabulary), "byte_classes": byte_classes(), "utf8": utf8(),
        }  # fmt: skip
        given["counts"][PARALLEL], given["counts"][N_JUDGED] = lexer.language.lexer == "parallel", -1
        self.arrays: list[NDArray[Any]] = []
        for name, dtype, columns, _ in _LINES:
            if name not in given:
                size = 1 << 14 if name in _HEADS else 16 if name == "group_rows" else 512
                shape = (size,) if columns == 0 else (size, widths.get(columns, columns))
                given[name] = np.full(shape, -1 if name in _HEADS else 0, dtype)
            self.arrays.append(np.ascontiguousarray(given[name], dtype))
        self._walk_sizes = np.array([28, 16, 4, 4 * vocabulary.words, 16, 4])
        first = _children(trie.nodes)
        self["entries"][: len(first)] = first
        self["counts"][_N_ROOT_ENTRIES] = self["counts"][14] = len(first)
        self["frames"][0] = 0, -1, -1, 0, 0  # the bottom of all stacks
        self["counts"][_N_FRAMES] = 1
        self.table = np.zeros((len(_LINES), 3), np.int64)
        for line in range(len(_LINES)):
            self._address(line)
        self.run(intern_duties, np.zeros(1, np.int32), 0)  # the empty set is number 0

    def renewed(self) -> Store:
        """A copy without stacks and what is known about them."""
        new = copy(self)
        new.adjacency = self.adjacency and self.adjacency.over(new)
        new.arrays, new.table, new._judged = [array.copy() for array in self.arrays], self.table.copy(), 0
        new["counts"][[N_VERDICTS, N_UNIONS, N_UNION_MEMBERS]] = 0
        new["counts"][_N_FRAMES] = 1
        new["frames"][0] = 0, -1, -1, 0, 0
        for name in ("frame_heads", "union_heads", "verdict_heads"):
            new[name][:] = -1
        for line in range(len(_LINES)):
            new._address(line)
        return new

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[_INDEX[name]]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self.arrays)

    def _address(self, line: int) -> None:
        array = self.arrays[line]
        self.table[line] = array.ctypes.data, array.shape[0], array.shape[1] if array.ndim > 1 else 1

    def run(self, kernel: Callable[..., Any], *arguments: Any) -> int:
        """Call a kernel with the table until it lacks nothing."""
        while True:
            code = int(kernel(self.table, *arguments))
            if code >= 0:
                return code
            self.provide(-code - 1)

    def provide(self, wanted: int) -> None:
        """Give a kernel what it asked for."""
        if wanted < len(_LINES):
            self._grow(wanted)
        elif wanted == NEED_VERDICTS and self.judge is not None:
            self._judge_all()
        elif wanted == NEED_BOUNDS and self.adjacency is not None:
            self.adjacency.judge()
        elif wanted % 2 == 0 and wanted >= _NEED_SCANNER:
            self._start((wanted - _NEED_SCANNER) // 2)
        else:
            raise ComplexityError("the grammar is too ambiguous here: too many ways to read the text; simplify it")

    def _judge_all(self) -> None:
        """Find out which of the configurations that kernels asked about can come to an end."""
        assert self.judge is not None
        while self._judged < self["counts"].item(N_VERDICTS):
            s, k = self["verdicts"][self._judged, :2].tolist()
            self["verdicts"][self._judged, 2] = self.judge(s, k)
            self._judged += 1

    def forbid(self, kept: Productions, tables: Tables) -> bool:
        """Take no terminal that only rules which are not kept could use; False if states do not tell which these are.

        The states stay those of all rules, since what is tried where and how conflicts are resolved depends on them.
        """
        whole, part = tables.automaton, Automaton(kept)
        pairs, seen = [(0, 0)], {(0, 0)}
        taken: dict[int, set[int]] = {}
        for state, kept_state in pairs:
            moves = part.moves[kept_state]
            if taken.setdefault(state, set(moves)) != set(moves):
                return False
            for symbol, target in moves.items():
                pair = whole.moves[state][symbol], target
                if pair not in seen:
                    seen.add(pair)
                    pairs.append(pair)
        shift, shiftable = self["shift"], self["shiftable"]
        for state, terminal in np.argwhere(shift >= 0).tolist():
            if terminal not in taken.get(state, ()):
                shift[state, terminal] = -1
                shiftable[state, terminal >> 6] &= ~np.uint64(1 << (terminal & 63))
        return True

    def make_strict(self) -> None:
        """Let kernels ask about every configuration."""
        self["counts"][STRICT] = 1
        self.close_again()

    def close_again(self) -> None:
        """Let the states that have been closed be closed again, since more is known."""
        counts = self["counts"]
        counts[N_CLOSED] = counts[N_CLASSES] = counts[N_OUTCOMES] = 0
        self["states"][:, 6] = -1
        self["class_heads"][:] = -1

    def _grow(self, line: int) -> None:
        name, _, _, most = _LINES[line]
        self.grown, old = True, self.arrays[line]
        if 2 * len(old) > most:
            raise ComplexityError(f"the grammar needs more than {len(old)} entries of {name}; make it smaller")
        new = np.zeros((2 * len(old), *old.shape[1:]), old.dtype)
        new[: len(old)] = old
        if name == "frames" and len(new) > len(self["frame_heads"]):
            self._rehash_frames(new)
        self.arrays[line] = new
        self._address(line)

    def _rehash_frames(self, frames: NDArray[np.int32]) -> None:
        from ctrlgen.engine.cfg.kernel_store import chain_frames

        line = _INDEX["frame_heads"]
        self.arrays[line] = np.full(4 * len(frames), -1, np.int32)
        chain_frames(frames, int(self["counts"][_N_FRAMES]), self.arrays[line])
        self._address(line)

    def begin_list(self, scanner: int) -> int:
        """The list that begins a terminal for a scanner."""
        if self["scanner_list"][scanner] < 0:
            self._start(scanner)
        return int(self["scanner_list"][scanner])

    def _start(self, scanner: int) -> None:
        from ctrlgen.engine.cfg.kernel_store import intern_list

        members = np.array(self.lexer.start(self.scanners[scanner]), np.int32)
        self["scanner_list"][scanner] = self.run(intern_list, members, len(members), -1, 1)

    def forget_walks(self) -> None:
        """Drop what has been computed about the vocabulary; it is computed again when needed."""
        counts = self["counts"]
        counts[list(_N_WALKS)] = 0
        counts[14] = counts[_N_ROOT_ENTRIES]
        self["node_heads"][:] = -1
        self["roots"][:] = -1

    @property
    def walk_bytes(self) -> int:
        """Bytes that what has been computed about the vocabulary takes."""
        return int(self["counts"][9:15] @ self._walk_sizes)


_belows: WeakKeyDictionary[Vocabulary, NDArray[np.uint64]] = WeakKeyDictionary()


def _below(vocabulary: Vocabulary) -> NDArray[np.uint64]:
    """uint64[trie nodes]: the classes of bytes below, and the highest bit for a node that is within a character."""
    from ctrlgen.engine.kernel_tame import classes_below

    known = _belows.get(vocabulary)
    if known is not None:
        return known
    nodes = vocabulary.trie.nodes.copy()  # a writable one: kernels are compiled for those
    below = np.empty(len(nodes), np.uint64)
    at, deepest = np.empty(len(nodes), np.int8), np.empty(len(nodes), np.int16)
    classes_below(nodes, utf8(), byte_classes(), below, at, deepest)
    below[at != 0] |= np.uint64(1 << 63)
    _belows[vocabulary] = below
    return below


def bytes_to_count_on(vocabulary: Vocabulary, lexer: Lexer) -> NDArray[np.bool_]:
    """bool[256]: the bytes with which terminals are brought to their end, of those that are tokens of their own.

    All of them where the others are needed too: dead ends must be looked for on tokens then.
    """
    single = np.asarray(vocabulary.has_byte, bool)
    used = np.zeros(256, bool)
    used[vocabulary.trie.nodes[1:, 0]] = True
    if not (used & ~single).any():
        return single
    for automaton in lexer.language.automata:
        table, accepting = automaton.next, np.asarray(automaton.accepting, bool)
        alone, anyhow = _ending(table[:, single], accepting), _ending(table[:, used], accepting)
        reached = np.zeros(len(table) + 1, bool)
        reached[0], count = True, 0
        while count != (count := int(reached[:-1].sum())):
            reached[table[reached[:-1]][:, used]] = True  # -1 is the last
        if (reached[:-1] & anyhow & ~alone).any():
            return np.ones(256, bool)
    return single


def _ending(table: NDArray[np.int32], accepting: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The states from which an accepting one is reached by the columns of a table."""
    ending = np.append(accepting, False)
    count = -1
    while count != (count := int(ending.sum())):
        ending[:-1] |= ending[table].any(1)
    return ending[:-1]


def _children(nodes: NDArray[np.int32]) -> list[int]:
    """The nodes directly below the root."""
    children, node = [], 1
    while node < len(nodes):
        children.append(node)
        node = int(nodes[node, 1])
    return children
