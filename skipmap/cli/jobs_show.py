"""``skipmap jobs show``: one job level by level."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from skipmap.cli.console import AnswerConsole
from skipmap.cli.job_text import (
    best_text,
    clock,
    level_title,
    moment,
    pace_text,
    skip_text,
    waiting_text,
)
from skipmap.cli.service import connect, print_json
from skipmap.client.documents import JobView

_ERRORS_SHOWN = 10


def run(arguments: Namespace) -> int:
    """Print state, levels, best, budget and errors."""
    with connect(arguments) as client:
        job = client.job(arguments.id)
    if arguments.json:
        print_json(job)
    else:
        show(job)
    return 0


def show(job: JobView) -> None:
    """Print a job to stdout."""
    console = AnswerConsole()
    console.print_lines(_head(job))
    console.print(_levels(job))
    console.print_lines(_rest(job))


def _head(job: JobView) -> Iterator[str]:
    name = f" ({job.name})" if job.name else ""
    yield f"job {job.id}{name}: {job.state}"
    yield f"{job.domain} on {job.target} with draft {job.draft}, strategy {job.strategy}, priority {job.priority}"
    if job.labels:
        yield "labels: " + ", ".join(f"{key}={value}" for key, value in sorted(job.labels.items()))
    ended = f", ended {moment(job.finished_at)}" if job.finished_at else ""
    yield f"created {moment(job.created_at)}{ended}"


def _levels(job: JobView) -> Table:
    table = Table()
    for name in ("level", "state", "done", "feasible", "time"):
        table.add_column(name, justify="left" if name in ("level", "state") else "right")
    for level in job.levels:
        spent = (level.finished_at or job.updated_at) - level.created_at
        table.add_row(
            level_title(level),
            level.state,
            f"{level.done}/{level.total}",
            str(level.feasible) if level.kind in ("single", "level") else "",
            clock(max(0.0, spent.total_seconds())),
        )
    return table


def _rest(job: JobView) -> Iterator[str]:
    pace = pace_text(job.progress) if job.state == "running" else ""
    yield from (line for line in (pace, waiting_text(job), best_text(job.best)) if line)
    if job.chunks:
        yield "chunks: " + ", ".join(f"{count} {state}" for state, count in sorted(job.chunks.items()))
    if job.outcome:
        yield from _outcome(job.outcome)
    if job.error:
        yield f"error: {job.error}"
    for chunk in job.failed_chunks[:_ERRORS_SHOWN]:
        sets = " ".join("{" + key + "}" for group in chunk.groups for key in group)
        tries = f"{chunk.attempts} attempt{'s' * (chunk.attempts != 1)}"
        yield f"set aside after {tries}: {chunk.kind} {sets}: {chunk.error or 'its workers died'}"
        for attempt in chunk.history:
            why = f": {attempt.error}" if attempt.error else ""
            yield f"  {moment(attempt.ended_at)} {attempt.owner} {attempt.outcome}{why}"
    hidden = len(job.failed_chunks) - _ERRORS_SHOWN
    if hidden > 0:
        yield f"... and {hidden} more (see --json)"


def _outcome(outcome: Mapping[str, Any]) -> Iterator[str]:
    """What the search came to; an older or newer service may say less."""
    if "pool" in outcome:
        pool, cut = outcome["pool"], outcome.get("pool_cut")
        left_out = f", left out by the bounds: {skip_text(cut)}" if cut else ""
        yield f"pool: {skip_text(pool) if pool else 'empty'}{left_out}"
    if "exhaustive" in outcome:
        extent = "nothing was cut" if outcome["exhaustive"] else "NOT exhaustive"
        if outcome.get("pool_cut") or any((outcome.get("not_evaluated") or {}).values()):
            extent += ", the bounds cut the search"
        yield f"searched: {outcome.get('evaluated')} configurations, {outcome.get('feasible')} feasible; {extent}"
    if outcome.get("ranked"):
        yield f"ranked: {outcome['ranked']} figures taken to put blocks in order"
    for level, count in (outcome.get("not_evaluated") or {}).items():
        yield f"not evaluated at level {level}: {count}"
    if outcome.get("stopped"):
        yield f"search ended: {outcome['stopped']}"
    yield from (f"note: {note}" for note in outcome.get("notes") or ())
