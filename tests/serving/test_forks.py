"""Processes that are forked while a client runs: each child follows the channel by itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serving.channel_server import FINGERPRINT, MAP, NUM_LAYERS, ChannelServer
from tests.serving.following import until

_ROOT = Path(__file__).resolve().parents[2]

_PRELUDE = f"""
import json, os, sys, time
from pathlib import Path
from skipmap.serving import MapClient
from skipmap.serving.events import ForkDetected

events = []
client = MapClient(
    os.environ["SERVICE"], {MAP!r}, trusted_keys=Path(os.environ["KEYS"]), fingerprint={FINGERPRINT!r},
    num_layers={NUM_LAYERS}, poll_seconds=(0.1, 0.2), deadline_seconds=5.0, node_id="server",
    long_poll_seconds=float(os.environ["LONG_POLL"]) if "LONG_POLL" in os.environ else None,
    on_event=events.append,
)

def told():
    status = client.status()
    forks = [[event.parent_pid, event.pid] for event in events if isinstance(event, ForkDetected)]
    return {{"pid": os.getpid(), "node": status.node, "version": status.version, "state": status.state,
            "forks": forks, "skip": client.skip_for("translation").to_list()}}

def tell():
    # One write, so that two processes do not mix their lines.
    os.write(1, (json.dumps(told()) + "\\n").encode())

def until(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)

def version():
    return client.current and client.current.version
"""

_FORKS = """
client.start()
assert client.wait(10)
{before}
pid = os.fork()
if pid == 0:
    {child}
tell()
until(lambda: version() == 2)
# So that the state is that of a poll of this process.
client.refresh(10)
tell()
until(Path(os.environ["DONE"]).exists)
assert client.stop(timeout=5.0)
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.fixture
def service() -> Iterator[ChannelServer]:
    with ChannelServer().running() as running:
        running.publish()
        yield running


@pytest.fixture
def environment(service, tmp_path) -> dict[str, str]:
    keys = tmp_path / "keys.pub"
    keys.write_text(service.keys.public_pem())
    return os.environ | {
        "SERVICE": service.url,
        "KEYS": str(keys),
        "DONE": str(tmp_path / "done"),
        "PYTHONPATH": str(_ROOT),
    }


@contextmanager
def _running(command: list[str], environment: dict[str, str], **more: Any) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes, **more) as process:
        try:
            yield process
        finally:
            # Also what it has forked, which holds the same pipes open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _script(environment: dict[str, str], code: str) -> Any:
    # From 3.12 on Python itself warns of a fork with threads, which is what is tested.
    return _running([sys.executable, "-W", "ignore::DeprecationWarning", "-c", _PRELUDE + code], environment)


def _lines(process: subprocess.Popen[str], count: int) -> list[dict[str, Any]]:
    assert process.stdout is not None
    found = [process.stdout.readline() for _ in range(count)]
    if not all(found):
        pytest.fail(process.communicate(timeout=20)[1])
    return [json.loads(line) for line in found]


_CASES = {
    "as it comes": ("", "pass"),
    # The locks that a thread of the parent holds at that moment stay taken in the child for ever.
    "while locks are held": ("client._holding._lock.acquire(); client._run.lock.acquire()", "pass"),
    # Some servers fork without Python's knowledge: then the first use finds out.
    "without the hook": ("from skipmap.serving import forks; forks._WATCHED.clear()", "client.current"),
}


