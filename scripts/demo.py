"""``make demo``: profile the demo model on two sample domains, through the service, and say what was found.

It uses the Skipmap that runs on this home, or starts one for as long as it needs it. Its jobs stay in the database: an
interrupted demo goes on with them, and ``make up`` shows them later.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rollout import Rollout

from deploy.standalone.console import short
from deploy.standalone.errors import FolderInUse, ServerFailed
from deploy.standalone.locks import FileLock
from deploy.standalone.ports import DEFAULT_PORT, PORT_VARIABLE, take_port
from deploy.standalone.processes import KeptProcess, LogFile, Program
from deploy.standalone.readiness import ask_ready, missing
from deploy.standalone.running import Manager, RunFolder
from deploy.standalone.stack import KEY_FILE_VARIABLE
from skipmap.canonical import digest
from skipmap.cli.jobs_watch import follow
from skipmap.client.client import Client
from skipmap.client.documents import JobRequest
from skipmap.client.server import ADMIN_TOKEN_FILE, Server
from skipmap.errors import Interrupted, InvalidInput, ModelFailure, NotFound, Refused, SkipmapError
from skipmap.maps.document import build_map
from skipmap.maps.keys import DEFAULT_KEY_FILE, public_file
from skipmap.profiling.report import render_report
from skipmap.profiling.store import write_atomically
from skipmap.profiling.summary import verdict
from skipmap.settings import get_settings

TARGET = "smollm2-135m-instruct"
DRAFT = "prompt_lookup"
DOMAINS = ("qa", "summarization")
ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("runs/demo")
DEPTH, POOL = 2, 5
STOP_SECONDS = 120.0
"""For an orderly stop of all parts."""
POLL_SECONDS = 0.2


def main() -> int:
    """Run the demo; returns an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with FileLock(FOLDER / "lock") as lock:
            if not lock.try_acquire():
                raise FolderInUse(f"another demo runs in {FOLDER} (process {lock.holder()}): wait for it")
            with running_skipmap(lock) as server:
                run(server, lock)
    except (KeyboardInterrupt, Interrupted):
        print("\nInterrupted. Nothing is lost: the next 'make demo' goes on.", file=sys.stderr)
        return 130
    except SkipmapError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def run(server: Server, lock: FileLock) -> None:
    """Profile both domains through a service, roll the result out, and tell of it."""
    began = time.monotonic()
    print(f"Target {TARGET}, draft {DRAFT}, sample domains {' and '.join(DOMAINS)}.")
    print(f"Budget: at most {DEPTH} blocks skipped together, from the {POOL} best single blocks.")
    print(
        "This takes about five minutes on two free cores; figures that are stored already are not computed again."
    )
    run, documents = _run_name(), []
    with Client(server) as client:
        jobs = {domain: client.submit(_request(domain), _key(run, domain)) for domain in DOMAINS}
        for domain, job in jobs.items():
            print(f"\n{domain}: job {job.id}", flush=True)
            try:
                follow(client, job.id, as_json=False)
            except (ModelFailure, NotFound, Refused):
                # The next demo begins with new jobs.
                _run_file().unlink(missing_ok=True)
                raise
            documents.append(client.result(job.id, per_prompt=True))
            write_atomically(
                FOLDER / f"{domain}.json", json.dumps(documents[-1], indent=2, ensure_ascii=False)
            )
        print("\nRoll-out: what was found becomes a map that a serving node follows.")
        results = dict(zip(DOMAINS, documents, strict=True))
        rollout_of(client, {domain: job.id for domain, job in jobs.items()}, results).run(lock)
    domain_map, report = FOLDER / "map.json", FOLDER / "report.html"
    write_atomically(domain_map, json.dumps(build_map(documents, "demo"), indent=2, ensure_ascii=False))
    write_atomically(report, render_report(documents))
    _run_file().unlink()
    print(f"\nDone in {time.monotonic() - began:.0f} s.")
    for document in documents:
        print(f"  {verdict(document)}")
    print("(A small model has few layers to spare: that held-out prompts refuse a gain is an answer, too.)")
    print(f"Domain map:  {domain_map}")
    print(f"Report:      {report} (plots and sample texts, to open in a browser)")
    for domain, job in jobs.items():
        print(f"Job {domain}: {server.url}/api/v1/jobs/{job.id} (while Skipmap runs, with a token)")
    print(
        f"Try it:      .venv/bin/skipmap generate --target {TARGET} --map {domain_map} --domain {DOMAINS[0]}",
        end="",
    )
    print(
        ' --prompt "Anna keeps three hens. Question: How many hens has Anna? Answer in a few words."',
        flush=True,
    )


