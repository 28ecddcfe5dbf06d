"""Loops over the bits of filters; see ``ctrlgen.index.compiled``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def count_words(words: Array, counts: Array) -> Any:
    """Write to counts how many bits are set before each word; returns how many are set in all."""
    total: Any = 0
    for i in range(words.shape[0]):
        counts[i] = total
        x = words[i]
        x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
        x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
        x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        total += np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
    return total


def pack_flags(eights: Array, words: Array) -> None:
    """Write one bit a flag; eights: uint64, eight flags of one byte (0 or 1) each.

    The product moves the lowest bit of each byte into the highest byte, the first flag to the lowest place.
    """
    for i in range(eights.shape[0] // 8):
        word = np.uint64(0)
        for k in range(8):
            bits = (eights[8 * i + k] * np.uint64(0x0102040810204080)) >> np.uint64(56)
            word |= bits << np.uint64(8 * k)
        words[i] = word


def set_bits(words: Array, places: Array) -> None:
    """Set the bit of each place."""
    for i in range(places.shape[0]):
        place = np.int64(places[i])
        words[place >> 6] |= np.uint64(1) << np.uint64(place & 63)


def list_bits(words: Array, places: Array) -> None:
    """Write the places of all set bits, ascending."""
    n = 0
    for i in range(words.shape[0]):
        x = words[i]
        bit = 0
        while x != np.uint64(0):
            if x & np.uint64(1):
                places[n] = i * 64 + bit
                n += 1
            x >>= np.uint64(1)
            bit += 1
