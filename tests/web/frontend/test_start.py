"""What happens as a page opens: messages are read out, and one part that fails takes no other with it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.web.browser.visitor import Visitor
from tests.web.frontend.gallery import State

_AT_LOAD = """
addEventListener("load", () => { window.atLoad = document.querySelectorAll(".toast").length; });
"""
_FAILING = """
const listen = document.addEventListener;
document.addEventListener = function (kind, ...rest) {
  if (kind === "toggle") throw new Error("this part cannot start");
  return listen.call(this, kind, ...rest);
};
"""


def test_messages_come_into_a_region_that_is_there_already(visit, state: State):
    state.toasts = (("good", "It is saved"), ("bad", "It is not sent"))
    visitor: Visitor = visit("/opened")
    page = visitor.page
    page.add_init_script(_AT_LOAD)
    page.goto(visitor.url + "/parts")
    expect(page.locator("[role=status] .toast p")).to_have_text(["It is saved", "It is not sent"])
    assert page.evaluate("window.atLoad") == 0
    expect(page.get_by_role("alert")).to_have_text("It is not sent")
    # The good one goes by itself.
    expect(page.locator(".toast")).to_have_count(1)


def test_an_address_that_cannot_be_decoded_breaks_nothing(visit):
    for end in ("#%", "#%E0%A4%A", "#nothing"):
        page: Page = visit("/parts" + end).page
        expect(page.locator("#estimate")).to_have_text("Estimate for sam")
        expect(page.locator("#head")).not_to_be_visible()


def test_a_part_that_cannot_start_leaves_the_others_alone(visit):
    visitor: Visitor = visit("/opened")
    page = visitor.page
    page.add_init_script(_FAILING)
    page.goto(visitor.url + "/parts")
    # Started after it.
    expect(page.locator("#head")).not_to_be_visible()
    page.wait_for_selector("#chart-ticks [data-chart-plot] svg")
    assert visitor.faults
    assert all("this part cannot start" in fault for fault in visitor.faults)
    visitor.faults.clear()
