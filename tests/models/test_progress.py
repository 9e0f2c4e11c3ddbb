from __future__ import annotations

import pytest
from sqlalchemy import text

from models.advance import Advance
from models.lease import store_finding
from models.progress import refresh_level, stirring_levels
from models.queries import (
    attempts_of,
    chunk_counts,
    failed_chunks,
    find_job,
    job_revision,
    list_evaluations,
    list_jobs,
    place_of,
)
from skipmap.errors import NotFound
from skipmap.skipset import SkipSet
from skipmap.spec import JobSpec
from tests.models.bench import make_spec, random_table


def refresh(bench):
    levels = bench.database.transaction(stirring_levels)
    return sum(bench.database.transaction(refresh_level, level_id) for level_id in levels)


def test_progress_is_noted_and_told_when_there_is_some(bench):
    bench.table = random_table(3)
    job = bench.submit()
    claimed = bench.reach("single")
    refresh(bench)
    revision = bench.database.transaction(job_revision, job.id)
    assert refresh(bench) == 0
    bench.store_group(claimed, claimed.groups[0])
    assert refresh(bench) == 1
    assert refresh(bench) == 0
    view = bench.database.transaction(find_job, job.id)
    level = view.levels[-1]
    feasible = [
        skip
        for skip in (SkipSet((0,)), SkipSet((1,)))
        if bench.table(skip).accept >= 1.9 and bench.table(skip).metric >= 0.475
    ]
    assert (level.done, level.size, level.feasible) == (2, 5, len(feasible))
    assert level.pace == {"median": 0.5, "p80": 0.5}
    assert view.job.last_event == revision + 1
    assert bench.sql("SELECT payload FROM events ORDER BY seq DESC LIMIT 1")[0]["done"] == 2


def test_a_level_that_somebody_has_locked_is_left_for_the_next_time(bench):
    bench.submit()
    claimed = bench.reach("single")
    bench.store_group(claimed, claimed.groups[0])
    for table in ("levels", "jobs"):
        with bench.database.engine.begin() as other:
            other.execute(text(f"SELECT FROM {table} FOR NO KEY UPDATE"))
            assert bench.database.transaction(refresh_level, claimed.level_id) is False
    assert bench.database.transaction(refresh_level, claimed.level_id) is True
    assert bench.database.transaction(refresh_level, claimed.level_id) is False


def test_only_levels_in_which_something_may_have_been_stored_are_counted(bench):
    bench.submit()
    claimed = bench.reach("single")
    level = [claimed.level_id]
    assert bench.database.read(stirring_levels) == level
    bench.sql("UPDATE levels SET created_at = created_at - interval '1 hour'")
    bench.sql("UPDATE chunks SET progress_at = NULL")
    assert bench.database.read(stirring_levels) == []
    bench.store_group(claimed, claimed.groups[0])
    assert bench.database.read(stirring_levels) == level
    bench.sql("UPDATE chunks SET progress_at = progress_at - interval '1 hour'")
    assert bench.database.read(stirring_levels) == []
    bench.store(claimed)
    bench.database.transaction(refresh_level, claimed.level_id)
    # All its units are stored and counted; it only waits to be ended.
    assert bench.database.read(stirring_levels) == []


def test_a_spec_that_is_no_longer_understood_stops_no_counting(bench):
    job = bench.submit()
    claimed = bench.reach("single")
    bench.sql("UPDATE jobs SET spec = CAST(jsonb_set(spec::jsonb, '{search,eps}', '\"few\"') AS json)")
    bench.store_group(claimed, claimed.groups[0])
    assert bench.database.transaction(refresh_level, claimed.level_id) is True
    assert bench.sql("SELECT done, feasible FROM levels WHERE kind = 'single'") == [(2, 0)]
    bench.store(claimed)
    # The level can still be ended, and its job says why.
    assert bench.finish(claimed) is Advance.FAILED
    assert "search.eps" in bench.job(job.id).error
    bench.sql("DELETE FROM jobs")


