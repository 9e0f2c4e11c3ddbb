"""What the database itself refuses, whoever writes."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

import models
from models.lease import heartbeat

SOURCES = sorted(Path(models.__file__).parent.glob("*.py"))


@pytest.mark.parametrize(
    ("constraint", "statement"),
    [
        ("uq_chunks_owner_running", "UPDATE chunks SET owner = 'cpu-0' WHERE state = 'running'"),
        ("ck_chunks_claim", "UPDATE chunks SET lease_expires_at = NULL"),
        ("ck_chunks_claim", "UPDATE chunks SET claim_token = NULL"),
        ("ck_chunks_claim", "UPDATE chunks SET state = 'pending' WHERE state = 'running'"),
        ("ck_chunks_state", "UPDATE chunks SET state = 'lost' WHERE state = 'succeeded'"),
        ("ck_chunks_finished", "UPDATE chunks SET finished_at = now()"),
        ("ck_chunks_counts", "UPDATE chunks SET crash_count = -1"),
        ("uq_chunks_level_id_seq", "UPDATE chunks SET seq = 0"),
        ("uq_levels_job_id_running", "UPDATE levels SET state = 'running', finished_at = NULL"),
        ("uq_levels_job_id_idx", "UPDATE levels SET idx = 0"),
        ("ck_levels_finished", "UPDATE levels SET finished_at = NULL"),
        ("ck_levels_counts", "UPDATE levels SET done = size + 1"),
        ("ck_levels_depth", "UPDATE levels SET depth = NULL"),
        ("ck_jobs_state", "UPDATE jobs SET state = 'done'"),
        ("ck_jobs_finished", "UPDATE jobs SET state = 'succeeded'"),
        ("ck_jobs_cancel", "UPDATE jobs SET state = 'cancelling'"),
        ("ck_jobs_priority", "UPDATE jobs SET priority = 10"),
        ("pk_evaluations", "INSERT INTO evaluations SELECT * FROM evaluations"),
        ("ck_evaluations_metric", "UPDATE evaluations SET metric = 1.5"),
        ("ck_evaluations_metric", "UPDATE evaluations SET metric = 'NaN'"),
        ("ck_evaluations_depth", "UPDATE evaluations SET depth = depth + 1"),
        ("pk_attempts", "INSERT INTO attempts SELECT * FROM attempts"),
    ],
)
def test_constraints_hold(bench, constraint, statement):
    bench.seconds_per_group = 60.0
    bench.submit()
    bench.work()
    for owner in ("cpu-0", "cpu-1", "cpu-2"):
        bench.must_claim(bench.slot(owner))
    with pytest.raises(IntegrityError, match=constraint):
        bench.sql(statement)


def test_heartbeats_stay_on_their_page(bench):
    """No index holds the lease, and pages have room: renewing is a heap-only update."""
    indexed = bench.sql(
        "SELECT DISTINCT a.attname FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid "
        "AND a.attnum = ANY(i.indkey) WHERE i.indrelid = 'chunks'::regclass"
    )
    assert not {"lease_expires_at", "progress_at", "seconds", "dispatched_at"} & set(indexed)
    bench.submit()
    claimed = bench.must_claim()

    def counts(session):
        return session.execute(
            text(
                "SELECT pg_stat_get_xact_tuples_updated(r), pg_stat_get_xact_tuples_hot_updated(r) "
                "FROM (SELECT 'chunks'::regclass) AS c(r)"
            )
        ).one()

    def beats(session):
        updated, hot = counts(session)
        for _ in range(20):
            heartbeat(session, bench.settings, claimed)
        after = counts(session)
        return after[0] - updated, after[1] - hot

    assert bench.database.transaction(beats) == (20, 20)


def test_no_source_locks_rows_for_update():
    """FOR UPDATE on a parent and a child written twice make deadlocks: parents are locked FOR NO KEY UPDATE only."""
    for path in SOURCES:
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"FOR\s+UPDATE", source), path
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "with_for_update":
                given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                assert given.get("key_share") == "True", f"{path}:{node.lineno}"
                assert "read" not in given, f"{path}:{node.lineno}"


def test_importing_the_package_loads_no_model_library():
    code = (
        "import sys, models.tables, models.sweep, models.submit, models.queries, models.invariants;"
        "print([name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
