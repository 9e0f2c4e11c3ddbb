"""What can go wrong with stored state; every message says what to do next."""

from __future__ import annotations

from skipmap.errors import NotFound, Refused, SkipmapError

__all__ = [
    "Conflict",
    "KeyInUse",
    "KeyReused",
    "LostLease",
    "NotFound",
    "OwnerBusy",
    "Stale",
    "TargetChanged",
    "TooSlow",
    "Unavailable",
    "Unfinished",
]


class Unavailable(SkipmapError):
    """The database cannot be reached in time; the same call may be made again later."""


class TooSlow(Unavailable):
    """A statement took longer than it may; the same call would do so again."""


class LostLease(SkipmapError):
    """The chunk is no longer this worker's: nothing was written. Drop the chunk and claim another."""


class Unfinished(SkipmapError):
    """A chunk cannot be finished before each of its groups is stored."""


class OwnerBusy(Refused):
    """Another process claims chunks under the same worker name; stop one of the two."""


class TargetChanged(Refused):
    """This worker's target is not the one that the job has been evaluated with."""


class Conflict(Refused):
    """The state does not allow the change. ``state``: the state it is in."""

    def __init__(self, message: str, state: str) -> None:
        self.state = state
        super().__init__(message)


class KeyReused(Refused):
    """The idempotency key came with another request before; use a new key."""


class KeyInUse(Refused):
    """A request with the same idempotency key is still at work; ask again shortly."""


class Stale(Refused):
    """Somebody was faster: the channel has moved on. ``sequence``: of its last move, None when there is no channel."""

    def __init__(self, message: str, sequence: int | None) -> None:
        self.sequence = sequence
        super().__init__(message)
