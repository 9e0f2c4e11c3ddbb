from __future__ import annotations

import re

import pytest

from skipmap.cli.job_display import job_display
from skipmap.cli.job_text import clock, level_title, pace_text, state_line
from skipmap.client.documents import JobView, LevelView, Progress
from skipmap.client.watch import Away
from tests.client.scripted import NOW, job_json

BEST = {"skip": [1, 4], "accept_length": 1.5, "metric": 0.25}


def make_level(kind="level", depth=2, **changes):
    known = {"idx": 2, "state": "running", "done": 24, "total": 66, "feasible": 3, "finished_at": None}
    return {"kind": kind, "depth": depth, "created_at": NOW, **known, **changes}


def make_job(state="running", **changes):
    dense = make_level("dense", 0, idx=0, state="done", done=1, total=1, feasible=0)
    level = changes.get("level", make_level())
    return JobView.model_validate(job_json(state, levels=[dense, level], **{"level": level, **changes}))


@pytest.mark.parametrize(
    ("kind", "depth", "text"),
    [
        ("dense", 0, "dense"),
        ("single", 1, "level 1 (single blocks)"),
        ("level", 3, "level 3"),
        ("rank", 1, "ranking blocks"),
        ("rank", 3, "ranking blocks for level 3"),
        ("cost", None, "cost"),
        ("held_out", None, "held-out check"),
        ("result", None, "result"),
    ],
)
def test_titles(kind, depth, text):
    assert level_title(LevelView.model_validate(make_level(kind, depth))) == text


@pytest.mark.parametrize(
    ("rate", "eta", "text"),
    [
        (None, None, ""),
        (0.5, None, "2.0 s each"),
        (2.5, (40.0, 70.0), "2.5/s, about 0:40 to 1:10 left"),
        (0.01, (7500.0, 7500.0), "100.0 s each, about 2:05:00 left"),
    ],
)
def test_pace(rate, eta, text):
    assert pace_text(Progress(done=1, total=2, rate=rate, eta_seconds=eta)) == text


def test_clock_counts_hours():
    assert [clock(seconds) for seconds in (0, 59.6, 3599, 3600)] == ["0:00", "1:00", "59:59", "1:00:00"]


def test_a_paused_job_has_no_pace():
    assert state_line(make_job("paused", best=BEST)) == (
        "paused  level 2: 24/66, 3 feasible  best so far 1,4 A 1.500 M 0.250"
    )


def test_a_job_that_nobody_can_take_says_so(capsys, monkeypatch):
    job = make_job(
        progress={"done": 3, "total": 6, "rate": None, "eta_seconds": None}, waiting_for="no live worker"
    )
    assert state_line(job) == "running  level 2: 24/66, 3 feasible  waiting: no live worker"
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with job_display() as display:
        display(job)
    assert "running  waiting: no live worker" in capsys.readouterr().err


def test_plain_lines_where_stderr_is_no_terminal(capsys):
    with job_display() as display:
        display(make_job())
        display(make_job())
        display(Away("cannot [reach] it\nnow"))
        display(make_job(best=BEST))
        display(make_job("succeeded", level=make_level("result", None, state="done", done=1, total=1)))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "running  level 2: 24/66, 3 feasible  2.0 s each, about 0:06 to 0:09 left",
        "the service is away, still trying: cannot [reach] it now",
        "running  level 2: 24/66, 3 feasible  2.0 s each, about 0:06 to 0:09 left  best so far 1,4 A 1.500 M 0.250",
        "succeeded  result: 1/1",
    ]


def test_live_picture_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "140")
    with job_display() as display:
        display(make_job(name="[bold]night[/] run", best=BEST))
        display(Away("gone"))
    out, err = capsys.readouterr()
    assert out == ""
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err)
    for part in (
        *("[bold]night[/] run", "qa on tiny with draft sam", "level 2", "24/66", "3 feasible", "running"),
        *(
            "2.0 s each, about 0:06 to 0:09 left",
            "best so far 1,4",
            "the service is away, still trying: gone",
        ),
    ):
        assert part in text
