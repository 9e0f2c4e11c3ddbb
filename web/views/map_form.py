"""The form that publishes: what it holds, and the request that it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError
from werkzeug.datastructures import MultiDict

from api.service import Service
from models.base import clean, new_id
from models.map_jobs import jobs_with
from models.maps import NAME_PATTERN
from skipmap.canonical import bad_text
from skipmap.client.maps import MOST_JOBS, PublishRequest
from skipmap.errors import InvalidInput
from skipmap.maps.router import MAX_ROUTER_BYTES, RouterDocument, read_router
from skipmap.maps.schema import MAX_REASON_CHARACTERS
from skipmap.maps.strict import read_json
from web.forms.text import shortened
from web.views.map_offers import Offer, point_of, read_offer

NEW = "*"
"""Chosen in place of a map that is there."""

MOST_KEPT_CHARACTERS = 120_000
"""A router that is larger does not stay in the form: browsers send forms with every change."""

_KEY_CHARACTERS = 64


@dataclass(frozen=True)
class PublishForm:
    """What was filled in. ``points`` and ``overrides`` are by job; ``router``: the document's JSON text."""

    map_name: str = ""
    new_name: str = ""
    jobs: Sequence[str] = ()
    points: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, str] = field(default_factory=dict)
    router: str = ""
    key: str = field(default_factory=new_id)
    """Sent twice, the form makes one version."""

    @property
    def name(self) -> str:
        """The map that the version is for."""
        return self.new_name if self.map_name in ("", NEW) else self.map_name

    @property
    def kept_router(self) -> str:
        """The router as far as the form keeps it."""
        return self.router if len(self.router) <= MOST_KEPT_CHARACTERS else ""

    def with_map_of(self, known: Sequence[str]) -> PublishForm:
        """The form with a map chosen, where none is: a new one when a name is typed, or the only one that is known."""
        if self.map_name or not known:
            return self
        if self.new_name:
            return replace(self, map_name=NEW)
        return replace(self, map_name=known[0]) if len(known) == 1 else self

    def with_jobs(self, jobs: Sequence[str], points: Mapping[str, str] | None = None) -> PublishForm:
        """The form with other jobs, each once."""
        return replace(self, jobs=tuple(dict.fromkeys(jobs)), points={**self.points, **(points or {})})

    def override_of(self, job_id: str) -> str:
        """The reason that was given for a job's domain."""
        return self.overrides.get(job_id, "")


def form_of_address(given: MultiDict[str, str]) -> PublishForm:
    """The form that an address asks for: ``map``, and ``job`` again and again, each with its ``point`` if given.

    A point is a name, or layers such as 3,7.
    """
    _check_text(given)
    jobs = given.getlist("job")
    points: dict[str, str] = {}
    for job, point in zip(jobs, given.getlist("point"), strict=False):
        # A job that is named twice counts as it is named first.
        points.setdefault(job, point.replace(",", "-"))
    return PublishForm(map_name=given.get("map", ""), jobs=tuple(dict.fromkeys(jobs)), points=points)


def read_form(given: MultiDict[str, str], upload: bytes) -> PublishForm:
    """The form as it was sent; ``upload``: the router's file. Raises InvalidInput naming the form's field."""
    _check_text(given)
    return PublishForm(
        map_name=given.get("map", ""),
        new_name=given.get("new_name", "").strip(),
        jobs=tuple(dict.fromkeys(given.getlist("job"))),
        points=_by_job(given, "point."),
        overrides=_by_job(given, "override."),
        router=_router_text(upload) if upload else given.get("router_text", ""),
        key=given.get("key", "")[:_KEY_CHARACTERS] or new_id(),
    )


def mended(given: MultiDict[str, str]) -> MultiDict[str, str]:
    """The same fields with a mark in place of each character that is no valid text."""
    return MultiDict([(clean(name), clean(value)) for name, value in given.items(multi=True)])


