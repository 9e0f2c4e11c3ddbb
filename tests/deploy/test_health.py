from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from deploy.docker.health import ALIVE_SECONDS, main


@pytest.fixture
def answering(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A server that answers /healthz with the parameter, and everything else with 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(request.param if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        monkeypatch.setenv("SKIPMAP_PORT", str(server.server_port))
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize(("answering", "code"), [(200, 0), (500, 1)], indirect=["answering"])
def test_the_api_by_its_answer(answering: int, code: int):
    assert main(["api"]) == code


def test_an_api_that_does_not_listen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    # Nothing listens on port 1, which is reserved.
    monkeypatch.setenv("SKIPMAP_PORT", "1")
    assert main(["api"]) == 1
    assert "port 1" in capsys.readouterr().err


@pytest.mark.parametrize("role", ["worker", "reconciler"])
@pytest.mark.parametrize(
    ("ages", "code"),
    [([], 1), ([1.0], 0), ([ALIVE_SECONDS + 60], 1), ([ALIVE_SECONDS + 60, 1.0], 0)],
    ids=["no file", "fresh", "old", "old beside fresh"],
)
def test_other_processes_by_their_files(
    role: str, ages: list[float], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SKIPMAP_HOME", str(tmp_path))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "other.lock").touch()
    for number, age in enumerate(ages):
        file = tmp_path / "run" / f"{number}.alive"
        file.touch()
        os.utime(file, (time.time() - age, time.time() - age))
    assert main([role]) == code


@pytest.mark.parametrize("arguments", [[], ["postgres"], ["api", "worker"]])
def test_an_unknown_role(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    assert "api, worker, reconciler" in capsys.readouterr().err
