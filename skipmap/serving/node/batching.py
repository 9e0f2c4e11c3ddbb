"""Which waiting answers are decoded together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar


class Waiting(Protocol):
    """An answer that waits. ``key``: what answers of one batch have in common."""

    @property
    def key(self) -> Hashable:
        """Equal keys may share a batch."""
        ...


_W = TypeVar("_W", bound=Waiting)


def next_batch(waiting: Sequence[_W], room: int) -> list[_W]:
    """The oldest answer and the oldest of those that fit to it, at most ``room``; empty without either.

    The oldest is always in it, so none waits for ever.
    """
    if not waiting or room < 1:
        return []
    return [one for one in waiting if one.key == waiting[0].key][:room]
