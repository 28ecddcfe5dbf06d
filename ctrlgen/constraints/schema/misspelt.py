"""Keywords that nobody knows are annotations; one that looks like a known keyword may be so by mistake."""

from __future__ import annotations

from functools import lru_cache

ANNOTATIONS = frozenset(
    [
        "$schema",
        "$id",
        "id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$comment",
        "$defs",
        "definitions",
        "$vocabulary",
        "title",
        "description",
        "default",
        "example",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "externalDocs",
        "xml",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
    ]
)
"""Keywords that are known and restrict nothing."""


@lru_cache(4096)
def intended(name: str, known: frozenset[str]) -> str | None:
    """The keyword that a name nobody knows is likely to stand for.

    Args:
        name: the unknown keyword.
        known: the keywords that restrict something.

    >>> known = frozenset(("required", "type", "minLength"))
    >>> intended("requried", known), intended("min_length", known), intended("self", known)
    ('required', 'minLength', None)
    """
    if name.startswith(("x-", "_")) or len(name) < 4:
        return None
    plain = _plain(name)
    for keyword in sorted(known):
        if _plain(keyword) == plain:
            return keyword
    if any(edits(plain, _plain(word), 2) <= _allowed(word) for word in ANNOTATIONS):
        return None
    near = [(edits(plain, _plain(keyword), 2), keyword) for keyword in known]
    distance, keyword = min(near, default=(3, ""))
    return keyword if distance <= _allowed(keyword) else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "").strip(" :$")


def _allowed(keyword: str) -> int:
    """Most edits that leave a keyword recognisable."""
    return 2 if len(keyword) >= 8 else 1 if len(keyword) >= 4 else 0


def edits(a: str, b: str, most: int) -> int:
    """Insertions, deletions, replacements and swaps of neighbours from ``a`` to ``b``; ``most`` + 1 for any more.

    >>> edits("requried", "required", 2), edits("items", "item", 2), edits("self", "type", 2)
    (1, 1, 3)
    """
    if abs(len(a) - len(b)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, right in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == b[j - 2] and a[i - 2] == right:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)
