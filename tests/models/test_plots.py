from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from models.chunks import skip_of
from models.database import Database
from models.plots import DENSE_KEY, Cloud, Point, cloud_of, singles_of, thinned
from skipmap.profiling.pareto import Score
from skipmap.profiling.search import DENSE, floors
from skipmap.profiling.select import select
from skipmap.skipset import SkipSet
from tests.models.bench import LAYERS, Bench, all_good, make_spec, random_table

MOST = 50


def stored_scores(bench: Bench, job_id: str, accept: str = "accept_length") -> dict[SkipSet, Score]:
    rows = bench.sql(f"SELECT skip_key, {accept}, metric FROM evaluations WHERE job_id = :id", id=job_id)
    return {skip_of(key): Score(a, m) for key, a, m in rows}


def finished(bench: Bench, seed: int, **search) -> str:
    bench.table = random_table(seed)
    job = bench.submit(make_spec(**search))
    bench.work_off()
    return job.id


def read(bench: Bench, job_id: str, what: Callable = cloud_of) -> Cloud:
    search = bench.job(job_id).parsed_spec.search
    found = bench.database.read(what, job_id, search)
    assert found is not None
    return found


@pytest.mark.parametrize("measure", ["tokens_per_step", "accepted_drafts"])
@pytest.mark.parametrize("seed", range(6))
def test_points_are_what_is_stored_and_their_front_is_the_selections(bench, seed, measure):
    job_id = finished(bench, seed, accept_measure=measure, eps=0.1, tau=0.1)
    found = read(bench, job_id)
    column = "accept_length" if measure == "tokens_per_step" else "accepted_drafts"
    figures, limiting = stored_scores(bench, job_id), stored_scores(bench, job_id, column)
    limits = floors(limiting[DENSE], 0.1, 0.1)
    assert found.floors == limits
    assert (found.dense.key, found.dense.accept, found.dense.metric) == (
        DENSE_KEY,
        limiting[DENSE].accept,
        limiting[DENSE].metric,
    )
    assert {skip_of(p.key): Score(p.accept_length, p.metric) for p in found.points} == {
        skip: score for skip, score in figures.items() if skip != DENSE
    }
    assert all(
        p.depth == len(skip_of(p.key)) and p.accept == limiting[skip_of(p.key)].accept for p in found.points
    )
    feasible = {s for s, score in limiting.items() if s != DENSE and limits.admits(score)}
    assert {skip_of(p.key) for p in found.points if p.feasible} == feasible
    # The same front as that of the operating points, which is one of tokens a step.
    selection = select({s: figures[s] for s in feasible}, lambda skip: 1 - len(skip) / LAYERS)
    assert {skip_of(key) for key in found.front} == set(selection.front)


def test_the_points_drawn_are_the_extremes_of_what_is_drawn():
    # By the other measure the first is the best, and by accept length the last.
    many = [Point(str(n), 1, 1 + n / 1000, 1 - n / 1000, 0.5, True) for n in range(1000)]
    assert {"0", "999"} <= {point.key for point in thinned(many, 5)}


def test_single_layers_are_those_alone_in_order(bench):
    job_id = finished(bench, 1)
    found = read(bench, job_id, singles_of)
    assert [point.key for point in found.points] == [str(layer) for layer in range(LAYERS)]
    everything = read(bench, job_id)
    assert found.dense == everything.dense
    assert set(found.points) <= set(everything.points)


def test_nothing_is_known_before_dense_is_evaluated(bench):
    job = bench.submit()
    search = bench.job(job.id).parsed_spec.search
    for what in (cloud_of, singles_of):
        assert bench.database.read(what, job.id, search) is None


def test_dense_alone_has_no_points_and_no_front(bench):
    job = bench.submit()
    claimed = bench.reach("dense")
    bench.store(claimed)
    for what in (cloud_of, singles_of):
        found = read(bench, job.id, what)
        assert (found.points, found.front) == ([], frozenset())


def test_equal_configurations_are_on_the_front_together(bench):
    bench.table = all_good
    job = bench.submit()
    bench.work_off()
    found = read(bench, job.id)
    assert found.front == {point.key for point in found.points}


def points(number: int, seed: int = 0) -> list[Point]:
    rng = random.Random(seed)
    return [
        Point(str(index), 1, a := rng.uniform(1, 3), a, rng.random(), rng.random() < 0.3)
        for index in range(number)
    ]


def test_few_points_are_all_drawn_by_size_and_key():
    many = points(MOST)
    assert thinned(many[::-1], MOST) == sorted(many, key=lambda point: point.key)


def test_of_many_points_so_many_are_drawn_with_all_that_matter():
    many = points(1000)
    front, kept = {"17", "400", "998"}, {"3"}
    drawn = thinned(many, MOST, front, kept)
    keys = {point.key for point in drawn}
    assert len(drawn) == len(keys) == MOST
    assert front | kept <= keys
    for figure in ("accept_length", "metric"):
        values = [getattr(point, figure) for point in many]
        shown = [getattr(point, figure) for point in drawn]
        assert (min(shown), max(shown)) == (min(values), max(values))
    assert set(drawn) <= set(many)


def test_the_same_points_are_drawn_in_whatever_order_they_come():
    many = points(1000)
    shuffled = many[:]
    random.Random(5).shuffle(shuffled)
    assert thinned(many, MOST, {"7"}) == thinned(shuffled, MOST, {"7"})


def test_most_points_stay_when_others_join():
    many = points(1000)
    before, after = thinned(many[:900], MOST), thinned(many, MOST)
    # A tenth more points: a tenth of the places are theirs, give or take.
    assert len(set(before) & set(after)) > 0.75 * MOST


def test_a_front_that_is_too_large_is_thinned_after_the_kept_and_the_extremes():
    many = points(1000)
    drawn = thinned(many, MOST, {point.key for point in many}, {"5"})
    assert len(drawn) == MOST
    assert "5" in {point.key for point in drawn}


def test_a_job_that_is_gone_has_no_points(database: Database):
    search = make_spec().search
    assert database.read(cloud_of, "00000000-0000-7000-8000-000000000000", search) is None
