"""Which waiting answers are decoded together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

BATCHES_PER_KEY = 2
"""One alone would let a long answer hold up the others; many would be small, and a forward costs much the same."""


class Waiting(Protocol):
    """An answer that waits. ``key``: what answers of one batch have in common."""

    @property
    def key(self) -> Hashable:
        """Equal keys may share a batch."""
        ...


_W = TypeVar("_W", bound=Waiting)


def next_batch(waiting: Sequence[_W], room: int, going: Sequence[Hashable], busy: int) -> list[_W]:
    """The oldest answer that may begin and the oldest of those that fit to it, at most ``room``.

    ``going``: key of each batch that is decoded now; ``busy``: answers in them. While at least as much room is free as
    is taken, everybody may begin. Otherwise a key with ``BATCHES_PER_KEY`` batches waits, so that answers come together
    in few batches; whoever waits longest is first when one of them ends, so none waits for ever.
    """
    if room < 1:
        return []
    full: set[Hashable] = set()
    if busy > room:
        full = {key for key in going if going.count(key) >= BATCHES_PER_KEY}
    first = next((one for one in waiting if one.key not in full), None)
    return [] if first is None else [one for one in waiting if one.key == first.key][:room]
