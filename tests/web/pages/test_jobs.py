from __future__ import annotations

import json

import pytest

from models.advance import try_advance
from models.control import cancel, pause
from models.lease import fail
from models.poison import dead_letter
from models.sweep import settle_cancelling, settle_pausing
from skipmap.profiling.pareto import Score, pareto_front
from skipmap.profiling.search import DENSE
from skipmap.skipset import SkipSet
from tests.models.bench import LAYERS, all_good, random_table
from tests.web.pages.story import Story, make_story
from web.views.words import ACCEPT_LENGTH

PARTS = ("controls", "status", "figures", "details")
EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


@pytest.fixture
def story(bench) -> Story:
    return make_story(bench)


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


def test_a_job_that_has_succeeded_shows_its_result(site, story):
    job = story.tell()
    page = site.page(url(job))
    selected = job.best["skip"]
    assert f"May skip block{'s' * (len(selected) > 1)} {', '.join(map(str, selected))}" in page.text
    assert "Confirmed on held-out" in page.text
    assert page.links["Publish"] == f"/publish?job={job.id}"
    assert page.links["Figures and answers of the selected configuration"] == url(
        job, f"/configurations/{','.join(map(str, selected))}"
    )
    kinds = [(chart["data-chart"], chart["data-chart-src"]) for chart in page.all("[data-chart]")]
    assert kinds == [
        ("layer-heatmap", url(job, "/data/layers.json")),
        ("pareto", url(job, "/data/pareto.json")),
        ("cost", url(job, "/data/cost.json")),
        ("intervals", url(job, "/data/speedup.json")),
        ("intervals", url(job, "/data/metric.json")),
    ]


def test_each_chart_has_its_table(site, story):
    job = story.tell()
    page = site.page(url(job))
    stored, limits = story.stored(job.id), story.limits(job.id)
    singles = page.table("table-layers")
    assert [row[0] for row in singles] == [str(layer) for layer in range(LAYERS)]
    for row in singles:
        score = next(score for skip, score in stored.items() if skip.blocks == (int(row[0]),))
        assert (row[1], row[4]) == (f"{score.accept:.3f}", f"{score.metric:.3f}")
        assert (row[3], row[6]) == (
            "kept" if limits.admits_accept(score) else "below",
            "kept" if limits.admits_metric(score) else "below",
        )
        assert row[7] == ("in the pool" if int(row[0]) in job.outcome["pool"] else "no")
    feasible = {s: score for s, score in stored.items() if s != DENSE and limits.admits(score)}
    front = {", ".join(map(str, skip)) for skip in pareto_front(feasible)}
    assert {row[0] for row in page.table("table-front")} == front
    assert page.table("table-cost")
    assert len(page.table("table-held-out")) == 2
    for chart in page.all("[data-chart]"):
        assert page.one(f"table#{chart.find('a')['href'].removeprefix('#')}")


def test_accept_length_is_explained_wherever_it_is_shown(site, story):
    page = site.page(url(story.tell()))
    for chart in page.all("[data-chart]"):
        card = chart.find_parent("section")
        assert "Cost" in card.h2.get_text() or ACCEPT_LENGTH in card.get_text()
    assert ACCEPT_LENGTH in page.one("details.help").get_text()


def test_what_the_budget_cut_is_told(site, story):
    story.table = all_good
    job = story.tell(story.spec(max_pool=3, max_evaluations=8))
    text = site.page(url(job)).text
    assert "The search was cut short" in text
    assert (
        "2 layers that kept a floor alone were not combined, for the pool was full (search.max_pool)" in text
    )
    assert "of the sets that skip 2 layers were not evaluated" in text


def test_nothing_feasible_stays_dense(site, story):
    story.table = lambda skip: Score(2.0, 0.8) if skip == DENSE else Score(1.0, 0.2)
    job = story.tell()
    page = site.page(url(job))
    assert job.best is None
    assert "Keep the target dense" in page.text
    assert "No configuration keeps both floors, so there is no front. Dense stays." in page.text
    assert "No configuration was checked on held-out prompts, because none is feasible." in page.text
    assert page.links["Figures and answers of the dense target"] == url(job, "/configurations/dense")


def test_no_signal_shows_dense_alone(site, story):
    story.changes = {"no_signal": True, "cost": None, "notes": ["no signal: dense is no better"]}
    story.table = lambda skip: Score(2.0, 0.05)
    job = story.tell()
    page = site.page(url(job))
    assert "No answer: the metric shows no signal" in page.text
    assert "no signal: dense is no better" in page.text
    assert "No single layer is evaluated in this job." in page.text
    assert "Only dense is evaluated in this job." in page.text
    assert [row[0].split(" ")[0] for row in page.table("levels")] == ["Dense", "Result"]


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


def test_the_front_of_a_job_on_accepted_drafts_is_told_in_accept_length(site, story):
    job = story.tell(story.spec(accept_measure="accepted_drafts"))
    lengths = story.stored(job.id)
    drafts = story.stored(job.id, "accepted_drafts")
    page = site.page(url(job))
    head = [cell.get_text() for cell in page.all("table#table-front thead th")]
    assert head[2:5] == ["Accept length", "Change", "Accepted drafts"]
    rows = page.table("table-front")
    assert rows
    for row in rows:
        skip = SkipSet(tuple(map(int, row[0].split(", "))))
        assert (row[2], row[4]) == (f"{lengths[skip].accept:.3f}", f"{drafts[skip].accept:.3f}")
    assert "All configurations: accept length against f1" in page.text
    assert "marks alone tell what keeps it" in page.text


