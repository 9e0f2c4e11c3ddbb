"""When something that ended is started again."""

from __future__ import annotations

from typing import Protocol

from deploy.standalone.errors import StandaloneError

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 60.0
"""Whatever ran this long begins with the short pause again."""


class Part(Protocol):
    """Something that should run."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def is_running(self) -> bool:
        """Whether it runs."""

    def start(self) -> None:
        """Start it; raises StandaloneError."""

    def how_it_ended(self) -> str:
        """How it ended and where to read more, for a message."""


class Watch:
    """Starts a part again when it has ended, after a pause that doubles each time."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.ends = 0
        """Ends since it last ran for a while."""
        self._started = 0.0
        self._due: float | None = None

    def start(self, now: float) -> None:
        """Start the part; raises StandaloneError."""
        self.part.start()
        self._started = now

    def tick(self, now: float) -> str | None:
        """Do what is due; returns what there is to say. ``now``: seconds on a clock that only goes forward."""
        if self._due is None:
            return None if self.part.is_running else self._plan(now, self.part.how_it_ended())
        if now < self._due:
            return None
        self._due = None
        try:
            self.start(now)
        except StandaloneError as error:
            return self._plan(now, f"did not start: {error}")
        return f"{self.part.name} was started again"

    def _plan(self, now: float, what: str) -> str:
        if now - self._started >= STEADY_SECONDS:
            self.ends = 0
        pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(self.ends, 10))
        self.ends += 1
        self._due = now + pause
        return f"{self.part.name} {what}; it starts again in {pause:g} s"