def read_offers(service: Service, form: PublishForm) -> tuple[list[Offer], dict[str, str]]:
    """What the form's jobs offer, and by the form's field why some of them offer nothing."""
    asked = form.jobs[:MOST_JOBS]
    jobs = service.database.read(jobs_with, asked)
    found: list[Offer] = []
    problems: dict[str, str] = {}
    if len(form.jobs) > MOST_JOBS:
        problems["add"] = f"A map takes {MOST_JOBS} jobs, so those after the first {MOST_JOBS} were left out."
    for job_id in asked:
        job = jobs.get(job_id)
        if job is None:
            problems["add"] = f"There is no job {shortened(job_id)}, so it was left out. Choose another one."
            continue
        try:
            offer = read_offer(service, job, form.points.get(job_id))
        except InvalidInput as error:
            problems["add"] = f"What job {job_id} found fits no map, so it was left out: {error}"
            continue
        if offer is None:
            problems["add"] = (
                f"job {job_id} is {job.state} and has no result, so it was left out. A job must have succeeded."
            )
            continue
        found.append(offer)
    return found, problems


def checked_name(form: PublishForm) -> str:
    """The map's name; raises InvalidInput."""
    name = form.name
    where = "new_name" if form.map_name in ("", NEW) else "map"
    if not name:
        raise InvalidInput(where, "Choose a map, or name a new one")
    if not re.fullmatch(NAME_PATTERN, name):
        raise InvalidInput(
            where,
            f"{name!r} is no name; give small letters, digits, dots, dashes and underscores, at most 64, a letter or "
            "digit first",
        )
    return name


def make_request(form: PublishForm, offers: Sequence[Offer]) -> PublishRequest:
    """What the form asks for; raises InvalidInput naming the form's field."""
    if not offers:
        raise InvalidInput("add", "Add at least one job")
    fields: dict[str, Any] = {
        "jobs": [{"job": one.job.id, "point": point_of(chosen(form, one))} for one in offers],
        "override": {
            one.domain: form.overrides[one.job.id] for one in offers if form.overrides.get(one.job.id)
        },
    }
    for one in offers:
        if len(form.override_of(one.job.id)) > MAX_REASON_CHARACTERS:
            raise InvalidInput(f"override.{one.job.id}", f"give at most {MAX_REASON_CHARACTERS} characters")
    if form.router:
        fields["router"] = read_json(form.router.encode(), "router", MAX_ROUTER_BYTES)
        if not isinstance(fields["router"], dict):
            raise InvalidInput(
                "router", "is no JSON object; give the document that skipmap router train writes"
            )
    try:
        return PublishRequest.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        raise InvalidInput(".".join(map(str, problem["loc"])), problem["msg"]) from None


def chosen(form: PublishForm, offer: Offer) -> str:
    """The value of the point that is chosen for a job."""
    return offer.choice(form.points.get(offer.job.id)).value


def checked_router(form: PublishForm) -> RouterDocument | None:
    """The router of the form; raises InvalidInput."""
    return read_router(form.router.encode()) if form.router else None


def form_field(field_name: str, offers: Sequence[Offer]) -> str:
    """The form's field for one of the API; empty for what no field can mend."""
    part, _, rest = field_name.partition(".")
    if part == "jobs":
        at, _, what = rest.partition(".")
        known = at.isdigit() and int(at) < len(offers)
        kind = "point" if what.startswith("point") else "job"
        return f"{kind}.{offers[int(at)].job.id}" if known else "add"
    if part == "override":
        job = next((one.job.id for one in offers if one.domain == rest), None)
        return "" if job is None else f"override.{job}"
    return part if part in ("router", "new_name", "map", "add", "point") else ""


def _by_job(given: MultiDict[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): given[name].strip() for name in given if name.startswith(prefix)}


def _check_text(given: MultiDict[str, str]) -> None:
    if bad_text(given.to_dict(flat=False)) is not None:
        raise InvalidInput("form", "holds characters that are no valid text; type them again")


def _router_text(data: bytes) -> str:
    if len(data) > MAX_ROUTER_BYTES:
        raise InvalidInput("router", f"the file has {len(data)} bytes; at most {MAX_ROUTER_BYTES} are taken")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(
            "router", "the file is no UTF-8 text; give the JSON of skipmap router train"
        ) from None
