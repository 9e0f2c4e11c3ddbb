"""Ranking figures are stored as evaluations are: whole groups, by their owner alone, the first value stays."""

from __future__ import annotations

import math

import pytest
from sqlalchemy.exc import IntegrityError

from models.advance import Advance, try_advance
from models.control import cancel, pause, resume
from models.errors import LostLease, Unfinished
from models.finish import finish
from models.lease import flush, stop, store_ranks
from models.progress import refresh_level
from models.ranks import ranks_of
from models.sweep import cut_over_time, settle_cancelling, settle_pausing
from skipmap.skipset import SkipSet
from tests.models.bench import LAYERS, make_evaluation, make_spec

FIRST = {SkipSet((0,)): 0.5, SkipSet((1,)): 0.25}


@pytest.fixture
def ranking(bench):
    """A claimed chunk that ranks single blocks, in groups (0, 1), (2, 3), (4)."""
    bench.seconds_per_group = 1.0
    bench.submit(make_spec(strategy="shortgpt"))
    claimed = bench.reach("rank")
    assert claimed.groups[0] == ("0", "1")
    return claimed


def store(bench, claimed, values, seconds=4.0):
    return bench.database.transaction(store_ranks, bench.settings, claimed, values, seconds)


def test_a_group_is_stored_with_its_share_of_the_time(bench, ranking):
    assert store(bench, ranking, FIRST).stop is None
    assert bench.database.read(ranks_of, ranking.job_id) == FIRST
    assert bench.sql("SELECT skip_key, depth, seconds, owner FROM ranks ORDER BY 1") == [
        ("0", 1, 2.0, "cpu-0"),
        ("1", 1, 2.0, "cpu-0"),
    ]
    assert bench.sql("SELECT seconds FROM chunks WHERE kind = 'rank' AND state = 'running'") == [4.0]


def test_the_first_committed_value_stays(bench, ranking):
    store(bench, ranking, FIRST)
    store(bench, ranking, dict.fromkeys(FIRST, 9.0))
    assert bench.database.read(ranks_of, ranking.job_id) == FIRST


def test_a_stale_owner_stores_nothing(bench, ranking):
    bench.lose(ranking.chunk_id)
    with pytest.raises(LostLease):
        store(bench, ranking, FIRST)
    assert bench.database.read(ranks_of, ranking.job_id) == {}


@pytest.mark.parametrize("values", [{SkipSet((0,)): 1.0}, FIRST | {SkipSet((2,)): 1.0}])
def test_only_whole_groups_of_the_chunk_are_taken(bench, ranking, values):
    with pytest.raises(ValueError, match="no group of chunk"):
        store(bench, ranking, values)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_cannot_be_put_in_order_is_refused(bench, ranking, value):
    with pytest.raises(IntegrityError, match="ck_ranks_value"):
        store(bench, ranking, FIRST | {SkipSet((1,)): value})
    assert bench.database.read(ranks_of, ranking.job_id) == {}


def test_evaluations_are_no_ranking_figures(bench, ranking):
    singles = [SkipSet((block,)) for block in range(LAYERS)]
    for keys in ranking.groups:
        rows = [make_evaluation(singles[int(key)], bench.table(singles[int(key)])) for key in keys]
        bench.database.transaction(flush, bench.settings, ranking, rows, 1.0)
    with pytest.raises(Unfinished):
        bench.database.transaction(finish, ranking)
    bench.sql("DELETE FROM evaluations WHERE depth = 1")


def test_what_is_stored_is_not_ranked_again(bench, ranking):
    store(bench, ranking, FIRST)
    bench.lose(ranking.chunk_id)
    again = bench.must_claim(hint=ranking.chunk_id)
    assert again.pending == ranking.groups[1:]


def test_progress_counts_figures(bench, ranking):
    store(bench, ranking, FIRST)
    assert bench.database.transaction(refresh_level, ranking.level_id) is True
    assert bench.sql("SELECT done, size, feasible, pace FROM levels WHERE kind = 'rank'") == [
        (2, LAYERS, 0, {"median": 2.0, "p80": 2.0})
    ]


def test_a_pause_between_two_groups_goes_on_where_it_was(bench, ranking):
    store(bench, ranking, FIRST)
    bench.database.transaction(pause, ranking.job_id)
    assert store(bench, ranking, FIRST).stop == "pause"
    bench.database.transaction(stop, ranking, "pause")
    bench.database.transaction(settle_pausing)
    assert bench.state(ranking.job_id) == "paused"
    assert bench.claim() is None
    bench.database.transaction(resume, ranking.job_id)
    bench.work_off()
    assert bench.state(ranking.job_id) == "succeeded"
    found = bench.database.read(ranks_of, ranking.job_id)
    assert {skip: found[skip] for skip in FIRST} == FIRST
    assert len(found) == LAYERS


def test_a_cancelled_job_keeps_its_figures(bench, ranking):
    store(bench, ranking, FIRST)
    bench.database.transaction(cancel, ranking.job_id)
    bench.database.transaction(stop, ranking, "cancel")
    bench.database.transaction(settle_cancelling, bench.settings)
    assert bench.state(ranking.job_id) == "cancelled"
    assert bench.database.read(ranks_of, ranking.job_id) == FIRST


@pytest.mark.parametrize("strategy", ["shortgpt", "sleb"])
def test_max_seconds_ends_a_search_while_it_ranks(bench, strategy):
    bench.seconds_per_group = 2.0
    job = bench.submit(make_spec(strategy=strategy, max_seconds=3.0))
    claimed = bench.reach("rank")
    # Dense took two seconds, so this is the group with which the time is over.
    assert bench.store_group(claimed, claimed.groups[0]).stop == "time"
    bench.database.transaction(stop, claimed, "time")
    bench.database.transaction(cut_over_time)
    assert try_advance(bench.database, claimed.level_id) is Advance.NEXT
    bench.work_off()
    assert bench.state(job.id) == "succeeded"
    outcome = bench.job(job.id).outcome
    assert outcome["exhaustive"] is False
    assert "search.max_seconds" in outcome["stopped"]
    assert (outcome["evaluated"], outcome["ranked"]) == (1, 2)


def test_dense_is_ranked_beside_the_single_blocks(bench):
    bench.submit(make_spec(strategy="sleb", group_size=8))
    claimed = bench.reach("rank")
    assert claimed.groups == (("dense", "1", "2", "3"),)
    bench.store(claimed)
    assert bench.sql("SELECT skip_key, depth FROM ranks ORDER BY 1") == [
        ("1", 1),
        ("2", 1),
        ("3", 1),
        ("dense", 1),
    ]
    assert bench.finish(claimed) is Advance.NEXT
    bench.work_off()
