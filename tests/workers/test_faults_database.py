"""A database that crashes, stays away, only reads, or reports deadlocks."""

from __future__ import annotations

import ast
import itertools
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from deploy.standalone.postgres import PostgresServer
from migrations.run import upgrade
from models.base import new_id
from models.database import Database
from models.submit import submit
from tests.models.bench import make_spec
from tests.workers.cluster import ROOT, SHORT_LEASE, SHORT_STALL

SERVICE = ("models", "migrations", "workers", "api", "deploy")


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server of these tests' own."""
    with PostgresServer(tmp_path_factory.mktemp("mortal"), durable=False) as server:
        yield server


@pytest.fixture(scope="module")
def mortal_url(mortal: PostgresServer) -> Callable[[], str]:
    """Make a migrated database on it; starts the server where a test has left it stopped."""
    numbers = itertools.count()

    def make() -> str:
        mortal.start()
        name = f"mortal_{next(numbers)}"
        engine = create_engine(mortal.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        url = make_url(mortal.url).set(database=name).render_as_string(hide_password=False)
        upgrade(url)
        return url

    return make


def end(server: PostgresServer, cluster, number: int) -> None:
    assert server.pid is not None
    os.kill(server.pid, number)
    cluster.until(lambda: not server.is_running, "the server has ended")


def has_evaluated(cluster, count: int) -> None:
    cluster.until(lambda: len(cluster.times_evaluated()) >= count, f"{count} units are evaluated")


@pytest.mark.fault(18)
def test_a_database_that_restarts_without_warning_costs_no_attempt(make_cluster, mortal, mortal_url):
    cluster = make_cluster(mortal_url(), **SHORT_LEASE)
    cluster.start_reconciler()
    for name in ("fake-0", "fake-1"):
        cluster.start_worker(name, seconds_per_unit=0.15)
    job_id = cluster.submit()
    for count in (1, 4, 8):
        has_evaluated(cluster, count)
        end(mortal, cluster, signal.SIGQUIT)
        mortal.start()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.sql("SELECT sum(crash_count + error_count) FROM chunks") == [0]
    assert cluster.evaluated_once()


@pytest.mark.fault(19)
def test_a_database_that_is_away_for_longer_than_leases_last_takes_no_chunk_from_anybody(
    make_cluster, mortal, mortal_url
):
    """Also for longer than a forward may take: a worker that waits for the database does not hang."""
    cluster = make_cluster(mortal_url(), **SHORT_LEASE, **SHORT_STALL)
    cluster.start_reconciler()
    cluster.start_worker("at-work", on={"2": "mark:busy"}, slow={"2": 1.0})
    child = cluster.child_of("at-work")
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    cluster.start_worker("idle")
    cluster.child_of("idle")
    end(mortal, cluster, signal.SIGINT)
    away_until = time.monotonic() + 2 * cluster.settings.lease_seconds
    cluster.until(lambda: time.monotonic() > away_until, "two leases are over")
    mortal.start()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.child_of("at-work") == child
    assert cluster.evaluated_once()


@pytest.mark.fault(21)
def test_while_the_database_takes_no_writes_a_job_stands_still_and_then_goes_on(
    make_cluster, mortal, mortal_url
):
    """As when its disk is full, or when a copy of it has been put in its place."""
    cluster = make_cluster(mortal_url())
    cluster.start_reconciler()
    cluster.start_worker(on={"2": "mark:busy"}, slow={"2": 0.5})
    job_id = cluster.submit()
    cluster.wait_for_mark("busy")
    engine = create_engine(mortal.url, poolclass=NullPool, isolation_level="AUTOCOMMIT")

    def set_read_only(value: str) -> None:
        with engine.connect() as connection:
            connection.execute(text("SET default_transaction_read_only = off"))
            connection.execute(text(f"ALTER SYSTEM SET default_transaction_read_only = {value}"))
            connection.execute(text("SELECT pg_reload_conf()"))

    set_read_only("on")
    try:
        has_evaluated(cluster, 5)
        before = cluster.rows(job_id)
        cluster.wait_for_log("reconciler-0", "the database does not answer")
        assert cluster.rows(job_id) == before
        assert set(cluster.stored(job_id)) == {"dense", "0", "1"}
    finally:
        set_read_only("off")
        engine.dispose()
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(23)
@pytest.mark.parametrize("state", ["40P01", "40001"], ids=["deadlock", "serialization failure"])
def test_every_transaction_survives_that_it_is_chosen_to_give_way(make_cluster, state):
    """Every eleventh change is refused, whatever it is; the sequence keeps counting, for it does not roll back."""
    cluster = make_cluster(retry_seconds=10)
    cluster.sql("CREATE SEQUENCE changes")
    cluster.sql(
        "CREATE FUNCTION clash() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF nextval('changes') % 11 = 0 THEN RAISE EXCEPTION 'clash' USING ERRCODE = '{state}'; END IF; "
        "RETURN NULL; END $$"
    )
    for table in ("jobs", "levels", "chunks", "evaluations", "findings", "attempts", "workers"):
        cluster.sql(
            f"CREATE TRIGGER clash BEFORE INSERT OR UPDATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION clash()"
        )
    cluster.start_reconciler()
    cluster.start_worker()
    job_id = cluster.submit(make_spec(max_depth=1))
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.sql("SELECT last_value > 10 * 11 FROM changes") == [True]
    assert set(cluster.outcomes(job_id)) == {"succeeded"}
    assert cluster.evaluated_once()


@pytest.mark.fault(23)
@pytest.mark.parametrize("package", SERVICE)
def test_nobody_locks_rows_for_update(package):
    """Parents locked FOR UPDATE make deadlocks with children that are written twice."""
    for path in sorted((ROOT / package).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"FOR\s+UPDATE", source), path
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "with_for_update":
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert given.get("key_share") == "True", f"{path}:{node.lineno}"


@pytest.mark.fault(25)
def test_one_request_twenty_times_at_once_makes_one_job_that_runs_once(cluster):
    database = Database(cluster.settings.model_copy(update={"pool_size": 20}))
    start = threading.Barrier(20)

    def post(_: int) -> str:
        start.wait()
        job, _ = database.transaction(submit, make_spec(max_depth=1), new_id(), idempotency_key="k")
        return job.id

    cluster.start_reconciler()
    cluster.start_worker()
    with ThreadPoolExecutor(20) as pool:
        jobs = set(pool.map(post, range(20)))
    database.close()
    (job_id,) = jobs
    assert cluster.wait_until_ended(job_id) == "succeeded"
    assert cluster.sql("SELECT id FROM jobs") == [job_id]
    assert cluster.evaluated_once()


CLOCKS = {"now", "utcnow", "today"}


@pytest.mark.fault(35)
def test_no_host_is_asked_for_the_time():
    """Leases, backoff and grace go by the database's clock; only ids take the host's, and they order nothing."""
    for path in sorted(
        itertools.chain(*((ROOT / package).rglob("*.py") for package in ("models", "workers")))
    ):
        assert set(_clocks(path)) <= ({"time.time_ns"} if path == ROOT / "models" / "base.py" else set()), (
            path
        )


def _clocks(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in ("time.time", "time.time_ns") or (node.attr in CLOCKS and "func" not in name):
                yield name
