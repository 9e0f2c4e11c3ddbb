"""The progress display of a running job, on stderr."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn

from skipmap.profiling.progress import (
    CheckProgress,
    Counted,
    Event,
    LevelProgress,
    Listener,
    Note,
    PassProgress,
    Phase,
)


@contextmanager
def progress_display() -> Iterator[Listener]:
    """A live line with level, done/total, rate, ETA and best so far; plain lines where stderr is no terminal."""
    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        yield _PlainLines(console)
        return
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
        console=console,
        transient=True,
    )
    with progress:
        yield _LiveLine(progress)


class Pace:
    """Rate and remaining time of one phase, from what was done since it began."""

    def __init__(self, done: int, total: int, unit: str) -> None:
        self._first, self._total, self._unit = done, total, unit
        self._began = time.monotonic()

    def text(self, done: int) -> str:
        """As in ``2.1 s a prompt, about 0:40 left``; empty until something was done."""
        fresh = done - self._first
        if not fresh:
            return ""
        each = (time.monotonic() - self._began) / fresh
        left = round(each * (self._total - done))
        pace = f"{each:.1f} s a {self._unit}"
        return pace if not left else f"{pace}, about {left // 60}:{left % 60:02d} left"


def title(event: Counted) -> str:
    """What a phase is called."""
    if isinstance(event, PassProgress):
        return event.domain
    if isinstance(event, CheckProgress):
        return f"held-out check of {event.points} point{'s' * (event.points != 1)}"
    if event.kind == "dense":
        return "dense"
    if event.kind == "rank":
        return f"ranking blocks for level {event.level}"
    return "level 1 (single blocks)" if event.kind == "single" else f"level {event.level}"


def best(event: Event) -> str:
    """The cheapest feasible configuration so far."""
    if not isinstance(event, LevelProgress) or event.best is None:
        return ""
    skip, accept, metric = event.best
    return f"best so far {skip} A {accept:.3f} M {metric:.3f}"


_UNITS = {LevelProgress: "configuration", CheckProgress: "prompt", PassProgress: "pass"}


class _Phases:
    """Keeps the pace of the phase that events belong to."""

    def __init__(self) -> None:
        self._name = ""
        self._pace = Pace(0, 1, "")

    def pace(self, event: Counted) -> tuple[bool, str]:
        """Whether a new phase begins, and the pace as text."""
        name = title(event)
        new = name != self._name
        if new:
            self._name, self._pace = name, Pace(event.done, event.total, _UNITS[type(event)])
        return new, self._pace.text(event.done)


class _PlainLines:
    """One line an event, for logs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._phases = _Phases()

    def __call__(self, event: Event) -> None:
        if isinstance(event, Note):
            self._console.print(f"note: {event.text}", soft_wrap=True)
            return
        if isinstance(event, Phase):
            self._console.print(event.text, soft_wrap=True)
            return
        _, pace = self._phases.pace(event)
        parts = [f"{title(event)}: {event.done}/{event.total}", pace, best(event)]
        self._console.print("  ".join(part for part in parts if part), soft_wrap=True)


class _LiveLine:
    """One moving line a phase."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._phases = _Phases()
        self._task: TaskID | None = None

    def __call__(self, event: Event) -> None:
        if isinstance(event, Note):
            self._progress.console.print(f"note: {event.text}")
            return
        if isinstance(event, Phase):
            self._begin(event.text, None)
            return
        new, pace = self._phases.pace(event)
        if new or self._task is None:
            self._begin(title(event), event.total)
        assert self._task is not None
        text = "  ".join(part for part in (pace, best(event)) if part)
        self._progress.update(self._task, completed=event.done, pace=text)

    def _begin(self, name: str, total: int | None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(name, total=total, pace="")
