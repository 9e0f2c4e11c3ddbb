"""Routes: what an address takes and answers, declared once for Flask, authorization and the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Literal

from flask import Flask, Response
from pydantic import BaseModel

from api.requests import read_json, read_query
from models.accounts import Scope

Access = Scope | Literal["public", "metrics", "any token"]
"""Who may call: a scope that the token must have, any valid token, or everybody (``metrics``: as the settings say)."""

PREFIX = "/api/v1"
View = Callable[..., Response]


@dataclass(frozen=True)
class Answer:
    """One possible answer: its JSON model, or other media types; ``headers``: those worth documenting."""

    description: str
    model: Any = None
    media: Sequence[str] = ()
    headers: Sequence[str] = ()


@dataclass(frozen=True)
class Route:
    """One method of one address. ``problems``: statuses beyond those that follow from the rest.

    ``rate``: ``node`` where a whole fleet asks with one token; else a request counts as a read or a write.
    ``body_bytes``: how large a JSON body may be where that is more than the setting says.
    """

    method: str
    path: str
    access: Access
    view: View
    tag: str
    answers: Mapping[int, Answer]
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    uploads: Sequence[str] = ()
    request_headers: Mapping[str, str] = field(default_factory=dict)
    rate: Literal["node"] | None = None
    body_bytes: int = 0
    problems: Sequence[int] = ()

    @property
    def name(self) -> str:
        """Name of the endpoint, which is the operation's id as well."""
        return self.view.__name__


class Routes(list[Route]):
    """The routes of one module."""

    def __init__(self, tag: str, prefix: str = PREFIX) -> None:
        super().__init__()
        self._tag = tag
        self._prefix = prefix

    def add(
        self, method: str, path: str, *, access: Access, answers: Mapping[int, Answer], **more: Any
    ) -> Callable[[View], View]:
        """Declare a view; ``more``: the other fields of Route. A query and a body come to it as keywords."""

        def declare(view: View) -> View:
            self.append(Route(method, self._prefix + path, access, view, self._tag, answers, **more))
            return view

        return declare


class GuardedFlask(Flask):
    """Flask that takes no address whose access is not declared."""

    def add_url_rule(
        self,
        rule: str,
        endpoint: str | None = None,
        view_func: Any = None,
        provide_automatic_options: bool | None = None,
        **options: Any,
    ) -> None:
        """Add an address; the view must have been declared with its access."""
        if getattr(view_func, "access", None) is None:
            raise TypeError(f"{rule} declares no access; give its view one (see api.routes)")
        super().add_url_rule(rule, endpoint, view_func, provide_automatic_options, **options)


def register(app: GuardedFlask, route: Route) -> None:
    """Serve a route."""
    app.add_url_rule(route.path, route.name, _ready(route), methods=[route.method])


def _ready(route: Route) -> View:
    @wraps(route.view)
    def view(**path: Any) -> Response:
        # An address that takes no query refuses every parameter.
        query = read_query(route.query)
        given = {} if route.query is None else {"query": query}
        if route.body is not None:
            given["body"] = read_json(route.body, route.body_bytes)
        return route.view(**path, **given)

    view.access = route.access  # type: ignore[attr-defined]
    view.rate = route.rate  # type: ignore[attr-defined]
    return view
