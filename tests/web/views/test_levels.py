from __future__ import annotations

from math import comb

import pytest

from api.views import job_view
from models.control import cancel
from models.lease import pin_target
from models.progress import refresh_level
from skipmap.client.documents import Progress
from skipmap.spec import SearchSpec
from tests.models.bench import LAYERS, random_table
from web.views.levels import level_rows, time_left

SEARCH = SearchSpec(max_depth=3, max_pool=4, group_size=2)


def rows_of(bench, job_id, num_layers=LAYERS, pool=None, search=SEARCH):
    view, _ = bench.database.read(job_view, job_id, 60.0)
    return level_rows(view, search, num_layers, pool)


def told(rows):
    return [(row.title, row.state, row.done, row.total) for row in rows]


def test_before_anything_the_levels_to_come_are_bounds(bench):
    job = bench.submit()
    assert told(rows_of(bench, job.id, num_layers=None)) == [
        ("Dense", "running", 0, 1),
        ("Single layers", "pending", 0, None),
        ("Sets of 2", "pending", 0, comb(4, 2)),
        ("Sets of 3", "pending", 0, comb(4, 3)),
        ("Cost of a step", "pending", 0, None),
        ("Held-out check", "pending", 0, None),
        ("Result", "pending", 0, None),
    ]


def test_the_pool_bounds_what_is_to_come(bench):
    job = bench.submit()
    bench.table = random_table(1)
    bench.store(claimed := bench.reach("dense"))
    bench.finish(claimed)
    rows = rows_of(bench, job.id, pool=(1, 2, 4))
    assert told(rows)[1:4] == [
        ("Single layers", "running", 0, LAYERS),
        ("Sets of 2", "pending", 0, 3),
        ("Sets of 3", "pending", 0, 1),
    ]


def test_a_job_that_has_ended_has_nothing_to_come_and_all_done(bench):
    bench.table = random_table(1)
    job = bench.submit()
    bench.work_off()
    rows = rows_of(bench, job.id)
    assert [row.title for row in rows] == [
        "Dense",
        "Single layers",
        "Sets of 2",
        "Cost of a step",
        "Held-out check",
        "Result",
    ]
    assert {row.state for row in rows} == {"done"}
    assert all(row.done == row.total and row.seconds is not None and row.rate for row in rows)
    view, _ = bench.database.read(job_view, job.id, 60.0)
    assert [row.feasible for row in rows] == [
        None,
        view.levels[1].feasible,
        view.levels[2].feasible,
        None,
        None,
        None,
    ]


def test_a_cancelled_job_has_nothing_to_come(bench):
    job = bench.submit()
    bench.database.transaction(cancel, job.id)
    assert [row.title for row in rows_of(bench, job.id)] == ["Dense"]


def test_the_running_level_has_the_rate_of_its_pace(bench):
    job = bench.submit()
    bench.store(claimed := bench.reach("dense"))
    bench.finish(claimed)
    claimed = bench.must_claim()
    bench.database.transaction(pin_target, claimed, bench.facts)
    bench.store_group(claimed, claimed.pending[0])
    bench.database.transaction(refresh_level, claimed.level_id)
    row = rows_of(bench, job.id)[1]
    # One worker, a second a group of two.
    assert (row.done, row.total, row.rate, row.seconds) == (2, LAYERS, 2.0, None)


@pytest.mark.parametrize(
    ("eta", "text"),
    [
        (None, None),
        ((90.0, 150.0), "1\u00a0min 30\u00a0s to 2\u00a0min 30\u00a0s"),
        ((60.0, 60.0), "1\u00a0min"),
        ((0.4, 7200.0), "400\u00a0ms to 2\u00a0h"),
    ],
)
def test_time_left_is_a_range(eta, text):
    assert time_left(Progress(done=1, total=2, rate=1.0, eta_seconds=eta)) == text
