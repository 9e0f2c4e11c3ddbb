"""Tables leave as CSV and JSON with exact figures, and sort."""

from __future__ import annotations

import csv
import io
import json

from playwright.sync_api import Page, expect

from web.filters import NONE, number

ROWS = [["3, 7", 2.0512345, True], ["=1+1", None, False], ['say "hi"', -10.5, True]]
LEAST = number(-10.5)
COLUMNS = ["Skip set", "Accept length", "Feasible"]


def exported(page: Page, label: str) -> str:
    page.locator("details[data-menu]", has_text="Table as CSV").locator("summary").click()
    with page.expect_download() as taken:
        page.get_by_role("button", name=label).click()
    return taken.value.path().read_bytes().decode()


def test_csv_has_exact_figures_and_no_formula(parts: Page):
    text = exported(parts, "Table as CSV")
    assert text == (
        "Skip set,Accept length,Feasible\r\n"
        '"3, 7",2.0512345,true\r\n'
        "'=1+1,,false\r\n"
        '"say ""hi""",-10.5,true\r\n'
    )
    assert list(csv.reader(io.StringIO(text, newline="")))[1] == ["3, 7", "2.0512345", "true"]


def test_json_is_a_list_of_objects(parts: Page):
    text = exported(parts, "Table as JSON")
    assert json.loads(text) == [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]


def test_headers_of_two_rows_are_joined_and_equal_names_told_apart(parts: Page):
    parts.evaluate(
        """document.querySelector("#figures").innerHTML = `<thead>
          <tr><th rowspan="2">Domain</th><th colspan="2">Held-out</th><th rowspan="2">Domain</th></tr>
          <tr><th>A</th><th>M <span class="visually-hidden">sort</span></th></tr></thead>
          <tbody><tr><th scope="row">qa</th><td data-value="2">2.0</td><td colspan="2">=x</td></tr></tbody>`"""
    )
    rows = list(csv.reader(io.StringIO(exported(parts, "Table as CSV"))))
    assert rows == [["Domain", "Held-out A", "Held-out M", "Domain (2)"], ["qa", "2", "'=x", "'=x"]]


def test_a_table_is_copied(parts: Page):
    parts.context.grant_permissions(["clipboard-read", "clipboard-write"])
    parts.locator("#copy-table").click()
    expect(parts.locator("#copy-table")).to_have_text("Copied")
    assert parts.evaluate("navigator.clipboard.readText()").startswith("Skip set,Accept length")
    parts.locator("[data-copy='#code']").click()
    expect(parts.locator("[data-copy='#code']")).to_contain_text("Copied")
    assert parts.evaluate("navigator.clipboard.readText()") == "skipmap serve --map qa"
    expect(parts.locator("[data-copy='#code']")).to_have_text("Copy")


def test_a_page_without_a_clipboard_copies_too(parts: Page):
    parts.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
    parts.locator("[data-copy='#code']").click()
    expect(parts.locator("[data-copy='#code']")).to_contain_text("Copied")


def test_headers_sort(parts: Page):
    header = parts.locator("#figures th").nth(1)
    first = parts.locator("#figures tbody td:nth-child(2)")
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    assert first.all_inner_texts() == [LEAST, "2.051", NONE]
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "descending")
    assert first.all_inner_texts() == ["2.051", LEAST, NONE]
    assert parts.locator("#figures th").nth(3).get_by_role("button").count() == 0


def test_a_link_to_a_table_in_closed_details_opens_them(parts: Page):
    expect(parts.locator("#hidden-table")).not_to_be_visible()
    parts.get_by_role("link", name="To the hidden table").click()
    expect(parts.locator("#hidden-table")).to_be_visible()
    assert parts.evaluate("document.activeElement.id") == "hidden-table"
