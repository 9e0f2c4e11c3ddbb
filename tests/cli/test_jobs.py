"""``skipmap jobs`` against the real API on a real database: submit, list, show, change."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from functools import partial

import pytest

from skipmap.client.client import Client
from tests.cli.service import SAMPLE, SPEC
from tests.models.bench import LAYERS, make_spec


def test_submit(submit, worker):
    job_id = submit("--name", "night run", "--label", "team=x", "--priority", "7", "--eps", ".1")
    job = worker.job(job_id)
    assert (job.name, job.labels, job.priority) == ("night run", {"team": "x"}, 7)
    assert job.spec["calibration"]["source"] == "sample:qa"
    assert (job.spec["search"]["eps"], job.spec["search"]["max_depth"]) == (0.1, 2)


def test_submit_as_json(api, skipmap, worker):
    ran = skipmap("jobs", "submit", *SPEC, *SAMPLE, "--json")
    view = json.loads(ran.out)
    assert (view["state"], view["id"]) == ("running", worker.job(view["id"]).id)


def test_a_spec_file(api, skipmap, worker, tmp_path):
    spec = {"name": "of the file", "labels": {"a": "1", "b": "2"}, "calibration": {"source": "sample:qa"}}
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec))
    job = worker.job(skipmap("jobs", "submit", *SPEC, "--spec", file, "--label", "b=3").out.strip())
    assert (job.name, job.labels) == ("of the file", {"a": "1", "b": "3"})


def test_a_file_is_uploaded_first(api, skipmap, worker, items):
    options = ("--domain", "words", "--metric", "f1", "--calibration", items)
    first, second = (skipmap("jobs", "submit", *SPEC, *options) for _ in range(2))
    assert "6 items of items.jsonl" in first.err
    jobs = [worker.job(ran.out.strip()) for ran in (first, second)]
    assert {job.spec["calibration"]["source"] for job in jobs} == {f"set:{jobs[0].calibration_set_id}"}
    by_id = skipmap("jobs", "submit", *SPEC, *options[:-1], f"set:{jobs[0].calibration_set_id}")
    assert (by_id.code, by_id.err) == (0, "")


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "--calibration: is required"),
        (("--calibration", "gone.jsonl"), 3, "no file 'gone.jsonl'"),
        (("--calibration", "."), 2, "--calibration: . is a folder"),
        ((*SAMPLE, "--eps", "2"), 2, "--eps: Input should be less than 1 (given: 2.0)"),
        ((*SAMPLE, "--priority", "11"), 2, "priority: Input should be less than or equal to 9"),
        ((*SAMPLE, "--label", "x"), 2, "--label: 'x' is not of the form name=value"),
        ((*SAMPLE, "--metric", "beauty"), 2, "beauty"),
        ((*SAMPLE, "--draft-param", "nonsense=1"), 2, "nonsense"),
        (("--calibration", "set:0199d0c0-0000-7000-8000-000000000001"), 2, "--calibration: there is no"),
    ],
)
def test_what_is_wrong_with_a_spec(api, skipmap, worker, options, code, message):
    ran = skipmap("jobs", "submit", *SPEC, *options)
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert worker.sql("SELECT id FROM jobs") == []


def test_list(submit, skipmap, worker):
    first, second = submit("--label", "team=x"), submit("--draft", "sam", "--label", "team=y")
    ran = skipmap("jobs", "list")
    assert ran.out.index(second) < ran.out.index(first)
    assert "smollm2-135m-instruct" in ran.out

    def ids(*options):
        return [job["id"] for job in json.loads(skipmap("jobs", "list", "--json", *options).out)]

    assert ids() == [second, first]
    assert ids("--limit", "1") == ids("--draft", "sam") == ids("--label", "team=y") == [second]
    assert ids("--state", "paused") == []
    assert skipmap("jobs", "list", "--state", "paused").err == "skipmap: no job is like this\n"
    assert skipmap("jobs", "list", "--limit", "0").code == 2
    beam = submit("--strategy", "beam")
    assert ids("--strategy", "beam") == [beam]
    assert ids("--strategy", "tss") == [second, first]


def test_names_are_listed_where_a_job_has_one(submit, skipmap):
    submit()
    assert " name " not in skipmap("jobs", "list").out
    submit("--name", "night\nrun")
    head, *rows = [line for line in skipmap("jobs", "list").out.splitlines() if line[0] in "┃│"]
    assert [title.strip() for title in head.strip("┃").split("┃")][:3] == ["id", "name", "state"]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    # A long cell goes on in the next line.
    assert [name for job_id, name, *_ in cells if job_id] == ["night run", ""]


def test_show(submit, skipmap, worker):
    job_id = submit("--name", "mine", "--label", "team=x")
    assert "waiting: no live worker\n" in skipmap("jobs", "show", job_id).out
    worker.store(worker.reach("level"))
    assert "waiting" not in skipmap("jobs", "show", job_id).out
    ran = skipmap("jobs", "show", job_id)
    for part in (f"job {job_id} (mine): running", "labels: team=x", "level 1 (single blocks)", "best so far"):
        assert part in ran.out
    worker.work_off()


def test_show_a_job_that_has_ended(ended, skipmap):
    ran = skipmap("jobs", "show", ended)
    for part in (
        ": succeeded",
        "held-out check",
        "pool: 0,1,4",
        "left out by the bounds: 2,3",
        "search ended:",
    ):
        assert part in ran.out
    assert json.loads(skipmap("jobs", "show", ended, "--json").out)["outcome"]["evaluated"] > 0


def test_show_a_job_that_ranks_blocks(api, skipmap, worker):
    job_id = worker.submit(make_spec(strategy="shortgpt")).id
    worker.reach("rank")
    shown = skipmap("jobs", "show", job_id).out
    assert "strategy shortgpt" in shown
    assert "ranking blocks" in shown
    job_id = worker.submit(make_spec(strategy="shortgpt"), priority=9).id
    worker.reach("cost", worker.slot("other"))
    shown = skipmap("jobs", "show", job_id).out
    assert f"ranked: {LAYERS} figures taken to put blocks in order\n" in shown
    assert "NOT exhaustive\n" in shown
    assert "shortgpt does not look at every set" in shown


def test_an_unknown_job(api, skipmap):
    for command in ("show", "watch", "cancel", "evaluations", "result", "delete"):
        for job_id in ("0199d0c0-0000-7000-8000-000000000001", "nonsense", ".."):
            ran = skipmap("jobs", command, job_id)
            assert (ran.code, ran.out, ran.err.count("\n")) == (3, "", 1)


def test_changes(submit, skipmap, worker):
    job_id = submit()
    assert skipmap("jobs", "pause", job_id).out == f"job {job_id}: pausing, priority 5\n"
    assert json.loads(skipmap("jobs", "resume", job_id, "--json").out)["state"] == "running"
    assert skipmap("jobs", "priority", job_id, 9).out == f"job {job_id}: running, priority 9\n"
    assert skipmap("jobs", "priority", job_id, 10).code == 2
    refused = skipmap("jobs", "retry", job_id)
    assert refused.code == 4
    assert "only a failed job can be retried" in refused.err
    assert skipmap("jobs", "delete", job_id).code == 4
    assert skipmap("jobs", "cancel", job_id).out == f"job {job_id}: cancelling, priority 9\n"


def test_delete(ended, skipmap, worker):
    assert skipmap("jobs", "delete", ended) == (0, f"job {ended}: deleted\n", "")
    assert worker.sql("SELECT id FROM jobs") == []


def test_without_a_good_token(api, skipmap, monkeypatch):
    monkeypatch.setenv("SKIPMAP_TOKEN", "wrong-token")
    ran = skipmap("jobs", "list")
    assert (ran.code, ran.out) == (4, "")
    assert "set SKIPMAP_TOKEN or give --token-file" in ran.err
    assert "wrong-token" not in ran.err
    monkeypatch.delenv("SKIPMAP_TOKEN")
    assert skipmap("jobs", "list").code == 4


def test_without_a_service(skipmap, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("SKIPMAP_SERVER", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setattr("skipmap.cli.service.Client", partial(Client, retry_seconds=0))
        ran = skipmap("jobs", "list")
    assert (ran.code, ran.out) == (5, "")
    assert "start the service, or give its address" in ran.err


def test_no_command_of_the_service_loads_torch():
    modules = ("submit", "list", "show", "watch", "change", "output")
    imports = ", ".join(["skipmap.cli.sets", *(f"skipmap.cli.jobs_{name}" for name in modules)])
    code = f"import sys, {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
