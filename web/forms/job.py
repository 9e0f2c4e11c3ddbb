"""The form of a job: what was typed as plain data, with the types that JSON would have, and a spec as what is typed.

Names of controls are the paths of the spec's fields. Some fields have more than one: target and domain are chosen from
a list or typed (``target.choice``, ``target.id``), and prompts come from an uploaded set, a sample or a data set of the
hub (``calibration.kind``, and a control for each). A draft's parameters have controls for each method,
``draft.params.METHOD:NAME``; others are written as text into ``draft.params``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skipmap.calibration.domains import preset_names
from skipmap.calibration.sources import SAMPLE_PREFIX
from skipmap.client.documents import SET_SOURCE, JobRequest
from skipmap.spec import ParamValue
from skipmap.target.known import KNOWN_TARGETS
from web.forms.fields import Field, Kind, fields, sections
from web.forms.parameters import control_of_parameter, parameters_of
from web.forms.text import (
    MOST_LINES,
    read_lines,
    read_number,
    read_pairs,
    read_scalar,
    read_text,
    shortened,
    write_lines,
    write_number,
    write_pairs,
    write_scalar,
    write_text,
)

Typed = Mapping[str, str]
"""What a form sends: values by names of controls."""

OTHER = "-other"
"""Chosen in a list of names: none of them, but what is typed beside it. No name begins so."""

TICKED = "true"
OWN_STOP = "own"
"""Chosen for ``decoding.stop_from``: the strings that are typed, not those of the domain."""

SET, SAMPLE, HUB = "set", "sample", "hub"
"""Kinds of sources of calibration prompts."""
SOURCES = {SET: SET_SOURCE, SAMPLE: SAMPLE_PREFIX, HUB: ""}

_CHOSEN = {"target.id": "target.choice", "domain.name": "domain.choice"}


def read_form(form: Typed, problems: dict[str, str] | None = None) -> dict[str, Any]:
    """What was typed, as the plain data of a request; fields that were left empty are not in it.

    What is no number stays as it was typed, for the request's models to refuse. ``problems`` is told, by path, what
    cannot be read at all.
    """
    problems = {} if problems is None else problems
    data: dict[str, Any] = {section: {} for section in sections()}
    for field in fields().values():
        reader = _SPECIAL_READERS.get(field.path, _READERS[field.kind])
        value = reader(form, field.path, problems)
        if value is not None and value != {}:
            (data[field.section] if field.section else data)[field.name] = value
    return data


def fill(request: JobRequest | Mapping[str, Any]) -> dict[str, str]:
    """Values of the controls for a request, or for a part of one as plain data; ``read_form`` gives it back."""
    data = request.model_dump(mode="json") if isinstance(request, JobRequest) else request
    values: dict[str, str] = {}
    for field in fields().values():
        given = data.get(field.section) or {} if field.section else data
        value = given.get(field.name, field.default if given and field.is_left_out else None)
        writer = _SPECIAL_WRITERS.get(field.path)
        if writer is not None:
            values |= writer(value, data)
        else:
            values[field.path] = _WRITERS[field.kind](value)
    return values


def defaults(given: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Values of a form that nobody has touched: the models' own defaults, where a default is a value of its own.

    ``given``: a part of a request as plain data, which comes first.
    """
    data: dict[str, Any] = {section: {} for section in sections()}
    for field in fields().values():
        if has_value(field):
            (data[field.section] if field.section else data)[field.name] = field.default
    for name, value in (given or {}).items():
        data[name] = {**data[name], **value} if name in sections() else value
    return fill(data)


def has_value(field: Field) -> bool:
    """Whether an untouched form shows the field's default.

    Elsewhere an empty field leaves it to the default, or to the user's own entry of that name.
    """
    return field.default is not None and field.section not in ("target", "draft", "domain")


def control_of(path: str, form: Typed) -> str:
    """Name of the control that a field's error belongs to; empty when there is none."""
    if path in _CHOSEN:
        chosen = _CHOSEN[path]
        return path if form.get(chosen) == OTHER else chosen
    if path == "calibration.source":
        kind = form.get("calibration.kind", "")
        return f"calibration.{kind}" if kind in SOURCES else "calibration.kind"
    section, _, rest = path.partition(".")
    if section == "draft" and rest.startswith("params."):
        method, name = _method(form), rest.removeprefix("params.")
        control = control_of_parameter(method, name)
        return control if control in form else "draft.params"
    own = ".".join(path.split(".")[: 2 if section in sections() else 1])
    return own if own in fields() else ""


def _method(form: Typed) -> str:
    return read_text(form.get("draft.method", "")) or ""


def _read_chosen(form: Typed, path: str, problems: dict[str, str]) -> str | None:
    chosen = form.get(_CHOSEN[path], "")
    return read_text(form.get(path, "")) if chosen in ("", OTHER) else chosen


