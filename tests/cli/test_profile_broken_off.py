"""``skipmap profile`` on bad disks, beside itself, and broken off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from skipmap.errors import Interrupted
from skipmap.profiling.job import open_job
from skipmap.profiling.store import RunFolder
from tests.cli.runs import run_folder, stored, written


def test_places_that_cannot_be_written(skipmap, job, items, monkeypatch, tmp_path):
    monkeypatch.setattr("skipmap.cli.profile.open_job", lambda _: pytest.fail("the target was loaded"))
    # A folder cannot lie under a file, not even for root.
    (tmp_path / "file").write_text("")
    before = items.read_bytes()
    for options, code, message in (
        (
            ["--out", "file/m.json"],
            5,
            "--out: cannot write file/m.json: Not a directory; choose another place",
        ),
        (["--result", "file/r.json"], 5, "--result: cannot write file/r.json: Not a directory"),
        (["--runs", "file/runs"], 5, "--runs: cannot write file/runs/"),
        (["--out", tmp_path], 2, f"--out: {tmp_path} is a folder; give a file"),
        (["--out", items], 2, f"--out: {items} is what is read; give another file"),
        (["--out", "x.json", "--result", "./x.json"], 2, "--out: map, result and report need a file each"),
    ):
        ran = skipmap(*job, *options)
        assert (ran.code, ran.out) == (code, "")
        assert ran.err.startswith(f"skipmap: {message}")
        assert ran.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]
    assert items.read_bytes() == before


def test_link_stays_a_link(skipmap, job, tmp_path):
    (tmp_path / "latest.json").symlink_to("real.json")
    assert skipmap(*job, "--max-depth", "1", "--out", "latest.json").code == 0
    assert (tmp_path / "latest.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["schema"] == "skipmap.map/1"


@pytest.mark.parametrize("last", ["groups", "map.json"])
def test_disk_that_fills_up_keeps_what_is_finished(skipmap, job, monkeypatch, last):
    sync, finished = os.fsync, []

    def full(descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if f"/.{last}" in name or (f"/{last}/" in name and len(finished) == 2):
            raise OSError(28, "No space left on device")
        finished.append(name)
        sync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ran = skipmap(*job)
    assert (ran.code, ran.out) == (5, "")
    folder = run_folder()
    problem = ran.err.splitlines()[-1]
    assert problem.startswith(f"skipmap: cannot write {folder}/{last}")
    assert problem.endswith(
        ": No space left on device; free some space or choose another place; "
        f"finished groups are kept in {folder}, add --resume to go on from there"
    )
    assert not [path for path in folder.rglob("*") if path.name.endswith(".partial")]
    before = written(folder)
    assert len(before) >= 2
    assert skipmap(*job, "--resume").code == 0
    assert before.items() <= written(folder).items()


def test_two_processes_on_one_job(skipmap, job):
    assert skipmap(*job, "--max-depth", "1").code == 0
    folder = run_folder()
    before = written(folder)
    with RunFolder(folder, "key").locked():
        ran = skipmap(*job, "--max-depth", "1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith(
        f"skipmap: run: another process is profiling the same job in {folder}; wait for it or stop it\n"
    )
    assert written(folder) == before


def test_interrupted_in_the_last_writes(skipmap, job, monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("skipmap.cli.profile.render_report", interrupt)
        ran = skipmap(*job, "--max-depth", "1")
    assert (ran.code, ran.out) == (Interrupted.exit_code, "")
    assert "interrupted; finished groups are kept in " in ran.err
    assert not [path for path in run_folder().rglob("*") if path.name.endswith(".partial")]


# Waits in the first forward after two groups of single blocks, until it is stopped.
WAITING = """
import sys, time
from pathlib import Path
import torch
from skipmap.cli import main, profile
from skipmap.profiling.job import open_job

torch.set_num_threads(1)

def hook(progress):
    if len(list(Path("runs").glob("*/groups/single-*.json"))) == 2:
        print("here", file=sys.stderr, flush=True)
        time.sleep(60)

profile.open_job = lambda checked: open_job(checked, hook)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="session")
def pairs_job(job, tmp_path_factory):
    """The small job in groups of two blocks."""
    spec = tmp_path_factory.mktemp("spec") / "spec.json"
    spec.write_text('{"search": {"group_size": 2}}')
    return [*job, "--spec", str(spec), "--json"]


@pytest.fixture(scope="module")
def undisturbed():
    """Search digest of the job without an interruption; set by the first test that needs it."""
    return {}


def resumes(skipmap, job, undisturbed):
    """Resume the job and compare with one that nobody stopped."""
    before = written(run_folder())
    resumed = json.loads(skipmap(*job, "--resume").out)
    assert before.items() <= written(run_folder()).items()
    if not undisturbed:
        undisturbed |= json.loads(skipmap(*job, "--runs", "other").out)
    assert resumed["search_digest"] == undisturbed["search_digest"]


@pytest.mark.thorough
def test_ctrl_c_keeps_what_is_finished(skipmap, pairs_job, undisturbed, monkeypatch):
    def hook(progress):
        if len(list(Path("runs").glob("*/groups/single-*.json"))) == 2:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr("skipmap.cli.profile.open_job", lambda checked: open_job(checked, hook))
        ran = skipmap(*pairs_job)
    assert (ran.code, ran.out) == (130, "")
    folder = run_folder()
    message = f"interrupted; finished groups are kept in {folder}, add --resume to go on from there"
    assert ran.err.endswith(f"skipmap: {message}\n")
    assert stored(folder) == {"dense": 1, "single": 2}
    resumes(skipmap, pairs_job, undisturbed)


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_stopped_process_goes_on_where_it_was(skipmap, pairs_job, undisturbed, number):
    command = [sys.executable, "-c", WAITING, *pairs_job]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "here\n":
                break
        process.send_signal(number)
        out, err = process.communicate()
    folder = run_folder()
    assert out == ""
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        message = f"interrupted; finished groups are kept in {folder}, add --resume to go on from there"
        assert err.endswith(f"skipmap: {message}\n")
        assert "Traceback" not in err
    assert stored(folder) == {"dense": 1, "single": 2}
    assert {path.name for path in folder.iterdir()} == {"groups", "lock"}
    resumes(skipmap, pairs_job, undisturbed)
