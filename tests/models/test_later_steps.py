from __future__ import annotations

import pytest

from models.estimates import pace_of
from models.later_steps import LaterPace, later_pace
from tests.models.bench import make_facts, make_spec


def _done(bench, seconds: float, items: int = 5, **search) -> str:
    bench.facts = make_facts(held_out_items=items)
    bench.seconds_per_group = seconds
    job = bench.submit(make_spec(**search))
    bench.work_off()
    return job.id


def test_nothing_is_known_before_a_job_came_so_far(bench):
    job = bench.submit()
    assert bench.database.read(later_pace, [job.id]) == LaterPace()
    assert LaterPace().check_seconds(10, 3) is None
    claimed = bench.reach("held_out")
    known = bench.database.read(later_pace, [job.id])
    assert (known.cost, known.answer) == ((1.0, 1.0), None)
    bench.store_group(claimed, claimed.pending[0])
    # A part of a check does not tell how long all of it takes.
    assert bench.database.read(later_pace, [job.id]).answer is None


def test_what_came_after_earlier_searches(bench):
    # Five prompts in runs of two are three findings; two configurations are checked beside dense.
    ids = [_done(bench, seconds) for seconds in (2.0, 10.0, 4.0)]
    found = bench.database.read(later_pace, ids)
    assert found.cost == (4.0, 10.0)
    assert found.points == 2
    assert found.answer == pytest.approx((4.0 * 3 / (5 * 3), 10.0 * 3 / (5 * 3)))
    assert found.check_seconds(10, 4) == pytest.approx((10 * 3 * 0.8, 10 * 5 * 2.0))
    assert found.check_seconds(10, 1) == pytest.approx((10 * 2 * 0.8, 10 * 2 * 2.0))
    assert bench.database.read(pace_of, "tiny", "prompt_lookup").later == found


def test_a_job_without_held_out_prompts_tells_of_its_cost_alone(bench):
    found = bench.database.read(later_pace, [_done(bench, 3.0, items=0)])
    assert (found.cost, found.answer) == ((3.0, 3.0), None)
