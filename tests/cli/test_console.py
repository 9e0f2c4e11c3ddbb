from __future__ import annotations

from rich.table import Table

from skipmap.cli.console import AnswerConsole, PlainConsole
from skipmap.cli.job_display import job_display
from skipmap.cli.jobs_show import show
from skipmap.client.documents import JobView
from skipmap.client.watch import Away
from tests.client.scripted import job_json

_HOSTILE = "x\x1b]0;title\x07\x9b31m\u202ey"
_SHOWN = "x\\u001b]0;title\\u0007\\u009b31m\\u202ey"


def _is_plain(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_cells_and_lines_are_escaped(capsys):
    table = Table()
    table.add_column("name")
    table.add_row(_HOSTILE)
    AnswerConsole().print(table)
    PlainConsole().print_lines([f"a\n{_HOSTILE}"])
    out = capsys.readouterr().out
    assert _is_plain(out)
    assert out.count(_SHOWN) == 2
    assert f"a\\n{_SHOWN}\n" in out


def test_a_job_of_somebody_else_cannot_act(capsys, monkeypatch):
    attempt = {
        "outcome": "error",
        "owner": _HOSTILE,
        "error": f"{_HOSTILE}\njob done: succeeded",
        "started_at": "2027-01-01T00:00:00Z",
        "ended_at": "2027-01-01T00:00:00Z",
    }
    failed = {
        "id": "1",
        "kind": "level",
        "groups": [["1"]],
        "attempts": 1,
        "error": _HOSTILE,
        "history": [attempt],
    }
    fields = dict.fromkeys(("name", "target", "draft", "domain", "error", "waiting_for"), _HOSTILE)
    job = JobView.model_validate(
        job_json("failed", **fields, labels={_HOSTILE: _HOSTILE}, failed_chunks=[failed])
    )
    show(job)
    away = Away(_HOSTILE)
    with job_display() as display:
        display(job)
        display(away)
    plain = capsys.readouterr()
    assert _is_plain(plain.out)
    assert _is_plain(plain.err)
    assert plain.out.count(_SHOWN) == 11
    assert "\njob done" not in plain.out
    assert plain.err.count(_SHOWN) == 2
    monkeypatch.setenv("FORCE_COLOR", "1")
    with job_display() as display:
        display(job)
        display(away)
    live = capsys.readouterr().err
    assert live.count(_SHOWN) >= 2
    assert not {"\x07", "\x9b", "\u202e"} & set(live)
    assert "\x1b]" not in live
