"""The real API on a test's database, and a fake worker that ends with a real result."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from werkzeug.serving import make_server

from api.app import create_app
from api.settings import ApiSettings
from models.claim import Claim
from models.lease import Beat, store_finding
from tests.api.conftest import wait_for_hub
from tests.models.bench import Bench

DEADLINE_SECONDS = 30.0
SPEC = (
    *("--target", "smollm2-135m-instruct", "--draft", "prompt_lookup", "--domain", "qa"),
    *("--max-depth", "2", "--max-pool", "3"),
)
SAMPLE = ("--calibration", "sample:qa")


class Api:
    """The API behind a port that stays the same when it is started again."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._port = 0
        self.start()

    def start(self) -> None:
        self.app = create_app(self._bench.settings, ApiSettings(event_poll_seconds=0.02))
        self._server = make_server("127.0.0.1", self._port, self.app, threaded=True)
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def streams(self) -> int:
        """Watchers that follow a job by events."""
        return self._service.hub.streams

    def stop(self) -> None:
        self._service.hub.stopping = lambda: True
        wait_until(lambda: self.streams == 0)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        wait_for_hub()
        self._service.database.close()
        self._service.reports.close()

    @property
    def _service(self) -> Any:
        return self.app.extensions["skipmap"]


@dataclass
class Worker(Bench):
    """Ends a job with this result document."""

    document: dict[str, Any] = field(default_factory=dict)

    def store_group(self, claimed: Claim, keys: tuple[str, ...]) -> Beat:
        if claimed.kind != "result":
            return super().store_group(claimed, keys)
        (key,) = keys
        payload = {"document": self.document}
        return self.database.transaction(store_finding, self.settings, claimed, key, payload, 1.0)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it has not come in time"
        time.sleep(0.01)
