"""Service: what the views of one process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from flask import current_app

from api.settings import ApiSettings
from models.database import Database
from models.settings import ServiceSettings
from skipmap.settings import Settings

if TYPE_CHECKING:
    from api.auth import TokenCache
    from api.broker import Broker
    from api.channel_hub import ChannelHub
    from api.envelopes import Envelopes
    from api.hub import EventHub
    from api.limits import RateLimits
    from api.metrics import RequestMetrics
    from api.uses import Uses

NAME = "skipmap"
"""Under this name Flask keeps the service among its extensions."""


@dataclass(frozen=True)
class Service:
    """Settings, the database and what is kept in memory."""

    settings: ApiSettings
    stored: ServiceSettings
    library: Settings
    database: Database
    reports: Database
    broker: Broker
    tokens: TokenCache
    uses: Uses
    limits: RateLimits
    hub: EventHub
    envelopes: Envelopes
    channels: ChannelHub
    metrics: RequestMetrics


def current_service() -> Service:
    """The service of the running app."""
    return cast(Service, current_app.extensions[NAME])
