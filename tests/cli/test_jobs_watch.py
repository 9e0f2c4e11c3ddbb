"""``skipmap jobs watch`` against the real API, with a fake worker beside it."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable

from models.lease import fail
from models.poison import dead_letter
from models.sweep import advance_orphans, settle_cancelling
from skipmap.client.client import Client
from skipmap.client.server import Server
from tests.cli.service import SAMPLE, SPEC, wait_until


def beside(api, act: Callable[[], object]) -> threading.Thread:
    """Do something in another thread as soon as somebody watches."""

    def run() -> None:
        wait_until(lambda: api.streams > 0)
        act()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_watch(api, submit, skipmap, worker, finished):
    job_id = submit()
    thread = beside(api, worker.work_off)
    ran = skipmap("jobs", "watch", job_id)
    thread.join()
    assert ran.code == 0
    assert ran.out.startswith("words on ")
    assert "Selected" in ran.out
    lines = ran.err.splitlines()
    assert lines[0] == "running  dense: 0/1  waiting: no live worker"
    assert lines[-1].startswith("succeeded  result: 1/1")


def test_submit_and_watch(api, skipmap, worker):
    thread = beside(api, worker.work_off)
    ran = skipmap("jobs", "submit", *SPEC, *SAMPLE, "--watch", "--json")
    thread.join()
    assert (ran.code, json.loads(ran.out)["state"]) == (0, "succeeded")


def break_down(worker, job_id):
    """A chunk of the job fails for good."""
    claimed = worker.must_claim()
    worker.database.transaction(fail, worker.settings, claimed, "the target is [broken]", permanent=True)
    worker.database.transaction(dead_letter, worker.settings)
    advance_orphans(worker.database)
    assert worker.state(job_id) == "failed"


def test_watch_a_job_that_fails(api, submit, skipmap, worker):
    job_id = submit()
    thread = beside(api, lambda: break_down(worker, job_id))
    ran = skipmap("jobs", "watch", job_id)
    thread.join()
    assert ran.code == 5
    assert ran.err.splitlines()[-1] == f"skipmap: job {job_id} has failed: the target is [broken]"
    assert "set aside after 1 attempt: dense {dense}: the target is [broken]" in ran.out
    assert "cpu-0 error: the target is [broken]" in ran.out
    assert skipmap("jobs", "retry", job_id).out == f"job {job_id}: running, priority 5\n"


def test_watch_a_job_that_is_cancelled(api, submit, skipmap, worker, token):
    job_id = submit()

    def cancel():
        with Client(Server(api.url, token)) as client:
            client.cancel(job_id)
        worker.database.transaction(settle_cancelling, worker.settings)

    thread = beside(api, cancel)
    ran = skipmap("jobs", "watch", job_id)
    thread.join()
    assert (ran.code, ran.err.splitlines()[-1]) == (4, f"skipmap: job {job_id} was cancelled")


def test_ctrl_c_leaves_the_job_running(api, submit, skipmap, worker):
    job_id = submit()
    thread = beside(api, lambda: os.kill(os.getpid(), signal.SIGINT))
    ran = skipmap("jobs", "watch", job_id)
    thread.join()
    assert ran.code == 130
    assert f"job {job_id} goes on" in ran.err
    assert worker.state(job_id) == "running"


def test_watching_outlives_a_restart_of_the_service(api, submit, skipmap, worker):
    job_id = submit()

    def restart():
        api.stop()
        worker.work_off()
        api.start()

    thread = beside(api, restart)
    ran = skipmap("jobs", "watch", job_id)
    thread.join()
    assert ran.code == 0
    assert ran.err.splitlines()[-1].startswith("succeeded")
