from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from models.errors import OwnerBusy
from skipmap.errors import InvalidInput
from workers import slot as module
from workers.settings import WorkerSettings
from workers.slot import Place, PlaceLock, places, take_place, visible_gpus

ROOT = Path(__file__).resolve().parents[2]

# Takes a place, says so, and hands it on to a child that lives until its input ends.
HOLDER = """
import os, sys
from pathlib import Path
from workers.slot import PlaceLock
PlaceLock(Path(sys.argv[1]), sys.argv[2]).acquire()
if os.fork() == 0:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.2)


@pytest.fixture
def gpus(tmp_path, monkeypatch):
    """What nvidia-smi says on this host."""

    def say(*lines: str, code: int = 0) -> None:
        program = tmp_path / "nvidia-smi"
        program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines) + f"exit {code}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return say


TWO = ("GPU 0: NVIDIA H200 (UUID: GPU-aaaa-1)", "GPU 1: NVIDIA H200 (UUID: GPU-bbbb-2)")
PART = "  MIG 1g.18gb     Device  0: (UUID: MIG-cccc-3)"


def test_a_place_is_taken_once(tmp_path):
    PlaceLock(tmp_path, "host/cpu-0").acquire()
    PlaceLock(tmp_path, "host/cpu-1").acquire()
    with pytest.raises(OwnerBusy, match="another worker runs as host/cpu-0; stop it, or set SKIPMAP_SLOT"):
        PlaceLock(tmp_path, "host/cpu-0").acquire(0.2)


def test_a_worker_takes_the_first_place_that_is_free(tmp_path, impatient):
    candidates = [Place(f"host/GPU-{name}", "cuda", f"GPU-{name}") for name in "ab"]
    held = []
    for candidate in candidates:
        place, lock = take_place(candidates, tmp_path)
        held.append(lock)
        assert place == candidate
    with pytest.raises(OwnerBusy, match="another worker runs as host/GPU-a, host/GPU-b; stop a worker"):
        take_place(candidates, tmp_path)


def test_a_worker_and_its_children_see_the_gpu_of_their_place_alone(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    Place("host/cpu-0", "cpu").enter()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    Place("host/GPU-a", "cuda", "GPU-a").enter()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-a"


def test_a_place_is_free_when_the_last_process_of_its_worker_is_gone(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path), "here"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        # The parent has ended, and its child is there.
        assert holder.wait() == 0
        with pytest.raises(OwnerBusy):
            PlaceLock(tmp_path, "here").acquire(0.2)
        assert holder.stdin is not None
        holder.stdin.close()
        assert holder.stdout.read() == b""
    PlaceLock(tmp_path, "here").acquire()


def test_who_takes_a_place_is_not_stopped_by_what_its_predecessor_was_asked(tmp_path):
    lock = PlaceLock(tmp_path / "run", "host/GPU-a b")
    lock.acquire()
    assert not lock.is_draining
    lock.drain.touch()
    assert lock.is_draining
    assert {path.parent for path in (lock.drain, lock.alive)} == {tmp_path / "run"}
    lock = PlaceLock(tmp_path / "run", "host/other")
    lock.drain.touch()
    lock.acquire()
    assert not lock.is_draining


def test_a_gpu_gives_the_place_its_name(gpus):
    gpus(*TWO, PART)
    host = platform.node()
    assert places(WorkerSettings()) == [
        Place(f"{host}/GPU-aaaa-1", "cuda", "GPU-aaaa-1"),
        Place(f"{host}/GPU-bbbb-2", "cuda", "GPU-bbbb-2"),
    ]
    assert places(WorkerSettings(device="cpu", slot="7")) == [Place(f"{host}/cpu-7", "cpu")]


@pytest.mark.parametrize(
    ("visible", "found"),
    [
        ("1", ["GPU-bbbb-2"]),
        ("GPU-bbbb", ["GPU-bbbb-2"]),
        ("1, 0", ["GPU-bbbb-2", "GPU-aaaa-1"]),
        ("MIG-cccc-3", ["MIG-cccc-3"]),
        ("GPU-dddd,0", ["GPU-aaaa-1"]),
    ],
)
def test_only_the_gpus_that_are_given_are_taken(gpus, monkeypatch, visible, found):
    gpus(*TWO, PART)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert visible_gpus() == found


@pytest.mark.parametrize("visible", ["", "-1", "7", "GPU-dddd"])
def test_without_a_gpu_it_is_a_place_on_the_cpu(gpus, monkeypatch, visible):
    gpus(*TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert places(WorkerSettings()) == [Place(f"{platform.node()}/cpu-0", "cpu")]
    with pytest.raises(InvalidInput, match="SKIPMAP_DEVICE: cuda given, but nvidia-smi shows no GPU"):
        places(WorkerSettings(device="cuda"))


def test_a_driver_that_does_not_answer_is_no_gpu(gpus):
    gpus("NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.", code=9)
    assert visible_gpus() == []
