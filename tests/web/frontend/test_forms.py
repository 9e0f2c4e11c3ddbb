"""Forms: parts that belong to a choice, estimates that follow, uploads with progress, filters that apply at once."""

from __future__ import annotations

import re
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import FilePayload, Page, expect

from tests.web.browser.visitor import Visitor
from tests.web.frontend.gallery import Asked, State

FILE = FilePayload(name="numbers.jsonl", mimeType="application/jsonl", buffer=b"{}\n")
EMPTY = FilePayload(name="none.jsonl", mimeType="application/jsonl", buffer=b"")


def last(state: State, path: str) -> Asked:
    return [asked for asked in state.requests if asked.path == path][-1]


def test_parts_show_for_their_choice_and_are_sent_only_then(parts: Page, state: State):
    head, option = parts.locator("#head"), parts.locator("#f-option")
    expect(head).not_to_be_visible()
    expect(option).not_to_be_visible()
    parts.select_option("#f-draft-method", "eagle")
    expect(head).to_be_visible()
    parts.check("#f-more")
    expect(option).to_be_enabled()
    parts.select_option("#f-draft-method", "sam")
    parts.get_by_role("button", name="Send").click()
    parts.wait_for_url("**/opened")
    sent = last(state, "/spec").form
    assert sent["option"] == "an option"
    assert "draft.head" not in sent


def test_an_estimate_follows_the_form(parts: Page, state: State):
    estimate = parts.locator("#estimate")
    expect(estimate).to_have_text("Estimate for sam")
    parts.select_option("#f-draft-method", "medusa")
    expect(estimate).to_have_text("Estimate for medusa")
    asked = last(state, "/estimate")
    assert asked.headers["X-Fragment"] == "estimate"
    assert asked.headers["X-Csrf-Token"] == "a token"
    assert asked.form["draft.head"] == "a head"
    assert "file" not in asked.form


def test_an_estimate_that_cannot_be_had_is_read_out(visit, state: State):
    visitor: Visitor = visit("/parts")
    visitor.page.evaluate("document.querySelector('[data-live]').dataset.liveSeconds = '600'")
    visitor.page.wait_for_timeout(400)
    with visitor.expecting(503):
        state.status = 503
        visitor.page.select_option("#f-draft-method", "medusa")
        expect(visitor.page.locator("#estimate").get_by_role("alert")).to_have_text("Refused with 503")


def test_an_estimate_that_comes_soon_is_waited_for_in_silence(visit, state: State):
    visitor: Visitor = visit("/parts")
    estimate = visitor.page.locator("#estimate")
    expect(estimate).to_have_text("Estimate for sam")
    visitor.page.evaluate("document.querySelector('[data-live]').dataset.liveSeconds = '600'")
    with visitor.expecting(429):
        state.status, state.retry_seconds = 429, 1
        with visitor.page.expect_response("**/estimate"):
            visitor.page.select_option("#f-draft-method", "medusa")
        expect(estimate).to_have_attribute("aria-busy", "true")
        expect(estimate).to_have_text("Estimate for sam")
        state.status = 0
        expect(estimate).to_have_text("Estimate for medusa")
        expect(estimate).not_to_have_attribute("aria-busy", "true")


def test_an_estimate_that_takes_long_to_come_is_not_waited_for(visit, state: State):
    visitor: Visitor = visit("/parts")
    visitor.page.evaluate("document.querySelector('[data-live]').dataset.liveSeconds = '600'")
    visitor.page.wait_for_timeout(400)
    with visitor.expecting(429):
        state.status, state.retry_seconds = 429, 60
        visitor.page.select_option("#f-draft-method", "medusa")
        expect(visitor.page.locator("#estimate").get_by_role("alert")).to_have_text("Refused with 429")


def test_typing_is_not_asked_about_letter_by_letter(parts: Page, state: State):
    parts.select_option("#f-draft-method", "eagle")
    expect(parts.locator("#estimate")).to_have_text("Estimate for eagle")
    before = [asked.path for asked in state.requests].count("/estimate")
    parts.focus("#f-draft-head")
    parts.keyboard.press("End")
    parts.locator("#f-draft-head").press_sequentially(" and more", delay=20)
    parts.wait_for_timeout(800)
    assert [asked.path for asked in state.requests].count("/estimate") == before + 1
    assert last(state, "/estimate").form["draft.head"] == "a head and more"


def test_a_chosen_file_is_sent_at_once_and_becomes_the_choice(parts: Page, state: State):
    parts.set_input_files("#f-file", FILE)
    expect(parts.locator("#f-set")).to_have_value("new")
    expect(parts.get_by_text("5 items, uploaded")).to_be_visible()
    assert parts.locator("#f-set option:checked").inner_text() == "numbers.jsonl (5 items)"
    assert parts.input_value("#f-file") == ""
    expect(parts.locator("#f-file")).to_be_enabled()
    asked = last(state, "/upload")
    assert asked.headers["X-Requested-With"] == "fetch"
    assert asked.form == {"csrf_token": "a token"}


def test_what_is_wrong_with_a_file_stands_below_it_as_text(visit, state: State):
    visitor: Visitor = visit("/parts")
    with visitor.expecting(422):
        visitor.page.set_input_files("#f-file", EMPTY)
        error = visitor.page.get_by_role("alert")
        expect(error).to_contain_text("The file has no items.")
        expect(error.locator("li")).to_have_text("line 1: <b>empty</b>")
    expect(visitor.page.locator("#f-set")).to_have_value("")
    visitor.page.set_input_files("#f-file", FILE)
    expect(error).to_have_count(0)


def test_a_form_with_a_file_shows_progress_and_goes_on(parts: Page, state: State):
    state.seconds_to_upload = 1.0
    parts.locator("#upload input[type=file]").set_input_files(FILE)
    parts.get_by_role("button", name="Upload", exact=True).click()
    expect(parts.locator("#upload progress")).to_be_visible()
    expect(parts.locator("#upload [role=status]")).to_have_text("All sent; the server is checking it")
    parts.wait_for_url(re.compile(r"/opened\?size=3$"))


def test_an_upload_can_be_stopped(parts: Page, state: State):
    state.seconds_to_upload = 2.0
    parts.set_input_files("#f-file", FILE)
    parts.get_by_role("button", name="Stop").click()
    expect(parts.locator(".toast")).to_contain_text("The upload was stopped.")
    expect(parts.locator("progress")).to_have_count(0)


def test_files_are_dropped(parts: Page):
    parts.locator("#spec [data-upload]").evaluate(
        """(zone) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File(["{}"], "dropped.jsonl"));
          for (const kind of ["dragover", "drop"]) {
            zone.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }));
          }
        }"""
    )
    expect(parts.locator("#f-set option:checked")).to_have_text("dropped.jsonl (5 items)")


@pytest.mark.parametrize("by_keys", [False, True])
def test_a_filter_applies_by_itself_and_keeps_the_focus(parts: Page, by_keys: bool):
    if by_keys:
        parts.focus("#f-state")
        parts.keyboard.press("r")
    else:
        parts.select_option("#f-state", "running")
    parts.wait_for_url("**/parts?*")
    # Empty fields are left out.
    assert parse_qs(parts.url.split("?")[1]) == {"state": ["running"]}
    parts.wait_for_function("document.activeElement.id === 'f-state'")
