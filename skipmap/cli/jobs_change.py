"""``skipmap jobs cancel | pause | resume | retry | priority | delete``."""

from __future__ import annotations

from argparse import Namespace

from skipmap.cli.service import connect, print_json
from skipmap.client.documents import JobView


def cancel(arguments: Namespace) -> int:
    """Stop a job for good."""
    with connect(arguments) as client:
        return _told(arguments, client.cancel(arguments.id))


def pause(arguments: Namespace) -> int:
    """Let a job rest."""
    with connect(arguments) as client:
        return _told(arguments, client.pause(arguments.id))


def resume(arguments: Namespace) -> int:
    """Go on with a paused job."""
    with connect(arguments) as client:
        return _told(arguments, client.resume(arguments.id))


def retry(arguments: Namespace) -> int:
    """Try what has failed of a job again."""
    with connect(arguments) as client:
        return _told(arguments, client.retry(arguments.id))


def priority(arguments: Namespace) -> int:
    """Change which job comes first."""
    with connect(arguments) as client:
        return _told(arguments, client.set_priority(arguments.id, arguments.priority))


def delete(arguments: Namespace) -> int:
    """Remove a job that has ended."""
    with connect(arguments) as client:
        client.delete(arguments.id)
    print(f"job {arguments.id}: deleted")
    return 0


def _told(arguments: Namespace, job: JobView) -> int:
    if arguments.json:
        print_json(job)
    else:
        print(f"job {job.id}: {job.state}, priority {job.priority}")
    return 0
