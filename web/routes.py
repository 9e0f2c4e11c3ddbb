"""Routes of pages: address, who may see it, view; declared once for Flask and for authorization."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

from flask import Flask
from flask.typing import ResponseReturnValue

from models.accounts import Scope

Access = Scope | Literal["public", "signed in"]
View = Callable[..., ResponseReturnValue]


@dataclass(frozen=True)
class PageRoute:
    """One method of one address. ``upload``: its body may be as large as an uploaded set.

    ``part``: section of the navigation where that is not the noun whose module declares it.
    """

    method: Literal["GET", "POST"]
    path: str
    access: Access
    view: View
    upload: bool = False
    part: str | None = None

    @property
    def name(self) -> str:
        """Name of the endpoint."""
        return self.view.__name__

    @property
    def section(self) -> str:
        """The section of the navigation that it belongs to."""
        return self.part or self.view.__module__.rpartition(".")[2]


class Pages(list[PageRoute]):
    """The routes of one module; ``section``: of the navigation, by default the module's name."""

    def __init__(self, section: str | None = None) -> None:
        super().__init__()
        self._section = section

    def get(self, path: str, *, access: Access) -> Callable[[View], View]:
        """Declare what an address shows."""
        return self._declare("GET", path, access, upload=False)

    def post(self, path: str, *, access: Access, upload: bool = False) -> Callable[[View], View]:
        """Declare what a form does."""
        return self._declare("POST", path, access, upload=upload)

    def _declare(
        self, method: Literal["GET", "POST"], path: str, access: Access, *, upload: bool
    ) -> Callable[[View], View]:
        def declare(view: View) -> View:
            self.append(PageRoute(method, path, access, view, upload, self._section))
            return view

        return declare


def register(app: Flask, route: PageRoute) -> None:
    """Serve a route."""

    @wraps(route.view)
    def view(**path: Any) -> ResponseReturnValue:
        return route.view(**path)

    view.access = route.access  # type: ignore[attr-defined]
    view.route = route  # type: ignore[attr-defined]
    app.add_url_rule(route.path, route.name, view, methods=[route.method])