def _read_parameters(form: Typed, path: str, problems: dict[str, str]) -> dict[str, ParamValue]:
    prefix = control_of_parameter(_method(form), "")
    controls = [name for name, typed in form.items() if name.startswith(prefix) and typed.strip()]
    if len(controls) > MOST_LINES:
        problems.setdefault(path, "no draft method has so many parameters; load the page again")
    given = {name.removeprefix(prefix): read_scalar(form[name]) for name in controls[:MOST_LINES]}
    others = _read_pairs(form, path, problems, texts=False)
    twice = sorted(given.keys() & others.keys())
    if twice:
        problems.setdefault(path, f'"{shortened(twice[0])}" has a field of its own; give it in one place')
    return {**others, **given}


def _read_source(form: Typed, path: str, problems: dict[str, str]) -> str | None:
    kind = form.get("calibration.kind", "")
    named = read_text(form.get(f"calibration.{kind}", "")) if kind in SOURCES else None
    return None if named is None else SOURCES[kind] + named


def _read_stop(form: Typed, path: str, problems: dict[str, str]) -> list[str] | None:
    return _read_lines(form, path, problems) if form.get("decoding.stop_from") == OWN_STOP else None


def _read_lines(form: Typed, path: str, problems: dict[str, str]) -> list[str]:
    found, wrong = read_lines(form.get(path, ""))
    if wrong:
        problems.setdefault(path, wrong[0])
    return found


def _read_pairs(form: Typed, path: str, problems: dict[str, str], *, texts: bool = True) -> dict[str, Any]:
    found, wrong = read_pairs(form.get(path, ""), texts=texts)
    if wrong:
        problems.setdefault(path, "; ".join(wrong[:3]))
    return found


def _write_target(value: str | None, data: Mapping[str, Any]) -> dict[str, str]:
    return _write_chosen("target.id", value, KNOWN_TARGETS)


def _write_domain(value: str | None, data: Mapping[str, Any]) -> dict[str, str]:
    return _write_chosen("domain.name", value, preset_names())


def _write_chosen(path: str, value: str | None, known: Mapping[str, Any] | list[str]) -> dict[str, str]:
    if value is None or value in known:
        return {_CHOSEN[path]: value or "", path: ""}
    return {_CHOSEN[path]: OTHER, path: write_text(value)}


def _write_parameters(value: Mapping[str, ParamValue] | None, data: Mapping[str, Any]) -> dict[str, str]:
    method = (data.get("draft") or {}).get("method") or ""
    controls = {parameter.name: parameter for parameter in parameters_of(method)}
    placed, others = {}, {}
    for name, given in (value or {}).items():
        written = write_scalar(given)
        if name in controls and controls[name].takes(written):
            placed[control_of_parameter(method, name)] = written
        else:
            others[name] = given
    return {**placed, "draft.params": write_pairs(others, texts=False)}


def _write_source(value: str | None, data: Mapping[str, Any]) -> dict[str, str]:
    found = dict.fromkeys((f"calibration.{kind}" for kind in SOURCES), "")
    if value is None:
        return {**found, "calibration.kind": ""}
    kind = next(kind for kind, prefix in SOURCES.items() if value.startswith(prefix))
    return {
        **found,
        "calibration.kind": kind,
        f"calibration.{kind}": write_text(value.removeprefix(SOURCES[kind])),
    }


def _write_stop(value: list[str] | None, data: Mapping[str, Any]) -> dict[str, str]:
    return {
        "decoding.stop_from": "" if value is None else OWN_STOP,
        "decoding.stop": write_lines(value or ()),
    }


Reader = Callable[[Typed, str, dict[str, str]], Any]

_READERS: dict[Kind, Reader] = {
    "text": lambda form, path, _: read_text(form.get(path, "")),
    "number": lambda form, path, _: read_number(form.get(path, "")),
    "choice": lambda form, path, _: form.get(path, "").strip() or None,
    "flag": lambda form, path, _: True if form.get(path) == TICKED else None,
    "lines": lambda form, path, problems: _read_lines(form, path, problems) or None,
    "pairs": _read_pairs,
    "parameters": _read_parameters,
}
_SPECIAL_READERS: dict[str, Reader] = {
    "target.id": _read_chosen,
    "domain.name": _read_chosen,
    "calibration.source": _read_source,
    "decoding.stop": _read_stop,
}
_WRITERS: dict[Kind, Callable[[Any], str]] = {
    "text": write_text,
    "number": write_number,
    "choice": lambda value: value or "",
    "flag": lambda value: TICKED if value else "",
    "lines": lambda value: write_lines(value or ()),
    "pairs": lambda value: write_pairs(value or {}, texts=True),
}
_SPECIAL_WRITERS: dict[str, Callable[[Any, Mapping[str, Any]], dict[str, str]]] = {
    "target.id": _write_target,
    "domain.name": _write_domain,
    "draft.params": _write_parameters,
    "calibration.source": _write_source,
    "decoding.stop": _write_stop,
}
