from __future__ import annotations

import json
from urllib.parse import parse_qs, urlsplit

import pytest

from models.compared import jobs_by_id
from skipmap.profiling.pareto import Score
from tests.models.bench import random_table
from tests.web.pages.story import Story
from web.views.words import ACCEPT_LENGTH

EVIL = '"><img src=x onerror=alert(1)><script>alert(2)</script>'


def several(story: Story):
    found = []
    for seed, (domain, draft) in enumerate([("qa", "sam"), ("qa", "eagle"), ("summary", "sam")]):
        story.table = random_table(seed + 1)
        spec = story.spec(
            domain={"name": domain, "metric": "f1"}, draft={"method": draft}, name=f"{domain} {draft}"
        )
        found.append(story.tell(spec))
    return found


def address(*jobs, **more):
    query = [f"job={job.id}" for job in jobs] + [f"{name}={value}" for name, value in more.items()]
    return f"/compare?{'&'.join(query)}"


def chart(page, name):
    return json.loads(page.one(f"#chart-{name} script[data-chart-data]").string)


def test_jobs_stand_side_by_side(site, story):
    jobs = several(story)
    page = site.page(address(*jobs))
    bars = chart(page, "accept-length")
    assert bars["categories"] == ["qa", "summary"]
    found = {
        (series["name"], value["category"]): value["value"]
        for series in bars["series"]
        for value in series["values"]
    }
    assert found == {
        (job.draft, job.domain): next(s.accept for skip, s in story.stored(job.id).items() if not skip.blocks)
        for job in jobs
    }
    rows = page.table("compared")
    assert [row[0] for row in rows] == [job.name for job in jobs]
    selected = [", ".join(map(str, job.best["skip"])) if job.best else "dense" for job in jobs]
    assert [row[7] for row in rows] == selected
    assert {row[1] for row in rows} <= {"passes, not certain", "dense"}
    assert ACCEPT_LENGTH in page.text
    assert len(page.all(".ruler-row")) == 3


@pytest.mark.parametrize(
    ("passes", "prompts", "word"),
    [(True, 64, "confirmed"), (True, 4, "passes, not certain"), (False, 64, "fails")],
)
def test_what_fails_on_held_out_prompts_is_told_beside_names_and_in_charts(
    site, story, passes, prompts, word
):
    story.passes_gate, story.held_out_prompts = passes, prompts
    job = story.tell(story.spec(name="night"))
    page = site.page(address(job))
    (row,) = page.table("compared")
    assert row[:2] == ["night", word]
    assert page.one(".ruler-label").get_text() == f"qa, {job.draft} ({word})"
    for name in ("speed-up", "metric-change"):
        (value,) = chart(page, name)["series"][0]["values"]
        assert (value["gate"], value["fails"]) == (word, not passes)
    assert {button["data-export-name"] for button in page.all("#chart-speed-up [data-export]")} == {
        f"compare-{job.id[-8:]}-held-out-speedup"
    }


def test_all_jobs_are_read_at_once(site, story, monkeypatch):
    from web.pages import compare

    reads: list[list[str]] = []

    def noted(session, job_ids):
        reads.append(list(job_ids))
        return jobs_by_id(session, job_ids)

    monkeypatch.setattr(compare, "jobs_by_id", noted)
    jobs = several(story)
    assert len(site.page(f"{address(*jobs)}&job=rubbish").table("compared")) == 3
    assert reads == [[job.id for job in jobs]]


def test_only_differing_fields_unless_all_are_asked_for(site, story):
    jobs = several(story)
    page = site.page(address(*jobs))
    assert {row[0] for row in page.table("fields")} == {"draft.method", "domain.name"}
    everything = site.page(page.links["All fields"].split("#")[0])
    names = {row[0].removesuffix(" differs") for row in everything.table("fields")}
    assert {"search.eps", "target.id", "draft.method"} <= names
    assert everything.links["Only what differs"].split("#")[0] == address(*jobs)


def test_jobs_that_are_unlike_are_warned_of(site, story):
    first = story.tell(story.spec(draft={"method": "sam"}))
    story.changes = {
        "data": {"digest": "other", "n_calibration": 25, "n_held_out": 4, "left_out": {}, "shots": []}
    }
    second = story.tell(story.spec(draft={"method": "eagle"}, eps=0.04))
    text = site.page(address(first, second)).text
    assert "These jobs are not alike in everything" in text
    assert "The calibration data of qa are not the same" in text
    assert "The floors or the gate are not the same" in text
    assert "These jobs are not alike" not in site.page(address(first)).text


