from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError

from models.database import Busy, Database
from models.errors import Unavailable
from models.turnstile import Crowded
from tests.postgres import make_settings


@pytest.fixture
def settings(database_url):
    return make_settings(database_url)


@pytest.fixture
def database(settings):
    """A database of the test's own: tables are made, and connections cut."""
    made = Database(settings)
    yield made
    made.close()


def setting(database, name):
    return database.transaction(lambda session: session.execute(text(f"SHOW {name}")).scalar_one())


def test_connections_are_read_committed_with_short_timeouts(database):
    shown = {
        name: setting(database, name)
        for name in (
            "transaction_isolation",
            "statement_timeout",
            "lock_timeout",
            "idle_in_transaction_session_timeout",
            "synchronous_commit",
            "timezone",
        )
    }
    assert shown == {
        "transaction_isolation": "read committed",
        "statement_timeout": "30s",
        "lock_timeout": "3s",
        "idle_in_transaction_session_timeout": "15s",
        "synchronous_commit": "on",
        "timezone": "UTC",
    }


def test_heartbeat_connections_do_not_wait_for_the_disk(settings):
    database = Database(settings, durable=False)
    assert setting(database, "synchronous_commit") == "off"
    database.close()


@pytest.mark.parametrize("error", [psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure])
def test_a_transaction_that_clashed_runs_again_as_a_whole(database, error):
    runs = []

    def work(session):
        session.execute(text("CREATE TABLE once (n int)"))
        runs.append(session.execute(text("SELECT count(*) FROM once")).scalar_one())
        if len(runs) < 3:
            raise OperationalError("SELECT", {}, error("clash"))
        return "done"

    assert database.transaction(work) == "done"
    assert runs == [0, 0, 0]


def test_a_real_deadlock_is_survived(database):
    """Two transactions take two rows crosswise; both get through."""
    import threading

    database.transaction(
        lambda s: s.execute(text("CREATE TABLE rows AS SELECT n, 0 AS hits FROM generate_series(1, 2) n"))
    )
    both_hold_one = threading.Barrier(2)

    def work(session, first, second, waits):
        session.execute(text("UPDATE rows SET hits = hits + 1 WHERE n = :n"), {"n": first})
        if waits:
            both_hold_one.wait()
            waits.clear()
        session.execute(text("UPDATE rows SET hits = hits + 1 WHERE n = :n"), {"n": second})

    threads = [
        threading.Thread(target=database.transaction, args=(work, a, b, [True])) for a, b in ((1, 2), (2, 1))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hits = database.transaction(lambda s: s.execute(text("SELECT hits FROM rows ORDER BY n")).scalars().all())
    assert hits == [2, 2]


def test_a_cut_connection_is_replaced(database):
    runs = []

    def work(session):
        pid = session.execute(text("SELECT pg_backend_pid()")).scalar_one()
        runs.append(pid)
        if len(runs) == 1:
            with psycopg.connect(
                database.engine.url.set(drivername="postgresql").render_as_string(False)
            ) as other:
                other.execute("SELECT pg_terminate_backend(%s)", [pid])
        return session.execute(text("SELECT 1")).scalar_one()

    assert database.transaction(work) == 1
    assert len(set(runs)) == 2


def test_an_error_that_repeating_cannot_cure_is_raised_at_once(database):
    runs = []

    def work(session):
        runs.append(1)
        session.execute(text("INSERT INTO users (id, name) VALUES ('a', 'x'), ('b', 'x')"))

    with pytest.raises(IntegrityError):
        database.transaction(work)
    assert len(runs) == 1


def test_an_error_does_not_repeat_what_was_to_be_stored(database):
    def work(session):
        insert = text("INSERT INTO users (id, name) VALUES (:id, 'x'), (:id, 'y')")
        session.execute(insert, {"id": "a secret"})

    with pytest.raises(IntegrityError) as caught:
        database.transaction(work)
    assert "parameters hidden" in str(caught.value)
    assert str(caught.value).count("a secret") == str(caught.value.orig).count("a secret")


@pytest.mark.parametrize(
    ("statement", "changes"),
    [
        ("SELECT pg_sleep(5)", {"statement_timeout_seconds": 0.05}),
        ("SET TRANSACTION READ ONLY; DELETE FROM users", {"retry_seconds": 0.0}),
    ],
)
def test_a_database_that_cannot_serve_is_reported(settings, statement, changes):
    database = Database(settings.model_copy(update=changes))
    with pytest.raises(Unavailable):
        database.transaction(lambda session: [session.execute(text(one)) for one in statement.split(";")])
    database.close()


def test_connections_that_stay_in_use_are_told_from_a_database_that_is_away(settings):
    few = settings.model_copy(update={"pool_size": 1, "retry_seconds": 0.0})
    database = Database(few, silent_seconds=0.2)

    def one(session, work):
        return work(session.scalar(text("SELECT 1")))

    def crowd(_):
        # Two connections are all that there are; those for reads are others.
        assert database.read(one, lambda found: found) == 1
        with pytest.raises(Crowded):
            database.transaction(one, lambda found: found)
        return "done"

    assert database.transaction(one, lambda _: database.transaction(one, crowd)) == "done"
    assert database.transaction(one, lambda found: found) == 1
    database.close()


def test_more_than_there_are_connections_wait_for_each_other(settings):
    """Longer in all than a server may be silent, for it is not."""
    few = settings.model_copy(update={"pool_size": 1, "retry_seconds": 0.0})
    database = Database(few, silent_seconds=1.0)
    with ThreadPoolExecutor(24) as pool:
        asked = [
            pool.submit(database.read, lambda session: session.scalar(text("SELECT 1 FROM pg_sleep(0.2)")))
            for _ in range(24)
        ]
        assert [one.result() for one in asked] == [1] * 24
    database.close()


def test_a_lock_that_is_never_given_up_is_reported(settings):
    patient = Database(settings)
    hasty = Database(settings.model_copy(update={"lock_timeout_seconds": 0.02, "retry_seconds": 0.1}))

    def lock(session):
        session.execute(text("LOCK TABLE users"))

    def hold(session):
        lock(session)
        with pytest.raises(Busy, match="others are changing the same rows"):
            hasty.transaction(lock)

    patient.transaction(hold)
    for database in (patient, hasty):
        database.close()


def test_a_database_that_is_away_is_reported_in_time(settings, tmp_path):
    away = settings.model_copy(
        update={"database_url": f"postgresql+psycopg://u@/d?host={tmp_path}", "retry_seconds": 0.3}
    )
    database = Database(away)
    began = time.monotonic()
    with pytest.raises(Unavailable, match="does not answer"):
        database.transaction(lambda session: session.execute(text("SELECT 1")))
    assert time.monotonic() - began < 2


def test_a_connection_that_is_in_use_when_all_are_closed_is_closed_later(settings):
    database = Database(settings)
    connection = database.engine.connect()
    raw = connection.connection.dbapi_connection
    database.close()
    assert not raw.closed
    connection.close()
    assert raw.closed
    assert database.transaction(lambda session: session.scalar(text("SELECT 1"))) == 1
    database.close()
