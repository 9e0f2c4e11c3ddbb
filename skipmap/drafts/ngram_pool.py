"""N-gram pool: for each token the last few distinct sequences that were seen to follow it."""

from __future__ import annotations

from collections.abc import Sequence


class NgramPool:
    """Sequences by the token before them, at most ``capacity`` a token; the one not seen for longest goes first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # A dict keeps the order of insertion, which here is that of the last sight.
        self._after: dict[int, dict[tuple[int, ...], None]] = {}

    def add(self, ngram: Sequence[int]) -> None:
        """Note that the first token was followed by the others."""
        key, *following = ngram
        kept = self._after.setdefault(key, {})
        kept.pop(tuple(following), None)
        kept[tuple(following)] = None
        if len(kept) > self.capacity:
            del kept[next(iter(kept))]

    def add_text(self, tokens: Sequence[int], length: int) -> None:
        """Note all n-grams of ``length`` tokens in a text."""
        for start in range(len(tokens) - length + 1):
            self.add(tokens[start : start + length])

    def after(self, token: int) -> list[tuple[int, ...]]:
        """What followed a token, last seen first."""
        return list(reversed(self._after.get(token, {})))
