"""The page that publishes: from finished jobs and their operating points to the next version of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from flask import Response, g, request, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response as BaseResponse

from api.greenlets import aside
from api.map_views import version_view
from api.publishing import publish
from api.service import current_service
from models.base import new_id
from models.errors import Conflict, KeyReused
from models.jobs import Job
from models.map_jobs import list_candidates
from models.maps import list_maps, list_versions
from models.queries import job_marks
from skipmap.client.maps import MOST_JOBS, VersionView
from skipmap.errors import InvalidInput
from skipmap.maps.gate import GateRefused
from skipmap.maps.router import MAX_ROUTER_BYTES
from web.forms.text import shortened
from web.guard import service_and_principal
from web.rendering import done, refused, render
from web.routes import Pages
from web.views.map_figures import figures
from web.views.map_form import (
    MOST_KEPT_CHARACTERS,
    NEW,
    PublishForm,
    checked_name,
    chosen,
    form_field,
    form_of_address,
    make_request,
    mended,
    read_form,
    read_offers,
)
from web.views.map_offers import Offer, skip_value
from web.views.map_preview import make_preview
from web.views.map_versions import confusion_rows

pages = Pages()
_TEMPLATE = "maps/publish.html"
_MOST_OFFERED = 100
_REMOVE = "remove:"


@dataclass(frozen=True)
class _Around:
    """What there is beside the form: maps to choose from, the newest version of the chosen one, jobs to add.

    ``form``: with the map chosen that it can only be. ``more_maps`` and ``more_candidates``: whether there are others
    than those that are listed.
    """

    form: PublishForm
    maps: Sequence[tuple[str, str]]
    more_maps: bool
    newest: VersionView | None
    candidates: Sequence[Job]
    more_candidates: bool


@pages.get("/publish", access="maps:publish")
def publish_map() -> Response:
    """The form, with the jobs that the address names."""
    form = form_of_address(request.args)
    return _show(form, *read_offers(current_service(), form))


@pages.post("/publish", access="maps:publish", upload=True)
def publish_map_now() -> BaseResponse:
    """Publish, or change the form's jobs and show it again."""
    service, what = current_service(), request.form.get("do", "publish")
    try:
        form = read_form(request.form, _upload())
    except InvalidInput as error:
        form = read_form(mended(request.form), b"")
        return _show(form, *read_offers(service, form), _named(error, ()))
    offers, problems = read_offers(service, form)
    if what == "publish" and not problems:
        return _published(form, offers)
    changed = _changed(form, offers, what)
    if changed is not form:
        offers, problems = read_offers(service, changed)
    return _show(changed, offers, problems)


@pages.post("/publish/summary", access="maps:publish")
def preview_version() -> Response:
    """What the version will hold, as the form stands."""
    form = read_form(request.form, b"")
    offers, _ = read_offers(current_service(), form)
    return render(_TEMPLATE, errors={}, **_context(form, offers))


def _upload() -> bytes:
    """The router's file as far as it may be one, empty when none was chosen."""
    file = request.files.get("router")
    if file is None:
        return b""
    with closing(file):
        found: bytes = file.read(MAX_ROUTER_BYTES + 1)
    return found


def _published(form: PublishForm, offers: Sequence[Offer]) -> BaseResponse:
    service, principal = service_and_principal()
    try:
        name = checked_name(form)
        # A large router takes long to be read.
        wanted = aside(lambda: make_request(form, offers), len(form.router))
        view, is_new = publish(service, principal, name, wanted, form.key, g.request_id)
    except GateRefused as refusal:
        jobs = {offer.domain: offer.job.id for offer in offers}
        found = {
            f"override.{jobs[domain]}": f"{domain}: {problem}. Choose another point, or say why it shall be "
            "published all the same."
            for domain, problem in refusal.problems.items()
        }
        return _show(form, offers, {}, found, status=409)
    except InvalidInput as error:
        return _show(form, offers, {}, _named(error, offers))
    except Conflict as error:
        return _show(form, offers, {}, {"": str(error)}, status=409)
    except KeyReused:
        problem = "This form has made a version before, with other choices. Publish again to make one more."
        return _show(replace(form, key=new_id()), offers, {}, {"": problem}, status=409)
    told = (
        f"Version {view.version} of {name} is published"
        if is_new
        else f"This form has made version {view.version}"
    )
    return done(
        f"{told}. No node runs it before a channel points to it.",
        url_for("show_version", name=name, version=view.version),
    )


