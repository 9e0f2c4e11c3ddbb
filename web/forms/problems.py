"""What is wrong with a form for a job: all that can be told at once, each with the control that it belongs to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

from api.admission import expand
from api.sections import checked_domain, checked_draft, checked_target
from api.service import Service
from skipmap.client.documents import JobRequest
from skipmap.errors import InvalidInput
from skipmap.spec import DraftSpec, JobSpec
from web.forms.fields import fields, sections
from web.forms.help import HELP, help_of
from web.forms.job import SOURCES, Typed, control_of, read_form
from web.forms.text import shortened

_MOST_CHARACTERS = 400
_MOST_PROBLEMS = 20
"""Of parameters: each more is found by looking at all the others again."""
_NEEDED = {
    "target.id": "Choose a target, or give the name of one.",
    "draft.method": "Choose a draft method.",
    "domain.name": "Choose a domain, or give the name of a new one.",
    "calibration.source": "Choose where the prompts come from, and which ones.",
}
_PLAIN = (
    (r"^Value error, ", ""),
    (r"^Input should be a valid integer\b[^(]*", "must be a whole number "),
    (r"^Input should be a valid number\b[^(]*", "must be a number "),
    (r"^Input should be greater than or equal to ", "must be at least "),
    (r"^Input should be less than or equal to ", "must be at most "),
    (r"^Input should be ", "must be "),
    (r"^String should have at ", "must have at "),
    (
        r"^String should match pattern '\^\[a-z0-9\]\S*'",
        "must be made of small letters, digits, dots, hyphens and underscores, and begin with a letter or digit",
    ),
)
"""What the models say, and how it is said to people who know a form and no types."""
_STAND_IN = "x"
"""Put in the place of a bad value so that the others can be looked at; every required field takes it."""
_PATHS = {
    "target.choice": "target.id",
    "domain.choice": "domain.name",
    "decoding.stop_from": "decoding.stop",
    **{f"calibration.{kind}": "calibration.source" for kind in ("kind", *SOURCES)},
}
"""Controls that are called otherwise than the field that they belong to."""
_ORDER = {path: place for place, path in enumerate(HELP)}


def request_of(form: Typed) -> tuple[JobRequest | None, dict[str, str]]:
    """The request that a form asks for, or None and what is wrong with it, by path."""
    request, found = _looked_at(form)
    return (None, found) if found else (request, {})


def all_problems(service: Service, form: Typed) -> dict[str, str]:
    """What is wrong with a form, and what the service has against the sections that are there; by path."""
    request, found = _looked_at(form)
    if request is None:
        return found
    # In the place of what is missing or wrong stands something that is none of theirs.
    put_right = {path.partition(".")[0] for path in _NEEDED if path in found}
    more = section_problems(service, request)
    return {path: text for path, text in more.items() if path.partition(".")[0] not in put_right} | found


def _looked_at(form: Typed) -> tuple[JobRequest | None, dict[str, str]]:
    """The request of a form, with what is wrong put right where that is possible, and what is wrong, by path."""
    found: dict[str, str] = {}
    data = read_form(form, found)
    request = _parsed(data, found)
    missing = {path: text for path, text in _NEEDED.items() if path in found and not _is_given(data, path)}
    return request, found | missing


def section_problems(service: Service, request: JobRequest) -> dict[str, str]:
    """What the service has against the sections of a request, each looked at by itself; by path."""
    spec = JobSpec(**{name: getattr(request, name) for name in JobSpec.model_fields})
    try:
        spec = service.database.read(expand, spec)
    except InvalidInput as error:
        return {error.field: error.problem}
    roots = service.library.model_roots
    found = _draft_problems(spec.draft, roots)
    for check in (lambda: checked_target(spec.target, roots), lambda: checked_domain(spec.domain)):
        try:
            check()
        except InvalidInput as error:
            found[error.field] = error.problem
    return found


def _parsed(data: Mapping[str, Any], found: dict[str, str]) -> JobRequest | None:
    """The data as a request, without what is wrong, which is then in ``found``; None where that is no request."""
    rest = deepcopy(dict(data))
    while True:
        try:
            request = JobRequest.parse(rest)
        except InvalidInput as error:
            found.setdefault(error.field, error.problem)
            # The next problem shows once this one is out of the way.
            if not _put_right(rest, error.field):
                return None
        else:
            return cast(JobRequest, request)


def _put_right(data: dict[str, Any], path: str) -> bool:
    """Take a bad value out of the data; False where that is not possible."""
    section, _, rest = path.partition(".")
    holder, name = (data[section], rest.partition(".")[0]) if section in sections() else (data, section)
    before = holder.pop(name, None)
    if f"{section}.{name}" in _NEEDED:
        holder[name] = _STAND_IN
        return bool(before != _STAND_IN)
    return before is not None


def _is_given(data: Mapping[str, Any], path: str) -> bool:
    section, name = path.split(".")
    return name in data[section]


def _draft_problems(draft: DraftSpec, roots: Sequence[Path]) -> dict[str, str]:
    found: dict[str, str] = {}
    while len(found) < _MOST_PROBLEMS:
        try:
            checked_draft(draft, roots)
        except InvalidInput as error:
            found[error.field] = error.problem
            name = error.field.removeprefix("draft.params.")
            if name not in draft.params:
                break
            rest = {key: value for key, value in draft.params.items() if key != name}
            draft = draft.model_copy(update={"params": rest})
        else:
            break
    return found


def by_control(problems: Mapping[str, str], form: Typed) -> dict[str, str]:
    """Problems by the name of the control that each belongs to; those that belong to none are joined."""
    found: dict[str, str] = {}
    for path, problem in problems.items():
        control = control_of(path, form)
        text = shortened(plain(problem), _MOST_CHARACTERS)
        if not control:
            text = f"{path}: {text}"
        found[control] = f"{found[control]}; {text}" if control in found else text
    return found


def plain(problem: str) -> str:
    """A problem in plain words, as a sentence of its own."""
    for pattern, words in _PLAIN:
        problem = re.sub(pattern, words, problem)
    return problem[:1].upper() + problem[1:]


def summary_of(errors: Mapping[str, str]) -> dict[str, str]:
    """Errors for the list at the top of the form, in its order; there the field is not seen beside its error."""
    ordered = sorted(errors.items(), key=lambda error: _ORDER.get(_path_of(error[0]), len(_ORDER)))
    return {
        control: f"{label}: {text}" if (label := label_of(control)) else text for control, text in ordered
    }


def label_of(control: str) -> str:
    """What a control is called on the page."""
    _, is_parameter, name = control.partition(":")
    if is_parameter:
        return name.replace("_", " ").capitalize()
    path = _path_of(control)
    return help_of(path).label if path in fields() else ""


def _path_of(control: str) -> str:
    """The field that a control belongs to."""
    name, is_parameter, _ = control.partition(":")
    return "draft.params" if is_parameter else _PATHS.get(name, name)
