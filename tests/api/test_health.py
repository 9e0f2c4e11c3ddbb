from __future__ import annotations

import os
import re
import socket
import time

import pytest

from deploy.standalone.valkey import ValkeyServer
from models.reconcilers import note_sweep


def _metrics(app) -> dict[str, float]:
    text = app.test_client().get("/metrics").text
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


@pytest.fixture(scope="module")
def valkey(tmp_path_factory):
    server = ValkeyServer(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


def test_alive(app):
    assert app.test_client().get("/healthz").get_json() == {"status": "alive"}


def test_ready_when_everything_is_there(make_app, valkey, bench, database):
    app = make_app(stored={"broker_url": valkey.url})
    found = app.test_client().get("/readyz").get_json()
    assert (found["status"], found["broker"], found["reconciler"]) == ("degraded", True, False)
    bench.slot("gpu-0", device_class="cuda")
    database.transaction(note_sweep, "one")
    found = app.test_client().get("/readyz")
    assert found.status_code == 200
    assert found.get_json() == {
        "status": "ready",
        "database": True,
        "broker": True,
        "reconciler": True,
        "workers": {"cuda": 1},
    }


def test_without_a_broker_everything_still_works(make_app, make_caller, make_spec, tmp_path):
    app = make_app(stored={"broker_url": f"redis+socket://{tmp_path}/nowhere.sock"})
    answer = app.test_client().get("/readyz")
    assert (answer.status_code, answer.get_json()["broker"]) == (200, False)
    caller = make_caller("jobs:read", "jobs:write", app=app)
    assert caller.post("/jobs", json=make_spec()).status_code == 202
    assert caller.get("/jobs").status_code == 200
    for _ in range(100):
        caller.get("/me")
    assert _metrics(app)[f'skipmap_rate_limit_failures_total{{process="{os.getpid()}"}}'] == 1


def test_a_broker_that_hangs_holds_nobody_up_for_long(make_app, make_caller):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        app = make_app(stored={"broker_url": f"redis://127.0.0.1:{mute.getsockname()[1]}/0"})
        caller = make_caller("jobs:read", app=app)
        started = time.monotonic()
        assert [caller.get("/jobs").status_code for _ in range(100)] == [200] * 100
        # It is asked once, and then left alone for a while.
        assert time.monotonic() - started < 2.5
        started = time.monotonic()
        assert app.test_client().get("/readyz").get_json()["broker"] is False
        assert time.monotonic() - started < 2


def test_nobody_can_try_tokens_without_end(make_app):
    client = make_app(reads_per_minute=3).test_client()
    statuses = {
        client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {n}"}).status_code for n in range(9)
    }
    assert statuses == {401, 429}


def test_metrics_tell_what_is_stored(app, caller, bench, database, make_spec):
    for _ in range(2):
        caller.post("/jobs", json=make_spec())
    bench.must_claim()
    database.transaction(note_sweep, "one")
    found = _metrics(app)
    assert found['skipmap_jobs{state="running"}'] == 2
    assert found['skipmap_jobs{state="failed"}'] == 0
    assert found['skipmap_chunks{state="pending"}'] == found['skipmap_chunks{state="running"}'] == 1
    assert found['skipmap_workers{device_class="cpu"}'] == 1
    assert found["skipmap_oldest_pending_seconds"] > 0
    assert 0 <= found["skipmap_reconciler_age_seconds"] < 60
    assert found["skipmap_dead_letters"] == 0
    assert found["skipmap_database_up"] == 1
    mine = {re.sub(r'process="\d+",', "", name): value for name, value in found.items()}
    label = 'method="POST",route="/api/v1/jobs"'
    assert mine[f'skipmap_http_requests_total{{{label},status="202"}}'] == 2
    assert mine[f"skipmap_http_request_seconds_count{{{label}}}"] == 2


def test_requests_are_limited_by_token(make_app, make_caller, valkey):
    settings = {"reads_per_minute": 3, "writes_per_minute": 1}
    stored = {"broker_url": valkey.url}
    # Two processes share the count.
    apps = [make_app(stored=stored, **settings) for _ in range(2)]
    caller, other = make_caller("jobs:read", app=apps[0]), make_caller("jobs:read", app=apps[0])
    statuses = []
    for turn in range(8):
        caller.client = apps[turn % 2].test_client()
        answer = caller.get("/jobs")
        statuses.append(answer.status_code)
    # A minute may end in between.
    assert statuses[0] == 200
    assert 429 in statuses[3:]
    problem = next(a for a in [caller.get("/jobs") for _ in range(5)] if a.status_code == 429)
    assert problem.get_json()["type"] == "urn:skipmap:problem:rate-limited"
    assert 0 < int(problem.headers["Retry-After"]) <= 60
    assert other.get("/jobs").status_code == 200


def test_without_a_broker_each_process_counts(make_app, make_caller):
    caller = make_caller("jobs:read", app=make_app(reads_per_minute=2))
    statuses = [caller.get("/jobs").status_code for _ in range(7)]
    assert statuses[:2] == [200, 200]
    assert 429 in statuses
    assert caller.post("/jobs").status_code == 403
