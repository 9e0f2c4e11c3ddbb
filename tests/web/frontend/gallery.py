"""The gallery's pages (web/frontend/gallery), served under the pages' own policy. To look at them:

python -m tests.web.frontend.gallery
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flask import Flask, Response, redirect, render_template, request, send_from_directory
from jinja2 import FileSystemLoader, StrictUndefined
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.web.frontend import samples
from web.filters import FILTERS
from web.policy import POLICY

FRONTEND = Path(__file__).resolve().parents[3] / "web" / "frontend"
DIST = FRONTEND.parent / "static" / "dist"
TEMPLATES = (FRONTEND / "gallery", FRONTEND.parent / "templates")


@dataclass(frozen=True)
class Asked:
    """A request of the pages, but for files, events and pictures."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


@dataclass
class State:
    """What the pages show; tests change it.

    ``status``: of the next answers to scripts, 0 for the right one; ``retry_seconds``: said with it, 0 for nothing.
    """

    ticks: int = 0
    is_over: bool = False
    status: int = 0
    retry_seconds: int = 0
    user: str = "ada"
    token: str = "a token"
    toasts: tuple[tuple[str, str], ...] = ()
    asked: str = ""
    seconds_to_upload: float = 0.0
    since: str = field(default_factory=lambda: (datetime.now(UTC) - timedelta(seconds=190)).isoformat())
    rows: tuple[tuple[str, float | None, bool], ...] = (
        ("3, 7", 2.0512345, True),
        ("=1+1", None, False),
        ('say "hi"', -10.5, True),
    )
    data: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    """The next answers to the chart that fetches, each after some seconds; then there is always the same."""
    sent: str = ""
    """Marks of forms that have done their work."""
    checks: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    """The next answers about a form, each after some seconds; then nothing is wrong."""
    requests: list[Asked] = field(default_factory=list)
    is_closed: threading.Event = field(default_factory=threading.Event)

    def chart(self) -> dict[str, Any]:
        """One bar, as high as there are ticks."""
        values = [{"category": "ticks", "value": self.ticks + 1}]
        return {
            "unit": "",
            "reference": None,
            "categories": ["ticks"],
            "series": [{"name": "ticks", "values": values}],
        }


def make_app(state: State) -> Flask:
    """The gallery as an app."""
    app = Flask("gallery", static_folder=None)
    app.jinja_loader = FileSystemLoader(TEMPLATES)  # type: ignore[assignment]
    app.jinja_env.undefined = StrictUndefined
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(FILTERS)
    app.jinja_env.globals.update(asset=_asset, csrf_token=lambda: state.token, state=state)
    _keep_requests(app, state)
    _add_pages(app, state)
    _add_forms(app, state)
    return app


def _asset(name: str) -> str:
    return f"/static/{json.loads((DIST / 'manifest.json').read_text())[name]}"


def _keep_requests(app: Flask, state: State) -> None:
    @app.before_request
    def note() -> Response | None:
        if request.path.startswith(("/static/", "/events")):
            return None
        path = request.full_path.rstrip("?")
        state.requests.append(Asked(request.method, path, dict(request.headers), dict(request.form)))
        if state.status and "X-Requested-With" in request.headers:
            body = json.dumps({"title": "Refused", "detail": f"Refused with {state.status}"})
            patience = {"Retry-After": str(state.retry_seconds)} if state.retry_seconds else {}
            return Response(body, state.status, patience, content_type="application/json")
        return None

    @app.after_request
    def protect(response: Response) -> Response:
        response.headers["Content-Security-Policy"] = POLICY
        return response


def _add_pages(app: Flask, state: State) -> None:
    @app.get("/static/<name>")
    def static_file(name: str) -> Response:
        return send_from_directory(DIST, name)

    @app.get("/")
    def index() -> str:
        return render_template("index.html", samples=samples.all_samples())

    @app.get("/chart/<name>")
    def one(name: str) -> str:
        return render_template(
            "index.html", samples=[each for each in samples.all_samples() if each[0] == name]
        )

    @app.get("/data")
    def data() -> dict[str, Any]:
        seconds, found = state.data.pop(0) if state.data else (0, samples.by_domain())
        time.sleep(seconds)
        return found

    @app.get("/parts")
    def parts() -> Response:
        state.asked = request.args.get("state", "")
        return _page(app, "parts.html")

    @app.route("/wrong", methods=["GET", "POST"])
    def wrong() -> Response:
        # As a refused form comes back: with what was sent.
        return Response(
            render_template("wrong.html", typed=request.form), 422 if request.method == "POST" else 200
        )

    @app.get("/question")
    def question() -> Response:
        return _page(app, "question.html")

    @app.get("/sign-in")
    @app.get("/opened")
    def opened() -> str:
        return '<title>Opened</title><link rel="icon" href="data:,">'

    @app.get("/events")
    def events() -> Response:
        return Response(_stream(state), content_type="text/event-stream")


def _stream(state: State) -> Iterator[str]:
    known = state.ticks
    yield ": hello\n\n"
    while not state.is_closed.wait(0.02):
        if known != state.ticks:
            known = state.ticks
            yield f"event: progress\ndata: {known}\n\n"


def _add_forms(app: Flask, state: State) -> None:
    @app.post("/stopped")
    @app.post("/spec")
    def stopped() -> Any:
        return redirect("/opened", 303)

    @app.post("/check")
    def check() -> dict[str, Any]:
        seconds, errors = state.checks.pop(0) if state.checks else (0.0, {})
        time.sleep(seconds)
        return {"errors": errors, "notes": {"name": f"{len(request.form['name'])} letters"}}

    @app.post("/estimate")
    def estimate() -> str:
        return f"<p>Estimate for {request.form['draft.method']}</p>"

    @app.post("/upload")
    def upload() -> Response:
        (given,) = request.files.values()
        size = len(given.read())
        time.sleep(state.seconds_to_upload)
        if not size:
            body: dict[str, Any] = {
                "title": "Invalid",
                "detail": "The file has no items.",
                "problems": ["line 1: <b>empty</b>"],
            }
            return Response(json.dumps(body), 422, content_type="application/json")
        body = {
            "id": "new",
            "label": f"{given.filename} (5 items)",
            "text": "5 items, uploaded",
            "location": f"/opened?size={size}",
        }
        return Response(json.dumps(body), 201, content_type="application/json")


def _page(app: Flask, name: str) -> Response:
    """The page or the part that is asked for, with a tag."""
    fragment = request.headers.get("X-Fragment")
    template = app.jinja_env.get_template(name)
    context = template.new_context()
    body = template.render() if fragment is None else "".join(template.blocks[fragment](context))
    response = Response(body, content_type="text/html; charset=utf-8")
    response.add_etag(weak=True)
    return response.make_conditional(request)


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def served(state: State, port: int = 0) -> Iterator[str]:
    """Serve the gallery in threads of this process; yields its address."""
    server = make_server("127.0.0.1", port, make_app(state), threaded=True, request_handler=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        state.is_closed.set()
        server.shutdown()
        thread.join()
        server.server_close()


if __name__ == "__main__":
    with served(State(), 8770) as address:
        print(f"{address}/ and {address}/parts; Ctrl-C ends it")
        threading.Event().wait()