def _named(error: InvalidInput, offers: Sequence[Offer]) -> dict[str, str]:
    """A problem at the field of the form that can mend it."""
    field = form_field(error.field, offers)
    return {field: error.problem if field else str(error)}


def _show(
    form: PublishForm,
    offers: Sequence[Offer],
    problems: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
    status: int = 422,
) -> Response:
    """The form; ``problems``: of its jobs, ``errors``: of what it asked for."""
    found = {**problems, **(errors or {})}
    context = _context(form, offers)
    if found:
        return refused(_TEMPLATE, found, status=status, **context)
    return render(_TEMPLATE, errors={}, **context)


def _context(form: PublishForm, offers: Sequence[Offer]) -> dict[str, Any]:
    around = current_service().database.read(_around, form, offers)
    form = around.form
    preview = make_preview(form, offers, around.newest)
    return {
        "section": "maps",
        "form": form,
        "offers": offers,
        "chosen": {offer.job.id: chosen(form, offer) for offer in offers},
        "around": around,
        "preview": preview,
        "confusion_rows": confusion_rows(preview.confusion) if preview.confusion is not None else [],
        "figures": figures,
        "new": NEW,
        "most_kept": MOST_KEPT_CHARACTERS,
        "most_router_bytes": MAX_ROUTER_BYTES,
    }


def _around(session: Session, form: PublishForm, offers: Sequence[Offer]) -> _Around:
    maps = list_maps(session, limit=_MOST_OFFERED + 1)
    form = form.with_map_of([row.name for row in maps])
    newest = list_versions(session, form.name, limit=1) if form.name else []
    first = offers[0].job if offers else None
    jobs = list_candidates(
        session,
        limit=_MOST_OFFERED + 1,
        # A map is of one target and one draft method.
        target=None if first is None else first.target,
        draft=None if first is None else first.draft,
        without_jobs=form.jobs[:MOST_JOBS],
        without_domains={offer.domain for offer in offers},
    )
    return _Around(
        form=form,
        maps=_with_chosen([row.name for row in maps[:_MOST_OFFERED]], form, is_new=not newest),
        more_maps=len(maps) > _MOST_OFFERED,
        newest=version_view(newest[0]) if newest else None,
        candidates=jobs[:_MOST_OFFERED],
        more_candidates=len(jobs) > _MOST_OFFERED,
    )


def _with_chosen(names: Sequence[str], form: PublishForm, *, is_new: bool) -> list[tuple[str, str]]:
    """Maps with their labels, and the chosen one: without it browsers would choose another one by themselves."""
    chosen = form.map_name
    options = [(name, name) for name in names]
    if chosen in ("", NEW, *names):
        return options
    return sorted([*options, (chosen, f"{shortened(chosen)} (a new map)" if is_new else chosen)])


def _changed(form: PublishForm, offers: Sequence[Offer], what: str) -> PublishForm:
    """The form after one of its smaller buttons."""
    older = request.form.get("older", "").strip()
    if what == "add":
        return form.with_jobs([*form.jobs, *filter(None, (*request.form.getlist("add"), older))])
    if what == "check" and older:
        # Enter in its field checks.
        return form.with_jobs([*form.jobs, older])
    if what == "keep":
        points = current_service().database.read(_lacking, form.name, {offer.domain for offer in offers})
        return form.with_jobs([*form.jobs, *points], points)
    if what == "drop-router":
        return replace(form, router="")
    if what.startswith(_REMOVE):
        return form.with_jobs([job for job in form.jobs if job != what.removeprefix(_REMOVE)])
    return form


def _lacking(session: Session, name: str, here: set[str]) -> dict[str, str]:
    """Points by job of the domains that a map's newest version has beside these, as far as their jobs are there."""
    newest = list_versions(session, name, limit=1) if name else []
    domains = version_view(newest[0]).domains if newest else {}
    points = {
        view.job: skip_value(view.skip)
        for domain, view in domains.items()
        if domain not in here and view.job is not None
    }
    known = job_marks(session, list(points))
    return {job: value for job, value in points.items() if job in known}
