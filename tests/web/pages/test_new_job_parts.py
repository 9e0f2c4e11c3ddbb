"""What follows the form for a new job: the estimate, the prompts, the commands."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from tests.web.pages.job_form import COMPLETE, NEW, fragment, submit, untouched
from tests.web.site import Page

__all__ = ["submit", "untouched"]


def test_the_estimate_follows_the_form(site, untouched):
    page = fragment(site, "estimate", {**untouched, "search.max_depth": "2", "search.max_pool": "5"})
    assert page.table("estimate")[1:] == [
        ["each layer alone", "as many as the target has layers"],
        ["sets of 2 of at most 5", "10", "10"],
    ]
    assert "no earlier job of this target and draft to learn from" in page.text
    assert "No fitting worker is live now" in page.text
    known = fragment(site, "estimate", {**untouched, **COMPLETE, "search.max_evaluations": "100"})
    assert "100 evaluations at most." in known.text
    assert "Of the 220 sets of 3, the 3 most promising are evaluated, 217 are not." in known.text
    wrong = fragment(site, "estimate", {**untouched, "search.max_pool": "x"})
    assert "Combine at most: Must be a whole number" in wrong.text


def test_the_estimate_knows_earlier_jobs(site, untouched, bench):
    bench.submit()
    bench.work_off()
    typed = {"target.choice": "-other", "target.id": "tiny", "draft.method": "prompt_lookup"}
    page = fragment(site, "estimate", {**untouched, **typed})
    assert "of one worker's time, going by 1 earlier job" in page.text
    assert "Measurement of cost: 1.0 s Not in it: loading the model" in page.text
    page = fragment(site, "estimate", {**untouched, **COMPLETE, **typed})
    assert re.search(r"Check on about 38 held-out prompts: \d+ s to", page.text)
    assert "1 fitting worker is live now." in page.text


def test_prompts_are_previewed(site, untouched):
    page = fragment(site, "preview", {**untouched, **COMPLETE})
    assert "Searched on 10 prompts" in page.text
    assert "Kept for the check 38 prompts" in page.text
    assert "chat template puts its marks" in page.text
    assert len(page.all("section.card")) == 3
    wrong = fragment(site, "preview", untouched)
    assert "Choose a domain" in wrong.text


def test_everything_works_without_scripts(site, untouched):
    typed = {**untouched, **COMPLETE, "name": "kept", "search.eps": "abc"}
    for path, words in (
        ("estimate", "Must be a number"),
        ("preview", "Searched on"),
        ("command", "There is no command until the form is right"),
    ):
        answer = site.post(f"/jobs/{path}", typed)
        assert answer.status_code == 200
        page = Page(answer)
        assert words in page.text
        again = page.form(NEW)
        assert (again["name"], again["search.eps"]) == ("kept", "abc")


def test_curl_and_the_command_make_the_same_job(site, untouched, admin, bench, submit):
    typed = {
        **untouched,
        **COMPLETE,
        "name": "it's\t$HOME",
        "labels": "team=a b",
        "draft.params.sam:growth": "2",
        "search.max_depth": "2",
    }
    page = fragment(site, "command", typed)
    curl = page.one("#command-curl").get_text()
    head, _, rest = curl.partition("<<'EOF'\n")
    words = shlex.split(head)
    assert words[:5] == ["curl", "--fail-with-body", "-X", "POST", "http://localhost/api/v1/jobs"]
    answer = admin.post("/jobs", json=json.loads(rest.removesuffix("\nEOF")))
    assert answer.status_code == 202, answer.get_json()
    command = shlex.split(page.one("#command-skipmap").get_text())
    assert command[:5] == ["skipmap", "jobs", "submit", "--server", "http://localhost"]
    assert site.post(NEW, typed).status_code == 303
    first, second = bench.sql("SELECT spec_digest, name FROM jobs")
    assert first == second


def test_commands_wait_for_a_form_that_is_right(site, untouched):
    page = fragment(site, "command", {**untouched, **COMPLETE, "priority": "x"})
    assert "Priority: Must be a whole number" in page.text
    assert page.all("pre") == []


@pytest.mark.parametrize("name", ["estimate", "preview", "command"])
def test_whatever_part_is_asked_for_there_is_an_answer(site, untouched, name):
    for part in ("estimate", "preview", "command"):
        assert site.post(f"/jobs/{name}", untouched, headers={"X-Fragment": part}).status_code == 200
    assert site.post(f"/jobs/{name}", untouched, headers={"X-Fragment": "content"}).status_code == 404


def test_one_line_of_each_region_is_read_out(site, untouched):
    page = site.page(NEW)
    regions = page.all("[data-refresh-from]")
    assert len(regions) == 3
    for region in regions:
        assert not region.has_attr("aria-live")
        assert len(region.select("[role=status]")) == 1
    # Those that are not asked for yet are empty, which tells scripts so.
    assert [bool(region.get_text().strip()) for region in regions] == [False, True, False]

    def said(name: str, **typed: str) -> str:
        return " ".join(fragment(site, name, {**untouched, **typed}).one("[role=status]").get_text().split())

    limits = {"search.max_depth": "2", "search.max_pool": "5"}
    assert said("estimate", **COMPLETE, **limits) == "41 evaluations at most."
    assert said("estimate", **{"search.max_pool": "x"}) == "This search could not run."
    assert said("preview").startswith("The prompts cannot be shown")
    assert re.fullmatch(r"\d+ prompts to search on, \d+ kept for the check\.", said("preview", **COMPLETE))
    assert said("command") == "There is no command until the form is right."
    assert said("command", **COMPLETE) == "The commands follow the form."
