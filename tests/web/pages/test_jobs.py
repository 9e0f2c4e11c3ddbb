"""A job's page: how the job stands, and what can be done."""

from __future__ import annotations

import json

import pytest

from models.advance import try_advance
from models.control import cancel, pause
from models.lease import fail
from models.poison import dead_letter
from models.sweep import settle_cancelling, settle_pausing
from tests.models.bench import LAYERS
from tests.web.pages.story import Story
from web.filters import label_texts

PARTS = ("controls", "status", "figures", "details")
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def url(job, more=""):
    return f"/jobs/{job.id}{more}"


def test_a_job_that_has_just_begun(site, story):
    job = story.submit(story.spec(name="a new one"))
    page = site.page(url(job))
    assert page.heading == "a new one"
    assert "Nobody works on this job: no live worker" in page.text
    assert "Nothing is evaluated yet" in page.text
    levels = page.table("levels")
    assert [row[1] for row in levels] == ["running", *["pending"] * (len(levels) - 1)]
    assert not page.all("[data-chart]")


def test_a_job_without_a_name_is_called_by_what_it_does(site, story):
    assert site.page(url(story.submit(story.spec()))).heading == "qa on tiny with prompt_lookup"


def test_a_lossy_draft_is_marked(site, story):
    lossy = {"method": "bild", "params": {"model": "smollm2-135m-instruct"}}
    assert "its acceptance rule changes answers" in site.page(url(story.submit(story.spec(draft=lossy)))).text
    assert "its acceptance rule changes answers" not in site.page(url(story.submit(story.spec()))).text


def test_levels_show_what_is_stored(site, story):
    job = story.tell()
    stored = story.stored(job.id)
    limits = story.limits(job.id)

    def feasible(depth):
        return sum(limits.admits(score) for skip, score in stored.items() if len(skip) == depth)

    rows = site.page(url(job)).table("levels")
    assert [(row[0].split(" ")[0], row[1], row[2], row[3]) for row in rows[:3]] == [
        ("Dense", "done", "1 of 1", "\u2013"),
        ("Single", "done", f"{LAYERS} of {LAYERS}", str(feasible(1))),
        ("Sets", "done", "6 of 6", str(feasible(2))),
    ]
    assert [row[0].split(" ")[0] for row in rows[3:]] == ["Cost", "Held-out", "Result"]


def test_the_running_level_has_a_range_of_time_left(site, story):
    job = story.submit(story.spec())
    story.store(claimed := story.reach("dense"))
    story.finish(claimed)
    story.must_claim()
    story.sql("UPDATE levels SET pace = '{\"median\": 60, \"p80\": 90}', done = 1 WHERE kind = 'single'")
    text = site.page(url(job)).text
    assert "4 min to 6 min" in text
    assert "it covers the running level only, not those after it" in text


def test_workers_on_the_job_and_its_last_events(site, story):
    job = story.submit(story.spec())
    story.must_claim(story.slot("gpu-host/0"))
    text = site.page(url(job)).text
    assert "gpu-host/0" in text
    assert "The job runs" in text
    assert "Nobody works on this job" not in text


def failed(story: Story, error: str = "CUDA out of memory"):
    job = story.submit(story.spec())
    claimed = story.must_claim()
    story.database.transaction(fail, story.settings, claimed, error, permanent=True)
    story.database.transaction(dead_letter, story.settings)
    try_advance(story.database, claimed.level_id)
    return story.job(job.id)


def test_a_failed_job_says_what_went_wrong_and_what_to_do(site, story):
    job = failed(story)
    assert job.state == "failed"
    page = site.page(url(job))
    assert "This job has failed CUDA out of memory" in page.text
    assert "mend that and retry" in page.text
    card = page.one("#failed-work").get_text(" ")
    assert "Dense: dense, 1\u00a0attempt" in card
    assert "CUDA out of memory" in card
    assert "cpu-0" in card
    assert page.links["Retry"] == url(job, "/retry")
    assert "Nothing was evaluated" in page.text


