"""All real parts together, under a path with spaces; no job is run."""

from __future__ import annotations

import signal
from collections.abc import Callable

import httpx2
import psutil

from tests.deploy.standalone.managers import Managed, make_managed

__all__ = ["make_managed"]


def test_comes_up_works_and_leaves_nothing(make_managed: Callable[..., Managed]):
    managed = make_managed()
    process = managed.up(real=True)
    managed.ready(process)

    token = (managed.home / "admin-token").read_text().strip()
    with httpx2.Client(base_url=managed.url, trust_env=False) as client:
        ready = client.get("/readyz").json()
        assert (ready["status"], ready["database"], ready["broker"], ready["reconciler"]) == (
            "ready",
            True,
            True,
            True,
        )
        assert sum(ready["workers"].values()) == 1
        assert client.get("/api/v1/jobs").status_code == 401
        answer = client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["items"]) == (200, [])

    everything = psutil.Process(process.pid).children(recursive=True)
    listening = {
        socket.laddr
        for child in everything
        for socket in child.net_connections(kind="inet")
        if socket.status == psutil.CONN_LISTEN
    }
    assert {f"http://{host}:{port}" for host, port in listening} == {managed.url}

    process.send_signal(signal.SIGINT)

    assert process.wait(60) == 0, managed.said
    assert managed.left_over == []
    assert not any(child.is_running() for child in everything)
    for log in ("api", "worker", "reconciler"):
        assert "Traceback" not in (managed.home / "logs" / f"{log}.log").read_text()
        assert token not in (managed.home / "logs" / f"{log}.log").read_text()
