"""Toasts: they cover nothing, take no focus, are read out, and stay until there was time to read them."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.visitor import NARROW, WIDE
from tests.web.frontend.gallery import State

_IN_VIEW = """() => {
  const controls = [...document.querySelectorAll("a, button, input, select, textarea, summary, td")];
  window.inView = controls.filter((each) => {
    const box = each.getBoundingClientRect();
    return !each.closest(".toast") && each.checkVisibility() && box.top >= 0 && box.top < innerHeight;
  });
  return window.inView.length;
}"""
_COVERED = """() => {
  const boxes = [...document.querySelectorAll(".toast")].map((each) => each.getBoundingClientRect());
  const isUnder = (box) => boxes.some((toast) => toast.top < box.bottom - 1 && toast.bottom > box.top + 1);
  return window.inView.filter((each) => isUnder(each.getBoundingClientRect())).map((each) => each.outerHTML);
}"""


def look(page: Page) -> None:
    """Note which controls are in view."""
    assert page.evaluate(_IN_VIEW) > 0


def covered(page: Page) -> list[str]:
    """Which of them lie under a message now."""
    found: list[str] = page.evaluate(_COVERED)
    return found


def top(page: Page, selector: str) -> float:
    found: float = page.locator(selector).evaluate("(each) => each.getBoundingClientRect().top")
    return found


@pytest.fixture(params=[WIDE, NARROW])
def page(request: pytest.FixtureRequest, visit: Any, state: State) -> Page:
    """Parts, with two messages of the server's."""
    state.toasts = (
        ("good", "It is saved"),
        ("bad", "It is not sent, for a reason that takes a line and more to tell"),
    )
    found: Page = visit("/parts", width=request.param).page
    return found


def test_what_a_page_comes_with_covers_nothing_and_is_read_out(page: Page):
    expect(page.locator("[role=status] .toast p")).to_have_count(2)
    look(page)
    assert covered(page) == []
    assert page.evaluate("document.activeElement === document.body")
    expect(page.locator("[data-announced]")).to_contain_text("It is saved")
    expect(page.locator("[data-announced]")).to_contain_text("It is not sent")
    expect(page.get_by_role("alert")).to_contain_text("It is not sent")
    height = page.locator(".toasts").evaluate("(each) => each.getBoundingClientRect().height")
    before = top(page, "h1")
    for _ in range(2):
        page.get_by_role("button", name="Dismiss").first.click()
    expect(page.locator(".toast")).to_have_count(0)
    assert top(page, "h1") == pytest.approx(before - height, abs=1)


def test_a_message_that_comes_later_moves_the_page_and_hides_nothing(visit, state: State):
    visitor = visit("/parts", width=NARROW)
    page = visitor.page
    with visitor.expecting(401):
        page.locator("#f-set").scroll_into_view_if_needed()
        page.locator("#f-set").focus()
        before = top(page, "#f-set")
        look(page)
        state.status = 401
        toast = page.locator(".toasts[role=status] .toast")
        expect(toast).to_contain_text("Your session has ended")
        expect(toast).to_be_in_viewport(ratio=1)
        assert covered(page) == []
        height = toast.evaluate("(each) => each.getBoundingClientRect().height")
        assert top(page, "#f-set") == pytest.approx(before + height, abs=1)
        assert page.evaluate("document.activeElement.id") == "f-set"
        # As somebody presses it; a test's own click may scroll first.
        page.get_by_role("button", name="Dismiss").dispatch_event("click")
        assert top(page, "#f-set") == pytest.approx(before, abs=1)
        assert page.locator(".toasts").get_attribute("data-stuck") is None


def test_good_news_goes_once_it_was_read_and_nobody_is_about_to_press(visit, state: State):
    state.toasts = (("good", "It is saved"), ("warning", "Look at this"))
    page: Page = visit("/opened").page
    page.clock.install()
    page.goto(page.url.replace("/opened", "/wrong"))
    toasts = page.locator(".toast")
    page.clock.run_for(14_000)
    expect(toasts).to_have_count(2)
    page.mouse.move(300, 700)
    page.clock.run_for(1_400)
    page.mouse.move(310, 700)
    page.clock.run_for(1_400)
    expect(toasts).to_have_count(2)
    page.locator(".toast-good [data-toast-close]").focus()
    page.clock.run_for(10_000)
    expect(toasts).to_have_count(2)
    page.locator("#f-word").focus()
    page.clock.run_for(3_000)
    expect(toasts).to_have_text(["Look at thisDismiss"])
    page.clock.run_for(60_000)
    expect(toasts).to_have_count(1)


def test_in_a_dialog_a_message_is_part_of_it_and_outlives_it(visit, state: State):
    visitor = visit("/parts")
    page = visitor.page
    page.locator("#question").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    with visitor.expecting(401):
        state.status = 401
        expect(dialog.locator(".toast")).to_contain_text("Your session has ended")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(page.locator("body > .toasts .toast")).to_contain_text("Your session has ended")


@pytest.mark.parametrize("is_allowed", [True, False])
def test_copying_is_seen_and_heard(visit, is_allowed: bool):
    page: Page = visit("/parts").page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    if not is_allowed:
        page.evaluate(
            """() => {
              navigator.clipboard.writeText = () => Promise.reject(new Error("no"));
              document.execCommand = () => false;
            }"""
        )
    button = page.locator("[data-copy='#code']")
    width = button.evaluate("(each) => each.getBoundingClientRect().width")
    button.click()
    expect(button).to_have_text("Copied" if is_allowed else "Not copied")
    expect(button.locator("use")).to_have_attribute("href", "#icon-check" if is_allowed else "#icon-warning")
    assert button.evaluate("(each) => each.getBoundingClientRect().width") >= width
    if is_allowed:
        expect(page.locator("[data-announced]")).to_have_text("Copied.")
        assert page.evaluate("navigator.clipboard.readText()") == "skipmap serve --map qa"
    else:
        expect(page.locator(".toasts[role=status]")).to_contain_text("does not allow copying")
    button.click()
    expect(button).to_have_text("Copy")
    expect(button.locator("use")).to_have_attribute("href", "#icon-copy")
