"""A check that cannot fail is worth nothing: each rule is broken once."""

from __future__ import annotations

import pytest

from models.control import retry
from models.invariants import RULES, broken_levels, broken_rules
from models.lease import fail
from models.poison import dead_letter
from tests.models.bench import make_spec

# Constraints hold most rules already; they are taken away to see that the statement sees it, too.
BREAKS = {
    "a running chunk has owner, token and lease, and no other has": (
        "ALTER TABLE chunks DROP CONSTRAINT ck_chunks_claim;"
        "UPDATE chunks SET lease_expires_at = NULL WHERE state = 'running'"
    ),
    "a worker owns at most one chunk": (
        "DROP INDEX uq_chunks_owner_running; UPDATE chunks SET owner = 'w' WHERE state = 'running'"
    ),
    "a configuration has at most one row in a job": (
        "ALTER TABLE evaluations DROP CONSTRAINT pk_evaluations; INSERT INTO evaluations SELECT * FROM evaluations"
    ),
    "levels are numbered from 0 without gaps": "UPDATE levels SET idx = idx + 1 WHERE idx = 1",
    "all levels but the last are done": "UPDATE levels SET state = 'failed' WHERE idx = 0",
    "a job and its last level agree": "UPDATE jobs SET state = 'succeeded', finished_at = now()",
    "a level that has ended has no open chunk": "UPDATE levels SET state = 'done', finished_at = now()",
    "a failed level says why": "UPDATE levels SET state = 'failed', finished_at = now() WHERE state = 'running'",
    "no chunk of a level that is done has failed": (
        "UPDATE chunks SET state = 'failed' WHERE kind = 'dense'"
    ),
    "a succeeded chunk has all its units stored": "DELETE FROM evaluations WHERE skip_key = 'dense'",
    "a level that is done has all its units stored, unless max_seconds cut it": (
        "UPDATE levels SET size = 2 WHERE idx = 0"
    ),
    "an evaluation belongs to a chunk of its level or comes from the cache": (
        "UPDATE evaluations SET skip_key = '9', skip = '{9}' WHERE skip_key = '1'"
    ),
    "a ranking figure belongs to a chunk that ranks": (
        "INSERT INTO ranks (job_id, skip_key, depth, value, seconds, chunk_id, claim_token, owner) "
        "SELECT job_id, '1', 1, 0, 0, id, claim_token, owner FROM chunks WHERE state = 'running' LIMIT 1"
    ),
    "what a split chunk held is stored or lies in its parts": (
        "UPDATE chunks SET state = 'superseded', finished_at = now() WHERE state = 'pending'"
    ),
    "attempts are crashes, errors and the current or last one": "UPDATE chunks SET crash_count = 1",
    "a chunk succeeds once": (
        "INSERT INTO attempts SELECT gen_random_uuid(), chunk_id, job_id, attempt, owner, started_at, ended_at, "
        "outcome, error FROM attempts WHERE outcome = 'succeeded'"
    ),
    "a chunk has succeeded where an attempt says so": (
        "UPDATE chunks SET state = 'cancelled' WHERE kind = 'dense'"
    ),
    "a job that has ended has no open chunk": "UPDATE jobs SET state = 'failed', finished_at = now(), error = 'x'",
    "events of a job are numbered from 1 without gaps": "UPDATE jobs SET last_event = last_event + 1",
}


@pytest.fixture
def busy(bench):
    """A job on its second level: a chunk with a stored group, one at work, one pending."""
    bench.seconds_per_group = 60.0
    bench.submit()
    bench.work()
    claimed = bench.must_claim(bench.slot("w0"))
    bench.store_group(claimed, claimed.groups[0])
    bench.must_claim(bench.slot("w1"))
    return bench


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_seen(busy, rule):
    def broken(session):
        assert broken_rules(session) == []
        from sqlalchemy import text

        for statement in BREAKS[rule].split(";"):
            session.execute(text(statement))
        found = broken_rules(session)
        session.rollback()
        return found

    assert rule in {line.partition(": ")[0] for line in busy_transaction(busy, broken)}


def busy_transaction(bench, work):
    from sqlalchemy.orm import Session

    with Session(bench.database.engine) as session:
        return work(session)


def test_a_level_that_the_search_did_not_ask_for_is_seen(bench):
    from sqlalchemy import text

    job = bench.submit()
    bench.work_off()

    def broken(statement):
        def work(session):
            session.execute(text(statement))
            found = broken_levels(session, job.id)
            session.rollback()
            return found

        return busy_transaction(bench, work)

    assert broken("SELECT 1") == []
    assert broken("DELETE FROM evaluations WHERE skip_key = '0,1'") == ["level 2: 0 extra, 1 missing"]
    # A block that falls out of the pool takes its pairs with it, and another one comes in.
    assert broken("UPDATE evaluations SET accept_length = 0, metric = 0 WHERE skip_key = '0'") == [
        "level 2: 3 extra, 3 missing"
    ]


def test_ranking_that_the_search_did_not_ask_for_is_seen(bench):
    from sqlalchemy import text

    job = bench.submit(make_spec(strategy="sleb", group_size=8))
    bench.work_off()

    def broken(statement):
        def work(session):
            session.execute(text(statement))
            found = broken_levels(session, job.id)
            session.rollback()
            return found

        return busy_transaction(bench, work)

    assert broken("SELECT 1") == []
    assert "level 1: 0 extra, 1 missing" in broken("DELETE FROM ranks WHERE skip_key = '2'")
    # Another block goes first, so another set is evaluated, and ranked upon.
    (first,) = bench.sql(
        "SELECT skip_key FROM ranks WHERE depth = 1 AND skip_key <> 'dense' ORDER BY value LIMIT 1"
    )
    found = broken(f"UPDATE ranks SET value = 9 WHERE skip_key = '{first}'")
    assert found[0] == "level 2: 1 extra, 1 missing"


def test_a_retried_job_keeps_the_rules(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    bench.database.transaction(fail, bench.settings, claimed, "boom", permanent=True)
    bench.database.transaction(dead_letter, bench.settings)
    from models.advance import try_advance

    try_advance(bench.database, claimed.level_id)
    assert bench.database.transaction(broken_rules) == []
    bench.database.transaction(retry, job.id)
    assert bench.database.transaction(broken_rules) == []
