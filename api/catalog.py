"""What can be profiled: built-in targets, drafts and domains, and the users' own under short names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from flask import Response, g
from pydantic import BaseModel
from sqlalchemy.orm import Session

from api.auth import current_principal
from api.paging import PageQuery, bad_cursor, json_response, make_cursor, page_of, read_cursor
from api.routes import PREFIX, Answer, Routes
from api.sections import checked_domain, checked_draft, checked_target, is_built_in
from api.service import Service, current_service
from models.accounts import Principal
from models.audit import record
from models.catalog import Domain, Draft, Target, add_entry, delete_entry, entries
from models.errors import Conflict
from skipmap.calibration.domains import preset, preset_names
from skipmap.client.documents import DomainRequest, DraftRequest, EntryView, Page, TargetRequest
from skipmap.drafts.registry import draft_names, draft_type
from skipmap.errors import InvalidInput
from skipmap.target.known import KNOWN_TARGETS

routes = Routes("catalog")
Entry = Target | Draft | Domain
Checked = Callable[[Service, Any], BaseModel]


@dataclass(frozen=True)
class Section:
    """One of the three kinds. ``checked``: the definition as it is stored, after all checks."""

    name: str
    table: type[Any]
    built_in: Callable[[], list[EntryView]]
    checked: Checked

    @property
    def plural(self) -> str:
        """As addresses name it."""
        return self.name + "s"


def _built_in_targets() -> list[EntryView]:
    return [
        EntryView(name=name, built_in=True, definition={"id": name}, description=known.file_name)
        for name, known in KNOWN_TARGETS.items()
    ]


@cache
def _built_in_drafts() -> list[EntryView]:
    return [
        EntryView(
            name=name,
            built_in=True,
            definition={"method": name},
            description=draft_type(name).summary,
            parameters=draft_type(name).params_type.model_json_schema(),
        )
        for name in draft_names()
    ]


def _built_in_domains() -> list[EntryView]:
    found = {name: preset(name) for name in preset_names()}
    return [
        EntryView(
            name=name,
            built_in=True,
            definition={"name": name, "metric": known.metric, "template": known.template},
            description=known.help,
        )
        for name, known in found.items()
    ]


def _checked_target(service: Service, request: TargetRequest) -> BaseModel:
    return checked_target(request.definition, service.library.model_roots)


def _checked_draft(service: Service, request: DraftRequest) -> BaseModel:
    return checked_draft(request.definition, service.library.model_roots)


def _checked_domain(service: Service, request: DomainRequest) -> BaseModel:
    if request.definition.name != request.name:
        raise InvalidInput(
            "definition.name",
            f"{request.definition.name!r} given; must be {request.name!r}, the domain's name",
        )
    checked_domain(request.definition)
    return request.definition


TARGETS = Section("target", Target, _built_in_targets, _checked_target)
DRAFTS = Section("draft", Draft, _built_in_drafts, _checked_draft)
DOMAINS = Section("domain", Domain, _built_in_domains, _checked_domain)

_PAGE = {200: Answer("A page of entries by name", Page[EntryView], headers=("Link",))}
_NEW = {201: Answer("The new entry", EntryView, headers=("Location",))}
_GONE = {204: Answer("The entry is gone; jobs keep their own copy")}


@routes.add("GET", "/targets", access="jobs:read", query=PageQuery, answers=_PAGE)
def get_targets(query: PageQuery) -> Response:
    """List targets: built-in ones and the users' own."""
    return _listed(TARGETS, query)


@routes.add("POST", "/targets", access="jobs:write", body=TargetRequest, answers=_NEW, problems=(409,))
def create_target(body: TargetRequest) -> Response:
    """Give a target a short name, for job specs to use as `target.id`."""
    return _created(TARGETS, body)


@routes.add("DELETE", "/targets/<name:name>", access="jobs:write", answers=_GONE, problems=(409,))
def delete_target(name: str) -> Response:
    """Remove a target's short name."""
    return _removed(TARGETS, name)