def test_the_pages_own_word_is_layers(site, story):
    """The summary, which it shares with the report, says blocks: once it is told that those are layers."""
    page = site.page(url(story.tell()))
    assert "blocks are the layers of the target" in page.one("#result").get_text(" ")
    page.one("#result").decompose()
    assert "block" not in page.text.lower()


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


@pytest.mark.parametrize("name", ["content", "title", "actions", "heading", "list", "dialog"])
def test_only_its_parts_can_be_asked_for_alone(site, story, name):
    job = story.submit(story.spec())
    assert site.get(url(job), headers={"X-Fragment": name}).status_code == 404


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


def test_every_part_comes_alone_and_nothing_new_is_304(site, story):
    job = story.submit(story.spec())
    story.store(claimed := story.reach("dense"))
    for part in PARTS:
        first = site.get(url(job), headers={"X-Fragment": part})
        assert first.status_code == 200, part
        assert "<html" not in first.text
        again = {"X-Fragment": part, "If-None-Match": first.headers["ETag"]}
        assert site.get(url(job), headers=again).status_code == 304
    whole = site.get(url(job))
    assert site.get(url(job), headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
    # Something happens: every part is another one.
    tags = {part: site.get(url(job), headers={"X-Fragment": part}).headers["ETag"] for part in PARTS}
    story.finish(claimed)
    for part in PARTS:
        answer = site.get(url(job), headers={"X-Fragment": part, "If-None-Match": tags[part]})
        assert answer.status_code == 200, part


def test_figures_follow_in_steps_and_not_each_evaluation(site, story):
    job = story.submit(story.spec())
    story.store(claimed := story.reach("dense"))
    story.finish(claimed)
    story.sql("UPDATE levels SET size = 1000, done = 11 WHERE kind = 'single'")
    first = site.get(url(job), headers={"X-Fragment": "figures"})
    again = {"X-Fragment": "figures", "If-None-Match": first.headers["ETag"]}
    story.sql("UPDATE levels SET done = 19 WHERE kind = 'single'")
    assert site.get(url(job), headers=again).status_code == 304
    story.sql("UPDATE levels SET done = 20 WHERE kind = 'single'")
    assert site.get(url(job), headers=again).status_code == 200


def test_parts_of_a_job_that_goes_on_do_not_end(site, story):
    job = story.submit(story.spec())
    page = site.page(url(job))
    assert [part["data-live"] for part in page.all("[data-live]")] == list(PARTS)
    assert not page.all("[data-live-end]")
    assert page.one("[data-live=status]")["data-live-events"].startswith(url(job, "/stream?after="))


def test_events_are_followed_by_the_session(site, visitor, story):
    job = story.submit(story.spec())
    address = site.page(url(job)).one("[data-live=status]")["data-live-events"]
    story.work_off()
    answer = site.get(address)
    assert answer.mimetype == "text/event-stream"
    text = answer.text
    assert "event: level" in text
    assert '"state": "succeeded"' in text
    # What the page showed already does not come again.
    assert "id: 1\n" not in text
    last = story.job(job.id).last_event
    assert site.get(url(job, f"/stream?after={last}")).status_code == 204
    assert site.get(url(job, "/stream?after=rubbish")).status_code == 200
    assert visitor.get(address).status_code == 303


def test_a_stream_ends_soon_for_its_session_to_be_looked_at(site, story, monkeypatch):
    monkeypatch.setattr("web.pages.jobs._STREAM_SECONDS", 0.05)
    monkeypatch.setattr("api.hub.KEEP_ALIVE_SECONDS", 0.02)
    job = story.submit(story.spec())
    assert site.get(url(job, "/stream?after=1")).text.startswith(": alive")


def test_the_spec_is_shown_whole(site, story):
    job = story.submit(story.spec(labels={"team": "search"}))
    page = site.page(url(job))
    assert json.loads(page.one("#spec").get_text()) == job.spec
    assert "team: search" in page.text


def test_result_and_report_are_taken_away_by_the_session(site, story):
    job = story.tell()
    result = site.get(url(job, "/result.json"))
    assert result.get_json()["selected"] == job.best["skip"]
    assert f"result-{job.id}.json" in result.headers["Content-Disposition"]
    report = site.get(url(job, "/report"))
    assert "<h1" in report.text
    assert "script-src 'sha256-" in report.headers["Content-Security-Policy"]
    assert site.page(url(story.submit(), "/result.json"), 409).text


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
    assert f"{EVIL}: {EVIL}" in page.text
    assert EVIL in page.one("#failed-work").get_text()


def test_figures_of_a_random_search_never_fail(site, story):
    for seed in range(4):
        story.table = random_table(seed)
        assert site.page(url(story.tell(story.spec(accept_measure="accepted_drafts")))).table("levels")