def rollout_of(client: Client, jobs: Mapping[str, str], results: Mapping[str, Mapping[str, Any]]) -> Rollout:
    """The demo's second half; jobs and their results by domain."""
    home = get_settings().home
    key = Path(os.environ.get(KEY_FILE_VARIABLE) or home / DEFAULT_KEY_FILE)
    return Rollout(client, jobs, results, TARGET, public_file(key), home / ADMIN_TOKEN_FILE, FOLDER, ROOT)


def job_name(domain: str) -> str:
    """What the job of a domain is called."""
    return f"demo {domain}"


def _request(domain: str) -> JobRequest:
    request = JobRequest.parse(
        {
            "target": {"id": TARGET},
            "draft": {"method": DRAFT},
            "domain": {"name": domain},
            "calibration": {"source": f"sample:{domain}"},
            "search": {"max_depth": DEPTH, "max_pool": POOL, "max_held_out_points": 2},
            "name": job_name(domain),
            # One after the other, so that the first verdict comes early.
            "priority": 9 - DOMAINS.index(domain),
        }
    )
    assert isinstance(request, JobRequest)
    return request


def _key(run: str, domain: str) -> str:
    request = _request(domain).model_dump(mode="json", exclude_unset=True)
    return f"demo-{run}-{domain}-{digest(request)[:12]}"


def _run_file() -> Path:
    return FOLDER / "unfinished"


def _run_name() -> str:
    """What tells this demo's jobs from those of others; an interrupted demo's name is taken over."""
    try:
        return _run_file().read_text(encoding="ascii").strip()
    except FileNotFoundError:
        name = uuid.uuid4().hex
        write_atomically(_run_file(), name)
        return name


@contextmanager
def running_skipmap(lock: FileLock) -> Iterator[Server]:
    """The Skipmap that runs on this home, or one of the demo's own, which ends with it."""
    home = get_settings().home
    manager = RunFolder(home).manager()
    if manager is not None:
        problems = missing(ask_ready(manager.url))
        if problems:
            raise ServerFailed(
                f"the Skipmap at {manager.url} is not ready: {', '.join(problems)}; try again shortly"
            )
        print(f"Using the Skipmap that runs on {short(home)}: {manager.url}")
        yield _server(home, manager)
        return
    log = LogFile(FOLDER / "up.log")
    log.begin()
    print(f"Starting Skipmap on {short(home)} (what it says goes to {log.path})", flush=True)
    program = Program(
        (sys.executable, "-m", "deploy.standalone", "up"),
        ((signal.SIGTERM, STOP_SECONDS),),
        environment={**os.environ, PORT_VARIABLE: _port()},
        directory=ROOT,
        orphan_seconds=STOP_SECONDS,
    )
    process = KeptProcess(program, log=log.path, lock=lock)
    try:
        manager = _becomes_ready(home, process, log)
        print(f"Skipmap is ready: {manager.url}", flush=True)
        yield _server(home, manager)
    finally:
        print("Stopping Skipmap; its worker ends at its next forward.", flush=True)
        _stop(process)
    print("Skipmap was stopped; 'make up' starts it again, with these jobs, and keeps it up.")


def _becomes_ready(home: Path, process: KeptProcess, log: LogFile) -> Manager:
    # The manager itself gives up after a while.
    while process.wait(POLL_SECONDS) is None:
        manager = RunFolder(home).manager()
        if manager is not None and manager.ready:
            return manager
    raise ServerFailed(f"Skipmap did not start. The end of {log.path}:\n{log.tail()}")


def _stop(process: KeptProcess) -> None:
    try:
        process.stop()
    except KeyboardInterrupt:
        process.ask_to_stop()
        process.stop()


def _port() -> str:
    wanted = os.environ.get(PORT_VARIABLE)
    if wanted:
        return wanted
    try:
        return str(take_port(DEFAULT_PORT))
    except InvalidInput:
        return "0"


def _server(home: Path, manager: Manager) -> Server:
    return Server(manager.url, (home / ADMIN_TOKEN_FILE).read_text(encoding="ascii").strip())


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