@routes.add("GET", "/drafts", access="jobs:read", query=PageQuery, answers=_PAGE)
def get_drafts(query: PageQuery) -> Response:
    """List draft methods with their parameters, and the users' own names."""
    return _listed(DRAFTS, query)


@routes.add("POST", "/drafts", access="jobs:write", body=DraftRequest, answers=_NEW, problems=(409,))
def create_draft(body: DraftRequest) -> Response:
    """Give a draft method with parameters a short name, for job specs to use as `draft.method`."""
    return _created(DRAFTS, body)


@routes.add("DELETE", "/drafts/<name:name>", access="jobs:write", answers=_GONE, problems=(409,))
def delete_draft(name: str) -> Response:
    """Remove a draft's short name."""
    return _removed(DRAFTS, name)


@routes.add("GET", "/domains", access="jobs:read", query=PageQuery, answers=_PAGE)
def get_domains(query: PageQuery) -> Response:
    """List domains: presets and the users' own."""
    return _listed(DOMAINS, query)


@routes.add("POST", "/domains", access="jobs:write", body=DomainRequest, answers=_NEW, problems=(409,))
def create_domain(body: DomainRequest) -> Response:
    """Add a kind of traffic, for job specs to use as `domain.name`."""
    return _created(DOMAINS, body)


@routes.add("DELETE", "/domains/<name:name>", access="jobs:write", answers=_GONE, problems=(409,))
def delete_domain(name: str) -> Response:
    """Remove a domain of one's own."""
    return _removed(DOMAINS, name)


def all_entries(session: Session, section: Section) -> list[EntryView]:
    """Built-in entries and own ones, by name."""
    return sorted(
        [*section.built_in(), *map(_own, entries(session, section.table))], key=lambda view: view.name
    )


def create_entry(
    service: Service,
    principal: Principal,
    section: Section,
    request: TargetRequest | DraftRequest | DomainRequest,
    request_id: str | None = None,
) -> EntryView:
    """Check a definition whole and store it; raises InvalidInput, and Conflict when the name is taken."""
    if is_built_in(section.name, request.name):
        raise Conflict(
            f"{request.name!r} is the name of a built-in {section.name}; choose another", "built in"
        )
    try:
        definition: Mapping[str, Any] = section.checked(service, request).model_dump(exclude_unset=True)
    except InvalidInput as error:
        # The checks speak of a job's sections.
        field = error.field
        if field.startswith(f"{section.name}."):
            field = "definition" + field.removeprefix(section.name)
        raise InvalidInput(field, error.problem) from None

    def work(session: Session) -> EntryView:
        row = add_entry(session, section.table, request.name, definition, principal.user_id)
        record(session, principal.user_id, f"{section.name}.create", request.name, request_id)
        return _own(row)

    return service.database.transaction(work)


def _own(row: Entry) -> EntryView:
    return EntryView(name=row.name, built_in=False, definition=row.definition, created_at=row.created_at)


def _listed(section: Section, query: PageQuery) -> Response:
    after = read_cursor(query.cursor, section.plural)
    if after is not None and not isinstance(after, str):
        raise bad_cursor()
    found = current_service().database.read(all_entries, section)
    rest = found if after is None else [view for view in found if view.name > after]
    page = rest[: query.limit]
    more = len(rest) > query.limit
    return page_of(page, make_cursor(section.plural, page[-1].name) if more else None)


def _created(section: Section, body: TargetRequest | DraftRequest | DomainRequest) -> Response:
    view = create_entry(current_service(), current_principal(), section, body, g.request_id)
    return json_response(view, 201, {"Location": f"{PREFIX}/{section.plural}/{view.name}"})


def _removed(section: Section, name: str) -> Response:
    if is_built_in(section.name, name):
        raise Conflict(f"{name!r} is a built-in {section.name} and stays", "built in")
    actor, request_id = current_principal().user_id, g.request_id

    def work(session: Session) -> None:
        delete_entry(session, section.table, name)
        record(session, actor, f"{section.name}.delete", name, request_id)

    current_service().database.transaction(work)
    return Response(status=204)
