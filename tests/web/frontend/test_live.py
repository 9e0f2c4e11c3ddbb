"""Live parts: fetched only when needed, morphed so that nothing a person does is lost, patient with a lost server."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Page, expect

from tests.web.browser.visitor import Visitor
from tests.web.frontend.gallery import Asked, State


def asked_for(state: State) -> list[Asked]:
    """Requests for the live part."""
    return [asked for asked in state.requests if asked.headers.get("X-Fragment") == "ticks"]


def fragments(state: State) -> int:
    return len(asked_for(state))


def test_new_content_comes_and_what_a_person_does_stays(parts: Page, state: State):
    typed = parts.locator("#typed")
    typed.fill("half a wo")
    typed.evaluate("(field) => field.setSelectionRange(2, 4)")
    parts.evaluate("document.querySelector('#more').open = true")
    parts.evaluate("window.kept = document.querySelector('#typed')")
    state.ticks = 7
    expect(parts.locator("#tick")).to_have_text("7")
    expect(parts.locator("#more p")).to_have_text("Details of tick 7")
    assert parts.evaluate("document.activeElement.id") == "typed"
    assert typed.evaluate("(field) => [field.value, field.selectionStart, field.selectionEnd]") == [
        "half a wo",
        2,
        4,
    ]
    assert parts.evaluate("document.querySelector('#more').open")
    assert parts.evaluate("window.kept === document.querySelector('#typed')")


def test_what_is_shown_already_is_not_sent_again(parts: Page, state: State):
    while len(asked_for(state)) < 4:
        parts.wait_for_timeout(50)
    tags = [asked.headers.get("If-None-Match") for asked in asked_for(state)]
    assert tags[0] is None
    assert len(set(tags[1:])) == 1


def test_an_event_is_a_reason_to_ask_at_once(parts: Page, state: State):
    parts.evaluate("document.querySelector('[data-live]').dataset.liveSeconds = '60'")
    parts.wait_for_timeout(300)
    before = fragments(state)
    state.ticks = 3
    expect(parts.locator("#tick")).to_have_text("3", timeout=5000)
    assert fragments(state) > before


def test_charts_are_brought_up_to_date_in_place(parts: Page, state: State):
    parts.wait_for_selector("#chart-ticks [data-chart-plot] svg")
    parts.evaluate("window.kept = document.querySelector('#chart-ticks [data-chart-plot] svg')")
    before = parts.inner_html("#chart-ticks [data-chart-plot] svg")
    state.ticks = 40
    expect(parts.locator("#tick")).to_have_text("40")
    parts.wait_for_function(
        "(before) => document.querySelector('#chart-ticks [data-chart-plot] svg').innerHTML !== before",
        arg=before,
    )
    assert parts.evaluate("window.kept === document.querySelector('#chart-ticks [data-chart-plot] svg')")
    assert parts.locator("#chart-ticks [data-chart-plot]").get_attribute("tabindex") == "0"


def test_a_table_stays_sorted_and_its_header_keeps_the_focus(parts: Page, state: State):
    names = parts.locator("#sorted tbody td:first-child")
    header = parts.locator("#sorted th").nth(1)
    header.get_by_role("button").click()
    expect(names).to_have_text(["ticks", "one"])
    state.ticks = 5
    expect(parts.locator("#tick")).to_have_text("5")
    expect(names).to_have_text(["one", "ticks"])
    expect(header).to_have_attribute("aria-sort", "ascending")
    expect(header.get_by_role("button")).to_be_focused()


def test_the_end_ends_it(parts: Page, state: State):
    state.is_over = True
    state.ticks = 1
    expect(parts.locator("#tick")).to_have_text("1")
    parts.wait_for_timeout(300)
    before = fragments(state)
    parts.wait_for_timeout(500)
    assert fragments(state) == before


def test_nothing_is_asked_while_the_tab_is_hidden(parts: Page, state: State):
    parts.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { configurable: true, get: () => window.away === true });
          window.away = true;
          document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    parts.wait_for_timeout(200)
    before = fragments(state)
    state.ticks = 9
    parts.wait_for_timeout(500)
    assert fragments(state) == before
    parts.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    expect(parts.locator("#tick")).to_have_text("9")


def test_a_server_that_is_away_is_said_and_asked_less_often(visit, state: State):
    visitor: Visitor = visit("/parts")
    line = visitor.page.locator("[data-live-status]")
    with visitor.expecting(503):
        state.status = 503
        expect(line).to_have_text("Cannot reach the server; trying again")
        before, start = fragments(state), time.monotonic()
        visitor.page.wait_for_timeout(1500)
        # Every tenth of a second when all is well.
        assert fragments(state) - before <= 2
        state.status, state.ticks = 0, 5
        expect(visitor.page.locator("#tick")).to_have_text("5")
        expect(line).not_to_be_visible()
        assert time.monotonic() - start < 15


def test_the_end_of_the_session_is_said_once_and_can_be_mended(visit, state: State):
    visitor: Visitor = visit("/parts")
    page = visitor.page
    page.locator("#f-option").evaluate("(field) => field.value = 'typed before'")
    with visitor.expecting(401):
        state.status = 401
        link = page.get_by_role("link", name=re.compile("^Sign in again"))
        expect(link).to_have_attribute("href", re.compile(r"/sign-in\?next=%2Fparts$"))
        before = fragments(state)
        page.wait_for_timeout(500)
        assert fragments(state) == before
        assert page.locator(".toast").count() == 1
    state.status, state.ticks = 0, 2
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.get_by_text("You are signed in again.")).to_be_visible()
    expect(page.locator("#tick")).to_have_text("2")
    assert page.input_value("#f-option") == "typed before"


def test_a_page_is_not_given_to_somebody_else(visit, state: State):
    visitor: Visitor = visit("/parts")
    page = visitor.page
    with visitor.expecting(401):
        state.status = 401
        expect(page.locator(".toast")).to_contain_text("Your session has ended")
        page.wait_for_timeout(300)
    state.status, state.user, state.token = 0, "mallory", "her token"
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator(".toast")).to_have_count(1)
    expect(page.locator(".toast")).to_contain_text("Somebody else is signed in now")
    token = page.locator('meta[name="csrf-token"]')
    expect(token).to_have_attribute("content", "a token")
    before = fragments(state)
    page.wait_for_timeout(400)
    assert fragments(state) == before
    # Once it is the same person again, all goes on.
    state.user, state.token, state.ticks = "ada", "a new token", 4
    page.evaluate("window.dispatchEvent(new Event('focus'))")
    expect(page.locator(".toast")).to_have_count(1)
    expect(page.locator(".toast")).to_contain_text("You are signed in again.")
    expect(token).to_have_attribute("content", "a new token")
    expect(page.locator("#tick")).to_have_text("4")


def test_what_is_gone_is_said_and_not_asked_for_again(visit, state: State):
    visitor: Visitor = visit("/parts")
    with visitor.expecting(404):
        state.status = 404
        expect(visitor.page.get_by_text("Refused with 404")).to_be_visible()
        before = fragments(state)
        visitor.page.wait_for_timeout(400)
        assert fragments(state) == before


def test_times_say_how_long_ago_they_were(parts: Page):
    expect(parts.locator("time[data-ago]")).to_have_text(re.compile(r"^3\s?min ago$"))
