"""The OpenAPI 3.1 document, made from the routes: ``python -m api.openapi`` writes it to ``docs/openapi.json``."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.json_schema import models_json_schema

from api.app import all_routes
from api.problems import KINDS, MEDIA_TYPE
from api.routes import Answer, Route
from models.base import ID_PATTERN, NUMBER_PATTERN
from models.maps import NAME_PATTERN
from models.nodes import NODE_PATTERN
from models.workers import OWNER_PATTERN
from skipmap import __version__
from skipmap.client.documents import Problem

FILE = Path(__file__).resolve().parent.parent / "docs" / "openapi.json"
_REF = "#/components/schemas/{model}"
_PARAMETER = re.compile(r"<(?P<converter>\w+):(?P<name>\w+)>")
_PATTERNS = {
    "id": f"^{ID_PATTERN}$",
    "name": f"^{NAME_PATTERN}$",
    "number": f"^{NUMBER_PATTERN}$",
    "node": f"^{NODE_PATTERN}$",
    "owner": f"^{OWNER_PATTERN}$",
}
_HEADERS = {
    "Cache-Control": "How long the answer may be kept.",
    "ETag": "Give it as If-None-Match the next time; that of a move as If-Match.",
    "Link": 'Address of the next page, as `<...>; rel="next"`.',
    "Location": "Address of the thing.",
    "Preference-Applied": "`wait=N`: how many seconds the request was ready to wait.",
    "Retry-After": "Seconds to wait before asking again.",
    "Vary": "Which headers of the request decide about the answer.",
}
_SECURITY = "token"


@cache
def document() -> dict[str, Any]:
    """The OpenAPI document."""
    routes = all_routes()
    schemas, names = _schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        path = _PARAMETER.sub(r"{\g<name>}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skipmap",
            "version": __version__,
            "summary": "Profiling jobs that find which target layers speculative verification can skip.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                _SECURITY: {"type": "http", "scheme": "bearer", "description": "A token of the service."}
            },
            "responses": {kind.name: _problem(names, kind.title) for kind in KINDS},
        },
    }


def text() -> str:
    """The document as it is committed."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _schemas(routes: Sequence[Route]) -> tuple[dict[str, Any], dict[Any, str]]:
    """Schemas of all models by name, and the reference of each model."""
    bodies = {route.body for route in routes if route.body is not None}
    answers = {
        answer.model: None
        for route in routes
        for answer in route.answers.values()
        if isinstance(answer.model, type) and issubclass(answer.model, BaseModel)
    }
    wanted: list[tuple[Any, Any]] = [
        (model, "validation") for model in sorted(bodies, key=lambda m: m.__name__)
    ]
    wanted += [(model, "serialization") for model in (*answers, Problem)]
    found, definitions = models_json_schema(wanted, ref_template=_REF)
    names = {model: found[(model, mode)]["$ref"] for model, mode in wanted}
    return definitions["$defs"], names


def _operation(route: Route, names: dict[Any, str]) -> dict[str, Any]:
    summary, _, more = inspect.cleandoc(route.view.__doc__ or "").partition("\n\n")
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": " ".join(summary.split()),
        "tags": [route.tag],
        "parameters": [*_path(route), *_query(route), *_request_headers(route)],
        "responses": _responses(route, names),
        "security": [] if route.access in ("public", "metrics") else [{_SECURITY: []}],
    }
    needs = "" if route.access in ("public", "metrics") else f"Needs: {route.access}."
    about = " ".join([needs, *more.split()]).strip()
    if about:
        operation["description"] = about
    if route.body is not None:
        content = {"application/json": {"schema": {"$ref": names[route.body]}}}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.uploads:
        operation["requestBody"] = {
            "required": True,
            "content": {media: {"schema": {"type": "string"}} for media in route.uploads},
        }
    return operation


def _path(route: Route) -> Iterable[dict[str, Any]]:
    for match in _PARAMETER.finditer(route.path):
        schema = {"type": "string", "pattern": _PATTERNS[match["converter"]]}
        yield {"name": match["name"], "in": "path", "required": True, "schema": schema}


def _query(route: Route) -> Iterable[dict[str, Any]]:
    if route.query is None:
        return
    model = route.query.model_json_schema()
    for name, schema in model["properties"].items():
        schema = {key: value for key, value in schema.items() if key != "title"}
        parameter = {"name": name, "in": "query", "schema": schema}
        if name in model.get("required", ()):
            parameter["required"] = True
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        yield parameter


def _request_headers(route: Route) -> Iterable[dict[str, Any]]:
    for name, description in route.request_headers.items():
        yield {"name": name, "in": "header", "description": description, "schema": {"type": "string"}}


def _responses(route: Route, names: dict[Any, str]) -> dict[str, Any]:
    found: dict[str, Any] = {str(status): _answer(answer, names) for status, answer in route.answers.items()}
    for status in sorted(_problem_statuses(route)):
        title = HTTPStatus(status).phrase
        found.setdefault(str(status), _problem(names, title, retry=status in (429, 503)))
    return found


def _problem_statuses(route: Route) -> set[int]:
    statuses = {422, 429, 500, 503, *route.problems}
    if route.access != "public":
        statuses |= {401, 403}
    if "<" in route.path:
        statuses.add(404)
    if route.body is not None or route.uploads:
        statuses |= {400, 408, 413, 415}
    return statuses


def _answer(answer: Answer, names: dict[Any, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answer.description}
    content: dict[str, Any] = {media: {"schema": {"type": "string"}} for media in answer.media}
    if answer.model is not None:
        reference = names.get(answer.model)
        schema = {"$ref": reference} if reference else TypeAdapter(answer.model).json_schema()
        content["application/json"] = {"schema": schema}
    if content:
        found["content"] = content
    if answer.headers:
        found["headers"] = {name: _header(name) for name in answer.headers}
    return found


def _problem(names: dict[Any, str], title: str, *, retry: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": title,
        "content": {MEDIA_TYPE: {"schema": {"$ref": names[Problem]}}},
    }
    if retry:
        found["headers"] = {"Retry-After": _header("Retry-After")}
    return found


def _header(name: str) -> dict[str, Any]:
    return {"description": _HEADERS[name], "schema": {"type": "string"}}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
