from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from skipmap.errors import InvalidInput, ModelFailure
from skipmap.profiling.records import Evaluation, PromptRecord, Ranking
from skipmap.profiling.store import RunFolder, write_atomically
from skipmap.skipset import SkipSet

GROUP = (SkipSet((1,)), SkipSet((1, 2)))


def evaluation(skip, *, seconds=None, split=False):
    record = PromptRecord("é-1", 3, 7, 4, 8, (0.1 + 0.2, 1.0), "text", seconds)
    return Evaluation(skip, "replay" if seconds is None else "live", (record,), 1 / 3, split)


ROWS = [evaluation(GROUP[0]), evaluation(GROUP[1], seconds=0.25, split=True)]


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run", "key")


def group_files(folder):
    return sorted((folder.path / "groups").iterdir())


def test_group_comes_back_as_it_was(folder):
    assert folder.load("single", GROUP) is None
    folder.save("single", GROUP, ROWS, 1.5)
    assert folder.load("single", GROUP) == (ROWS, 1.5)
    assert folder.load("level", GROUP) is None
    assert folder.load("single", GROUP[:1]) is None


def test_ranking_figures_come_back_as_they_were(folder):
    rankings = [Ranking(GROUP[0], 0.1 + 0.2), Ranking(GROUP[1], 1 / 3)]
    assert folder.load_ranks("sleb", GROUP) is None
    folder.save_ranks("sleb", rankings, 1.5)
    assert folder.load_ranks("sleb", GROUP) == (rankings, 1.5)
    assert folder.load_ranks("shortgpt", GROUP) is None
    assert folder.load_ranks("sleb", GROUP[:1]) is None
    (file,) = group_files(folder)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"ranks": [[[1]]]}))
    assert folder.load_ranks("sleb", GROUP) is None


def test_rows_of_another_job_are_no_rows(folder):
    folder.save("single", GROUP, ROWS, 1.5)
    assert RunFolder(folder.path, "other").load("single", GROUP) is None


@pytest.mark.parametrize("text", ["", "{", '{"key": "key"', "[]", "null", '"key"', "\x00", "{}"])
def test_broken_file_counts_as_absent_and_is_written_anew(folder, text):
    folder.save("single", GROUP, ROWS, 1.5)
    (file,) = group_files(folder)
    file.write_text(text)
    assert folder.load("single", GROUP) is None
    file.write_bytes(b"\xff\xfe")
    assert folder.load("single", GROUP) is None
    folder.save("single", GROUP, ROWS, 1.5)
    assert folder.load("single", GROUP) == (ROWS, 1.5)


def test_clear_forgets_groups_and_nothing_else(folder):
    folder.save("single", GROUP, ROWS, 1.5)
    write_atomically(folder.path / "result.json", "{}")
    folder.clear()
    assert folder.load("single", GROUP) is None
    assert (folder.path / "result.json").exists()
    folder.clear()


class Crash(BaseException):
    """Stands for a process that ends in the middle."""


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Crash()])
def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch, step, error):
    path = tmp_path / "group.json"
    write_atomically(path, "old")

    def fail(*_):
        raise error

    monkeypatch.setattr(*((os, "fsync", fail) if step == "fsync" else (Path, "replace", fail)))
    expected = ModelFailure if isinstance(error, OSError) else Crash
    with pytest.raises(expected) as caught:
        write_atomically(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    if expected is ModelFailure:
        assert str(path) in str(caught.value)
        assert "No space left on device; free some space or choose another place" in str(caught.value)
    assert list(tmp_path.iterdir()) == [path]
    write_atomically(path, "new")
    assert path.read_text() == "new"


def test_what_a_crash_leaves_is_no_group(folder, monkeypatch):
    def fail(*_):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", fail)
        with pytest.raises(Crash):
            folder.save("single", GROUP, ROWS, 1.5)
    assert folder.load("single", GROUP) is None
    assert not list((folder.path / "groups").glob("*.json"))


def test_writes_are_flushed_before_they_get_their_name(tmp_path, monkeypatch):
    order = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd)))
    monkeypatch.setattr(Path, "replace", lambda a, b: (order.append("replace"), replace(a, b)))
    write_atomically(tmp_path / "x.json", "{}")
    assert order == ["fsync", "replace"]


def test_place_that_cannot_be_written_names_the_path_and_the_way_out(tmp_path):
    # A folder cannot lie under a file, not even for root.
    (tmp_path / "file").write_text("")
    folder = RunFolder(tmp_path / "file" / "run", "key")
    refusal = rf"cannot write {folder.path}: .*; choose another place"
    with pytest.raises(ModelFailure, match=refusal), folder.locked():
        pass
    with pytest.raises(ModelFailure, match=rf"cannot write {folder.path}/groups.*choose another place"):
        folder.save("single", GROUP, ROWS, 1.5)


LOCK = """
import sys
from pathlib import Path
from skipmap.profiling.store import RunFolder
from skipmap.errors import InvalidInput
try:
    with RunFolder(Path(sys.argv[1]), "key").locked():
        print("in", flush=True)
        sys.stdin.read()
except InvalidInput as error:
    print(error)
"""


def test_lock_keeps_a_second_process_out_and_dies_with_its_holder(folder):
    def start():
        return subprocess.Popen(
            [sys.executable, "-c", LOCK, str(folder.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    with start() as holder:
        assert holder.stdout.readline() == "in\n"
        refusal = f"run: another process is profiling the same job in {folder.path}; wait for it or stop it"
        with pytest.raises(InvalidInput) as caught, folder.locked():
            pass
        assert str(caught.value) == refusal
        with start() as second:
            assert second.communicate()[0] == refusal + "\n"
        holder.kill()
    with folder.locked():
        pass


def test_stored_text_is_plain_json(folder):
    folder.save("single", GROUP, ROWS, 1.5)
    (file,) = group_files(folder)
    data = json.loads(file.read_text(encoding="utf-8"))
    assert data["key"] == "key"
    assert data["evaluations"][1]["skip"] == [1, 2]


@pytest.mark.parametrize("change", [{"evaluations": None}, {"evaluations": [{}]}, {"seconds": "long"}])
def test_group_of_another_shape_counts_as_absent(folder, change):
    folder.save("level", GROUP, ROWS, 1.5)
    file = next((folder.path / "groups").iterdir())
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert folder.load("level", GROUP) is None


def test_group_with_fields_of_a_later_version_counts_as_absent(folder):
    folder.save("level", GROUP, ROWS, 1.5)
    file = next((folder.path / "groups").iterdir())
    data = json.loads(file.read_text())
    data["evaluations"][0]["prompts"][0]["mood"] = "good"
    file.write_text(json.dumps(data))
    assert folder.load("level", GROUP) is None
