"""Gate: what every request passes first: the API key, and whether the node still takes work."""

from __future__ import annotations

from hmac import compare_digest

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skipmap.serving.node.engine import Engine
from skipmap.serving.node.metrics import NodeMetrics
from skipmap.serving.node.problems import ApiProblem, shutting_down

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Probes bring no key."""

_KNOWN_PATHS = frozenset(
    {*OPEN_PATHS, "/metrics", "/status", "/v1/models", "/v1/completions", "/v1/chat/completions"}
)
_SCHEME = "bearer "


def problem_response(problem: ApiProblem) -> JSONResponse:
    """The answer that a problem gives."""
    return JSONResponse(problem.document, problem.status, problem.headers)


class Gate:
    """ASGI middleware; counts what it lets through and what it does not."""

    def __init__(
        self, app: ASGIApp, *, keys: tuple[bytes, ...], engine: Engine, metrics: NodeMetrics
    ) -> None:
        self._app = app
        self._keys = keys
        self._engine = engine
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"] if scope["path"] in _KNOWN_PATHS else "other"

        is_answered = False

        async def counted(message: Message) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                is_answered = True
                self._metrics.request(path, message["status"])
            await send(message)

        problem = self._problem(Request(scope))
        if problem is None:
            try:
                await self._app(scope, receive, counted)
            except Exception:
                # Starlette answers what nobody expected outside of this.
                if not is_answered:
                    self._metrics.request(path, 500)
                raise
        else:
            await problem_response(problem)(scope, receive, counted)

    def _problem(self, request: Request) -> ApiProblem | None:
        if request.url.path not in OPEN_PATHS and self._keys and not self._has_key(request):
            return ApiProblem(
                401,
                "an API key of this node is needed: Authorization: Bearer KEY",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if request.method == "POST" and self._engine.is_draining:
            return shutting_down()
        return None

    def _has_key(self, request: Request) -> bool:
        given = request.headers.get("authorization", "")
        if not given.lower().startswith(_SCHEME):
            return False
        token = given[len(_SCHEME) :].strip().encode("latin-1", "replace")
        # All of them, so that time tells nothing.
        return sum(compare_digest(token, key) for key in self._keys) > 0
