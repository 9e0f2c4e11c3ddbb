"""A job's page while the job goes on: its parts, and its events."""

from __future__ import annotations

import pytest

from tests.web.pages.test_jobs import PARTS, url


@pytest.mark.parametrize("name", ["content", "title", "actions", "heading", "list", "dialog"])
def test_only_its_parts_can_be_asked_for_alone(site, story, name):
    job = story.submit(story.spec())
    assert site.get(url(job), headers={"X-Fragment": name}).status_code == 404


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
