from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from deploy.standalone.keeper import started
from deploy.standalone.running import RunFolder, pid_in


def test_this_process_manages(tmp_path: Path):
    run = RunFolder(tmp_path)
    assert run.manager() is None
    run.write("http://127.0.0.1:1", 5.0, ready=False)
    manager = run.manager()
    assert (manager.pid, manager.url, manager.ready) == (os.getpid(), "http://127.0.0.1:1", False)
    run.write("http://127.0.0.1:1", 5.0, ready=True)
    assert run.manager().ready
    run.clear()
    assert run.manager() is None
    run.clear()


def test_later_process_with_the_same_id_is_no_manager(tmp_path: Path):
    run = RunFolder(tmp_path)
    run.write("http://127.0.0.1:1", 5.0, ready=True)
    place = run.path / "manager.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {"started": "another time"}))
    assert run.manager() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pid": "x", "started": 1}'])
def test_unreadable_records(tmp_path: Path, text: str):
    run = RunFolder(tmp_path)
    run.path.mkdir()
    for place in (run.path / "manager.json", run.record("api")):
        place.write_text(text)
    assert run.manager() is None
    assert pid_in(run.record("api")) is None


def test_pid_of_a_process_that_runs(tmp_path: Path):
    record = tmp_path / "api.json"
    assert pid_in(record) is None
    record.write_text(json.dumps({"pid": os.getpid(), "started": started(os.getpid())}))
    assert pid_in(record) == os.getpid()
    record.write_text(json.dumps({"pid": os.getpid(), "started": "another time"}))
    assert pid_in(record) is None
