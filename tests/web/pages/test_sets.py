from __future__ import annotations

import io
import json
import re
import tracemalloc

import pytest

from tests.web.site import Page
from web.filters import NONE
from web.pages import sets
from web.views import set_files

EVIL = '"><script>alert(1)</script>'
BAD = '{"id": 1, "prompt": "a"}\n{"id": 2}\nno JSON\n{"id": 1, "prompt": "b"}\n{"id": 3, "prompt": "c", "x": 1}\n'
CSV = "question,choice0,choice1,answer\nOne?,a,b,A\nTwo?,c,d,B\n"


def lines(count: int, **more) -> str:
    return "".join(
        json.dumps({"id": n, "prompt": f"Say {n}.", "reference": str(n), **more}) + "\n" for n in range(count)
    )


def send(site, content: str | bytes, name: str = "", file: str = "prompts.jsonl", **more):
    """Send the form of the page, as bytes: the client keeps files of its own open."""
    data = content.encode() if isinstance(content, str) else content
    fields = {"csrf_token": site.csrf, "name": name}
    parts = [
        f'--edge\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'.encode()
        for field, value in fields.items()
    ]
    head = f'--edge\r\nContent-Disposition: form-data; name="file"; filename="{file}"\r\n\r\n'.encode()
    body = b"".join([*parts, head, data, b"\r\n--edge--\r\n"])
    kind = "multipart/form-data; boundary=edge"
    return site.client.post("/calibration-sets", data=body, content_type=kind, **more)


def stored(site, content: str, **more) -> str:
    """Id of a new set."""
    answer = send(site, content, **more)
    assert answer.status_code == 303, answer.get_data(as_text=True)
    return answer.headers["Location"].rpartition("/")[2]


def as_script(site, content: str, **more):
    return send(site, content, headers={"X-Requested-With": "fetch"}, **more)


def test_the_first_set(site, make_site):
    page = site.page("/calibration-sets")
    assert "No set yet" in page.text
    assert page.one("form[enctype='multipart/form-data'] [data-upload] input[type=file]")
    viewer = make_site("viewer").page("/calibration-sets")
    assert viewer.all("input[type=file]") == []


def test_a_file_becomes_a_set(site, bench):
    page = site.follow("/calibration-sets", {"file": (io.BytesIO(lines(5).encode()), "folder/numbers.jsonl")})
    assert page.heading == "numbers.jsonl"
    assert "5 prompts of numbers.jsonl stored." in page.text
    ((name, prompts, reference, kind, categories, length, size, jobs, _),) = site.page(
        "/calibration-sets"
    ).table("sets")
    assert (name, prompts, reference, kind, categories, jobs) == (
        "numbers.jsonl",
        "5",
        "5",
        "lines of JSON",
        NONE,
        "0",
    )
    assert length == "6 characters"
    assert size.endswith("B")
    assert bench.sql("SELECT action FROM audit WHERE action LIKE 'calib%'") == ["calibration_set.create"]


def test_equal_files_are_one_set(site):
    first = stored(site, lines(5), name="one")
    page = site.follow(
        "/calibration-sets", {"file": (io.BytesIO(lines(5).encode()), "x.jsonl"), "name": "two"}
    )
    assert page.heading == "one"
    assert "there already, as one" in page.text
    answer = as_script(site, lines(5))
    assert (answer.status_code, answer.get_json()["id"]) == (200, first)


def test_scripts_get_what_they_need(site):
    answer = as_script(site, CSV, file="astronomy_test.csv", name="stars")
    assert answer.status_code == 201
    found = answer.get_json()
    assert found["label"] == "stars (2\N{NO-BREAK SPACE}prompts)"
    assert found["text"] == "2\N{NO-BREAK SPACE}prompts of stars stored."
    assert found["location"] == f"/calibration-sets/{found['id']}"
    assert site.page(found["location"]).heading == "stars"


def test_problems_come_line_by_line_and_nothing_is_stored(site, bench):
    answer = as_script(site, BAD)
    assert answer.status_code == 422
    found = answer.get_json()
    assert found["field"] == "file"
    assert "Nothing was stored" in found["detail"]
    assert [problem.partition(":")[0] for problem in found["problems"]] == [
        "Line 2",
        "Line 3",
        "id",
        "Line 5",
    ]
    assert "at line 1 and line 4" in found["problems"][2]
    plain = send(site, BAD, name="my name")
    assert plain.status_code == 422
    page = site.page("/calibration-sets")
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]
    assert page.errors == {}


