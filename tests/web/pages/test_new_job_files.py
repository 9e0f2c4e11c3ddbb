"""Files that come with the form for a new job, and the sets that it chooses from."""

from __future__ import annotations

import io
import json

from tests.web.pages.job_form import COMPLETE, NEW, refused, untouched
from tests.web.pages.test_new_job import EVIL
from tests.web.site import Page
from web.forms import choices

__all__ = ["untouched"]


def _numbers(count: int = 12) -> bytes:
    return b"".join(
        json.dumps({"id": n, "prompt": f"Say {n}.", "reference": str(n)}).encode() + b"\n"
        for n in range(count)
    )


def test_a_file_that_comes_with_the_form_is_used(site, untouched, bench):
    typed = {**untouched, **COMPLETE, "calibration.kind": "set", "calibration.sample": ""}
    answer = site.post(NEW, {**typed, "file": (io.BytesIO(_numbers()), "numbers.jsonl")})
    assert answer.status_code == 303, Page(answer).errors
    ((source, set_id),) = bench.sql("SELECT spec->'calibration'->>'source', calibration_set_id FROM jobs")
    assert source == f"set:{set_id}"


def test_a_file_can_be_uploaded_first(site, untouched, bench):
    typed = {**untouched, "name": "kept", "do": "upload"}
    page = Page(site.post(NEW, {**typed, "file": (io.BytesIO(_numbers()), "numbers.jsonl")}))
    assert page.status == 200
    (set_id,) = bench.sql("SELECT id FROM calibration_sets")
    form = page.form(NEW)
    assert (form["calibration.kind"], form["calibration.set"], form["name"]) == ("set", set_id, "kept")
    assert "numbers.jsonl with 12 prompts is chosen below." in page.text
    none = Page(site.post(NEW, typed))
    assert none.status == 422
    assert "No file is chosen" in none.errors["file"]


def test_a_bad_file_takes_nothing_away(site, untouched, bench):
    typed = {**untouched, **COMPLETE, "name": "kept", "search.eps": "abc"}
    bad = b'{"id": 1}\n\nno JSON\n'
    page = refused(site, {**typed, "file": (io.BytesIO(bad), "x.jsonl")})
    assert set(page.errors) == {"file", "search.eps"}
    assert [item.get_text().partition(":")[0] for item in page.all("#file-problems li")] == [
        "Line 1",
        "Line 3",
    ]
    form = page.form(NEW)
    assert (form["name"], form["search.eps"], form["calibration.sample"]) == ("kept", "abc", "qa")
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]


def test_a_set_can_be_chosen_by_the_address(site, admin):
    set_id = admin.upload(_numbers(), name="numbers").get_json()["id"]
    form = site.page(f"{NEW}?set={set_id}").form(NEW)
    assert (form["calibration.kind"], form["calibration.set"]) == ("set", set_id)
    assert "not known here" in site.page(f"{NEW}?set={EVIL}").text


def test_older_sets_are_found_by_their_page(site, admin, monkeypatch):
    monkeypatch.setattr(choices, "_MOST_SETS", 1)
    older, newer = (admin.upload(_numbers(n), name=f"set {n}").get_json()["id"] for n in (3, 4))
    options = [option["value"] for option in site.page(NEW).all("#f-calibration-set option")]
    assert options == ["", newer]
    page = site.page(f"{NEW}?set={older}")
    assert page.form(NEW)["calibration.set"] == older
    assert "an older one has a button" in page.text
