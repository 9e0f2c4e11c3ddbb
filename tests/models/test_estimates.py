from __future__ import annotations

from dataclasses import replace

import pytest

from models.estimates import LevelPlan, Pace, layers_of, pace_of, plan_of
from models.later_steps import LaterPace
from models.progress import refresh_level
from skipmap.spec import SearchSpec
from tests.models.bench import LAYERS, make_facts, make_spec, random_table


def _levels(search: SearchSpec, num_layers: int | None) -> list[tuple[int | None, int | None]]:
    return [(level.configurations, level.planned) for level in plan_of(search, num_layers).levels]


def test_levels_up_to_the_bounds():
    search = SearchSpec(max_depth=3, max_pool=6)
    assert _levels(search, 30) == [(1, 1), (30, 30), (15, 15), (20, 20)]
    assert plan_of(search, 30).most == 66
    assert plan_of(search, 30).pool == 6


def test_a_pool_is_no_larger_than_its_target():
    search = SearchSpec(max_depth=9, max_pool=12)
    plan = plan_of(search, 4)
    assert plan.pool == 4
    # All layers at once are never skipped.
    assert [level.level for level in plan.levels] == [0, 1, 2, 3]


def test_a_budget_cuts_a_level_and_all_after_it():
    search = SearchSpec(max_depth=4, max_pool=6, max_evaluations=50)
    plan = plan_of(search, 30)
    assert _levels(search, 30) == [(1, 1), (30, 30), (15, 15), (20, 4), (15, 0)]
    assert [level.cut for level in plan.levels] == [0, 0, 0, 16, 15]
    assert plan.most == 50


def test_what_is_not_known_is_not_made_up():
    plan = plan_of(SearchSpec(max_depth=2, max_pool=6), None)
    assert plan.levels == (LevelPlan(0, 1, 1), LevelPlan(1, None, None), LevelPlan(2, 15, 15))
    assert plan.most is None
    bounded = plan_of(SearchSpec(max_depth=2, max_pool=6, max_evaluations=50), None)
    assert bounded.levels[2] == LevelPlan(2, 15, None)


@pytest.mark.parametrize(
    "search",
    [
        {"max_pool": 5},
        {"max_pool": 3},
        {"max_pool": 5, "max_evaluations": 9},
        {"max_pool": 5, "max_evaluations": 13},
        {"max_pool": 5, "max_depth": 1},
        {"strategy": "accept_only", "max_pool": 4},
        {"strategy": "greedy"},
        {"strategy": "greedy", "protect_last": 3},
        {"strategy": "greedy", "max_evaluations": 7},
        {"strategy": "random", "draws": 4},
        {"strategy": "random", "draws": 4, "max_evaluations": 6},
        {"strategy": "shortgpt", "max_depth": 9},
        {"strategy": "sleb"},
        {"strategy": "sleb", "max_depth": 9},
    ],
)
def test_a_plan_is_what_a_search_of_good_layers_does(bench, search):
    spec = make_spec(**{"max_depth": 3, **search})
    job = bench.submit(spec)
    bench.work_off()
    plan = plan_of(spec.search, LAYERS)
    for table, planned in (("evaluations", "planned"), ("ranks", "ranked")):
        rows = bench.sql(f"SELECT depth, count(*) FROM {table} WHERE job_id = :id GROUP BY depth", id=job.id)
        counts = {level.level: getattr(level, planned) for level in plan.levels}
        assert dict(rows) == {level: count for level, count in counts.items() if count}
    assert plan.ranked == bench.sql("SELECT count(*) FROM ranks")[0]


def test_a_beam_evaluates_no_more_than_planned(bench):
    spec = make_spec(strategy="beam", beam_width=2, max_depth=4, max_pool=5, tau=0.9, eps=0.9)
    bench.table = random_table(4)
    job = bench.submit(spec)
    bench.work_off()
    plan = plan_of(spec.search, LAYERS)
    assert [level.planned for level in plan.levels] == [1, 5, 8, 6, 4]
    rows = bench.sql("SELECT depth, count(*) FROM evaluations WHERE job_id = :id GROUP BY depth", id=job.id)
    assert len(rows) == 5
    assert all(count <= plan.levels[depth].planned for depth, count in rows)


