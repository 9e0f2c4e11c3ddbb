"""The whole app: the API and, beside it, the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from flask import Flask, request
from flask.sessions import SecureCookieSessionInterface
from werkzeug.middleware.proxy_fix import ProxyFix

from api import app as api_app
from api.logs import watch_requests
from api.routes import PREFIX
from api.service import NAME, Service
from api.settings import ApiSettings
from models.settings import ServiceSettings
from skipmap.settings import Settings
from web import assets, pages
from web.bodies import PageRequest
from web.compression import compress_answers
from web.guard import SETTINGS, guard
from web.policy import secure
from web.problems import register_problem_pages
from web.rendering import set_up_templates
from web.routes import PageRoute, register
from web.secret import DEFAULT_FILE, read_or_make
from web.settings import WebSettings, read_web_settings

_COOKIE = "skipmap_session"
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Cookie(SecureCookieSessionInterface):
    """The signed cookie; for https alone where the page came by it."""

    def get_cookie_secure(self, app: Flask) -> bool:
        setting: bool | None = app.extensions[SETTINGS].secure_cookies
        return request.is_secure if setting is None else setting


def all_pages() -> list[PageRoute]:
    """Every route of the dashboard."""
    modules = [import_module(f"{pages.__name__}.{found.name}") for found in iter_modules(pages.__path__)]
    declared = [module.pages for module in modules if hasattr(module, "pages")]
    return [route for routes in [assets.pages, *declared] for route in routes]


def create_app(
    stored: ServiceSettings | None = None,
    settings: ApiSettings | None = None,
    library: Settings | None = None,
    web: WebSettings | None = None,
) -> Flask:
    """Build API and pages as one app; settings that are not given come from the environment."""
    app = api_app.create_app(stored, settings, library)
    front = make_pages(app.extensions[NAME], web or read_web_settings())
    own = {route.path.split("/")[1] for route in api_app.all_routes() if not route.path.startswith(PREFIX)}
    app.extensions["skipmap-pages"] = front
    app.wsgi_app = _Split(app.wsgi_app, front.wsgi_app, own | {PREFIX.split("/")[1]})  # type: ignore[method-assign]
    return app


def make_pages(service: Service, settings: WebSettings) -> Flask:
    """The pages as an app of their own over the same service."""
    assets.manifest()
    app = Flask("web", static_folder=None, template_folder="templates")
    app.secret_key = read_or_make(settings.secret_key_file or service.library.home / DEFAULT_FILE)
    app.config.update(
        PROVIDE_AUTOMATIC_OPTIONS=False,
        PROPAGATE_EXCEPTIONS=False,
        SESSION_COOKIE_NAME=_COOKIE,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_REFRESH_EACH_REQUEST=False,
        PERMANENT_SESSION_LIFETIME=timedelta(hours=settings.session_hours),
    )
    app.session_interface = _Cookie()
    app.request_class = PageRequest
    app.url_map.converters.update(api_app.CONVERTERS)
    app.url_map.merge_slashes = False
    if service.settings.trusted_proxies:
        count = service.settings.trusted_proxies
        # Cookies and forms depend on how the browser came, which only the proxy knows.
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]
            app.wsgi_app, x_for=count, x_prefix=count, x_proto=count, x_host=count
        )
    app.extensions[NAME] = service
    app.extensions[SETTINGS] = settings
    secure(app)
    compress_answers(app)
    watch_requests(app, service)
    app.before_request(lambda: guard(service, settings))
    register_problem_pages(app)
    set_up_templates(app)
    for route in all_pages():
        register(app, route)
    if settings.oidc_issuer is not None:
        # What is wrong with it is told at the start, and not to the first person who signs in.
        from web.oidc import make_provider

        make_provider(settings)
    return app


class _Split:
    """Sends the API's addresses to the API and all others to the pages."""

    def __init__(self, api: Wsgi, front: Wsgi, own: set[str]) -> None:
        self._api, self._front, self._own = api, front, own

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        first = environ.get("PATH_INFO", "").split("/", 2)[1:2]
        target = self._api if first and first[0] in self._own else self._front
        return target(environ, start_response)
