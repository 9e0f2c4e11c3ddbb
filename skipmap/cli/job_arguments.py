"""Options of ``skipmap jobs`` and ``skipmap sets``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skipmap.cli.commands import EXIT_CODES, command
from skipmap.cli.server_arguments import server_options
from skipmap.cli.spec_arguments import spec_options

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_STATES = ("running", "pausing", "paused", "cancelling", "cancelled", "succeeded", "failed")
_CHANGES = {
    "cancel": "stop a job for good",
    "pause": "let a job rest",
    "resume": "go on with a paused job",
    "retry": "try what has failed of a job again",
}


def add_jobs(commands: _Commands) -> None:
    """Add ``skipmap jobs``."""
    parser = commands.add_parser("jobs", help="profiling jobs of a Skipmap service", epilog=EXIT_CODES)
    jobs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = server_options()
    _submit(jobs, common)
    _list(jobs, common)
    for name, text in (
        ("show", "state, levels, best so far, budget and errors of a job"),
        ("watch", "follow a job to its end; Ctrl-C leaves it running"),
    ):
        one = _on_a_job(jobs, common, name, text)
        one.add_argument("--json", action="store_true", help="print the job as JSON")
        one.set_defaults(run=command(f"jobs_{name}"))
    for name, text in _CHANGES.items():
        change = _on_a_job(jobs, common, name, text)
        change.add_argument("--json", action="store_true", help="print the job as JSON")
        change.set_defaults(run=command("jobs_change", name))
    priority = _on_a_job(jobs, common, "priority", "change which job comes first")
    priority.add_argument("priority", type=int, metavar="N", help="0 to 9, 9 first")
    priority.add_argument("--json", action="store_true", help="print the job as JSON")
    priority.set_defaults(run=command("jobs_change", "priority"))
    delete = _on_a_job(jobs, common, "delete", "remove a job that has ended, with all it stored")
    delete.set_defaults(run=command("jobs_change", "delete"))
    _outputs(jobs, common)


def add_sets(commands: _Commands) -> None:
    """Add ``skipmap sets``."""
    parser = commands.add_parser("sets", help="calibration sets of a Skipmap service", epilog=EXIT_CODES)
    sets = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    common = server_options()
    upload = sets.add_parser("upload", help="upload prompts: JSONL, or CSV as of MMLU", parents=[common])
    upload.add_argument("file", type=Path)
    upload.add_argument("--name", help="name to show (default: the file's)")
    listing = sets.add_parser("list", help="list uploaded sets", parents=[common])
    show = sets.add_parser("show", help="statistics and first items of a set", parents=[common])
    delete = sets.add_parser("delete", help="remove a set that no job uses", parents=[common])
    for one in (show, delete):
        one.add_argument("id", metavar="ID")
    for one in (upload, listing, show):
        one.add_argument("--json", action="store_true", help="print JSON")
    for name, one in (("upload", upload), ("list_sets", listing), ("show", show), ("delete", delete)):
        one.set_defaults(run=command("sets", name))


def _on_a_job(
    jobs: _Commands, common: argparse.ArgumentParser, name: str, text: str
) -> argparse.ArgumentParser:
    parser = jobs.add_parser(name, help=text, parents=[common], epilog=EXIT_CODES)
    parser.add_argument("id", metavar="ID", help="id of a job (see `skipmap jobs list`)")
    return parser


def _submit(jobs: _Commands, common: argparse.ArgumentParser) -> None:
    parser = jobs.add_parser(
        "submit",
        help="submit a job and print its id",
        description="Submit a job. A --calibration that is a local file is uploaded first; sample:NAME, set:ID and "
        "hub ids go as they are.",
        parents=[common],
        epilog=EXIT_CODES,
    )
    spec_options(parser)
    job = parser.add_argument_group("about the job")
    job.add_argument("--name", help="name to show")
    job.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", help="label to find it by, repeatable"
    )
    job.add_argument("--priority", type=int, metavar="N", help="0 to 9, 9 first (default 5)")
    job.add_argument("--watch", action="store_true", help="follow it to its end")
    job.add_argument("--json", action="store_true", help="print the job as JSON")
    parser.set_defaults(run=command("jobs_submit"))


def _list(jobs: _Commands, common: argparse.ArgumentParser) -> None:
    parser = jobs.add_parser("list", help="list jobs, newest first", parents=[common], epilog=EXIT_CODES)
    parser.add_argument("--state", choices=_STATES)
    parser.add_argument("--target", metavar="T")
    parser.add_argument("--draft", metavar="D")
    parser.add_argument("--domain", metavar="NAME")
    parser.add_argument("--strategy", metavar="NAME", help="how it searches, as in `tss`")
    parser.add_argument(
        "--label", action="append", default=[], metavar="NAME=VALUE", help="repeatable: all of them"
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="at most N (default 50)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=command("jobs_list"))


def _outputs(jobs: _Commands, common: argparse.ArgumentParser) -> None:
    rows = _on_a_job(jobs, common, "evaluations", "configurations with their figures")
    rows.add_argument("--sort", choices=("skip", "metric", "accept_length"), default="skip")
    rows.add_argument("--order", choices=("asc", "desc"), default="asc")
    rows.add_argument("--level", type=int, metavar="K", help="only those that skip K blocks")
    rows.add_argument("--feasible", action="store_true", help="only those that meet both floors")
    rows.add_argument("--limit", type=int, metavar="N", help="at most N (default 50; CSV has them all)")
    form = rows.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--json", action="store_true", help="print JSON")
    rows.set_defaults(run=command("jobs_output", "evaluations"))
    result = _on_a_job(jobs, common, "result", "what was found")
    result.add_argument("--out", type=Path, metavar="FILE", help="write the result document")
    result.add_argument("--map", type=Path, metavar="FILE", help="write the (unsigned) domain map")
    result.add_argument("--per-prompt", action="store_true", help="with per-prompt rows")
    result.add_argument("--json", action="store_true", help="print the result document")
    result.set_defaults(run=command("jobs_output", "result"))
    report = _on_a_job(jobs, common, "report", "write one HTML page about a job's result")
    report.add_argument("--out", type=Path, metavar="FILE", required=True, help="page to write")
    report.set_defaults(run=command("jobs_output", "report"))
