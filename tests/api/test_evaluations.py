from __future__ import annotations

import csv
import io

import pytest

from skipmap.skipset import SkipSet
from tests.models.bench import random_table


@pytest.fixture
def job_id(caller, bench, make_spec) -> str:
    """A job whose search is over."""
    job_id: str = caller.post("/jobs", json=make_spec(search={"eps": 0.1, "tau": 0.1})).get_json()["id"]
    bench.table = random_table(1)
    bench.reach("cost")
    return job_id


def _all(caller, job_id, query=""):
    found, cursor = [], ""
    while True:
        page = caller.get(f"/jobs/{job_id}/evaluations?limit=3&{query}{cursor}")
        assert page.status_code == 200, page.get_json()
        found += page.get_json()["items"]
        if page.get_json()["next_cursor"] is None:
            return found
        cursor = f"&cursor={page.get_json()['next_cursor']}"


def test_figures_come_in_the_order_asked_for(caller, bench, job_id):
    plain = _all(caller, job_id)
    assert len(plain) == bench.sql("SELECT count(*) FROM evaluations")[0] > 6
    assert [row["skip"] for row in plain] == sorted((r["skip"] for r in plain), key=lambda s: (len(s), s))
    for key in ("metric", "accept_length"):
        falling = [row[key] for row in _all(caller, job_id, f"sort={key}&order=desc")]
        assert falling == sorted((row[key] for row in plain), reverse=True)
    assert [row for row in plain if row["level"] == 1] == _all(caller, job_id, "level=1")
    for row in plain:
        score = bench.table(SkipSet.of(row["skip"]))
        assert (row["accept_length"], row["metric"]) == pytest.approx((score.accept, score.metric))
        assert row["feasible"] == (row["accept_length"] >= 1.8 - 1e-12 and row["metric"] >= 0.45 - 1e-12)
        assert row["per_prompt"] is None


def test_feasible_ones_can_be_picked(caller, job_id):
    plain = _all(caller, job_id)
    for feasible in ("true", "false"):
        picked = _all(caller, job_id, f"feasible={feasible}")
        assert picked == [row for row in plain if row["feasible"] == (feasible == "true")]
        assert picked


def test_nothing_is_feasible_before_dense_is_known(caller, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]
    assert _all(caller, job_id) == _all(caller, job_id, "feasible=true") == []


def test_prompts_are_given_when_asked_for(caller, job_id):
    row = caller.get(f"/jobs/{job_id}/evaluations?level=0&per_prompt=true").get_json()["items"][0]
    assert row["per_prompt"][0]["text"] == "an answer"


def test_all_rows_as_csv(caller, job_id, monkeypatch):
    monkeypatch.setattr("api.evaluations._ROWS_AT_A_TIME", 4)
    answer = caller.get(f"/jobs/{job_id}/evaluations?format=csv&sort=metric")
    assert answer.mimetype == "text/csv"
    assert job_id in answer.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    plain = _all(caller, job_id, "sort=metric")
    assert [row["skip"] for row in rows] == [",".join(map(str, r["skip"])) or "dense" for r in plain]
    assert [float(row["metric"]) for row in rows] == [row["metric"] for row in plain]
    assert {row["feasible"] for row in rows} == {"true", "false"}


def test_a_spreadsheet_runs_nothing(caller, bench, job_id):
    bench.sql("UPDATE evaluations SET evaluator = '=HYPERLINK(\"x\")' WHERE depth = 0")
    answer = caller.get(f"/jobs/{job_id}/evaluations?format=csv&level=0")
    assert next(csv.DictReader(io.StringIO(answer.text)))["evaluator"] == '\'=HYPERLINK("x")'


@pytest.mark.parametrize(
    "query",
    [
        "cursor=x",
        "cursor=WyJldmFsdWF0aW9ucyBza2lwIGFzYyIsIFsxLCBbLTFdXV0",
        "cursor=WyJldmFsdWF0aW9ucyBza2lwIGFzYyIsIFsxLCB7fV1d",
        "cursor=WyJldmFsdWF0aW9ucyBza2lwIGFzYyIsIFtudWxsLCBbOTk5OTldXV0",
        "sort=seconds",
        "level=-1",
        "feasible=maybe",
        "format=xml",
        "format=csv&cursor=x",
        "format=csv&per_prompt=true",
    ],
)
def test_queries_that_make_no_sense(caller, job_id, query):
    answer = caller.get(f"/jobs/{job_id}/evaluations?{query}")
    assert answer.status_code == 422
    assert answer.get_json()["field"] == query.rpartition("&")[2].partition("=")[0]


def test_a_cursor_belongs_to_its_order(caller, job_id):
    cursor = caller.get(f"/jobs/{job_id}/evaluations?limit=1").get_json()["next_cursor"]
    answer = caller.get(f"/jobs/{job_id}/evaluations?sort=metric&cursor={cursor}")
    assert answer.get_json()["field"] == "cursor"
