"""Forms and buttons where something comes between: mistakes, ended sessions, somebody who was faster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import text

from skipmap.client.documents import JobRequest
from tests.web.browser.conftest import Served, served
from tests.web.browser.entrance import sign_in_here
from tests.web.browser.stack import LONG_SECONDS, TARGET, Stack
from tests.web.browser.visitor import Visitor
from tests.web.browser.words import PLAIN
from tests.web.browser.world import MAP

CHANNEL = f"/maps/{MAP}/channels/production"
LONG_MS = 1000 * LONG_SECONDS


@pytest.fixture(scope="module")
def site(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(module_database_url, tmp_path_factory.mktemp("home"), PLAIN) as made:
        yield made


@pytest.fixture
def visitor(site: Served, make_visitor: Callable[..., Visitor]) -> Visitor:
    visitor = make_visitor(site.url)
    visitor.page.goto("/sign-in")
    sign_in_here(visitor.page, site.world.token)
    return visitor


def test_a_wrong_form_comes_back_as_it_was(site: Served, visitor: Visitor) -> None:
    page = visitor.page
    fill_in_job(page, site)
    page.locator("#f-search-eps").fill("a lot")
    page.locator("#f-name").fill("  <b>kept</b> ")
    page.locator("#f-labels").fill("team=search\nno label")
    with visitor.expecting(422):
        page.get_by_role("button", name="Submit the job").click()
        expect(page.locator("[data-error-summary]")).to_be_focused()
    for name in ("search-eps", "labels"):
        expect(page.locator(f"#f-{name}")).to_have_attribute("aria-invalid", "true")
        expect(page.locator(f"#f-{name}-error")).to_be_visible()
    expect(page.locator("#f-search-eps")).to_have_value("a lot")
    expect(page.locator("#f-labels")).to_have_value("team=search\nno label")
    expect(page.locator("#f-target-choice")).to_have_value(TARGET)
    expect(page.locator("#f-calibration-set")).to_have_value(site.world.sets["items"])
    page.locator("[data-error-summary] a").first.click()
    expect(page.locator("#f-search-eps")).to_be_focused()
    page.locator("#f-search-eps").fill("0.1")
    expect(page.locator("#f-search-eps-error")).to_have_count(0)
    expect(page.locator("[data-error-summary] .notice-title")).to_have_text("One thing needs a change")
    page.locator("#f-labels").fill("team=search")
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    expect(page.locator("[data-error-summary]")).not_to_be_visible()
    with visitor.expecting(422):
        page.reload()
        expect(page.locator("#f-search-eps")).to_have_value("0.1")
        expect(page.locator("#f-labels")).to_have_value("team=search")
        expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    page.get_by_role("button", name="Submit the job").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("<b>kept</b>")


def test_a_target_is_told_of_before_the_job_is_sent(site: Served, visitor: Visitor) -> None:
    page = visitor.page
    fill_in_job(page, site)
    note = page.locator("#f-target-id-note")
    page.locator("#f-target-choice").select_option("-other")
    page.locator("#f-target-id").fill("owner/model")
    page.locator("#f-name").focus()
    expect(note).to_contain_text("a worker fetches it then")
    page.locator("#f-target-id").fill("/etc/model")
    page.locator("#f-name").focus()
    expect(page.locator("#f-target-id-error")).to_contain_text("is a path")
    expect(note).to_be_empty()
    page.locator("#f-target-choice").select_option(TARGET)
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    expect(page.locator("#f-target-choice-note")).to_contain_text("layers")


def test_what_was_typed_outlives_the_session(site: Served, visitor: Visitor) -> None:
    page = visitor.page
    fill_in_job(page, site)
    page.locator("#f-name").fill("typed before the end")
    end_sessions(site)
    with visitor.expecting(401):
        page.get_by_role("button", name="Submit the job").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Your session has ended")
    with visitor.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in in a new tab").click()
    sign_in_here(opened.value, site.world.token)
    expect(opened.value.get_by_role("heading", level=1)).not_to_have_text("Sign in")
    opened.value.close()
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("typed before the end")


def test_a_page_that_is_open_says_that_the_session_has_ended(site: Served, visitor: Visitor) -> None:
    page = visitor.page
    fill_in_job(page, site)
    end_sessions(site)
    with visitor.expecting(401, 403):
        page.locator("#f-name").fill("typed after the end")
        expect(page.locator("[data-toasts]")).to_contain_text("Your session has ended")
    expect(page.locator("#f-name")).to_have_value("typed after the end")


def test_of_two_who_move_a_channel_the_second_is_told(site: Served, visitor: Visitor) -> None:
    first, second = visitor.page, visitor.context.new_page()
    for page in (first, second):
        page.goto(f"{CHANNEL}/move?version=3")
    first.get_by_label("Why").fill("the first tab")
    first.get_by_role("button", name="Promote").click()
    expect(first.get_by_role("heading", level=1)).to_have_text("Channel production")
    second.get_by_label("Why").fill("the second tab")
    with visitor.expecting(412):
        second.get_by_role("button", name="Promote").click()
        expect(second.locator("main")).to_contain_text("somebody was faster")
    expect(second.locator("main")).to_contain_text("the first tab")
    expect(second.get_by_label("Why")).to_have_value("the second tab")
    second.goto(CHANNEL)
    expect(second.locator("#history tbody tr").first).to_contain_text("the first tab")
    assert second.locator("#history").inner_text().count("the second tab") == 0


@pytest.mark.model
def test_a_job_is_paused_resumed_and_cancelled_from_its_page(
    stack: Stack, make_visitor: Callable[..., Visitor]
) -> None:
    request = JobRequest.parse(LONG_JOB)
    assert isinstance(request, JobRequest)
    with stack.client() as client:
        job = client.submit(request)
    visitor = make_visitor(stack.url)
    page = visitor.page
    page.goto("/sign-in")
    sign_in_here(page, stack.token)
    page.goto(f"/jobs/{job.id}")
    page.evaluate("window.stays = true")
    state = page.locator("[data-live=controls] .badge").first
    for action, becomes in (("Pause", "paused"), ("Resume", "running"), ("Cancel", "cancelled")):
        page.get_by_role("link", name=action, exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name=re.compile(f"^{action}")).click()
        expect(dialog).to_have_count(0)
        expect(state).to_have_text(becomes, timeout=LONG_MS)
    with stack.client() as client:
        assert client.job(job.id).state == "cancelled"


LONG_JOB = {
    "target": {"id": TARGET},
    "draft": {"method": "prompt_lookup"},
    "domain": {"name": "summarization"},
    "calibration": {"source": "sample:summarization"},
    "name": "a job of many minutes",
}


def fill_in_job(page: Page, site: Served) -> None:
    """All that must be chosen, on a set that is there."""
    page.goto(f"/jobs/new?set={site.world.sets['items']}")
    page.locator("#f-target-choice").select_option(TARGET)
    page.locator("#f-draft-method").select_option("prompt_lookup")
    page.locator("#f-domain-choice").select_option("qa")


def end_sessions(site: Served) -> None:
    """As when they have run out."""
    statement = "UPDATE sessions SET ended_at = clock_timestamp() WHERE ended_at IS NULL"
    site.database.transaction(lambda session: session.execute(text(statement)))
