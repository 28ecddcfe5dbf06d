"""Whether what a file of an index says is so: kernels follow its numbers as they stand, and check no bounds.

The header is checked when a file is opened; the arrays are when it is verified, which reads them whole. Checksums find
what was damaged; these checks find what was never an index, whoever wrote it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ctrlgen.index import build_kernels
from ctrlgen.index.compiled import compiled
from ctrlgen.index.layout import ARRAYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

_DTYPES = {
    "tokens": ("|u1", "<u2", "<u4"),
    "offsets": ("<u4", "<i8"),
    "symbol": ("|u1", "<u2", "<u4"),
    "lo": ("<u4", "<i8"),
    "child": ("<u4", "<i8"),
    "branch": ("|u1", "<u2"),
    "shortest": ("|u1", "<u2"),
    "ids": ("<u4", "<i8"),
    "weights": ("<f8",),
}
ALIGNMENT = 64
"""Arrays begin at multiples of so many bytes."""

_KEYS = {"length", "count", "longest", "ends", "width", "fingerprint", "arrays"}
_MORE = {"kind", "normalise"}


def fault_of_header(read: Any) -> str | None:
    """What is wrong with the content of a header as JSON gives it; None if it can be that of an index."""
    if not isinstance(read, dict) or not _KEYS <= set(read) <= _KEYS | _MORE:
        return "its header lacks entries, or has others"
    if not all(_is_number(read[name]) for name in ("length", "count", "longest", "width")) or not read["count"]:
        return "its numbers are none"
    if not isinstance(read["ends"], list) or not all(_is_number(end) and end < read["width"] for end in read["ends"]):
        return "its end ids are not below its width"
    if not all(isinstance(read.get(name), str | None) for name in ("fingerprint", "normalise")):
        return "its fingerprint or normal form is no text"
    if read.get("kind") == "names" and (read["width"] != 256 or read["length"]):
        return "its names are not bytes"
    if read.get("normalise") not in (None, "pep503"):
        return f"it is in the normal form {read['normalise']!r}, which this ctrlgen does not know"
    arrays = read["arrays"]
    if not isinstance(arrays, dict) or set(arrays) != set(ARRAYS):
        return "it does not hold the arrays of an index"
    for name, entry in arrays.items():
        if (
            not isinstance(entry, dict)
            or entry.get("dtype") not in _DTYPES[name]
            or not _is_number(entry.get("size"))
            or not _is_number(entry.get("place"))
            or entry["place"] % ALIGNMENT
            or not _is_digest(entry.get("sha256"))
        ):
            return f"its array {name!r} is described in another way"
    if (read.get("kind") == "names") != (arrays["tokens"]["dtype"] == "|u1"):
        return "its tokens have another size than those of its kind"
    return _fault_of_sizes(read, {name: entry["size"] for name, entry in arrays.items()})


def _fault_of_sizes(read: Mapping[str, Any], sizes: Mapping[str, int]) -> str | None:
    count, length, edges = read["count"], read["length"], sizes["lo"]
    fit = {
        "lo": edges > 0,
        "symbol": sizes["symbol"] == edges,
        "branch": sizes["branch"] == edges,
        "child": sizes["child"] == edges + 1,
        "shortest": sizes["shortest"] == (0 if length else edges),
        "offsets": sizes["offsets"] == (0 if length else count + 1),
        "tokens": not length or sizes["tokens"] == count * length,
        "ids": sizes["ids"] in (0, count),
        "weights": sizes["weights"] in (0, count),
    }
    wrong = next((name for name, fits in fit.items() if not fits), None)
    return None if wrong is None else f"its array {wrong!r} has another size than the others ask for"


def fault_of_arrays(
    arrays: Mapping[str, NDArray[Any]], length: int, longest: int, width: int, *, ends: bool
) -> str | None:
    """What is wrong with the arrays, of sizes that fit: names the item or the edge; None if they are an index.

    ends: whether something tells the end of an item, so that one may begin another.
    """
    tokens, offsets, branch = arrays["tokens"], arrays["offsets"], arrays["branch"]
    equal = int(np.iinfo(branch.dtype).max)
    count = len(tokens) // length if length else len(offsets) - 1
    if not length:
        steps = np.diff(offsets.astype(np.int64))
        if int(offsets[0]) != 0 or int(offsets[-1]) != len(tokens) or int(steps.min()) < 0:
            return "items do not lie one after the other"
        if int(steps.max()) != longest:
            return f"its longest item has {steps.max()} tokens instead of {longest}"
    elif longest != length:
        return f"its longest item has {length} tokens instead of {longest}"
    if longest >= equal:
        return f"items of {longest} tokens do not fit its numbers of depths"
    if len(tokens) and int(tokens.max()) >= width:
        return f"token {tokens.max()} is not below the width {width}"
    if not ends and bool((arrays["symbol"][1:] == 0).any()):
        return "an item begins another one, but there is no end id"
    shared = np.zeros(count, branch.dtype)
    wrong = compiled(build_kernels.shared_prefixes)(tokens, offsets, length, 0, count, equal, shared)
    if wrong >= 0:
        return f"item {wrong} is out of order"
    edge = compiled(build_kernels.misplaced_edge)(
        tokens, offsets, length, count, arrays["symbol"], arrays["lo"], arrays["child"], branch, arrays["shortest"],
        equal,
    )  # fmt: skip
    return None if edge < 0 else f"edge {edge} does not lead to the items it should"


def fault_of_names(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """What is wrong with arrays, which are an index, as one of names; None if they are texts."""
    tokens, starts = arrays["tokens"], arrays["offsets"][:-1].astype(np.int64)
    try:
        tokens.tobytes().decode()
    except UnicodeDecodeError as error:
        return f"byte {error.start} of its names is not UTF-8"
    inside = np.flatnonzero((tokens[starts[starts < len(tokens)]] & 0xC0) == 0x80)
    return f"name {inside[0]} begins within a character" if len(inside) else None


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")
