"""The domain map ``skipmap.map/1``: what a serving node may skip, per domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from skipmap.canonical import digest
from skipmap.errors import InvalidInput, NotFound
from skipmap.maps.gain import expected_speedup
from skipmap.skipset import SkipSet

SCHEMA = "skipmap.map/1"
_SHARED = (("target", "fingerprint"), ("draft", "method"), ("draft", "params"), ("draft", "fingerprint"))


def build_map(results: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """An unsigned map of the selected operating points of one or more results, one result a domain.

    Raises InvalidInput when there is no result, or results differ in target or draft, or name a domain twice.
    """
    if not results:
        raise InvalidInput("domains", "no result is given; give at least one")
    first = results[0]
    domains: dict[str, Any] = {}
    for result in results:
        domain = result["spec"]["domain"]["name"]
        if domain in domains:
            raise InvalidInput("domains", f"{domain!r} is given twice; give one result a domain")
        for part, key in _SHARED:
            if result[part][key] != first[part][key]:
                raise InvalidInput(
                    f"{part}.{key}",
                    f"differs between results ({result[part][key]!r} and {first[part][key]!r})",
                )
        domains[domain] = _domain(result)
    target = first["target"]
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "name": name,
        "version": None,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "target": {key: target[key] for key in ("id", "revision", "fingerprint", "num_layers")},
        "draft": {key: first["draft"][key] for key in ("method", "params", "fingerprint")},
        "domains": domains,
        "fallback": {"skip": []},
    }
    return document | {"digest": digest(document)}


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


def _domain(result: Mapping[str, Any]) -> dict[str, Any]:
    selected = result["selected"]
    rows = {tuple(row["skip"]): row for row in result["evaluations"]}
    entry = _figures(result, rows.get(tuple(selected)))
    others = [skip for skip in result["front"] if skip != selected]
    return entry | {
        "alternatives": [_figures(result, rows[tuple(skip)]) for skip in others],
        "reason": result["reason"],
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
    checked = result["held_out"]
    point = next((p for p in checked["points"] if p["skip"] == list(skip)), None)
    if point is None:
        return None
    dense = checked["dense"]
    return {
        "n": result["data"]["n_held_out"],
        "accept_length": {"dense": dense["accept_length"], "sparse": point["accept_length"]},
        "metric": {"dense": dense["metric"], "sparse": point["metric"]},
        "speedup": point["speedup"],
        "intervals": point["intervals"],
        "passes_gate": point["passes_gate"],
    }
