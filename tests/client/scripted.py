"""A real HTTP server that answers as a test tells it."""

from __future__ import annotations

import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

JOB_ID = "0199d0c0-0000-7000-8000-000000000001"
JOB = f"/api/v1/jobs/{JOB_ID}"
NOW = "2026-01-02T03:04:05+00:00"


@dataclass
class Answer:
    """What the server answers. ``drops``: it closes the connection after the body, which then is not complete."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    drops: bool = False


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


def as_json(data: Any, status: int = 200, **headers: str) -> Answer:
    kind = "application/problem+json" if status >= 400 else "application/json"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(data).encode(), {"Content-Type": kind, **named})


def problem(status: int, detail: str = "it went wrong", **more: Any) -> Answer:
    """``headers`` are the answer's own; all else is in its body."""
    headers = more.pop("headers", {})
    answer = as_json({"type": "urn:x", "title": "Title", "status": status, "detail": detail, **more}, status)
    return Answer(status, answer.body, answer.headers | headers)


def stream(*events: tuple[int, str, dict[str, Any]], drops: bool = False) -> Answer:
    parts = [": hello\n\n"]
    parts += [f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n" for number, kind, data in events]
    return Answer(200, "".join(parts).encode(), {"Content-Type": "text/event-stream"}, drops)


def job_json(state: str = "running", **changes: Any) -> dict[str, Any]:
    level = {
        "idx": 1,
        "kind": "single",
        "depth": 1,
        "state": "running",
        "done": 2,
        "total": 5,
        "feasible": 1,
        "created_at": NOW,
        "finished_at": None,
    }
    return {
        "id": JOB_ID,
        "name": None,
        "labels": {},
        "state": state,
        "target": "tiny",
        "draft": "sam",
        "domain": "qa",
        "priority": 5,
        "level": level,
        "best": None,
        "error": None,
        "progress": {"done": 3, "total": 6, "rate": 0.5, "eta_seconds": [6.0, 9.0]},
        "created_at": NOW,
        "updated_at": NOW,
        "finished_at": NOW if state == "succeeded" else None,
        "spec": {},
        "calibration_set": None,
        "created_by": None,
        "levels": [level],
        "chunks": {},
        "failed_chunks": [],
        "outcome": None,
        "a_field_of_tomorrow": 1,
        **changes,
    }


class Service:
    """Answers by method and path, in turn; the last one stays."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._answers: dict[tuple[str, str], deque[Answer]] = {}
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                service._handle(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def will(self, method: str, path: str, *answers: Answer) -> None:
        self._answers[method, path] = deque(answers)

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handle(self, handler: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(handler.path)
        size = int(handler.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        asked = Asked(handler.command, parts.path, parse_qs(parts.query), headers, handler.rfile.read(size))
        self.asked.append(asked)
        answers = self._answers[asked.method, asked.path]
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        handler.close_connection = answer.drops
        if answer.drops and not answer.body:
            return
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.status not in (204, 304):
            handler.send_header("Content-Length", str(len(answer.body) + (100 if answer.drops else 0)))
        handler.end_headers()
        handler.wfile.write(answer.body)
