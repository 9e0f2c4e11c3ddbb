"""Charts whose data come from the server."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.web.frontend.charts import PLOT, Visit, chart
from tests.web.frontend.gallery import State


def test_fetched_data_are_asked_for_once(visit: Visit, state: State):
    page = visit("/chart/nothing").page
    chart(page, "fetched")
    assert [asked.path for asked in state.requests].count("/data") == 1


def test_a_chart_whose_data_cannot_be_had_says_so_and_asks_again(visit: Visit, state: State):
    visitor = visit("/opened")
    state.status = 503
    with visitor.expecting(503):
        visitor.page.goto(visitor.url + "/chart/nothing")
        expect(visitor.page.locator(f"#chart-fetched {PLOT}")).to_have_text("Refused with 503")
        state.status = 0
        chart(visitor.page, "fetched")


def test_what_is_refused_for_good_is_not_asked_for_again(visit: Visit, state: State):
    visitor = visit("/opened")
    state.status = 404
    with visitor.expecting(404):
        visitor.page.goto(visitor.url + "/chart/nothing")
        expect(visitor.page.locator(f"#chart-fetched {PLOT}")).to_have_text("Refused with 404")
        state.status = 0
        visitor.page.wait_for_timeout(3000)
    assert [asked.path for asked in state.requests].count("/data") == 1


def test_an_answer_that_comes_late_does_not_replace_a_newer_one(visit: Visit, state: State):
    page = visit("/chart/nothing").page
    plot = page.locator(chart(page, "fetched"))
    state.data = [(1.0, one_bar("earlier")), (0.0, one_bar("later"))]
    for asked in (2, 3):
        page.evaluate("document.body.dispatchEvent(new CustomEvent('skipmap:swap', { bubbles: true }))")
        while [each.path for each in state.requests].count("/data") < asked:
            page.wait_for_timeout(10)
    expect(plot).to_contain_text("later")
    page.wait_for_timeout(1500)
    expect(plot).to_contain_text("later")


def one_bar(category: str) -> dict[str, Any]:
    """Data of a chart with one bar."""
    series = [{"name": "ticks", "values": [{"category": category, "value": 1}]}]
    return {"unit": "", "reference": None, "categories": [category], "series": series}


def test_charts_that_the_server_has_no_more_are_said(visit: Visit):
    visitor = visit("/opened")
    visitor.page.route("**/charts-*.js", lambda route: route.fulfill(status=404))
    with visitor.expecting(404):
        visitor.page.goto(visitor.url + "/chart/bars")
        expect(visitor.page.locator(".toast")).to_contain_text("The charts cannot be drawn")