def test_a_failed_job_is_looked_at_now_and_then_for_it_may_be_retried(site, story):
    job = failed(story)
    for path in (url(job), url(job, "/configurations")):
        page = site.page(path)
        assert page.all("[data-live-end]") == []
        assert {part["data-live-seconds"] for part in page.all("[data-live]")} == {"30"}
    running = story.submit(story.spec())
    assert {part["data-live-seconds"] for part in site.page(url(running)).all("[data-live]")} == {
        "3",
        "2",
        "10",
        "5",
    }


def test_a_cancelled_job_shows_what_it_has(site, story):
    job = story.submit(story.spec())
    story.store(claimed := story.reach("level"))
    story.database.transaction(cancel, job.id)
    page = site.page(url(job))
    assert "cancelling" in page.one("[data-live=controls]").get_text()
    story.sql("UPDATE jobs SET cancel_requested_at = cancel_requested_at - interval '1 hour'")
    story.database.transaction(settle_cancelling, story.settings)
    assert story.state(job.id) == "cancelled"
    page = site.page(url(job))
    assert "This job is cancelled" in page.text
    assert page.table("table-layers")
    assert len(page.all("[data-live-end]")) == len(PARTS)
    assert claimed.kind == "level"


def test_a_paused_job_says_so(site, story):
    job = story.submit(story.spec())
    story.database.transaction(pause, job.id)
    story.database.transaction(settle_pausing)
    page = site.page(url(job))
    assert "This job is paused" in page.text
    assert page.links["Resume"] == url(job, "/resume")


@pytest.mark.parametrize(
    ("state", "labels"),
    [
        ("running", {"Pause", "Priority 5", "Clone", "Cancel"}),
        ("paused", {"Resume", "Priority 5", "Clone", "Cancel"}),
        ("succeeded", {"Clone", "Delete", "Publish"}),
        ("failed", {"Retry", "Clone", "Delete"}),
    ],
)
@pytest.mark.parametrize("role", ["viewer", "editor", "publisher"])
def test_actions_fit_state_and_rights(make_site, story, state, labels, role):
    if state == "failed":
        job = failed(story)
    elif state == "succeeded":
        job = story.tell()
    else:
        job = story.submit(story.spec())
        if state == "paused":
            story.database.transaction(pause, job.id)
            story.database.transaction(settle_pausing)
    controls = make_site(role).fragment(url(job), "controls")
    expected = set() if role == "viewer" else labels - ({"Publish"} if role == "editor" else set())
    assert set(controls.links) == expected


def test_the_spec_is_shown_whole(site, story):
    job = story.submit(story.spec(labels={"team": "search"}))
    page = site.page(url(job))
    assert json.loads(page.one("#spec").get_text()) == job.spec
    assert "team=search" in page.text


def test_a_spec_of_another_version_is_told(site, story):
    job = story.tell()
    story.sql("UPDATE jobs SET spec = CAST(:spec AS json)", spec=json.dumps({**job.spec, "unknown": 1}))
    text = site.page(url(job)).text
    assert "The figures of this job cannot be shown" in text


def test_unknown_jobs_are_not_found(site):
    site.page("/jobs/00000000-0000-7000-8000-000000000000", 404)


def test_evil_texts_are_shown_as_text(site, story):
    spec = story.spec(name=EVIL, labels={EVIL: EVIL})
    job = failed(story, EVIL)
    story.sql(
        "UPDATE jobs SET name = :name, labels = CAST(:labels AS jsonb)",
        name=EVIL,
        labels=json.dumps(spec.labels),
    )
    answer = site.get(url(job)).text
    assert "<img src=x" not in answer
    assert "<script>alert(2)" not in answer
    page = site.page(url(job))
    assert page.heading == EVIL
    assert label_texts({EVIL: EVIL})[0] in page.text
    assert EVIL in page.one("#failed-work").get_text()
