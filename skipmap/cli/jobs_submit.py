"""``skipmap jobs submit``."""

from __future__ import annotations

import contextlib
from argparse import Namespace
from pathlib import Path
from typing import Any

from skipmap.cli.jobs_watch import follow
from skipmap.cli.places import named_by_option, section, spec_from
from skipmap.cli.service import connect, print_json, say
from skipmap.cli.values import pairs
from skipmap.client.client import Client
from skipmap.client.documents import SET_SOURCE, JobRequest
from skipmap.errors import InvalidInput, NotFound

_SAMPLE = "sample:"
_FILE_ENDINGS = (".jsonl", ".json", ".csv")


def run(arguments: Namespace) -> int:
    """Submit a job and print its id; with ``--watch`` the exit code is that of ``skipmap jobs watch``."""
    with contextlib.nullcontext() if arguments.spec else named_by_option():
        data = _request_data(arguments)
        _parsed(data)  # a mistake is told before anything is uploaded
        with connect(arguments) as client:
            _upload(client, data)
            job = client.submit(_parsed(data))
            if not arguments.json:
                print(job.id, flush=True)
            if arguments.watch:
                return follow(client, job.id, as_json=arguments.json)
    if arguments.json:
        print_json(job)
    return 0


def _request_data(arguments: Namespace) -> dict[str, Any]:
    """The request as plain data."""
    data = spec_from(arguments)
    if arguments.name is not None:
        data["name"] = arguments.name
    labels = pairs(arguments.label, "--label")
    if labels:
        data["labels"] = section(data, "labels") | labels
    if arguments.priority is not None:
        data["priority"] = arguments.priority
    return data


def _parsed(data: dict[str, Any]) -> JobRequest:
    request = JobRequest.parse(data)
    assert isinstance(request, JobRequest)
    return request


def _upload(client: Client, data: dict[str, Any]) -> None:
    """Upload a calibration file of this machine and name the set in its place."""
    calibration = section(data, "calibration")
    source = calibration["source"]
    if source.startswith((_SAMPLE, SET_SOURCE)):
        return
    path = Path(source)
    if path.is_dir():
        raise InvalidInput("calibration.source", f"{source} is a folder; the service takes one file")
    if path.is_file():
        stored = client.upload_set(path)
        say(f"calibration set {stored.id}: {stored.items} items of {path.name}")
        calibration["source"] = SET_SOURCE + stored.id
    elif source.endswith(_FILE_ENDINGS):
        raise NotFound(f"no file {source!r}")