def test_a_known_pool_makes_a_plan_sharper():
    search = SearchSpec(max_depth=3, max_pool=6)
    assert [level.planned for level in plan_of(search, 30, pool=3).levels] == [1, 30, 3, 1]
    # With an empty pool there are the single layers alone.
    assert [level.planned for level in plan_of(search, 30, pool=0).levels] == [1, 30]


@pytest.mark.parametrize("strategy", ["greedy", "random", "shortgpt", "sleb"])
def test_without_the_number_of_layers_little_is_told_of_a_strategy_without_a_pool(strategy):
    plan = plan_of(SearchSpec(strategy=strategy, max_depth=2), None)
    assert (plan.pool, plan.most) == (None, None)
    assert [level.level for level in plan.levels] == [0, 1, 2]


def test_layers_are_those_that_the_last_job_found(bench):
    assert bench.database.read(layers_of, "tiny") is None
    bench.submit()
    assert bench.database.read(layers_of, "tiny") is None
    bench.work_off()
    assert bench.database.read(layers_of, "tiny") == LAYERS
    assert bench.database.read(layers_of, "other") is None


def _timed(bench, seconds, prompts=None, device="cpu", **spec):
    """A job whose groups of two took so long."""
    description = {"data": {"n_calibration": prompts}} if prompts else {}
    bench.facts = make_facts(device_class=device, description=description)
    bench.seconds_per_group = seconds
    job = bench.submit(make_spec(**spec))
    bench.work_off(bench.slot(device))
    return job


def test_nothing_is_told_without_an_earlier_job(bench):
    assert bench.database.read(pace_of, "tiny", "prompt_lookup") is None
    bench.submit()
    assert bench.database.read(pace_of, "tiny", "prompt_lookup") is None
    _timed(bench, 2.0)
    assert bench.database.read(pace_of, "tiny", "sam") is None
    assert bench.database.read(pace_of, "other", "prompt_lookup") is None


def test_the_pace_of_earlier_jobs(bench):
    for seconds in (2.0, 4.0, 12.0):
        _timed(bench, seconds)
    pace = bench.database.read(pace_of, "tiny", "prompt_lookup")
    assert replace(pace, later=LaterPace()) == Pace(
        jobs=3, device_class="cpu", median=2.0, p80=6.0, prompts=None
    )
    assert pace.seconds(10, prompts=7) == (20.0, 60.0)


def test_times_are_of_one_kind_of_device(bench):
    _timed(bench, 8.0, device="cpu")
    _timed(bench, 2.0, device="cuda")
    assert bench.database.read(pace_of, "tiny", "prompt_lookup").median == 1.0
    assert bench.database.read(pace_of, "tiny", "prompt_lookup", "cpu").median == 4.0
    assert bench.database.read(pace_of, "tiny", "prompt_lookup", "mps") is None


def test_jobs_with_more_prompts_count_for_as_much_more(bench):
    _timed(bench, 2.0, prompts=10)
    _timed(bench, 4.0, prompts=20)
    _timed(bench, 6.0, prompts=30)
    pace = bench.database.read(pace_of, "tiny", "prompt_lookup")
    assert (pace.median, pace.prompts) == (2.0, 20)
    assert pace.seconds(5, prompts=40) == (20.0, 20.0)
    assert pace.seconds(5, prompts=5) == (2.5, 2.5)
    assert pace.seconds(5, prompts=None) == (10.0, 10.0)


def test_fewer_prompts_are_no_faster_where_they_share_a_forward():
    pace = Pace(jobs=1, device_class="cuda", median=1.0, p80=2.0, prompts=20)
    assert pace.seconds(3, prompts=5) == (3.0, 6.0)
    assert pace.seconds(3, prompts=40) == (6.0, 12.0)


def test_a_running_job_tells_too(bench):
    bench.table = random_table(1)
    job = bench.submit()
    bench.reach("level")
    (level,) = bench.sql("SELECT id FROM levels WHERE job_id = :id AND kind = 'single'", id=job.id)
    bench.database.transaction(refresh_level, level)
    assert bench.database.read(pace_of, "tiny", "prompt_lookup").jobs == 1
