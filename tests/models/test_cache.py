from __future__ import annotations

from models.advance import Advance
from models.cache import look_up
from models.lease import flush
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from tests.models.bench import make_evaluation, make_facts, make_spec


def counts(bench, job):
    return bench.sql(
        "SELECT count(*) FILTER (WHERE cached), count(*) FILTER (WHERE NOT cached) FROM evaluations WHERE job_id = :id",
        id=job.id,
    )[0]


def figures(bench, job):
    return bench.sql(
        "SELECT skip_key, accept_length, metric, evaluator, figures::text, prompts::text FROM evaluations "
        "WHERE job_id = :id ORDER BY skip_key",
        id=job.id,
    )


def test_a_second_job_takes_over_what_the_first_one_found(bench):
    first = bench.submit()
    bench.work_off()
    second = bench.submit()
    # Only dense is evaluated: before that its content key is unknown.
    assert bench.work() is Advance.NEXT
    assert counts(bench, first) == (0, 12)
    assert counts(bench, second) == (11, 1)
    assert bench.sql("SELECT kind FROM levels WHERE job_id = :id AND state = 'running'", id=second.id) == [
        "cost"
    ]
    assert figures(bench, first) == figures(bench, second)
    bench.work_off()
    assert bench.state(second.id) == "succeeded"


def test_only_whole_groups_are_taken(bench):
    first = bench.submit(make_spec(max_depth=1))
    bench.work_off()
    bench.sql("DELETE FROM evaluation_cache WHERE skip_key = '1'")
    second = bench.submit(make_spec(max_depth=1))
    bench.work()
    claimed = bench.must_claim()
    assert claimed.groups == (("0", "1"),)
    assert counts(bench, second) == (3, 1)
    bench.store(claimed)
    bench.finish(claimed)
    assert figures(bench, first) == figures(bench, second)


def test_another_content_key_shares_nothing(bench):
    bench.submit()
    bench.work_off()
    bench.facts = make_facts()
    other = bench.submit()
    bench.work_off()
    assert counts(bench, other) == (0, 12)


def test_a_worker_finds_dense_once_it_knows_the_content_key(bench):
    key = bench.facts.content_key
    assert bench.database.transaction(look_up, key, DENSE) is None
    bench.submit()
    bench.work()
    assert bench.database.transaction(look_up, key, DENSE) == (make_evaluation(DENSE, Score(2.0, 0.8)), 1.0)
    bench.submit()
    claimed = bench.must_claim(
        hint=bench.sql("SELECT id FROM chunks WHERE kind = 'dense' AND state = 'pending'")[0]
    )
    found, seconds = bench.database.transaction(look_up, key, DENSE)
    bench.database.transaction(flush, bench.settings, claimed, [found], seconds, cached=True)
    # What it once took tells how the next level is to be cut; the job itself has spent nothing.
    kept = bench.sql("SELECT cached, seconds FROM evaluations WHERE job_id = :id", id=claimed.job_id)
    assert kept == [(True, 1.0)]
    assert bench.sql("SELECT seconds FROM chunks WHERE id = :id", id=claimed.chunk_id) == [0.0]


def test_the_first_cached_value_stays(bench):
    bench.submit()
    bench.work()
    claimed = bench.must_claim()
    bench.sql(
        "INSERT INTO evaluation_cache SELECT content_key, now(), '0', 9, 9, 9, 1, 'live', false, 1, '{}', '[]' "
        "FROM evaluation_cache"
    )
    rows = [make_evaluation(SkipSet((n,)), Score(1.0, 0.5)) for n in (0, 1)]
    bench.database.transaction(flush, bench.settings, claimed, rows, 1.0)
    look = "SELECT skip_key, accept_length FROM evaluation_cache WHERE skip_key <> 'dense' ORDER BY skip_key"
    assert bench.sql(look) == [("0", 9.0), ("1", 1.0)]
    assert bench.sql("SELECT DISTINCT accept_length FROM evaluations WHERE depth = 1") == [1.0]
