from __future__ import annotations

import pytest

from models.control import pause
from models.sweep import settle_pausing
from tests.web.pages.test_jobs import failed
from tests.web.site import Page

ID = "00000000-0000-7000-8000-000000000000"


def paused(story):
    job = story.submit(story.spec())
    story.database.transaction(pause, job.id)
    story.database.transaction(settle_pausing)
    return job


def running(story):
    return story.submit(story.spec())


def ended(story):
    return story.tell()


CASES = {
    "pause": (running, "pausing"),
    "resume": (paused, "running"),
    "cancel": (running, "cancelling"),
    "retry": (failed, "running"),
}


@pytest.mark.parametrize("action", list(CASES))
def test_an_action_asks_and_then_acts(site, story, action):
    make, state = CASES[action]
    job = make(story)
    before, address = story.state(job.id), f"/jobs/{job.id}/{action}"
    page = site.page(address)
    form = page.form(address)
    assert form["csrf_token"]
    assert page.one(f'form[action="{address}"] [data-dialog-close]')["href"] == f"/jobs/{job.id}"
    assert story.state(job.id) == before
    after = site.follow(address)
    assert story.state(job.id) == state
    assert after.heading == "qa on tiny with prompt_lookup"
    assert after.one("[data-toasts] .toast").get_text(strip=True)
    entries = story.sql("SELECT action, actor FROM audit WHERE subject = :id", id=job.id)
    assert entries == [(f"job.{action}", site.user_id)]


def test_the_question_opens_as_a_dialog(site, story):
    job = running(story)
    part = site.fragment(f"/jobs/{job.id}/cancel", "dialog")
    assert "Cancel this job?" in part.text
    assert "0 of 1 evaluation of the levels so far are done" in part.text
    assert part.one("button.danger").get_text(strip=True) == "Cancel the job"


def test_the_priority_is_changed(site, story):
    job = running(story)
    address = f"/jobs/{job.id}/priority"
    assert site.page(address).form(address)["priority"] == "5"
    site.follow(address, {"priority": "8"})
    assert story.job(job.id).priority == 8


@pytest.mark.parametrize("given", ["10", "-1", "many", "", "5.5"])
def test_a_priority_that_is_none_is_refused_and_shown_again(site, story, given):
    job = running(story)
    address = f"/jobs/{job.id}/priority"
    answer = site.post(address, {"priority": given})
    assert answer.status_code == 422
    page = Page(answer)
    assert "priority" in page.errors
    assert page.form(address)["priority"] == given
    assert story.job(job.id).priority == 5


def test_a_deleted_job_is_gone(site, story):
    job = ended(story)
    assert "6 of" not in site.page(f"/jobs/{job.id}/delete").text
    answer = site.post(f"/jobs/{job.id}/delete")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/jobs")
    site.page(f"/jobs/{job.id}", 404)
    assert story.sql("SELECT count(*) FROM evaluations") == [0]


@pytest.mark.parametrize(
    ("make", "action"),
    [
        (running, "resume"),
        (running, "retry"),
        (running, "delete"),
        (paused, "pause"),
        (ended, "pause"),
        (ended, "cancel"),
        (ended, "retry"),
        (ended, "priority"),
        (failed, "cancel"),
    ],
)
def test_what_the_state_does_not_allow_is_a_conflict(site, story, make, action):
    job = make(story)
    before = story.dump()
    page = site.page(f"/jobs/{job.id}/{action}", 409)
    assert "by now" in page.text
    # Pausing and resuming twice changes nothing, and is no error.
    answer = site.post(f"/jobs/{job.id}/{action}", {"priority": "5"})
    assert answer.status_code == (303 if (make, action) in ((running, "resume"), (paused, "pause")) else 409)
    assert story.dump() == before


@pytest.mark.parametrize("action", [*CASES, "priority", "delete"])
def test_a_viewer_may_not(make_site, story, action):
    job = running(story)
    viewer = make_site("viewer")
    assert viewer.get(f"/jobs/{job.id}/{action}").status_code == 403
    assert viewer.post(f"/jobs/{job.id}/{action}", {"priority": "1"}).status_code == 403
    assert story.state(job.id) == "running"


def test_without_the_sessions_token_nothing_happens(site, story):
    job = running(story)
    assert site.client.post(f"/jobs/{job.id}/cancel").status_code == 403
    assert story.state(job.id) == "running"


@pytest.mark.parametrize("path", [f"/jobs/{ID}/cancel", f"/jobs/{ID}/explode"])
def test_unknown_jobs_and_actions_are_not_found(site, path):
    site.page(path, 404)
    assert site.post(path).status_code == 404


def test_a_job_has_no_action_of_any_name(site, story):
    site.page(f"/jobs/{running(story).id}/explode", 404)
