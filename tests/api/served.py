"""The app as it is served: gunicorn with greenlets, from the committed configuration."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from models.accounts import create_token, create_user
from models.database import Database

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Served:
    """A running server and a token for it; ``log``: what it has written since it listens."""

    process: subprocess.Popen[str]
    port: int
    secret: str
    log: list[str]

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.secret}"}

    def ask(
        self, path: str, timeout: float = 20.0
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        connection.request("GET", path, headers=self.authorization)
        return connection, connection.getresponse()


@contextmanager
def serve(
    database: Database,
    url: str,
    home: Path,
    *scopes: str,
    app: str = "api.app:create_app()",
    **settings: object,
) -> Iterator[Served]:
    """Serve a database with one process, to a token of some scopes; ``settings``: of the API, by name."""

    def work(session):
        user = create_user(session, "somebody")
        return create_token(session, user.id, "a token", scopes)[1]

    secret = database.transaction(work)
    given = {f"SKIPMAP_{name.upper()}": str(value) for name, value in settings.items()}
    environment = os.environ | {
        "SKIPMAP_DATABASE_URL": url,
        "SKIPMAP_HOME": str(home),
        "SKIPMAP_PORT": "0",
        "SKIPMAP_API_WORKERS": "1",
        "SKIPMAP_EVENT_POLL_SECONDS": "0.05",
        **given,
    }
    command = [sys.executable, "-m", "gunicorn", "--config", "api/gunicorn.conf.py", app]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    log = iter(process.stderr)
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(log))
    try:
        port = next(int(found[1]) for line in log if (found := re.search(r"Listening at: \S+:(\d+)", line)))
        reader.start()
        yield Served(process, port, secret, lines)
    finally:
        process.terminate()
        process.wait(timeout=30)
        if reader.ident is not None:
            reader.join(timeout=30)
        process.stderr.close()
