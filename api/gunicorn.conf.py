"""Gunicorn's settings: ``gunicorn --config api/gunicorn.conf.py 'api.app:create_app()'`` in the checkout."""

from __future__ import annotations

from typing import Any

import structlog

from api.settings import read_api_settings

_settings = read_api_settings()

bind = (
    f"[{_settings.host}]:{_settings.port}" if ":" in _settings.host else f"{_settings.host}:{_settings.port}"
)
workers = _settings.api_workers
# Streams of events wait; with greenlets that costs no thread each.
worker_class = "gevent"
worker_connections = 1000
# Each worker makes its own connections; nothing is shared over the fork.
preload_app = False
timeout = 60
graceful_timeout = 10
keepalive = 15
control_socket_disable = True
# The app writes one line a request itself.
accesslog = None
errorlog = "-"
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "root": {"level": "WARNING", "handlers": ["stderr"]},
    "loggers": {
        "gunicorn.error": {"level": "INFO", "handlers": ["stderr"], "propagate": False},
        "gunicorn.access": {"level": "CRITICAL", "handlers": [], "propagate": False},
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    },
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.dict_tracebacks,
                structlog.processors.JSONRenderer(),
            ],
        }
    },
}


def post_worker_init(worker: Any) -> None:
    """Load what the first job would wait for, and let open streams end when the worker is told to."""
    from api.warm import warm_up

    warm_up()
    worker.wsgi.extensions["skipmap"].hub.stopping = lambda: not worker.alive
