"""The API as in production, for a measurement: gunicorn with the settings file of the checkout."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys

import psutil

from benchmarks.service.stage import Stage
from deploy.standalone.ports import HOST, take_port, url_of
from tests.workers.cluster import ROOT

_COMMAND = ("-m", "gunicorn", "-c", "api/gunicorn.conf.py")
API, PAGES = "api.app:create_app()", "web.app:create_app()"


class ApiServer:
    """gunicorn, two processes, on a stage's servers until the block ends; settings of the API by variable."""

    def __init__(self, on: Stage, app: str = API, **settings: str) -> None:
        self.port = take_port(0)
        environment = os.environ | {
            "SKIPMAP_DATABASE_URL": on.settings.database_url,
            "SKIPMAP_BROKER_URL": str(on.settings.broker_url),
            "SKIPMAP_HOME": str(on.folder / "home"),
            "SKIPMAP_PORT": str(self.port),
            "PYTHONPATH": str(ROOT),
            **settings,
        }
        with (on.folder / "api.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, *_COMMAND, app], cwd=ROOT, env=environment, stdout=log, stderr=log
            )
        try:
            on.wait_for(self._answers, 60, "the API answers")
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self) -> ApiServer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def url(self) -> str:
        """Address without a path."""
        return url_of(self.port)

    @property
    def pid(self) -> int:
        """Of the main process, which answers nothing itself."""
        return self._process.pid

    def workers(self) -> list[int]:
        """Pids of the processes that answer."""
        return [child.pid for child in psutil.Process(self.pid).children()]

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError("gunicorn has ended; its log tells why")
        try:
            return Caller(self.port).call("GET", "/healthz")[0] == 200
        except OSError:
            return False


class Caller:
    """One kept connection; without a secret no token is sent."""

    def __init__(self, port: int, secret: str = "") -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=30)
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}

    def call(
        self, method: str, path: str, body: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers by name in small letters, and body of an answer."""
        given = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            given["Content-Type"] = "application/json"
        self._connection.request(method, path, body, given)
        answer = self._connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
