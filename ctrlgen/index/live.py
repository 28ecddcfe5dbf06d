"""A catalogue that changes while it is used: a large base, and beside it what has been added since.

Who decodes takes a snapshot, which never changes. Adding builds the small index beside the base anew, removing
clears bits of a filter, and either ends with one assignment, so that the next snapshot sees all of a change or
nothing of it. Compaction merges the two in the background and replays what has happened meanwhile.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.errors import InputError, UnsatisfiableError
from ctrlgen.index.build import build, read_ids, read_weights
from ctrlgen.index.filters import Filter
from ctrlgen.index.items import read_items, refuse_tokens
from ctrlgen.index.merge import Named, concatenated, merged, named_items
from ctrlgen.index.snapshot import Snapshot
from ctrlgen.index.token_index import TokenIndex

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Change = Callable[["_Parts"], "_Parts"]


class _Parts:
    """The base and what lies beside it; either may be absent, not both. Never changed."""

    def __init__(self, base: TokenIndex | None, beside: TokenIndex | None) -> None:
        self.base, self.beside = base, beside
        present = [part for part in (base, beside) if part is not None]
        if not present:
            raise UnsatisfiableError("that would leave no item; nothing has been removed")
        self.snapshot = Snapshot(present)


class LiveIndex:
    """A catalogue to which items are added and from which they are removed; safe to use from several threads.

    Args:
        base: where it starts. Without end ids all items must have one length, so that none begins another.

    Raises:
        InputError: the base has neither end ids nor one length.
    """

    def __init__(self, base: TokenIndex) -> None:
        if not base.ends and not base.layout.length:
            raise InputError("items of several lengths can only be added to an index with end ids: pass eos=")
        self._like = base
        self._parts = _Parts(base, None)
        self._next_id = int(base.layout.ids.max() if len(base.layout.ids) else base.layout.count - 1) + 1
        self._lock = threading.Lock()
        self._compacting = threading.Lock()
        self._journal: list[Change] | None = None  # of changes since a compaction began

    @property
    def snapshot(self) -> Snapshot:
        """The catalogue as it is now; it stays as it is."""
        return self._parts.snapshot

    def __len__(self) -> int:
        return len(self.snapshot)

    def add(
        self, items: Any, *, offsets: Any = None, pad: int | None = None, ids: Any = None, weights: Any = None
    ) -> NDArray[np.int64]:
        """Add items; the next snapshot has them.

        Args:
            items, offsets, pad: as for ``TokenIndex.from_items``.
            ids: integer[N]; by default those that follow the greatest id so far.
            weights: float[N], needed exactly if the base has weights.

        Returns:
            int64[N], the ids.

        Raises:
            UnsatisfiableError, InputError: as for ``TokenIndex.from_items``; nothing has been added then.
        """
        like = self._like
        read = read_items(items, offsets=offsets, pad=pad, width=like.width)
        refuse_tokens(read, like.ends, "an end id; items are given without it")
        if not like.ends and read.length != like.layout.length:
            raise InputError(f"without end ids all items must have {like.layout.length} tokens, as in the base")
        if (weights is None) != (not len(like.layout.weights)):
            raise InputError("weights must be given for all items or for none, and the base decides which")
        chosen, given = read_ids(ids, len(read)).astype(np.int64), read_weights(weights, len(read))
        with self._lock:
            if ids is None:
                chosen = np.arange(self._next_id, self._next_id + len(read))
            self._next_id = max(self._next_id, int(chosen.max()) + 1)
            self._change(lambda parts: self._added(parts, Named(read, chosen, given)))
        return chosen

    def remove(self, ids: Any) -> int:
        """Remove all items that have one of the ids; the next snapshot lacks them.

        Returns:
            How many items were removed.

        Raises:
            InputError: an id that no item has.
            UnsatisfiableError: no item would be left; nothing has been removed then.
        """
        gone = read_ids(np.asarray(ids).ravel(), np.asarray(ids).size).astype(np.int64)
        with self._lock:
            before = self.snapshot
            known = [_alive_ids(part, gone) for part in before.parts]
            missing = np.setdiff1d(gone, np.concatenate(known))
            if len(missing):
                raise InputError(f"no item has the id {missing[0]}")
            self._change(lambda parts: _removed(parts, gone))
            return len(before) - len(self.snapshot)

    def compact(self) -> None:
        """Merge everything into one base, then swap it in; readers and writers go on meanwhile."""
        with self._compacting:
            with self._lock:
                parts, self._journal = self._parts, []
            try:
                base = self._merged(parts)
            except BaseException:
                with self._lock:
                    self._journal = None
                raise
            with self._lock:
                changed = _Parts(base, None)
                for change in self._journal or []:
                    changed = change(changed)
                self._parts, self._journal = changed, None

    def compact_in_background(self) -> threading.Thread:
        """``compact`` in a thread of its own, which is returned."""
        thread = threading.Thread(target=self.compact, name="ctrlgen-compaction", daemon=True)
        thread.start()
        return thread

    # inside

    def _change(self, change: Change) -> None:
        """Apply a change, and keep it for a compaction under way; the lock is held."""
        self._parts = change(self._parts)
        if self._journal is not None:
            self._journal.append(change)

    def _added(self, parts: _Parts, new: Named) -> _Parts:
        there = [] if parts.beside is None else [named_items(parts.beside)]
        items, ids, weights = concatenated([*there, new])
        return _Parts(parts.base, self._index(build(items, ids, weights)))

    def _merged(self, parts: _Parts) -> TokenIndex:
        several = [named_items(part) for part in parts.snapshot.parts]
        return self._index(merged(*several) if len(several) == 2 else build(*several[0]))

    def _index(self, layout: Any) -> TokenIndex:
        like = self._like
        return TokenIndex(layout, like.ends, like.width, like.given_vocabulary)


def _alive_ids(part: TokenIndex, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those of the ids that an item of the part has which is not filtered out."""
    places, _ = part.item_ids.known_places(ids)
    if part.passing is not None:
        places = places[part.passing.rank(places + 1) > part.passing.rank(places)]
    return part.item_ids.at(places)


def _removed(parts: _Parts, ids: NDArray[np.int64]) -> _Parts:
    return _Parts(_without(parts.base, ids), _without(parts.beside, ids))


def _without(part: TokenIndex | None, ids: NDArray[np.int64]) -> TokenIndex | None:
    if part is None:
        return None
    places, _ = part.item_ids.known_places(ids)
    kept = ~Filter.from_places(places, part.layout.count)
    if part.passing is not None:
        kept = part.passing & kept
    return part.where(kept) if kept.passing else None
