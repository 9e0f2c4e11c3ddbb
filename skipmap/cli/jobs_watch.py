"""``skipmap jobs watch``: a job until it has ended."""

from __future__ import annotations

import sys
from argparse import Namespace

from skipmap.cli.job_display import job_display
from skipmap.cli.jobs_show import show
from skipmap.cli.service import connect, print_json
from skipmap.client.client import Client
from skipmap.client.documents import ENDED, JobView
from skipmap.client.watch import watch
from skipmap.errors import Interrupted, ModelFailure, Refused
from skipmap.profiling.documents import SCHEMA
from skipmap.profiling.summary import summary
from skipmap.visible import visible


def run(arguments: Namespace) -> int:
    """Follow a job; see ``follow``."""
    with connect(arguments) as client:
        return follow(client, arguments.id, as_json=arguments.json)


def follow(client: Client, job_id: str, *, as_json: bool) -> int:
    """Show a job on stderr until it has ended, then its summary on stdout.

    Returns 0 when it has succeeded. Raises ModelFailure when it has failed, Refused when it was cancelled, and
    Interrupted, which leaves the job as it is.
    """
    try:
        job = _watched(client, job_id)
    except KeyboardInterrupt:
        raise Interrupted(
            f"no longer watching; job {job_id} goes on (`skipmap jobs watch {job_id}`, `skipmap jobs cancel {job_id}`)"
        ) from None
    if as_json:
        print_json(job)
    elif job.state == "succeeded":
        _summarise(client, job)
    else:
        show(job)
    sys.stdout.flush()
    if job.state == "failed":
        raise ModelFailure(f"job {job.id} has failed: {job.error or 'no reason is known'}")
    if job.state == "cancelled":
        raise Refused(f"job {job.id} was cancelled")
    return 0


def _watched(client: Client, job_id: str) -> JobView:
    with job_display() as display:
        for seen in watch(client, job_id):
            display(seen)
            if isinstance(seen, JobView) and seen.state in ENDED:
                return seen
    raise AssertionError("watching ends with a job that has ended")


def _summarise(client: Client, job: JobView) -> None:
    document = client.result(job.id)
    if document.get("schema") == SCHEMA:
        print(visible("\n".join(summary(document))))
    else:
        # A result of a newer service: what the job says of itself is understood all the same.
        show(job)
