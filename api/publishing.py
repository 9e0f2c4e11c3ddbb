"""Publishing: from finished jobs to a version of a map, and from a version to a channel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from api.greenlets import aside
from api.map_views import move_view, version_view
from api.service import Service
from models.accounts import Principal
from models.audit import record
from models.base import new_id
from models.errors import Conflict
from models.failpoints import reach
from models.findings import finding
from models.jobs import Job
from models.maps import NewVersion, add_version, find_map, published
from models.moves import Order, move
from skipmap.canonical import digest
from skipmap.client.maps import JobPoint, MoveRequest, MoveView, PublishRequest, VersionView
from skipmap.errors import InvalidInput, NotFound, choices
from skipmap.maps.document import build_map, document_bytes
from skipmap.maps.gate import check_points
from skipmap.maps.points import Point, chosen_skip
from skipmap.maps.router import MAX_ROUTER_BYTES, RouterDocument, read_router
from skipmap.skipset import SkipSet

_SUMMARY = ("target", "draft")


@dataclass(frozen=True)
class _Chosen:
    """Results of the jobs of a request with their points, all by domain; ``fields``: where the request names them."""

    results: Sequence[Mapping[str, Any]]
    points: Mapping[str, Point]
    jobs: Mapping[str, str]
    fields: Mapping[str, str]


def publish(
    service: Service,
    principal: Principal,
    name: str,
    request: PublishRequest,
    idempotency_key: str | None = None,
    request_id: str | None = None,
) -> tuple[VersionView, bool]:
    """Check and store the next version of a map; returns it and whether it is new.

    A request that came with the same key before gets its version. Without a key every request makes a version, also
    one with the same content. Raises InvalidInput naming the field, Conflict for a job that has not succeeded,
    GateRefused with figures where the held-out check refuses a point, KeyReused and Unavailable.
    """
    request_hash = digest(request.model_dump(mode="json", exclude_unset=True))
    publication = new_id() if idempotency_key is None else _publication(principal, idempotency_key)
    if idempotency_key is not None:
        first = service.database.read(published, name, publication, request_hash)
        if first is not None:
            return version_view(first), False
    # One job at a time: a single large result is ever held whole.
    chosen = _chosen(request, [_needed(service, at, job) for at, job in enumerate(request.jobs)])
    # Other requests go on meanwhile: a large router takes about a second.
    new = aside(lambda: _checked(name, request, chosen), 0 if request.router is None else MAX_ROUTER_BYTES)

    def work(session: Session) -> tuple[VersionView, bool]:
        row, is_new = add_version(
            session,
            name,
            new,
            publication=publication,
            request_hash=request_hash,
            created_by=principal.user_id,
        )
        if is_new:
            subject = f"{name}/{row.version}"
            record(
                session,
                principal.user_id,
                "map.publish",
                subject,
                request_id,
                digest=row.digest,
                jobs=row.jobs,
            )
            for domain, reason in row.overrides.items():
                record(
                    session,
                    principal.user_id,
                    "map.override",
                    subject,
                    request_id,
                    domain=domain,
                    reason=reason,
                )
        reach("api.before_commit")
        return version_view(row), is_new

    stored = service.database.transaction(work)
    reach("api.after_commit")
    return stored


def move_channel(
    service: Service,
    principal: Principal,
    name: str,
    channel: str,
    request: MoveRequest,
    fits: Callable[[int | None], bool],
    request_id: str | None = None,
) -> MoveView:
    """Let a channel point to another version, an older one as well; ``fits``: whether it may follow this sequence.

    Raises NotFound for an unknown map, InvalidInput for an unknown version, Stale when the channel is elsewhere by now,
    and ProblemError without a key.
    """
    keys = service.envelopes.signer.keys()
    order = Order(
        map_name=name,
        channel=channel,
        version=request.version,
        reason=request.reason.strip(),
        actor=principal.user_id,
        id=new_id(),
        fits=fits,
    )

    def work(session: Session) -> MoveView:
        find_map(session, name)
        try:
            row, is_new = move(session, keys, service.envelopes.validity_seconds, order)
        except NotFound as error:
            raise InvalidInput("version", str(error)) from None
        if is_new:
            record(
                session,
                principal.user_id,
                "channel.move",
                f"{name}/{channel}",
                request_id,
                sequence=row.sequence,
                from_version=row.from_version,
                to_version=row.to_version,
                reason=row.reason,
            )
        reach("api.before_commit")
        return move_view(row, principal.user_name)

    moved = service.database.transaction(work)
    reach("api.after_commit")
    return moved


def _publication(principal: Principal, key: str) -> str:
    return hashlib.sha256(f"{principal.user_id} {key}".encode()).hexdigest()


def _result(session: Session, at: int, chosen: JobPoint) -> dict[str, Any]:
    job = session.get(Job, chosen.job)
    if job is None:
        raise InvalidInput(
            f"jobs.{at}.job", f"there is no job {chosen.job!r}; list the jobs to see their ids"
        )
    found = finding(session, job.id, "result") if job.state == "succeeded" else None
    if found is None:
        raise Conflict(
            f"job {job.id} is {job.state}; only what a job that has succeeded found can be published",
            job.state,
        )
    document: dict[str, Any] = found["document"]
    return document


def _needed(service: Service, at: int, chosen: JobPoint) -> dict[str, Any]:
    """The result of a job whose point is feasible, with the rows that a map shows alone: there may be 20,000 others."""
    result = service.database.read(_result, at, chosen)
    field = f"jobs.{at}.point"
    skip = chosen_skip(result, chosen.point, field)
    _must_be_feasible(result, skip, field)
    shown = {skip.blocks, *map(tuple, result["front"])}
    rows = [row for row in result["evaluations"] if tuple(row["skip"]) in shown]
    return {**result, "evaluations": rows}


def _chosen(request: PublishRequest, results: Sequence[Mapping[str, Any]]) -> _Chosen:
    domains = [result["spec"]["domain"]["name"] for result in results]
    for at, domain in enumerate(domains):
        if domain in domains[:at]:
            raise InvalidInput(
                f"jobs.{at}.job", f"its domain {domain!r} is that of another job; give one job a domain"
            )
    return _Chosen(
        results=results,
        points={domain: chosen.point for domain, chosen in zip(domains, request.jobs, strict=True)},
        jobs={domain: chosen.job for domain, chosen in zip(domains, request.jobs, strict=True)},
        fields={domain: f"jobs.{at}.point" for at, domain in enumerate(domains)},
    )


def _checked(name: str, request: PublishRequest, chosen: _Chosen) -> NewVersion:
    """The version that a request makes, after all checks."""
    try:
        router = None if request.router is None else _router(request.router, chosen)
        overrides = check_points(chosen.results, chosen.points, request.override)
        document = build_map(
            chosen.results,
            name,
            version=1,
            points=chosen.points,
            jobs=chosen.jobs,
            overrides=overrides,
            router=router,
            created_at=datetime.now(UTC),
        )
    except InvalidInput as error:
        # The checks speak of a map's parts.
        part, _, rest = error.field.partition(".")
        fields = {"points": chosen.fields.get(rest), "overrides": f"override.{rest}"}
        raise InvalidInput(fields.get(part) or error.field, error.problem) from None
    return NewVersion(
        write=lambda number: document_bytes({**document, "version": number}),
        summary={
            **{part: document[part] for part in _SUMMARY},
            "domains": {domain: _without_others(entry) for domain, entry in document["domains"].items()},
            "has_router": router is not None,
        },
        jobs=chosen.jobs,
        overrides=overrides,
    )


def _must_be_feasible(result: Mapping[str, Any], skip: SkipSet, field: str) -> None:
    row = next((row for row in result["evaluations"] if tuple(row["skip"]) == skip.blocks), None)
    if row is not None and not row["feasible"]:
        dense, search = result["dense"], result["spec"]["search"]
        measure = "accepted_drafts" if search["accept_measure"] == "accepted_drafts" else "accept_length"
        raise InvalidInput(
            field,
            f"{skip} is not feasible: {measure} {row[measure]:.4f} (floor {(1 - search['eps']) * dense[measure]:.4f}), "
            f"{result['metric']['name']} {row['metric']:.4f} (floor {(1 - search['tau']) * dense['metric']:.4f}); "
            "choose a feasible configuration, or dense",
        )


def _router(given: Mapping[str, Any], chosen: _Chosen) -> RouterDocument:
    router = read_router(given)
    stray = sorted(router.domains.keys() - chosen.jobs.keys())
    if stray:
        raise InvalidInput(
            f"router.domains.{stray[0]}", f"the map has no such domain; it has {choices(chosen.jobs)}"
        )
    fingerprint = chosen.results[0]["target"]["fingerprint"]
    if router.target_fingerprint not in (None, fingerprint):
        raise InvalidInput(
            "router.target_fingerprint",
            f"{router.target_fingerprint!r} given, but the jobs' target is {fingerprint!r}; train the router with it",
        )
    return router


def _without_others(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "alternatives"}
