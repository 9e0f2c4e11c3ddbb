from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from models.control import cancel, pause
from models.errors import LostLease, TargetChanged
from models.finish import finish
from models.lease import fail, flush, heartbeat, pin_target, release, stop, store_finding
from models.parts import evaluations_at
from models.workers import drain
from skipmap.profiling.pareto import Score
from skipmap.skipset import SkipSet
from tests.models.bench import make_evaluation, make_facts, make_spec

SINGLES = [make_evaluation(SkipSet((block,)), Score(1.9, 0.7)) for block in (0, 1)]


@pytest.fixture
def singles(bench):
    """A claimed chunk of single blocks, in groups (0, 1), (2, 3), (4)."""
    bench.submit()
    return bench.reach("single")


def beat(bench, claimed):
    return bench.database.transaction(heartbeat, bench.settings, claimed)


def store(bench, claimed, rows=SINGLES, seconds=4.0, **options):
    return bench.database.transaction(flush, bench.settings, claimed, rows, seconds, **options)


OWNERS_ACTIONS = {
    "heartbeat": beat,
    "flush": store,
    "finish": lambda bench, claimed: bench.database.transaction(finish, claimed),
    "release": lambda bench, claimed: bench.database.transaction(release, claimed),
    "fail": lambda bench, claimed: bench.database.transaction(fail, bench.settings, claimed, "boom"),
    "stop": lambda bench, claimed: bench.database.transaction(stop, claimed, "cancel"),
    "pin": lambda bench, claimed: bench.database.transaction(pin_target, claimed, bench.facts),
}


def lose_to_expiry(bench, claimed):
    bench.lose(claimed.chunk_id)


def lose_to_another(bench, claimed):
    lose_to_expiry(bench, claimed)
    bench.sql("UPDATE chunks SET not_before = NULL")
    bench.must_claim(bench.slot("cpu-1"))


def lose_to_release(bench, claimed):
    bench.database.transaction(release, claimed)


def lose_to_finish(bench, claimed):
    bench.store(claimed)
    bench.database.transaction(finish, claimed)


def lose_to_forgery(bench, claimed):
    """Somebody with the right chunk and owner, and not the token."""


@pytest.mark.parametrize("action", OWNERS_ACTIONS)
@pytest.mark.parametrize(
    "lose", [lose_to_expiry, lose_to_another, lose_to_release, lose_to_finish, lose_to_forgery]
)
def test_a_stale_owner_changes_nothing(bench, singles, action, lose):
    lose(bench, singles)
    if lose is lose_to_forgery:
        singles = replace(singles, token=uuid4())
    before = bench.dump()
    repeated = (action, lose) in {("release", lose_to_release), ("finish", lose_to_finish)}
    if repeated:
        # What an unnoticed commit has done already is no loss.
        OWNERS_ACTIONS[action](bench, singles)
    else:
        with pytest.raises(LostLease):
            OWNERS_ACTIONS[action](bench, singles)
    assert bench.dump() == before


def test_a_heartbeat_moves_the_lease_alone(bench, singles):
    look = "SELECT lease_expires_at, progress_at FROM chunks WHERE state = 'running'"
    ((lease, progress),) = bench.sql(look)
    (seen,) = bench.sql("SELECT seen_at FROM workers")
    beat(bench, singles)
    ((later, same),) = bench.sql(look)
    assert later > lease
    assert same == progress
    assert bench.sql("SELECT seen_at FROM workers")[0] > seen


def test_a_heartbeat_tells_what_to_stop_for(bench, singles):
    assert beat(bench, singles).stop is None
    bench.database.transaction(drain, singles.owner)
    assert (beat(bench, singles).draining, beat(bench, singles).stop) == (True, "drain")
    bench.database.transaction(pause, singles.job_id)
    assert beat(bench, singles).stop == "pause"
    bench.database.transaction(cancel, singles.job_id)
    found = beat(bench, singles)
    assert (found.job_state, found.stop) == ("cancelling", "cancel")


def test_a_group_is_stored_whole_with_its_figures(bench, singles):
    rows = [
        make_evaluation(SkipSet((0,)), Score(1.93, 1 / 3), "a"),
        make_evaluation(SkipSet((1,)), Score(1.5, 0.1), "b"),
    ]
    store(bench, singles, rows, seconds=5.0)
    assert bench.database.read(evaluations_at, singles.job_id, [row.skip for row in rows]) == rows
    assert bench.sql(
        "SELECT skip, depth, accept_length, metric, seconds, cached, owner FROM evaluations "
        "WHERE depth = 1 ORDER BY skip"
    ) == [([0], 1, 1.93, 1 / 3, 2.5, False, "cpu-0"), ([1], 1, 1.5, 0.1, 2.5, False, "cpu-0")]
    assert bench.sql("SELECT seconds FROM chunks WHERE state = 'running'") == [5.0]


def test_the_first_stored_value_stays(bench, singles):
    store(bench, singles)
    other = [make_evaluation(row.skip, Score(1.0, 0.0)) for row in SINGLES]
    store(bench, singles, other)
    assert bench.sql("SELECT DISTINCT accept_length, metric FROM evaluations WHERE depth = 1") == [(1.9, 0.7)]


def test_only_whole_groups_are_stored(bench, singles):
    before = bench.dump()
    for rows in (SINGLES[:1], [*SINGLES, make_evaluation(SkipSet((2,)), Score(1, 0))], []):
        with pytest.raises(ValueError, match="no group"):
            store(bench, singles, rows)
    assert bench.dump() == before


