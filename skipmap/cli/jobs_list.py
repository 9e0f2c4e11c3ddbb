"""``skipmap jobs list``."""

from __future__ import annotations

from argparse import Namespace

from rich.table import Table

from skipmap.cli.console import AnswerConsole
from skipmap.cli.job_text import done_text, moment, skip_text
from skipmap.cli.service import checked_limit, connect, print_json, say
from skipmap.cli.values import pairs
from skipmap.visible import one_line


def run(arguments: Namespace) -> int:
    """Print jobs, newest first."""
    labels, limit = pairs(arguments.label, "--label"), checked_limit(arguments.limit)
    with connect(arguments) as client:
        filters = {
            name: getattr(arguments, name) for name in ("state", "target", "draft", "domain", "strategy")
        }
        jobs = list(client.jobs(**filters, labels=labels, limit=limit))
    if arguments.json:
        print_json(jobs)
        return 0
    if not jobs:
        say("no job is like this")
        return 0
    table = Table()
    # An id that is cut is of no use.
    table.add_column("id", no_wrap=True, min_width=len(jobs[0].id))
    has_names = any(job.name for job in jobs)
    if has_names:
        table.add_column("name", overflow="fold")
    for name in ("state", "target", "draft", "domain", "progress", "best", "created"):
        table.add_column(name)
    for job in jobs:
        table.add_row(
            job.id,
            *((one_line(job.name or ""),) if has_names else ()),
            job.state,
            job.target,
            job.draft,
            job.domain,
            done_text(job),
            skip_text(job.best.skip) if job.best else "-",
            moment(job.created_at),
        )
    AnswerConsole().print(table)
    return 0
