"""What happens as a page opens: one part that fails takes no other with it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.web.browser.visitor import Visitor

_FAILING = """
const listen = document.addEventListener;
document.addEventListener = function (kind, ...rest) {
  if (kind === "toggle") throw new Error("this part cannot start");
  return listen.call(this, kind, ...rest);
};
"""


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
