"""The domain map ``skipmap.map/1``: what a serving node may skip, per domain."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from skipmap.canonical import canonical_json, digest
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.gain import expected_speedup
from skipmap.maps.points import (
    SELECTED,
    Point,
    by_domain,
    chosen_reason,
    chosen_skip,
    held_out_point,
    known_domains,
)
from skipmap.maps.router import RouterDocument
from skipmap.maps.schema import SCHEMA, read_map
from skipmap.maps.verdict import is_certain
from skipmap.skipset import SkipSet

_SHARED = (("target", "fingerprint"), ("draft", "method"), ("draft", "params"), ("draft", "fingerprint"))


def build_map(
    results: Sequence[Mapping[str, Any]],
    name: str,
    *,
    version: int | None = None,
    points: Mapping[str, Point] | None = None,
    jobs: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    router: RouterDocument | None = None,
    created_at: datetime | None = None,
) -> dict[str, Any]:
    """A map of one operating point of each result, one result a domain.

    ``points`` (default: the selected one), ``jobs`` (ids) and ``overrides`` (reasons, see ``skipmap.maps.gate``) are
    by domain. Without a version it is a local map, which carries its own digest.
    Raises InvalidInput when there is no result, or results differ in target or draft, or name a domain twice.
    """
    points, jobs, overrides = points or {}, jobs or {}, overrides or {}
    domains = by_domain(results)
    for field, given in (("points", points), ("jobs", jobs), ("overrides", overrides)):
        known_domains(given, domains, field)
    (of, first), *others = domains.items()
    for domain, result in others:
        for part, key in _SHARED:
            if result[part][key] != first[part][key]:
                raise InvalidInput(
                    f"{part}.{key}",
                    f"differs between the results of {of!r} ({first[part][key]!r}) and {domain!r} "
                    f"({result[part][key]!r}); a map is of one target and one draft method, make another map of the "
                    "rest",
                )
    target = first["target"]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "version": version,
        "created_at": (created_at or datetime.now(UTC)).isoformat(timespec="seconds"),
        "target": {key: target[key] for key in ("id", "revision", "fingerprint", "num_layers")},
        "draft": {key: first["draft"][key] for key in ("method", "params", "fingerprint")}
        | ({"lossy": True} if first["draft"]["lossy"] else {}),
        "domains": {
            domain: _domain(result, points.get(domain, SELECTED), f"points.{domain}")
            | {"job": jobs.get(domain), "override": overrides.get(domain)}
            for domain, result in domains.items()
        },
        "fallback": {"skip": []},
        "router": router.to_json() if router else None,
    }
    read_map(document_bytes(document))
    return document if version is not None else document | {"digest": digest(document)}


def document_bytes(document: Mapping[str, Any]) -> bytes:
    """The bytes of a document that are stored, served and signed: canonical JSON in UTF-8."""
    return canonical_json(document).encode()


def digest_of(data: bytes) -> str:
    """Sha256 (hex) of stored bytes."""
    return hashlib.sha256(data).hexdigest()


def local_digest(document: Mapping[str, Any]) -> str:
    """The digest that a local map with this content carries."""
    return digest({key: value for key, value in document.items() if key != "digest"})


def skip_for(document: Mapping[str, Any], domain: str) -> SkipSet:
    """The skip set that a map gives a domain; raises NotFound naming the domains there are."""
    if document.get("schema") != SCHEMA:
        raise InvalidInput("map", f"schema is {document.get('schema')!r}, not {SCHEMA!r}")
    domains = document["domains"]
    if domain not in domains:
        raise NotFound(f"domain {domain!r} is not in the map; it has {', '.join(sorted(domains)) or 'none'}")
    entry = domains[domain]
    blocks = entry.get("skip") if isinstance(entry, Mapping) else None
    if not isinstance(blocks, list) or not all(type(block) is int for block in blocks):
        raise InvalidInput("map", f"domain {domain!r} has no list of block indices (skip: {blocks!r})")
    return SkipSet.of(blocks)


def _domain(result: Mapping[str, Any], point: Point, field: str) -> dict[str, Any]:
    chosen = chosen_skip(result, point, field).to_list()
    rows = {tuple(row["skip"]): row for row in result["evaluations"]}
    others = [skip for skip in result["front"] if skip != chosen]
    return _figures(result, rows.get(tuple(chosen))) | {
        "alternatives": [_figures(result, rows[tuple(skip)]) for skip in others],
        "reason": chosen_reason(result, point),
        "result": result["search_digest"],
    }


def _figures(result: Mapping[str, Any], row: Mapping[str, Any] | None) -> dict[str, Any]:
    dense = result["dense"]
    chosen = dense if row is None else row
    skip, cost = chosen["skip"], chosen["cost_ratio"]
    return {
        "skip": skip,
        "sparsity": len(skip) / result["target"]["num_layers"],
        "accept_length": {"dense": dense["accept_length"], "sparse": chosen["accept_length"]},
        "metric": {"name": result["metric"]["name"], "dense": dense["metric"], "sparse": chosen["metric"]},
        "cost_ratio": cost,
        "speedup": expected_speedup(dense["accept_length"], chosen["accept_length"], cost),
        "held_out": _held_out(result, skip),
    }


def _held_out(result: Mapping[str, Any], skip: Sequence[int]) -> dict[str, Any] | None:
    point = held_out_point(result, SkipSet.of(skip))
    if point is None:
        return None
    dense = result["held_out"]["dense"]
    return {
        "n": result["data"]["n_held_out"],
        "accept_length": {"dense": dense["accept_length"], "sparse": point["accept_length"]},
        "metric": {"dense": dense["metric"], "sparse": point["metric"]},
        "speedup": point["speedup"],
        "intervals": point["intervals"],
        "passes_gate": point["passes_gate"],
        "certain": is_certain(result, point),
    }
