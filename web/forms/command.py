"""The same job from a command line: a request with curl, and the options of ``skipmap jobs submit``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from api.routes import PREFIX
from skipmap.cli.places import PLACES
from skipmap.cli.values import parameters
from skipmap.client.documents import JobRequest
from skipmap.spec import ParamValue
from web.forms.fields import fields
from web.forms.job import has_value

_END = "EOF"
_OPTIONS = {place: option for option, place in PLACES.items()}
_CONTINUED = " \\\n  "


@dataclass(frozen=True)
class Commands:
    """Texts for a POSIX shell; curl's takes the token from ``SKIPMAP_TOKEN``, as the command does by itself."""

    curl: str
    skipmap: str


class _NoOption(Exception):
    """The command has no option for a field, or none that takes such a value."""


def commands(request: JobRequest, server: str) -> Commands:
    """Both texts for a request to the service at this address."""
    body = shortest(request)
    document = f"{json.dumps(body, indent=2, ensure_ascii=False)}\n{_END}"
    curl = _CONTINUED.join(
        [
            f"curl --fail-with-body -X POST {shlex.quote(f'{server}{PREFIX}/jobs')}",
            '-H "Authorization: Bearer $SKIPMAP_TOKEN"',
            "-H 'Content-Type: application/json'",
            f"--data-binary @- <<'{_END}'\n{document}",
        ]
    )
    submit = f"skipmap jobs submit --server {shlex.quote(server)}"
    try:
        return Commands(curl, _CONTINUED.join([submit, *_options(body)]))
    except _NoOption:
        return Commands(curl, f"{submit} --spec /dev/stdin <<'{_END}'\n{document}")


def shortest(request: JobRequest) -> dict[str, Any]:
    """A request as plain data without what an empty field would say as well."""
    data = request.model_dump(mode="json", exclude_unset=True)
    for field in fields().values():
        holder = data.get(field.section, {}) if field.section else data
        value = holder.get(field.name)
        if value is None or value == {} or (has_value(field) and value == field.default):
            holder.pop(field.name, None)
    return {name: value for name, value in data.items() if value != {}}


def _options(body: Mapping[str, Any]) -> Iterator[str]:
    for name, value in body.items():
        if not isinstance(value, dict):
            yield _option(name, value)
        elif name == "labels":
            yield from _pairs("label", value)
        else:
            for field, inner in value.items():
                yield from _of_section(name, field, inner)


def _of_section(section: str, field: str, value: Any) -> Iterator[str]:
    if (section, field) == ("draft", "params"):
        yield f"--draft-param {' '.join(map(_parameter, value, value.values()))}"
    elif (section, field) == ("calibration", "columns"):
        yield from _pairs("column", value)
    elif (section, field) == ("search", "allow_no_signal"):
        yield "--force-no-signal"
    elif (section, field) in _OPTIONS:
        yield _option(_OPTIONS[section, field], value)
    else:
        raise _NoOption


def _option(name: str, value: Any) -> str:
    # A value that looks like an option has to be tied to its own.
    tie = "=" if str(value).startswith("-") else " "
    return f"--{name.replace('_', '-')}{tie}{shlex.quote(str(value))}"


def _pairs(name: str, values: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        if not key or "=" in key:
            raise _NoOption
        yield _option(name, f"{key}={value}")


def _parameter(name: str, value: ParamValue) -> str:
    for text in (value, json.dumps(value, ensure_ascii=False)):
        if not name or "=" in name or name.startswith("-"):
            break
        pair = f"{name}={text}"
        read = parameters([pair])[name]
        if type(read) is type(value) and read == value:
            return shlex.quote(pair)
    raise _NoOption
