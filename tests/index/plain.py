"""A catalogue as a Python list, with everything an index does done by going through all of it."""

import math

END = -1


class PlainCatalogue:
    """Items as tuples of tokens with their ids; ends are the end ids, () where items end by themselves."""

    def __init__(self, items, ids=None, ends=()):
        self.items = [tuple(map(int, item)) for item in items]
        self.ids = list(range(len(self.items))) if ids is None else list(ids)
        self.ends = tuple(ends)

    def only(self, ids):
        kept = [(item, i) for item, i in zip(self.items, self.ids, strict=True) if i in ids]
        return PlainCatalogue([item for item, _ in kept], [i for _, i in kept], self.ends)

    def following(self, prefix):
        """Tokens that may follow; END where an item ends."""
        n = len(prefix)
        return {item[n] if len(item) > n else END for item in self.items if item[:n] == tuple(prefix)}

    def mask(self, prefix):
        """Tokens that may follow, end ids included."""
        found = self.following(prefix)
        return (found - {END}) | (set(self.ends) if END in found else set())

    def ids_below(self, prefix):
        n = len(prefix)
        return sorted(i for item, i in zip(self.items, self.ids, strict=True) if item[:n] == tuple(prefix))

    def shortest(self, prefix):
        n = len(prefix)
        return min(len(item) for item in self.items if item[:n] == tuple(prefix)) - n

    def beam_step(self, beams, log_probs, k):
        """beams: (prefix, score, ended) or None; log_probs: a row each. The k best as (score, parent, token, beam)."""
        found = []
        for row, beam in enumerate(beams):
            if beam is None or beam[1] == -math.inf:
                continue
            prefix, score, ended = beam
            if ended:
                found.append((score, row, -1, beam))
                continue
            for symbol in sorted(self.following(prefix)):
                if symbol == END and not self.ends:
                    continue
                token = symbol
                if symbol == END:
                    token = max(self.ends, key=lambda end: log_probs[row][end])
                # in float32, as the index adds them
                total = (log_probs[row][token].dtype.type(score)) + log_probs[row][token]
                after = prefix if symbol == END else (*prefix, token)
                over = symbol == END or (not self.ends and self.following(after) == {END})
                found.append((total, row, token, (after, total, over)))
        found.sort(key=lambda entry: -entry[0])  # stable: first in row and token order comes first
        return found[:k]
