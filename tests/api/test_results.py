from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from skipmap.profiling.documents import without_prompts
from tests.profiling.report.conftest import make_result, prompt


@pytest.fixture
def job_id(caller, bench, make_spec) -> str:
    """A job that has succeeded."""
    job_id: str = caller.post("/jobs", json=make_spec()).get_json()["id"]
    bench.work_off()
    document = make_result({(0,): (1.99, 0.41), (1,): (1.5, 0.2)}, selected=(0,), front=[(0,)], pool=(0,))
    document["dense"]["per_prompt"] = [prompt("one", 10, 20, [0.5])]
    payload = json.dumps({"document": document})
    bench.sql("UPDATE findings SET payload = CAST(:payload AS json) WHERE kind = 'result'", payload=payload)
    return job_id


def test_the_result_document(caller, job_id):
    assert caller.get(f"/jobs/{job_id}").get_json()["state"] == "succeeded"
    document = caller.get(f"/jobs/{job_id}/result").get_json()
    assert document["selected"] == [0]
    assert "per_prompt" not in document["dense"]
    whole = caller.get(f"/jobs/{job_id}/result?per_prompt=true").get_json()
    assert whole["dense"]["per_prompt"][0]["id"] == "one"
    # Those of the other rows come from the stored evaluations.
    assert [row["per_prompt"][0]["text"] for row in whole["evaluations"]] == ["an answer"] * 2
    assert without_prompts(whole) == document


def test_the_report_runs_its_own_script_alone(caller, job_id):
    answer = caller.get(f"/jobs/{job_id}/report")
    assert answer.mimetype == "text/html"
    scripts = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = answer.headers["Content-Security-Policy"]
    assert len(scripts) == 1
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none';")


def test_there_is_no_result_before_the_end(caller, make_spec):
    job_id = caller.post("/jobs", json=make_spec()).get_json()["id"]
    for path in ("result", "report"):
        answer = caller.get(f"/jobs/{job_id}/{path}")
        assert (answer.status_code, answer.get_json()["state"]) == (409, "running")
