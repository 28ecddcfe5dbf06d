"""What was computed lately, and things numbered in the order they came; both may be shared by threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

Key = TypeVar("Key")
Value = TypeVar("Value")
Place = TypeVar("Place", bound="Hashable")


class Recent(OrderedDict[Key, Value]):
    """A dictionary that keeps the values set last, at most so many.

    >>> rows = Recent(2)
    >>> rows["a"], rows["b"], rows["c"] = 1, 2, 3
    >>> list(rows)
    ['b', 'c']
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        """Keep a value; the oldest goes if there are too many."""
        super().__setitem__(key, value)
        while len(self) > self.most:
            self.popitem(last=False)  # in one step, since other threads evict too


class Numbered(Generic[Place]):
    """Places and their numbers, the first one 0; a place never changes its number.

    >>> places = Numbered("start")
    >>> places.number("end"), places.number("end"), places[1]
    (1, 1, 'end')
    """

    def __init__(self, first: Place) -> None:
        self._places = [first]
        self._number = {first: 0}
        self._lock = threading.Lock()

    def __getitem__(self, number: int) -> Place:
        return self._places[number]

    def __len__(self) -> int:
        return len(self._places)

    def number(self, place: Place) -> int:
        """The number of a place."""
        known = self._number.get(place)
        return self._new(place) if known is None else known

    def _new(self, place: Place) -> int:
        with self._lock:
            number = self._number.get(place)
            if number is None:
                number = len(self._places)
                self._places.append(place)  # before its number can be found
                self._number[place] = number
            return number
