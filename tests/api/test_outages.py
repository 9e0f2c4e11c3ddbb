"""The app while PostgreSQL refuses, hangs and comes back."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psutil
import pytest
from sqlalchemy import make_url

from api.app import create_app
from api.settings import ApiSettings
from deploy.standalone.postgres import PostgresServer
from migrations.run import upgrade
from models.accounts import create_token, create_user
from models.database import Database
from models.failpoints import arm, disarm
from models.settings import ServiceSettings
from tests.api.conftest import Caller, wait_for_hub
from tests.api.served import serve

LIMIT_SECONDS = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = PostgresServer(tmp_path_factory.mktemp("outages"), durable=False)
    server.start()
    upgrade(server.url)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def own(server) -> Caller:
    """Somebody on the server that fails; the token is looked up every time."""
    stored = ServiceSettings(database_url=server.url)
    database = Database(stored)

    def work(session):
        user = create_user(session, "somebody")
        token, secret = create_token(session, user.id, "a token", ["jobs:read", "jobs:write"])
        return secret, user.id, token.id

    secret, user_id, token_id = database.transaction(work)
    database.close()
    app = create_app(stored, ApiSettings(api_pool_size=2, token_cache_seconds=0))
    yield Caller(app.test_client(), secret, user_id, token_id)
    wait_for_hub()
    service = app.extensions["skipmap"]
    service.database.close()
    service.reports.close()


@contextmanager
def _refusing(server):
    """Nobody can connect, and those who were are cut off."""
    address = make_url(server.url)
    socket = f"{address.query['host']}/.s.PGSQL.{address.query.get('port', 5432)}"
    os.rename(socket, f"{socket}.away")
    for process in psutil.Process(server.pid).children():
        if "skipmap" in " ".join(process.cmdline()):
            process.terminate()
    try:
        yield
    finally:
        os.rename(f"{socket}.away", socket)


@contextmanager
def _hanging(server):
    """Connections stay open and nothing comes."""
    stopped = [psutil.Process(server.pid), *psutil.Process(server.pid).children()]
    for process in stopped:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in stopped:
            process.send_signal(signal.SIGCONT)


def _timed(call):
    started = time.monotonic()
    return call(), time.monotonic() - started


@pytest.mark.parametrize("outage", [_refusing, _hanging])
def test_an_outage_is_told_within_two_seconds_and_ends_by_itself(own, server, make_spec, outage):
    spec = make_spec()
    assert own.get("/jobs").status_code == 200
    with outage(server):
        for call in (lambda: own.get("/jobs"), lambda: own.post("/jobs", json=spec), lambda: own.get("/me")):
            answer, seconds = _timed(call)
            problem = answer.get_json()
            assert (answer.status_code, problem["type"]) == (503, "urn:skipmap:problem:unavailable")
            assert int(answer.headers["Retry-After"]) > 0
            assert seconds < LIMIT_SECONDS
            assert "socket" not in answer.text
        # More than there are connections: those who wait for one are told in time, too.
        with ThreadPoolExecutor(12) as pool:
            many = list(pool.map(lambda _: _timed(lambda: own.get("/jobs")), range(12)))
        assert {answer.status_code for answer, _ in many} == {503}
        assert max(seconds for _, seconds in many) < LIMIT_SECONDS
        ready, seconds = _timed(lambda: own.client.get("/readyz"))
        assert (ready.status_code, ready.get_json()["status"]) == (503, "unavailable")
        assert seconds < LIMIT_SECONDS
        assert own.client.get("/healthz").status_code == 200
        metrics = own.client.get("/metrics")
        assert "skipmap_database_up 0.0" in metrics.text
    deadline = time.monotonic() + 10
    while own.get("/jobs").status_code != 200:
        assert time.monotonic() < deadline
    assert own.post("/jobs", json=spec).status_code == 202


def test_a_crowd_waits_for_each_other_and_is_answered(database, settings, tmp_path):
    """As it is served, over two connections: an event loop that is busy is no database that is away."""
    with (
        serve(
            database,
            settings.database_url,
            tmp_path,
            "jobs:read",
            api_pool_size=1,
            token_cache_seconds=0,
            silent_seconds=1.0,
        ) as served,
        ThreadPoolExecutor(120) as pool,
    ):

        def ask(_):
            connection, answer = served.ask("/api/v1/jobs", timeout=60)
            status = answer.status
            answer.read()
            connection.close()
            return status

        assert Counter(pool.map(ask, range(360))) == {200: 360}


@pytest.mark.fault(24)
@pytest.mark.parametrize(("point", "stored"), [("api.before_commit", 0), ("api.after_commit", 1)])
def test_a_request_that_dies_can_be_sent_again(caller, bench, make_spec, point, stored):
    def die():
        raise OSError("the process is gone")

    def post():
        return caller.post("/jobs", json=make_spec(), headers={"Idempotency-Key": "k"})

    arm(point, die)
    try:
        assert post().status_code == 500
    finally:
        disarm(point)
    assert bench.sql("SELECT count(*) FROM jobs") == [stored]
    assert post().status_code == (200 if stored else 202)
    assert bench.sql("SELECT count(*) FROM jobs") == [1]
