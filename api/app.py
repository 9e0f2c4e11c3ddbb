"""The app: one Flask application over the stored state."""

from __future__ import annotations

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.routing import BaseConverter, PathConverter

from api import (
    accounts,
    catalog,
    channels,
    docs,
    evaluations,
    health,
    jobs,
    maps,
    metrics,
    nodes,
    results,
    sets,
    streams,
    workers,
)
from api.auth import TokenCache, authorize
from api.broker import Broker
from api.channel_hub import ChannelHub
from api.envelopes import Envelopes
from api.headers import secure
from api.hub import EventHub
from api.limits import RateLimits
from api.logs import watch_requests
from api.metrics import RequestMetrics
from api.problems import register_errors
from api.routes import GuardedFlask, Route, register
from api.service import NAME, Service
from api.settings import ApiSettings, read_api_settings
from api.signing import Signer
from api.uses import Uses
from models.base import ID_PATTERN, NUMBER_PATTERN
from models.database import Database
from models.maps import NAME_PATTERN
from models.nodes import NODE_PATTERN
from models.settings import ServiceSettings
from models.settings import get_settings as get_service_settings
from models.workers import OWNER_PATTERN
from skipmap.maps.keys import DEFAULT_KEY_FILE
from skipmap.settings import Settings
from skipmap.settings import get_settings as get_library_settings

_MODULES = (
    jobs,
    streams,
    evaluations,
    results,
    sets,
    catalog,
    maps,
    channels,
    nodes,
    accounts,
    workers,
    health,
    metrics,
    docs,
)
_CONNECT_SECONDS = 1
_RETRY_SECONDS = 0.5
_LOCK_SECONDS = 1.0
_STATEMENT_SECONDS = 20.0


class _IdConverter(BaseConverter):
    regex = ID_PATTERN


class _NameConverter(BaseConverter):
    regex = NAME_PATTERN


class _NumberConverter(BaseConverter):
    regex = NUMBER_PATTERN

    def to_python(self, value: str) -> int:
        return int(value)


class _NodeConverter(BaseConverter):
    regex = NODE_PATTERN


class _OwnerConverter(PathConverter):
    regex = OWNER_PATTERN


CONVERTERS: dict[str, type[BaseConverter]] = {
    "id": _IdConverter,
    "name": _NameConverter,
    "number": _NumberConverter,
    "node": _NodeConverter,
    "owner": _OwnerConverter,
}
"""What a variable part of an address may look like, by its kind."""


def all_routes() -> list[Route]:
    """Every route of the API."""
    return [route for module in _MODULES for route in module.routes]


def create_app(
    stored: ServiceSettings | None = None,
    settings: ApiSettings | None = None,
    library: Settings | None = None,
) -> Flask:
    """Build the app; settings that are not given come from the environment.

    No server needs to be there yet: connections are made when they are needed.
    """
    service = make_service(
        stored or get_service_settings(), settings or read_api_settings(), library or get_library_settings()
    )
    app = GuardedFlask("api", static_folder=None)
    # A browser asks no other site's page for this API, so no view answers OPTIONS.
    app.config.update(
        PROVIDE_AUTOMATIC_OPTIONS=False,
        MAX_CONTENT_LENGTH=service.settings.body_bytes,
        TRAP_HTTP_EXCEPTIONS=False,
        PROPAGATE_EXCEPTIONS=False,
    )
    app.url_map.converters.update(CONVERTERS)
    # An address with two slashes in a row is another address, not one to be sent on from.
    app.url_map.merge_slashes = False
    if service.settings.trusted_proxies:
        count = service.settings.trusted_proxies
        proxies = {"x_for": count, "x_prefix": count, "x_proto": 0}
        app.wsgi_app = ProxyFix(app.wsgi_app, **proxies)  # type: ignore[method-assign]
    app.extensions[NAME] = service
    secure(app)
    watch_requests(app, service)
    app.before_request(lambda: authorize(service))
    app.before_request(service.limits.check)
    register_errors(app)
    for route in all_routes():
        register(app, route)
    return app


def make_service(stored: ServiceSettings, settings: ApiSettings, library: Settings) -> Service:
    """What the views share; a database that is away is noticed within two seconds."""
    hasty = stored.model_copy(
        update={
            "connect_timeout_seconds": _CONNECT_SECONDS,
            "retry_seconds": _RETRY_SECONDS,
            "lock_timeout_seconds": _LOCK_SECONDS,
            "statement_timeout_seconds": _STATEMENT_SECONDS,
            "pool_size": settings.api_pool_size,
        }
    )
    database = Database(hasty, name="skipmap-api", silent_seconds=settings.silent_seconds)
    # What is lost in a crash of the database comes again: a report with the node's next poll, a use with the next one.
    reports = Database(hasty, name="skipmap-api", durable=False, silent_seconds=settings.silent_seconds)
    signer = Signer(settings.signing_key_file or library.home / DEFAULT_KEY_FILE)
    envelopes = Envelopes(database, signer, settings.map_validity_hours * 3600)
    return Service(
        settings=settings,
        stored=stored,
        library=library,
        database=database,
        reports=reports,
        broker=Broker(stored.broker_url),
        tokens=TokenCache(database, settings.token_cache_seconds),
        uses=Uses(reports),
        limits=RateLimits(settings, stored.broker_url),
        hub=EventHub(database, settings.event_poll_seconds, settings.event_streams),
        envelopes=envelopes,
        channels=ChannelHub(envelopes, settings.channel_poll_seconds, settings.long_polls),
        metrics=RequestMetrics(),
    )
