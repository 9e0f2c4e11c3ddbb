from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

_CSV = "question,choice0,choice1,answer\nOne?,a,b,A\nTwo?,c,d,1\n"


def _lines(*records) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _items(count: int) -> bytes:
    return _lines(*({"id": n, "prompt": f"Say {n}.", "reference": str(n)} for n in range(count)))


def test_a_set_is_kept_once(caller, bench):
    made = caller.upload(_items(5), name="numbers")
    assert made.status_code == 201
    view = made.get_json()
    assert made.headers["Location"] == f"/api/v1/calibration-sets/{view['id']}"
    assert (view["name"], view["items"], view["bytes"]) == ("numbers", 5, len(_items(5)))
    assert view["statistics"]["with_reference"] == 5
    assert view["statistics"]["prompt_characters"] == {"least": 6, "median": 6, "most": 6}
    again = caller.upload(_items(5), name="other")
    assert (again.status_code, again.get_json()) == (200, view)
    assert caller.get(f"/calibration-sets/{view['id']}").get_json() == view
    assert caller.get("/calibration-sets").get_json()["items"] == [view]
    assert caller.get(f"/calibration-sets/{view['id']}/content").data == _items(5)
    assert bench.sql("SELECT action FROM audit") == ["calibration_set.create"]


def test_items_are_previewed_page_by_page(caller):
    content = b"\n" + _items(5) + _lines({"id": "long", "turns": ["x" * 5000, "y"], "reference": ["a", "b"]})
    set_id = caller.upload(content).get_json()["id"]
    found, cursor = [], None
    while True:
        query = {"limit": 4} | ({"cursor": cursor} if cursor else {})
        page = caller.get(f"/calibration-sets/{set_id}/items", query_string=query).get_json()
        found += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert [item["id"] for item in found] == ["0", "1", "2", "3", "4", "long"]
    assert found[1] == {"id": "1", "turns": ["Say 1."], "references": ["1"], "category": None}
    assert len(found[-1]["turns"][0]) == 2001
    assert found[-1]["references"] == ["b"]


def test_all_three_layouts_make_jobs(caller, make_spec):
    spec_bench = _lines(
        *(
            {"question_id": n, "category": "ab"[n % 2], "turns": [f"Q{n}"], "reference": [f"R{n}"]}
            for n in range(12)
        )
    )
    mmlu = "".join(f"Q{n}?,a,b,c,d,B\n" for n in range(12))
    uploads = [
        (caller.upload(_items(12)), {}, "qa", "jsonl"),
        (caller.upload(spec_bench), {"category": "a"}, "qa", "spec_bench"),
        (caller.upload(mmlu, name="astronomy_test", content_type="text/csv"), {}, "mmlu", "mmlu"),
    ]
    for made, more, domain, kind in uploads:
        view = made.get_json()
        assert (made.status_code, view["statistics"]["format"]) == (201, kind)
        source = f"set:{view['id']}"
        answer = caller.post(
            "/jobs", json=make_spec(domain={"name": domain}, calibration={"source": source, **more})
        )
        assert answer.status_code == 202, answer.get_json()
        job = answer.get_json()
        assert job["calibration_set"] == view["id"]
        assert (job["spec"]["calibration"]["source"], job["spec"]["calibration"]["format"]) == (source, kind)
        refused = caller.delete(f"/calibration-sets/{view['id']}")
        assert (refused.status_code, refused.get_json()["state"]) == (409, "in use")
        page = caller.get(f"/calibration-sets/{view['id']}/items?limit=3").get_json()
        assert len(page["items"]) == 3
    assert page["items"][0]["id"].endswith("-1")
    assert page["items"][0]["references"] == ["b"]


def test_a_job_asks_of_a_set_what_its_metric_needs(caller, make_spec):
    set_id = caller.upload(_lines(*({"id": n, "prompt": "Hm."} for n in range(9)))).get_json()["id"]
    answer = caller.post("/jobs", json=make_spec(calibration={"source": f"set:{set_id}"}))
    problem = answer.get_json()
    assert (answer.status_code, problem["field"]) == (422, "calibration.source")
    # The message speaks of the set, not of a file of the server.
    assert f"set:{set_id}" in problem["detail"]
    assert "/tmp" not in problem["detail"]


def test_an_unused_set_can_be_removed(caller):
    set_id = caller.upload(_items(2)).get_json()["id"]
    assert caller.delete(f"/calibration-sets/{set_id}").status_code == 204
    assert caller.get(f"/calibration-sets/{set_id}").status_code == 404
    assert caller.get(f"/calibration-sets/{set_id}/items").status_code == 404