def test_any_answer_of_a_model_can_be_stored(bench, singles):
    texts = ["nul \0 and \\u0000", "half a pair \ud83d, quotes \" ' \\, %s :name €"]
    rows = [make_evaluation(SkipSet((n,)), Score(1, 0), text) for n, text in enumerate(texts)]
    store(bench, singles, rows)
    stored = bench.database.read(evaluations_at, singles.job_id, [row.skip for row in rows])
    assert [row.prompts[0].text for row in stored] == texts


def test_parts_of_a_group_are_marked(bench, singles):
    bench.sql("UPDATE chunks SET batch_split = true WHERE state = 'running'")
    store(bench, replace(singles, batch_split=True))
    assert bench.sql("SELECT DISTINCT batch_split FROM evaluations WHERE depth = 1") == [True]


def test_findings_are_stored_by_token_too(bench):
    bench.submit()
    cost = bench.reach("cost")

    def write(claimed, payload, key="all"):
        return bench.database.transaction(store_finding, bench.settings, claimed, key, payload, 1.0)

    assert write(cost, {"points": [], "text": "\0"}).stop is None
    write(cost, {"points": [[1]]})
    assert bench.sql("SELECT payload FROM findings") == [{"points": [], "text": "\0"}]
    with pytest.raises(LostLease):
        write(replace(cost, token=uuid4()), {})
    with pytest.raises(ValueError, match="no unit"):
        write(cost, {}, key="0-5")


def test_released_chunks_have_spent_nothing(bench, singles):
    store(bench, singles)
    bench.database.transaction(release, singles)
    look = (
        "SELECT state, attempt, crash_count, error_count, not_before, owner FROM chunks WHERE kind = 'single'"
    )
    assert bench.sql(look) == [("pending", 0, 0, 0, None, None)]
    assert bench.sql("SELECT outcome, attempt FROM attempts WHERE chunk_id = :id", id=singles.chunk_id) == [
        ("released", 1)
    ]
    assert bench.sql("SELECT count(*) FROM evaluations WHERE depth = 1") == [2]


def test_failures_are_counted_and_wait_longer_each_time(bench, singles):
    settings = bench.settings.model_copy(update={"backoff_seconds": 100.0, "backoff_cap_seconds": 300.0})
    waits = []
    for count in range(1, 4):
        bench.database.transaction(fail, settings, singles, f"boom \0 {count}")
        state, errors, error, wait = bench.sql(
            "SELECT state, error_count, last_error, extract(epoch FROM not_before - clock_timestamp())::float8 "
            "FROM chunks WHERE kind = 'single'"
        )[0]
        assert (state, errors, error) == ("pending", count, f"boom \ufffd {count}")
        waits.append(wait)
        if count < 3:
            bench.sql("UPDATE chunks SET not_before = NULL")
            singles = bench.must_claim()
    assert 49 < waits[0] <= 150
    assert 99 < waits[1] <= 300
    assert 149 < waits[2] <= 450
    assert bench.claim() is None


def test_repeated_failure_counts_once(bench, singles):
    for _ in range(2):
        bench.database.transaction(fail, bench.settings, singles, "boom")
    assert bench.sql("SELECT error_count FROM chunks WHERE kind = 'single'") == [1]


def test_chunks_of_a_cancelled_job_are_closed_by_their_owner(bench, singles):
    before = bench.dump()
    with pytest.raises(LostLease):
        # Not cancelled: nothing to stop for.
        bench.database.transaction(stop, singles, "cancel")
    assert bench.dump() == before
    bench.database.transaction(cancel, singles.job_id)
    bench.database.transaction(stop, singles, "cancel")
    assert bench.sql("SELECT state FROM chunks WHERE kind = 'single'") == ["cancelled"]


@pytest.mark.parametrize("reason", ["pause", "drain"])
def test_other_stops_give_the_chunk_back(bench, singles, reason):
    bench.database.transaction(stop, singles, reason)
    assert bench.sql("SELECT state, attempt FROM chunks WHERE kind = 'single'") == [("pending", 0)]


def test_the_first_worker_notes_the_target(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    assert bench.database.transaction(pin_target, claimed, bench.facts) == bench.facts
    assert bench.job(job.id).parsed_facts == bench.facts
    assert bench.database.transaction(pin_target, claimed, bench.facts) == bench.facts
    with pytest.raises(TargetChanged, match="same files"):
        bench.database.transaction(pin_target, claimed, make_facts(fingerprint="0" * 64))
    with pytest.raises(TargetChanged, match="same files"):
        bench.database.transaction(pin_target, claimed, replace(bench.facts, data_digest="0" * 64))
    assert bench.job(job.id).parsed_facts == bench.facts


def test_out_of_time_shows_in_flush_and_heartbeat(bench):
    bench.submit(make_spec(max_seconds=6.0))
    claimed = bench.reach("single")
    assert store(bench, claimed, seconds=4.9).stop is None
    assert beat(bench, claimed).stop is None
    rest = [make_evaluation(SkipSet((4,)), Score(1, 0))]
    assert store(bench, claimed, rest, seconds=0.2).stop == "time"
    assert beat(bench, claimed).stop == "time"
    bench.database.transaction(stop, claimed, "time")
    assert bench.sql("SELECT state FROM chunks WHERE kind = 'single'") == ["cancelled"]


def test_cached_rows_take_no_time(bench):
    bench.submit(make_spec(max_seconds=6.0))
    claimed = bench.reach("single")
    assert store(bench, claimed, seconds=100.0, cached=True).stop is None
    assert bench.sql("SELECT DISTINCT cached FROM evaluations WHERE depth = 1") == [True]
