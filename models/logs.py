"""Logging: structured lines on standard error, as text to read or as JSON to collect."""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def set_up_logging(form: Literal["text", "json"]) -> None:
    """Send everything, libraries included, through one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        last: list[structlog.typing.Processor] = [
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ]
    else:
        # Plain tracebacks: others show local variables, and with them addresses that hold passwords.
        plain = structlog.dev.plain_traceback
        last = [structlog.dev.ConsoleRenderer(colors=False, pad_event_to=0, exception_formatter=plain)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    # Messages come and go all the time and say nothing; chunks have lines of their own.
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.INFO)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
