"""What a MapClient tells its caller about, as typed events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from skipmap.serving.forks import gate
from skipmap.serving.report import NodeState

Source = Literal["server", "disk", "bootstrap"]
"""Where a map came from."""

_log = logging.getLogger("skipmap.serving")


@dataclass(frozen=True)
class MapEvent:
    """Something that happened to a client's map."""


@dataclass(frozen=True)
class MapActivated(MapEvent):
    """A map is in use from now on. ``previous``: the version that was in use before, None without one."""

    version: int
    sequence: int
    digest: str
    source: Source
    previous: int | None

    def __str__(self) -> str:
        before = "" if self.previous is None else f", before it version {self.previous}"
        return f"the map is version {self.version} now (sequence {self.sequence}, from the {self.source}{before})"


@dataclass(frozen=True)
class MapRefused(MapEvent):
    """A map was offered and not taken. ``kind``: the check that it failed."""

    kind: str
    reason: str
    source: Source

    def __str__(self) -> str:
        return f"a map from the {self.source} was refused ({self.kind}): {self.reason}"


@dataclass(frozen=True)
class FetchFailed(MapEvent):
    """The service gave no usable answer; what was in use stays."""

    reason: str

    def __str__(self) -> str:
        return f"no map could be fetched: {self.reason}"


@dataclass(frozen=True)
class DiskProblem(MapEvent):
    """The disk copy could not be read or written; the map itself is not touched by it."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class StateChanged(MapEvent):
    """The client's state is another one now."""

    old: NodeState
    new: NodeState
    reason: str

    def __str__(self) -> str:
        return f"state {self.old} -> {self.new}: {self.reason}"


@dataclass(frozen=True)
class ForkDetected(MapEvent):
    """This process is a fork of one with a running client; polling has begun again in it."""

    parent_pid: int
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} is a fork of {self.parent_pid}; polling begins again in it"


class Announcer:
    """Logs events and hands them to a callback, whose errors end there."""

    def __init__(self, callback: Callable[[MapEvent], None] | None) -> None:
        self._callback = callback
        self._last: MapEvent | None = None

    def __call__(self, event: MapEvent) -> None:
        """Tell of one event; raises nothing."""
        is_trouble = not isinstance(event, MapActivated | StateChanged | ForkDetected)
        # An outage tells the same with every poll; once is enough for a log.
        is_repeated, self._last = event == self._last, event
        level = logging.DEBUG if is_repeated else logging.WARNING if is_trouble else logging.INFO
        _log.log(level, "%s", event)
        if self._callback is None:
            return
        try:
            with gate().parked():
                self._callback(event)
        except (Exception, SystemExit):
            # An event comes from the thread that polls: it must outlive whatever the callback does.
            _log.exception("the event callback failed on %s", event)