@pytest.mark.parametrize(
    ("content", "kind", "what"),
    [
        (_items(4), "application/jsonl", "3 lines"),
        (_items(2) + b"\n" * 9, "application/jsonl", "3 lines"),
        (_CSV + "Three?,a,b,A\nFour?,a,b,B\n", "text/csv", "3 questions"),
    ],
)
def test_files_of_too_many_items_are_refused(make_app, make_caller, bench, content, kind, what):
    caller = make_caller("jobs:write", app=make_app(upload_items=3))
    answer = caller.upload(content, content_type=kind)
    assert (answer.status_code, answer.get_json()["type"]) == (413, "urn:skipmap:problem:too-large")
    assert what in answer.get_json()["detail"]
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]
    for whole in (_items(3), _CSV):
        kind = "text/csv" if whole is _CSV else "application/jsonl"
        assert caller.upload(whole, content_type=kind).status_code == 201


_GOOD = _lines({"id": 1, "prompt": "Hm."})


@pytest.mark.parametrize(
    ("content", "content_type", "status", "line"),
    [
        (b"", "application/jsonl", 422, None),
        (_GOOD + b'{"id": 2, "prompt": "' + b"x" * 10_000_000 + b'"}\n', "application/jsonl", 422, 2),
        (_GOOD + b"\0\0\0\n", "application/jsonl", 422, 2),
        (_GOOD + b'{"id": 2, "prompt": "a\\u0000b"}\n', "application/jsonl", 422, 2),
        (_GOOD + b'{"id": 2, "meta": ' + b"[" * 200_000 + b"\n", "application/jsonl", 422, 2),
        (
            _GOOD + b'{"id": 2, "prompt": "a", "meta": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}\n",
            "application/jsonl",
            422,
            2,
        ),
        ('{"id": 1, "prompt": "Hm."}\n'.encode("utf-16"), "application/jsonl", 422, 1),
        (_GOOD + '{"id": 2, "prompt": "Öl"}\n'.encode("latin-1"), "application/jsonl", 422, 2),
        (_GOOD + b'{"id": 2, "prompt": "cut o', "application/jsonl", 422, 2),
        (_GOOD + b"[1]\n", "application/jsonl", 422, 2),
        (_GOOD + _GOOD, "application/jsonl", 422, None),
        (_GOOD + b'{"id": 1' + b"0" * 5000 + b', "prompt": "a"}\n', "application/jsonl", 422, 2),
        (b'{"id": 1, "prompt": "\\ud800"}\n', "application/jsonl", 422, 1),
        (_lines({"question_id": 1, "turns": "text"}), "application/jsonl", 422, 1),
        (b"a,b\n1,2\n", "text/csv", 422, None),
        (b'question,choice0,choice1,answer\n"Open?,a,b,A\n', "text/csv", 422, 2),
        (b"question,choice0,choice1,answer\n" + b"x" * 1_000_000 + b",a,b,A\n", "text/csv", 422, 2),
        (b"question,choice0,choice1,answer\nA\0?,a,b,A\n", "text/csv", 422, 2),
        (_GOOD, "application/json", 415, None),
        (_GOOD, "application/jsonl; charset=utf-16", 415, None),
        (_GOOD, "multipart/form-data; boundary=x", 415, None),
        (b"x" * (17 << 20), "application/jsonl", 413, None),
    ],
    ids=lambda value: None if isinstance(value, bytes) else str(value),
)
def test_hostile_uploads_leave_nothing(caller, bench, content, content_type, status, line):
    answer = caller.upload(content, content_type=content_type)
    problem = answer.get_json()
    assert answer.status_code == status
    assert answer.mimetype == "application/problem+json"
    assert problem.get("line") == line, problem
    assert len(answer.data) < 1000
    assert bench.sql("SELECT count(*) FROM calibration_sets") == [0]


def test_compressed_uploads_are_not_unpacked(caller):
    bomb = gzip.compress(bytes(1 << 20))
    answer = caller.upload(bomb, headers={"Content-Encoding": "gzip"})
    assert answer.status_code == 415
    assert "Content-Encoding" in answer.get_json()["detail"]


def test_a_long_line_takes_little_memory(make_app, make_caller):
    caller = make_caller("jobs:write", app=make_app(upload_line_bytes=1 << 16))
    content = b'{"id": 1, "prompt": "' + b"x" * 15_000_000 + b'"}\n'
    caller.upload(b"warm")
    tracemalloc.start()
    try:
        assert caller.upload(content).status_code == 422
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.parametrize("query", ["?name=", "?name=a%00b", f"?name={'x' * 201}", "?title=a", "?name=a%0ab"])
def test_names_of_sets(caller, query):
    answer = caller.post(f"/calibration-sets{query}", data=_items(2), content_type="application/x-ndjson")
    assert answer.status_code == 422