def test_a_job_is_left_out_by_its_link(site, story):
    jobs = several(story)
    page = site.page(address(*jobs))
    links = [link["href"] for link in page.all("table#compared a.quiet")]
    assert parse_qs(urlsplit(links[1]).query)["job"] == [jobs[0].id, jobs[2].id]


def test_jobs_without_a_result_are_left_out_and_named(site, story):
    (first, *_) = several(story)
    running = story.submit(story.spec(name="unfinished"))
    page = site.page(
        f"{address(first, running)}&job=00000000-0000-7000-8000-000000000000&job=%00&job=rubbish"
    )
    assert "The job unfinished is running and has no result, so it is left out." in page.text
    assert page.text.count("it may have been deleted") == 3
    assert len(page.table("compared")) == 1
    assert "One job alone" in page.text


def test_nothing_that_can_be_compared(site, story):
    page = site.page(address(story.submit(story.spec())))
    assert "Nothing to compare" in page.text
    assert page.links["Choose jobs"].startswith("/compare")


def test_very_many_jobs_are_cut(site, story):
    (job, *_) = several(story)
    ids = "&".join(f"job=00000000-0000-7000-8000-{number:012x}" for number in range(20))
    page = site.page(f"/compare?job={job.id}&{ids}")
    assert "21 jobs are asked for, and 12 can be compared at a time" in page.text


def test_jobs_without_a_selection_are_compared_as_dense(site, story):
    story.table = lambda skip: Score(1.0, 0.1) if skip.blocks else Score(2.0, 0.5)
    job = story.tell()
    page = site.page(address(job))
    (row,) = page.table("compared")
    assert (row[1], row[7]) == ("dense", "dense")
    assert "No selected configuration of these jobs was checked" in page.text


def test_jobs_are_chosen_from_those_that_have_succeeded(site, story):
    jobs = several(story)
    story.submit(story.spec(name="unfinished"))
    page = site.page("/compare")
    assert [row[1] for row in page.table("choose")] == [job.name for job in reversed(jobs)]
    assert "unfinished" not in page.text
    filtered = site.page("/compare?add=true&draft=sam")
    assert [row[1] for row in filtered.table("choose")] == ["summary sam", "qa sam"]
    assert "No job fits" in site.page("/compare?add=true&domain=none").text


def test_what_is_chosen_stays_chosen(site, story, monkeypatch):
    from web.pages import compare

    monkeypatch.setattr(compare, "_JOBS_A_PAGE", 2)
    jobs = several(story)
    page = site.page(address(jobs[0], jobs[2], add="true"))
    assert [box["value"] for box in page.all("input[type=checkbox][checked]")] == [jobs[2].id]
    assert jobs[0].id in {field["value"] for field in page.all("form.stack input[type=hidden]")}
    second = site.page(page.links["Next"])
    assert [box["value"] for box in second.all("input[type=checkbox][checked]")] == [jobs[0].id]


def test_no_job_has_succeeded(site):
    assert "No job has succeeded yet" in site.page("/compare").text


@pytest.mark.parametrize(("query", "wrong"), [("cursor=rubbish", set()), ("add=true&domain=%00", {"domain"})])
def test_what_makes_no_sense_is_told_of_and_the_rest_holds(site, story, query, wrong):
    job = story.tell()
    page = site.page(f"/compare?{query}", status=422)
    assert set(page.errors) == wrong
    assert ("the list begins at its start" in page.text) == (not wrong)
    assert [box["value"] for box in page.all("#choose input[type=checkbox]")] == [job.id]


def test_evil_names_are_shown_as_text(site, story):
    job = story.tell(story.spec(name=EVIL, labels={EVIL: EVIL}))
    other = story.tell(story.spec(name=EVIL))
    for path in ("/compare", address(job, other), address(job, other, fields="all")):
        answer = site.get(path).text
        assert "<img src=x" not in answer
        assert "<script>alert(2)" not in answer
        assert EVIL in site.page(path).text
    # Names that tell series apart stand in the data of charts.
    assert any(
        EVIL in series["name"] for series in chart(site.page(address(job, other)), "accept-length")["series"]
    )


def test_a_viewer_may_compare(make_site, visitor, story):
    job = story.tell()
    assert make_site("viewer").get(address(job)).status_code == 200
    assert visitor.get(address(job)).status_code == 303
