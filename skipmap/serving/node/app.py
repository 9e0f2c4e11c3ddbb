"""The node's HTTP routes."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from skipmap.errors import InvalidInput
from skipmap.serving.node.answers import DOMAIN_HEADER, choice_headers
from skipmap.serving.node.gate import Gate, problem_response
from skipmap.serving.node.node import Node
from skipmap.serving.node.preparing import Kind
from skipmap.serving.node.problems import ApiProblem, failed, invalid, no_model
from skipmap.serving.node.talk import Talk

_JSON = "application/json"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


def make_app(node: Node) -> Starlette:
    """The ASGI application of a node."""
    routes = _Routes(node)
    app = Starlette(
        routes=[
            Route("/v1/models", routes.models, methods=["GET"]),
            Route("/v1/models/{model:path}", routes.model, methods=["GET"]),
            Route("/v1/completions", routes.completions, methods=["POST"]),
            Route("/v1/chat/completions", routes.chat, methods=["POST"]),
            Route("/healthz", routes.healthz, methods=["GET"]),
            Route("/readyz", routes.readyz, methods=["GET"]),
            Route("/status", routes.status, methods=["GET"]),
            Route("/metrics", routes.metrics, methods=["GET"]),
        ],
        middleware=[Middleware(Gate, keys=node.settings.keys, engine=node.engine, metrics=node.metrics)],
        exception_handlers={
            ApiProblem: _on_problem,
            InvalidInput: _on_problem,
            HTTPException: _on_http,
            ClientDisconnect: _on_gone,
            Exception: _on_failure,
        },
    )
    app.router.redirect_slashes = False
    return app


class _Routes:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._created = int(time.time())

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        asked = request.path_params["model"]
        if asked != self._node.settings.model:
            raise no_model(asked, self._node.settings.model)
        return JSONResponse(self._model())

    async def completions(self, request: Request) -> Response:
        return await self._answer("text", request)

    async def chat(self, request: Request) -> Response:
        return await self._answer("chat", request)

    async def healthz(self, request: Request) -> Response:
        alive = self._node.engine.is_alive
        return JSONResponse({"status": "ok" if alive else "the engine has ended"}, 200 if alive else 503)

    async def readyz(self, request: Request) -> Response:
        engine, report = self._node.engine, self._node.source.status()
        ready = engine.is_alive and not engine.is_draining
        state = {"map": report.map, "version": report.version, "state": report.state, "reason": report.reason}
        return JSONResponse(
            {"ready": ready, "model": self._node.settings.model, "map": state}, 200 if ready else 503
        )

    async def status(self, request: Request) -> Response:
        return JSONResponse(self._node.status())

    async def metrics(self, request: Request) -> Response:
        return Response(self._node.metrics.text(), headers={"Content-Type": _METRICS})

    async def _answer(self, kind: Kind, request: Request) -> Response:
        data = await self._body(request)
        asked = await self._node.prepare(kind, data, request.headers.get(DOMAIN_HEADER) or None)
        talk = Talk(
            asked, self._node.engine, self._node.loaded, self._node.settings.model, self._node.metrics.answer
        )
        await talk.begin(request.receive)
        headers = choice_headers(asked.choice)
        if not asked.request.stream:
            return JSONResponse(await talk.whole(), headers=headers)
        headers |= {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(talk.chunks(), media_type="text/event-stream", headers=headers)

    async def _body(self, request: Request) -> bytes:
        """The body, within its bounds; raises ApiProblem."""
        settings = self._node.settings
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise ApiProblem(415, f"Content-Type: must be {_JSON} (given: {kind[:80]!r})")
        too_big = ApiProblem(413, f"body: has more than {settings.max_body_bytes} bytes", code="too_large")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length) > settings.max_body_bytes:
            raise too_big
        data = bytearray()
        try:
            async with asyncio.timeout(settings.body_seconds):
                async for part in request.stream():
                    data += part
                    if len(data) > settings.max_body_bytes:
                        raise too_big
        except TimeoutError:
            seconds = settings.body_seconds
            raise ApiProblem(
                408, f"body: did not arrive within {seconds:g} s", headers={"Connection": "close"}
            ) from None
        return bytes(data)

    def _model(self) -> dict[str, Any]:
        settings = self._node.settings
        return {"id": settings.model, "object": "model", "created": self._created, "owned_by": "skipmap"}


async def _on_problem(request: Request, error: Exception) -> Response:
    if isinstance(error, InvalidInput):
        error = invalid(error)
    assert isinstance(error, ApiProblem)
    return problem_response(error)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path[:200]}"
    message = {404: f"{what}: there is no such path", 405: f"{what}: the method is not allowed"}
    return problem_response(
        ApiProblem(error.status_code, message.get(error.status_code, error.detail), headers=error.headers)
    )


async def _on_gone(request: Request, error: Exception) -> Response:
    # Nobody reads it.
    return Response(status_code=400)


async def _on_failure(request: Request, error: Exception) -> Response:
    return problem_response(failed(error))