@pytest.mark.parametrize("case", _CASES)
def test_a_forked_child_goes_on_by_itself(service, environment, case):
    before, child = _CASES[case]
    code = _FORKS.format(before=before, child=child)
    if case == "while locks are held":
        code = code.replace(
            "    pass\n", "    pass\nelse:\n    client._holding._lock.release(); client._run.lock.release()\n"
        )
    with _script(environment, code) as process:
        first = _lines(process, 2)
        assert {line["version"] for line in first} == {1}
        assert all(line["skip"] == [2, 3] for line in first)
        service.publish(version=2, skip=(1,))
        second = _lines(process, 2)
        assert [(line["version"], line["state"], line["skip"]) for line in second] == [(2, "FRESH", [1])] * 2
        parent, child_pid = process.pid, next(line["pid"] for line in second if line["pid"] != process.pid)
        # Both tell the service so.
        told = {"server": 2, f"server-{child_pid}": 2}
        service.wait_for(lambda: {r["node"]: r["version"] for r in service.reports} == told)
        Path(environment["DONE"]).touch()
        assert process.wait(timeout=20) == 0
    by_pid = {line["pid"]: line for line in second}
    assert by_pid[parent]["node"] == "server"
    assert by_pid[child_pid]["node"] == f"server-{child_pid}"
    assert by_pid[parent]["forks"] == []
    assert by_pid[child_pid]["forks"] == [[parent, child_pid]]


def test_a_child_closes_what_it_has_inherited_and_the_parent_keeps_it(service, environment):
    code = """
def sockets():
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if name.startswith("socket:"):
            found.add(name)
    return found

client.start()
assert client.wait(10)
print(json.dumps({}), flush=True)
sys.stdin.readline()
open_before = sockets()
assert open_before
pid = os.fork()
if pid == 0:
    left = sockets() & open_before
    os.write(1, (json.dumps({"left": sorted(left)}) + "\\n").encode())
    os._exit(0)
os.waitpid(pid, 0)
print(json.dumps({"kept": open_before == sockets()}), flush=True)
until(lambda: version() == 2)
tell()
"""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("open sockets are counted through /proc")
    options = environment | {"LONG_POLL": "60"}
    with _running(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _PRELUDE + code],
        options,
        stdin=subprocess.PIPE,
    ) as process:
        _lines(process, 1)
        service.wait_for(lambda: service.asked[-1].prefer is not None)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert _lines(process, 2) == [{"left": []}, {"kept": True}]
        count = len(service.asked)
        service.publish(version=2)
        (line,) = _lines(process, 1)
        # It was still the same long poll that brought the change.
        assert (line["version"], line["state"]) == (2, "FRESH")
        assert len(service.asked) <= count + 1


def test_a_fork_waits_until_a_thread_is_out_of_the_gate(environment):
    """What a native library has half done at a fork stays so in the child: such as a validator's first use."""
    code = """
import threading
from skipmap.serving.forks import gate

inside, free = threading.Event(), threading.Event()
states = []

def work():
    with gate().entered():
        inside.set()
        states.append("begun")
        free.wait(0.2)
        states.append("ended")
    with gate().entered(), gate().parked():
        free.wait(20)
    with gate().entered():
        states.append("after")

thread = threading.Thread(target=work)
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    with gate().entered():
        os.write(1, (json.dumps({"states": states}) + "\\n").encode())
    os._exit(0)
os.waitpid(pid, 0)
# One that only waits is not waited for.
began = time.monotonic()
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
quick = time.monotonic() - began
free.set()
thread.join()
print(json.dumps({"states": states, "quick": quick < 0.9}), flush=True)
"""
    with _script(environment, code) as process:
        assert _lines(process, 2) == [
            {"states": ["begun", "ended"]},
            {"states": ["begun", "ended", "after"], "quick": True},
        ]


def test_a_fork_does_not_wait_for_ever(environment):
    code = """
import threading
from skipmap.serving.forks import gate

inside, free = threading.Event(), threading.Event()

def work():
    with gate().entered():
        inside.set()
        free.wait(60)

threading.Thread(target=work).start()
inside.wait()
began = time.monotonic()
with gate().entered():
    # Whoever is inside itself is no reason to wait.
    pid = os.fork()
    if pid == 0:
        os._exit(0)
os.waitpid(pid, 0)
print(json.dumps({"seconds": time.monotonic() - began}), flush=True)
free.set()
"""
    with _script(environment, code) as process:
        (line,) = _lines(process, 1)
    assert 0.9 < line["seconds"] < 15


