"""Jobs in words, as several commands show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from skipmap.client.documents import BestPoint, JobSummary, JobView, LevelView, Progress


def level_title(level: LevelView) -> str:
    """What a step of a job is called."""
    if level.kind == "single":
        return "level 1 (single blocks)"
    if level.kind == "level":
        return f"level {level.depth}"
    if level.kind == "rank":
        return "ranking blocks" if level.depth == 1 else f"ranking blocks for level {level.depth}"
    return {"held_out": "held-out check", "cost": "cost"}.get(level.kind, level.kind)


def skip_text(skip: Sequence[int]) -> str:
    """Blocks that are skipped."""
    return ",".join(map(str, skip)) or "dense"


def best_text(best: BestPoint | None) -> str:
    """The best configuration so far; empty while there is none."""
    if best is None:
        return ""
    return f"best so far {skip_text(best.skip)} A {best.accept_length:.3f} M {best.metric:.3f}"


def pace_text(progress: Progress) -> str:
    """Rate and remaining time of the running level; empty while not known."""
    parts = []
    if progress.rate:
        parts.append(f"{progress.rate:.1f}/s" if progress.rate >= 1 else f"{1 / progress.rate:.1f} s each")
    if progress.eta_seconds is not None:
        likely, late = (clock(seconds) for seconds in progress.eta_seconds)
        parts.append(f"about {likely} left" if likely == late else f"about {likely} to {late} left")
    return ", ".join(parts)


def waiting_text(job: JobView) -> str:
    """What a job waits for; empty when it does not."""
    return f"waiting: {job.waiting_for}" if job.waiting_for else ""


def done_text(job: JobSummary) -> str:
    """Where a job stands, as in ``level 2: 12/66, 4 feasible``; empty before its first level."""
    level = job.level
    if level is None:
        return ""
    feasible = f", {level.feasible} feasible" if level.kind in ("single", "level") else ""
    return f"{level_title(level)}: {level.done}/{level.total}{feasible}"


def state_line(job: JobView) -> str:
    """One line for logs."""
    is_running = job.state == "running"
    pace = pace_text(job.progress) if is_running else ""
    parts = [job.state, done_text(job), pace, waiting_text(job), best_text(job.best)]
    return "  ".join(part for part in parts if part)


def clock(seconds: float) -> str:
    """A span of time, as in ``0:40`` or ``2:05:00``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def moment(when: datetime) -> str:
    """A point in time on this machine's clock."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M")
