"""Errors of fields: gone while the field holds something else, brought up to date by the server where it can tell."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.frontend.gallery import State


@pytest.fixture
def wrong(visit) -> Page:
    return visit("/wrong").page


def about(page: Page, name: str) -> str:
    """What a control is described by."""
    return page.locator(f"[name={name}]").first.get_attribute("aria-describedby") or ""


def test_an_error_is_about_what_the_field_held(wrong: Page):
    word = wrong.locator("#f-word")
    for typed, is_wrong in (("new", False), ("old", True), ("older", False)):
        word.fill(typed)
        expect(wrong.locator("#f-word-error")).to_have_count(int(is_wrong))
        assert (word.get_attribute("aria-invalid") == "true") == is_wrong
        assert about(wrong, "word") == ("f-word-help f-word-error" if is_wrong else "f-word-help")
        assert wrong.locator(".field-bad #f-word").count() == int(is_wrong)
    for is_ticked in (True, False):
        wrong.get_by_label("write").set_checked(is_ticked)
        expect(wrong.locator("#f-scopes-error")).to_have_count(int(not is_ticked))
    wrong.locator("#f-colour").select_option("red")
    expect(wrong.locator("#f-colour-error")).to_have_count(0)
    assert about(wrong, "colour") == ""


def test_what_the_server_finds_right_is_right(wrong: Page, state: State):
    state.checks = [(0, {"name": "still too short", "labels": "no pair", "size": "not asked about"})]
    wrong.locator("#f-name").fill("xy")
    expect(wrong.locator("#f-name-error")).to_have_text("still too short")
    # Of what was right and is not being changed nothing is said.
    expect(wrong.locator("#f-size-error")).to_have_count(0)
    expect(wrong.locator("#f-kind-error")).to_have_count(0)
    expect(wrong.locator("#f-labels-error")).to_have_text("no pair")
    expect(wrong.locator("#f-name-note")).to_have_text("2 letters")
    expect(wrong.locator("[data-error-summary] li")).to_have_text(
        ["Name: too short", "Kind: choose one", "Labels: no pair", "Something else."]
    )
    expect(wrong.locator("[data-error-summary] li:visible")).to_have_count(3)
    expect(wrong.locator("[data-error-summary] .notice-title")).to_have_text("3 things need a change")
    asked = [each for each in state.requests if each.path == "/check"]
    assert [(each.form["name"], each.form["closely"]) for each in asked] == [("xy", "true")]
    wrong.locator("#f-name").fill("a long name")
    expect(wrong.locator("#checked [aria-invalid]:not([type=file])")).to_have_count(0)


def test_a_field_that_was_left_shows_its_own_error(wrong: Page, state: State):
    wrong.locator("#f-name").fill("a long name")
    expect(wrong.locator("#f-name-error")).to_have_count(0)
    state.checks = [(0, {"size": "too small", "name": "too long"})]
    wrong.locator("#f-size").select_option("l")
    expect(wrong.locator("#f-size-error")).to_have_text("too small")
    expect(wrong.locator("#f-size")).to_have_attribute("aria-invalid", "true")
    expect(wrong.locator("[data-announced]")).to_contain_text("too small")
    # Nothing was wrong, so that a close look was not asked for.
    assert "closely" not in state.requests[-1].form
    wrong.locator("#f-size").select_option("s")
    expect(wrong.locator("#f-size-error")).to_have_count(0)


def test_of_two_answers_the_later_change_counts(wrong: Page, state: State):
    state.checks = [(1.0, {"name": "an old answer"}), (0, {"name": "a new answer"})]
    wrong.locator("#f-name").fill("first")
    wrong.wait_for_timeout(600)
    wrong.locator("#f-name").fill("second")
    expect(wrong.locator("#f-name-error")).to_have_text("a new answer")
    wrong.wait_for_timeout(1200)
    expect(wrong.locator("#f-name-error")).to_have_text("a new answer")


def test_a_group_of_choices_is_one_field(wrong: Page, state: State):
    group = wrong.locator("fieldset[name=kind]")
    expect(group).to_have_attribute("aria-invalid", "true")
    state.checks = [(0, {"name": "too short"})]
    wrong.get_by_label("B", exact=True).check()
    expect(wrong.locator("#f-kind-error")).to_have_count(0)
    assert group.get_attribute("aria-invalid") is None


def test_another_file_has_another_error(wrong: Page):
    wrong.set_input_files("#f-file", {"name": "x.jsonl", "mimeType": "text/plain", "buffer": b"x"})
    expect(wrong.locator("#f-file-error")).to_have_count(0)


def test_without_an_answer_what_is_shown_stays(visit, state: State):
    visitor = visit("/wrong")
    with visitor.expecting(503):
        state.status = 503
        visitor.page.locator("#f-name").fill("a long name")
        visitor.page.wait_for_timeout(800)
        expect(visitor.page.locator("#f-name-error")).to_have_text("too short")