def test_a_refused_form_comes_back_with_what_was_typed(site):
    page = Page(send(site, BAD, name="my name"))
    assert page.errors["file"].startswith("Nothing was stored. All 4 problems")
    assert page.all("#file-problems li")[0].get_text().startswith("Line 2: prompt")
    assert page.form("/calibration-sets")["name"] == "my name"
    unnamed = Page(send(site, lines(2), name="a\nb"))
    assert "name" in unnamed.errors
    none = Page(site.post("/calibration-sets", {"name": "x"}))
    assert "no file is chosen" in none.errors["file"]


def test_tables_are_read_row_by_row(site):
    rows = "question,choice0,choice1,answer\nOne?,a,b,A\nTwo?,a,b\nThree?,a,b,Z\nFour?,a,b,B\n"
    found = as_script(site, rows, file="x.CSV").get_json()
    assert [problem.partition(":")[0] for problem in found["problems"]] == ["Line 3", "Line 4"]
    assert as_script(site, "a,b\n1,2\n", file="x.csv").get_json()["problems"] == []


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "empty"),
        (b"\xff\xfe{", "UTF-8"),
        (lines(1) + '{"id": 1, "prompt": "' + "x" * 3_000_000 + '"}\n' + "no JSON\n", "longer than"),
        ("[" * 100_000 + "\n", "not valid JSON"),
        ('{"id": 1, "prompt": "a\\u0000b"}\n', "NUL"),
    ],
)
def test_hostile_files(site, bench, content, words):
    answer = as_script(site, content)
    assert answer.status_code == 422
    assert words in answer.get_data(as_text=True)
    assert len(answer.data) < 5000
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]


def test_places_in_lines_are_those_of_the_file(site):
    mark = "\N{ZERO WIDTH NO-BREAK SPACE}"
    content = (
        f'{mark}{{"id": 1, "prompt": "\N{SNOWMAN}", x}}\r\n{{"id": 2,\r\n{mark}{{"id": 3, "prompt": "y"}}\r\n'
    )
    problems = as_script(site, content).get_json()["problems"]
    places = [(text.partition(":")[0], *re.findall(r"at character (\d+)", text)) for text in problems]
    # A byte order mark is none where a line begins that is not the first.
    assert places == [("Line 1", "26"), ("Line 2", "10"), ("Line 3", "1")]


def test_of_very_many_problems_the_first_are_told(site):
    found = as_script(site, "x\n" * 500).get_json()
    assert len(found["problems"]) == 10
    assert "The first 10 problems" in found["detail"]


def test_files_that_are_too_large(make_app, make_site):
    site = make_site(app=make_app(upload_bytes=20_000, body_bytes=10_000))
    assert as_script(site, lines(300)).status_code == 201
    larger = as_script(site, lines(500))
    assert (larger.status_code, larger.get_json()["detail"]) == (
        413,
        "a calibration file may have 20000 bytes",
    )
    assert as_script(site, lines(3000)).status_code == 413
    assert send(site, lines(3000)).status_code == 413


def test_a_large_file_takes_little_memory(make_app, make_site):
    site = make_site(app=make_app(upload_line_bytes=1 << 16))
    content = b'{"id": 1, "prompt": "' + b"x" * 15_000_000 + b'"}\n'
    as_script(site, lines(2))
    tracemalloc.start()
    try:
        assert as_script(site, content).status_code == 422
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The client itself holds the body once, and once more while it joins it.
    assert peak < 2 * len(content) + 4_000_000


def test_one_set(site, bench, make_spec):
    categories = "".join(
        json.dumps({"question_id": n, "category": "ab"[n % 2], "turns": ["Q", "R"], "reference": ["A", "B"]})
        + "\n"
        for n in range(45)
    )
    set_id = stored(site, categories, name="two kinds")
    page = site.page(f"/calibration-sets/{set_id}")
    assert page.heading == "two kinds"
    assert "a 23 prompts" in page.text
    assert page.links["New job with this set"] == f"/jobs/new?set={set_id}"
    assert "No job uses this set." in page.text
    found = []
    while True:
        found += [row[0] for row in page.table("prompts")]
        if "Next" not in page.links:
            break
        page = site.page(page.links["Next"])
    assert found == [str(n) for n in range(45)]
    assert page.links["Back to the start"] == f"/calibration-sets/{set_id}"
    assert page.table("prompts")[0][1:] == ["Q R", "B", "a"]
    content = site.get(f"/calibration-sets/{set_id}/content")
    assert content.get_data(as_text=True) == categories
    assert content.headers["Content-Disposition"].startswith("attachment")


def test_long_texts_are_folded(site):
    texts = ["short", "m" * 5000, "l" * 50_000]
    records = "".join(json.dumps({"id": n, "prompt": text}) + "\n" for n, text in enumerate(texts))
    page = site.page(f"/calibration-sets/{stored(site, records)}")
    short, middle, large = (row.select("td")[0] for row in page.all("#prompts tbody tr"))
    assert short.pre.get_text().strip() == "short"
    assert short.details is None
    assert middle.details.pre.get_text().strip() == texts[1]
    assert len(large.details.pre.get_text()) < 21_000
    assert "30,000 more characters are in the file." in large.get_text()


