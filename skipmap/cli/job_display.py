"""The display of a job of the service while it is watched, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from skipmap.cli.console import PlainConsole
from skipmap.cli.job_text import best_text, level_title, pace_text, state_line, waiting_text
from skipmap.client.documents import ENDED, JobView
from skipmap.client.watch import Away
from skipmap.visible import one_line, visible

Display = Callable[[JobView | Away], None]

_BAR_WIDTH = 28


@contextmanager
def job_display() -> Iterator[Display]:
    """State, levels, rate, remaining time and best so far; plain lines where stderr is no terminal."""
    console = PlainConsole(stderr=True)
    if not console.is_terminal:
        yield _PlainLines(console)
        return
    with Live(console=console, refresh_per_second=4) as live:
        yield _LiveTable(live)


class _PlainLines:
    """A line whenever something has changed, for logs."""

    def __init__(self, console: PlainConsole) -> None:
        self._console = console
        self._last = ""

    def __call__(self, seen: JobView | Away) -> None:
        line = _away_text(seen) if isinstance(seen, Away) else state_line(seen)
        if line != self._last:
            self._console.print_lines([line])
        self._last = line


class _LiveTable:
    """One picture that is drawn again and again."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._spinner = Spinner("dots")
        self._job: JobView | None = None

    def __call__(self, seen: JobView | Away) -> None:
        if isinstance(seen, JobView):
            self._job = seen
        parts: list[RenderableType] = [] if self._job is None else list(self._picture(self._job))
        if isinstance(seen, Away):
            parts.append(Text(one_line(_away_text(seen)), style="yellow"))
        self._live.update(Group(*parts), refresh=True)

    def _picture(self, job: JobView) -> Iterator[RenderableType]:
        name = f" ({job.name})" if job.name else ""
        head = f"job {job.id}{name}: {job.domain} on {job.target} with draft {job.draft}"
        yield Text(visible(head, keep=""))
        levels = Table.grid(padding=(0, 2))
        for level in job.levels:
            feasible = f"{level.feasible} feasible" if level.kind in ("single", "level") else ""
            levels.add_row(
                level_title(level),
                ProgressBar(total=max(level.total, 1), completed=level.done, width=_BAR_WIDTH),
                f"{level.done}/{level.total}",
                feasible,
                "" if level.state == "done" else level.state,
            )
        yield levels
        running = job.state == "running"
        pace = pace_text(job.progress) if running else ""
        line = "  ".join(part for part in (job.state, pace, waiting_text(job)) if part)
        if job.state in ENDED:
            yield Text(visible(line, keep=""))
        else:
            self._spinner.update(text=Text(visible(line, keep="")))
            yield self._spinner
        if job.best is not None:
            yield Text(best_text(job.best))
        if job.error:
            yield Text(visible(f"error: {job.error}", keep=""), style="red")


def _away_text(away: Away) -> str:
    return f"the service is away, still trying: {' '.join(away.problem.split())}"