def test_a_client_that_does_not_run_stays_still_in_a_child(service, environment):
    code = """
import threading
client.start()
assert client.wait(10)
client.stop()
pid = os.fork()
if pid == 0:
    os.write(1, (json.dumps({"version": version(), "threads": threading.active_count()}) + "\\n").encode())
    os._exit(0)
os.waitpid(pid, 0)
"""
    with _script(environment, code) as process:
        assert _lines(process, 1) == [{"version": 1, "threads": 1}]


def test_children_of_children_follow_too(service, environment):
    code = """
client.start()
assert client.wait(10)
for _ in range(2):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        os._exit(0)
client.refresh(10)
tell()
"""
    with _script(environment, code) as process:
        (line,) = _lines(process, 1)
    assert (line["version"], line["state"]) == (1, "FRESH")
    assert line["node"] == f"server-{line['pid']}"
    assert len(line["forks"]) == 2


def test_workers_as_celery_forks_them_follow(service, environment):
    """Celery's prefork pool is billiard's, here without the rest of Celery."""
    pytest.importorskip("billiard")
    code = """
from billiard.pool import Pool

def ask(wanted):
    until(lambda: version() == wanted)
    client.refresh(10)
    return told()

client.start()
assert client.wait(10)
pool = Pool(1)
print(json.dumps(pool.apply(ask, (1,))), flush=True)
print(json.dumps(pool.apply(ask, (2,))), flush=True)
pool.terminate()
pool.join()
"""
    with _script(environment, code) as process:
        (first,) = _lines(process, 1)
        service.publish(version=2)
        (second,) = _lines(process, 1)
        assert process.wait(timeout=20) == 0
    assert (first["version"], second["version"]) == (1, 2)
    assert first["pid"] == second["pid"] != process.pid
    assert first["state"] == second["state"] == "FRESH"


_APP = (
    _PRELUDE
    + """
client.start()
assert client.wait(10)

def application(environ, start_response):
    body = json.dumps({**told(), "loaded_by": LOADED_BY}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]

LOADED_BY = os.getpid()
"""
)


@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_gunicorn_workers_of_a_preloaded_app_follow(service, environment, tmp_path, kind):
    pytest.importorskip("gunicorn")
    (tmp_path / "preloaded.py").write_text(_APP)
    command = [sys.executable, "-W", "ignore", "-m", "gunicorn", "--preload", "--workers", "2"]
    command += [
        "--worker-class",
        kind,
        "--bind",
        "127.0.0.1:0",
        "--no-control-socket",
        "preloaded:application",
    ]
    path = f"{tmp_path}{os.pathsep}{_ROOT}"
    with _running(command, environment | {"PYTHONPATH": path}, cwd=tmp_path) as process:
        assert process.stderr is not None
        log = iter(process.stderr)
        port = next(int(found[1]) for line in log if (found := re.search(r"Listening at: \S+:(\d+)", line)))
        drain = threading.Thread(target=lambda: list(log))
        drain.start()

        def ask() -> dict[str, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", "/")
            answer = json.load(connection.getresponse())
            connection.close()
            return answer

        seen: dict[int, dict[str, Any]] = {}

        def both(version: int) -> bool:
            answer = ask()
            seen[answer["pid"]] = answer
            return len(seen) == 2 and all(a["version"] == version for a in seen.values())

        until(lambda: both(1))
        assert {answer["loaded_by"] for answer in seen.values()} == {process.pid}
        assert all(answer["node"] == f"server-{pid}" for pid, answer in seen.items())
        service.publish(version=2, skip=(1,))
        until(lambda: both(2))
        assert all((a["skip"], a["state"]) == ([1], "FRESH") for a in seen.values())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
        drain.join(timeout=20)
