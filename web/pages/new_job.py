"""The form for a new job: the whole spec with help, what it will cost, how its prompts look, the same as commands."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import Response, g, request, url_for
from flask.typing import ResponseReturnValue

from api.problems import ProblemError
from api.service import Service
from api.submission import submit_job
from models.accounts import Principal
from models.base import is_id
from models.errors import KeyInUse, KeyReused
from models.queries import find_job
from skipmap.errors import InvalidInput, NotFound
from skipmap.spec import READ_BY
from web.filters import plural
from web.forms.check import errors_of, notes_of
from web.forms.choices import options_of, read_choices
from web.forms.command import Commands, commands
from web.forms.estimate import estimate
from web.forms.fields import fields
from web.forms.help import help_of, paths_of
from web.forms.job import SET, TICKED, defaults, fill
from web.forms.preview import Preview, preview
from web.forms.problems import by_control, request_of, summary_of
from web.forms.uploads import FILE, sent_file, store_file, told
from web.guard import service_and_principal
from web.rendering import FRAGMENT, data_response, done, refused, render
from web.routes import Pages
from web.turns import Turns
from web.views.jobs import name_of

pages = Pages(section="jobs")
_TEMPLATE = "jobs/new.html"
_KEY = "idempotency_key"
_KEY_CHARACTERS = 64
_previews = Turns()
_EXAMPLE = {
    "target": {"id": "smollm2-135m-instruct"},
    "draft": {"method": "sam"},
    "domain": {"name": "qa"},
    "calibration": {"source": "sample:qa"},
    "search": {"max_depth": 2, "max_pool": 8},
    "name": "A first job",
}
"""Small enough for a CPU."""


@dataclass
class _Form:
    """What the page shows. ``errors``: by control; ``problems``: of a file; ``notice``: kind, title and text."""

    values: Mapping[str, str]
    errors: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notice: tuple[str, str, str] | None = None
    preview: Preview | None = None
    commands: Commands | None = None
    missing: tuple[str, ...] = ()


@pages.get("/jobs/new", access="jobs:write")
def new_job() -> Response:
    """The form: untouched, or filled from an earlier job (``from``), an uploaded set (``set``) or the example."""
    service, _ = service_and_principal()
    form = _Form({**defaults(), _KEY: _new_key()})
    if earlier := request.args.get("from"):
        _fill_from(service, form, earlier)
    elif request.args.get("example"):
        form.values = {**form.values, **defaults(_EXAMPLE)}
        text = "It takes a few minutes on a CPU. Change what you like, then submit it."
        form.notice = ("info", "This is an example that works as it is", text)
    if chosen := request.args.get("set"):
        form.values = {**form.values, "calibration.kind": SET, "calibration.set": chosen}
    return render(_TEMPLATE, **_context(service, form), errors={})


@pages.post("/jobs/new", access="jobs:write", upload=True)
def create_new_job() -> ResponseReturnValue:
    """Make the job, or show the form again with all that is wrong with it."""
    service, principal = service_and_principal()
    form = _sent()
    _take_file(service, principal, form)
    if request.form.get("do") == "upload":
        return (
            _again(service, form) if form.errors else render(_TEMPLATE, **_context(service, form), errors={})
        )
    asked, _ = request_of(form.values)
    form.errors |= errors_of(service, form.values)
    if asked is None or form.errors:
        return _again(service, form)
    try:
        job_id, new = submit_job(service, principal, asked, form.values[_KEY], g.request_id)
    except InvalidInput as error:
        form.errors = by_control({error.field: error.problem}, form.values)
    except KeyReused:
        form.values = {**form.values, _KEY: _new_key()}
        form.errors = {
            "": "This form has made a job before it was changed. Send it again to make another one."
        }
    except KeyInUse:
        form.errors = {"": "This form is being stored just now. Wait a moment, then send it again."}
    else:
        message = "The job is submitted." if new else "The job was submitted before; this is it."
        kind = "good" if new else "info"
        return done(message, url_for("show_job", job_id=job_id), kind=kind, form=form.values[_KEY])
    return _again(service, form)


@pages.post("/jobs/check", access="jobs:write", upload=True)
def check_job() -> Response:
    """What is wrong with the form as it stands, and what is to be known of what it names; for scripts."""
    service, _ = service_and_principal()
    form = _sent()
    errors = errors_of(service, form.values, closely=request.form.get("closely") == TICKED)
    return data_response({"errors": errors, "notes": notes_of(service, form.values)})


@pages.post("/jobs/estimate", access="jobs:write", upload=True)
def estimate_job() -> Response:
    """What the job will cost, as far as that can be told."""
    service, _ = service_and_principal()
    form = _sent()
    if request.headers.get(FRAGMENT) == "estimate":
        return render(_TEMPLATE, estimate=estimate(service, form.values))
    return render(_TEMPLATE, **_context(service, form), errors={})


@pages.post("/jobs/preview", access="jobs:write", upload=True)
def preview_job() -> Response:
    """How the prompts are divided, and how the first ones look."""
    service, principal = service_and_principal()
    form = _sent()
    # Each change of the form asks anew, and nobody tells the server that an answer is no longer wanted.
    with _previews.of(principal.user_id):
        form.preview = preview(service, form.values)
    if request.headers.get(FRAGMENT) == "preview":
        return render(_TEMPLATE, preview=form.preview)
    return render(_TEMPLATE, **_context(service, form), errors={})


@pages.post("/jobs/command", access="jobs:write", upload=True)
def show_job_command() -> Response:
    """The same job for a command line."""
    service, _ = service_and_principal()
    form = _sent()
    asked, wrong = request_of(form.values)
    if asked is not None:
        form.commands = commands(asked, request.url_root.rstrip("/"))
    form.missing = tuple(summary_of(by_control(wrong, form.values)).values())
    if request.headers.get(FRAGMENT) == "command":
        return render(_TEMPLATE, commands=form.commands, missing=form.missing)
    return render(_TEMPLATE, **_context(service, form), errors={})


def _sent() -> _Form:
    """The form as it came."""
    values = dict(request.form.items())
    key = values.get(_KEY, "")
    usable = 0 < len(key) <= _KEY_CHARACTERS and key.isascii() and key.isprintable()
    return _Form({**values, _KEY: key if usable else _new_key()})


def _again(service: Service, form: _Form) -> Response:
    return refused(_TEMPLATE, form.errors, **_context(service, form))


def _context(service: Service, form: _Form) -> dict[str, Any]:
    return {
        "values": form.values,
        "summary": summary_of(form.errors),
        "problems": form.problems,
        "notice_of_form": form.notice,
        "choices": service.database.read(read_choices, form.values),
        "fields": fields(),
        "help_of": {path: help_of(path) for path in fields()},
        "paths_of": paths_of,
        "options_of": options_of,
        "read_by": {f"search.{name}": ",".join(strategies) for name, strategies in READ_BY.items()},
        "estimate": estimate(service, form.values),
        "notes": notes_of(service, form.values),
        "preview": form.preview,
        "commands": form.commands,
        "missing": form.missing,
    }


def _take_file(service: Service, principal: Principal, form: _Form) -> None:
    """Keep the file of the form as a set, and choose that; what is wrong with it goes into the form."""
    file = sent_file(request.files)
    if file is None:
        if request.form.get("do") == "upload":
            form.errors[FILE] = "No file is chosen. Choose one, or drop it here."
        return
    try:
        view, _ = store_file(service, principal, file)
    except InvalidInput as error:
        form.errors[FILE], form.problems = told(error)
        return
    except ProblemError as error:
        form.errors[FILE] = f"Nothing was stored: {error.detail}."
        return
    form.values = {**form.values, "calibration.kind": SET, "calibration.set": view.id}
    form.notice = (
        "good",
        "The file is stored",
        f"{view.name} with {plural(view.items, 'prompt')} is chosen below.",
    )


def _fill_from(service: Service, form: _Form, job_id: str) -> None:
    """Fill the form with all that decided an earlier job."""
    if not is_id(job_id):
        raise NotFound(f"no job {job_id!r}")
    job = service.database.read(find_job, job_id).job
    form.values = {**form.values, **fill({**job.spec, "priority": job.priority})}
    title = f"This is {name_of(job)} once more"
    if _digest(form.values) == job.spec_digest:
        form.notice = ("info", title, "Unchanged, it finds the same: what is stored already is used again.")
    else:
        text = "It was made by another version, and not all of it fits this form. Look through it before you submit it."
        form.notice = ("warning", title, text)


def _digest(values: Mapping[str, str]) -> str | None:
    asked, _ = request_of(values)
    return None if asked is None else asked.spec.digest


def _new_key() -> str:
    return secrets.token_urlsafe(16)