def test_what_files_hold_is_shown_as_text(site):
    record = {"id": EVIL, "prompt": EVIL, "reference": EVIL, "category": EVIL}
    set_id = stored(site, json.dumps(record) + "\n", name=EVIL)
    for address in ("/calibration-sets", f"/calibration-sets/{set_id}", f"/calibration-sets/{set_id}/delete"):
        page = site.page(address)
        assert page.all("script:not([src])") == []
        assert EVIL in page.text
    ((item, prompt, answer, category),) = site.page(f"/calibration-sets/{set_id}").table("prompts")
    assert (item, prompt, answer, category) == (EVIL, EVIL, EVIL, EVIL)


def test_an_unused_set_can_be_removed(site, bench):
    set_id = stored(site, lines(3), name="gone soon")
    question = site.page(f"/calibration-sets/{set_id}/delete")
    assert "removed for good" in question.text
    assert site.fragment(f"/calibration-sets/{set_id}/delete", "dialog").one("form")
    page = site.follow(f"/calibration-sets/{set_id}/delete")
    assert page.heading == "Calibration sets"
    assert "The calibration set is removed." in page.text
    assert site.get(f"/calibration-sets/{set_id}").status_code == 404
    assert site.post(f"/calibration-sets/{set_id}/delete").status_code == 404
    assert "calibration_set.delete" in bench.sql("SELECT action FROM audit")


def test_a_set_in_use_stays_and_says_who_uses_it(site, bench):
    set_id = stored(site, lines(30))
    jobs = [bench.submit(calibration_set_id=set_id).id for _ in range(12)]
    page = site.page(f"/calibration-sets/{set_id}/delete")
    assert "12 jobs use it" in page.text
    assert f"/jobs/{jobs[-1]}" in [link["href"] for link in page.all("a")]
    assert page.all(f'form[action="/calibration-sets/{set_id}/delete"]') == []
    assert "newest 10 of 12" in page.text
    assert site.fragment(f"/calibration-sets/{set_id}/delete", "dialog").one("h2")
    assert site.post(f"/calibration-sets/{set_id}/delete").status_code == 409
    assert "12 jobs" in site.page(f"/calibration-sets/{set_id}").text
    assert site.page("/calibration-sets").table("sets")[0][7] == "12"


def test_sets_come_page_by_page(site, monkeypatch):
    monkeypatch.setattr(sets, "SETS_A_PAGE", 2)
    for n in range(5):
        stored(site, lines(n + 1), name=f"set {n}")
    page, found = site.page("/calibration-sets"), []
    while True:
        found += [row[0] for row in page.table("sets")]
        if "Next" not in page.links:
            break
        page = site.page(page.links["Next"])
    assert found == [f"set {n}" for n in (4, 3, 2, 1, 0)]


@pytest.mark.parametrize("cursor", ["x", "WyJpdGVtcyIsMV0"])
def test_cursors_of_nowhere(site, cursor):
    set_id = stored(site, lines(2))
    assert site.get(f"/calibration-sets?cursor={cursor}").status_code == 422
    assert site.get(f"/calibration-sets/{set_id}?cursor={cursor}").status_code == 422


def test_what_viewers_may_not(site, make_site):
    set_id = stored(site, lines(2))
    viewer = make_site("viewer")
    page = viewer.page(f"/calibration-sets/{set_id}")
    assert not any("delete" in address or "/jobs/new" in address for address in page.links.values())
    assert as_script(viewer, lines(3)).status_code == 403
    assert viewer.get(f"/calibration-sets/{set_id}/delete").status_code == 403
    assert viewer.post(f"/calibration-sets/{set_id}/delete").status_code == 403
    assert viewer.get(f"/calibration-sets/{set_id}/content").status_code == 200


def test_an_upload_without_a_session(visitor, site):
    answer = as_script(visitor, lines(2))
    assert answer.status_code == 403
    foreign = site.client.post(
        "/calibration-sets", data={"file": (io.BytesIO(b"x"), "x.jsonl")}, headers={"Origin": "http://evil"}
    )
    assert foreign.status_code == 403


def test_the_file_of_a_set_is_read_once(site, monkeypatch):
    set_id = stored(site, lines(45))
    page = site.page(f"/calibration-sets/{set_id}")
    monkeypatch.setattr(set_files, "set_file", lambda *_: pytest.fail("the set is read again"))
    page = site.page(page.links["Next"])
    assert "Say 20." in page.text
    assert site.post(f"/calibration-sets/{set_id}/delete").status_code == 303
    site.page(f"/calibration-sets/{set_id}", 404)
