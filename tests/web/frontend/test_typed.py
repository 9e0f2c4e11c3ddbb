"""What is typed outlives a reload: no secret, nothing that was sent, nothing of somebody else."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.visitor import Visitor
from tests.web.frontend.gallery import State


@pytest.fixture
def visitor(visit) -> Visitor:
    return visit("/wrong")


@pytest.fixture
def wrong(visitor: Visitor) -> Page:
    return visitor.page


def fill(page: Page, name: str) -> None:
    page.locator("#f-name").fill(name)
    page.get_by_label("B", exact=True).check()
    page.locator("#f-labels").fill("two\nlines")
    page.locator("#f-size").select_option("l")
    page.check("#f-more")
    page.locator("#f-secret").fill("geheim")


def shows(page: Page, name: str) -> None:
    expect(page.locator("#f-name")).to_have_value(name)
    expect(page.locator("#checked [name=kind]:checked")).to_have_value("b")
    expect(page.locator("#f-labels")).to_have_value("two\nlines")
    expect(page.locator("#f-size")).to_have_value("l")
    expect(page.locator("#f-more")).to_be_checked()


def kept(page: Page) -> str:
    return str(page.evaluate("JSON.stringify({...sessionStorage})"))


def test_a_reload_keeps_what_was_typed(wrong: Page):
    fill(wrong, "typed")
    wrong.reload()
    shows(wrong, "typed")
    expect(wrong.locator("#f-secret")).to_have_value("")
    assert "geheim" not in kept(wrong)
    # The rest of the page follows it, as if it had just been typed.
    expect(wrong.locator("#f-name-note")).to_have_text("5 letters")


def test_so_does_a_reload_of_a_refused_form(visitor: Visitor):
    page = visitor.page
    page.locator("#f-name").fill("sent")
    with visitor.expecting(422):
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#f-name-error")).to_have_text("too short")
        expect(page.locator("#f-name")).to_have_value("sent")
        fill(page, "corrected")
        page.reload()
        shows(page, "corrected")
        page.get_by_role("button", name="Send").click()
        # What the server sent back is the beginning of what is typed from now on.
        expect(page.locator("#f-name-error")).to_have_text("too short")
        shows(page, "corrected")


def test_a_page_that_is_opened_anew_begins_anew(wrong: Page):
    fill(wrong, "typed")
    wrong.goto(wrong.url)
    expect(wrong.locator("#f-name")).to_have_value("x")
    wrong.reload()
    expect(wrong.locator("#f-name")).to_have_value("x")


def test_what_was_sent_is_kept_no_longer(wrong: Page, state: State):
    fill(wrong, "typed")
    wrong.wait_for_timeout(400)
    assert "typed" in kept(wrong)
    for sent, is_kept in (("another-mark", True), ("another-mark a-mark", False)):
        state.sent = sent
        wrong.goto(f"{wrong.url.rpartition('/')[0]}/parts")
        assert ("typed" in kept(wrong)) == is_kept


def test_nobody_sees_what_somebody_else_has_typed(wrong: Page, state: State):
    fill(wrong, "typed by ada")
    wrong.wait_for_timeout(400)
    state.user = "mallory"
    wrong.reload()
    expect(wrong.locator("#f-name")).to_have_value("x")
    assert "typed by ada" not in kept(wrong)
