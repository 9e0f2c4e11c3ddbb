"""Gunicorn's settings: ``gunicorn --config api/gunicorn.conf.py 'api.app:create_app()'`` in the checkout."""

from __future__ import annotations

import contextlib
import resource
import sys
from typing import Any

from gevent import Timeout

from api.greenlets import SWITCH_SECONDS
from api.settings import read_api_settings
from models.logs import logging_config, set_up_logging
from models.settings import get_settings

_settings = read_api_settings()
_log_format = get_settings().log_format
_UNREAD_BYTES = 64 << 20
_UNREAD_SECONDS = 8
_OTHER_CONNECTIONS = 2000
_OTHER_FILES = 200

bind = (
    f"[{_settings.host}]:{_settings.port}" if ":" in _settings.host else f"{_settings.host}:{_settings.port}"
)
workers = _settings.api_workers
# Streams of events and nodes that wait for moves: with greenlets that costs no thread each.
worker_class = "gevent"
# Below this the app itself says that too many wait; connections kept open between requests count as well.
worker_connections = _settings.event_streams + _settings.long_polls + _OTHER_CONNECTIONS
backlog = 4096
# Each worker makes its own connections; nothing is shared over the fork.
preload_app = False
timeout = 60
graceful_timeout = 10
keepalive = 15
control_socket_disable = True
# The app believes as many proxies as the settings say; gunicorn by itself believes whoever comes from this machine.
forwarded_allow_ips = ""
forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
# The app writes one line a request itself.
accesslog = None
errorlog = "-"
logconfig_dict = logging_config(_log_format)


def on_starting(server: Any) -> None:
    """Raise the limit on open files, which workers inherit: many systems begin with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = worker_connections + _OTHER_FILES
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        server.log.warning("%d open files are allowed; %d are wanted (ulimit -n)", most, wanted)


def post_worker_init(worker: Any) -> None:
    """Load what the first job would wait for, and let open streams end when the worker is told to."""
    from api.warm import warm_up

    set_up_logging(_log_format)
    sys.setswitchinterval(SWITCH_SECONDS)
    warm_up()
    service = worker.wsgi.extensions["skipmap"]
    service.hub.stopping = service.channels.stopping = lambda: not worker.alive


def post_request(worker: Any, request: Any, environ: Any, response: Any) -> None:
    """Take in what nobody has read of a body: a client that is still sending would never see the answer."""
    body = request.body
    left = _UNREAD_BYTES
    # A reader that has failed stays failed, and the client may have left.
    with contextlib.suppress(Exception), Timeout(_UNREAD_SECONDS, False):
        while left > 0 and not body.failed and (piece := body.read(min(left, 1 << 16))):
            left -= len(piece)
