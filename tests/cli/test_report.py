from __future__ import annotations

import json
import shutil

import pytest


@pytest.fixture
def result(finished, tmp_path):
    """A copy of the finished result."""
    return shutil.copy(finished.result, tmp_path / "result.json")


def test_page_lies_beside_the_first_result_and_its_path_is_the_answer(skipmap, result, tmp_path):
    ran = skipmap("report", result)
    page = tmp_path / "report.html"
    assert ran == (0, f"{page}\n", "")
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "words" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "result.json"]


def test_several_results_on_one_page(skipmap, result, finished, tmp_path):
    other = finished.document
    other = other | {"spec": other["spec"] | {"domain": other["spec"]["domain"] | {"name": "poems"}}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    ran = skipmap("report", result, "other.json", "--out", "deep/page.html")
    assert ran == (0, "deep/page.html\n", "")
    text = (tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert "words" in text
    assert "poems" in text


def test_map_is_no_result(skipmap, finished):
    ran = skipmap("report", finished.map, "--out", "page.html")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"skipmap: {finished.map}: is a skipmap.map/1; a report is made from results\n"


def test_result_is_not_overwritten_by_its_report(skipmap, result):
    before = result.read_bytes()
    ran = skipmap("report", result, "--out", result)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: --out: {result} is what is read; give another file")
    assert result.read_bytes() == before


def test_edited_result_leaves_no_page(skipmap, result, finished, tmp_path):
    result.write_text(json.dumps(finished.document | {"dense": {}}))
    ran = skipmap("report", result)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"skipmap: {result}: cannot be used (KeyError: ")
    assert list(tmp_path.iterdir()) == [result]


def test_bad_places(skipmap, result, tmp_path):
    (tmp_path / "file").write_text("")
    ran = skipmap("report", result, "--out", "file/page.html")
    assert (ran.code, ran.out) == (5, "")
    assert ran.err == "skipmap: --out: cannot write file/page.html: Not a directory; choose another place\n"
    assert skipmap("report", "none.json").code == 3
