"""Questions open in a dialog over the page, and the focus comes back to where it was."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.web.browser.visitor import Visitor
from tests.web.frontend.gallery import State


def opened(page: Page) -> None:
    page.locator("#question").click()
    expect(page.get_by_role("dialog", name="Stop it?")).to_be_visible()


def test_it_opens_over_the_page_and_closes_in_each_way(parts: Page, state: State):
    for close in ("Escape", "button", "outside"):
        opened(parts)
        assert parts.url.endswith("/parts")
        assert parts.evaluate("document.querySelector('dialog').contains(document.activeElement)")
        if close == "Escape":
            parts.keyboard.press("Escape")
        elif close == "button":
            parts.get_by_role("link", name="Keep it").click()
        else:
            parts.mouse.click(5, 5)
        expect(parts.locator("dialog")).to_have_count(0)
        assert parts.evaluate("document.activeElement.id") == "question"
    (asked, *_) = [each for each in state.requests if each.path == "/question"]
    assert asked.headers["X-Fragment"] == "dialog"


def test_what_is_asked_is_said_once(parts: Page):
    opened(parts)
    expect(parts.locator("dialog").get_by_role("heading")).to_have_text("Stop it?")
    parts.goto(parts.url.replace("/parts", "/question"))
    expect(parts.get_by_role("heading")).to_have_text(["Stop it?"])


def test_focus_returns_although_the_page_has_changed_below(parts: Page, state: State):
    opened(parts)
    state.ticks = 4
    expect(parts.locator("#tick")).to_have_text("4")
    parts.keyboard.press("Escape")
    assert parts.evaluate("document.activeElement.id") == "question"


def test_what_is_typed_is_not_lost_by_a_press_outside(parts: Page):
    opened(parts)
    parts.fill("#reason", "because")
    parts.mouse.click(5, 5)
    expect(parts.get_by_role("dialog")).to_be_visible()


def test_its_form_is_sent_once(parts: Page, state: State):
    opened(parts)
    parts.locator("dialog form").evaluate(
        "(form) => { const stop = form.querySelector('[type=submit]'); stop.click(); stop.click(); }"
    )
    parts.wait_for_url("**/opened")
    assert [asked.path for asked in state.requests].count("/stopped") == 1


def test_a_refusal_is_a_toast(visit, state: State):
    visitor: Visitor = visit("/parts")
    visitor.page.evaluate("document.querySelector('[data-live]').dataset.liveSeconds = '600'")
    visitor.page.wait_for_timeout(400)
    with visitor.expecting(409):
        state.status = 409
        visitor.page.locator("#question").click()
        expect(visitor.page.locator(".toast")).to_contain_text("Refused with 409")
    expect(visitor.page.locator("dialog")).to_have_count(0)
    visitor.page.get_by_role("button", name="Dismiss").click()
    expect(visitor.page.locator(".toast")).to_have_count(0)


def test_menus_open_one_at_a_time_and_close_by_escape(parts: Page):
    first, second = parts.locator("details[data-menu]").nth(0), parts.locator("details[data-menu]").nth(1)
    first.locator("summary").click()
    second.locator("summary").click()
    expect(first).not_to_have_attribute("open", "")
    parts.keyboard.press("ArrowDown")
    assert second.evaluate("(menu) => menu.querySelector('button') === document.activeElement")
    parts.keyboard.press("End")
    parts.keyboard.press("ArrowDown")
    assert second.evaluate("(menu) => menu.querySelector('button') === document.activeElement")
    parts.keyboard.press("Escape")
    expect(second).not_to_have_attribute("open", "")
    assert second.evaluate("(menu) => menu.querySelector('summary') === document.activeElement")
    second.locator("summary").click()
    parts.mouse.click(5, 5)
    expect(second).not_to_have_attribute("open", "")
