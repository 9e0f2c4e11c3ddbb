"""Schema and models agree, and migrations run both ways over stored rows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.pool import NullPool

from migrations.run import config, downgrade, main, upgrade
from models.accounts import create_token, create_user
from models.advance import Advance
from models.audit import record
from models.base import new_id
from models.calibration_sets import store_set
from models.catalog import Domain, Draft, Target, add_entry
from models.control import pause, resume
from models.database import Database
from models.errors import Unavailable
from models.invariants import broken_rules
from models.lease import stop
from models.marks import take_mark
from models.moves import Order, move
from models.nodes import store_report
from models.reconcilers import note_sweep
from models.sessions import open_session
from models.settings import get_settings
from models.sweep import advance_orphans, settle_pausing
from models.tables import METADATA
from skipmap.maps.keys import new_key_file
from tests.models.bench import Bench, make_spec
from tests.models.test_maps import publish
from tests.models.test_nodes import report
from tests.postgres import make_settings


@pytest.fixture
def connect():
    engines = []

    def make(url):
        engines.append(create_engine(url, poolclass=NullPool))
        return engines[-1].connect()

    yield make
    for engine in engines:
        engine.dispose()


def tables(connection):
    return set(inspect(connection).get_table_names())


def test_models_and_migrations_agree(database_url, connect):
    with connect(database_url) as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, METADATA) == []
        assert tables(connection) == set(METADATA.tables) | {"alembic_version"}


def test_what_alembic_does_not_compare_agrees_too(make_database_url, database_url, connect):
    """Checks, partial indexes, collations and fill factors, as PostgreSQL itself tells them."""
    created = make_database_url()
    with connect(created) as connection:
        METADATA.create_all(connection)
        connection.commit()

    def told(url):
        with connect(url) as connection:
            constraints = connection.execute(
                text(
                    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
                    "WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 ORDER BY 1, 2"
                )
            ).all()
            indexes = connection.execute(
                text("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1")
            ).all()
            columns = connection.execute(
                text(
                    "SELECT attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull, "
                    "attcollation::regcollation::text, pg_get_expr(adbin, adrelid) "
                    "FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum "
                    "WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace "
                    "AND relkind = 'r') AND attnum > 0 ORDER BY 1, 2"
                )
            ).all()
            options = connection.execute(
                text(
                    "SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace "
                    "AND reloptions IS NOT NULL ORDER BY 1"
                )
            ).all()
        return [
            [tuple(row) for row in rows if "alembic" not in str(row[0])]
            for rows in (constraints, indexes, columns, options)
        ]

    for ours, theirs in zip(told(database_url), told(created), strict=True):
        assert ours == theirs
    assert ("chunks", ["fillfactor=70"]) in told(created)[3]


@pytest.fixture
def filled(database_url, tmp_path):
    """A database with a row or more in every table."""
    database = Database(make_settings(database_url))
    bench = Bench(database, make_settings(database_url))
    user = database.transaction(create_user, "ada")
    database.transaction(create_token, user.id, "laptop", ["admin"])
    database.transaction(open_session, user.id, lifetime_seconds=60, address="127.0.0.1", agent="a browser")
    database.transaction(take_mark, user.id, "a mark", new_id())
    uploaded, _ = database.transaction(store_set, b"lines", "a", 1, {})
    for table in (Target, Draft, Domain):
        database.transaction(add_entry, table, "mine", {"id": "x"}, user.id)
    database.transaction(record, "ada", "submit", "job")
    bench.submit(created_by=user.id, calibration_set_id=uploaded.id, principal=user.id, idempotency_key="key")
    bench.submit(make_spec(strategy="sleb"))
    bench.work_off()
    bench.submit()
    bench.must_claim()
    database.transaction(note_sweep, "here")
    publish(database)
    database.transaction(
        move,
        new_key_file(tmp_path / "key.pem"),
        3600.0,
        Order("main", "production", 1, "first", user.id, new_id(), fits=lambda sequence: sequence is None),
    )
    database.transaction(store_report, report(), user.id, 10)
    for name in METADATA.tables:
        assert bench.sql(f"SELECT count(*) FROM {name}")[0] > 0, name
    database.close()
    return database_url


def test_down_and_up_again_on_a_filled_database(filled, connect):
    steps = list(ScriptDirectory.from_config(config()).walk_revisions())
    for step in steps:
        downgrade(filled, step.down_revision or "base")
    with connect(filled) as connection:
        assert tables(connection) == {"alembic_version"}
        leftover = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('S', 'v')"
        assert connection.execute(text(leftover)).scalar_one() == 0
    for step in reversed(steps):
        upgrade(filled, step.revision)
    upgrade(filled)
    database = Database(make_settings(filled))
    bench = Bench(database, make_settings(filled))
    bench.submit()
    assert bench.work() is not None
    database.close()


def test_who_held_an_admin_token_becomes_administrator(database_url, connect):
    downgrade(database_url, "0003")
    holders = {
        "no token": None,
        "admin": "'{admin,jobs:read}', NULL, NULL",
        "for a while": "'{admin}', now() + interval '1 hour', NULL",
        "less": "'{jobs:write}', NULL, NULL",
        "expired": "'{admin}', now() - interval '1 hour', NULL",
        "revoked": "'{admin}', NULL, now()",
    }
    with connect(database_url) as connection:
        for name, token in holders.items():
            connection.execute(text(f"INSERT INTO users (id, name) VALUES ('{name}', '{name}')"))
            for number in range(2 if token else 0):
                connection.execute(
                    text(
                        "INSERT INTO tokens (id, user_id, name, prefix, sha256, scopes, expires_at, revoked_at) "
                        f"VALUES ('{name} {number}', '{name}', 'a token', 'skm_', '{name} {number}', {token})"
                    )
                )
        connection.commit()
    upgrade(database_url)
    with connect(database_url) as connection:
        roles = dict(list(connection.execute(text("SELECT name, role FROM users"))))
        # Processes of the release before know no roles yet.
        connection.execute(text("INSERT INTO users (id, name) VALUES ('later', 'later')"))
        assert connection.execute(text("SELECT role FROM users WHERE id = 'later'")).scalar_one() == "viewer"
    assert roles == {name: "admin" if name in ("admin", "for a while") else "viewer" for name in holders}


@pytest.fixture
def ranking(database_url):
    """A database in which two jobs have ended, and two others are among ranking levels, one of them paused."""
    database = Database(make_settings(database_url))
    bench = Bench(database, make_settings(database_url))
    jobs = {"ended": bench.submit(make_spec(strategy="sleb", max_depth=3)).id, "tss": bench.submit().id}
    bench.work_off()
    jobs["paused"] = bench.submit(make_spec(strategy="sleb")).id
    while (claimed := bench.must_claim()).depth != 2:
        bench.store(claimed)
        bench.finish(claimed)
    assert claimed.kind == "rank"
    bench.store_group(claimed, claimed.groups[0])
    database.transaction(pause, jobs["paused"])
    database.transaction(stop, claimed, "pause")
    database.transaction(settle_pausing)
    jobs["running"] = bench.submit(make_spec(strategy="shortgpt")).id
    bench.reach("rank")
    yield bench, jobs
    database.close()


def test_the_release_before_finds_no_ranking_and_no_gap(ranking, database_url):
    bench, jobs = ranking
    kept = ("evaluations", "findings", "evaluation_cache")
    before = bench.dump()
    downgrade(database_url, "0005")
    assert bench.sql("SELECT FROM chunks WHERE kind = 'rank'") == []
    assert bench.sql("SELECT FROM events WHERE payload->>'kind' = 'rank'") == []
    for name in kept:
        assert sorted(bench.sql(f"SELECT to_jsonb(t)::text FROM {name} AS t")) == before[name]
    levels = {
        name: bench.sql("SELECT idx, kind, depth, state FROM levels WHERE job_id = :id ORDER BY idx", id=job)
        for name, job in jobs.items()
    }
    for rows in levels.values():
        assert [row[0] for row in rows] == list(range(len(rows)))
    assert [row[1:] for row in levels["ended"]] == [
        ("dense", 0, "done"),
        ("single", 1, "done"),
        ("level", 2, "done"),
        ("level", 3, "done"),
        ("cost", None, "done"),
        ("held_out", None, "done"),
        ("result", None, "done"),
    ]
    # Whoever advances these jobs reads their specs, and says that it cannot.
    assert [row[1:] for row in levels["running"]] == [("dense", 0, "running")]
    assert [row[1:] for row in levels["paused"]] == [("dense", 0, "done"), ("single", 1, "running")]
    upgrade(database_url)
    assert bench.database.transaction(broken_rules) == []
    # What was taken away is taken again.
    bench.database.transaction(resume, jobs["paused"])
    assert set(advance_orphans(bench.database).values()) == {Advance.NEXT}
    bench.work_off()
    assert {name: bench.state(job) for name, job in jobs.items()} == dict.fromkeys(jobs, "succeeded")
    assert bench.database.transaction(broken_rules) == []


def test_jobs_of_the_release_before_search_as_it_did(database_url):
    downgrade(database_url, "0005")
    database = Database(make_settings(database_url))
    bench = Bench(database, make_settings(database_url))
    bench.sql(
        "INSERT INTO jobs (id, state, spec, spec_digest, labels, target, draft, domain, priority) "
        "VALUES ('a', 'paused', '{}', 'd', '{}', 't', 'd', 'd', 5)"
    )
    upgrade(database_url)
    # Its processes may go on for a while, too.
    bench.sql(
        "INSERT INTO jobs (id, state, spec, spec_digest, labels, target, draft, domain, priority) "
        "VALUES ('b', 'paused', '{}', 'd', '{}', 't', 'd', 'd', 5)"
    )
    assert bench.sql("SELECT strategy FROM jobs") == ["tss", "tss"]
    database.close()


def test_processes_that_migrate_at_once_wait_for_each_other(empty_database_url, connect):
    environment = os.environ | {"SKIPMAP_DATABASE_URL": empty_database_url}
    command = [sys.executable, "-m", "migrations.run"]
    processes = [subprocess.Popen(command, env=environment) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    with connect(empty_database_url) as connection:
        assert set(METADATA.tables) < tables(connection)


def test_an_upgrade_keeps_what_is_stored(filled, connect):
    with connect(filled) as connection:
        before = connection.execute(text("SELECT count(*) FROM evaluations")).scalar_one()
    upgrade(filled)
    with connect(filled) as connection:
        assert connection.execute(text("SELECT count(*) FROM evaluations")).scalar_one() == before


def test_the_address_comes_from_the_settings(empty_database_url, monkeypatch, connect, capsys):
    get_settings.cache_clear()
    monkeypatch.setenv("SKIPMAP_DATABASE_URL", empty_database_url)
    assert main() == 0
    with connect(empty_database_url) as connection:
        assert "jobs" in tables(connection)
    get_settings.cache_clear()
    monkeypatch.delenv("SKIPMAP_DATABASE_URL")
    assert main() == 2
    assert "SKIPMAP_DATABASE_URL" in capsys.readouterr().err
    get_settings.cache_clear()


def test_a_database_that_is_away_is_reported(tmp_path):
    with pytest.raises(Unavailable, match="cannot be migrated now"):
        upgrade(f"postgresql+psycopg://u@/d?host={tmp_path}")
