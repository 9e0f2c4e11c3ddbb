"""Logging: structured lines on standard error, as text to read or as JSON to collect."""

from __future__ import annotations

import logging.config
from collections.abc import Sequence
from typing import Any, Literal

import structlog

from skipmap.visible import visible

Form = Literal["text", "json"]

_SHARED: Sequence[structlog.typing.Processor] = (
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)
_QUIET = {
    # Messages come and go all the time and say nothing; chunks have lines of their own.
    "celery.worker.strategy": "WARNING",
    "celery.app.trace": "WARNING",
    # The API writes one line a request itself.
    "gunicorn.access": "CRITICAL",
}


def set_up_logging(form: Form) -> None:
    """Send everything that this process logs, libraries included, through one format."""
    logging.config.dictConfig(logging_config(form))
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def logging_config(form: Form) -> dict[str, Any]:
    """The same for ``logging.config.dictConfig``, as servers with a logging of their own take it."""
    quiet = {name: {"level": level, "handlers": [], "propagate": True} for name, level in _QUIET.items()}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "root": {"level": "INFO", "handlers": ["stderr"]},
        "loggers": quiet | {"gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "structured",
                "stream": "ext://sys.stderr",
            }
        },
        "formatters": {"structured": {"()": _formatter, "form": form}},
    }


def _formatter(form: Form) -> structlog.stdlib.ProcessorFormatter:
    # Plain tracebacks: others show local variables, and with them addresses that hold passwords.
    last: list[structlog.typing.Processor] = [
        _one_line_event,
        structlog.dev.ConsoleRenderer(
            colors=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
        ),
        _visible_text,
    ]
    if form == "json":
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def _one_line_event(
    logger: Any, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    # Values with line breaks are quoted by the renderer, the event itself is not.
    event["event"] = visible(str(event.get("event", "")), keep="")
    return event


def _visible_text(logger: Any, method: str, text: Any) -> str:
    # What others send, such as addresses, ends up on somebody's terminal.
    return visible(text)