def test_the_best_so_far_skips_most_and_scores_highest(bench):
    job = bench.submit()
    claimed = bench.reach("level")
    bench.store_group(claimed, claimed.groups[1])
    refresh(bench)
    # All are equally good here, so the first in order stands for them.
    assert claimed.groups[1] == ("0,4", "1,2")
    assert bench.job(job.id).best == {"skip": [0, 4], "accept_length": 2.0, "metric": 0.8}


def test_a_level_that_ends_says_what_it_has(bench):
    """Also when no sweep came by while it ran."""
    job = bench.submit()
    bench.reach("cost")
    assert bench.sql("SELECT kind, done, size, feasible FROM levels WHERE depth > 0 ORDER BY idx") == [
        ("single", 5, 5, 5),
        ("level", 6, 6, 6),
    ]
    assert bench.job(job.id).best["skip"] == [0, 1]


def test_a_job_that_has_succeeded_shows_what_its_result_selects(bench):
    job = bench.submit()
    claimed = bench.reach("result")
    document = {"document": {"selected": [3]}}
    bench.database.transaction(store_finding, bench.settings, claimed, "all", document, 1.0)
    assert bench.finish(claimed) is Advance.ENDED
    assert bench.job(job.id).best == {"skip": [3], "accept_length": 2.0, "metric": 0.8}


def test_pages_of_jobs(bench):
    ids = [bench.submit().id for _ in range(5)]
    odd = JobSpec.parse(
        make_spec().model_dump(mode="json") | {"labels": {"team": "x"}, "target": {"id": "other"}}
    )
    ids.append(bench.submit(odd).id)
    found, before = [], None
    while page := bench.database.transaction(list_jobs, limit=2, before=before):
        found += [job.id for job in page]
        before = page[-1].id
    assert found == ids[::-1]

    def filtered(**by):
        return [job.id for job in bench.database.transaction(list_jobs, limit=9, **by)]

    assert filtered(target="other") == filtered(labels={"team": "x"}) == ids[5:]
    assert filtered(labels={"team": "y"}) == filtered(draft="sam") == filtered(domain="qa") == []
    assert filtered(state="running", draft="prompt_lookup", domain="words") == ids[::-1]
    beam = bench.submit(make_spec(strategy="beam")).id
    assert (filtered(strategy="beam"), filtered(strategy="tss"), filtered(strategy="sleb")) == (
        [beam],
        ids[::-1],
        [],
    )


@pytest.mark.parametrize("sort", ["skip", "metric", "accept_length"])
@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_evaluations_hold_every_row_once_in_order(bench, sort, descending):
    bench.table = random_table(1)
    job = bench.submit()
    bench.work_off()
    found, after = [], None
    while page := bench.database.transaction(
        list_evaluations, job.id, limit=3, sort=sort, descending=descending, after=after
    ):
        found += page
        after = place_of(page[-1], sort)
    assert (
        len(found) == len({row.skip_key for row in found}) == bench.sql("SELECT count(*) FROM evaluations")[0]
    )
    places = [place_of(row, sort) for row in found]
    assert places == sorted(places, reverse=descending)


def test_evaluations_of_one_depth_with_their_prompts(bench):
    job = bench.submit()
    bench.work_off()
    rows = bench.database.transaction(list_evaluations, job.id, limit=99, depth=1, prompts=True)
    assert [row.skip for row in rows] == [[0], [1], [2], [3], [4]]
    assert rows[0].prompts[0]["text"] == "an answer"


def test_what_a_job_page_shows(bench):
    job = bench.submit()
    claimed = bench.must_claim()
    assert bench.database.transaction(chunk_counts, job.id) == {"running": 1}
    bench.store(claimed)
    bench.finish(claimed)
    assert bench.database.transaction(chunk_counts, job.id) == {"succeeded": 1, "pending": 1}
    attempts = bench.database.transaction(attempts_of, [claimed.chunk_id])[claimed.chunk_id]
    assert [one.outcome for one in attempts] == ["succeeded"]
    assert bench.database.transaction(failed_chunks, job.id) == []
    for missing in (find_job, job_revision):
        with pytest.raises(NotFound):
            bench.database.transaction(missing, "no such job")
